"""Sweeps on executors of other kinds: threads, one that takes nothing, one that is interrupted."""

import os
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from fanwidth import remote, sweeps
from fanwidth.table import Table


def sweep(executor: Executor, action: Any, items: Any = 3, **kwargs: Any) -> Table:
    given = {"limit": 2, "repeats": 1, "warmup": 0, "seed": 1, "progress": False, **kwargs}
    return sweeps.sweep(action, items, executor=executor, **given)


def pid(row: Any) -> int:
    return os.getpid()


class Unsendable:
    def __getstate__(self) -> Any:
        raise RuntimeError("stays here")

    def __call__(self, row: Any) -> Any:
        return row


def test_threads_need_no_pickling() -> None:
    with ThreadPoolExecutor(2) as executor:
        table = sweep(executor, Unsendable(), limit=[1, 2], repeats=2)
    assert table["ok"] == (3,) * 4


class Broken(Executor):
    """Takes nothing."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        raise ConnectionError("the scheduler is gone")


def test_an_executor_that_takes_nothing() -> None:
    assert sweep(Broken(), pid, limit=[1, 2])["error"] == ("ConnectionError: the scheduler is gone",) * 2


class Stopping(Executor):
    """Runs tasks here; Ctrl-C arrives while the third is waited for."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.futures.append(future)
        if len(self.futures) < 3:
            future.set_result(fn(*args, **kwargs))
        return future


def test_ctrl_c_keeps_what_is_done_and_gives_up_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    executor, wait = Stopping(), remote.wait

    def interrupted(futures: Any, **kwargs: Any) -> Any:
        if not any(future.done() for future in futures):
            raise KeyboardInterrupt
        return wait(futures, **kwargs)

    monkeypatch.setattr(remote, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        sweep(executor, pid, limit=[1, 2, 4, 8])
    assert len(caught.value.table) == 2 and not caught.value.table.complete  # type: ignore[attr-defined]
    assert [future.cancelled() for future in executor.futures] == [False, False, *[True] * (len(executor.futures) - 2)]


class Elsewhere(Executor):
    """Runs tasks here, and says that each ran on a host of its own."""

    def __init__(self) -> None:
        self.tasks = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.tasks += 1
        future.set_result(replace(fn(*args, **kwargs), host=f"host{self.tasks}"))
        return future


def test_several_hosts_are_told() -> None:
    table = sweep(Elsewhere(), pid, limit=[1, 2])
    assert table.notes == ("Measured on 2 hosts (host1, host2): what differs may be the machines.",)
