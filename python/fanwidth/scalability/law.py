"""The Universal Scalability Law, fitted: a second opinion beside the knee."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, inf, log, sqrt
from operator import mul
from random import Random

from ..statistics import solve
from .levels import levels_of
from .points import Point, in_order

_TAIL = 0.025  # what an interval leaves out on either side


@dataclass(frozen=True, slots=True)
class Usl:
    """A fit of the Universal Scalability Law; without one everything but `reason` is None.

    X(N) = rate N / (1 + sigma (N - 1) + kappa N (N - 1)). `rate`: items/s at limit 1. `sigma`: contention, the share
    that is serialised. `kappa`: coherency, what agreeing costs each pair. `peak`: sqrt((1 - sigma) / kappa), the limit
    of the most throughput, None when the curve never falls. `r2`: of the throughputs, None when they are all equal.
    Intervals: 95 %, bootstrap; the upper end of `peak_interval` is None when there may be no peak.
    """

    reason: str
    rate: float | None = None
    sigma: float | None = None
    kappa: float | None = None
    peak: float | None = None
    r2: float | None = None
    rate_interval: tuple[float, float] | None = None
    sigma_interval: tuple[float, float] | None = None
    kappa_interval: tuple[float, float] | None = None
    peak_interval: tuple[float, float | None] | None = None

    def throughput(self, limit: float) -> float | None:
        """The law's items per second at `limit`; None without a fit."""
        if self.rate is None or self.sigma is None or self.kappa is None:
            return None
        return self.rate * limit / _slowdown(limit, self.sigma, self.kappa)


def usl(points: Iterable[Point], *, resamples: int = 200, seed: int = 0) -> Usl:
    """Fit the Universal Scalability Law to the points that have a throughput, by least squares of the logarithms.

    Gunther, "Guerrilla Capacity Planning" (2007), chapters 4 to 6; 0 <= sigma <= 1, kappa >= 0. The start is the linear
    form N / X = a + b (N - 1) + c N (N - 1), then follows the method of Levenberg and Marquardt. The intervals come
    from redrawn residuals: they hold what the law does not explain as well as the noise.
    """
    ordered = [point for point in in_order(points) if min(point.throughputs) > 0.0]
    if len(ordered) < 4:
        return Usl(f"at least 4 limits with a throughput are needed for its 3 parameters, got {len(ordered)}")
    limits = [float(point.limit) for point in ordered]
    logs = levels_of([point.throughputs for point in ordered], exact=True).logs
    start = _LinearForm(limits, logs).solve([1.0] * len(limits))
    sigma, kappa = _least_squares(limits, logs, min(start[1] / start[0], 1.0), start[2] / start[0])
    shape = [log(n / _slowdown(n, sigma, kappa)) for n in limits]
    height = sum(y - x for y, x in zip(logs, shape, strict=True)) / len(logs)
    fitted = [height + x for x in shape]
    peak = _peak(sigma, kappa)
    reason = "fitted to the measured limits"
    if peak is not None and peak > limits[-1]:
        reason += "; the peak is an extrapolation beyond the largest of them"
    draws = _redraw(limits, logs, fitted, resamples, seed)
    rates, sigmas, kappas = ([draw[i] for draw in draws] for i in range(3))
    peaks = [inf if (found := _peak(draw[1], draw[2])) is None else found for draw in draws]
    low, high = _middle(peaks)
    return Usl(
        reason,
        exp(height),
        sigma,
        kappa,
        peak,
        _r_squared([exp(y) for y in logs], [exp(y) for y in fitted]),
        _middle(rates),
        _middle(sigmas),
        _middle(kappas),
        None if peak is None or low == inf else (low, None if high == inf else high),
    )


def _slowdown(limit: float, sigma: float, kappa: float) -> float:
    return 1.0 + sigma * (limit - 1.0) + kappa * limit * (limit - 1.0)


def _peak(sigma: float, kappa: float) -> float | None:
    """Where the law's derivative is 0, or 1 when the curve falls from the start."""
    return max(1.0, sqrt((1.0 - sigma) / kappa)) if kappa > 0.0 else None


