"""Sync callables: threads that are started as needed and gone afterwards, Ctrl-C, what the system refuses, what bound the run."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import fanwidth as fw


def pause(item: Any) -> Any:
    time.sleep(0.01)
    return item


def own_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("fanwidth")]


@pytest.mark.parametrize("source", [range, lambda n: iter(range(n)), lambda n: (i for i in range(n))])
@pytest.mark.parametrize("items", [1, 3, 20])
def test_there_are_never_more_threads_than_items_or_slots(source: Any, items: int) -> None:
    seen: set[int] = set()

    def note(item: int) -> None:
        seen.add(threading.get_ident())
        time.sleep(0.01)

    run = fw.bounded(note, source(items), limit=5)
    assert len(seen) <= run.meta["threads"] <= min(items + (source is not range), 5)
    assert own_threads() == []


def test_items_that_are_done_at_once_need_few_threads() -> None:
    run = fw.bounded(abs, 50_000, limit=50, keep="summary")
    assert run.ok
    assert run.meta["threads"] <= 50


def test_an_action_in_c_does_not_keep_the_gil_for_itself() -> None:
    ticks = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    other = threading.Thread(target=tick)
    other.start()
    fw.bounded(abs, 5_000_000, limit=4, keep="summary")
    done.set()
    other.join()
    assert len(ticks) > 5


def test_when_all_stops_at_its_ceiling_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fanwidth.feed.MAX_THREADS", 16)
    monkeypatch.setattr("fanwidth.threads.MAX_THREADS", 16)
    run = fw.when_all(lambda item: time.sleep(0.1), 20)
    assert run.ok
    assert (run.limited_by, run.effective_limit, run.peak_in_flight) == ("threads", 16, 16)


def test_equal_cpu_bound_items_are_bound_by_the_gil() -> None:
    def spin(item: int) -> int:
        return sum(range(60_000))

    run = fw.bounded(spin, 100, limit=4)
    assert run.limited_by in ("gil", "limit")  # a busy machine gives the process less than one CPU
    assert fw.bounded(pause, 20, limit=4).limited_by == "limit"


def test_a_slow_source_binds_the_run() -> None:
    def source() -> Iterator[int]:
        for i in range(6):
            time.sleep(0.02)
            yield i

    assert fw.bounded(lambda item: item, source(), limit=4).limited_by == "source"


def test_few_items_bind_the_run() -> None:
    run = fw.bounded(pause, 3, limit=10)
    assert (run.limited_by, run.effective_limit) == ("items", 3)


# --- setup


def test_setup_is_called_in_each_thread_and_left_in_it() -> None:
    entered: list[int] = []
    left: list[int] = []

    @contextlib.contextmanager
    def setup() -> Iterator[int]:
        entered.append(threading.get_ident())
        yield threading.get_ident()
        left.append(threading.get_ident())

    def use(item: int, value: int) -> bool:
        time.sleep(0.01)
        return value == threading.get_ident()

    run = fw.bounded(use, 12, limit=3, setup=setup)
    assert run.results == [True] * 12
    assert sorted(entered) == sorted(left)
    assert len(entered) == 3


def test_slow_setups_run_at_the_same_time() -> None:
    def setup() -> int:
        time.sleep(0.1)
        return 0

    before = time.perf_counter()
    for source in (range(8), (i for i in range(8))):
        assert fw.bounded(lambda item, value: time.sleep(0.02), source, limit=8, setup=setup).ok
    assert time.perf_counter() - before < 1


@pytest.mark.parametrize("source", [range(6), iter([1, 2, 3])])
def test_what_setup_raises_ends_the_run(source: Any) -> None:
    def setup() -> int:
        raise OSError("no network")

    with pytest.raises(OSError, match="no network") as caught:
        fw.bounded(lambda item, value: item, source, limit=2, setup=setup)
    counts = caught.value.run.counts  # type: ignore[attr-defined]
    assert counts.total == counts.not_started
    assert own_threads() == []


def test_what_leaving_setup_raises_is_raised() -> None:
    @contextlib.contextmanager
    def setup() -> Iterator[int]:
        yield 0
        raise OSError("cannot close")

    with pytest.raises(OSError, match="cannot close"):
        fw.bounded(lambda item, value: item, 3, limit=1, setup=setup)


# --- interrupts

INTERRUPTED = """
import os, signal, threading, time
import fanwidth as fw

count = 0
closed = []

def job(item):
    global count
    time.sleep({seconds})
    count += 1

async def ajob(item):
    import asyncio
    global count
    await asyncio.sleep({seconds})
    count += 1

def source():
    try:
        yield from range(1000)
    finally:
        closed.append("closed")

def interrupt(times):
    for _ in range(times):
        time.sleep(0.15)
        told.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

told = []
async def nothing(item):
    pass
for each in (abs, nothing):
    fw.bounded(each, 1, limit=1)  # imports what it needs
before = threading.active_count()
threading.Thread(target=interrupt, args=({times},), daemon=True).start()
try:
    fw.for_each({action}, {items}, limit=2)
