"""What acceptance found: each test is a fault that was there once."""

from __future__ import annotations

import asyncio
import itertools
import pickle
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import fanwidth as fw

STRATEGIES = ("for_each", "when_all", "bounded", "chunked")


def width(strategy: str) -> dict[str, int]:
    return {} if strategy == "when_all" else {"limit": 2}


async def nap(x: Any) -> Any:
    await asyncio.sleep(0.005)
    if x == 3:
        raise ValueError(x)
    return x


async def nap_longer(x: Any) -> None:
    await asyncio.sleep(0.05)


def in_a_child(code: str, guard: float = 20) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=guard)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_token_cancelled_before_lets_nothing_start_on_a_loop(strategy: str) -> None:  # S033
    token = fw.CancelToken()
    token.cancel()
    with pytest.raises(fw.RunCancelled) as caught:
        asyncio.run(fw.aio.run(fw.delay(0.001), 5, strategy=strategy, cancel=token, **width(strategy)))
    assert caught.value.run.counts.not_started == 5


def test_a_token_cancelled_before_lets_nothing_start_in_the_background() -> None:  # S033
    token = fw.CancelToken()
    token.cancel()
    handle = fw.start(fw.delay(0.001), 5, limit=2, cancel=token)
    with pytest.raises(fw.RunCancelled) as caught:
        handle.result()
    assert caught.value.run.counts.not_started == 5


def test_cancelling_a_native_handle_leaves_the_callers_token_alone() -> None:
    token = fw.CancelToken()
    handle = fw.start(fw.delay(10), 5, limit=2, cancel=token)
    handle.cancel()
    with pytest.raises(fw.RunCancelled):
        handle.result(10)
    assert not token.cancelled


def test_a_source_that_raises_carries_the_run_on_a_loop() -> None:
    def source() -> Any:
        yield from range(3)
        raise ValueError("src")

    with pytest.raises(ValueError, match="src") as caught:
        asyncio.run(fw.aio.when_all(fw.delay(0.001), source()))
    assert caught.value.run.counts.not_started == 3  # type: ignore[attr-defined]


def test_a_file_as_source_stays_open_on_a_loop(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("a\nb\n")
    with path.open() as file:
        asyncio.run(fw.aio.bounded(fw.noop(), file, limit=1))
        assert not file.closed


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_async_generator_that_awaits_while_it_closes_comes_to_its_end(strategy: str) -> None:  # S006
    closed = []

    async def source() -> Any:
        try:
            for i in itertools.count() if strategy != "when_all" else range(10):
                yield i
        finally:
            for _ in range(5):
                await asyncio.sleep(0.001)
            closed.append(1)

    with pytest.raises(fw.RunFailed):
        fw.run(nap, source(), strategy=strategy, max_failures=0, **width(strategy))
    assert closed == [1]


def test_ctrl_c_is_heard_inside_a_running_loop() -> None:  # S038, in a notebook
    child = in_a_child(
        """
        import asyncio, os, signal, threading, time
        import fanwidth as fw

        done = []

        async def job(x):
            await asyncio.sleep(0.02)
            done.append(x)

        async def cell():
            fw.bounded(job, 1, limit=1)
            for _ in range(10):
                threading.Timer(0.07, os.kill, (os.getpid(), signal.SIGINT)).start()
                try:
                    fw.bounded(job, 1000, limit=2)
                except KeyboardInterrupt as error:
                    assert error.run.counts.cancelled <= 2, error.run.counts
                    before = len(done)
                    time.sleep(0.06)
                    assert len(done) == before
                else:
                    raise SystemExit("the interrupt was lost")
            assert threading.active_count() == 1, threading.enumerate()

        loop = asyncio.new_event_loop()
        loop.run_until_complete(cell())
        """
    )
    assert child.returncode == 0, child.stderr


@pytest.mark.parametrize("action", [fw.delay(0.05), lambda x: time.sleep(0.05), nap_longer], ids=["native", "sync", "async"])
@pytest.mark.parametrize("on_loop", [False, True])
def test_a_failing_progress_ends_no_run_where_warnings_are_errors(
    action: Any, on_loop: bool
) -> None:  # S029 under pytest -W error
    def hook(progress: fw.Progress) -> None:
        raise RuntimeError("hook")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="hook") as caught:
            if on_loop:
                asyncio.run(fw.aio.bounded(action, 4, limit=1, progress=hook))
            else:
                fw.bounded(action, 4, limit=1, progress=hook)
    run: fw.Run = caught.value.run  # type: ignore[attr-defined]
    assert run.counts.ok == 4


class Unsendable(Exception):
    def __init__(self) -> None:
        super().__init__("held")
        self.lock = threading.Lock()


def test_a_failed_run_can_be_sent_whatever_its_jobs_raised() -> None:
    def job(x: int) -> None:
        raise Unsendable if x else ValueError(x)

    with pytest.raises(fw.RunFailed) as caught:
        fw.bounded(job, 2, limit=1)
    sent = pickle.loads(pickle.dumps(caught.value))
    assert str(sent) == str(caught.value)
    assert [type(each) for each in sent.exceptions] == [ValueError, fw.Unpicklable]
    assert sent.run.counts.failed == 2


@pytest.mark.parametrize("action", ["fw.delay(0.02)", "sync", "job"])
@pytest.mark.parametrize("inside", [False, True])
def test_what_an_alarm_raises_ends_the_run_and_leaves_nothing_behind(action: str, inside: bool) -> None:  # S038's kind
    child = in_a_child(
        f"""
        import asyncio, signal, threading, time
        import fanwidth as fw

        done = []

        def sync(x):
            time.sleep(0.02)
            done.append(x)

        async def job(x):
            await asyncio.sleep(0.02)
            done.append(x)

        def alarm(*_):
            raise LookupError("alarm")

        def main():
            fw.bounded({action}, 1, limit=1)
            signal.signal(signal.SIGALRM, alarm)
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            try:
                fw.bounded({action}, 1000, limit=2)
            except LookupError as error:
                assert error.run.counts.not_started > 900, error.run.counts
            else:
                raise SystemExit("the alarm was lost")
            before = len(done)
            time.sleep(0.06)
            assert len(done) == before
            assert threading.active_count() == 1, threading.enumerate()

        async def cell():
            main()

        asyncio.new_event_loop().run_until_complete(cell()) if {inside} else main()
        """
    )
    assert child.returncode == 0, child.stderr


def test_the_ceiling_of_when_all_is_told_even_where_its_threads_were_never_all_busy() -> None:  # S014's kind
    run = fw.when_all(lambda x: x, 1500)
    assert (run.effective_limit, run.limited_by) == (1024, "threads")


@pytest.mark.parametrize("action", [lambda x: x, nap_longer], ids=["sync", "async"])
def test_a_stream_left_after_its_run_has_ended_has_the_run(action: Any) -> None:
    async def main() -> fw.Run:
        async with fw.aio.stream(action, 3, limit=3) as outcomes:
            async for _ in outcomes:
                await asyncio.sleep(0.2)
                break
        return outcomes.run

    assert asyncio.run(main()).counts.ok == 3


def test_leaving_a_stream_does_not_cut_off_an_async_generator_that_is_being_closed() -> None:  # S006
    closed = []

    async def source() -> Any:
        try:
            for i in itertools.count():
                yield i
        finally:
            await asyncio.sleep(0.2)
            closed.append(1)

    async def main() -> None:
        async with fw.aio.stream(nap, source(), limit=1, max_failures=0) as outcomes:
            async for outcome in outcomes:
                if outcome.state == "failed":
                    break

    asyncio.run(main())
    assert closed == [1]
