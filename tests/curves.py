"""Curves of throughput whose truth is known, and points measured from them, with noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from random import Random

from fanwidth.scalability import (
    Knee,
    Point,
    knee,
    refine,
    stop_climbing,
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


def with_p99(points: list[Point], p99: Callable[[int], float]) -> list[Point]:
    return [Point(p.limit, p.throughputs, tuple(p99(p.limit) for _ in p.throughputs)) for p in points]


def with_failures(points: list[Point], rate: Callable[[int], float]) -> list[Point]:
    return [Point(p.limit, p.throughputs, failure_rates=tuple(rate(p.limit) for _ in p.throughputs)) for p in points]
