"""The journal of a sweep: kill it anywhere and go on, read it with anything, and never mix machines or sweeps."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fanwidth as fw
from fanwidth import journal as journal_module
from fanwidth import sweeps, trials
from fanwidth.journal import JournalMismatch, JournalWriter
from fanwidth.table import Table, read_journal, read_table

SECOND = fw.delay(1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sweep.jsonl"


def sweep(path: Any, action: Any = SECOND, items: Any = 10, **kwargs: Any) -> Table:
    given = {"limit": [1, 2], "repeats": 2, "clock": "virtual", "progress": False, "journal": path, **kwargs}
    return sweeps.sweep(action, items, **given)


def runs_of(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().splitlines(True) if b'{"row"' in line]


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[trials.Trial]:
    """The trials that were really run."""
    ran: list[trials.Trial] = []

    def measure(trial: trials.Trial, progress: Any = False) -> trials.Measured:
        ran.append(trial)
        return trials.measure(trial, progress)

    monkeypatch.setattr(sweeps, "measure", measure)
    return ran


HEADER = {"host": "h", "cpus": 2, "seed": 7, "sweep": {"axes": {"limit": [1]}, "repeats": 1}}


# What is written


def test_a_journal_reads_back_as_the_same_table(path: Path) -> None:
    table = sweep(path, strategy=["bounded", "when_all"], seconds=[0.5, fw.exponential(2)])
    back = read_table(path)
    assert back == table and back.schema == table.schema
    assert back.meta == table.meta and back.complete and table.complete


def test_one_line_per_run_for_any_reader(path: Path) -> None:
    table = sweep(path)
    header, *lines, end = [json.loads(line) for line in path.read_text().splitlines()]
    assert header["fanwidth_journal"] == 1 and header["seed"] == table.meta["seed"] and header["kind"] == "sweep"
    assert {line["host"] for line in lines} == {header["host"]}
    assert [line["row"]["elapsed"] for line in lines] == list(table["elapsed"]) and end == {"complete": True}
    frame = pd.read_json(path, lines=True)
    assert pd.json_normalize(frame["row"].dropna().tolist())["elapsed"].tolist() == list(table["elapsed"])


def test_a_line_is_there_as_soon_as_its_run_has_ended(path: Path) -> None:
    seen: list[int] = []

    def looks(row: int) -> None:
        seen.append(len(runs_of(path)))

    sweep(path, looks, 1, limit=1, repeats=3, warmup=0, clock="real")
    assert seen == [0, 1, 2]


# Going on


def test_the_same_sweep_again_runs_nothing(path: Path, done: list[trials.Trial]) -> None:
    table = sweep(path)
    assert len(done) == 6
    before = path.read_bytes()
    assert sweep(path) == table and sweep(path, seed=table.meta["seed"]) == table
    assert len(done) == 6 and path.read_bytes() == before


def test_only_what_is_missing_is_run(path: Path, done: list[trials.Trial]) -> None:
    whole = sweep(path, action=fw.delay(fw.exponential(1)), seed=5)
    lines = path.read_bytes().splitlines(True)
    path.write_bytes(b"".join(lines[:3]))
    done.clear()
    table = sweep(path, action=fw.delay(fw.exponential(1)))
    assert len(done) == 4 and table == whole and table.complete
    assert path.read_bytes().splitlines(True)[:3] == lines[:3]


def test_a_budget_may_be_spent_in_several_sessions(path: Path, done: list[trials.Trial]) -> None:
    first = sweep(path, max_calls=25)
    assert len(first) == 2 and not first.complete and not read_table(path).complete
    assert len(sweep(path, max_calls=20)) == 4
    table = sweep(path)
    assert len(table) == len(done) == 6 and table.complete and read_table(path).complete


def test_ctrl_c_then_again(path: Path) -> None:
    calls: list[int] = []

    def stops(row: int) -> None:
        calls.append(row)
        if len(calls) == 15:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        sweep(path, stops, clock="real")
    assert len(caught.value.table) == 1 and read_table(path) == caught.value.table  # type: ignore[attr-defined]
    table = sweep(path, stops, clock="real")
    assert table.complete and len(table) == 6 and len(calls) == 15 + 50


def test_runs_that_ended_in_an_error_are_run_again(path: Path) -> None:
    broken = [True]

    def setup() -> int:
        if broken and len(runs_of(path)) >= 2:
            raise ConnectionError("down")
        return 1

    def work(row: int, value: int) -> int:
        return row

    table = sweep(path, work, clock="real", setup=setup)
    assert [error is None for error in table["error"]] == [True, True, False, False, False, False]
    assert read_table(path) == table and not read_table(path).complete
    kept = runs_of(path)[:2]
    mode = path.stat().st_mode
    broken.clear()
    table = sweep(path, work, clock="real", setup=setup)
    assert "error" not in table.columns and len(table) == 6 and table.complete
    assert table.notes == ("4 runs that had ended in an error before: run again.",)
    assert read_table(path) == table and runs_of(path)[:2] == kept and path.stat().st_mode == mode
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


# Torn lines and killed writers


@pytest.mark.parametrize("cut", [1, 5, 200])
def test_a_torn_last_line_is_noticed_and_repaired(path: Path, done: list[trials.Trial], cut: int) -> None:
    whole = sweep(path, seed=3)
    lines = path.read_bytes().splitlines(True)
    torn = b"".join(lines[:4])[:-cut]
    path.write_bytes(torn)
    done.clear()
    if cut == 1:  # all of the line but its end
        assert sweep(path) == whole
    else:
        with pytest.warns(RuntimeWarning, match="the last line is cut off and left out"):
            assert sweep(path) == whole
    assert len(done) == (3 if cut == 1 else 4)
    assert path.read_bytes().splitlines(True) == lines and read_table(path) == whole


@pytest.mark.parametrize("size", [0, 1, 10, 300])
def test_a_torn_header_begins_anew(path: Path, size: int) -> None:
    whole = sweep(path, seed=3)
    path.write_bytes(path.read_bytes()[:size])
    if size:
        with pytest.warns(RuntimeWarning, match="its only line is cut off; it begins anew"):
            assert sweep(path, seed=3) == whole
    else:
        assert sweep(path, seed=3) == whole
    assert read_table(path) == whole


_CHILD = """
import sys
import fanwidth as fw
from fanwidth.sweeps import sweep
table = sweep(fw.delay(0.05), 3, limit=[1, 3], repeats=4, warmup=1, journal=sys.argv[1], progress=False)
print(len(table), table.complete)
"""


def test_kill_9_loses_nothing_that_was_finished(path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", _CHILD, str(path)])
    deadline = time.monotonic() + 30
    while not path.exists() or len(runs_of(path)) < 3:
        assert child.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL

    before = path.read_bytes()
    finished = read_journal(path)
    assert len(finished.rows) >= 3 and not finished.complete
    done = subprocess.run([sys.executable, "-c", _CHILD, str(path)], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.split() == ["10", "True"]
    assert path.read_bytes().startswith(before[: finished.good_bytes])
    rows = read_journal(path).rows
    assert len({(row["limit"], row["repeat"], row["warmup"]) for row in rows}) == len(rows) == 10


def test_one_writer_at_a_time(path: Path) -> None:
    with JournalWriter(path, HEADER), pytest.raises(BlockingIOError, match="is being written by another sweep"):
        JournalWriter(path, HEADER)
    JournalWriter(path, HEADER).close()


# What does not belong together


@pytest.mark.parametrize(
    ("again", "told"),
    [
        ({"limit": [1, 2, 4]}, r"another sweep: limit is \[1, 2\] there, \[1, 2, 4\] here"),
        ({"items": 20}, r"another sweep: items is \[10\] there, \[20\] here"),
        ({"action": fw.delay(2)}, r'another sweep: action is "delay\(1\)" there, "delay\(2\)" here'),
        ({"repeats": 3}, "another sweep: repeats is 2 there, 3 here"),
        ({"warmup": 0}, "another sweep: warmup is 1 there, 0 here"),
        ({"seed": 4}, r"another sweep: seed is 3 there, 4 here \(leave seed out to go on with it\)"),
        ({"clock": "real"}, 'another sweep: clock is "virtual" there, "real" here'),
        ({"seconds": 1}, r"another sweep: seconds is null there, \[1\] here"),
        ({"items": [float(n) for n in range(10)]}, "another sweep: rows is null there"),
    ],
)
def test_another_sweep_is_refused(path: Path, again: dict[str, Any], told: str) -> None:
    sweep(path, seed=3)
    before = path.read_bytes()
    with pytest.raises(JournalMismatch, match=told):
        sweep(path, **again)
    assert path.read_bytes() == before


def test_other_rows_are_refused(path: Path) -> None:
    sweep(path, str.upper, ["a", "b"], clock="real")
    with pytest.raises(JournalMismatch, match="another sweep: rows is "):
        sweep(path, str.upper, ["a", "c"], clock="real")
    assert sweep(path, str.upper, ["a", "b"], clock="real").complete


def test_another_order_of_the_points_is_no_other_sweep_of_pairs(path: Path) -> None:
    sweep(path, seed=3, limit=[1, 2], seconds=[1, 2], zip=True)
    with pytest.raises(JournalMismatch, match="another sweep: points is "):
        sweep(path, limit=[1, 2], seconds=[1, 2])


@pytest.mark.parametrize(("name", "value"), [("host", "elsewhere"), ("cpus", 64), ("python", "3.99.0"), ("fanwidth", "9.9")])
def test_another_machine_is_refused(path: Path, name: str, value: Any) -> None:
    sweep(path)
    header, *rest = path.read_text().splitlines(True)
    path.write_text(json.dumps({**json.loads(header), name: value}) + "\n" + "".join(rest))
    with pytest.raises(JournalMismatch, match=f'another machine or installation: {name} is "?{value}"? there, .* here') as caught:
        sweep(path)
    assert "use another path" in str(caught.value) and isinstance(caught.value, ValueError)


@pytest.mark.parametrize("text", ["notes\n", "notes", '{"a": 1}\n{"a": 2}\n', "[1, 2]"])
def test_a_file_that_is_no_journal_stays_as_it_is(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(ValueError, match=r"no journal of fanwidth|line 1"):
        sweep(path)
    assert path.read_text() == text


def test_a_journal_that_cannot_be_written_is_told_before_the_measuring(tmp_path: Path, done: list[trials.Trial]) -> None:
    for bad in (tmp_path / "no" / "folder.jsonl", tmp_path):
        with pytest.raises(OSError, match=r"(?i)no such file|is a directory"):
            sweep(bad)
    with pytest.raises(TypeError, match="path must be"):
        sweep(5)
    assert not done


def test_a_full_disk_does_not_lose_the_table(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Any, row: Any, host: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal_module.JournalWriter, "add", full)
    with pytest.raises(OSError, match="No space left") as caught:
        sweep(path)
    assert len(caught.value.table) == 1  # type: ignore[attr-defined]


def test_no_warnings_from_a_whole_journal(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sweep(path)
        sweep(path)
