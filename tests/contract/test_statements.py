"""The numbered statements of the contract, each over every driver, strategy and clock that it concerns.

Exact on the virtual clock. On the real one times are bounded from below strictly and from above generously: other work on the
machine is no fault of ours.
"""

import itertools
import threading
import time

import numpy as np
import pytest
from drivers import DRIVERS, LIMITED, STRATEGIES, WINDOWS, Boom, Broken, Job, Log, combinations
from model import simulate

import fanwidth as fw
from fanwidth import _core

NS = 1_000_000_000


def over(*args, **kwargs):
    cases = combinations(*args, **kwargs)
    return pytest.mark.parametrize(
        ("driver", "strategy", "clock"), cases, ids=[f"{driver.name}-{strategy}-{clock}" for driver, strategy, clock in cases]
    )


def own_times(driver):
    return driver.times == "own"


def takes_time(driver):
    return driver.times != "none"


def limited(strategy: str, limit: int) -> dict[str, int]:
    return {} if strategy == "when_all" else {"limit": limit}


def indexed(jobs):
    """Jobs one by one, each told its index as it is given."""
    for index, job in enumerate(jobs):
        job.index = index
        yield job


def endless(driver, unit: float) -> float:
    """So long that nothing else takes as long, however busy the machine; short enough to be waited for where it must be."""
    return unit * (20_000 if driver.cancels else 40)


def generous(seconds: float) -> float:
    """An upper bound for a machine that is busy with something else."""
    return 5 * seconds + 2


def same_as_the_model(trial, strategy, times_in_units, unit, **options) -> bool:
    """Whether starts and finishes are those of the independent model; units are whole seconds there."""
    expected = simulate(strategy, times_in_units, **options)
    return (
        trial.start == [None if t < 0 else pytest.approx(t * unit, abs=1e-9) for t in expected.start]
        and trial.finish == [None if t < 0 else pytest.approx(t * unit, abs=1e-9) for t in expected.finish]
        and trial.states == expected.state
    )


# 1. In flight <= limit; for_each, bounded: no slot idle; chunked: a chunk after the last one; when_all: all


@over()
def test_statement_01_never_more_in_flight_than_the_limit(driver, strategy, clock):  # S011
    unit = driver.unit(clock)
    trial = driver.trial(strategy, clock, [Job(unit) for _ in range(10)], seconds=unit, **limited(strategy, 3))
    assert trial.run.ok
    most = 10 if strategy == "when_all" else 3
    assert trial.peak <= most and trial.run.peak_in_flight <= most
    if takes_time(driver) and strategy != "when_all":
        assert trial.run.peak_in_flight == 3
    rounds = 1 if strategy == "when_all" else 4
    if takes_time(driver):
        assert trial.run.elapsed >= rounds * unit - 1e-9 or (clock == "virtual" and driver.is_watched)
        assert trial.took < generous(rounds * unit if clock == "real" else 0)


@over(where=own_times, clock="virtual")
def test_statement_01_no_slot_is_idle_while_there_are_items(driver, strategy, clock):
    units = [5, 1, 3, 2, 2, 7, 1, 1, 4, 2]
    trial = driver.trial(strategy, clock, [Job(n) for n in units], **limited(strategy, 3))
    assert same_as_the_model(trial, strategy, units, 1, **limited(strategy, 3))


@over(WINDOWS, where=own_times, clock="real")
def test_statement_01_a_slow_item_holds_up_one_slot_only(driver, strategy, clock):  # S043
    unit = driver.unit(clock)
    trial = driver.trial(strategy, clock, [Job(unit * n) for n in [40] + [2] * 12], limit=4)
    others = [trial.finish[i] for i in range(1, 13)]
    assert trial.run.ok and trial.finish[0] >= 40 * unit
    # Nobody waits for item 0: on a machine that does anything else at all, all the others are done long before it.
    assert sum(when < trial.finish[0] for when in others) >= 6


@over(["chunked"], where=takes_time)
def test_statement_01_a_chunk_waits_for_the_last_one(driver, strategy, clock):
    unit = driver.unit(clock)
    trial = driver.trial(strategy, clock, [Job(unit) for _ in range(7)], seconds=unit, limit=3)
    for first in (3, 6):
        assert min(trial.start[first : first + 3]) >= max(trial.finish[first - 3 : first]) - 1e-9


