"""`fanwidth recommend`: the answer on stdout, its exit code, own functions, files, exports, pictures, interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fanwidth import cli
from fanwidth.table import read_table

Capture = pytest.CaptureFixture[str]
COMMAND = [sys.executable, "-W", "error", "-m", "fanwidth"]
VIRTUAL = ["recommend", "--service", "0.05:10", "--clock", "virtual", "--seed", "1"]

_JOBS = """
import contextlib, time

def quick(line):
    time.sleep(0.002)

async def later(line):
    pass

def fails(line):
    raise ConnectionError(f"no {line}")

def slow(line):
    time.sleep(0.01)

@contextlib.contextmanager
def client():
    yield 5

def with_client(row, client):
    assert client == 5 and isinstance(row, dict)
    time.sleep(0.001)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a module of jobs and a file of a hundred lines."""
    (tmp_path / "fw_advice_jobs.py").write_text(_JOBS)
    (tmp_path / "ids.txt").write_text("".join(f"id {n}\n" for n in range(100)))
    (tmp_path / "rows.jsonl").write_text("".join(f'{{"id": {n}}}\n' for n in range(100)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "fw_advice_jobs", raising=False)
    return tmp_path


def ended(capsys: Capture, *given: str) -> tuple[int, str, str]:
    code = cli.main(given)
    return (code, *capsys.readouterr())


def test_the_answer_and_its_evidence_are_printed(capsys: Capture) -> None:
    code, out, err = ended(capsys, *VIRTUAL)
    assert (code, err) == (cli.OK, "")
    lines = out.splitlines()
    assert lines[0] == "Use limit=10: the smallest limit within 5 % of the best throughput, 200 items/s."
    assert any(line.split()[:1] == ["10"] and line.endswith("<- recommended") for line in lines)
    assert "Little's law holds" in out and "bound above it by" in out


@pytest.mark.parametrize(
    ("more", "answer"),
    [
        (["--tolerance", "0.2"], "Use limit=8:"),
        (["--min-throughput", "100"], "Use limit=5: the smallest limit that reaches 100 items/s"),
        (["--max-p99", "0.06"], "Use limit=10:"),
        (["--limits", "1,2,4,8,16"], "Use limit=10:"),
        (["--repeats", "2"], "Use limit=10:"),
    ],
)
def test_options_arrive(more: list[str], answer: str, capsys: Capture) -> None:
    code, out, err = ended(capsys, *VIRTUAL, *more)
    assert (code, err) == (cli.OK, "") and out.startswith(answer)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["--delay", "0.05"], "throughput still rises at the last limit, 256"),
        (["--noop"], "nothing was measured: no time passes"),
        (["--service", "0.05:10", "--max-calls", "10"], "what is left of 10 calls"),
        (["--service", "0.05:10", "--max-p99", "0.01"], "no limit has a p99 of at most 0.01 s"),
    ],
)
def test_a_refusal_is_exit_code_1_with_the_reason_on_stdout(given: list[str], reason: str, capsys: Capture) -> None:
    code, out, err = ended(capsys, "recommend", *given, "--clock", "virtual")
    assert (code, err) == (cli.FAILED, "no limit can be recommended\n")
    assert out.startswith("No limit can be recommended: ") and reason in out.splitlines()[0]


def test_exports_have_the_runs_and_the_answer(capsys: Capture, tmp_path: Path) -> None:
    code, out, _ = ended(capsys, *VIRTUAL, "--json", "-")
    whole = json.loads(out)
    assert code == cli.OK and whole["meta"]["recommendation"]["limit"] == 10 and whole["rows"]
    files = [tmp_path / f"t.{suffix}" for suffix in ("json", "csv", "md")]
    code, out, _ = ended(capsys, *VIRTUAL, "--json", str(files[0]), "--csv", str(files[1]), "--markdown", str(files[2]))
    assert code == cli.OK and out.startswith("Use limit=10")
    assert read_table(files[0]) == read_table(files[1]) and "Use limit=10" in files[2].read_text()
    assert "Use limit=10" in ended(capsys, "show", str(files[0]))[1]


def test_a_picture_beside_it_without_a_display(capsys: Capture, tmp_path: Path) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    path = tmp_path / "knee.svg"
    assert ended(capsys, *VIRTUAL, "--plot", str(path))[0] == cli.OK
    assert "<svg" in path.read_text() and not pyplot.get_fignums()
    none = tmp_path / "none.png"
    assert ended(capsys, "recommend", "--noop", "--clock", "virtual", "--plot", str(none))[0] == cli.FAILED
    assert not none.exists()  # nothing was measured


@pytest.mark.parametrize("job", ["quick", "later"])
def test_a_function_of_ones_own(job: str, capsys: Capture, folder: Path) -> None:
    given = ["--call", f"fw_advice_jobs:{job}", "--source", "ids.txt", "--limits", "1,2,4,8", "--budget", "2"]
    code, out, err = ended(capsys, "recommend", *given)
    assert code in (cli.OK, cli.FAILED), err
    assert out.startswith(("Use limit=", "No limit can be recommended: "))
    assert err == ("" if code == cli.OK else "no limit can be recommended\n")


def test_setup_and_json_lines(capsys: Capture, folder: Path) -> None:
    given = ["--call", "fw_advice_jobs:with_client", "--setup", "fw_advice_jobs:client", "--source", "rows.jsonl"]
    _, out, _ = ended(capsys, "recommend", *given, "--limits", "1,2", "--budget", "1", "--json", "-")
    assert not any(row["failed"] for row in json.loads(out)["rows"])


def test_a_function_that_fails_is_told(capsys: Capture, folder: Path) -> None:
    code, out, err = ended(capsys, "recommend", "--call", "fw_advice_jobs:fails", "--source", "ids.txt")
    assert (code, err) == (cli.FAILED, "no limit can be recommended\n")
    assert "limit 1 already fails 100 % of its items" in out and "item 'id 0': ConnectionError: no id 0" in out


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "one of the arguments"),
        (["--delay", "1", "--noop"], "not allowed with"),
        (["--call", "fw_advice_jobs:quick"], "--call needs items"),
        (["--call", "fw_advice_jobs:none", "--items", "3"], "has no 'none'"),
        (["--noop", "--source", "ids.txt"], "--source is for --call"),
        (["--delay", "0.1", "--limits", "0,1"], "--limits must be at least 1, got 0"),
        (["--delay", "0.1", "--limits", "a"], "\"1..1024:geometric\", got 'a'"),
        (["--delay", "0.1", "--tolerance", "5"], "--tolerance must be a share"),
        (["--delay", "0.1", "--tolerance", "5%"], "must be a number, got '5%'"),
        (["--delay", "0.1", "--budget", "0"], "--budget must be above 0"),
        (["--delay", "0.1", "--plot", "knee.bmp"], "--plot must be a path that ends in .png or .svg"),
        (["--delay", "0.1", "--json", "no/such/t.json"], "cannot write 'no/such/t.json'"),
        (["--call", "fw_advice_jobs:quick", "--items", "5", "--clock", "virtual"], "needs a native action"),
        (["--delay", "0.1", "--journal", "j.jsonl"], "unknown --journal"),
    ],
)
def test_bad_use_is_told_in_terms_of_the_options(given: list[str], words: str, capsys: Capture, folder: Path) -> None:
    try:
        code = cli.main(["recommend", *given])
    except SystemExit as left:  # argparse's own way
        code = int(str(left.code))
    out, err = capsys.readouterr()
    assert (code, out) == (cli.BAD_USE, "") and words in err and "Traceback" not in err


def test_the_help_has_examples_and_exit_codes(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        cli.main(["recommend", "--help"])
    out = capsys.readouterr().out
    assert "fanwidth recommend --call shop.api:fetch --source ids.txt" in out
    assert "1 none can be (the reason is printed)" in out


def test_interrupted_with_what_was_measured(folder: Path) -> None:
    # CL-partial S106
    given = ["recommend", "--call", "fw_advice_jobs:slow", "--items", "1000", "--budget", "40", "--json", "t.json", "--progress"]
    child = subprocess.Popen([*COMMAND, *given], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(0.2)
    deadline = time.monotonic() + 30
    assert child.stderr is not None
    while "done" not in (line := child.stderr.readline()) or int(line.split()[1]) < 30:  # limit 1 has been measured
        assert child.poll() is None and time.monotonic() < deadline
    os.kill(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert child.returncode == cli.INTERRUPTED and "interrupted" in err and "Traceback" not in err
    table = read_table(folder / "t.json")
    assert not table.complete and len(table.filter(warmup=False)) >= 1 and "Not complete" in out and "bounded" in out


def test_ascii_terminals(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    child = subprocess.run([*COMMAND, *VIRTUAL], capture_output=True, timeout=30, env=environment)
    assert child.returncode == cli.OK and child.stdout.isascii() and b"R^2" in child.stdout and b"\\x" not in child.stdout
