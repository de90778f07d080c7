"""fw.start: a run in the background, watched, steered and ended by its handle."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from typing import Any

import pytest

import fanwidth as fw


def pause(item: Any) -> Any:
    time.sleep(0.02)
    return item


async def pause_async(item: Any) -> Any:
    await asyncio.sleep(0.02)
    return item


DRIVERS = pytest.mark.parametrize("action", [pause, pause_async, fw.delay(0.02)], ids=["threads", "asyncio", "native"])
CALLABLES = pytest.mark.parametrize(
    "action", [pause, pause_async, lambda item: pause_async(item)], ids=["threads", "asyncio", "late"]
)


@DRIVERS
def test_a_run_goes_on_in_the_background(action: Any) -> None:
    handle = fw.start(action, 10, limit=2)
    assert not handle.done
    run = handle.result()
    assert handle.done
    assert run.results == list(range(10))
    stats = handle.stats()
    assert (stats.active, stats.done, stats.failed, stats.total, stats.eta) == (0, 10, 0, 10, 0)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("fanwidth")]


@DRIVERS
def test_cancel_ends_it(action: Any) -> None:
    handle = fw.start(action, itertools.count(), limit=2)
    time.sleep(0.1)
    handle.cancel()
    with pytest.raises(fw.RunCancelled) as caught:
        handle.result(5)
    assert caught.value.run.counts.ok >= 2


@DRIVERS
def test_a_token_of_the_users_ends_it_too(action: Any) -> None:
    token = fw.CancelToken()
    handle = fw.start(action, itertools.count(), limit=2, cancel=token)
    token.cancel()
    with pytest.raises(fw.RunCancelled):
        handle.result(5)


@DRIVERS
def test_waiting_may_time_out_and_the_run_goes_on(action: Any) -> None:
    handle = fw.start(action, 6, limit=1)
    with pytest.raises(TimeoutError, match="goes on"):
        handle.result(0.01)
    assert handle.result().ok


@CALLABLES
def test_stats_tell_how_far_it_is(action: Any) -> None:
    handle = fw.start(action, 20, limit=4)
    deadline = time.monotonic() + 5
    while handle.stats().done < 8 and time.monotonic() < deadline:
        time.sleep(0.001)
    stats = handle.stats()
    assert 8 <= stats.done <= 20
    assert stats.active is not None
    assert stats.active <= 4
    assert stats.rate is not None
    assert stats.rate > 0
    assert stats.eta is not None
    assert "of 20 done" in repr(handle)
    handle.result()


@CALLABLES
def test_a_raised_limit_takes_effect_at_once(action: Any) -> None:
    handle = fw.start(action, itertools.count(), limit=1)
    time.sleep(0.05)
    handle.limit = 8
    deadline = time.monotonic() + 5
    while handle.stats().active != 8 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert handle.stats().active == handle.limit == 8
    handle.cancel()
    with pytest.raises(fw.RunCancelled):
        handle.result()


@CALLABLES
def test_after_a_lowered_limit_nothing_starts_until_there_is_room(action: Any) -> None:
    handle = fw.start(action, itertools.count(), limit=8)
    time.sleep(0.05)
    handle.limit = 2
    deadline = time.monotonic() + 5
    while handle.stats().active > 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    for _ in range(20):
        assert handle.stats().active <= 2
        time.sleep(0.002)
    handle.limit = 4
    time.sleep(0.1)
    handle.cancel()
    with pytest.raises(fw.RunCancelled) as caught:
        handle.result()
    assert caught.value.run.peak_in_flight == 8


@CALLABLES
@pytest.mark.parametrize("source", [lambda: range(40), lambda: (i for i in range(40))], ids=["sized", "generator"])
def test_a_limit_that_goes_up_and_down_loses_nothing(action: Any, source: Any) -> None:
    handle = fw.start(action, source(), limit=3)
    for limit in (1, 7, 2, 5):
        time.sleep(0.02)
        handle.limit = limit
    assert handle.result().results == list(range(40))


def test_a_limit_is_set_only_where_it_can_be() -> None:
    for action, strategy in ((fw.delay(0.02), "bounded"), (pause, "chunked")):
        handle = fw.start(action, 4, limit=2, strategy=strategy)
        with pytest.raises(AttributeError, match="fixed"):
            handle.limit = 3
        assert handle.limit == 2
        handle.result()
    handle = fw.start(pause, 2, strategy="when_all")
    assert handle.limit is None
    with pytest.raises(AttributeError, match="when_all"):
        handle.limit = 3
    handle.result()
    handle = fw.start(pause, 4, limit=2)
    with pytest.raises(ValueError, match="limit"):
        handle.limit = 0
    handle.result()


def test_failures_are_raised_by_result() -> None:
    def fail(item: int) -> None:
        raise ValueError(item)

    handle = fw.start(fail, 3, limit=1)
    for _ in range(2):
        with pytest.raises(fw.RunFailed):
            handle.result()
    assert fw.start(fail, 3, limit=1, errors="keep").result().counts.failed == 3


def test_wrong_arguments_fail_at_the_call() -> None:
    with pytest.raises(TypeError, match="limit"):
        fw.start(pause, 3)
    with pytest.raises(ValueError, match="progress"):
        fw.start(pause, 3, limit=1, progress=True)
