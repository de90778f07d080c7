"""The knee and what stands beside it, against curves whose truth is known."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import curve_fit

from fanwidth.scalability import (
    CEILINGS,
    Knee,
    Point,
    ceiling_hint,
    knee,
    littles_law,
    points_from_rows,
    refine,
    stop_climbing,
    usl,
    verdict,
)

Curve = Callable[[int], float]
GRID = [2**i for i in range(9)]  # 1 to 256
SERVICE = 0.05


def hinge(capacity: int) -> Curve:
    """The throughput of `capacity` servers of 50 ms each."""
    return lambda limit: min(limit, capacity) / SERVICE


def machine_repair(think: float) -> Curve:
    """One server of 1 s, clients that think for `think` s: exact mean value analysis (Reiser and Lavenberg, 1980)."""

    def throughput(limit: int) -> float:
        queue, rate = 0.0, 0.0
        for clients in range(1, limit + 1):
            response = 1.0 + queue
            rate = clients / (response + think)
            queue = rate * response
        return rate

    return throughput


def scalability_law(rate: float, sigma: float, kappa: float) -> Curve:
    return lambda n: rate * n / (1.0 + sigma * (n - 1) + kappa * n * (n - 1))


def sample(curve: Curve, limit: int, noise: float, rng: Random, repeats: int) -> tuple[float, ...]:
    return tuple(curve(limit) * math.exp(rng.gauss(0.0, noise)) for _ in range(repeats))


def grid_points(
    curve: Curve, limits: Iterable[int] = GRID, *, noise: float = 0.0, repeats: int = 3, seed: int = 0
) -> list[Point]:
    rng = Random(seed)
    return [Point(limit, sample(curve, limit, noise, rng, repeats)) for limit in limits]


def measure(
    curve: Curve, *, noise: float = 0.0, repeats: int = 3, seed: int = 0, exact: bool = False, most: int = 3
) -> tuple[Knee, list[Point]]:
    """The loop around the decisions: climb the grid, then refine until nothing more is asked for."""
    rng = Random(seed)
    points: dict[int, Point] = {}

    def add(limit: int) -> None:
        known = points[limit].throughputs if limit in points else ()
        points[limit] = Point(limit, known + sample(curve, limit, noise, rng, repeats))

    for limit in GRID:
        add(limit)
        if stop_climbing(points.values(), exact=exact):
            break
    for _ in range(100):
        asked = refine(points.values(), exact=exact, most=most)
        if not asked:
            return knee(points.values(), exact=exact, seed=seed), list(points.values())
        for limit in asked:
            add(limit)
    raise AssertionError(f"refine asks for {asked} for ever")


# Known truth


@pytest.mark.parametrize(("repeats", "exact"), [(1, True), (3, True), (3, False)])
def test_every_capacity_is_found_without_noise(repeats: int, exact: bool) -> None:
    for capacity in range(1, 201):
        found, points = measure(hinge(capacity), repeats=repeats, exact=exact)
        assert found.limit is not None, (capacity, found.reason)
        assert math.ceil(0.95 * capacity - 1e-9) <= found.limit <= capacity, (capacity, found)
        assert found.interval == (found.limit, found.limit)
        assert found.status == ("flat" if capacity == 1 else "ok")
        assert len(points) <= 20


# Noise of one repeat -> how far the answer may lie outside 0.95 c to c, and the shares of answers that must do
# (inside the band, inside the interval) and of cases that may be refused.
ERROR_TABLE = [(0.01, 0.03, 0.95, 0.95, 0.03), (0.03, 0.05, 0.95, 0.93, 0.07), (0.05, 0.05, 0.95, 0.90, 0.20)]


@pytest.mark.parametrize(("noise", "beyond", "inside", "covered", "refused"), ERROR_TABLE)
def test_capacities_are_found_in_noise(noise: float, beyond: float, inside: float, covered: float, refused: float) -> None:
    outcomes: Counter[str] = Counter()
    for case in range(160):
        capacity = 1 + (case * 37) % 200
        found, _ = measure(hinge(capacity), noise=noise, seed=case)
        if found.limit is None:
            assert found.status in ("noisy", "rising")
            outcomes["refused"] += 1
            continue
        outcomes["answered"] += 1
        low, high = math.ceil(0.95 * capacity - 1e-9), capacity
        outcomes["inside"] += low - beyond * capacity - 1 <= found.limit <= high + beyond * capacity + 1
        assert found.interval is not None and found.interval[0] <= found.limit <= found.interval[1]
        outcomes["covered"] += found.interval[0] <= high and low <= found.interval[1]
    assert outcomes["inside"] >= inside * outcomes["answered"], outcomes
    assert outcomes["covered"] >= covered * outcomes["answered"], outcomes
    assert outcomes["refused"] <= refused * 160, outcomes


@pytest.mark.parametrize("think", [0.0, 3.0, 10.0, 40.0])
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_smooth_knees_are_found(think: float, noise: float) -> None:
    curve = machine_repair(think)
    found, _ = measure(curve, noise=noise, seed=7)
    best = curve(256)
    truth = next(limit for limit in range(1, 257) if curve(limit) >= 0.95 * best)
    assert found.limit is not None, found.reason
    assert curve(found.limit) >= (0.95 - 2 * noise) * best
    assert found.limit <= math.ceil(truth * (1.05 + 10 * noise))


@pytest.mark.parametrize(("sigma", "kappa"), [(0.02, 0.0005), (0.0, 0.002), (0.1, 0.01), (0.0, 0.0001)])
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_retrograde_curves_are_climbed_no_further_than_needed(sigma: float, kappa: float, noise: float) -> None:
    curve = scalability_law(100.0, sigma, kappa)
    found, points = measure(curve, noise=noise, seed=3)
    peak = max(map(curve, range(1, 257)))
    truth = next(limit for limit in range(1, 257) if curve(limit) >= 0.95 * peak)
    assert found.limit is not None, found.reason
    assert curve(found.limit) >= (0.95 - 2 * noise) * 0.97 * peak  # the peak itself may lie between measured limits
    assert found.limit <= math.ceil(truth * (1.05 + 10 * noise)) + 1
    if kappa == 0.01:
        assert max(point.limit for point in points) < 256


def test_the_best_before_a_collapse_is_looked_for() -> None:
    found, _ = measure(lambda limit: limit / SERVICE if limit <= 100 else 20.0 / SERVICE, exact=True, repeats=1)
    assert found.best_limit is not None and 96 <= found.best_limit <= 100
    assert found.limit is not None and 91 <= found.limit <= 100


def test_one_lucky_point_of_the_plateau_does_not_move_the_answer() -> None:
    points = grid_points(hinge(8), noise=0.01, repeats=3)
    lucky = [
        Point(p.limit, tuple(1.03 * t for t in p.throughputs)) if p.limit == 256 else p
        for p in grid_points(hinge(8), noise=0.02, repeats=3)
    ]
    assert knee(points).limit == knee(lucky).limit == 8


def test_many_limits_below_the_knee_give_no_lucky_answer() -> None:
    found = [knee(grid_points(hinge(150), range(1, 201), noise=0.03, seed=seed)) for seed in range(30)]
    given = [(f.limit, f.interval) for f in found if f.limit is not None and f.interval is not None]
    assert len(given) >= 28
    assert all(139 <= limit <= 152 for limit, _ in given), given
    assert sum(low <= 150 and high >= 143 for _, (low, high) in given) >= 0.93 * len(given), given


@pytest.mark.parametrize("capacity", range(20, 201, 20))
def test_exactly_the_tolerance_below_the_best_is_within_it(capacity: int) -> None:
    limit = capacity * 19 // 20
    assert knee(grid_points(hinge(capacity), [1, limit - 1, limit, capacity, 400]), exact=True).limit == limit


def test_one_stalled_repeat_does_not_move_the_answer() -> None:
    points = grid_points(hinge(16), noise=0.01, repeats=3)
    stalled = [Point(p.limit, (p.throughputs[0] * 0.5, *p.throughputs[1:])) if p.limit == 16 else p for p in points]
    assert knee(stalled).limit == knee(points).limit == 16


def test_drift_that_hits_whole_rounds_is_no_noise() -> None:
    rng = Random(5)
    rounds = [1.0, 0.8, 1.25]
    points = [Point(n, tuple(hinge(16)(n) * f * math.exp(rng.gauss(0, 0.005)) for f in rounds)) for n in GRID]
    found = knee(points)
    assert found.limit == 16
    assert found.interval == (16, 16)
    assert found.noise is not None and found.noise < 0.02


# Flat, refusals, conditions


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_flat_from_one_means_one_and_says_so(noise: float) -> None:
    found = knee(grid_points(hinge(1), noise=noise))
    assert (found.limit, found.status) == (1, "flat")
    assert "no larger limit gives more than 5 % over limit 1" in found.reason


def test_falling_from_one_means_one() -> None:
    found = knee(grid_points(lambda limit: 100.0 / limit))
    assert (found.limit, found.status) == (1, "flat")


def test_flat_from_a_larger_limit_says_what_was_not_measured() -> None:
    found = knee(grid_points(hinge(4), [8, 16, 32, 64]))
    assert (found.limit, found.status) == (8, "flat")
    assert "smaller limits were not measured" in found.reason


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.03, 0.05])
def test_still_rising_is_refused(noise: float) -> None:
    for seed in range(20 if noise else 1):
        found, _ = measure(hinge(1000), noise=noise, seed=seed)
        assert found.limit is None, (seed, found)
        if found.status == "rising":
            assert "256" in found.reason and "larger limits" in found.reason
        else:
            assert found.status == "noisy" and noise >= 0.05


def test_still_rising_slowly_is_refused() -> None:
    assert knee(grid_points(scalability_law(1.0, 0.02, 0.0)), exact=True).status == "rising"  # 8.7 % more at 512
    assert knee(grid_points(scalability_law(1.0, 0.2, 0.0)), exact=True).status == "ok"


def test_an_answer_is_never_given_with_a_wide_interval() -> None:
    found = [knee(grid_points(hinge(4), noise=0.06, seed=seed)) for seed in range(60)]
    assert any("it could be any limit" in refusal.reason for refusal in found)
    assert all(f.interval is None or f.interval[1] <= 2 * f.interval[0] + 1 for f in found)


def test_a_wide_scatter_is_refused() -> None:
    refused = [knee(grid_points(hinge(30), noise=0.4, seed=seed)) for seed in range(20)]
    assert {found.limit for found in refused} == {None}
    assert {found.status for found in refused} <= {"noisy", "rising"}
    assert sum("repeats" in found.reason for found in refused) >= 15


@pytest.mark.parametrize(
    ("points", "exact"),
    [
        ([], False),
        ([Point(1, (1.0,) * 3)], False),
        (grid_points(hinge(4), [1, 2]), True),
        (grid_points(hinge(4), repeats=1), False),
    ],
)
def test_too_few_are_refused(points: list[Point], exact: bool) -> None:
    found = knee(points, exact=exact)
    assert (found.limit, found.status) == (None, "too_few")


def test_a_point_measured_once_among_repeated_ones_is_used() -> None:
    points = grid_points(hinge(16), noise=0.01)
    points[4] = Point(16, points[4].throughputs[:1])
    assert knee(points).limit == 16


def with_p99(points: list[Point], p99: Callable[[int], float]) -> list[Point]:
    return [Point(p.limit, p.throughputs, tuple(p99(p.limit) for _ in p.throughputs)) for p in points]


def test_max_p99_chooses_among_those_that_meet_it() -> None:
    points = with_p99(grid_points(hinge(64)), lambda limit: 0.05 + 0.001 * limit)
    assert knee(points).limit == 64
    found = knee(points, max_p99=0.09)
    assert (found.limit, found.best_limit) == (32, 32)  # the best of those, still rising but bounded by the condition
    assert "p99 of at most 0.09 s" in found.reason
    assert refine(points, max_p99=0.09) == [45]  # better ones may be up there, which would raise the goal
    assert knee(points, max_p99=0.01).status == "infeasible"
    assert "the lowest is 0.051 s" in knee(points, max_p99=0.01).reason


def test_max_p99_without_measured_p99_is_refused() -> None:
    found = knee(grid_points(hinge(8)), max_p99=0.1)
    assert found.status == "infeasible" and "no p99 was measured" in found.reason


def test_a_p99_that_is_met_by_luck_only_is_refused() -> None:
    rng = Random(2)
    points = [Point(n, (100.0,) * 3, tuple(0.1 * math.exp(rng.gauss(0, 0.1)) for _ in range(3))) for n in (1, 2, 4, 8)]
    found = knee(points, max_p99=min(p.p99 or 0.0 for p in points))
    assert (found.limit, found.status) == (None, "noisy")


def test_min_throughput_chooses_the_smallest_that_reaches_it() -> None:
    points = grid_points(hinge(64), noise=0.01)
    found = knee(points, min_throughput=300.0)  # 15 in flight
    assert found.limit == 16
    assert "smallest limit that reaches 300 items/s" in found.reason
    assert refine(points, min_throughput=300.0) == [11]
    assert knee(grid_points(hinge(1000)), min_throughput=300.0).limit == 16  # rising is no objection
    refused = knee(points, min_throughput=2000.0)
    assert (refused.limit, refused.status) == (None, "infeasible")


def with_failures(points: list[Point], rate: Callable[[int], float]) -> list[Point]:
    return [Point(p.limit, p.throughputs, failure_rates=tuple(rate(p.limit) for _ in p.throughputs)) for p in points]


def test_limits_that_fail_are_not_recommended() -> None:
    points = with_failures(grid_points(hinge(64)), lambda limit: 0.0 if limit <= 32 else 0.02)
    assert knee(points).limit == 32
    assert stop_climbing(points) and not stop_climbing(points[:6])
    assert refine(points) == [45]
    assert knee(points, max_failure_rate=0.05).limit == 64
    every = with_failures(points, lambda limit: 0.5)
    assert knee(every).status == "infeasible" and "50 %" in knee(every).reason
    assert refine(every) == []


def test_limits_that_finish_nothing_are_left_out() -> None:
    points = [*grid_points(hinge(64), [1, 2, 4, 8]), Point(16, (0.0, 0.0, 0.0))]
    assert stop_climbing(points)
    assert knee(points).limit == 8
    assert usl(points).rate == pytest.approx(20.0)


def test_failing_right_after_one_is_an_answer() -> None:
    points = with_failures(grid_points(hinge(64), [1, 2]), lambda limit: 0.0 if limit == 1 else 1.0)
    assert knee(points).limit == 1


# Where to look next


def test_refine_bisects_until_the_neighbours_are_near() -> None:
    assert refine(grid_points(hinge(40))) == [45]
    assert refine(grid_points(hinge(40), [1, 37, 38, 64, 128]), exact=True) == []
    assert refine(grid_points(hinge(40), [1, 36, 38, 64, 128]), resolution=0.05) == [37]
    assert refine([]) == []


def test_refine_repeats_what_is_doubtful_and_stops_at_most() -> None:
    rng = Random(4)
    limits = [1, 2, 4, 8, 16, 32, 34, 35, 36, 37, 38, 39, 40, 42, 44, 46, 48, 50, 52, 54, 57, 59, 62, 64, 128, 256]
    points = [Point(n, sample(hinge(40), n, 0.03, rng, 3)) for n in limits]
    again = refine(points)
    assert again and set(again) <= set(limits)
    assert all(30 <= limit <= 64 for limit in again)
    assert refine(points, most=1) == []
    assert refine(grid_points(hinge(40), limits)) == []  # nothing is doubtful without noise


def test_stop_climbing_when_throughput_has_clearly_fallen() -> None:
    curve = scalability_law(100.0, 0.02, 0.01)
    assert not stop_climbing(grid_points(curve, [1, 2, 4, 8]))
    assert stop_climbing(grid_points(curve, [1, 2, 4, 8, 16, 32]))
    assert not stop_climbing(grid_points(hinge(4), noise=0.05))
    assert not stop_climbing([])
    fallen = [Point(1, (100.0,)), Point(2, (110.0,)), Point(4, (100.0,))]
    assert stop_climbing(fallen, exact=True)
    assert not stop_climbing(fallen)  # 9 % may be noise when nothing was repeated


def test_stop_climbing_when_two_limits_in_a_row_are_too_slow() -> None:
    points = with_p99(grid_points(hinge(1000)), lambda limit: 0.01 * limit)
    assert not stop_climbing(points[:5], max_p99=0.1)
    assert stop_climbing(points[:6], max_p99=0.1)


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


# The verdict on one limit


@pytest.mark.parametrize(("limit", "wanted"), [(5, "too_low"), (20, "ok"), (19, "too_low"), (60, "too_high")])
def test_verdict_of_three_points(limit: int, wanted: str) -> None:
    points = grid_points(hinge(20), [max(1, limit // 2), limit, 2 * limit], repeats=1)
    found, reason = verdict(points, limit, exact=True, tolerance=0.05 if limit != 19 else 0.04)
    assert found == wanted
    assert str(limit) in reason and "items/s" in reason


def test_verdict_in_noise_is_seldom_wrong() -> None:
    for limit, wanted in ((8, "too_low"), (20, "ok"), (60, "too_high")):
        found = Counter(
            verdict(grid_points(hinge(20), [limit // 2, limit, 2 * limit], noise=0.02, repeats=5, seed=s), limit)[0]
            for s in range(100)
        )
        assert found[wanted] >= 80, found
        assert found[wanted] + found["unknown"] >= 95, found


def test_verdict_at_the_tolerance_is_not_a_coin_toss() -> None:
    for limit, capacity, claim in ((20, 21, "too_low"), (40, 21, "too_high")):
        limits = [20, 40] if claim == "too_low" else [20, 40, 80]
        found = Counter(
            verdict(grid_points(hinge(capacity), [1, *limits], noise=0.02, repeats=5, seed=s), limit)[0] for s in range(100)
        )
        assert found["unknown"] + found["ok"] >= 40, found
        assert claim != "too_low" or found["too_low"] <= 12, found


def test_verdict_of_one_has_nothing_below() -> None:
    assert verdict(grid_points(hinge(1), [1, 2]), 1)[0] == "ok"
    assert verdict(grid_points(hinge(4), [1, 2]), 1)[0] == "too_low"


def test_verdict_unknown_says_why() -> None:
    assert "was not measured" in verdict(grid_points(hinge(20)), 20)[1]
    assert "above" in verdict(grid_points(hinge(20), [10, 20]), 20)[1]
    assert "below" in verdict(grid_points(hinge(20), [20, 40]), 20)[1]
    assert "twice" in verdict(grid_points(hinge(20), [10, 20, 40], repeats=1), 20)[1]
    assert "known to" in verdict(grid_points(hinge(20), [10, 20, 40], noise=0.5), 20)[1]
    for points in (grid_points(hinge(20)), grid_points(hinge(20), [10, 20], repeats=1)):
        assert verdict(points, 20)[0] == "unknown"


def test_verdict_by_conditions() -> None:
    points = with_p99(grid_points(hinge(20), [10, 20, 40]), lambda limit: limit / 100)
    assert verdict(points, 20, max_p99=0.15)[0] == "too_high"
    assert verdict(points, 20, max_p99=0.25)[0] == "ok"
    assert verdict(points, 10, max_p99=0.15)[0] == "unknown"  # nothing below
    failing = with_failures(grid_points(hinge(100), [10, 20, 40]), lambda limit: 0.1 if limit >= 20 else 0.0)
    assert verdict(failing, 20)[0] == "too_high"
    assert verdict(with_failures(failing, lambda limit: 0.1), 20)[0] == "unknown"
    bounded = with_failures(failing, lambda limit: 0.1 if limit >= 40 else 0.0)
    assert verdict(bounded, 20)[0] == "ok"  # 40 gives more but fails
    assert verdict(points, 20, min_throughput=300.0)[0] == "ok"
    assert verdict(points, 20, min_throughput=150.0)[0] == "too_high"
    assert verdict(points, 20, min_throughput=1000.0)[0] == "unknown"
    assert verdict(grid_points(hinge(30), [10, 20, 40]), 20, min_throughput=500.0)[0] == "too_low"


# The Universal Scalability Law


@pytest.mark.parametrize(
    ("rate", "sigma", "kappa"),
    [
        (100.0, 0.02, 0.0005),
        (1e-3, 0.0, 0.002),
        (1e6, 0.3, 0.0),
        (20.0, 0.0, 0.0),
        (5.0, 1.0, 0.0),
        (995.0, 0.026, 0.00076),
    ],
)
def test_usl_recovers_its_own_curves(rate: float, sigma: float, kappa: float) -> None:
    found = usl(grid_points(scalability_law(rate, sigma, kappa), [*GRID, 3, 12, 100]))
    assert found.rate == pytest.approx(rate, rel=1e-6)
    assert found.sigma == pytest.approx(sigma, abs=1e-7)
    assert found.kappa == pytest.approx(kappa, abs=1e-9)
    assert found.throughput(64) == pytest.approx(scalability_law(rate, sigma, kappa)(64), rel=1e-6)
    assert found.r2 is None if sigma == 1.0 else found.r2 == pytest.approx(1.0)
    if kappa > 0.0:
        assert found.peak == pytest.approx(math.sqrt((1.0 - sigma) / kappa), rel=1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_usl_agrees_with_scipy(seed: int) -> None:
    rng = Random(seed)
    law = (10.0 ** rng.uniform(-2, 4), rng.uniform(0.0, 0.3), 10.0 ** rng.uniform(-5, -2))
    points = grid_points(scalability_law(*law), GRID, noise=0.05, repeats=1, seed=seed)
    found = usl(points)

    def logarithm(n: np.ndarray, height: float, sigma: float, kappa: float) -> np.ndarray:
        return height + np.log(n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0)))

    limits = np.array([float(p.limit) for p in points])
    values = np.log([p.throughput for p in points])
    (height, sigma, kappa), _ = curve_fit(
        logarithm,
        limits,
        values,
        p0=(values[0], 0.1, 0.001),
        bounds=([-np.inf, 0.0, 0.0], [np.inf, 1.0, np.inf]),
        x_scale=(1.0, 0.1, 0.001),
        ftol=1e-14,
        xtol=1e-14,
        gtol=1e-14,
        max_nfev=10_000,
    )
    assert found.rate is not None and found.sigma is not None and found.kappa is not None
    ours = logarithm(limits, math.log(found.rate), found.sigma, found.kappa) - values
    theirs = logarithm(limits, height, sigma, kappa) - values
    assert (ours**2).sum() <= (theirs**2).sum() * (1.0 + 1e-6)  # no worse a fit
    assert found.sigma == pytest.approx(sigma, rel=1e-3, abs=1e-5)
    assert found.kappa == pytest.approx(kappa, rel=1e-3, abs=1e-7)


def test_usl_intervals_hold_the_truth_as_often_as_they_say() -> None:
    law = (100.0, 0.05, 0.0008)
    held: Counter[str] = Counter()
    for seed in range(100):
        found = usl(grid_points(scalability_law(*law), noise=0.03, seed=seed), seed=seed)
        for name, true in zip(("rate", "sigma", "kappa"), law, strict=True):
            low, high = getattr(found, f"{name}_interval")
            held[name] += low <= true <= high
        assert found.peak_interval is not None
        held["peak"] += found.peak_interval[0] <= math.sqrt(0.95 / 0.0008) <= (found.peak_interval[1] or math.inf)
    assert all(count >= 80 for count in held.values()), held  # nine limits: redrawing nine residuals is a little bold


def test_usl_of_a_curve_that_never_falls_has_no_peak() -> None:
    found = usl(grid_points(scalability_law(10.0, 0.1, 0.0)))
    assert found.peak is None and found.peak_interval is None


def test_usl_beyond_the_range_says_so() -> None:
    found = usl(grid_points(scalability_law(10.0, 0.01, 1e-6)))
    assert found.peak == pytest.approx(995.0, rel=0.01)
    assert "extrapolation" in found.reason


def test_usl_of_a_falling_curve_peaks_at_one() -> None:
    found = usl(grid_points(lambda limit: 100.0 / limit**2))
    assert found.peak == 1.0


def test_usl_of_few_limits_is_none_with_a_reason() -> None:
    found = usl(grid_points(hinge(4), [1, 2, 4]))
    assert (found.rate, found.sigma, found.kappa, found.peak, found.throughput(2)) == (None,) * 5
    assert "at least 4 limits" in found.reason and "got 3" in found.reason


# Little's law, ceilings, rows


def test_littles_law_compares_throughput_times_latency_with_the_peak() -> None:
    points = [
        Point(8, (160.0, 160.0), latencies=(0.05, 0.05), peaks_in_flight=(8, 8)),
        Point(16, (160.0, 160.0), latencies=(0.08, None), peaks_in_flight=(16, 16)),
        Point(32, (160.0,), latencies=(None,), peaks_in_flight=(32,)),
        Point(64, (160.0,)),
    ]
    first, second = littles_law(points)
    assert (first.limit, first.in_flight, first.peak) == (8, pytest.approx(8.0), 8)
    assert first.error == pytest.approx(0.0)
    assert (second.limit, second.error) == (16, pytest.approx(-0.2))


@pytest.mark.parametrize(
    ("limit", "cpus", "named"),
    [
        (100, 2, ["aiohttp", "httpx"]),
        (96, 2, ["aiohttp", "httpx"]),
        (40, 2, ["anyio"]),
        (15, 2, ["SQLAlchemy"]),
        (15, 11, ["SQLAlchemy", "to_thread"]),
        (6, 2, ["to_thread"]),
        (32, 64, ["to_thread"]),
    ],
)
def test_a_knee_at_a_known_ceiling_is_named(limit: int, cpus: int, named: list[str]) -> None:
    hint = ceiling_hint(limit, cpus)
    assert hint is not None
    assert all(name in hint for name in named)


def test_a_knee_elsewhere_is_no_ceiling() -> None:
    assert [ceiling_hint(limit, 2) for limit in (1, 2, 20, 64, 128, 200)] == [None] * 6
    assert {ceiling for ceiling, _ in CEILINGS} == {100, 40, 15}


def table_rows(limits: Iterable[int], repeats: int) -> list[dict[str, object]]:
    rng = Random(1)
    return [
        {
            "strategy": "bounded",
            "limit": limit,
            "repeat": repeat,
            "warmup": False,
            "throughput": hinge(60)(limit) * rng.gauss(1.0, 0.02),
            "latency_mean": SERVICE * max(1.0, limit / 60),
            "latency_p99": SERVICE * max(1.0, limit / 60) * rng.gauss(1.1, 0.02),
            "peak_in_flight": limit,
            "limited_by": "limit",
            "items": 1000,
            "ok": 999,
            "failed": 1,
            "timed_out": 0,
        }
        for repeat in range(repeats)
        for limit in limits
    ]


def test_points_from_rows() -> None:
    measured = table_rows(GRID, 2)
    rows = measured[::-1]
    rows += [
        {**rows[0], "warmup": True, "throughput": 1.0},
        {**rows[0], "limit": None},
        {**rows[0], "throughput": None},
        {**rows[0], "throughput": math.nan},
    ]
    points = points_from_rows(rows)
    assert [p.limit for p in points] == GRID
    assert {len(p.throughputs) for p in points} == {2}
    one = points[0]
    assert one.failure_rate == pytest.approx(0.001)
    assert one.throughputs == tuple(r["throughput"] for r in measured if r["limit"] == one.limit)
    assert (one.items, one.peaks_in_flight, one.limited_by) == ((1000, 1000), (1.0, 1.0), ("limit", "limit"))


def test_points_from_rows_that_hold_only_what_is_needed() -> None:
    points = points_from_rows([{"limit": n, "throughput": hinge(4)(n)} for n in (1, 2, 4, 8)])
    assert knee(points, exact=True).limit == 4
    assert littles_law(points) == []


def test_points_from_rows_refuses_mixed_strategies() -> None:
    rows = table_rows(GRID, 1)
    with pytest.raises(ValueError, match="bounded, for_each"):
        points_from_rows([*rows, {**rows[0], "strategy": "for_each"}])


@pytest.mark.parametrize(("limits", "repeats"), [(GRID, 111), (range(5, 255, 5), 20), (range(1, 334), 3)])
def test_a_thousand_rows_take_a_tenth_of_a_second(limits: Iterable[int], repeats: int) -> None:
    rows = table_rows(limits, repeats)
    times = []
    for _ in range(3):
        begun = time.process_time()
        points = points_from_rows(rows)
        found = knee(points, max_failure_rate=0.01)
        law, checks = usl(points), littles_law(points)
        times.append(time.process_time() - begun)
    assert found.reason and law.reason and checks
    assert min(times) <= 0.5  # a guard, five times the target, for loaded machines


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
