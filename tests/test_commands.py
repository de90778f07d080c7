"""`fanwidth sweep` and `fanwidth show`: own functions and files of items, what is shown, exit codes, going on after a stop."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import fanwidth as fw
from fanwidth import cli, commands, repeats
from fanwidth.table import Table, read_table

Capture = pytest.CaptureFixture[str]
COMMAND = [sys.executable, "-W", "error", "-m", "fanwidth"]
VIRTUAL = ["sweep", "--service", "0.05:10", "--items", "200", "--limit", "1..16:geometric", "--clock", "virtual"]

_JOBS = """
import asyncio, contextlib, time

def fails(line):
    if line.startswith("bad"):
        raise ValueError(line)
    return line

async def later(line):
    await asyncio.sleep(0)

def slow(row, pause=0.1):
    time.sleep(pause)

def dict_only(row):
    assert isinstance(row, dict), row

def int_only(row):
    assert type(row) is int and row > 5, row

@contextlib.contextmanager
def client():
    yield 5

def with_client(row, client):
    assert client == 5

def no_client():
    raise ConnectionError("down")

class Thing:
    def method(row): pass

number = 5
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a module of jobs and a file of ten lines, two of them bad."""
    (tmp_path / "fw_jobs.py").write_text(_JOBS)
    (tmp_path / "fw_broken.py").write_text("1 / 0")
    (tmp_path / "ten.txt").write_text("\n".join(["a", "bad 1", "b", "", "c", "d", "e", "f", "bad 2", "g", "h"]) + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "fw_jobs", raising=False)
    return tmp_path


def ended(capsys: Capture, *given: str) -> tuple[int, str, str]:
    code = cli.main(given)
    return (code, *capsys.readouterr())


def rows_of(capsys: Capture, *given: str) -> list[dict[str, Any]]:
    code, out, err = ended(capsys, *given, "--json", "-")
    assert code == cli.OK and err == ""
    rows: list[dict[str, Any]] = json.loads(out)["rows"]
    return rows


# fanwidth sweep


def test_a_sweep_shows_a_line_per_point_in_order(capsys: Capture) -> None:
    code, out, err = ended(capsys, *VIRTUAL, "--strategy", "when_all,bounded")
    assert (code, err) == (cli.OK, "")
    lines = [line.split() for line in out.splitlines() if line.startswith(("bounded", "when_all"))]
    assert [line[1] for line in lines] == ["–", "1", "2", "4", "8", "16"]
    assert out.splitlines()[0] == "sweep of service(0.05, 10): 6 points, 5 repeats"


def test_exports_have_every_run(capsys: Capture, tmp_path: Path) -> None:
    assert cli.main([*VIRTUAL, "--json", str(tmp_path / "t.json"), "--csv", str(tmp_path / "t.csv"), "--quiet"]) == cli.OK
    table = read_table(tmp_path / "t.json")
    assert len(table) == 5 * 6 and table == read_table(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("given", "elapsed"),
    [
        (["--delay", "2", "--items", "3,6"], {3: 6.0, 6: 12.0}),
        (["--noop", "--items", "5"], {5: 0.0}),
        (["--cpu", "1", "--items", "4"], {4: 4.0}),
        (["--service", "1:1:3", "--items", "4"], {4: 4.0}),
        (["--service", "1:1", "--items", "4", "--axis", "time=3"], {4: 12.0}),
    ],
)
def test_native_actions(given: list[str], elapsed: dict[int, float], capsys: Capture) -> None:
    rows = rows_of(capsys, "sweep", *given, "--limit", "1", "--clock", "virtual", "--repeats", "1", "--warmup", "0")
    assert {row["items"]: row["elapsed"] for row in rows} == elapsed


def test_axes_of_the_action_and_pairs(capsys: Capture) -> None:
    given = ["sweep", "--service", "1:1", "--items", "8", "--clock", "virtual", "--repeats", "1", "--warmup", "0"]
    rows = rows_of(capsys, *given, "--limit", "2,8", "--axis", "capacity=2,4", "--zip", "--max-failures", "none")
    assert sorted((row["limit"], row["capacity"], row["elapsed"]) for row in rows) == [(2, 2, 4.0), (8, 4, 2.0)]
    assert rows[0]["max_failures"] is None


ONCE = ["--limit", "4", "--repeats", "1", "--warmup", "0"]


def test_failed_items_show_in_exit_code_and_words(capsys: Capture, folder: Path) -> None:
    # CL-exit-code S104, DX-silent S097
    code, out, err = ended(capsys, "sweep", "--call", "fw_jobs:fails", "--source", "ten.txt", *ONCE)
    assert (code, err) == (cli.FAILED, "8 ok, 2 failed\n")
    assert (
        "2 items failed, in 1 run; the first (bounded, limit 4, 10 items, repeat 0): item 1 ('bad 1'): ValueError: bad 1" in out
    )
    code, _, err = ended(capsys, "sweep", "--call", "fw_jobs:fails", "--source", "ten.txt", "--limit", "1,2")
    assert (code, err) == (cli.FAILED, "8 ok, 2 failed in each of 12 runs\n")
    code, _, err = ended(capsys, "sweep", "--call", "fw_jobs:later", "--source", "ten.txt", *ONCE)
    assert (code, err) == (cli.OK, "")


def test_runs_that_end_in_an_error_show_in_exit_code_and_words(capsys: Capture, folder: Path) -> None:
    given = ["--call", "fw_jobs:with_client", "--items", "3", "--setup", "fw_jobs:no_client"]
    code, out, err = ended(capsys, "sweep", *given, "--limit", "1", "--repeats", "2", "--warmup", "0")
    assert (code, err) == (cli.FAILED, "2 of 2 runs ended in an error\n")
    assert "ConnectionError: down" in out


def test_json_lines_are_values_and_never_sizes(capsys: Capture, folder: Path) -> None:
    (folder / "rows.jsonl").write_text('{"id": 1}\n\n{"id": 2}\n')
    (folder / "ints.jsonl").write_text("6\n7\n8\n")
    assert rows_of(capsys, "sweep", "--call", "fw_jobs:dict_only", "--source", "rows.jsonl", *ONCE)[0]["ok"] == 2
    assert rows_of(capsys, "sweep", "--call", "fw_jobs:int_only", "--source", "ints.jsonl", *ONCE)[0]["ok"] == 3
    (folder / "rows.jsonl").write_text('{"id": 1}\n\n{"id": \n')
    code, _, err = ended(capsys, "sweep", "--call", "fw_jobs:dict_only", "--source", "rows.jsonl", *ONCE)
    assert code == cli.BAD_USE and "--source 'rows.jsonl', line 3, is no JSON" in err


def test_setup_and_keywords_of_a_function(capsys: Capture, folder: Path) -> None:
    rows = rows_of(capsys, "sweep", "--call", "fw_jobs:with_client", "--setup", "fw_jobs:client", "--items", "3", *ONCE)
    assert rows[0]["ok"] == 3
    rows = rows_of(capsys, "sweep", "--call", "fw_jobs:slow", "--axis", "pause=0.0,0.001", "--items", "3", *ONCE)
    assert sorted(row["pause"] for row in rows) == [0.0, 0.001] and all(row["elapsed"] >= row["pause"] for row in rows)


def test_items_from_stdin(folder: Path) -> None:
    line = [*COMMAND, "sweep", "--call", "fw_jobs:fails", "--source", "-", *ONCE]
    child = subprocess.run(line, input="a\nbad\n", capture_output=True, text=True, timeout=30)
    assert (child.returncode, child.stderr) == (cli.FAILED, "1 ok, 1 failed\n")


def test_a_picture_beside_the_table(capsys: Capture, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "throughput.svg"
    code, out, err = ended(capsys, *VIRTUAL, "--plot", str(path))
    assert (code, err) == (cli.OK, "") and "bounded" in out and "<svg" in path.read_text()


def test_interrupted_then_continued(folder: Path) -> None:
    # CL-partial S106
    given = ["sweep", "--call", "fw_jobs:slow", "--items", "5", "--limit", "1,5", "--repeats", "2", "--warmup", "0"]
    given += ["--journal", "j.jsonl", "--json", "t.json"]
    child = subprocess.Popen([*COMMAND, *given], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    journal, deadline = folder / "j.jsonl", time.monotonic() + 30
    while not journal.exists() or journal.read_text().count('{"row"') < 1:
        assert child.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert child.returncode == cli.INTERRUPTED and "interrupted" in err and "Traceback" not in err
    kept = read_table(folder / "t.json")
    assert 1 <= len(kept) < 4 and not kept.complete and "Not complete" in out

    again = subprocess.run([*COMMAND, *given], capture_output=True, text=True, timeout=30)
    assert again.returncode == cli.OK and again.stderr == ""
    table = read_table(folder / "t.json")
    assert len(table) == 4 and table.complete and table[: len(kept)] == kept and table == read_table(journal)


def test_output_cut_by_head(tmp_path: Path) -> None:
    # CL-pipe S105
    line = " ".join(map(shlex.quote, [*COMMAND, *VIRTUAL, "--repeats", "400", "--csv", "-"]))
    child = subprocess.run(["bash", "-c", f"{line} | head -1"], capture_output=True, text=True, timeout=60)
    assert child.stderr == "" and child.stdout.startswith("strategy,limit,items,")


# fanwidth show


@pytest.mark.parametrize("suffix", ["json", "csv", "jsonl"])
def test_show_prints_what_was_saved(suffix: str, capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / f"t.{suffix}"
    option = "--journal" if suffix == "jsonl" else f"--{suffix}"
    _, shown, _ = ended(capsys, *VIRTUAL, option, str(path))
    code, out, err = ended(capsys, "show", str(path))
    assert (code, err) == (cli.OK, "")
    points = [line for line in shown.splitlines() if line.startswith("bounded")]
    assert [line for line in out.splitlines() if line.startswith("bounded")] == points and len(points) == 5
    code, out, _ = ended(capsys, "show", str(path), "--all")
    assert len([line for line in out.splitlines() if line.startswith("bounded")]) == 30


def test_show_writes_another_format(capsys: Capture, tmp_path: Path) -> None:
    cli.main([*VIRTUAL, "--journal", str(tmp_path / "j.jsonl"), "--csv", str(tmp_path / "a.csv"), "--quiet"])
    assert cli.main(["show", str(tmp_path / "j.jsonl"), "--csv", str(tmp_path / "b.csv")]) == cli.OK
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    capsys.readouterr()


def test_show_of_failures_is_no_failure(capsys: Capture, folder: Path) -> None:
    cli.main(["sweep", "--call", "fw_jobs:fails", "--source", "ten.txt", *ONCE, "--json", "t.json"])
    capsys.readouterr()
    code, out, err = ended(capsys, "show", "t.json")
    assert (code, err) == (cli.OK, "") and "failed" in out


def test_show_of_another_table_is_that_table(capsys: Capture, tmp_path: Path) -> None:
    Table(["a"], {"a": [3, 1, 2]}).to_csv(tmp_path / "t.csv")
    assert ended(capsys, "show", str(tmp_path / "t.csv"))[1].split() == ["a", "-", "3", "1", "2"]


@pytest.mark.parametrize("name", ["no.json", "t.txt", "bad.json"])
def test_show_of_what_is_no_table(name: str, capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    code, out, err = ended(capsys, "show", str(tmp_path / name))
    assert (code, out) == (cli.BAD_USE, "") and err.startswith("fanwidth show: ") and len(err.splitlines()) == 1


# What a sweep looks like


def test_overview_tells_what_happened() -> None:
    from fanwidth.sweeps import sweep

    table = sweep(fw.service(1, 1, queue=2), 10, limit=[1, 4], clock="virtual", progress=False, seed=1)
    shown = commands.overview(table)
    assert shown["limit"] == (1, 4) and shown["failed_max"] == (0, 7)
    assert shown.notes[0].startswith("42 items failed, in 6 runs") and shown.title == table.title
    ordered = repeats.in_order(table)
    assert [row["limit"] for row in ordered] == [1] * 6 + [4] * 6
    assert [row["warmup"] for row in ordered][:2] == [True, False] and ordered["repeat"][1:6] == (0, 1, 2, 3, 4)
    assert ordered.title == table.title and ordered.notes == table.notes and len(ordered) == len(table)
    assert commands.overview(table[:0])["repeats"] == ()


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([(8, 2, 0, None)], "8 ok, 2 failed"),
        ([(8, 2, 0, None)] * 3, "8 ok, 2 failed in each of 3 runs"),
        ([(8, 2, 0, None), (9, 0, 1, None)], "17 ok, 2 failed, 1 timed out in 2 runs"),
        ([(8, 0, 0, None), (None, None, None, "died")], "1 of 2 runs ended in an error"),
        ([(8, 1, 0, None), (None, None, None, "died")], "8 ok, 1 failed; 1 of 2 runs ended in an error"),
        ([(8, 0, 0, None)], ""),
        ([], ""),
    ],
)
def test_verdict(rows: list[tuple[Any, ...]], told: str) -> None:
    names = ("ok", "failed", "timed_out", "error")
    table = Table.from_rows([dict(zip(names, row, strict=True)) for row in rows], names)
    assert commands.verdict(table) == told
    assert commands.verdict(Table(["a"], {"a": [1]})) == ""
