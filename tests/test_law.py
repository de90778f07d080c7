"""The Universal Scalability Law: its own curves recovered, scipy as a second opinion."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import numpy as np
import pytest
from curves import (
    GRID,
    grid_points,
    hinge,
    scalability_law,
)
from scipy.optimize import curve_fit

from fanwidth.scalability import (
    usl,
)

# The Universal Scalability Law


@pytest.mark.parametrize(
    ("rate", "sigma", "kappa"),
    [
        (100.0, 0.02, 0.0005),
        (1e-3, 0.0, 0.002),
        (1e6, 0.3, 0.0),
        (20.0, 0.0, 0.0),
        (5.0, 1.0, 0.0),
        (995.0, 0.026, 0.00076),
    ],
)
def test_usl_recovers_its_own_curves(rate: float, sigma: float, kappa: float) -> None:
    found = usl(grid_points(scalability_law(rate, sigma, kappa), [*GRID, 3, 12, 100]))
    assert found.rate == pytest.approx(rate, rel=1e-6)
    assert found.sigma == pytest.approx(sigma, abs=1e-7)
    assert found.kappa == pytest.approx(kappa, abs=1e-9)
    assert found.throughput(64) == pytest.approx(scalability_law(rate, sigma, kappa)(64), rel=1e-6)
    assert found.r2 is None if sigma == 1.0 else found.r2 == pytest.approx(1.0)
    if kappa > 0.0:
        assert found.peak == pytest.approx(math.sqrt((1.0 - sigma) / kappa), rel=1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_usl_agrees_with_scipy(seed: int) -> None:
    rng = Random(seed)
    law = (10.0 ** rng.uniform(-2, 4), rng.uniform(0.0, 0.3), 10.0 ** rng.uniform(-5, -2))
    points = grid_points(scalability_law(*law), GRID, noise=0.05, repeats=1, seed=seed)
    found = usl(points)

    def logarithm(n: np.ndarray, height: float, sigma: float, kappa: float) -> np.ndarray:
        return height + np.log(n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0)))

    limits = np.array([float(p.limit) for p in points])
    values = np.log([p.throughput for p in points])
    (height, sigma, kappa), _ = curve_fit(
        logarithm,
        limits,
        values,
        p0=(values[0], 0.1, 0.001),
        bounds=([-np.inf, 0.0, 0.0], [np.inf, 1.0, np.inf]),
        x_scale=(1.0, 0.1, 0.001),
        ftol=1e-14,
        xtol=1e-14,
        gtol=1e-14,
        max_nfev=10_000,
    )
    assert found.rate is not None and found.sigma is not None and found.kappa is not None
    ours = logarithm(limits, math.log(found.rate), found.sigma, found.kappa) - values
    theirs = logarithm(limits, height, sigma, kappa) - values
    assert (ours**2).sum() <= (theirs**2).sum() * (1.0 + 1e-6)  # no worse a fit
    assert found.sigma == pytest.approx(sigma, rel=1e-3, abs=1e-5)
    assert found.kappa == pytest.approx(kappa, rel=1e-3, abs=1e-7)


def test_usl_intervals_hold_the_truth_as_often_as_they_say() -> None:
    law = (100.0, 0.05, 0.0008)
    held: Counter[str] = Counter()
    for seed in range(100):
        found = usl(grid_points(scalability_law(*law), noise=0.03, seed=seed), seed=seed)
        for name, true in zip(("rate", "sigma", "kappa"), law, strict=True):
            low, high = getattr(found, f"{name}_interval")
            held[name] += low <= true <= high
        assert found.peak_interval is not None
        held["peak"] += found.peak_interval[0] <= math.sqrt(0.95 / 0.0008) <= (found.peak_interval[1] or math.inf)
    assert all(count >= 80 for count in held.values()), held  # nine limits: redrawing nine residuals is a little bold


def test_usl_of_a_curve_that_never_falls_has_no_peak() -> None:
    found = usl(grid_points(scalability_law(10.0, 0.1, 0.0)))
    assert found.peak is None and found.peak_interval is None


def test_usl_beyond_the_range_says_so() -> None:
    found = usl(grid_points(scalability_law(10.0, 0.01, 1e-6)))
    assert found.peak == pytest.approx(995.0, rel=0.01)
    assert "extrapolation" in found.reason


def test_usl_of_a_falling_curve_peaks_at_one() -> None:
    found = usl(grid_points(lambda limit: 100.0 / limit**2))
    assert found.peak == 1.0


def test_usl_of_few_limits_is_none_with_a_reason() -> None:
    found = usl(grid_points(hinge(4), [1, 2, 4]))
    assert (found.rate, found.sigma, found.kappa, found.peak, found.throughput(2)) == (None,) * 5
    assert "at least 4 limits" in found.reason and "got 3" in found.reason
