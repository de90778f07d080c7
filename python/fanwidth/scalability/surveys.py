"""All that was measured under a rule: which limits it allows, their levels, the choice, and whether they still rise."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt

from .choices import SAME, choose
from .levels import ONE_SIDED, TWO_SIDED, levels_of, variance
from .points import Point
from .rules import Rule

_STRETCH = 1.15  # what lies within this factor of the last limit is the end of the range


class Survey:
    """The measured points, those that do not fail, those of them the rule allows, their levels and the choice."""

    def __init__(self, points: list[Point], rule: Rule, exact: bool) -> None:
        self.points = points
        self.rule = rule
        self.working = [point for point in points if not rule.fails(point)]
        self.chosen = [i for i, point in enumerate(self.working) if not rule.slow(point)]
        self.allowed = [self.working[i] for i in self.chosen]
        # Unlike a failing limit, one that is only too slow tells as much about the noise as any other.
        self.all_levels = levels_of([point.throughputs for point in self.working], exact=exact)
        self.levels = self.all_levels.pick(self.chosen)
        self.choice = choose(self.levels.logs, self.levels.errors, self.levels.z, rule)

    @property
    def bounded(self) -> bool:
        """Whether something larger than the largest allowed limit was measured and is not allowed."""
        return self.points[-1] is not self.allowed[-1]

    @property
    def rising(self) -> bool:
        """Whether doubling the last allowed limit would gain more than the tolerance, by the trend up to it.

        With noise the gain must be significant at 97.5 %.
        """
        last = len(self.allowed) - 1
        if last == 0 or last not in self.choice.top:
            return False
        limits = [point.limit for point in self.allowed]
        before = next((i for i in reversed(range(last)) if limits[i] * _STRETCH <= limits[last]), last - 1)
        low, start, error = self._around(before, limits)
        high, end, other = self._around(last, limits)
        if (end - start) * log(2.0) / (high - low) <= self.rule.slack + SAME:
            return False
        return end - start > TWO_SIDED / ONE_SIDED * self.levels.z * sqrt(error**2 + other**2)

    def _around(self, index: int, limits: Sequence[int]) -> tuple[float, float, float]:
        """Mean logarithm, mean level and its standard error of the limits up to this one and within 5 % of it."""
        near = [i for i in range(index + 1) if limits[i] * 1.05 >= limits[index]]
        weights = [1.0 / variance(self.levels.errors[i]) for i in near]
        mass = sum(weights)
        place = sum(weight * log(limits[i]) for weight, i in zip(weights, near, strict=True)) / mass
        level = sum(weight * self.levels.logs[i] for weight, i in zip(weights, near, strict=True)) / mass
        return place, level, sqrt(1.0 / mass)


def survey_of(points: list[Point], rule: Rule, exact: bool) -> Survey | None:
    """None when the rule allows no point."""
    return Survey(points, rule, exact) if any(rule.allows(point) for point in points) else None
