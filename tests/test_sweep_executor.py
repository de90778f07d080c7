"""Sweeps on executors: process pools and a Dask cluster; lost workers and what cannot be sent end in rows, never in a hang."""

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import fanwidth as fw
from fanwidth import remote, sweeps
from fanwidth.table import Table, read_table


def sweep(executor: Executor, action: Any, items: Any = 3, **kwargs: Any) -> Table:
    given = {"limit": 2, "repeats": 1, "warmup": 0, "seed": 1, "progress": False, **kwargs}
    return sweeps.sweep(action, items, executor=executor, **given)


@pytest.fixture(params=["spawn", "forkserver"])
def pool(request: pytest.FixtureRequest) -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(request.param)) as executor:
        yield executor


def processes(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("forkserver"))


@pytest.fixture(scope="module")
def two() -> Iterator[ProcessPoolExecutor]:
    """One pool for all that leaves it whole: each test also shows that the ones before did."""
    with processes(2) as executor:
        yield executor


@pytest.fixture
def lost() -> Iterator[ProcessPoolExecutor]:
    """A pool to break."""
    with processes(2) as executor:
        yield executor


# What the workers do


def pid(row: Any) -> int:
    return os.getpid()


def kills(row: Any, x: int = 0, log: str = "") -> Any:
    if log and row == 0:
        Path(log, f"{x}-{time.monotonic_ns()}").touch()
    if x == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return row


