"""What README.md and CHANGELOG.md say is true: code is run and its output compared; commands, links and names exist."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import re
import runpy
import tomllib
import traceback
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from conftest import RunChild

import fanwidth as fw
from fanwidth.cli import main as command_line
from fanwidth.options import RULES
from fanwidth.published import FIGURES

ROOT = Path(__file__).resolve().parent.parent
TEXTS = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CHANGELOG.md")}
README = TEXTS["README.md"]


# Fenced blocks


@dataclass(frozen=True)
class Block:
    """A fenced block; `mark` is the comment right above it, `output` the block of text right below it, if there are any."""

    name: str  # document:line
    language: str
    mark: str
    text: str
    output: Block | None


def blocks(document: str) -> list[Block]:
    text, found, below = TEXTS[document], [], None
    fences = re.finditer(r"^(?:<!-- ([^\n]+) -->\n)?```(\w*)\n(.*?)^```\n", text, flags=re.MULTILINE | re.DOTALL)
    for fence in reversed(list(fences)):
        mark, language, inside = fence.groups()
        output = below[0] if below and below[0].language == "text" and below[1] == fence.end() else None
        block = Block(f"{document}:{text[: fence.start(3)].count(chr(10)) + 1}", language, mark or "", inside, output)
        found.append(block)
        below = block, fence.start()
    return found[::-1]


BLOCKS = [block for document in TEXTS for block in blocks(document)]
PYTHON = [block for block in BLOCKS if block.language == "python"]
RUN_HERE = [block for block in PYTHON if block.mark != "notebook" and not block.mark.startswith("not-run")]


def marked(mark: str) -> Block:
    (block,) = (block for block in BLOCKS if block.mark == mark)
    return block


def by_name(found: list[Block]) -> Any:
    return pytest.mark.parametrize("block", found, ids=[block.name for block in found])


def test_marks_are_known() -> None:
    """A block that no test runs says why."""
    known = r"main-command|test-command|main-output|measured|notebook|ctrl-c|not-run: \w.{9,}"
    assert [block.name for block in BLOCKS if block.mark and not re.fullmatch(known, block.mark)] == []
    assert len(RUN_HERE) >= 5


# Code and what it prints


@dataclass
class Session:
    """All blocks in their order, in one namespace; what each printed, or the traceback it ended with."""

    namespace: dict[str, Any]
    printed: dict[str, str]
    failed: dict[str, str]


@pytest.fixture(scope="module")
def session() -> Session:
    done = Session({"__name__": "readme"}, {}, {})
    for block in RUN_HERE:
        with contextlib.redirect_stdout(io.StringIO()) as stdout:
            try:
                exec(compile(block.text, block.name, "exec"), done.namespace)
            except Exception:
                done.failed[block.name] = traceback.format_exc()
        done.printed[block.name] = stdout.getvalue()
    return done


def without_numbers(text: str) -> str:
    return re.sub(r"[-+]?\d[\d,.]*(?:e[-+]?\d+)?(?: ([mµn]?s|%)(?!\w))?", "#", text)


def agree(shown: str, printed: str) -> bool:
    """A line of three dots stands for any lines."""
    lines = [r"(?:.*\n)*?" if line == "..." else re.escape(f"{line}\n") for line in shown.splitlines()]
    return re.fullmatch("".join(lines), printed) is not None


@by_name(RUN_HERE)
def test_code_runs_and_prints_what_is_shown(block: Block, session: Session) -> None:
    assert not session.failed.get(block.name), session.failed[block.name]
    printed = session.printed[block.name]
    shown = block.output.text if block.output else ""
    if block.output and block.output.mark == "measured":
        shown, printed = without_numbers(shown), without_numbers(printed)
    assert agree(shown, printed) or shown == printed  # the second for pytest to show the difference


def functions(prefix: str) -> list[str]:
    return [
        node.name
        for block in RUN_HERE
        for node in ast.parse(block.text).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith(prefix)
    ]


@pytest.mark.parametrize("name", functions("test_"))
def test_of_the_readme_passes(name: str, session: Session) -> None:
    session.namespace[name]()


def test_ctrl_c_keeps_what_was_done(run_child: RunChild) -> None:
    """The block as it is, with more rows than can be done and a SIGINT from the 500th of them."""
    before = "".join(block.text for block in RUN_HERE[: RUN_HERE.index(marked("ctrl-c"))])
    interrupted = """
