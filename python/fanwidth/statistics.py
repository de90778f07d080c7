"""Small statistics in pure Python: quantiles, outliers, isotonic regression, the bootstrap, normal equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor, sqrt
from random import Random

__all__ = ["bootstrap_interval", "isotonic", "mad_outliers", "median", "quantile", "solve"]

_NORMAL_MAD = 1.482602218505602  # standard deviations per median absolute deviation, for a normal distribution
_NORMAL_MEAN_AD = 1.2533141373155003  # the same per mean absolute deviation: sqrt(pi / 2)


def quantile(values: Sequence[float], q: float) -> float:
    """The `q` quantile (0 to 1) of `values`, in any order, by the linear definition.

    Linear definition: type 7 of Hyndman and Fan, "Sample Quantiles in Statistical Packages", The American Statistician
    50 (1996); the default of numpy and R. Never outside the data, never decreasing in `q`. ValueError without values.
    """
    if not 0.0 <= q <= 1.0:
        raise ValueError(f"q must be between 0 and 1, got {q!r}")
    if not values:
        raise ValueError("quantile needs at least one value, got none")
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    index = floor(position)
    low = ordered[index]
    part = position - index
    if part == 0.0:
        return low
    high = ordered[index + 1]
    return min(high, low + part * (high - low))  # rounding must not carry it past the data


def median(values: Sequence[float]) -> float:
    """The middle of `values`, or the mean of the two in the middle. ValueError without values."""
    return quantile(values, 0.5)


def mad_outliers(values: Sequence[float], *, threshold: float = 3.5) -> list[int]:
    """The indices of the values further than `threshold` robust standard deviations from the median.

    The modified z-score of Iglewicz and Hoaglin, "How to Detect and Handle Outliers" (1993). When more than half of the
    values are equal the median absolute deviation is 0 and says nothing; the mean absolute deviation takes its place.
    Where that is 0 too, all values are equal and none is an outlier.
    """
    if not values:
        return []
    middle = median(values)
    deviations = [abs(value - middle) for value in values]
    scale = _NORMAL_MAD * median(deviations) or _NORMAL_MEAN_AD * sum(deviations) / len(deviations)
    if scale == 0.0:
        return []
    return [index for index, deviation in enumerate(deviations) if deviation > threshold * scale]


def isotonic(values: Sequence[float], weights: Sequence[float] | None = None) -> list[float]:
    """The non-decreasing sequence nearest to `values` in (weighted) least squares.

    Pool adjacent violators: Barlow, Bartholomew, Bremner and Brunk, "Statistical Inference under Order Restrictions"
    (1972). Linear in the number of values.
    """
    means: list[float] = []
    masses: list[float] = []
    lengths: list[int] = []
    for index, value in enumerate(values):
        mass = 1.0 if weights is None else weights[index]
        mean, length = value, 1
        while means and means[-1] > mean:
            other = masses.pop()
            mean = (other * means.pop() + mass * mean) / (other + mass)
            mass += other
            length += lengths.pop()
        means.append(mean)
        masses.append(mass)
        lengths.append(length)
    fitted: list[float] = []
    for mean, length in zip(means, lengths, strict=True):
        fitted.extend([mean] * length)
    return fitted


def bootstrap_interval(
    samples: Sequence[Sequence[float]],
    statistic: Callable[..., float],
    *,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[float, float]:
    """The percentile bootstrap interval of `statistic(*samples)`; each sample is resampled on its own.

    One sample gives the interval of a median, two the interval of a ratio. Efron and Tibshirani, "An Introduction to
    the Bootstrap" (1993), chapter 13. The same seed gives the same interval.
    """
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples!r}")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}")
    choices = Random(seed).choices
    found = [statistic(*[choices(sample, k=len(sample)) for sample in samples]) for _ in range(resamples)]
    return quantile(found, (1.0 - confidence) / 2.0), quantile(found, (1.0 + confidence) / 2.0)


def solve(gram: Sequence[Sequence[float]], right: Sequence[float]) -> list[float] | None:
    """The solution of the normal equations `gram` x = `right` of a few unknowns; None when they have no single one.

    Elimination without pivoting, which symmetric positive definite matrices do not need, after scaling the diagonal
    to 1, so that the units of the unknowns do not matter.
    """
    size = len(right)
    if any(gram[i][i] <= 0.0 for i in range(size)):
        return None
    roots = [sqrt(gram[i][i]) for i in range(size)]
    rows = [[gram[i][j] / (roots[i] * roots[j]) for j in range(size)] + [right[i] / roots[i]] for i in range(size)]
    for i, top in enumerate(rows):
        if top[i] < 1e-13:
            return None
        for row in rows[i + 1 :]:
            share = row[i] / top[i]
            for j in range(i, size + 1):
                row[j] -= share * top[j]
    found = [0.0] * size
    for i in reversed(range(size)):
        rest = rows[i][size] - sum(rows[i][j] * found[j] for j in range(i + 1, size))
        found[i] = rest / rows[i][i]
    return [value / root for value, root in zip(found, roots, strict=True)]
