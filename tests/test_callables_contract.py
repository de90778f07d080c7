"""The contract of design.md section 3 for Python callables: the same tests for sync ones on threads and async ones on a loop."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import fanwidth as fw

LAZY = ("for_each", "bounded")
ALL = ("for_each", "when_all", "bounded", "chunked")
Body = Callable[[Any], Any]


def sync(body: Callable[[Any], tuple[float, Any]]) -> Callable[[Any], Any]:
    """A sync action: `body` says how long an item takes and what it gives; an exception given is raised."""

    def action(item: Any) -> Any:
        seconds, result = body(item)
        if seconds:
            time.sleep(seconds)
        if isinstance(result, BaseException):
            raise result
        return result

    return action


def coroutine(body: Callable[[Any], tuple[float, Any]]) -> Callable[[Any], Any]:
    async def action(item: Any) -> Any:
        seconds, result = body(item)
        if seconds:
            await asyncio.sleep(seconds)
        if isinstance(result, BaseException):
            raise result
        return result

    return action


def late_coroutine(body: Callable[[Any], tuple[float, Any]]) -> Callable[[Any], Any]:
    """A sync callable that returns a coroutine, which nobody can know before it is called."""
    make = coroutine(body)
    return lambda item: make(item)


def on_loop(strategy: str, action: Any, items: Any, **options: Any) -> fw.Run:
    async def main() -> fw.Run:
        return await fw.aio.run(action, items, strategy=strategy, **options)

    return asyncio.run(main())


def from_sync(strategy: str, action: Any, items: Any, **options: Any) -> fw.Run:
    return fw.run(action, items, strategy=strategy, **options)


DRIVERS = {
    "threads": (from_sync, sync),
    "asyncio": (from_sync, coroutine),
    "handed over": (from_sync, late_coroutine),
    "aio, asyncio": (on_loop, coroutine),
    "aio, threads": (on_loop, sync),
}


class Driver:
    def __init__(self, name: str) -> None:
        self.run, self.action = DRIVERS[name]
        self.cancels = "threads" not in name

    def __call__(
        self, strategy: str, body: Callable[[Any], tuple[float, Any]], items: Any, limit: int = 2, **options: Any
    ) -> fw.Run:
        if strategy != "when_all":
            options["limit"] = limit
        return self.run(strategy, self.action(body), items, **options)


@pytest.fixture(params=DRIVERS)
def drive(request: pytest.FixtureRequest) -> Driver:
    return Driver(request.param)


class Counted:
    """An iterator that counts how often it is asked, and on which threads."""

    def __init__(self, items: Any) -> None:
        self.items = iter(items)
        self.asked = 0
        self.threads: set[int] = set()

    def __iter__(self) -> Counted:
        return self

    def __next__(self) -> Any:
        self.asked += 1
        self.threads.add(threading.get_ident())
        return next(self.items)


class Gauge:
    """Counts jobs in and out."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now = self.peak = self.started = 0
        self.order: list[Any] = []

    def enter(self, item: Any = None) -> None:
        with self.lock:
            self.now += 1
            self.started += 1
            self.peak = max(self.peak, self.now)
            self.order.append(item)

    def leave(self) -> None:
        with self.lock:
            self.now -= 1


def gauged(gauge: Gauge, seconds: float, kind: Callable[..., Any]) -> Callable[[Any], Any]:
    if kind is sync:

        def action(item: Any) -> Any:
            gauge.enter(item)
            time.sleep(seconds)
            gauge.leave()
            return item

        return action

    async def action_async(item: Any) -> Any:
        gauge.enter(item)
        await asyncio.sleep(seconds)
        gauge.leave()
        return item

    return action_async if kind is coroutine else lambda item: action_async(item)


# --- results, order, equality, emptiness


@pytest.mark.parametrize("strategy", ALL)
@pytest.mark.parametrize("source", [list, iter, Counted, lambda items: (i for i in items), lambda items: zip(items)])
def test_results_are_in_source_order(drive: Driver, strategy: str, source: Callable[[Any], Any]) -> None:
    # S041
    run = drive(strategy, lambda item: ((4 - (item if isinstance(item, int) else item[0])) * 0.004, item), source([0, 1, 2, 3]))
    assert [item if isinstance(item, int) else item[0] for item in run.results] == [0, 1, 2, 3]
    assert run.ok
    assert run.counts.total == 4