import os, signal
rows = range(100_000)
def fetch(row):
    if row == 500:
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.001)
"""
    after = 'print("ok:", run.counts.ok, "not started:", run.counts.not_started)'
    done = run_child(f"{before}{interrupted}{marked('ctrl-c').text}{after}", timeout=30)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^  stopped by +cancel$", done.stdout, flags=re.MULTILINE)
    ok, not_started = map(int, re.search(r"ok: (\d+) not started: (\d+)", done.stdout).groups())
    assert ok >= 450 and not_started > 0 and ok + not_started == 100_000


def test_notebook_block_shows_a_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a real kernel, whose loop is running."""
    nbformat = pytest.importorskip("nbformat", reason="needs nbclient and ipykernel, of the extra [test]")
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel, of the extra [test]")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(marked("notebook").text)])
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(book, timeout=50, kernel_name="python3", resources=place).execute()
    pages = [output.get("data", {}).get("text/html", "") for output in book.cells[0].outputs]
    assert sum("200 items: 200 ok" in page for page in pages) == 1  # the card
    assert sum("200/200" in page for page in pages) == 1  # the progress, updated in place
    assert not [output for output in book.cells[0].outputs if output.output_type in ("error", "stream")]


# Tables


def table_below(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without the table's own heading."""
    section = README.split(f"{heading}\n", 1)[1]
    lines = re.search(r"(?:^\|.*\n)+", section, flags=re.MULTILINE)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


STRATEGIES = {cells[0].strip("`"): cells[1:] for cells in table_below("## The strategies")}


def test_strategies_table_has_every_strategy() -> None:
    assert list(STRATEGIES) == list(RULES)


@pytest.mark.parametrize("strategy", RULES)
def test_strategies_table_agrees_with_the_rules(strategy: str) -> None:
    rule = RULES[strategy]
    model, limit, starts, read, failures = STRATEGIES[strategy]
    said = "required" if rule.needs_limit else "optional: the CPUs" if rule.takes_limit else "not accepted"
    assert limit == said
    assert failures == {0: "the first one stops the run", None: "it runs to the end"}[rule.max_failures]
    assert (read == "all of it first") == rule.reads_ahead
    published = {figure.method for figure in FIGURES if figure.strategy == strategy}
    assert all(method in model.replace("`", "") for method in published)
    # With 4 slots and one of 4 items finished, and at the start.
    then = fw.admit(strategy, 100, 4, 1, 4 if rule.takes_limit else None)
    assert starts == {1: "when a slot is free", 0: "when the whole chunk has ended", 96: "at once"}[then]


TODAY = [cells[1] for cells in table_below("### You write today")]


@pytest.mark.parametrize("cell", TODAY)
def test_what_one_writes_instead_runs(cell: str, session: Session) -> None:
    (code,) = re.fullmatch("`([^`]+)`", cell).groups()
    names = {**session.namespace, "rows": range(100)}
    with contextlib.redirect_stdout(io.StringIO()):
        result = eval(compile(code, "README.md", "eval", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.isawaitable(result):
            result = asyncio.run(_awaited(result))
    results = getattr(result, "results", result)
    assert len(results) == 100 and None not in list(results)


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


def test_main_output_agrees_with_a_simulation_today() -> None:
    """Of the output of the main command all that is not measured: its columns, and the simulated rows."""
    lines = marked("main-output").text.splitlines()
    rows = [line.split() for line in lines if re.match(r"\w+ +[\d–]+ ", line)]
    assert [row[3] for row in rows] == ["real"] * 3 + ["virtual"] * 6
    numeric = ("time", "ideal", "overhead", "throughput", "peak_in_flight", "engine_bytes_per_item", "published")
    table = fw.compare([10_000, 100_000], clock="virtual")
    for shown, row in zip(rows[3:], table, strict=True):
        limit = "–" if row["limit"] is None else str(row["limit"])
        assert shown[:3] == [row["method"], limit, f"{row['items']:,}"]
        for name, text in zip(numeric, shown[4:], strict=True):
            decimals = len(text.partition(".")[2])
            assert float(text.replace(",", "")) == pytest.approx(row[name], abs=0.51 * 10**-decimals), name
    headings = re.findall(r"[\w-]+", " ".join(lines[1:4]))
    assert {word for name in numeric for word in name.split("_")} <= set(headings)


def test_sentence_about_the_picture_has_its_times() -> None:
    waits = runpy.run_path(str(ROOT / "notebooks" / "figures" / "draw.py"))["WAITS"]
    limited = [strategy for strategy, rule in RULES.items() if rule.takes_limit]
    times = {name: fw.run(fw.delay(waits), 64, strategy=name, limit=8, clock="virtual", seed=1).elapsed for name in limited}
    assert times["for_each"] == times["bounded"]
    said = " ".join(README.split("strategies.png)", 1)[1].split())
    assert said.startswith("The same 64 random waits")
    assert f"{times['chunked'] * 1e3:.0f} ms, where `for_each` and `bounded` take {times['bounded'] * 1e3:.0f} ms" in said


# Names, commands and links in either document


def prose(text: str) -> str:
    return re.sub(r"^```.*?^```\n", "", text, flags=re.MULTILINE | re.DOTALL)


SPANS = sorted({" ".join(span.split()) for text in TEXTS.values() for span in re.findall(r"`([^`]+)`", prose(text))})


def public(path: str) -> Any:
    return reduce(getattr, path.split(".")[1:], fw)


@pytest.mark.parametrize("document", TEXTS)
def test_public_names_exist(document: str) -> None:
    names = set(re.findall(r"\bfw(?:\.[a-zA-Z_]\w*)+", TEXTS[document]))
    assert names
    missing = []
    for name in sorted(names):
        try:
            public(name)
        except AttributeError:
            missing.append(name)
    assert missing == []


def calls() -> list[str]:
    return [span for span in SPANS if re.fullmatch(r"(await )?fw[.\w]+\(.*\)", span)]


@pytest.mark.parametrize("code", calls())
def test_calls_in_the_text_have_arguments_that_exist(code: str) -> None:
    call = ast.parse(code.removeprefix("await "), mode="eval").body
    assert isinstance(call, ast.Call)
    given = [argument for argument in call.args if not (isinstance(argument, ast.Constant) and argument.value is ...)]
    keywords = {keyword.arg: None for keyword in call.keywords if keyword.arg}
    inspect.signature(public(ast.unparse(call.func))).bind_partial(*given, **keywords)


def commands() -> list[tuple[str, ...]]:
    shell = [block.text.replace("\\\n", " ") for block in BLOCKS if block.language == "sh"]
    lines = [line for text in shell for line in text.splitlines()] + SPANS
    found = {tuple(match[1].split()) for line in lines if (match := re.search(r"(?:^|[/\s])fanwidth ([a-z].*)", line))}
    return sorted(found)


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_commands_and_their_options_exist(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line([words[0], "--help"])
    assert ended.value.code == 0
    known = set(re.findall(r"--[\w-]+", capsys.readouterr().out))
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("document", TEXTS)
def test_links_lead_somewhere(document: str) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", prose(TEXTS[document]))
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_files_named_in_the_text_exist() -> None:
    named = [span for span in SPANS if re.fullmatch(r"[\w.-]+(/[\w.-]+)*/[\w-]+\.(py|ipynb|c|h|md|png)", span)]
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_extras_to_install_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = {name for text in TEXTS.values() for names in re.findall(r"\.\[([\w,]+)\]", text) for name in names.split(",")}
    assert named and named <= set(extras)


def test_every_notebook_and_benchmark_is_in_the_readme() -> None:
    files = [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "benchmarks").glob("*.py")]
    assert [file.name for file in files if f"({file.relative_to(ROOT)})" not in README] == []


# The changelog


def test_changelog_is_kept_by_its_rules() -> None:
    """Keep a Changelog: Unreleased on top, the kinds of changes by their names."""
    text = TEXTS["CHANGELOG.md"]
    versions = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    assert versions[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", version) for version in versions[1:])
    kinds = set(re.findall(r"^### (.+)$", text, flags=re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
