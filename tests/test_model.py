"""The engine on the virtual clock against an independent model, item by item and to the nanosecond."""

import operator
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model import Course, may_start, simulate

import fanwidth as fw
from fanwidth import _core
from fanwidth.options import STRATEGIES

MS = 1_000_000
NOT_A_TIME = "no number"


def course_of(run: fw.Run) -> Course:
    samples = run.samples
    states = [fw.STATES[state] for state in samples.state]
    return Course(list(samples.start_ns), list(samples.finish_ns), states, run.peak_in_flight, run.stopped_by)


def run_counted(strategy: str, times: list[int], *, limit, item_timeout, total_timeout, max_failures, capacity, queue) -> Course:
    """Through _core.run with no source: the way of items that are a count."""
    facts = _core.run(
        strategy=strategy,
        action="delay" if capacity is None else "service",
        iterator=None,
        total=len(times),
        limit=limit,
        time=("per_item", 0, 0.0, 0.0, array("q", times)),
        item_timeout_ns=item_timeout,
        total_timeout_ns=total_timeout,
        capacity=capacity or 1,
        queue=queue,
        max_threads=1024,
        max_failures=max_failures,
        samples=True,
        is_virtual=True,
        uv_timer=False,
        origin_ns=0,
        cancel=None,
        item_is_time=False,
        report=None,
    )
    ledger = facts["ledger"]
    start, finish, state = ledger.columns()
    stopped_by = (None, "failure", "timeout")[ledger.stop]
    return Course(list(start), list(finish), [fw.STATES[s] for s in state], ledger.peak_in_flight, stopped_by)


def seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9


durations = st.integers(1, 20).map(lambda n: n * MS) | st.integers(1, 10**12)
arguments = st.fixed_dictionaries(
    {
        "item_timeout": st.none() | durations,
        "total_timeout": st.none() | durations,
        "max_failures": st.none() | st.integers(0, 3),
    }
)
limits = st.integers(1, 12)


def limited(strategy: str, limit: int) -> dict[str, int | None]:
    return {"limit": None if strategy == "when_all" else limit}


@given(st.sampled_from(STRATEGIES), st.lists(durations, max_size=40), limits, arguments)
def test_delays_of_a_known_number_run_as_in_the_model(strategy, times, limit, given_):
    given_ |= limited(strategy, limit)
    expected = simulate(strategy, times, **given_)
    assert run_counted(strategy, times, capacity=None, queue=None, **given_) == expected


@given(
    st.sampled_from(STRATEGIES),
    st.lists(durations, max_size=40),
    limits,
    arguments,
    st.integers(1, 6),
    st.none() | st.integers(0, 6),
)
def test_services_of_a_known_number_run_as_in_the_model(strategy, times, limit, given_, capacity, queue):
    given_ |= limited(strategy, limit) | {"capacity": capacity, "queue": queue}
    assert run_counted(strategy, times, **given_) == simulate(strategy, times, **given_)


@given(
    st.sampled_from(["for_each", "bounded", "chunked"]),
    st.lists(durations | st.none(), max_size=40),
    limits,
    arguments,
    st.booleans(),
)
def test_delays_that_are_pulled_run_as_in_the_model(strategy, times, limit, given_, sized):
    expected = simulate(strategy, times, limit=limit, sized=False, **given_)
    items = [NOT_A_TIME if time is None else time / 1e9 for time in times]
    run, pulled = None, 0

    def source():
        nonlocal pulled
        for item in items:
            pulled += 1
            yield item

    options = {name: value if name == "max_failures" else seconds(value) for name, value in given_.items()}
    options["limit"] = limit
    run = fw.run(fw.delay(), items if sized else source(), strategy=strategy, errors="keep", clock="virtual", **options)
    known = len(items) if sized else pulled
    assert run.counts.total == known
    assert course_of(run) == Course(
        expected.start[:known], expected.finish[:known], expected.state[:known], expected.peak, expected.stopped_by
    )


@given(st.lists(durations, max_size=40), arguments)
def test_when_all_over_a_source_runs_as_in_the_model(times, given_):
    options = {name: value if name == "max_failures" else seconds(value) for name, value in given_.items()}
    run = fw.when_all(fw.delay(), (time / 1e9 for time in times), errors="keep", clock="virtual", **options)
    assert course_of(run) == simulate("when_all", times, **given_)


@given(st.sampled_from(STRATEGIES), st.lists(st.integers(0, 2), max_size=30), limits)
def test_zero_delays_take_no_time(strategy, times, limit):
    limit_ = limited(strategy, limit)
    course = run_counted(
        strategy, times, item_timeout=None, total_timeout=None, max_failures=None, capacity=None, queue=None, **limit_
    )
    expected = simulate(strategy, times, **limit_)
    assert (course.start, course.finish, course.state) == (expected.start, expected.finish, expected.state)


# _core.admit: the rule itself

