"""Where to measure next, and where to stop."""

from __future__ import annotations

from random import Random

from curves import (
    grid_points,
    hinge,
    sample,
    scalability_law,
    with_p99,
)

from fanwidth.scalability import (
    Point,
    refine,
    stop_climbing,
)

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