def meets(row: Any, log: str) -> Any:
    """Ends when another run has begun, too."""
    Path(log, str(time.monotonic_ns())).touch()
    deadline = time.monotonic() + 20
    while len(os.listdir(log)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return row


def kills_once(row: Any, x: int, log: str) -> Any:
    first = Path(log, f"{x}-first")
    if row == 0 and not first.exists():
        first.touch()
        if x == 4:
            os._exit(1)
    return row


class TwoArguments(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} of {b}")


def raises(row: int) -> int:
    if row == 1:
        raise TwoArguments(1, 2)
    return row


def not_implemented(row: int) -> int:
    if row == 3:
        raise NotImplementedError("not yet")
    return row


def bad_setup() -> int:
    raise TwoArguments(1, 2)


def with_value(row: int, value: int) -> int:
    return row


def exits(row: int) -> int:
    raise SystemExit(3)


class Unsendable:
    def __getstate__(self) -> Any:
        raise RuntimeError("stays here")

    def __call__(self, row: Any) -> Any:
        return row


class Unbuildable:
    """Can be sent, but not be made again."""

    def __reduce__(self) -> Any:
        return _never, ()

    def __call__(self, row: Any) -> Any:
        return row


def _never() -> None:
    raise LookupError("not on this machine")


# Process pools


def test_a_sweep_on_processes_equals_one_here(pool: ProcessPoolExecutor) -> None:
    action, given = fw.delay(fw.exponential(1)), {"limit": [1, 2, 4], "repeats": 2, "warmup": 1, "clock": "virtual"}
    there = sweep(pool, action, 50, **given)
    here = sweeps.sweep(action, 50, seed=1, progress=False, **given)
    assert there.columns == here.columns and there.complete
    assert sorted(map(str, there.to_records())) == sorted(map(str, here.to_records()))
    assert len(sweep(pool, action, 50, strategy="bounded", **given)) == 9  # the pool is still the user's


def test_the_journal_is_written_here(two: ProcessPoolExecutor, tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    table = sweep(two, pid, limit=[1, 2], repeats=3, journal=path)
    assert read_table(path) == table and len(table) == 6
    assert sweep(two, pid, limit=[1, 2], repeats=3, journal=path) == table


def test_progress_counts_runs_as_they_end(two: ProcessPoolExecutor) -> None:
    seen: list[Any] = []
    sweep(two, raises, limit=[1, 2], repeats=2, progress=seen.append)
    assert (seen[-1].done, seen[-1].total, seen[-1].failed) == (12, 12, 4)


def test_a_worker_that_dies_is_a_row(lost: ProcessPoolExecutor, tmp_path: Path) -> None:
    # DX-worker-lost S092: the other five are ok
    table = sweep(lost, kills, 3, limit=1, x=list(range(6)), log=str(tmp_path))
    rows = {row["x"]: row for row in table}
    assert len(table) == 6 and [x for x in rows if rows[x].get("error")] == [2]
    assert str(rows[2]["error"]).startswith("the worker died: BrokenProcessPool")
    assert all(rows[x]["ok"] == 3 for x in (0, 1, 3, 4, 5))
    assert "1 of 6 runs ended in an error" in table.notes[0]
    # S093: what had ended before is not run again, only what was under way with the lost worker
    runs = [int(entry.name.split("-")[0]) for entry in tmp_path.iterdir()]
    assert runs.count(2) == 2 and sum(runs.count(x) > 1 for x in rows) <= 2


def test_a_worker_that_dies_once_costs_nothing(lost: ProcessPoolExecutor, tmp_path: Path) -> None:
    # DX-worker-lost S093
    table = sweep(lost, kills_once, 3, x=list(range(8)), log=str(tmp_path))
    assert sorted(table["x"]) == list(range(8)) and table["ok"] == (3,) * 8
    assert "error" not in table.columns and table.complete


def test_a_pool_that_was_broken_or_shut_down_before() -> None:
    with processes(1) as broken:
        with pytest.raises(Exception, match="terminated abruptly"):
            broken.submit(os._exit, 1).result()
        assert sweep(broken, pid)["ok"] == (3,)
    with processes(1) as closed:
        pass
    errors = sweep(closed, pid, limit=[1, 2])["error"]
    assert all(str(text).startswith("RuntimeError: cannot schedule new futures after shutdown") for text in errors)


@pytest.mark.parametrize("action", [lambda row: row, raises], ids=["lambda", "function"])
def test_items_that_fail_there_end_in_counts(two: ProcessPoolExecutor, action: Any) -> None:
    # DX-pickle S094 (a), S095
    table = sweep(two, action)
    if action is raises:
        assert (table["ok"], table["failed"]) == ((2,), (1,)) and "TwoArguments: 1 of 2" in table.notes[0]
    elif "error" in table.columns:  # no cloudpickle here
        assert "action test_sweep_executor.<lambda> cannot be sent" in str(table["error"][0])
    else:
        assert table["ok"] == (3,)
    assert sweep(two, pid)["ok"] == (3,)


@pytest.mark.parametrize("dumpers", ["all", "pickle"])
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"action": Unsendable()}, "action of type Unsendable cannot be sent to another process: RuntimeError: stays here"),
        ({"action": pid, "items": [threading.Lock()]}, "items of type list cannot be sent to another process: TypeError"),
        ({"action": with_value, "setup": Unsendable()}, "setup of type Unsendable cannot be sent to another process"),
        ({"action": Unbuildable()}, "the worker cannot rebuild the action: LookupError: not on this machine"),
        ({"action": with_value, "setup": bad_setup}, "TwoArguments: 1 of 2"),
        ({"action": exits}, "SystemExit: 3"),
    ],
    ids=["unsendable", "unsendable-rows", "unsendable-setup", "unbuildable", "setup-raises", "exits"],
)
def test_what_cannot_be_sent_or_done_there_is_a_row(
    two: ProcessPoolExecutor, given: dict[str, Any], told: str, dumpers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # DX-pickle S094 (b), S095
    if dumpers == "pickle":
        monkeypatch.setattr(remote, "_dumpers", lambda: [pickle.dumps])
    table = sweep(two, **given, limit=[1, 2])
    assert len(table) == 2 and all(told in str(text) for text in table["error"])
    assert sweep(two, pid)["ok"] == (3,)


_MAIN = """
import sys, time
from concurrent.futures import ProcessPoolExecutor
import multiprocessing
import fanwidth as fw
from fanwidth import remote, sweeps
def mine(row):
    return row
if __name__ == "__main__":
    if sys.argv[1] == "pickle":
        import pickle
        remote._dumpers = lambda: [pickle.dumps]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        table = sweeps.sweep(mine, 3, limit=1, repeats=1, warmup=0, executor=pool, progress=False)
        print(table["ok"], table["error"] if "error" in table.columns else None)
        print(sweeps.sweep(fw.delay(0.001), 3, limit=1, repeats=1, warmup=0, executor=pool, progress=False)["ok"])
"""


@pytest.mark.parametrize("dumpers", ["all", "pickle"])
def test_a_function_that_exists_in_main_alone(run_child: Any, dumpers: str) -> None:
    # DX-pickle S094 (c): `python -c` has no file that a worker could import
    child = run_child(_MAIN, dumpers, timeout=30)
    first, second = child.stdout.splitlines()
    assert first == "(3,) None" or "the worker cannot rebuild the action: AttributeError" in first, child.stderr
    assert second == "(3,)"


def test_runs_that_share_a_host_are_told(two: ProcessPoolExecutor, tmp_path: Path) -> None:
    table = sweep(two, meets, 1, limit=[1, 2], log=str(tmp_path))
    assert table["ok"] == (1, 1) and "Up to 2 runs at a time shared the host" in table.notes[0]
    with processes(1) as one:
        assert sweep(one, pid, limit=[1, 2]).notes == ()


def test_budget_and_calls_hold_there(two: ProcessPoolExecutor) -> None:
    table = sweep(two, pid, 10, limit=[1, 2, 4, 8], max_calls=25)
    assert len(table) == 2 and "2 of 4 runs did not fit into 25 calls (20 made)" in table.notes[0]
    table = sweep(two, fw.delay(0.1), [1, 600], limit=1, budget=30)
    assert table["items"] == (1,) and "1 of 2 runs did not fit into 30.0 s" in table.notes[0]
