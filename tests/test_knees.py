"""The recommended limit, against curves whose truth is known."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import pytest
from curves import (
    GRID,
    SERVICE,
    grid_points,
    hinge,
    machine_repair,
    measure,
    scalability_law,
    with_failures,
    with_p99,
)

from fanwidth.scalability import (
    Point,
    knee,
    refine,
    stop_climbing,
    usl,
)

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


def test_max_p99_chooses_among_those_that_meet_it() -> None:
    points = with_p99(grid_points(hinge(64)), lambda limit: 0.05 + 0.001 * limit)
    assert knee(points).limit == 64
    found = knee(points, max_p99=0.09)
    assert (found.limit, found.best_limit) == (32, 32)  # the best of those, still rising but bounded by the condition
    assert "p99 of at most 0.09 s" in found.reason and found.reason.endswith("; 64 has a p99 of 0.114 s")
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


def test_limits_that_fail_are_not_recommended() -> None:
    points = with_failures(grid_points(hinge(64)), lambda limit: 0.0 if limit <= 32 else 0.02)
    assert knee(points).limit == 32 and knee(points).reason.endswith("; 64 fails 2 % of its items")
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