@pytest.mark.parametrize("strategy", ALL)
def test_equal_items_are_separate_jobs(drive: Driver, strategy: str) -> None:
    # S008
    log: list[int] = []
    run = drive(strategy, lambda item: (0, log.append(item) or item), [1, 2, 2, 3])
    assert sorted(log) == [1, 2, 2, 3]
    assert run.results == [1, 2, 2, 3]


@pytest.mark.parametrize("strategy", ALL)
@pytest.mark.parametrize("limit", [1, 8])
@pytest.mark.parametrize("source", [list, lambda: iter(()), lambda: (i for i in ())], ids=["list", "iterator", "generator"])
def test_an_empty_source_is_an_empty_run(drive: Driver, strategy: str, limit: int, source: Callable[[], Any]) -> None:
    # S007
    run = drive(strategy, lambda item: (0, item), source(), limit)
    assert run.results == []
    assert run.counts.total == 0
    assert run.latency.n == 0
    assert run.elapsed < 0.25


# --- the limit


@pytest.mark.parametrize("strategy", LAZY)
@pytest.mark.parametrize("limit", [1, 3])
def test_the_limit_holds_and_no_slot_is_idle(drive: Driver, strategy: str, limit: int) -> None:
    # S011
    gauge = Gauge()
    run = drive.run(strategy, gauged(gauge, 0.02, drive.action), 15, limit=limit)
    assert gauge.peak == limit
    assert run.peak_in_flight == limit
    assert 15 / limit * 0.02 <= run.elapsed < 15 / limit * 0.02 * 5


def test_as_many_callables_run_at_once_as_asked_for(drive: Driver) -> None:
    # S014
    gauge = Gauge()
    run = drive.run("for_each", gauged(gauge, 0.4, drive.action), 64, limit=64)
    assert gauge.peak == 64
    assert (run.effective_limit, run.limited_by) == (64, "limit")
    assert run.elapsed < 2  # one after the other would be 25.6 s


@pytest.mark.parametrize("strategy", LAZY)
def test_items_start_in_source_order(drive: Driver, strategy: str) -> None:
    # S042
    run = drive(strategy, lambda item: (0.002, item), (i for i in range(20)))
    starts = list(run.samples.start_ns)
    assert starts == sorted(starts)


def test_a_chunk_waits_for_the_slowest_of_the_last_one(drive: Driver) -> None:
    run = drive("chunked", lambda item: (0.05 if item % 3 == 0 else 0, item), 9, limit=3)
    start, finish = run.samples.start_ns, run.samples.finish_ns
    for chunk in (3, 6):
        assert min(start[chunk : chunk + 3]) >= max(finish[chunk - 3 : chunk])


# --- the source


@pytest.mark.parametrize("strategy", LAZY)
def test_an_endless_source_is_not_drained(drive: Driver, strategy: str) -> None:
    # S001
    source, token = Counted(itertools.count()), fw.CancelToken()
    threading.Timer(0.11, token.cancel).start()
    before = time.perf_counter()
    with pytest.raises(fw.RunCancelled) as caught:
        drive(strategy, lambda item: (0.02, item), source, 4, cancel=token)
    assert time.perf_counter() - before < 1
    assert 4 <= source.asked <= 28 + 4
    assert sum(caught.value.run.counts[:5]) == source.asked


@pytest.mark.parametrize("limit", [1, 3, 100])
@pytest.mark.parametrize("strategy", ALL)
def test_the_source_is_asked_once_for_its_end_on_the_calling_thread(drive: Driver, strategy: str, limit: int) -> None:
    # S004
    source = Counted(range(5))
    run = drive(strategy, lambda item: (0.005, item), source, limit)
    assert source.asked == 6
    assert run.results == [0, 1, 2, 3, 4]
    assert source.threads == {threading.get_ident()}


