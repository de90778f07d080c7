"""What holds for any points; wrong use."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanwidth.scalability import (
    Point,
    knee,
    refine,
    stop_climbing,
    usl,
    verdict,
)

# Properties

throughputs = st.floats(1.0, 1e6)


@st.composite
def any_points(draw: st.DrawFn) -> list[Point]:
    limits = draw(st.lists(st.integers(1, 300), min_size=1, max_size=9, unique=True))
    repeats = draw(st.integers(1, 3))
    made = []
    for limit in limits:
        rates = tuple(draw(st.lists(throughputs, min_size=repeats, max_size=repeats)))
        p99s = tuple(draw(st.lists(st.floats(0.001, 10.0), min_size=repeats, max_size=repeats)))
        made.append(Point(limit, rates, p99s, tuple(draw(st.sampled_from([0.0, 0.1])) for _ in rates)))
    return made


@given(any_points(), st.booleans(), st.floats(0.0, 0.9), st.none() | st.floats(0.001, 10.0))
def test_an_answer_is_a_measured_limit_that_meets_the_conditions(
    points: list[Point], exact: bool, tolerance: float, max_p99: float | None
) -> None:
    found = knee(points, exact=exact, tolerance=tolerance, max_p99=max_p99)
    assert (found.limit is None) == (found.status not in ("ok", "flat"))
    assert found.reason and "nan" not in found.reason and "inf" not in found.reason
    if found.limit is not None:
        answer = next(point for point in points if point.limit == found.limit)
        assert max_p99 is None or (answer.p99 is not None and answer.p99 <= max_p99)
        assert answer.failure_rate == 0.0
        assert found.interval is not None and set(found.interval) <= {point.limit for point in points}
        assert found.interval[0] <= found.limit <= found.interval[1]
    asked = refine(points, exact=exact, tolerance=tolerance, max_p99=max_p99)
    limits = [point.limit for point in points]
    assert all(min(limits) <= limit <= max(limits) for limit in asked)
    assert stop_climbing(points, exact=exact, max_p99=max_p99) in (True, False)
    assert verdict(points, limits[0], exact=exact, max_p99=max_p99)[1]
    assert usl(points, resamples=20).reason


@given(any_points(), st.floats(0.0, 0.9), st.floats(0.0, 0.9))
def test_more_tolerance_never_means_a_larger_limit(points: list[Point], first: float, second: float) -> None:
    low, high = sorted((first, second))
    strict, loose = knee(points, exact=True, tolerance=low).limit, knee(points, exact=True, tolerance=high).limit
    if strict is not None and loose is not None:
        assert loose <= strict


@given(any_points(), st.randoms(use_true_random=False))
def test_the_order_of_the_points_does_not_matter(points: list[Point], rng: Random) -> None:
    shuffled = rng.sample(points, len(points))
    assert knee(points) == knee(shuffled)
    assert usl(points, resamples=10) == usl(shuffled, resamples=10)


# Wrong use


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tolerance": -0.1}, "tolerance must be at least 0 and below 1, got -0.1"),
        ({"tolerance": 5}, "tolerance must be"),
        ({"max_p99": 0.0}, "max_p99 must be positive"),
        ({"min_throughput": math.inf}, "min_throughput must be positive and finite"),
        ({"max_failure_rate": 1.5}, "max_failure_rate must be from 0 to 1, got 1.5"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, float], message: str) -> None:
    for call in (knee, refine):
        with pytest.raises(ValueError, match=message):
            call([], **arguments)


def test_wrong_points_are_refused() -> None:
    with pytest.raises(ValueError, match="limit must be at least 1, got 0"):
        Point(0, (1.0,))
    with pytest.raises(ValueError, match="empty"):
        Point(1, ())
    with pytest.raises(ValueError, match="finite and not negative, got nan"):
        Point(1, (math.nan,))
    with pytest.raises(ValueError, match="limit 2 appears twice"):
        knee([Point(2, (1.0,)), Point(2, (1.0,))])