@over(["when_all"], where=takes_time, clock="virtual")
def test_statement_01_when_all_starts_all_at_once(driver, strategy, clock):
    trial = driver.trial(strategy, clock, [Job(1) for _ in range(50)], seconds=1)
    assert set(trial.start) == {0} and trial.peak == trial.run.peak_in_flight == 50


# 2. Start in source order; results in source order


@over(where=own_times)
def test_statement_02_items_start_in_source_order(driver, strategy, clock):  # S042
    unit = driver.unit(clock)
    jobs = [Job(unit * n) for n in (3, 1, 2, 1, 0, 2, 1, 1)]
    trial = driver.trial(strategy, clock, jobs, **limited(strategy, 3))
    started = list(trial.run.samples.start_ns)
    assert started == sorted(started)
    if driver.is_watched and "threads" not in driver.name:  # two threads may swap places on the way into the job itself
        assert trial.order == list(range(8))


@over(where=own_times)
def test_statement_02_results_are_in_source_order(driver, strategy, clock):  # S041
    unit = driver.unit(clock)
    jobs = [Job(unit * n) for n in (5, 1, 3, 2)]
    trial = driver.trial(strategy, clock, jobs, **limited(strategy, 2))
    assert trial.run.results == [0, 1, 2, 3]
    assert [outcome.get() for outcome in trial.run.outcomes] == [0, 1, 2, 3]
    if clock == "virtual" and strategy == "when_all":  # they really ended in another order
        assert sorted(range(4), key=trial.finish.__getitem__) == [1, 3, 2, 0]


# 3. for_each, bounded: lazy, one taker at a time, on the calling thread, asked once for the end


@over(WINDOWS)
def test_statement_03_an_endless_source_works_and_is_not_read_ahead(driver, strategy, clock):  # S001
    unit, token, pulled = driver.unit(clock), fw.CancelToken(), 0

    def endless():
        nonlocal pulled
        for job in indexed(Job(unit) for _ in itertools.count()):
            pulled += 1
            if pulled == 13:
                token.cancel()
            yield job

    trial = driver.trial(strategy, clock, endless(), seconds=unit, limit=4, cancel=token)
    assert isinstance(trial.error, fw.RunCancelled)
    counts = trial.run.counts
    assert pulled == counts.total == 13
    # The item that was given as the token was cancelled; and where threads take them, those that no thread had come for.
    assert counts.not_started <= (4 if "threads" in driver.name else 1)
    if takes_time(driver):
        assert trial.peak <= 4
        assert counts.ok >= 8  # 12 started with 4 slots


@over(WINDOWS, where=own_times, clock="virtual")
def test_statement_03_an_item_starts_as_soon_as_it_is_pulled(driver, strategy, clock):
    """Pulled and not finished is the same as in flight: nothing waits between the source and its start."""
    units = [3, 1, 2, 2, 5, 1, 1]
    trial = driver.trial(strategy, clock, indexed(Job(n) for n in units), limit=2)
    assert same_as_the_model(trial, strategy, units, 1, limit=2)


@over(WINDOWS, where=lambda driver: driver.is_watched)
def test_statement_03_pulled_minus_finished_is_within_the_limit(driver, strategy, clock):
    unit, limit, open_items, most = driver.unit(clock), 3, 0, 0
    lock = threading.Lock()

    def source():
        nonlocal open_items, most
        for job in indexed(Watched(unit) for _ in range(20)):
            with lock:
                open_items += 1
                most = max(most, open_items)
            yield job

    class Watched(Job):
        @property
        def fails(self):  # asked by the job at its end
            nonlocal open_items
            with lock:
                open_items -= 1
            return False

    trial = driver.trial(strategy, clock, source(), limit=limit)
    # A worker takes its next item in the same step that ends its last one, so one may be counted that is over already.
    assert trial.run.ok and most <= limit + ("threads" in driver.name)


