"""The engine without Python: the programs in tests/c, built with each sanitizer there is, and run; then under valgrind.

That they link at all shows that the layers below the binding need no Python.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CSRC, C_TESTS = ROOT / "csrc", ROOT / "tests" / "c"
ENGINE = sorted([*CSRC.glob("*.c"), *CSRC.glob("actions/*.c")])
PROGRAMS = sorted(path.stem for path in C_TESTS.glob("test_*.c"))
FUZZERS = sorted(path.stem for path in C_TESTS.glob("fuzz_*.c") if path.stem != "fuzz_main")
SHARED = sorted(set(C_TESTS.glob("*.c")) - set(C_TESTS.glob("test_*.c")) - set(C_TESTS.glob("fuzz_*.c")))
THREADED = ["test_faults", "test_real", "test_refused", "test_stops"]
SLOWLY = ["test_ends", "test_faults", "test_ledger", "test_real", "test_stops", "test_virtual"]  # under valgrind
STRICT = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread"]

pytestmark = pytest.mark.timeout(300)  # the first test that needs a build waits for it


@dataclass(frozen=True)
class Build:
    """A way to compile and run the programs."""

    name: str
    compiler: str
    flags: tuple[str, ...]
    wrapper: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


NOW = ("-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-O1", "-g")  # the first finding ends the program
ADDRESS = ("-fsanitize=address,undefined,float-cast-overflow", *NOW)
VALGRIND = ("valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=definite", "--fair-sched=try")

SANITIZED = [Build(f"{compiler}-address", compiler, ADDRESS) for compiler in ("gcc", "clang")]
RACES = [Build(f"{compiler}-thread", compiler, ("-fsanitize=thread", "-O1", "-g")) for compiler in ("gcc", "clang")]
# Everything takes 50 times as long there, so the programs are told to be short.
CHECKED = [Build("valgrind", "cc", ("-O1", "-g"), VALGRIND, ("short",))]
COVERED = Build("clang-fuzzer", "clang", ("-fsanitize=fuzzer-no-link,address,undefined,float-cast-overflow", *NOW))


def run(*command: object, timeout: float = 120, cwd: Path | None = None, env: dict[str, str] | None = None):
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, cwd=cwd, env=env, errors="replace")


def succeed(*command: object, **options) -> str:
    done = run(*command, **options)
    assert done.returncode == 0, f"{shlex.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@cache
def libuv(option: str) -> list[str]:
    """Flags as setup.py finds them."""
    variable = {"--cflags": "LIBUV_CFLAGS", "--libs": "LIBUV_LIBS"}[option]
    if variable in os.environ:
        return shlex.split(os.environ[variable])
    if not shutil.which("pkg-config"):
        return ["-luv"] if option == "--libs" else []
    return shlex.split(succeed("pkg-config", option, "libuv"))


@cache
def reason_not_to(build: Build) -> str | None:
    """Why this build cannot be had on this machine, or None: a first program is built and run."""
    for program in (build.compiler, *build.wrapper[:1]):
        if not shutil.which(program):
            return f"needs {program}"
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "first.c"), Path(folder, "first")
        source.write_text("int main(void) { return 0; }\n")
        built = run(build.compiler, *build.flags, source, "-o", program)
        if built.returncode != 0:
            return f"{build.compiler} cannot link {build.flags[0]} here"
        if run(*build.wrapper, program).returncode != 0:
            return f"a program under {build.name} does not run here"
    return None


class Workshop:
    """Compiles the engine once for each build, and links programs to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.compiled: dict[str, list[Path]] = {}

    def compile(self, build: Build, sources: list[Path]) -> list[Path]:
        folder = self.folder / build.name
        folder.mkdir(exist_ok=True)
        command = (build.compiler, *STRICT, *build.flags, f"-I{CSRC}", *libuv("--cflags"), "-c")
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda part: succeed(*command, *part, cwd=folder), (sources[::2], sources[1::2])))
        return [folder / f"{source.stem}.o" for source in sources]

    def engine(self, build: Build) -> list[Path]:
        if build.name not in self.compiled:
            sources = [*ENGINE, *SHARED]
            assert len({source.stem for source in sources}) == len(sources), "two files would become one object"
            self.compiled[build.name] = self.compile(build, sources)
        return self.compiled[build.name]

    def program(self, build: Build, name: str, *sources: Path) -> Path:
        sources = sources or (C_TESTS / f"{name}.c",)
        flags = (*STRICT, *build.flags, f"-I{CSRC}", *libuv("--cflags"))
        # A program may put itself before a function: its __wrap_open is then what the engine gets for open.
        wrapped = sorted(set(re.findall(r"int __wrap_(\w+)\(", "".join(source.read_text() for source in sources))))
        if wrapped and sys.platform == "darwin":
            pytest.skip("needs a linker that has --wrap")
        wraps = [f"-Wl,--wrap={name}" for name in wrapped]
        path = self.folder / build.name / name
        succeed(build.compiler, *flags, *sources, *self.engine(build), *wraps, "-o", path, *libuv("--libs"), "-lm")
        return path

    def fuzzer(self, name: str) -> Path | None:
        """Covered is what it is about, fuzz_NAME.c and NAME.c; the rest comes from another build. None: no libFuzzer."""
        sources = [C_TESTS / f"{name}.c", CSRC / f"{name.removeprefix('fuzz_')}.c"]
        covered = self.compile(COVERED, sources)
        others = [path for path in self.engine(SANITIZED[1]) if path.name not in {path.name for path in covered}]
        program = self.folder / COVERED.name / name
        flags = [flag.replace("-no-link", "") for flag in COVERED.flags]
        linked = run(COVERED.compiler, *flags, *covered, *others, "-o", program, *libuv("--libs"), "-lm", "-pthread")
        if linked.returncode != 0 and "clang_rt.fuzzer" in linked.stderr:
            return None
        assert linked.returncode == 0, linked.stderr
        return program


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    folder = tmp_path_factory.mktemp("c")
    yield Workshop(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def build(request: pytest.FixtureRequest) -> Build:
    reason = reason_not_to(request.param)
    if reason is not None:
        pytest.skip(reason)
    return request.param


def execute(build: Build, program: Path, *arguments: object) -> str:
    """What it printed; a hang is killed, and a failure shows what was said."""
    env = {
        **os.environ,
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
        "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    }
    return succeed(*build.wrapper, program, *build.arguments, *arguments, timeout=100, env=env)


def each(builds: list[Build], programs: list[str]) -> list[object]:
    return [pytest.param(build, program, id=f"{program}-{build}") for program in programs for build in builds]


def test_there_is_something_to_build() -> None:
    assert {*THREADED, *SLOWLY} < set(PROGRAMS)
    assert len(PROGRAMS) >= 9 and FUZZERS and len(ENGINE) >= 15


@pytest.mark.parametrize(("build", "program"), each(SANITIZED, PROGRAMS), indirect=["build"])
def test_program(workshop: Workshop, build: Build, program: str) -> None:
    """AddressSanitizer with its leak check, and UndefinedBehaviorSanitizer; any finding ends the program."""
    execute(build, workshop.program(build, program))


@pytest.mark.parametrize("program", THREADED)
def test_races(workshop: Workshop, program: str) -> None:
    """ThreadSanitizer, of whichever compiler has one that works here."""
    reasons = [reason_not_to(build) for build in RACES]
    if all(reasons):
        pytest.skip(" and ".join(map(str, reasons)))
    build = RACES[reasons.index(None)]
    execute(build, workshop.program(build, program))


@pytest.mark.parametrize(("build", "program"), each(CHECKED, SLOWLY), indirect=["build"])
def test_valgrind(workshop: Workshop, build: Build, program: str) -> None:
    """Of all tools the only one that knows of bytes that were never written."""
    execute(build, workshop.program(build, program))


@pytest.mark.parametrize(("build", "fuzzer"), each(SANITIZED, FUZZERS), indirect=["build"])
def test_random_inputs(workshop: Workshop, build: Build, fuzzer: str) -> None:
    program = workshop.program(build, fuzzer, C_TESTS / f"{fuzzer}.c", C_TESTS / "fuzz_main.c")
    seed = 1 + SANITIZED.index(build)
    assert execute(build, program, 1000, seed) == "1000 inputs\n"


@pytest.mark.parametrize("build", [COVERED], ids=str, indirect=True)
@pytest.mark.parametrize("fuzzer", FUZZERS)
def test_libfuzzer(workshop: Workshop, build: Build, fuzzer: str, tmp_path: Path) -> None:
    """A few seconds of inputs that grow towards code not yet reached, from a fixed seed."""
    program = workshop.fuzzer(fuzzer)
    if program is None:
        pytest.skip("needs libFuzzer, of clang's run-time library")
    succeed(program, "-max_total_time=5", "-seed=1", "-max_len=3000", cwd=tmp_path)


# Each file for itself.


def check_syntax(compiler: str, *arguments: object) -> None:
    succeed(compiler, *STRICT, "-Wstrict-prototypes", "-Wvla", "-fsyntax-only", *arguments)


@pytest.fixture(params=["gcc", "clang"])
def compiler(request: pytest.FixtureRequest) -> str:
    if not shutil.which(request.param):
        pytest.skip(f"needs {request.param}")
    return request.param


@pytest.fixture(scope="session")
def python_include() -> str:
    include = sysconfig.get_path("include")
    if not Path(include, "Python.h").exists():
        pytest.skip(f"needs Python.h of {sys.executable}")
    return f"-I{include}"


@pytest.mark.parametrize("part", ["engine", "binding"])
def test_each_header_compiles_alone(tmp_path: Path, compiler: str, python_include: str, part: str) -> None:
    """And twice: each brings what it needs and guards itself. Those of the engine do so without Python."""
    headers = CSRC.glob("binding/*.h") if part == "binding" else [*CSRC.glob("*.h"), *C_TESTS.glob("*.h")]
    for header in headers:
        source = tmp_path / f"{header.stem}.c"
        source.write_text(f'#include "{header}"\n#include "{header}"\nint {header.stem}_is_not_empty;\n')
    flags = [python_include] if part == "binding" else []
    check_syntax(compiler, f"-I{CSRC}", *libuv("--cflags"), *flags, *sorted(tmp_path.glob("*.c")))


@pytest.mark.parametrize("part", ["engine", "binding"])
def test_no_file_gives_a_warning(compiler: str, python_include: str, part: str) -> None:
    """Those that need an optimiser come with the builds above."""
    if part == "binding":
        check_syntax(compiler, *libuv("--cflags"), python_include, *sorted(CSRC.glob("binding/*.c")))
    else:
        prototypes = "-Wmissing-prototypes"  # PyMODINIT_FUNC brings none
        check_syntax(compiler, f"-I{CSRC}", *libuv("--cflags"), prototypes, *ENGINE, *sorted(C_TESTS.glob("*.c")))
