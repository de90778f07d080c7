"""The plateau of a curve, and the first limit that is near enough to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

from ..statistics import isotonic
from .levels import variance
from .rules import Rule

SAME = 1e-9  # logarithms closer than this are equal: 19 of 20 is within 5 %


@dataclass(frozen=True, slots=True)
class Choice:
    """The answer as an index (None when no limit reaches `min_throughput`) and what it was compared with."""

    index: int | None
    goal: float  # logarithm, as are the next two
    plateau: float
    error: float  # standard error of the plateau
    top: list[int]  # the limits of the plateau
    rise: list[float]  # the isotonic fit up to the best limit


def choose(logs: Sequence[float], errors: Sequence[float], z: float, rule: Rule) -> Choice:
    """The first limit whose isotonic fit reaches the goal: smoothed, a lucky limit below the knee is not the answer."""
    plateau, error, top = _plateau(logs, errors, z)
    upto = max(range(len(logs)), key=logs.__getitem__) + 1
    # Exact data need no smoothing, and a real dip in them must not be smoothed away.
    rise = isotonic(logs[:upto], [1.0 / variance(e) for e in errors[:upto]]) if any(errors) else list(logs[:upto])
    if rule.min_throughput is None:
        goal = plateau - rule.slack
    else:
        goal = log(rule.min_throughput)
        if goal > plateau + SAME:
            return Choice(None, goal, plateau, error, top, rise)
    index = next((i for i, level in enumerate(rise) if level >= goal - SAME), upto - 1)
    return Choice(index, goal, plateau, error, top, rise)


def _plateau(logs: Sequence[float], errors: Sequence[float], z: float) -> tuple[float, float, list[int]]:
    """The level of the top, its standard error, and the indices of the limits which cannot be told from it.

    The best of many equally good limits is the luckiest one, so the best alone would be too high a mark. From the best
    outwards, larger limits first, a limit joins unless it lies below the mean of those that have joined by more than
    a one-sided test at 95 % allows, in turns until none joins. Without noise there are only the best and its equals.
    """
    best = max(range(len(logs)), key=logs.__getitem__)
    level, mass = logs[best], 1.0 / variance(errors[best])
    joined = [best]
    others = [*range(best + 1, len(logs)), *range(best - 1, -1, -1)]
    while True:
        left = []
        for i in others:
            square = variance(errors[i])
            if logs[i] >= level - z * sqrt(square + 1.0 / mass) - SAME:
                level = (level * mass + logs[i] / square) / (mass + 1.0 / square)
                mass += 1.0 / square
                joined.append(i)
            else:
                left.append(i)
        if len(left) == len(others):
            return level, sqrt(1.0 / mass), sorted(joined)
        others = left