ADMIT = [  # strategy, total, started, finished, limit, how many may start
    ("for_each", 10, 0, 0, 3, 3),
    ("for_each", 10, 3, 0, 3, 0),
    ("for_each", 10, 3, 1, 3, 1),
    ("for_each", 10, 9, 9, 3, 1),
    ("for_each", 10, 10, 4, 3, 0),
    ("for_each", None, 7, 6, 4, 3),
    ("for_each", 0, 0, 0, 1, 0),
    ("bounded", 10, 5, 5, 50, 5),
    ("bounded", 10, 8, 2, 4, 0),  # a limit that was lowered: more are in flight than may be
    ("bounded", None, 2**63, 2**63 - 1, 1, 0),
    ("when_all", 10, 0, 0, None, 10),
    ("when_all", 10, 4, 4, None, 6),
    ("when_all", 10, 10, 0, None, 0),
    ("chunked", 10, 0, 0, 4, 4),
    ("chunked", 10, 4, 3, 4, 0),
    ("chunked", 10, 4, 4, 4, 4),
    ("chunked", 10, 8, 8, 4, 2),
    ("chunked", 10, 5, 4, 4, 3),  # a chunk that is being started
    ("chunked", 10, 5, 3, 4, 0),
    ("chunked", None, 4, 4, 4, 4),
    ("chunked", 10, 0, 0, 100, 10),
]


@pytest.mark.parametrize(("strategy", "total", "started", "finished", "limit", "may"), ADMIT)
def test_admit_by_table(strategy, total, started, finished, limit, may):
    assert fw.admit(strategy, total, started, finished, limit) == may
    assert _core.admit(strategy=strategy, total=total, started=started, finished=finished, limit=limit) == may


counts = st.integers(0, 2**63)


@given(st.sampled_from(STRATEGIES), counts, counts, counts, st.integers(1, 2**63))
def test_admit_by_property(strategy, total, started, finished, limit):
    finished, started, total = sorted((total, started, finished))
    limit = None if strategy == "when_all" else limit
    may = fw.admit(strategy, total, started, finished, limit)
    assert 0 <= may <= total - started
    if limit is not None:
        assert may <= limit
        assert may <= max(0, limit - (started - finished)) or strategy == "chunked"
    begun = started % limit if strategy == "chunked" else 0
    if begun and started - finished > begun:
        return  # no run gets there: a chunk is begun once the last one is finished
    # One more of the model's single steps is allowed exactly as long as the rule gives a number.
    assert (may > 0) == (started < total and may_start(strategy, started, started - finished, limit))


@given(st.sampled_from(STRATEGIES), st.integers(0, 200), st.integers(1, 20), st.randoms())
def test_admit_leads_every_run_to_its_end(strategy, total, limit, random):
    """Starting what may start and ending anything in flight uses up every source within the limit."""
    limit = None if strategy == "when_all" else limit
    started = finished = 0
    while finished < total:
        started += fw.admit(strategy, total, started, finished, limit)
        assert started > finished, "stuck"
        assert limit is None or started - finished <= limit
        finished += random.randint(1, started - finished)
    assert started == total and fw.admit(strategy, total, started, finished, limit) == 0


@pytest.mark.parametrize(
    "arguments",
    [("for_each", 5, 6, 0, 1), ("for_each", 5, 1, 2, 1), ("bounded", 5, 0, 0, 0), ("nonsense", 5, 0, 0, 1)],
    ids=["more started than there are", "more finished than started", "limit 0", "no such strategy"],
)
def test_admit_refuses_counts_that_cannot_be(arguments):
    with pytest.raises(ValueError):
        fw.admit(*arguments)


@pytest.mark.parametrize("wrong", [-1, 2**64, 1.5, "4"])
@pytest.mark.parametrize("place", range(1, 5))
def test_admit_refuses_what_is_no_count(place, wrong):
    arguments = ["for_each", 5, 0, 0, 1]
    arguments[place] = wrong
    with pytest.raises((ValueError, TypeError, OverflowError)):
        fw.admit(*arguments)


# What the model itself must do, by hand: a model that is wrong in the engine's way proves nothing.


def test_the_model_by_hand():
    course = simulate("bounded", [50, 10, 30, 20], limit=2)
    assert (course.start, course.finish, course.peak) == ([0, 0, 10, 40], [50, 10, 40, 60], 2)
    course = simulate("chunked", [50, 10, 30, 20], limit=2)
    assert (course.start, course.finish) == ([0, 0, 50, 50], [50, 10, 80, 70])
    course = simulate("when_all", [50, 10], total_timeout=20)
    assert (course.state, course.finish, course.stopped_by) == (["timed_out", "ok"], [20, 10], "timeout")
    course = simulate("for_each", [10, None, 10, 10], limit=2, max_failures=0)
    assert course.state == ["cancelled", "failed", "not_started", "not_started"]
    course = simulate("when_all", [10, 10, 10], capacity=1, queue=1)
    assert (course.state, course.finish) == (["ok", "ok", "failed"], [10, 20, 0])


# The virtual clock is the same engine: on the real clock items start and end in the same order.


@settings(max_examples=8)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=8), st.integers(1, 4))
def test_the_real_clock_starts_in_the_same_order_and_never_early(steps, limit):
    times = [step * 5 * MS for step in steps]
    run = fw.bounded(fw.delay(), [time / 1e9 for time in times], limit=limit)
    start, finish = run.samples.start_ns, run.samples.finish_ns
    assert run.ok and run.peak_in_flight <= limit
    assert list(start) == sorted(start)
    assert all(map(operator.ge, map(operator.sub, finish, start), times))
    assert run.elapsed * 1e9 >= max(simulate("bounded", times, limit=limit).finish) - 1