class Counted:
    """An iterator that counts what it is asked, and sees two askers at once and other threads."""

    def __init__(self, jobs):
        self.jobs, self.calls, self.busy, self.overlaps = indexed(jobs), 0, False, 0
        self.threads = set()

    def __iter__(self):
        return self

    def __next__(self):
        self.overlaps += self.busy
        self.busy = True
        self.calls += 1
        self.threads.add(threading.get_ident())
        time.sleep(0.0002)  # lets others in, if others there are
        self.busy = False
        return next(self.jobs)


@over()
@pytest.mark.parametrize("count", [0, 5])
def test_statement_03_the_source_is_asked_by_one_and_once_for_its_end(driver, strategy, clock, count):  # S003, S004
    unit = driver.unit(clock)
    source = Counted([Job(unit) for _ in range(count)])
    trial = driver.trial(strategy, clock, source, seconds=unit, **limited(strategy, 100))
    assert trial.run.counts.ok == trial.run.counts.total == count
    assert source.calls == count + 1
    assert source.overlaps == 0
    if not (driver.name == "asyncio" and clock == "real"):  # that one's source runs on its loop
        assert source.threads == {threading.get_ident()}


# 4. when_all reads the whole source first


@over(["when_all"])
def test_statement_04_when_all_starts_nothing_before_it_has_read_all(driver, strategy, clock):
    unit, given = driver.unit(clock), []

    def source():
        for job in indexed(Job(unit) for _ in range(5)):
            given.append(time.monotonic())
            time.sleep(0.002)
            yield job

    before = time.monotonic()
    trial = driver.trial(strategy, clock, source(), seconds=unit)
    assert trial.run.ok
    if clock == "real":  # the run's time begins with the first pull
        assert given[0] >= before
        assert min(trial.run.samples.start_ns) >= 4 * 0.002 * NS
    else:  # pulling costs no virtual time
        assert set(trial.run.samples.start_ns) == {0} or driver.is_watched


@over(["when_all"])
def test_statement_04_nothing_has_been_started_when_the_source_raises(driver, strategy, clock):
    def source():
        yield from indexed(Job(driver.unit(clock)) for _ in range(3))
        raise ValueError("src")

    trial = driver.trial(strategy, clock, source(), seconds=driver.unit(clock))
    assert type(trial.error) is ValueError and str(trial.error) == "src"
    assert trial.run.counts == (0, 0, 0, 0, 3, 3) and trial.run.stopped_by == "source"
    assert set(trial.start) == {None} and trial.run.elapsed == 0


@over(["when_all"], where=lambda driver: driver.reads_values)
def test_statement_04_when_all_checks_the_whole_source_first(driver, strategy, clock):  # S017
    trial = driver.trial(strategy, clock, [Job(1), Broken(0), Job(1)])
    assert type(trial.error) is TypeError and "item 1" in str(trial.error) and trial.run is None


# 5. max_failures


def failing_run(driver, strategy, clock, failures):
    """A long item, then as many broken ones, then others; the first two slots are the long item's and the broken ones'."""
    unit = driver.unit(clock)
    return [Job(endless(driver, unit)), *(Broken(unit) for _ in range(failures)), *(Job(unit) for _ in range(4))]


def fails(driver):
    return driver.fails


@over(WINDOWS, where=fails)
@pytest.mark.parametrize("most", [0, 1, 2])
def test_statement_05_nothing_starts_after_too_many_failures(driver, strategy, clock, most):  # S022, S023
    jobs = failing_run(driver, strategy, clock, most + 1)
    trial = driver.trial(strategy, clock, jobs, limit=2, max_failures=most)
    assert isinstance(trial.error, fw.RunFailed) and trial.run.stopped_by == "failure"
    in_flight = "cancelled" if driver.cancels else "ok"
    assert trial.states == [in_flight] + ["failed"] * (most + 1) + ["not_started"] * 4
    assert len(trial.error.exceptions) == most + 1


@over(WINDOWS, where=fails)
def test_statement_05_as_many_failures_as_allowed_stop_nothing(driver, strategy, clock):
    jobs = failing_run(driver, strategy, clock, 2)
    jobs[0] = Job(2 * driver.unit(clock))
    trial = driver.trial(strategy, clock, jobs, limit=2, max_failures=2)
    assert trial.run.counts[:2] == (5, 2) and trial.run.stopped_by is None


