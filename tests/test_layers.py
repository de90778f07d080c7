"""Who may know whom: the layers of csrc/, no state that outlives a run, and one list of native actions.

Read from the source and, where the compiler knows better, from its objects.
"""

import ast
import dataclasses
import inspect
import re
import shlex
import shutil
import subprocess
import sysconfig
from functools import cache
from pathlib import Path

import pytest

import fanwidth as fw
from fanwidth import _core

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
FILES = sorted([*CSRC.rglob("*.c"), *CSRC.rglob("*.h")])
BINDING = CSRC / "binding"
BINDING_FILES = [path for path in FILES if BINDING in path.parents]
ENGINE_FILES = [path for path in FILES if BINDING not in path.parents]
# What decides, counts or stores: it can be tested without a loop, and built without libuv.
PURE = ["arrow", "deadlines", "distribution", "ledger", "memory", "order", "slots", "strategy", "tally"]

# Process-wide, or shared with whoever else uses libuv in this process; the last one takes the GIL on a thread that has no state.
FORBIDDEN = r"uv_(default_loop|signal_\w+|spawn|queue_work|library_shutdown|replace_allocator|set_process_title|setup_args)"
FORBIDDEN += r"|uv_(disable_stdio_inheritance|getaddrinfo|getnameinfo|random|fs_\w+|os_setenv|chdir)"
FORBIDDEN += r"|PyGILState_\w+|signal|sigaction|setenv|putenv|srand|rand|setlocale|atexit|fork"


def name(path: Path) -> str:
    return str(path.relative_to(CSRC))