except KeyboardInterrupt as error:
    took = time.perf_counter() - told[0]
    at_once = count
    run = error.run
else:
    raise SystemExit("not interrupted")
{after}
"""


@pytest.mark.parametrize("items", ["1000", "source()", "iter(range(1000))"])
@pytest.mark.parametrize("action", ["job", "ajob"])
def test_ctrl_c_ends_the_run_and_leaves_nothing_behind(run_child: Any, action: str, items: str) -> None:
    # S037, S038
    after = """
assert took < 0.6, took
time.sleep(0.1)
assert count == at_once, (count, at_once)
assert threading.active_count() <= before, threading.enumerate()
assert run.stopped_by == "cancel", run.stopped_by
assert run.counts.total == run.counts.not_started + run.counts.ok + run.counts.cancelled
assert closed == (["closed"] if "source" in ITEMS else []), closed
assert fw.for_each(job, 5, limit=2).ok
""".replace("ITEMS", repr(items))
    done = run_child(INTERRUPTED.format(seconds=0.02, times=1, action=action, items=items, after=after))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("items", ["1000", "source()"])
def test_a_second_ctrl_c_does_not_wait_for_sync_callables(run_child: Any, items: str) -> None:
    after = """
assert took < 1, took
assert run.counts.cancelled == 2, run.counts
time.sleep(1)
assert sum(run.counts[:5]) == run.counts.total and run.counts.cancelled == 2
assert all(state >= 0 for state in run.samples.state)
"""
    done = run_child(INTERRUPTED.format(seconds=1.2, times=2, action="job", items=items, after=after))
    assert (done.returncode, done.stderr) == (0, "")


def test_the_interpreter_may_end_while_abandoned_threads_run(run_child: Any) -> None:
    done = run_child(INTERRUPTED.format(seconds=30, times=2, action="job", items="1000", after=""))
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_while_a_source_in_c_is_read(run_child: Any) -> None:
    code = """
import itertools, os, signal, threading, time
import fanwidth as fw
fw.bounded(abs, 1, limit=1)
threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    fw.when_all(abs, itertools.repeat(1))
except KeyboardInterrupt as error:
    assert error.run.counts.total == error.run.counts.not_started > 0
"""
    done = run_child(code)
    assert (done.returncode, done.stderr) == (0, "")


def test_threads_that_cannot_be_started(run_child: Any) -> None:
    # S048: the limit on processes does not hold for root, so the call that starts a thread is made to fail
    code = """
import threading, time
import fanwidth as fw
start, started = threading.Thread.start, [0]
def refuse(self):
    started[0] += 1
    if started[0] > {most}:
        raise RuntimeError("can't start new thread")
    start(self)
threading.Thread.start = refuse
for source in (range(1000), (i for i in range(1000))):
    started[0] = 0
    run = fw.for_each(lambda item: time.sleep(0.0001), source, limit=1000)
    assert run.counts.ok == 1000
    assert run.limited_by == "threads" and run.effective_limit == run.meta["threads"] == {most}, run
"""
    done = run_child(code.format(most=7), timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    done = run_child(code.format(most=0), timeout=30)
    assert "RuntimeError: can't start new thread" in done.stderr


def test_a_limit_on_processes_is_survived(run_child: Any) -> None:
    # S048
    if os.getuid() != 0:
        pytest.skip("needs root to become another user, for whom the limit holds")
    code = """
import os, resource, time
import fanwidth as fw
fw.bounded(abs, 1, limit=1)
os.setuid(54321)
resource.setrlimit(resource.RLIMIT_NPROC, (20, 20))
run = fw.for_each(lambda item: time.sleep(0.01), 1000, limit=1000)
assert run.counts.ok == 1000
assert run.limited_by == "threads" and run.effective_limit < 30, (run.limited_by, run.effective_limit)
"""
    done = run_child(code, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


def test_callables_run_in_a_subinterpreter(run_child: Any) -> None:
    # S082
    if sys.version_info < (3, 13):
        pytest.skip("needs Python 3.13: in 3.12 asyncio itself crashes the interpreters")
    code = """
import _interpreters
inner = '''
import asyncio, time
import fanwidth as fw
async def job(item):
    await asyncio.sleep(0.001)
assert fw.bounded(lambda item: time.sleep(0.001), 6, limit=3).ok
assert fw.bounded(job, 6, limit=3).ok
with fw.stream(abs, 6, limit=3) as outcomes:
    assert len(list(outcomes)) == 6
assert fw.start(abs, 6, limit=3).result().ok
'''
for _ in range(3):
    interpreter = _interpreters.create()
    error = _interpreters.run_string(interpreter, inner)
    assert error is None, error.formatted
    _interpreters.destroy(interpreter)
"""
    done = run_child(code)
    assert (done.returncode, done.stderr) == (0, "")


def test_runs_in_several_threads_at_once() -> None:
    # S084
    results: list[int] = []

    def main() -> None:
        results.append(fw.bounded(pause, 20, limit=4).counts.ok)

    threads = [threading.Thread(target=main) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [20] * 10
