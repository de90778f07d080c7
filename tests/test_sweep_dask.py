"""Sweeps on a real Dask cluster of two worker processes: lost workers, what cannot be sent, answers that are never mixed up."""

import logging
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fanwidth as fw
from fanwidth import remote, sweeps
from fanwidth.table import Table, read_table

distributed = pytest.importorskip("distributed", reason='needs distributed: pip install "fanwidth[dask]"')

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    # Workers that die are what is tested here: their logs are no news. Allowed failures: how many workers a task may lose.
    import dask

    settings = {"distributed.scheduler.allowed-failures": 1, "distributed.admin.low-level-log-length": 0}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=logging.CRITICAL
        ) as cluster,
        distributed.Client(cluster) as made,
    ):
        yield made


def sweep(client: Any, action: Any, items: Any = 3, **kwargs: Any) -> Table:
    given = {"limit": 1, "repeats": 1, "warmup": 0, "seed": 1, "progress": False, **kwargs}
    return sweeps.sweep(action, items, executor=client.get_executor(), **given)


def pid(row: Any) -> int:
    return os.getpid()


def kills(row: Any, x: int) -> Any:
    if x == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return row


def logs(row: Any, log: str) -> Any:
    """Ends when both workers have begun a run."""
    Path(log, f"{os.getpid()}-{time.monotonic_ns()}").touch()
    deadline = time.monotonic() + 30
    while len({name.split("-")[0] for name in os.listdir(log)}) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return row


class Unsendable:
    def __getstate__(self) -> Any:
        raise RuntimeError("stays here")

    def __call__(self, row: Any) -> Any:
        return row


class TwoArguments(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} of {b}")


def raises(row: int) -> int:
    if row == 1:
        raise TwoArguments(1, 2)
    return row


def test_a_sweep_on_dask_equals_one_here(client: Any, tmp_path: Path) -> None:
    action, given = fw.delay(fw.exponential(1)), {"limit": [1, 2, 4], "repeats": 2, "warmup": 1, "clock": "virtual"}
    there = sweep(client, action, 50, journal=tmp_path / "sweep.jsonl", **given)
    here = sweeps.sweep(action, 50, seed=1, progress=False, **given)
    assert there.complete and read_table(tmp_path / "sweep.jsonl") == there
    assert sorted(map(str, there.to_records())) == sorted(map(str, here.to_records()))


def test_both_workers_take_part_and_equal_tasks_are_all_done(client: Any, tmp_path: Path) -> None:
    # DX-silent: Dask gives equal calls one result, which would make three sweeps one
    tables = [sweep(client, logs, 2, limit=[1, 2], repeats=2, log=str(tmp_path)) for _ in range(3)]
    assert [table["ok"] for table in tables] == [(2,) * 4] * 3
    runs = [entry.name.split("-")[0] for entry in tmp_path.iterdir()]
    assert len(runs) == 3 * 4 * 2 and len(set(runs)) == 2
    assert any("Up to 2 runs at a time shared the host" in note for table in tables for note in table.notes)


def test_what_fails_there_is_told_here(client: Any) -> None:
    # DX-pickle S094, S095; DX-silent S097
    table = sweep(client, raises)
    assert (table["ok"], table["failed"]) == ((2,), (1,)) and "TwoArguments: 1 of 2" in table.notes[0]
    table = sweep(client, lambda row, value: row, setup=Unsendable())
    assert str(table["error"][0]).startswith("setup of type Unsendable cannot be sent")  # not the lambda, which can
    table = sweep(client, Unsendable(), limit=[1, 2])
    told = "action of type Unsendable cannot be sent to another process: RuntimeError: stays here"
    assert all(told in str(text) for text in table["error"])
    here = 2
    assert sweep(client, lambda row: row * here)["ok"] == (3,)  # cloudpickle, which comes with Dask, takes it along


def test_a_client_is_no_executor(client: Any) -> None:
    with pytest.raises(TypeError, match=r"executor must be a concurrent.futures.Executor.*\(Dask's is client.get_executor\(\)\)"):
        sweeps.sweep(pid, 3, limit=1, executor=client)


def test_a_worker_that_dies_is_a_row(client: Any) -> None:
    # DX-worker-lost S092: the other five are ok
    table = sweep(client, kills, x=list(range(6)))
    rows = {row["x"]: row for row in table}
    assert len(table) == 6 and [x for x in rows if rows[x].get("error")] == [2]
    assert str(rows[2]["error"]).startswith("the worker died: KilledWorker")
    assert all(rows[x]["ok"] == 3 for x in (0, 1, 3, 4, 5))
    assert sweep(client, pid)["ok"] == (3,)  # and the cluster goes on


def test_a_cluster_without_workers_is_given_up(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_POLL_S", 0.2)
    monkeypatch.setattr(remote, "_PATIENCE_S", 0.5)
    client.cluster.scale(0)
    deadline = time.monotonic() + 30
    while client.nthreads():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    try:
        table = sweep(client, pid, limit=[1, 2])
        assert table["error"] == ("no worker was left to do it",) * 2
    finally:
        client.cluster.scale(2)
        client.wait_for_workers(2, timeout=60)
    assert sweep(client, pid)["ok"] == (3,)