@over(where=lambda driver: takes_time(driver) and driver.cancels and driver.is_exact)
def test_statement_05_a_timed_out_item_counts_as_a_failure(driver, strategy, clock):
    unit = driver.unit(clock)
    trial = driver.trial(
        strategy,
        clock,
        [Job(4 * unit) for _ in range(9)],
        seconds=4 * unit,
        max_failures=0,
        item_timeout=2 * unit,
        **limited(strategy, 1),
    )
    assert isinstance(trial.error, fw.RunFailed) and trial.run.stopped_by == "failure"
    if strategy != "when_all":
        assert trial.run.counts == (0, 0, 1, 0, 8, 9)
    else:
        assert trial.run.counts.timed_out >= 1 and trial.run.counts.not_started == 0
    assert isinstance(trial.run.errors[0].exception, TimeoutError)


@over(where=fails)
def test_statement_05_the_run_ends_only_when_nothing_of_it_is_running(driver, strategy, clock):
    if driver.reads_values and strategy == "when_all":
        return  # it refuses the broken item before it starts
    threads = threading.active_count()
    unit = driver.unit(clock)
    jobs = [Job(endless(driver, unit)), Broken(unit), Job(unit)]
    trial = driver.trial(strategy, clock, jobs, max_failures=0, **limited(strategy, 2))
    assert isinstance(trial.error, fw.RunFailed)
    assert threading.active_count() == threads
    assert [i for i, when in enumerate(trial.start) if when is not None and trial.finish[i] is None] == []
    if driver.is_watched:
        assert max(when for when in trial.finish if when is not None) <= trial.took or clock == "virtual"


# 6. One final state for every item; they add up


ENDS = ["ok", "failures", "too many failures", "source", "token", "item time-out", "total time-out"]


@over()
@pytest.mark.parametrize("sized", [True, False], ids=["sized", "unsized"])
@pytest.mark.parametrize("how", ENDS)
def test_statement_06_every_item_has_one_final_state(driver, strategy, clock, how, sized):
    unit, token, given = driver.unit(clock), fw.CancelToken(), 0
    jobs = [Job(unit) for _ in range(8)]
    options = {"errors": "keep", "max_failures": None, **limited(strategy, 3)}
    if "failures" in how and driver.fails and not (driver.reads_values and strategy == "when_all"):
        jobs[2], jobs[5] = Broken(unit), Broken(unit)
        options["max_failures"] = 0 if how == "too many failures" else None
    elif how == "item time-out" and takes_time(driver):
        options["item_timeout"] = unit / 2
    elif how == "total time-out" and takes_time(driver):
        options["total_timeout"] = 1.5 * unit
    elif how == "token":
        options["cancel"] = token
    for index, job in enumerate(jobs):
        job.index = index

    class Source:
        def __iter__(self):
            nonlocal given
            for job in jobs:
                if given == 5 and how == "source":
                    raise ValueError("src")
                given += 1
                if given == 5:
                    token.cancel()
                yield job

    class Sized(Source):
        def __len__(self):
            return 8

    trial = driver.trial(strategy, clock, (Sized if sized else Source)(), seconds=unit, **options)
    counts = trial.run.counts
    assert sum(counts[:5]) == counts.total == (8 if sized else given)
    assert min(counts) >= 0
    by_state = [trial.states.count(state) for state in fw.STATES]
    assert by_state == list(counts[:5])
    for state, start, finish in zip(trial.states, trial.run.samples.start_ns, trial.run.samples.finish_ns, strict=True):
        assert (start == -1) == (finish == -1) == (state == "not_started")
        assert finish >= start


# 7. All failures are kept


@over(where=fails)
def test_statement_07_every_failure_is_kept_with_index_item_and_exception(driver, strategy, clock):  # S020
    if driver.reads_values and strategy == "when_all":
        return
    unit = driver.unit(clock)
    jobs = [Broken(unit) if index % 2 == 0 else Job(unit) for index in range(10)]
    trial = driver.trial(strategy, clock, jobs, errors="keep", max_failures=None, **limited(strategy, 3))
    assert trial.run.counts[:2] == (5, 5) and not trial.run.ok
    assert [outcome.index for outcome in trial.run.errors] == [0, 2, 4, 6, 8]
    assert all(outcome.item is jobs[outcome.index] for outcome in trial.run.errors)
    for outcome in trial.run.errors:
        assert str(outcome.index) in str(outcome.exception)
        assert isinstance(outcome.exception, Boom) or driver.reads_values
        with pytest.raises(type(outcome.exception)):
            outcome.get()
    assert trial.run.results == [None if index % 2 == 0 else index for index in range(10)]


