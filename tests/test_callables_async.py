"""Async callables: recognised in every shape, at home on any loop, cancelled as tasks are, with nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import gc
import inspect
import itertools
import random
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import fanwidth as fw


async def double(item: int) -> int:
    await asyncio.sleep(0)
    return 2 * item


class Shapes:
    async def method(self, item: int) -> int:
        return await double(item)

    async def __call__(self, item: int) -> int:
        return await double(item)

    async def two(self, factor: int, item: int) -> int:
        return factor // 2 * await double(item)


class Awaitable:
    def __init__(self, item: int) -> None:
        self.item = item

    def __await__(self) -> Any:
        yield
        return 2 * self.item


SHAPES: dict[str, Callable[[int], Any]] = {
    "function": double,
    "partial": functools.partial(double),
    "method": Shapes().method,
    "partial of a method": functools.partial(Shapes().two, 2),
    "object": Shapes(),
    "partial of an object": functools.partial(Shapes()),
    "lambda": lambda item: double(item),
    "object with __await__": Awaitable,
    "sync wrapper": functools.wraps(double)(lambda item: double(item)),
    "future": lambda item: asyncio.ensure_future(double(item)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("strategy", ["for_each", "when_all"])
def test_async_callables_are_awaited_whatever_their_shape(shape: str, strategy: str) -> None:
    # S088, S040
    if shape == "future":  # needs a running loop to be made, so from sync code its first call fails
        run = asyncio.run(fw.aio.run(lambda item: double(item), 6, strategy=strategy))
    else:
        run = fw.run(SHAPES[shape], 6, strategy=strategy)
    assert run.results == [0, 2, 4, 6, 8, 10]
    gc.collect()


def test_a_generator_that_is_returned_is_a_result() -> None:
    def make(item: int) -> Any:
        return (i for i in range(item))

    run = fw.bounded(make, 3, limit=2)
    assert [list(result) for result in run.results] == [[], [0], [0, 1]]


def test_an_action_may_give_values_and_awaitables() -> None:
    run = fw.bounded(lambda item: double(item) if item % 2 else item, 8, limit=2)
    assert run.results == [0, 2, 2, 6, 4, 10, 6, 14]


def test_nothing_is_never_awaited_when_a_run_is_cancelled() -> None:
    # S040
    made: list[Any] = []

    def action(item: int) -> Any:
        made.append(asyncio.sleep(10))
        return made[-1]

    token = fw.CancelToken()
    threading.Timer(0.03, token.cancel).start()
    with pytest.raises(fw.RunCancelled):
        fw.bounded(action, 20, limit=2, cancel=token)
    assert all(inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED for coroutine in made)
    gc.collect()


# --- loops


def test_sync_calls_work_inside_a_running_loop() -> None:
    # S086
    async def main() -> list[Any]:
        return [fw.bounded(action, 3, limit=2).ok for action in (fw.delay(0.001), lambda item: item, double)]

    assert asyncio.run(main()) == [True, True, True]


def test_the_sync_call_leaves_the_threads_loop_policy_alone() -> None:
    fw.bounded(double, 3, limit=2)
    loop = asyncio.new_event_loop()
    try:
        asyncio.set_event_loop(loop)
        fw.bounded(double, 3, limit=2)
        assert asyncio.get_event_loop_policy().get_event_loop() is loop
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def test_two_runs_of_asyncio_share_an_action() -> None:
    # S087
    peaks = []
    for _ in range(2):
        run = asyncio.run(fw.aio.bounded(double, 10, limit=2))
        peaks.append((run.counts.ok, run.peak_in_flight))
    assert peaks == [(10, 2), (10, 2)]


def test_loop_factory_makes_the_loop() -> None:
    made = []

    def factory() -> asyncio.AbstractEventLoop:
        made.append(asyncio.new_event_loop())
        return made[-1]

    async def loop_of(item: int) -> Any:
        return asyncio.get_running_loop()

    assert set(fw.bounded(loop_of, 3, limit=1, loop_factory=factory).results) == set(made)
    assert made[0].is_closed()


def test_an_error_about_a_foreign_loop_says_what_to_do() -> None:
    loop = asyncio.new_event_loop()
    foreign = loop.create_future()

    async def use(item: int) -> Any:
        return await foreign

    run = fw.bounded(use, 2, limit=1, errors="keep")
    loop.close()
    assert run.counts.failed == 2
    assert "setup=" in run.errors[0].exception.__notes__[0]


def test_every_worker_is_a_real_task() -> None:
    async def about(item: int) -> Any:
        task = asyncio.current_task()
        assert task is not None
        assert task in asyncio.all_tasks()
        assert asyncio.iscoroutine(task.get_coro())
        repr(task)
        task.get_stack()
        async with asyncio.timeout(0.01) as timeout:
            with contextlib.suppress(TimeoutError):
                await asyncio.sleep(1)
        return timeout.expired(), task.cancelling()

    with pytest.raises(fw.RunFailed) as caught:
        fw.bounded(about, 4, limit=2)
    assert caught.value.run.counts.failed == 4  # TimeoutError comes out of `async with`, and is an ordinary failure


def test_a_time_out_inside_an_item_is_the_items_own() -> None:
    async def patient(item: int) -> Any:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(1)
        except TimeoutError:
            task = asyncio.current_task()
            assert task is not None
            return task.cancelling()

    assert fw.bounded(patient, 4, limit=2).results == [0, 0, 0, 0]


def test_a_task_group_inside_an_item_works_after_an_items_time_out() -> None:
    async def grouped(item: int) -> int:
        if item == 0:
            await asyncio.sleep(1)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(double(item)) for _ in range(2)]
        return sum(task.result() for task in tasks)

    run = fw.bounded(grouped, 3, limit=1, item_timeout=0.02, errors="keep")
    assert run.results == [None, 4, 8]


def test_an_eager_loop_is_no_different() -> None:
    if not hasattr(asyncio, "eager_task_factory"):
        pytest.skip("this Python has no eager tasks")

    def factory() -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        loop.set_task_factory(asyncio.eager_task_factory)
        return loop

    for strategy in ("for_each", "when_all"):
        run = fw.run(double, iter(range(50)), strategy=strategy, loop_factory=factory)
        assert run.results == [2 * i for i in range(50)]
    run = fw.bounded(double, 50, limit=7, loop_factory=factory)
    assert run.peak_in_flight == 7


def test_a_python_task_class_is_no_different() -> None:
    def factory() -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        task_class = asyncio.tasks._PyTask  # type: ignore[attr-defined]
        loop.set_task_factory(lambda loop, coro, **given: task_class(coro, loop=loop, **given))
        return loop

    run = fw.bounded(double, iter(range(50)), limit=7, loop_factory=factory, item_timeout=1)
    assert run.results == [2 * i for i in range(50)]


def test_uvloop_is_welcome() -> None:
    uvloop = pytest.importorskip("uvloop")
    run = fw.bounded(double, 100, limit=7, loop_factory=uvloop.new_event_loop, item_timeout=1)
    assert run.results == [2 * i for i in range(100)]


def test_an_item_that_gives_way_lets_everybody_have_a_turn() -> None:
    turns: list[str] = []

    async def other() -> None:
        for _ in range(5):
            turns.append("other")
            await asyncio.sleep(0)

    async def give_way(item: int) -> int:
        for _ in range(5):
            turns.append("item")
            await asyncio.sleep(0)
        return item

    async def main() -> fw.Run:
        task = asyncio.create_task(other())
        run = await fw.aio.bounded(give_way, 3, limit=3)
        await task
        return run

    assert asyncio.run(main()).results == [0, 1, 2]
    assert turns.index("other", turns.index("item")) < 6
    assert turns.count("other") == 5
    last_other = len(turns) - turns[::-1].index("other")
    assert turns[:last_other].count("item") >= 9  # they took turns, and neither was first done with all


def test_a_cancelled_item_that_gives_way_learns_of_it_in_its_next_turn() -> None:
    async def spin(item: int) -> None:
        while True:
            await asyncio.sleep(0)

    run = fw.bounded(spin, 3, limit=2, item_timeout=0.02, errors="keep")
    assert run.counts.timed_out == 3
    with pytest.raises(fw.RunTimeout):
        fw.bounded(spin, 3, limit=3, total_timeout=0.02)


# --- contexts

var: contextvars.ContextVar[str] = contextvars.ContextVar("var", default="default")


def set_and_get(item: int) -> str:
    before = var.get()
    var.set(f"item {item}")
    return before


async def set_and_get_async(item: int) -> str:
    before = set_and_get(item)
    await asyncio.sleep(0)
    assert var.get() == f"item {item}"
    return before


@pytest.mark.parametrize("action", [set_and_get, set_and_get_async], ids=["sync", "async"])
@pytest.mark.parametrize("where", ["sync", "loop"])
def test_context_variables_reach_the_items_and_do_not_leak(action: Any, where: str) -> None:
    # S089
    def main() -> None:
        var.set("r1")
        run = fw.for_each(action, 8, limit=4) if where == "sync" else asyncio.run(fw.aio.for_each(action, 8, limit=4))
        assert run.results == ["r1"] * 8
        assert var.get() == "r1"

    contextvars.copy_context().run(main)


# --- cancellation


def test_cancelling_the_task_ends_the_run_before_it_propagates() -> None:
    log: list[str] = []

    async def slow(item: int) -> None:
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(0.01)
            log.append("cleaned up")

    async def main() -> None:
        task = asyncio.create_task(fw.aio.bounded(slow, itertools.count(), limit=3))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert log == ["cleaned up"] * 3
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_cancel_and_completion_in_the_same_step_is_a_cancel() -> None:
    # S032
    async def main() -> int:
        loop = asyncio.get_running_loop()
        cancelled = asked = 0
        for i in range(1000):
            future = loop.create_future()

            async def wait(item: int, future: asyncio.Future[None] = future) -> None:
                await future

            task = asyncio.create_task(fw.aio.bounded(wait, 1, limit=1))
            for _ in range(2 + i % 3):
                await asyncio.sleep(0)
            loop.call_soon(lambda future=future: future.done() or future.set_result(None))
            for _ in range(i % 5):
                await asyncio.sleep(0)
            said = task.cancel()
            asked += said
            try:
                await task
            except asyncio.CancelledError:
                cancelled += 1
            else:
                assert not said
        assert cancelled == asked
        return asked

    assert asyncio.run(main()) > 500


def test_a_run_nobody_awaits_does_not_outlive_its_loop(run_child: Any) -> None:
    # S090
    code = """
