"""How much throughput each limit gives, and how well that is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

from ..statistics import median

ONE_SIDED = 1.645  # the normal quantile of a one-sided test at 95 %

TWO_SIDED = 1.960  # and of a two-sided one

_PRIOR = 4.0  # the spread of all limits counts as much in that of one as four more repeats of it would

_CLIP = 2.5  # a repeat further than this many deviations from its limit's median counts as this far


@dataclass(frozen=True, slots=True)
class Levels:
    """One level per limit, its standard error, and the standard deviation of a single repeat; all of logarithms."""

    logs: list[float]
    errors: list[float]
    spread: float | None  # None: nothing was repeated and the data are not exact
    z: float  # how many errors a difference must have to count, one-sided at 95 %

    def error_between(self, first: int, second: int) -> float:
        return sqrt(self.errors[first] ** 2 + self.errors[second] ** 2)

    def pick(self, which: Sequence[int]) -> Levels:
        return Levels([self.logs[i] for i in which], [self.errors[i] for i in which], self.spread, self.z)


def levels_of(samples: Sequence[Sequence[float]], *, exact: bool) -> Levels:
    """The levels of positive `samples`, one sequence of repeats per limit.

    A level is a winsorised mean, so that one stalled repeat does not move it. Two or three repeats say little about
    their own spread: it is drawn towards the spread of all limits, weighted as by Smyth, "Linear models and empirical
    Bayes methods for assessing differential expression in microarray experiments" (2004).
    """
    logs = _without_rounds([[log(value) for value in sample] for sample in samples])
    freedom = sum(len(sample) - 1 for sample in logs)
    if freedom == 0:
        return Levels([sample[0] for sample in logs], [0.0] * len(logs), 0.0 if exact else None, 0.0)
    total = 0.0
    spreads: list[float] = []
    for sample in logs:
        more = len(sample) - 1
        if more:
            mean = sum(sample) / len(sample)
            square = sum((value - mean) ** 2 for value in sample)
            total += square
            # The median of a chi-square variable is near more * (1 - 2 / (9 more))^3 (Wilson and Hilferty, 1931).
            spreads.append(sqrt(square / more / (1.0 - 2.0 / (9.0 * more)) ** 3))
    # The median is robust against a few stalled repeats; of fewer than five spreads it is too uncertain itself.
    spread = median(spreads) if len(spreads) >= 5 else sqrt(total / freedom)
    levels: list[float] = []
    errors: list[float] = []
    for sample in logs:
        middle = median(sample)
        clipped = [min(max(value - middle, -_CLIP * spread), _CLIP * spread) for value in sample]
        mean = sum(clipped) / len(clipped)
        own = sum((value - mean) ** 2 for value in clipped)
        levels.append(middle + mean)
        errors.append(sqrt((_PRIOR * spread**2 + own) / (_PRIOR + len(sample) - 1) / len(sample)))
    # Student's t quantile to first order in 1 / freedom (Abramowitz and Stegun, 26.7.5).
    z = ONE_SIDED * (1.0 + (ONE_SIDED**2 + 1.0) / (4.0 * freedom))
    return Levels(levels, errors, spread, z)


def _without_rounds(logs: list[list[float]]) -> list[list[float]]:
    """`logs` less what all limits of a repeat have in common: the machine's drift, or the draws of the repeat's seed.

    Repeats are measured in rounds over all limits, with one seed for a round. Only differences between limits matter,
    and what hits all of them alike is no noise in those.
    """
    rounds = min(len(sample) for sample in logs)
    if rounds < 2 or len(logs) < 3:
        return logs
    means = [sum(sample[:rounds]) / rounds for sample in logs]
    shifts = [median([sample[i] - mean for sample, mean in zip(logs, means, strict=True)]) for i in range(rounds)]
    centre = sum(shifts) / rounds
    return [[value - shift + centre for value, shift in zip(sample, shifts, strict=False)] + sample[rounds:] for sample in logs]


def variance(error: float) -> float:
    return error * error + 1e-24  # exact data have no error, but a weight