@pytest.mark.parametrize("strategy", LAZY)
def test_no_more_is_pulled_than_may_be_in_flight(drive: Driver, strategy: str) -> None:
    excess: list[int] = []
    finished = [0]
    lock = threading.Lock()

    def source() -> Iterator[int]:
        for pulled in range(40):
            with lock:
                excess.append(pulled + 1 - finished[0])
            yield pulled

    def body(item: int) -> tuple[float, int]:
        return 0.001, item

    action = drive.action(body)

    if drive.action is sync:

        def counted(item: int) -> Any:
            result = action(item)
            with lock:
                finished[0] += 1
            return result

    else:

        async def counted(item: int) -> Any:
            result = await action(item)
            finished[0] += 1
            return result

    drive.run(strategy, counted, source(), limit=3)
    assert max(excess) <= 3


@pytest.mark.parametrize("strategy", LAZY)
@pytest.mark.parametrize("keep", [False, True])
def test_what_the_source_raises_is_raised(drive: Driver, strategy: str, keep: bool) -> None:
    # S005
    def source() -> Iterator[int]:
        yield from range(3)
        raise ValueError("src")

    options = {"max_failures": None, "errors": "keep"} if keep else {}
    with pytest.raises(ValueError, match="src") as caught:
        drive(strategy, lambda item: (0.03, item), source(), **options)
    run = caught.value.run  # type: ignore[attr-defined]
    assert run.stopped_by == "source"
    assert sum(run.counts[:5]) == 3
    if keep or not drive.cancels:
        assert run.counts.ok == 3
    assert run.counts.failed == 0


def test_when_all_starts_nothing_when_its_source_raises(drive: Driver) -> None:
    def source() -> Iterator[int]:
        yield 1
        raise ValueError("src")

    log: list[int] = []
    with pytest.raises(ValueError, match="src"):
        drive("when_all", lambda item: (0, log.append(item)), source())
    assert log == []


def test_the_generator_is_closed_on_early_exit(drive: Driver) -> None:
    # S006
    closed: list[str] = []

    def source() -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            closed.append("closed")

    with pytest.raises(fw.RunFailed):
        drive("for_each", lambda item: (0.001, ValueError() if item == 3 else item), source())
    assert closed == ["closed"]


def test_a_generator_keeps_its_context_variables(drive: Driver) -> None:
    import contextvars

    var = contextvars.ContextVar("var", default=0)

    def source() -> Iterator[int]:
        for i in range(6):
            token = var.set(i + 1)
            yield i
            var.reset(token)  # ValueError in any context but that of the set

    assert drive("bounded", lambda item: (0.001, item), source()).results == [0, 1, 2, 3, 4, 5]


# --- failures


@pytest.mark.parametrize("strategy", ALL)
def test_every_failure_is_kept_with_its_index_and_item(drive: Driver, strategy: str) -> None:
    # S020
    items = [f"item {i}" for i in range(10)]
    run = drive(
        strategy,
        lambda item: (0, ValueError(item) if int(item[5:]) % 2 == 0 else item),
        iter(items),
        max_failures=None,
        errors="keep",
    )
    assert [(e.index, e.item, str(e.exception)) for e in run.errors] == [(i, f"item {i}", f"item {i}") for i in range(0, 10, 2)]
    assert run.counts[:5] == (5, 5, 0, 0, 0)


@pytest.mark.parametrize("strategy", ALL)
def test_run_failed_comes_after_the_end(drive: Driver, strategy: str) -> None:
    with pytest.raises(fw.RunFailed) as caught:
        drive(strategy, lambda item: (0, KeyError("k") if item == 2 else item), 6, max_failures=None)
    assert caught.value.run.counts[:5] == (5, 1, 0, 0, 0)
    assert repr(caught.value.exceptions[0]) == "KeyError('k')"
    assert caught.value.run.results == [0, 1, None, 3, 4, 5]


def test_nothing_starts_after_the_failure_that_stops_the_run(drive: Driver) -> None:
    # S022
    with pytest.raises(fw.RunFailed) as caught:
        drive("for_each", lambda item: (0.02 if item == 1 else 0.4, ValueError() if item == 1 else item), 10)
    counts = caught.value.run.counts
    assert counts.not_started == 8
    assert counts.failed == 1
    assert counts.cancelled == (1 if drive.cancels else 0)


def test_cancelled_siblings_are_no_errors(drive: Driver) -> None:
    # S024
    with pytest.raises(fw.RunFailed) as caught:
        drive("for_each", lambda item: (0.12, ValueError(2)) if item == 2 else (0.4, item), 10, limit=5)
    run = caught.value.run
    assert [error.index for error in run.errors] == [2]
    assert len(caught.value.exceptions) == 1
    assert (run.counts.cancelled if drive.cancels else run.counts.ok) == 4
    assert run.counts.not_started == 5


