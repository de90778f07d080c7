"""What a run of callables holds while it goes on, and that it lets go of all of it."""

from __future__ import annotations

import asyncio
import gc
import itertools
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fanwidth as fw
from fanwidth import _core


class Thing:
    """Something whose references can be counted."""


def sync(item: Thing) -> Thing:
    return item


async def coroutine(item: Thing) -> Thing:
    await asyncio.sleep(0)
    return item


def failing(item: Thing) -> Thing:
    raise ValueError(item)


async def failing_coroutine(item: Thing) -> Thing:
    await asyncio.sleep(0)
    raise ValueError(item)


async def slow(item: Thing) -> Thing:
    await asyncio.sleep(10)
    return item


def cancelled(action: Any, items: Any) -> None:
    token = fw.CancelToken()
    threading.Timer(0.005, token.cancel).start()
    with pytest.raises(fw.RunCancelled):
        fw.bounded(action, items, limit=2, cancel=token)


def failed(action: Any, items: Any) -> None:
    with pytest.raises(fw.RunFailed):
        fw.for_each(action, items, limit=2)


def timed_out(action: Any, items: Any) -> None:
    fw.bounded(action, items, limit=2, item_timeout=0.002, errors="keep")


def kept(action: Any, items: Any) -> None:
    for strategy in ("for_each", "when_all", "chunked"):
        fw.run(action, items, strategy=strategy, errors="keep", **({} if strategy == "when_all" else {"limit": 2}))


def with_hook(action: Any, items: Any) -> None:
    def hook(progress: Any) -> None:
        raise RuntimeError

    with pytest.warns(RuntimeWarning):
        fw.bounded(action, items, limit=2, progress=hook)


def streamed(action: Any, items: Any) -> None:
    with fw.stream(action, items, limit=2) as outcomes:
        next(outcomes)
    with fw.stream(action, items, limit=2) as outcomes:
        for outcome in outcomes:
            del outcome


def on_loop(action: Any, items: Any) -> None:
    asyncio.run(fw.aio.bounded(action, items, limit=2, errors="keep"))


WAYS: list[tuple[Callable[[Any, Any], None], list[Any]]] = [
    (kept, [sync, coroutine, failing, failing_coroutine]),
    (failed, [failing, failing_coroutine]),
    (cancelled, [slow]),
    (timed_out, [slow]),
    (with_hook, [sync, coroutine]),
    (streamed, [sync, coroutine, failing]),
    (on_loop, [sync, coroutine, failing, failing_coroutine]),
]


@pytest.mark.parametrize(("way", "action"), [(way, action) for way, actions in WAYS for action in actions])
@pytest.mark.parametrize("lazy", [False, True])
def test_references_are_balanced(way: Callable[[Any, Any], None], action: Any, lazy: bool) -> None:
    # S054
    items = [Thing() for _ in range(4)]

    def counts() -> list[int]:
        gc.collect()
        return [sys.getrefcount(item) for item in items] + [sys.getrefcount(action), sys.getrefcount(items)]

    def source() -> Any:
        return (item for item in items) if lazy else items

    way(action, source())
    before = counts()
    for _ in range(10):
        way(action, source())
    assert counts() == before


def test_no_feed_or_worker_outlives_its_run() -> None:
    def living() -> int:
        gc.collect()
        return sum(isinstance(each, _core.Feed | _core.Worker) for each in gc.get_objects())

    before = living()
    for action in (coroutine, sync, lambda item: coroutine(item)):
        fw.bounded(action, [Thing() for _ in range(50)], limit=5)
    assert living() == before


def test_a_run_that_refers_to_itself_is_collected() -> None:
    box: list[Any] = []

    def action(item: int) -> Any:
        return box

    box.append(fw.bounded(action, 3, limit=1))
    box.append(box)
    gc.collect()


@pytest.mark.parametrize("action", [sync, coroutine])
def test_memory_does_not_grow_with_the_items(action: Any) -> None:
    # S050
    def source(count: int) -> Iterator[int]:
        yield from range(count)

    def peak(count: int) -> int:
        tracemalloc.start()
        fw.bounded(action, source(count), limit=10, keep="summary")
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    peak(100)
    assert peak(20_000) < peak(200) + 300_000


def test_bytes_per_item_beyond_the_results() -> None:
    # targets B
    count = 100_000
    items = range(count)
    tracemalloc.start()
    run = fw.bounded(abs, items, limit=50)
    own = tracemalloc.get_traced_memory()[1] + run.engine_bytes
    tracemalloc.stop()
    numbers = count * sys.getsizeof(1000)  # the results themselves
    assert (own - numbers) / count <= 48


def test_an_outcome_nobody_takes_stops_the_starts() -> None:
    with fw.stream(lambda item: item, itertools.count(), limit=4, buffer=8) as outcomes:
        first = next(outcomes)
        assert first.index == 0
        feed = outcomes._feed
        while feed.ledger.finished < 9:
            pass
        threading.Event().wait(0.05)
        assert feed.ledger.finished <= 8 + 1 + 4