@cache
def code(path: Path) -> str:
    """Without comments and the contents of strings."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", path.read_text(), flags=re.DOTALL)
    return re.sub(r'(?m)(?<!#include )"(?:\\.|[^"\\\n])*"', '""', text)


@cache
def includes(path: Path) -> frozenset[str]:
    """What the file itself includes: names of the system as <name>, ours as paths below csrc/."""
    found = set()
    for system, ours in re.findall(r'(?m)^\s*#\s*include\s+(?:<([^>]+)>|"([^"]+)")', path.read_text()):
        found.add(f"<{system}>" if system else name((path.parent / ours).resolve()))
    return frozenset(found)


def reaches(path: Path) -> set[str]:
    """The same, with all that those include."""
    found: set[str] = set()
    left = set(includes(path))
    while left:
        one = left.pop()
        found.add(one)
        if not one.startswith("<"):
            left |= includes(CSRC / one) - found
    return found


def calls(path: Path, function: str) -> list[str]:
    return re.findall(rf"\b(?:{function})\s*\(", code(path))


# Layers.


@pytest.mark.parametrize("file", ["strategy.c", "strategy.h"])
def test_strategies_know_neither_clock_nor_python(file: str) -> None:
    assert reaches(CSRC / file) <= {"strategy.h", "<stdint.h>"}


@pytest.mark.parametrize("noun", PURE)
def test_what_decides_does_not_reach_libuv(noun: str) -> None:
    for suffix in (".c", ".h"):
        assert not {"<uv.h>", "<pthread.h>", "clock.h", "run.h", "engine.h"} & reaches(CSRC / f"{noun}{suffix}")


def test_only_one_header_brings_python() -> None:
    assert [name(path) for path in FILES if "<Python.h>" in includes(path)] == ["binding/binding.h"]


def test_nothing_below_the_binding_reaches_it() -> None:
    for path in ENGINE_FILES:
        assert not {one for one in reaches(path) if one == "<Python.h>" or one.startswith("binding/")}, name(path)
        assert not re.search(r"\bPy[A-Z]?\w*_\w+", code(path)), name(path)


def test_actions_know_no_other_action() -> None:
    for path in CSRC.glob("actions/*.c"):
        ours = {one for one in includes(path) if not one.startswith("<")}
        assert ours == {"action.h"}, name(path)
    assert [name(path) for path in FILES if "actions/list.h" in includes(path)] == ["engine.c"]


def test_source_files_are_compiled_not_included() -> None:
    assert not [name(path) for path in FILES for one in includes(path) if one.endswith(".c")]


def test_includes_have_no_circle() -> None:
    assert not [name(path) for path in FILES if name(path) in reaches(path) and path.suffix == ".h"]


def test_only_the_engine_runs_a_loop() -> None:
    assert [name(path) for path in FILES if calls(path, "uv_run")] == ["engine.c"]


def test_loops_are_made_and_closed_in_one_place_each() -> None:
    assert [name(path) for path in FILES if calls(path, "uv_loop_init")] == ["clock.c"]
    assert {name(path) for path in FILES if calls(path, "uv_loop_close")} == {"engine.c"}


def test_nothing_process_wide_is_touched() -> None:
    assert not {name(path): found for path in FILES if (found := calls(path, FORBIDDEN))}


def test_each_file_says_first_what_it_is() -> None:
    for path in FILES:
        noun = path.name if path.suffix == ".h" else path.stem
        first = path.read_text().partition("\n")[0]
        assert re.match(rf"/\* {re.escape(noun)}: \S", first), f"{name(path)} begins with {first!r}"


# Objects.


def compile_without_pic(tmp: Path, sources: list[Path], *flags: str) -> list[Path]:
    """Constants stay constants: in position-independent code a table of addresses is writable until it has been relocated."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs a C compiler")
    cflags = []
    if shutil.which("pkg-config"):
        cflags = shlex.split(subprocess.run(["pkg-config", "--cflags", "libuv"], capture_output=True, text=True).stdout)
    command = [compiler, "-std=gnu11", "-O1", "-fno-pic", f"-I{CSRC}", *cflags, *flags, "-c", *map(str, sources)]
    done = subprocess.run(command, cwd=tmp, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [tmp / f"{source.stem}.o" for source in sources]


def symbols(path: Path) -> list[tuple[str, str]]:
    """(name, type) as nm tells them: T code, R constant, D and B writable, U used; small letters: not seen from outside."""
    if not shutil.which("nm"):
        pytest.skip("needs nm, of binutils")
    lines = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout.splitlines()
    return [(line.split()[-1], line.split()[-2]) for line in lines if line.split()]


@pytest.fixture(scope="module")
def engine_objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    sources = [path for path in ENGINE_FILES if path.suffix == ".c"]
    return compile_without_pic(tmp_path_factory.mktemp("engine"), sources)


@pytest.fixture(scope="module")
def binding_objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    include = sysconfig.get_path("include")
    if not Path(include, "Python.h").exists():
        pytest.skip("needs Python.h")
    sources = [path for path in BINDING_FILES if path.suffix == ".c"]
    return compile_without_pic(tmp_path_factory.mktemp("binding"), sources, f"-I{include}")


# Writable to CPython's types, never written: method and slot tables, and the names of arguments.
TABLES = r"(\w+\.)?((\w+_)?(methods|getset|members|slots|spec|def|functions)|names)(\.\d+)?"


def test_the_engine_has_no_mutable_static(engine_objects: list[Path]) -> None:
    """Two runs at once, two interpreters, a fork: none of them finds anything of another run."""
    writable = [(path.stem, *symbol) for path in engine_objects for symbol in symbols(path) if symbol[1] in "dDbBcCsSgG"]
    assert not writable


def test_the_binding_has_no_mutable_static_but_tables(binding_objects: list[Path]) -> None:
    for path in binding_objects:
        for symbol, kind in symbols(path):
            assert kind not in "bBcCsSgG", f"{path.stem}: {symbol} is writable"
            assert kind not in "dD" or re.fullmatch(TABLES, symbol), f"{path.stem}: {symbol} is writable"


def test_the_engine_uses_nothing_of_python(engine_objects: list[Path]) -> None:
    used = {symbol for path in engine_objects for symbol, kind in symbols(path) if kind in "Uw"}
    assert not {symbol for symbol in used if symbol.lstrip("_").startswith("Py")}


def test_what_files_share_has_our_prefix(engine_objects: list[Path], binding_objects: list[Path]) -> None:
    shared = {symbol for path in (*engine_objects, *binding_objects) for symbol, kind in symbols(path) if kind in "TDRB"}
    assert not {symbol for symbol in shared if not symbol.lstrip("_").startswith("fw_")} - {"PyInit__core"}


# The one list of native actions.


def listed() -> list[str]:
    return re.findall(r"\beach\((\w+)\)", code(CSRC / "actions" / "list.h").partition("FW_ACTIONS(each)")[2])


def test_list_files_module_and_dataclasses_agree() -> None:
    assert set(listed()) == {path.stem for path in CSRC.glob("actions/*.c")}
    assert listed() == list(_core.actions)
    assert listed() == [action.name for action in fw.NATIVE_ACTIONS]


@pytest.mark.parametrize("action", _core.actions)
def test_each_action_is_one_file_and_one_dataclass(action: str) -> None:
    (definition,) = re.findall(r"(?m)^const fw_action (\w+) = \{(?:[^;]*)", code(CSRC / "actions" / f"{action}.c"))
    assert definition == f"fw_action_{action}"
    assert f'.name = "{action}"' in (CSRC / "actions" / f"{action}.c").read_text()
    dataclass = getattr(fw, action)
    assert dataclasses.is_dataclass(dataclass) and dataclass.__dataclass_params__.frozen
    assert dataclass in fw.NATIVE_ACTIONS and dataclass.name == action
    assert dataclass.__doc__ and not dataclass.__doc__.startswith(f"{action}("), "the docstring that dataclass itself makes"


def test_strategies_are_listed_once() -> None:
    for strategy in _core.strategies:
        assert callable(getattr(fw, strategy)) and getattr(fw, strategy).__doc__
        assert callable(getattr(fw.aio, strategy))


PROBE = """\
/* probe: what CONTRIBUTING says of a new action, done. */
#include "../action.h"

const fw_action fw_action_probe = {.name = "probe"};
"""

PROGRAM = """\
#include "action.h"
#include <stdio.h>
int main(void) {
  for (int i = 0; fw_actions[i] != NULL; i++)
    puts(fw_actions[i]->name);
  return 0;
}
"""


def test_a_new_action_is_one_file_and_one_line(tmp_path: Path) -> None:
    copy = tmp_path / "csrc"
    shutil.copytree(CSRC, copy, ignore=shutil.ignore_patterns("binding"))
    (copy / "actions" / "probe.c").write_text(PROBE)
    names = copy / "actions" / "list.h"
    names.write_text(names.read_text().rstrip() + " \\\n  each(probe)\n")
    (copy / "program.c").write_text(PROGRAM)
    objects = compile_without_pic(tmp_path, sorted([*copy.glob("*.c"), *copy.glob("actions/*.c")]), f"-I{copy}")
    libs = ["-luv"]
    if shutil.which("pkg-config"):
        found = subprocess.run(["pkg-config", "--libs", "libuv"], capture_output=True, text=True)
        libs = shlex.split(found.stdout) or libs
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    linked = [compiler, "-no-pie", *map(str, objects), "-o", "program", *libs, "-lm", "-pthread"]
    subprocess.run([str(word) for word in linked], cwd=tmp_path, check=True, timeout=60)
    said = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True).stdout
    assert said.split() == [*_core.actions, "probe"]