@over(WINDOWS, where=fails)
def test_statement_07_what_was_cancelled_for_a_failure_is_no_error(driver, strategy, clock):  # S024, S026
    unit = driver.unit(clock)
    long = endless(driver, unit)
    jobs = [Job(long), Job(long), Broken(unit), Job(long), Job(long), *(Job(unit) for _ in range(5))]
    trial = driver.trial(strategy, clock, jobs, limit=5, max_failures=0)
    (error,) = trial.error.exceptions
    assert isinstance(error, Boom | TypeError)
    assert [outcome.index for outcome in trial.run.errors] == [2]
    reached = trial.run.counts.total - trial.run.counts.not_started  # items 3 and 4 may come too late to start
    assert trial.states[2] == "failed" and 3 <= reached <= 5
    assert trial.run.counts[:4] == ((0, 1, 0, reached - 1) if driver.cancels else (reached - 1, 1, 0, 0))
    assert "1 of 10 items failed" in str(trial.error)
    assert trial.run.to_dict()["counts"]["failed"] == 1 and "1 failed" in str(trial.run)


# 8. A source that raises midway; a generator is closed


@over(LIMITED)
@pytest.mark.parametrize("collect", [False, True], ids=["raise", "collect"])
def test_statement_08_the_sources_own_exception_is_raised(driver, strategy, clock, collect):  # S005
    unit, mine = driver.unit(clock), ValueError("src")
    seconds = 2 * unit if collect else endless(driver, unit)

    def source():
        yield from indexed(Job(seconds) for _ in range(3))
        raise mine

    options = {"errors": "keep", "max_failures": None} if collect else {}
    trial = driver.trial(strategy, clock, source(), seconds=seconds, limit=4, **options)
    assert trial.error is mine and mine.run is trial.run
    assert trial.run.stopped_by == "source" and trial.run.counts.total == 3
    if collect or not driver.cancels or driver.times == "none":
        assert trial.run.counts.ok == 3
    else:
        assert trial.run.counts.cancelled == 3
    assert trial.took < generous(2 * unit)


@over()
@pytest.mark.parametrize("how", ["failure", "token", "source is read to its end"])
def test_statement_08_a_generator_is_closed_when_the_run_is_over(driver, strategy, clock, how):  # S006
    closed, token, unit = [], fw.CancelToken(), driver.unit(clock)

    def source():
        try:
            for job in indexed(
                Broken(0) if index == 3 and how == "failure" and driver.fails else Job(unit) for index in range(10)
            ):
                if job.index == 4 and how == "token":
                    token.cancel()
                yield job
        finally:
            closed.append("closed")

    generator = source()
    driver.trial(strategy, clock, generator, seconds=unit, max_failures=0, cancel=token, **limited(strategy, 2))
    assert closed == ["closed"]
    assert generator.gi_frame is None


# 9. item_timeout from the item's own start; total_timeout of the run


@over(where=lambda driver: takes_time(driver) and driver.is_exact)
def test_statement_09_an_item_time_out_counts_from_the_items_own_start(driver, strategy, clock):  # S035
    unit = driver.unit(clock)
    # On the real clock far from any noise, and still less than they take together.
    many, count = (30 * unit, 40) if clock == "real" else (1.5 * unit, 5)
    trial = driver.trial(
        strategy, clock, [Job(unit) for _ in range(count)], seconds=unit, item_timeout=many, **limited(strategy, 1)
    )
    assert trial.run.counts.ok == count
    if strategy != "when_all" and not (driver.is_watched and clock == "virtual"):
        assert trial.run.elapsed >= count * unit - 1e-9


