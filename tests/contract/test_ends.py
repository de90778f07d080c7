"""How a run ends: the table of the contract, row by row and pair by pair, over every driver that can meet the row."""

import asyncio
import threading
import time

import pytest
from drivers import LIMITED, Broken, Job, combinations

import fanwidth as fw


def on_a_loop(action, items, **options):
    async def main():
        return await fw.aio.run(action, items, **options)

    return asyncio.run(main())


CALLABLES = {  # name: (whether the action is async, how it is run)
    "threads": (False, fw.run),
    "asyncio": (True, fw.run),
    "aio-threads": (False, on_a_loop),
    "aio-asyncio": (True, on_a_loop),
}


def over(*args, **kwargs):
    cases = combinations(*args, **kwargs)
    return pytest.mark.parametrize(
        ("driver", "strategy", "clock"), cases, ids=[f"{driver.name}-{strategy}-{clock}" for driver, strategy, clock in cases]
    )


def timed(driver):
    """Time-outs are exact where what is in flight can be ended."""
    return driver.times != "none" and driver.cancels and driver.is_exact


def long(driver) -> float:
    return 60.0 if driver.cancels else 0.3


@over(where=timed)
@pytest.mark.parametrize("errors", ["raise", "keep"])
def test_total_time_out_raises_or_returns(driver, strategy, clock, errors):
    jobs = [Job(long(driver)) for _ in range(4)]
    options = {} if strategy == "when_all" else {"limit": 2}
    trial = driver.trial(strategy, clock, jobs, seconds=long(driver), total_timeout=0.1, errors=errors, **options)
    assert trial.run.stopped_by == "timeout" and not trial.run.ok
    if errors == "keep":
        assert trial.error is None
    else:
        assert type(trial.error) is fw.RunTimeout and "0.1 s" in str(trial.error) and "0 of 4 items" in str(trial.error)
    assert all("total_timeout" in str(outcome.exception) for outcome in trial.run.errors)


@over(LIMITED, where=lambda driver: driver.fails)
@pytest.mark.parametrize("errors", ["raise", "keep"])
def test_failures_raise_or_return(driver, strategy, clock, errors):
    unit = driver.unit(clock)
    jobs = [Job(unit), Broken(unit), Job(unit), Broken(unit), Broken(unit), Broken(unit)]
    trial = driver.trial(strategy, clock, jobs, limit=2, errors=errors, max_failures=None)
    assert trial.run.counts == (2, 4, 0, 0, 0, 6) and trial.run.stopped_by is None
    if errors == "keep":
        assert trial.error is None
        return
    assert isinstance(trial.error, fw.RunFailed) and isinstance(trial.error, ExceptionGroup)
    message = trial.error.message
    assert message.startswith("4 of 6 items failed: item 1") and "item 3" in message and "item 4" in message
    assert "item 5" not in message and "and 1 more" in message and ".run" in message
    assert trial.error.exceptions == tuple(outcome.exception for outcome in trial.run.errors)


# Precedence: of two causes at the same moment the one higher in the table wins.


@over(LIMITED, where=timed)
def test_the_source_goes_before_the_token_and_the_time_out(driver, strategy, clock):
    token = fw.CancelToken()

    def source():
        yield from [Job(0.001), Job(0.001)]
        token.cancel()
        raise KeyError("src")

    def told():
        for index, job in enumerate(source()):
            job.index = index
            yield job

    trial = driver.trial(strategy, clock, told(), seconds=0.001, limit=5, cancel=token, total_timeout=60.0)
    assert type(trial.error) is KeyError and trial.run.stopped_by == "source"


@over(LIMITED, where=lambda driver: driver.fails)
def test_the_token_goes_before_failures(driver, strategy, clock):
    token, unit = fw.CancelToken(), driver.unit(clock)

    def source():
        for index in range(10):
            job = Broken(0) if index == 0 else Job(unit)
            job.index = index
            if index == 3:
                token.cancel()
            yield job

    trial = driver.trial(strategy, clock, source(), limit=1, cancel=token, max_failures=None, errors="keep")
    assert type(trial.error) is fw.RunCancelled and trial.run.counts.failed == 1