def _middle(values: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(values)  # quantiles of infinite values: without interpolation
    cut = int(_TAIL * len(ordered))
    return ordered[cut], ordered[-1 - cut]


def _r_squared(measured: Sequence[float], fitted: Sequence[float]) -> float | None:
    mean = sum(measured) / len(measured)
    total = sum((value - mean) ** 2 for value in measured)
    if total <= len(measured) * (1e-9 * mean) ** 2:
        return None
    return 1.0 - sum((x - y) ** 2 for x, y in zip(measured, fitted, strict=True)) / total


class _LinearForm:
    """Least squares of relative errors for N / X = a + b (N - 1) + c N (N - 1) with a > 0, b >= 0, c >= 0."""

    def __init__(self, limits: Sequence[float], logs: Sequence[float]) -> None:
        gains = [exp(y) / n for n, y in zip(limits, logs, strict=True)]
        self.columns = [
            gains,
            [(n - 1.0) * gain for n, gain in zip(limits, gains, strict=True)],
            [n * (n - 1.0) * gain for n, gain in zip(limits, gains, strict=True)],
        ]
        self.gram = [[sum(map(mul, first, second)) for second in self.columns] for first in self.columns]

    def solve(self, target: Sequence[float]) -> list[float]:
        """a, b, c for N / X times `target`: the best of the solutions with b, c or both held at 0 where needed."""
        right = [sum(map(mul, column, target)) for column in self.columns]
        best, found = -inf, [right[0] / self.gram[0][0], 0.0, 0.0]
        for free in ((0, 1, 2), (0, 1), (0, 2), (0,)):
            part = solve([[self.gram[i][j] for j in free] for i in free], [right[i] for i in free])
            if part is None or part[0] <= 0.0 or min(part) < 0.0:
                continue
            explained = sum(value * right[i] for value, i in zip(part, free, strict=True))
            if explained > best:
                best, found = explained, [0.0, 0.0, 0.0]
                for value, i in zip(part, free, strict=True):
                    found[i] = value
            if len(free) == 3:
                break  # what is best without bounds is best with them
        return found


def _least_squares(limits: Sequence[float], logs: Sequence[float], sigma: float, kappa: float) -> tuple[float, float]:
    """Levenberg and Marquardt's method on sigma and kappa, projected on their bounds; the rate follows in closed form.

    Marquardt, "An Algorithm for Least-Squares Estimation of Nonlinear Parameters" (1963). As the rate is a factor, it
    drops out when the residuals of the logarithms are centred.
    """
    gains = [y - log(n) for y, n in zip(logs, limits, strict=True)]

    def residuals(at: tuple[float, float]) -> list[float]:
        return _centred([gain + log(_slowdown(n, *at)) for gain, n in zip(gains, limits, strict=True)])

    here = (sigma, kappa)
    errors = residuals(here)
    total = sum(map(mul, errors, errors))
    damping = 1e-3
    while damping < 1e12 and total > 0.0:
        slow = [_slowdown(n, *here) for n in limits]
        sides = (
            _centred([(n - 1.0) / d for n, d in zip(limits, slow, strict=True)]),
            _centred([n * (n - 1.0) / d for n, d in zip(limits, slow, strict=True)]),
        )
        slopes = [sum(map(mul, side, errors)) for side in sides]
        # A parameter on its bound takes no part while the slope pushes it outwards.
        outwards = (here[0] <= 0.0 < slopes[0] or (slopes[0] < 0.0 and here[0] >= 1.0), here[1] <= 0.0 < slopes[1])
        free = [i for i in (0, 1) if not outwards[i]]
        gram = [[sum(map(mul, sides[i], sides[j])) * (1.0 + damping * (i == j)) for j in free] for i in free]
        step = solve(gram, [-slopes[i] for i in free]) if free else None
        if step is None:
            break
        moved = list(here)
        for i, change in zip(free, step, strict=True):
            moved[i] = max(0.0, here[i] + change)
        there = (min(1.0, moved[0]), moved[1])
        tried = residuals(there)
        new = sum(map(mul, tried, tried))
        if new >= total:
            damping *= 10.0
            continue
        settled = total - new <= 1e-12 * total
        here, errors, total, damping = there, tried, new, damping / 10.0
        if settled:
            break
    return here


def _centred(values: Sequence[float]) -> list[float]:
    mean = sum(values) / len(values)
    return [value - mean for value in values]


def _redraw(
    limits: Sequence[float], logs: Sequence[float], fitted: Sequence[float], resamples: int, seed: int
) -> list[tuple[float, float, float]]:
    """Rate, sigma and kappa of curves with redrawn residuals, by the linear form at the fitted curve."""
    linear = _LinearForm(limits, fitted)
    inflate = sqrt(len(limits) / (len(limits) - 3.0))  # three parameters have absorbed that much of the residuals
    factors = [exp(-inflate * (y - fit)) for y, fit in zip(logs, fitted, strict=True)]
    choices = Random(seed).choices
    draws = []
    for _ in range(resamples):
        a, b, c = linear.solve(choices(factors, k=len(factors)))
        draws.append((1.0 / a, min(b / a, 1.0), c / a))
    return draws