@over(where=lambda driver: takes_time(driver) and driver.cancels and driver.is_exact)
def test_statement_09_an_item_that_takes_too_long_has_timed_out(driver, strategy, clock):
    unit = driver.unit(clock)
    long = 1000 * unit if clock == "real" else 3 * unit
    trial = driver.trial(
        strategy,
        clock,
        [Job(long) for _ in range(4)],
        seconds=long,
        item_timeout=2 * unit,
        errors="keep",
        max_failures=None,
        **limited(strategy, 2),
    )
    assert trial.states == ["timed_out"] * 4
    assert trial.took < generous(4 * unit)
    for index in range(4):
        took = trial.finish[index] - trial.start[index]
        assert took == pytest.approx(2 * unit, abs=1e-9) if clock == "virtual" else took >= 2 * unit * 0.99
    assert all(isinstance(outcome.exception, TimeoutError) for outcome in trial.run.errors)


@over(where=lambda driver: "threads" in driver.name)
def test_statement_09_a_sync_item_keeps_its_slot_until_it_ends(driver, strategy, clock):
    unit = driver.unit(clock)
    trial = driver.trial(
        strategy,
        clock,
        [Job(8 * unit) for _ in range(4)],
        item_timeout=unit,
        errors="keep",
        max_failures=None,
        **limited(strategy, 2),
    )
    assert trial.states == ["timed_out"] * 4
    assert all(finish - start >= 8 * unit for start, finish in zip(trial.start, trial.finish, strict=True))
    assert trial.peak <= (4 if strategy == "when_all" else 2)


@over(where=lambda driver: takes_time(driver) and driver.cancels and driver.is_exact)
def test_statement_09_the_total_time_out_bounds_the_run(driver, strategy, clock):  # S036
    unit = driver.unit(clock)
    long, total = endless(driver, unit), 20 * unit
    trial = driver.trial(
        strategy, clock, [Job(long) for _ in range(6)], seconds=long, total_timeout=total, **limited(strategy, 2)
    )
    assert isinstance(trial.error, fw.RunTimeout) and isinstance(trial.error, TimeoutError)
    expected = ["timed_out"] * 6 if strategy == "when_all" else ["timed_out"] * 2 + ["not_started"] * 4
    assert trial.states == expected and trial.run.stopped_by == "timeout"
    assert trial.took < generous(total)
    ends = [when for when in trial.finish if when is not None]
    assert min(ends) >= total * 0.99
    if clock == "virtual":
        assert set(ends) == {total}


# 10. The limit's domain; effective_limit and limited_by


@over(LIMITED)
@pytest.mark.parametrize(
    ("limit", "error"),
    [(0, ValueError), (-5, ValueError), ("4", TypeError), (2.5, TypeError), (True, TypeError), (np.bool_(True), TypeError)],
)
def test_statement_10_a_limit_outside_its_domain(driver, strategy, clock, limit, error):  # S009, S010
    source = Counted([Job(1) for _ in range(3)])
    trial = driver.trial(strategy, clock, source, seconds=1.0, limit=limit)
    assert type(trial.error) is error and "limit" in str(trial.error) and str(limit) in str(trial.error)
    assert source.calls == 0 and trial.run is None


@over(LIMITED)
def test_statement_10_what_bound_the_run_is_told(driver, strategy, clock):
    unit = driver.unit(clock)
    few = driver.trial(strategy, clock, [Job(unit) for _ in range(2)], seconds=unit, limit=5).run
    many = driver.trial(strategy, clock, [Job(unit) for _ in range(9)], seconds=unit, limit=np.int64(3)).run
    assert (few.limit, few.effective_limit) == (5, 2) and few.limited_by == "items"
    assert (many.limit, many.effective_limit) == (3, 3)
    # A busy machine may make the interpreter or its CPUs the bound of so short a run.
    assert many.limited_by == "limit" or driver.name.endswith(("-cpu", "threads", "asyncio"))


@over(["when_all"])
def test_statement_10_when_all_is_bound_by_its_items(driver, strategy, clock):
    unit = driver.unit(clock)
    run = driver.trial(strategy, clock, [Job(unit) for _ in range(4)], seconds=unit).run
    assert run.limit is None and run.effective_limit == 4
    assert run.limited_by == "items" or driver.name.endswith("-cpu")


# 11. Empty sources, equal items