# Texts about the layers.


def test_contributing_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paths = set(re.findall(r"`((?:csrc|python|tests)/[\w./]*)`", text))
    assert {"csrc/engine.c", "csrc/actions/list.h", "csrc/action.h", "python/fanwidth/actions.py"} <= paths
    assert not {path for path in paths if not (ROOT / path).exists() and "NAME" not in path}


def test_contributing_describes_an_action_in_three_steps() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = re.search(r"(?ms)^## Adding a native action, in three steps\n(.*?)(?=^## )", text)
    assert section is not None
    assert re.findall(r"(?m)^(\d)\. ", section[1]) == ["1", "2", "3"]
    first, second, third = re.split(r"(?m)^\d\. ", section[1])[1:]
    assert "csrc/actions/NAME.c" in first and "fw_action_NAME" in first
    assert "each(NAME)" in second and "csrc/actions/list.h" in second
    assert "python/fanwidth/actions.py" in third and "NATIVE_ACTIONS" in third


def test_the_stub_tells_of_the_module_and_of_its_files() -> None:
    text = (ROOT / "python" / "fanwidth" / "_core.pyi").read_text()
    stubbed = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.AnnAssign):
            stubbed.add(node.target.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            stubbed.add(node.name)
    public = {attribute for attribute in dir(_core) if not attribute.startswith("_")}
    assert {attribute for attribute in stubbed if not attribute.startswith("_")} == public
    files = re.findall(r"(?m)^# (csrc/\S+?)[,:]?(?:\s|$)", text)
    assert files and not [file for file in files if not (ROOT / file).exists()]


def test_functions_of_the_module_have_docstrings() -> None:
    for attribute in dir(_core):
        member = getattr(_core, attribute)
        if not attribute.startswith("_") and (inspect.isbuiltin(member) or inspect.isclass(member)):
            assert member.__doc__, attribute