@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_max_failures_is_the_most_that_may_fail(drive: Driver, allowed: int) -> None:
    with pytest.raises(fw.RunFailed) as caught:
        drive("bounded", lambda item: (0, ValueError()), 10, limit=1, max_failures=allowed)
    assert caught.value.run.counts.failed == allowed + 1


@pytest.mark.parametrize("strategy", ALL)
def test_stop_iteration_is_a_failure_like_any_other(drive: Driver, strategy: str) -> None:
    # S027
    def body(item: int) -> tuple[float, Any]:
        return 0, next(iter(())) if item == 1 else item

    run = drive(strategy, body, 3, max_failures=None, errors="keep")
    assert run.counts[:2] == (2, 1)
    assert "StopIteration" in repr(run.errors[0].exception)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt("job")])
def test_a_job_that_ends_the_program_ends_the_run(drive: Driver, error: BaseException) -> None:
    # S028
    with pytest.raises(type(error)) as caught:
        drive("for_each", lambda item: (0.001, error if item == 2 else item), 6)
    assert caught.value is error
    run = error.run  # type: ignore[union-attr]
    assert sum(run.counts[:5]) == 6
    assert run.counts.failed == 1


def test_a_job_that_raises_cancelled_error_has_failed(drive: Driver) -> None:
    # S025
    run = drive("when_all", lambda item: (0.001, asyncio.CancelledError() if item == 1 else item), 3, errors="keep")
    assert run.counts[:2] == (2, 1)
    assert isinstance(run.errors[0].exception, RuntimeError)
    assert isinstance(run.errors[0].exception.__cause__, asyncio.CancelledError)


def test_an_exception_no_group_can_hold_is_wrapped(drive: Driver) -> None:
    class Odd(BaseException):
        pass

    with pytest.raises(fw.RunFailed) as caught:
        drive("bounded", lambda item: (0, Odd("odd") if item == 1 else item), 3)
    assert caught.value.run.counts.failed == 1
    assert isinstance(caught.value.exceptions[0].__cause__, Odd)


def test_summary_keeps_a_bounded_number_of_failures(drive: Driver) -> None:
    run = drive("bounded", lambda item: (0, ValueError()), 3_000, keep="summary", errors="keep")
    assert run.counts.failed == 3_000
    assert len(run._failures) == 1_000


# --- ends from outside


def test_a_token_cancelled_before_the_start_starts_nothing(drive: Driver) -> None:
    # S033
    token = fw.CancelToken()
    token.cancel()
    with pytest.raises(fw.RunCancelled) as caught:
        drive("for_each", lambda item: (0, item), 5, cancel=token)
    assert caught.value.run.counts.not_started == 5


def test_a_token_cancelled_by_the_first_pull_starts_at_most_one(drive: Driver) -> None:
    # S033
    token = fw.CancelToken()

    def source() -> Iterator[int]:
        token.cancel()
        yield from range(5)

    with pytest.raises(fw.RunCancelled) as caught:
        drive("for_each", lambda item: (0, item), source(), cancel=token)
    counts = caught.value.run.counts
    assert counts.total - counts.not_started <= 1


def test_cancel_gives_every_item_a_final_state(drive: Driver) -> None:
    # S039
    token = fw.CancelToken()
    threading.Timer(0.075, token.cancel).start()
    before = time.perf_counter()
    with pytest.raises(fw.RunCancelled) as caught:
        drive("for_each", lambda item: (0.05, item), 10, limit=1, cancel=token)
    assert time.perf_counter() - before < 1
    run = caught.value.run
    assert sum(run.counts[:5]) == 10
    assert run.counts.not_started >= 7
    assert all(state >= 0 for state in run.samples.state)
    assert run.stopped_by == "cancel"


def test_item_timeout_counts_from_the_items_own_start(drive: Driver) -> None:
    # S035
    run = drive("bounded", lambda item: (0.05, item), 4, limit=1, item_timeout=0.15)
    assert run.ok
    assert run.elapsed >= 0.2


