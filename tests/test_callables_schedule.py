"""The asyncio driver starts what the engine starts, when the engine starts it: both on clocks that jump (issue 4, item 4)."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fanwidth as fw

UNIT = 0.125  # a power of two: sums of such times are exact, on the loop's floats and in the engine's ns


class JumpingLoop(asyncio.SelectorEventLoop):
    """A loop that never waits: when nothing is ready its time jumps to its next timer."""

    def __init__(self) -> None:
        super().__init__(selectors.SelectSelector())
        self._now = 0.0
        self._clock_resolution = 1e-9  # timers that are due now must fire now

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        while self._scheduled and self._scheduled[0].cancelled():  # type: ignore[attr-defined]
            self._scheduled[0]._scheduled = False  # type: ignore[attr-defined]
            self._timer_cancelled_count = max(0, self._timer_cancelled_count - 1)  # type: ignore[attr-defined, has-type]
            self._scheduled.pop(0)  # type: ignore[attr-defined]
            self._scheduled.sort()  # type: ignore[attr-defined]
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._now = max(self._now, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


Seen = list[tuple[int, float, float]]
"""Index, start and finish, in the order of the starts."""


def on_loop(durations: list[float], source: Any, strategy: str, **options: Any) -> tuple[Seen, fw.Run]:
    starts: dict[int, float] = {}
    finishes: dict[int, float] = {}

    async def main() -> fw.Run:
        loop = asyncio.get_running_loop()

        async def action(index: int) -> int:
            starts[index] = loop.time()
            try:
                await asyncio.sleep(durations[index])
            finally:
                finishes[index] = loop.time()
            return index

        return await fw.aio.run(action, source(range(len(durations))), strategy=strategy, **options)

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        run = runner.run(main())
    return [(index, start, finishes[index]) for index, start in starts.items()], run


def on_engine(durations: list[float], strategy: str, **options: Any) -> tuple[Seen, fw.Run]:
    run = fw.run(fw.delay(), durations, strategy=strategy, clock="virtual", **options)
    start, finish, _ = run.samples
    seen = [(i, start[i] / 1e9, finish[i] / 1e9) for i in range(len(durations)) if start[i] >= 0]
    return seen, run


async def asynchronous(items: Any) -> AsyncIterator[Any]:
    for item in items:
        yield item


def generator(items: Any) -> Iterator[Any]:
    yield from items


SOURCES = {"list": list, "iterator": iter, "generator": generator, "async generator": asynchronous}
durations = st.lists(st.integers(1, 12).map(lambda units: units * UNIT), max_size=30)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("strategy", ["for_each", "when_all", "bounded", "chunked"])
@given(durations=durations, limit=st.integers(1, 8))
def test_starts_and_finishes_are_the_engines(source: str, strategy: str, durations: list[float], limit: int) -> None:
    options = {} if strategy == "when_all" else {"limit": limit}
    seen, run = on_loop(durations, SOURCES[source], strategy, **options)
    expected, twin = on_engine(durations, strategy, **options)
    assert seen == expected
    assert run.counts == twin.counts
    assert run.peak_in_flight == twin.peak_in_flight


@pytest.mark.parametrize("strategy", ["for_each", "bounded"])
@given(durations=durations, limit=st.integers(1, 8), timeout=st.integers(1, 12))
def test_late_items_end_when_the_engine_ends_them(strategy: str, durations: list[float], limit: int, timeout: int) -> None:
    options: dict[str, Any] = {
        "limit": limit,
        "item_timeout": (timeout + 0.5) * UNIT,  # nothing ends at that very moment
        "errors": "keep",
        "max_failures": None,
    }
    seen, run = on_loop(durations, generator, strategy, **options)
    expected, twin = on_engine(durations, strategy, **options)
    assert seen == expected
    assert [error.index for error in run.errors] == [error.index for error in twin.errors]


@given(durations=durations, limit=st.integers(1, 8), timeout=st.integers(1, 40))
def test_the_total_time_out_strikes_when_the_engines_does(durations: list[float], limit: int, timeout: int) -> None:
    options: dict[str, Any] = {"limit": limit, "total_timeout": (timeout + 0.5) * UNIT, "errors": "keep"}
    seen, run = on_loop(durations, list, "bounded", **options)
    expected, twin = on_engine(durations, "bounded", **options)
    assert seen == expected
    assert run.counts == twin.counts
