"""Points from rows; Little's law; ceilings of clients."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from random import Random

import pytest
from curves import (
    GRID,
    SERVICE,
    hinge,
)

from fanwidth.scalability import (
    CEILINGS,
    Point,
    ceiling_hint,
    knee,
    littles_law,
    points_from_rows,
    usl,
)

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
