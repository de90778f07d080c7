"""Distributions: the drawn times against scipy, and the same times whatever the strategy, the limit and the order."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

import fanwidth as fw
from fanwidth import _core

MANY = 200_000


def drawn(distribution: fw.Distribution, n: int, seed: int) -> np.ndarray:
    """The times of items 0 .. n - 1 in seconds."""
    run = fw.when_all(fw.delay(distribution), n, seed=seed, clock="virtual", keep="samples")
    return np.asarray(run.samples.finish_ns) / 1e9


def lognormal_of(median: float, p99: float):
    return scipy_stats.lognorm(s=math.log(p99 / median) / scipy_stats.norm.ppf(0.99), scale=median)


CONTINUOUS = {
    "uniform": (fw.uniform(0.5, 2.5), scipy_stats.uniform(0.5, 2.0)),
    "uniform from 0": (fw.uniform(0, 1e-3), scipy_stats.uniform(0, 1e-3)),
    "exponential": (fw.exponential(0.7), scipy_stats.expon(scale=0.7)),
    "exponential, long": (fw.exponential(3e5), scipy_stats.expon(scale=3e5)),
    "lognormal": (fw.lognormal(0.1, 0.9), lognormal_of(0.1, 0.9)),
    "lognormal, narrow": (fw.lognormal(1.0, 1.01), lognormal_of(1.0, 1.01)),
}


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1])
@pytest.mark.parametrize("kind", CONTINUOUS)
def test_draws_are_distributed_as_they_say(kind, seed):
    distribution, expected = CONTINUOUS[kind]
    values = drawn(distribution, MANY, seed)
    assert scipy_stats.kstest(values, expected.cdf).pvalue > 1e-4  # the seeds are fixed: this is no matter of luck
    standard_error = expected.std() / math.sqrt(MANY)
    assert values.mean() == pytest.approx(expected.mean(), abs=5 * standard_error)
    assert distribution.mean == pytest.approx(expected.mean(), rel=1e-9)
    if "lognormal" not in kind:  # whose variance comes from its few largest values
        assert values.std() == pytest.approx(expected.std(), rel=0.03)
    for q in (0.001, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999):
        share = (values <= expected.ppf(q)).mean()
        assert share == pytest.approx(q, abs=5 * math.sqrt(q * (1 - q) / MANY))


def test_the_parameters_of_lognormal_are_its_median_and_its_p99():
    values = drawn(fw.lognormal(0.05, 0.4), MANY, 3)
    assert np.median(values) == pytest.approx(0.05, rel=0.02)
    assert np.quantile(values, 0.99) == pytest.approx(0.4, rel=0.04)
    assert fw.lognormal(0.05, 0.4).sigma == pytest.approx(math.log(8) / scipy_stats.norm.ppf(0.99), rel=1e-12)


def test_a_constant_is_exact():
    for seconds in (0, 1e-9, 0.05, 0.1 + 0.2, 86_400 * 365):
        assert set(drawn(fw.constant(seconds), 5, 1)) == {round(seconds * 1e9) / 1e9}
        assert fw.constant(seconds).mean == seconds


@pytest.mark.parametrize(
    ("distribution", "value"),
    [(fw.uniform(0.3, 0.3), 0.3), (fw.exponential(0), 0), (fw.lognormal(0.2, 0.2), 0.2), (fw.empirical([0.4]), 0.4)],
)
def test_distributions_without_spread(distribution, value):
    assert set(drawn(distribution, 100, 5)) == {value} and distribution.mean == pytest.approx(value)


def test_uniform_stays_within_its_bounds():
    values = drawn(fw.uniform(0.25, 0.75), MANY, 8)
    assert values.min() >= 0.25 and values.max() <= 0.75


def test_draws_end_at_100_years():
    values = drawn(fw.exponential(100 * 365.25 * 86_400.0), 1000, 1)
    assert values.max() == 100 * 365.25 * 86_400.0 and values.min() >= 0


def test_empirical_draws_each_value_alike():
    population = [0.1, 0.2, 0.2, 0.7, 1.3]
    values, counts = np.unique(drawn(fw.empirical(population), MANY, 4), return_counts=True)
    assert values.tolist() == [0.1, 0.2, 0.7, 1.3]
    assert scipy_stats.chisquare(counts, np.array([1, 2, 1, 1]) * MANY / 5).pvalue > 1e-4
    assert fw.empirical(population).mean == pytest.approx(0.5)
    again = fw.empirical(fw.bounded(fw.delay(0.1), 3, limit=1, clock="virtual").samples.finish_ns)
    assert again.values == (1e8, 2e8, 3e8)


def test_draws_are_independent_of_each_other_and_of_neighbouring_seeds():
    one, other = (drawn(fw.uniform(0, 1), MANY, seed) for seed in (41, 42))
    limit = 5 / math.sqrt(MANY)
    for lag in (1, 2, 3, 64, 1000):
        assert abs(np.corrcoef(one[:-lag], one[lag:])[0, 1]) < limit
    assert abs(np.corrcoef(one, other)[0, 1]) < limit
    by_seed = np.array([drawn(fw.uniform(0, 1), 1, seed)[0] for seed in range(2000)])
    assert scipy_stats.kstest(by_seed, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("distribution", [pair[0] for pair in CONTINUOUS.values()] + [fw.empirical([0.1, 0.4, 0.9])], ids=repr)
def test_draws_depend_on_seed_and_index_alone(distribution):
    expected = drawn(distribution, 300, 6)
    assert (drawn(distribution, 20, 6) == expected[:20]).all()
    assert (drawn(distribution, 300, 7) != expected).any()
    for strategy in ("for_each", "bounded", "chunked"):
        for limit in (1, 7, 1000):
            run = fw.run(fw.delay(distribution), 300, strategy=strategy, limit=limit, seed=6, clock="virtual")
            took = np.asarray(run.samples.finish_ns) - np.asarray(run.samples.start_ns)
            assert (took / 1e9 == expected).all()
    pulled = fw.bounded(fw.delay(distribution), (item for item in "x" * 300), limit=7, seed=6, clock="virtual")
    assert (np.asarray(pulled.samples.finish_ns) - np.asarray(pulled.samples.start_ns) == np.round(expected * 1e9)).all()
    served = fw.when_all(fw.service(distribution, 300), 300, seed=6, clock="virtual")
    assert (np.asarray(served.samples.finish_ns) / 1e9 == expected).all()


def test_the_real_clock_draws_the_same_times():
    distribution = fw.uniform(0.001, 0.004)
    run = fw.when_all(fw.delay(distribution), 100, seed=6)
    took = np.asarray(run.samples.finish_ns) - np.asarray(run.samples.start_ns)
    assert (took >= np.round(drawn(distribution, 100, 6) * 1e9)).all()
    assert run.ideal == drawn(distribution, 100, 6).max()


def test_distributions_are_values():
    assert fw.exponential(0.5) == fw.exponential(0.5) != fw.exponential(0.6)
    assert len({fw.uniform(0, 1), fw.uniform(0, 1), fw.constant(1), fw.empirical([1, 2]), fw.empirical([1, 2])}) == 3
    assert repr(fw.lognormal(0.1, 0.9)) == "lognormal(median=0.1, p99=0.9)"
    with pytest.raises(AttributeError):
        fw.exponential(0.5).mean = 1
    assert fw.delay(fw.exponential(1)) == fw.delay(fw.exponential(1)) and fw.delay(1) == fw.delay(1.0)


def test_the_cores_distributions_are_the_public_ones():
    public = {
        kind.kind
        for kind in (fw.constant, fw.uniform, fw.exponential, fw.lognormal, fw.empirical)
        if issubclass(kind, fw.Distribution)
    }
    assert set(_core.distributions) == public | {"per_item", "given"}


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.integers(0, 2**63 - 1))
def test_no_parameters_leave_the_domain(a, b, seed):
    low, high = sorted((a, b))
    for distribution in (fw.uniform(low, high), fw.exponential(a), fw.lognormal(max(low, 1e-9), max(high, 1e-9))):
        values = drawn(distribution, 20, seed)
        assert (values >= 0).all() and (values <= 100 * 365.25 * 86_400.0).all()
