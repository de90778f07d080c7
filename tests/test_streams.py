"""fw.stream and fw.aio.stream: outcomes as they complete."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import fanwidth as fw


def pause(seconds: float) -> None:
    time.sleep(seconds)


async def pause_async(seconds: float) -> None:
    await asyncio.sleep(seconds)


def fails_at_2(item: int) -> int:
    if item == 2:
        raise ValueError("two")
    return item


async def fails_at_2_async(item: int) -> int:
    await asyncio.sleep(0)
    return fails_at_2(item)


def collect(action: Any, items: Any, **options: Any) -> tuple[list[fw.Outcome], fw.Run]:
    with fw.stream(action, items, **options) as outcomes:
        return list(outcomes), outcomes.run


def collect_on_loop(action: Any, items: Any, **options: Any) -> tuple[list[fw.Outcome], fw.Run]:
    async def main() -> tuple[list[fw.Outcome], fw.Run]:
        async with fw.aio.stream(action, items, **options) as outcomes:
            return [outcome async for outcome in outcomes], outcomes.run

    return asyncio.run(main())


@pytest.fixture(params=[collect, collect_on_loop], ids=["sync", "loop"])
def gather(request: pytest.FixtureRequest) -> Callable[..., tuple[list[fw.Outcome], fw.Run]]:
    return request.param


@pytest.mark.parametrize("action", [fails_at_2, fails_at_2_async], ids=["threads", "asyncio"])
def test_a_failure_does_not_end_the_stream(gather: Any, action: Any) -> None:
    # S021
    outcomes, run = gather(action, 5, limit=1)
    assert [outcome.index for outcome in outcomes] == [0, 1, 2, 3, 4]
    assert [outcome.state for outcome in outcomes] == ["ok", "ok", "failed", "ok", "ok"]
    with pytest.raises(ValueError, match="two"):
        outcomes[2].get()
    assert run.counts[:2] == (4, 1)


@pytest.mark.parametrize("action", [pause, pause_async, fw.delay()], ids=["threads", "asyncio", "native"])
def test_outcomes_come_as_they_complete(gather: Any, action: Any) -> None:
    # S041
    outcomes, _ = gather(action, [0.2, 0.05, 0.15, 0.1], limit=4)
    assert [outcome.index for outcome in outcomes] == [1, 3, 2, 0]
    assert [outcome.item for outcome in outcomes] == [0.05, 0.1, 0.15, 0.2]


@pytest.mark.parametrize("action", [pause, pause_async, fw.delay()], ids=["threads", "asyncio", "native"])
def test_ordered_outcomes_do_not_hold_starts_back(gather: Any, action: Any) -> None:
    # S043
    outcomes, run = gather(action, [0.2] + [0.02] * 12, limit=4, ordered=True, keep="samples")
    assert [outcome.index for outcome in outcomes] == list(range(13))
    assert outcomes[4].start < 0.15
    assert run.elapsed < 0.26 * 3


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("action", [fails_at_2, fails_at_2_async], ids=["threads", "asyncio"])
@pytest.mark.parametrize("source", [range, lambda n: (i for i in range(n))], ids=["sized", "generator"])
def test_each_item_comes_once(gather: Any, ordered: bool, action: Any, source: Any) -> None:
    outcomes, run = gather(action, source(500), limit=7, ordered=ordered, buffer=3)
    assert sorted(outcome.index for outcome in outcomes) == list(range(500))
    assert run.counts.total == 500


@pytest.mark.parametrize("action", [fails_at_2, fails_at_2_async], ids=["threads", "asyncio"])
def test_the_end_is_found_though_all_wait_for_the_consumer(action: Any) -> None:
    for items in range(12):  # among them those whose last item fills the buffer, so that nobody is at work when it is emptied
        with fw.stream(action, items, limit=4, buffer=4) as outcomes:
            time.sleep(0.005)
            assert len(list(outcomes)) == items


@pytest.mark.parametrize("strategy", ["for_each", "when_all", "bounded", "chunked"])
def test_a_stream_may_be_empty(gather: Any, strategy: str) -> None:
    limit = {} if strategy == "when_all" else {"limit": 2}
    for action in (pause, pause_async, fw.delay()):
        outcomes, run = gather(action, [], strategy=strategy, **limit)
        assert outcomes == []
        assert run.counts.total == 0


@pytest.mark.parametrize("action", [fails_at_2, fails_at_2_async], ids=["threads", "asyncio"])
def test_what_the_source_raises_comes_after_the_outcomes(action: Any) -> None:
    def source() -> Iterator[int]:
        yield from range(2)
        raise KeyError("src")

    seen = []
    with fw.stream(action, source(), limit=1) as outcomes:
        with pytest.raises(KeyError, match="src"):
            for outcome in outcomes:
                seen.append(outcome.index)
        assert seen == [0, 1]
        assert outcomes.run.stopped_by == "source"
        assert list(outcomes) == []


@pytest.mark.parametrize("action", [pause, pause_async, fw.delay()], ids=["threads", "asyncio", "native"])
def test_leaving_early_ends_the_run(action: Any) -> None:
    closed: list[str] = []

    def source() -> Iterator[float]:
        try:
            yield from itertools.repeat(0.01)
        finally:
            closed.append("closed")

    with fw.stream(action, source(), limit=2) as outcomes:
        for outcome in outcomes:
            if outcome.index >= 5:
                break
    assert closed == ["closed"]
    assert outcomes.run.stopped_by == "cancel"
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("fanwidth")]


def test_leaving_early_on_a_loop_ends_the_run() -> None:
    async def main() -> fw.Run:
        for action in (pause, pause_async, fw.delay()):
            async with fw.aio.stream(action, itertools.repeat(0.01), limit=2) as outcomes:
                async for outcome in outcomes:
                    if outcome.index >= 5:
                        break
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert outcomes.run.stopped_by == "cancel"

    asyncio.run(main())


@pytest.mark.parametrize("action", [abs, fails_at_2_async], ids=["threads", "asyncio"])
def test_nothing_starts_while_the_buffer_is_full(action: Any) -> None:
    # S001
    pulled = [0]

    def source() -> Iterator[int]:
        while True:
            pulled[0] += 1
            yield 5

    with fw.stream(action, source(), limit=4, buffer=8) as outcomes:
        time.sleep(0.1)
        assert pulled[0] <= 8 + 4
        before = pulled[0]
        for _ in range(5):
            next(outcomes)
        time.sleep(0.1)
        assert before < pulled[0] <= 8 + 4 + 5
        time.sleep(0.2)
    assert outcomes.run.limited_by == "consumer"


def test_async_iterables_are_streamed() -> None:
    async def source() -> AsyncIterator[int]:
        for i in range(6):
            await asyncio.sleep(0.001)
            yield i

    assert sorted(outcome.result or -1 for outcome in collect(fails_at_2_async, source(), limit=2)[0]) == [-1, -1, 1, 3, 4, 5]
    assert sorted(outcome.result or -1 for outcome in collect_on_loop(fails_at_2_async, source(), limit=2)[0]) == [
        -1,
        -1,
        1,
        3,
        4,
        5,
    ]


def test_too_many_failures_end_the_stream() -> None:
    outcomes, run = collect(fails_at_2, [2] * 10, limit=1, max_failures=1)
    assert [outcome.state for outcome in outcomes] == ["failed", "failed"]
    assert run.counts.not_started == 8
    with fw.stream(fails_at_2, [2] * 10, limit=1, max_failures=1, errors="raise") as stream, pytest.raises(fw.RunFailed):
        list(stream)


@pytest.mark.parametrize("action", [pause, pause_async, fw.delay()], ids=["threads", "asyncio", "native"])
def test_a_token_ends_the_stream(action: Any) -> None:
    token = fw.CancelToken()
    seen = 0
    with fw.stream(action, itertools.repeat(0.01), limit=2, cancel=token) as outcomes, pytest.raises(fw.RunCancelled):
        for outcome in outcomes:
            seen += 1
            if outcome.index == 5:
                token.cancel()
    assert seen >= 6


@pytest.mark.parametrize(
    "action",
    [
        fw.noop(),
        fw.delay(0.001),
        fw.cpu(0.0005),
        fw.service(0.001, 2),
        fw.delay(fw.exponential(0.001)),
        fw.delay(fw.empirical([0.001])),
    ],
    ids=str,
)
def test_native_actions_take_the_times_they_would_draw(action: fw.NativeAction) -> None:
    outcomes, _ = collect(action, 12, limit=4, seed=7, keep="samples")
    assert sorted(outcome.result for outcome in outcomes) == list(range(12))
    if isinstance(action, fw.service | fw.noop | fw.cpu):
        return
    drawn = fw.when_all(action, 12, clock="virtual", seed=7).samples.finish_ns
    for outcome in outcomes:
        assert outcome.finish - outcome.start >= drawn[outcome.index] / 1e9 - 1e-9


def test_a_full_queue_turns_items_away_in_a_stream_too() -> None:
    outcomes, run = collect(fw.service(0.02, 1, queue=2), 6, limit=6)
    assert run.counts[:2] == (3, 3)
    assert all(isinstance(outcome.exception, fw.QueueFull) for outcome in outcomes if outcome.state == "failed")


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"limit": 2, "keep": "all"}, ValueError, "keep"),
        ({"limit": 2, "progress": True}, ValueError, "progress"),
        ({"limit": 2, "clock": "virtual"}, ValueError, "clock"),
        ({"limit": 2, "buffer": 0}, ValueError, "buffer"),
        ({"limit": 0}, ValueError, "limit"),
        ({}, TypeError, "limit"),
    ],
)
def test_wrong_arguments_fail_at_the_call(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        fw.stream(abs, 3, **options)


def test_a_stream_is_used_with_with_and_once() -> None:
    stream = fw.stream(abs, 3, limit=1)
    with pytest.raises(RuntimeError, match="with"):
        next(stream)
    with stream:
        with pytest.raises(RuntimeError, match="not ended"):
            stream.run  # noqa: B018
        assert len(list(stream)) == 3
    with pytest.raises(RuntimeError, match="once"):
        stream.__enter__()


def test_the_consumers_exception_goes_on() -> None:
    with pytest.raises(ZeroDivisionError), fw.stream(pause, itertools.repeat(0.001), limit=2) as outcomes:
        for outcome in outcomes:
            raise ZeroDivisionError(outcome)
