"""Quantiles, outliers, isotonic regression, bootstrap, normal equations: by hand, by property, against numpy."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanwidth.statistics import bootstrap_interval, isotonic, mad_outliers, median, quantile, solve

finite = st.floats(allow_nan=False, allow_infinity=False)
shares = st.floats(min_value=0.0, max_value=1.0)


def test_quantile_is_linear_and_a_number_for_few_samples() -> None:  # S061
    values = [80.0, 10.0, 70.0, 20.0, 60.0, 30.0, 50.0, 40.0]
    assert [quantile(values, q) for q in (0.5, 0.9, 0.95, 0.99)] == pytest.approx([45.0, 73.0, 76.5, 79.3])


def test_quantile_of_one_and_two_samples() -> None:  # S062
    assert [quantile([575.0], q) for q in (0.0, 0.5, 0.99, 1.0)] == [575.0] * 4
    assert median([1000.0, 3000.0]) == 2000.0


def test_quantile_of_merged_parts() -> None:  # S068
    merged = [1.0] * 99 + [1000.0]
    assert quantile(merged, 0.99) == pytest.approx(10.99)
    assert quantile(merged, 0.5) == 1.0
    assert quantile(merged, 1.0) == 1000.0


@given(st.lists(finite, min_size=1, max_size=50), st.lists(shares, min_size=2, max_size=6))
def test_quantile_never_outside_the_data_never_decreasing(values: list[float], qs: list[float]) -> None:  # S062
    found = [quantile(values, q) for q in sorted(qs)]
    assert found == sorted(found)
    assert min(values) <= found[0] and found[-1] <= max(values)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=50), shares)
def test_quantile_agrees_with_numpy(values: list[float], q: float) -> None:
    assert quantile(values, q) == pytest.approx(float(np.quantile(values, q)), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("q", [-0.1, 1.1, float("nan")])
def test_quantile_refuses_what_is_no_share(q: float) -> None:
    with pytest.raises(ValueError, match="q must be between 0 and 1"):
        quantile([1.0], q)


def test_quantile_refuses_no_values() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        quantile([], 0.5)


@pytest.mark.parametrize(
    ("values", "outliers"),
    [
        ([0.5] * 9 + [0.9], [9]),  # S065: the median absolute deviation is 0
        ([0.5] * 10, []),  # S065
        ([0.5] * 6 + [0.51] * 4, []),
        ([1.0, 1.1, 0.9, 1.05, 0.95, 5.0], [5]),
        ([1.0, 2.0], []),
        ([], []),
    ],
)
def test_mad_outliers_when_most_values_are_equal(values: list[float], outliers: list[int]) -> None:
    assert mad_outliers(values) == outliers


@pytest.mark.parametrize(
    ("values", "weights", "fitted"),
    [
        ([1.0, 2.0, 3.0], None, [1.0, 2.0, 3.0]),
        ([1.0, 3.0, 2.0, 4.0], None, [1.0, 2.5, 2.5, 4.0]),
        ([3.0, 2.0, 1.0], None, [2.0, 2.0, 2.0]),
        ([3.0, 1.0], [3.0, 1.0], [2.5, 2.5]),
        ([], None, []),
    ],
)
def test_isotonic_by_hand(values: list[float], weights: list[float] | None, fitted: list[float]) -> None:
    assert isotonic(values, weights) == pytest.approx(fitted)


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0.1, 10.0)), min_size=1, max_size=30))
def test_isotonic_is_monotone_and_optimal(pairs: list[tuple[float, float]]) -> None:
    values, weights = [v for v, _ in pairs], [w for _, w in pairs]
    fitted = isotonic(values, weights)
    scale = 1.0 + max(map(abs, values))
    assert all(a <= b + 1e-9 * scale for a, b in pairwise(fitted))
    # Optimal over a cone: residuals are orthogonal to the fit, and no increasing step correlates with them.
    left = [w * (v - f) for v, f, w in zip(values, fitted, weights, strict=True)]
    assert sum(x * f for x, f in zip(left, fitted, strict=True)) == pytest.approx(0.0, abs=1e-6 * scale**2)
    assert all(sum(left[i:]) <= 1e-6 * scale for i in range(len(left)))


def test_bootstrap_interval_covers_the_median_as_often_as_it_says() -> None:
    rng = Random(1)
    inside = 0
    for seed in range(200):
        low, high = bootstrap_interval(
            [[rng.gauss(10.0, 1.0) for _ in range(25)]], median, resamples=200, confidence=0.9, seed=seed
        )
        inside += low <= 10.0 <= high
    assert 165 <= inside <= 195  # 90 % of 200 is 180


def test_bootstrap_interval_of_a_ratio_is_reproducible() -> None:
    first, second = [2.0, 2.1, 1.9, 2.05], [1.0, 1.02, 0.98, 1.01]

    def ratio(a: list[float], b: list[float]) -> float:
        return median(a) / median(b)

    low, high = bootstrap_interval([first, second], ratio, seed=3)
    assert low < 2.0 < high
    assert (low, high) == bootstrap_interval([first, second], ratio, seed=3)
    assert bootstrap_interval([[2.0] * 3, [1.0] * 3], ratio) == (2.0, 2.0)


@pytest.mark.parametrize(("name", "value"), [("resamples", 0), ("confidence", 1.0)])
def test_bootstrap_interval_refuses(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        bootstrap_interval([[1.0]], median, **{name: value})


@given(st.integers(1, 4), st.integers(0, 10_000))
def test_solve_agrees_with_numpy_whatever_the_units(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(12, size)) * 10.0 ** rng.integers(-6, 7, size=size)
    wanted = rng.normal(size=12)
    found = solve((design.T @ design).tolist(), (design.T @ wanted).tolist())
    units = np.sqrt((design**2).sum(axis=0))
    best = np.linalg.lstsq(design / units, wanted, rcond=None)[0]
    assert found is not None
    assert np.array(found) * units == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("gram", [[[0.0]], [[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, 0.0]]])
def test_solve_says_when_there_is_no_single_solution(gram: list[list[float]]) -> None:
    assert solve(gram, [1.0] * len(gram)) is None
