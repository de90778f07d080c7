"""Whether a limit in use is right, by three points."""

from __future__ import annotations

from collections import Counter

import pytest
from curves import (
    grid_points,
    hinge,
    with_failures,
    with_p99,
)

from fanwidth.scalability import (
    verdict,
)

# The verdict on one limit


@pytest.mark.parametrize(("limit", "wanted"), [(5, "too_low"), (20, "ok"), (19, "too_low"), (60, "too_high")])
def test_verdict_of_three_points(limit: int, wanted: str) -> None:
    points = grid_points(hinge(20), [max(1, limit // 2), limit, 2 * limit], repeats=1)
    found, reason = verdict(points, limit, exact=True, tolerance=0.05 if limit != 19 else 0.02)
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
    for limit, capacity, claim in ((20, 22, "too_low"), (40, 21, "too_high")):
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