@over(where=timed)
def test_the_token_goes_before_the_total_time_out(driver, strategy, clock):
    token = fw.CancelToken()
    token.cancel()
    options = {} if strategy == "when_all" else {"limit": 2}
    trial = driver.trial(strategy, clock, [Job(1.0)] * 3, seconds=1.0, total_timeout=1e-9, cancel=token, **options)
    assert type(trial.error) is fw.RunCancelled


@over(LIMITED, where=lambda driver: timed(driver) and driver.fails)
def test_the_total_time_out_goes_before_failures(driver, strategy, clock):
    jobs = [Broken(0), Job(long(driver)), Job(long(driver))]
    trial = driver.trial(strategy, clock, jobs, limit=3, max_failures=None, total_timeout=0.1)
    assert type(trial.error) is fw.RunTimeout and trial.run.counts == (0, 1, 2, 0, 0, 3)


# Jobs that raise what has a meaning of its own


class Fuse(BaseException):
    """No group of ordinary exceptions can hold it."""


@pytest.mark.parametrize("way", CALLABLES)
@pytest.mark.parametrize("strategy", ["for_each", "bounded", "chunked", "when_all"])
@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt()], ids=["SystemExit", "KeyboardInterrupt"])
@pytest.mark.parametrize("errors", ["raise", "keep"])
def test_an_exit_from_a_job_ends_the_run_and_is_raised(way, strategy, raised, errors):  # S028
    action, run_it = _raising(raised, way)
    options = {} if strategy == "when_all" else {"limit": 2}
    threads = threading.active_count()
    before = time.monotonic()
    with pytest.raises(type(raised)) as caught:
        run_it(action, range(6), strategy=strategy, errors=errors, **options)
    assert caught.value is raised and time.monotonic() - before < 5
    counts = caught.value.run.counts
    assert sum(counts[:5]) == counts.total == 6 and counts.ok < 6
    assert threading.active_count() == threads
    with pytest.raises(AttributeError):
        caught.value.run.limit = 3


def _raising(raised, way):
    def sync(item):
        if item == 2:
            raise raised
        time.sleep(0.002)
        return item

    async def awaited(item):
        if item == 2:
            raise raised
        await asyncio.sleep(0.002)
        return item

    is_async, run_it = CALLABLES[way]
    return awaited if is_async else sync, run_it


SPECIAL = [StopIteration(), StopAsyncIteration(), GeneratorExit(), asyncio.CancelledError(), Fuse("fuse"), TimeoutError("own")]


@pytest.mark.parametrize("way", CALLABLES)
@pytest.mark.parametrize("strategy", ["for_each", "bounded", "chunked", "when_all"])
@pytest.mark.parametrize("raised", SPECIAL, ids=lambda raised: type(raised).__name__)
def test_exceptions_with_a_special_meaning_are_plain_failures(way, strategy, raised):  # S025, S027
    action, run_it = _raising(raised, way)
    options = {} if strategy == "when_all" else {"limit": 2}
    run = run_it(action, range(4), strategy=strategy, errors="keep", max_failures=None, **options)
    assert run.counts == (3, 1, 0, 0, 0, 4)
    (failure,) = run.errors
    assert failure.index == failure.item == 2 and failure.state == "failed"
    assert type(raised).__name__ in repr(failure.exception) or type(raised).__name__ in repr(failure.exception.__cause__)
    assert run.results == [0, 1, None, 3]
    with pytest.raises(fw.RunFailed) as caught:
        run_it(action, range(4), strategy=strategy, max_failures=None, **options)
    assert all(isinstance(error, Exception) for error in caught.value.exceptions)