import asyncio, sys, time
import fanwidth as fw
async def job(item):
    await asyncio.sleep(10)
def block(item):
    time.sleep(0.05)
async def main(cancel):
    tasks = [asyncio.create_task(fw.aio.bounded(action, 100, limit=2)) for action in (job, block, fw.delay(10), fw.cpu(0.3))]
    await asyncio.sleep(0.05)
    if cancel:
        for task in tasks:
            task.cancel()
before = time.perf_counter()
asyncio.run(main(sys.argv[1] == "cancel"))
assert time.perf_counter() - before < 5
"""
    for how in ("cancel", "leave"):
        done = run_child(code, how)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_callers_loop_keeps_ticking() -> None:
    # S091
    gaps: list[float] = []

    async def heartbeat() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.005)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    async def trivial(item: int) -> int:
        return item

    async def main() -> None:
        heart = asyncio.create_task(heartbeat())
        await fw.aio.bounded(trivial, 300_000, limit=50, keep="summary")
        await fw.aio.bounded(lambda item: time.sleep(0.01), 20, limit=4)
        await fw.aio.bounded(fw.cpu(0.1), 2, limit=1)
        heart.cancel()

    asyncio.run(main())
    assert len(gaps) > 20
    assert sorted(gaps)[-3] < 0.3


def test_a_job_may_start_a_run_itself() -> None:
    # S085
    async def nested(item: int) -> int:
        return (await fw.aio.for_each(fw.delay(0.005), 2, limit=1)).counts.ok

    def nested_sync(item: int) -> int:
        return fw.for_each(fw.delay(0.005), 2, limit=1).counts.ok + fw.for_each(double, 2, limit=1).counts.ok

    assert fw.for_each(nested, 3, limit=1).results == [2, 2, 2]
    assert fw.for_each(nested_sync, 3, limit=1).results == [4, 4, 4]


def test_when_one_fails_the_others_are_gone_before_it_is_told() -> None:
    # S023
    flags: list[int] = []

    async def job(item: int) -> None:
        if item == 0:
            await asyncio.sleep(0.01)
            raise ValueError
        await asyncio.sleep(0.1)
        flags.append(item)

    async def main() -> fw.Run:
        with pytest.raises(fw.RunFailed) as caught:
            await fw.aio.when_all(job, 2, max_failures=0)
        await asyncio.sleep(0.15)
        return caught.value.run

    assert asyncio.run(main()).counts.cancelled == 1
    assert flags == []


# --- setup


class Client:
    def __init__(self, log: list[str]) -> None:
        self.log = log
        log.append("made")

    async def __aenter__(self) -> Client:
        self.log.append("entered")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.log.append("left")

    async def get(self, item: int) -> int:
        assert self.log[-1] == "entered"
        await asyncio.sleep(0)
        return item


@pytest.mark.parametrize("shape", ["async", "lambda"])
@pytest.mark.parametrize("where", ["sync", "loop"])
def test_an_async_setup_is_entered_once_and_left_before_the_call_returns(shape: str, where: str) -> None:
    log: list[str] = []

    async def use(item: int, client: Client) -> int:
        return await client.get(item)

    action = use if shape == "async" else lambda item, client: client.get(item)
    options: dict[str, Any] = {"limit": 2, "setup": lambda: Client(log)}
    run = fw.bounded(action, 5, **options) if where == "sync" else asyncio.run(fw.aio.bounded(action, 5, **options))
    assert run.results == [0, 1, 2, 3, 4]
    assert log[-2:] == ["entered", "left"]
    assert log.count("entered") == 1


def test_setup_may_be_an_async_generator_function() -> None:
    @contextlib.asynccontextmanager
    async def setup() -> AsyncIterator[str]:
        yield "value"

    async def use(item: int, value: str) -> str:
        return value

    assert fw.bounded(use, 2, limit=2, setup=setup).results == ["value"] * 2


def test_setup_may_be_an_async_function() -> None:
    async def setup() -> str:
        return "value"

    async def use(item: int, value: str) -> str:
        return value

    assert fw.bounded(use, 2, limit=2, setup=setup).results == ["value"] * 2


def test_what_an_async_setup_raises_ends_the_run() -> None:
    async def setup() -> str:
        raise OSError("no network")

    async def use(item: int, value: str) -> str:
        return value

    with pytest.raises(OSError, match="no network") as caught:
        fw.bounded(use, 2, limit=2, setup=setup)
    assert caught.value.run.counts.not_started == 2  # type: ignore[attr-defined]


def test_total_timeout_bounds_an_async_setup_too() -> None:
    async def setup() -> str:
        await asyncio.sleep(10)
        return "never"

    async def use(item: int, value: str) -> str:
        return value

    with pytest.raises(fw.RunTimeout) as caught:
        fw.bounded(use, 2, limit=2, setup=setup, total_timeout=0.05)
    assert caught.value.run.counts.not_started == 2


# --- the same schedule as the engine's: see contract/ for every statement; here order and times, by property


def test_random_jobs_yield_their_results_whatever_they_await() -> None:
    choose = random.Random(4)

    async def wander(item: int) -> int:
        for _ in range(choose.randrange(4)):
            kind = choose.randrange(4)
            if kind == 0:
                await asyncio.sleep(0)
            elif kind == 1:
                await asyncio.sleep(0.001)
            elif kind == 2:
                await asyncio.gather(double(1), asyncio.sleep(0))
            else:
                await asyncio.shield(double(item))
        return item

    for limit in (1, 3, 50):
        assert fw.bounded(wander, (i for i in range(200)), limit=limit).results == list(range(200))