def test_a_late_item_is_timed_out_and_keeps_its_slot(drive: Driver) -> None:
    run = drive("bounded", lambda item: (0.1 if item == 1 else 0, item), 4, limit=1, item_timeout=0.05, errors="keep")
    assert run.counts[:3] == (3, 0, 1)
    error = run.errors[0]
    assert (error.index, error.state, type(error.exception)) == (1, "timed_out", TimeoutError)
    assert error.finish - error.start >= 0.05
    assert run.outcomes[2].start >= error.finish


def test_total_timeout_leaves_nothing_running(drive: Driver) -> None:
    # S036
    gauge = Gauge()
    action = gauged(gauge, 1 if drive.cancels else 0.3, drive.action)
    with pytest.raises(fw.RunTimeout) as caught:
        drive.run("bounded", action, 8, limit=4, total_timeout=0.1)
    run = caught.value.run
    assert run.counts[:5] == (0, 0, 4, 0, 4)
    assert 0.1 <= run.elapsed < 0.9
    assert isinstance(run.errors[0].exception, TimeoutError)
    left = gauge.now
    time.sleep(0.1)
    assert (gauge.now, gauge.started) == (left, 4)


# --- async iterables


@pytest.mark.parametrize("driver", ["asyncio", "aio, asyncio"])
class TestAsyncIterables:
    @pytest.mark.parametrize("strategy", ALL)
    @pytest.mark.parametrize("limit", [1, 5])
    def test_are_asked_by_one_taker_at_a_time(self, driver: str, strategy: str, limit: int) -> None:
        # S003
        async def source() -> AsyncIterator[int]:
            for i in range(10):
                await asyncio.sleep(0.001)
                yield i

        run = Driver(driver)(strategy, lambda item: (0.005, item), source(), limit)
        assert run.results == list(range(10))

    def test_are_not_read_ahead(self, driver: str) -> None:
        # S002
        yielded: list[float] = []
        started: list[float] = []

        async def source() -> AsyncIterator[int]:
            for i in range(5):
                await asyncio.sleep(0.05)
                yielded.append(time.perf_counter())
                yield i

        run = Driver(driver)("for_each", lambda item: (0.05, started.append(time.perf_counter())), source())
        assert started[0] < yielded[1]
        assert run.elapsed < 1

    def test_are_asked_once_for_their_end(self, driver: str) -> None:
        # S004
        class Source:
            asked = 0

            def __aiter__(self) -> Source:
                return self

            async def __anext__(self) -> int:
                self.asked += 1
                if self.asked > 5:
                    raise StopAsyncIteration
                return self.asked

        source = Source()
        run = Driver(driver)("for_each", lambda item: (0.005, item), source, 100)
        assert source.asked == 6
        assert run.results == [1, 2, 3, 4, 5]

    def test_are_closed_on_early_exit(self, driver: str) -> None:
        # S006
        closed: list[str] = []

        async def source() -> AsyncIterator[int]:
            try:
                for i in range(10):
                    yield i
            finally:
                await asyncio.sleep(0)
                closed.append("closed")

        with pytest.raises(fw.RunFailed):
            Driver(driver)("for_each", lambda item: (0.001, ValueError() if item == 3 else item), source())
        assert closed == ["closed"]

    def test_may_wait_for_ever_when_the_run_ends(self, driver: str) -> None:
        async def source() -> AsyncIterator[int]:
            yield 0
            await asyncio.sleep(3600)
            yield 1

        with pytest.raises(fw.RunFailed) as caught:
            Driver(driver)("for_each", lambda item: (0.01, ValueError()), source())
        assert caught.value.run.counts.total == 1

    @pytest.mark.parametrize("strategy", ALL)
    def test_may_be_empty(self, driver: str, strategy: str) -> None:
        # S007
        async def source() -> AsyncIterator[int]:
            return
            yield

        assert Driver(driver)(strategy, lambda item: (0, item), source()).results == []

    @pytest.mark.parametrize("strategy", ALL)
    def test_may_raise(self, driver: str, strategy: str) -> None:
        # S005
        async def source() -> AsyncIterator[int]:
            yield 0
            raise ValueError("src")

        with pytest.raises(ValueError, match="src") as caught:
            Driver(driver)(strategy, lambda item: (0.001, item), source())
        assert caught.value.run.counts.total == 1  # type: ignore[attr-defined]
