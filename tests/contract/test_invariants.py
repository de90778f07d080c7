"""What holds of every run, whatever its source, its time-outs, its failures and its token do at the same time."""

import pytest
from drivers import Broken, Job, combinations
from hypothesis import given, settings
from hypothesis import strategies as st

import fanwidth as fw

CASES = combinations()

places = st.none() | st.none() | st.integers(0, 12)
courses = st.fixed_dictionaries(
    {
        "units": st.lists(st.integers(0, 3), max_size=12),
        "broken": st.sets(st.integers(0, 11), max_size=3),
        "kind": st.sampled_from(["list", "sized", "unsized"]),
        "raises_at": places,
        "cancels_at": places,
        "limit": st.integers(1, 5),
        "max_failures": st.none() | st.integers(0, 2),
        "item_timeout": st.none() | st.sampled_from([0.5, 1.5]),
        "total_timeout": st.none() | st.sampled_from([0.5, 2.5, 5]),
    }
)


class Source:
    """Jobs one by one; it may raise, and may cancel the run, at a place of its own."""

    def __init__(self, jobs, token, raises_at, cancels_at) -> None:
        self.jobs, self.token, self.raises_at, self.cancels_at = jobs, token, raises_at, cancels_at
        self.given = 0

    def __iter__(self):
        for place, job in enumerate([*self.jobs, None]):
            if place == self.cancels_at:
                self.token.cancel()
            if place == self.raises_at:
                raise KeyError("src")
            if job is not None:
                self.given += 1
                yield job


class Sized(Source):
    def __len__(self) -> int:
        return len(self.jobs)


@pytest.mark.parametrize(
    ("driver", "strategy", "clock"), CASES, ids=[f"{driver.name}-{strategy}-{clock}" for driver, strategy, clock in CASES]
)
@settings(max_examples=12)
@given(course=courses)
def test_invariants_of_every_run(driver, strategy, clock, course):
    unit, token = driver.unit(clock) / (5 if clock == "real" else 1), fw.CancelToken()
    can_fail = driver.fails and not (driver.reads_values and strategy == "when_all")
    jobs = [Broken(unit * n) if can_fail and i in course["broken"] else Job(unit * n) for i, n in enumerate(course["units"])]
    for index, job in enumerate(jobs):
        job.index = index
    made = {"sized": Sized, "unsized": Source}.get(course["kind"], Source)(jobs, token, course["raises_at"], course["cancels_at"])
    options = {"cancel": token, "max_failures": course["max_failures"], "limit": course["limit"]}
    options |= {name: course[name] * unit for name in ("item_timeout", "total_timeout") if course[name] is not None}
    source = jobs if course["kind"] == "list" else made

    trial = driver.trial(strategy, clock, source, seconds=unit, **options)

    run, error, counts = trial.run, trial.error, trial.run.counts
    start, finish, state = (column.tolist() for column in run.samples)
    # Every item ends in exactly one state; they add up to the length, or to what was pulled.
    assert sum(counts[:5]) == counts.total == (made.given if course["kind"] == "unsized" else len(jobs))
    assert [state.count(number) for number in range(5)] == list(counts[:5])
    # They start in source order, and end after their start.
    started = [moment for moment in start if moment >= 0]
    assert start[: len(started)] == started == sorted(started)
    for began, ended, how in zip(start, finish, state, strict=True):
        assert ended == began == -1 if fw.STATES[how] == "not_started" else ended >= began >= 0
    assert run.elapsed == max([0, *finish]) / 1e9
    # Never more than the limit in flight, by the samples, by the jobs themselves, by the run.
    most = course["limit"] if strategy != "when_all" else len(jobs)
    assert max(_peak(start, finish), trial.peak, run.peak_in_flight) <= most
    # Results and errors say what the states say.
    assert [outcome.index for outcome in run.errors] == [
        i for i, how in enumerate(state) if fw.STATES[how] in ("failed", "timed_out")
    ]
    assert [result is not None for result in run.results] == [fw.STATES[how] == "ok" for how in state]
    # How it ended, by the table.
    expected = {"source": KeyError, "cancel": fw.RunCancelled, "timeout": fw.RunTimeout, "failure": fw.RunFailed}
    if run.stopped_by is None:
        assert type(error) is (fw.RunFailed if counts.failed or counts.timed_out else type(None))
        assert counts.cancelled == counts.not_started == 0
    else:
        assert type(error) is expected[run.stopped_by] and error.run is run
    if run.stopped_by == "failure":
        assert counts.failed + counts.timed_out > course["max_failures"]
    str(run), run.to_dict(), run.latency, run.ideal


def _peak(start, finish):
    moments = [(when, 1) for when, until in zip(start, finish, strict=True) if until > when]
    moments += [(until, -1) for when, until in zip(start, finish, strict=True) if until > when]
    peak = flying = 0
    for _, step in sorted(moments):
        flying += step
        peak = max(peak, flying)
    return peak