@over()
@pytest.mark.parametrize("empty", [0, [], (), {}, lambda: iter(()), lambda: (i for i in ()), range(0)], ids=str)
def test_statement_11_an_empty_source_is_an_empty_run_at_once(driver, strategy, clock, empty):  # S007
    for limit in (1, 8):
        trial = driver.trial(strategy, clock, empty() if callable(empty) else empty, seconds=1.0, **limited(strategy, limit))
        run = trial.run
        assert run.ok and run.counts == (0,) * 6 and run.results == [] and run.outcomes == [] and run.errors == []
        assert run.latency.n == run.wait.n == 0 and run.latency.mean is None
        assert (run.elapsed, run.throughput, run.ideal, run.peak_in_flight, run.stopped_by) == (0, 0, None, 0, None)
        assert trial.took < 2


@over()
def test_statement_11_equal_items_are_separate_items(driver, strategy, clock):  # S008
    unit = driver.unit(clock)
    job = Job(unit)
    job.index = 0
    run = driver.call(driver, strategy, clock, [job, job, job], unit, Log(), limited(strategy, 2))
    assert run.counts == (3, 0, 0, 0, 0, 3) and len(run.results) == 3


# 12. CancelToken from any thread (Ctrl-C: test_interrupt.py)


@over(where=takes_time, clock="real")
def test_statement_12_a_token_cancelled_from_another_thread_ends_the_run(driver, strategy, clock):  # S039
    token = fw.CancelToken()
    long = 30.0 if driver.cancels else 0.3
    timer = threading.Timer(0.1, token.cancel)
    timer.start()
    trial = driver.trial(strategy, clock, [Job(long) for _ in range(10)], seconds=long, cancel=token, **limited(strategy, 2))
    timer.join()
    assert isinstance(trial.error, fw.RunCancelled) and trial.run.stopped_by == "cancel"
    started = 10 - trial.run.counts.not_started  # fewer than could have, where the machine is busy with something else
    assert started <= (10 if strategy == "when_all" else 2)
    assert trial.states == (["cancelled"] if driver.cancels else ["ok"]) * started + ["not_started"] * (10 - started)
    assert trial.took < 5


@over()
@pytest.mark.parametrize("errors", ["raise", "keep"])
def test_statement_12_a_token_cancelled_before_the_start(driver, strategy, clock, errors):  # S033
    token = fw.CancelToken()
    token.cancel()
    jobs = [Job(driver.unit(clock)) for _ in range(5)]
    trial = driver.trial(strategy, clock, jobs, seconds=driver.unit(clock), cancel=token, errors=errors, **limited(strategy, 2))
    assert isinstance(trial.error, fw.RunCancelled)
    assert trial.run.counts == (0, 0, 0, 0, 5, 5) and trial.run.elapsed == 0


@over()
def test_statement_12_a_token_cancelled_by_the_source(driver, strategy, clock):  # S033
    token = fw.CancelToken()

    def source():
        for job in indexed(Job(driver.unit(clock)) for _ in range(5)):
            token.cancel()
            yield job

    trial = driver.trial(strategy, clock, source(), seconds=driver.unit(clock), cancel=token, **limited(strategy, 2))
    assert isinstance(trial.error, fw.RunCancelled)
    assert trial.run.counts.ok + trial.run.counts.cancelled <= 1


# 13. Never early


@over(where=lambda driver: takes_time(driver) and driver.name.startswith("native"), clock="real")
@pytest.mark.parametrize("seconds", [0.0005, 0.0015, 0.010])
def test_statement_13_nothing_ends_early(driver, strategy, clock, seconds):  # S055, S057
    trial = driver.trial(strategy, clock, [Job(seconds) for _ in range(20)], seconds=seconds, **limited(strategy, 8))
    samples = trial.run.samples
    took = [finish - start for start, finish in zip(samples.start_ns, samples.finish_ns, strict=True)]
    assert trial.run.ok and min(took) >= seconds * NS
    assert trial.run.latency.min >= seconds


# The list of drivers is complete


def test_every_native_action_is_in_the_suite():
    assert {driver.name for driver in DRIVERS if driver.name.startswith("native")} == {f"native-{name}" for name in _core.actions}
    assert [action.name for action in fw.NATIVE_ACTIONS] == list(_core.actions)
    assert tuple(_core.strategies) == ("for_each", "when_all", "bounded", "chunked") and set(STRATEGIES) == set(_core.strategies)
