"""service: a downstream with c servers and a queue, against the closed forms of queueing theory.

The virtual clock has no arrivals at chosen times, for pulling takes none of its time. What can be checked there is the closed
system: `limit` customers who come back at once. With exponential service the customer who comes finds all the others there, so it
waits for limit - c departures (the arrival theorem): its wait is Erlang, and all moments and quantiles are known. Open arrivals
need the real clock: there each finish is held against the recursion of Kiefer and Wolfowitz over the recorded arrivals, and the
recursion itself against Erlang C over many simulated ones.
"""

import heapq
import math
import random
import time

import numpy as np
import pytest
from scipy import stats as scipy_stats

import fanwidth as fw

STRATEGIES = ("for_each", "when_all", "bounded", "chunked")


def virtual(action, items, limit, **options):
    return fw.bounded(action, items, limit=limit, clock="virtual", **options)


@pytest.mark.parametrize("capacity", [1, 3, 8])
@pytest.mark.parametrize("time_", [0.05, fw.exponential(0.05), fw.uniform(0.02, 0.08), fw.lognormal(0.04, 0.2)], ids=repr)
def test_a_saturated_service_gives_capacity_over_mean(capacity, time_):
    action = fw.service(time_, capacity)
    run = virtual(action, 100_000, 50, seed=1, keep="summary")
    assert run.throughput == pytest.approx(capacity / action.time.mean, rel=0.02)


def test_more_in_flight_makes_latency_and_no_throughput():
    runs = [virtual(fw.service(0.1, 4), 4000, limit, keep="summary") for limit in (4, 8, 40)]
    assert [run.throughput for run in runs] == pytest.approx([40, 40, 40])
    assert [run.latency.p50 for run in runs] == pytest.approx([0.1, 0.2, 1.0], rel=0.01)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_constant_times_are_served_in_rounds(strategy):
    options = {} if strategy == "when_all" else {"limit": 12}
    run = fw.run(fw.service(0.1, 3), 12, strategy=strategy, clock="virtual", **options)
    assert list(run.samples.finish_ns) == [(index // 3 + 1) * 100_000_000 for index in range(12)]
    assert set(run.samples.start_ns) == {0}, "in flight from admission"
    assert run.peak_in_flight == 12


@pytest.mark.parametrize(("limit", "capacity"), [(4, 2), (10, 1), (30, 4), (5, 5), (3, 8)])
def test_waits_of_a_closed_system_are_erlang(limit, capacity):
    mean, n = 1.0, 60_000
    run = virtual(fw.service(fw.exponential(mean), capacity), n, limit, seed=2)
    busy, ahead = min(limit, capacity), max(0, limit - capacity)
    latency = np.asarray(run.samples.finish_ns)[1000:] / 1e9 - np.asarray(run.samples.start_ns)[1000:] / 1e9
    expected_mean = mean + ahead * mean / busy
    expected_variance = mean**2 + ahead * (mean / busy) ** 2
    assert latency.mean() == pytest.approx(expected_mean, rel=0.02)
    assert latency.var() == pytest.approx(expected_variance, rel=0.08)
    # Customers a few rounds apart have nothing to do with each other any more.
    sample = latency[:: 4 * limit]
    rng = np.random.default_rng(0)
    wait = rng.gamma(ahead, mean / busy, 200_000) if ahead else np.zeros(200_000)
    assert scipy_stats.ks_2samp(sample, wait + rng.exponential(mean, 200_000)).pvalue > 1e-4


def kiefer_wolfowitz(arrivals, services, capacity):
    """When each customer ends who is served first come, first served by `capacity` servers."""
    free = [0] * capacity
    ends = []
    for arrival, service in zip(arrivals, services, strict=True):
        begin = max(arrival, heapq.heappop(free))
        heapq.heappush(free, begin + service)
        ends.append(begin + service)
    return ends


def erlang_c(load: float, capacity: int) -> float:
    """The probability to wait; load: arrival rate times mean service time."""
    terms = [load**k / math.factorial(k) for k in range(capacity)]
    last = load**capacity / math.factorial(capacity) * capacity / (capacity - load)
    return last / (sum(terms) + last)


def test_open_arrivals_end_as_the_recursion_says():
    rng, capacity, mean = random.Random(5), 3, 0.004

    def arrivals():
        when = time.perf_counter()
        for index in range(250):
            when += rng.expovariate(0.7 * capacity / mean)
            time.sleep(max(0.0, when - time.perf_counter()))
            yield index

    action = fw.service(fw.exponential(mean), capacity)
    run = fw.bounded(action, arrivals(), limit=10**6, seed=11)
    times = fw.when_all(fw.delay(fw.exponential(mean)), 250, clock="virtual", seed=11).samples.finish_ns
    start, finish = run.samples.start_ns, run.samples.finish_ns
    expected = kiefer_wolfowitz(start, times, capacity)
    late = np.array(finish) - np.array(expected)
    assert late.min() >= 0, "nobody ends before the model of the service lets them"
    assert np.median(late) < 5_000_000  # 70 us where nothing else is running; a machine that is busy wakes us late
    assert run.ideal is not None


@pytest.mark.parametrize(("capacity", "use"), [(1, 0.5), (3, 0.7), (10, 0.8)])
def test_the_recursion_waits_as_long_as_erlang_c(capacity, use):
    """Mean waits within 5 % of the formula: the recursion, which the engine follows, is an M/M/c queue."""
    rng, n = np.random.default_rng(3), 300_000
    arrivals = np.cumsum(rng.exponential(1 / (use * capacity), n)).tolist()
    services = rng.exponential(1.0, n).tolist()
    ends = kiefer_wolfowitz(arrivals, services, capacity)
    waits = np.array(ends) - np.array(arrivals) - np.array(services)
    expected = erlang_c(use * capacity, capacity) / (capacity * (1 - use))
    assert waits.mean() == pytest.approx(expected, rel=0.05)
    assert (waits > 1e-9).mean() == pytest.approx(erlang_c(use * capacity, capacity), rel=0.03)


RUNS = {
    "delays": lambda s, o: fw.run(fw.delay(fw.exponential(0.1)), 3000, strategy=s, clock="virtual", seed=4, **o),
    "a service": lambda s, o: fw.run(fw.service(fw.exponential(0.1), 5), 3000, strategy=s, clock="virtual", seed=4, **o),
    "real delays": lambda s, o: fw.run(fw.delay(fw.uniform(0, 0.002)), 200, strategy=s, seed=4, **o),
    "cpu": lambda s, o: fw.run(fw.cpu(0.0005), 50, strategy=s, **o),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", RUNS)
def test_littles_law(kind, strategy):
    """Mean in flight = throughput x mean latency: areas under the same curve, one by time and one by item."""
    run = RUNS[kind](strategy, {} if strategy == "when_all" else {"limit": 20})
    start, finish = np.asarray(run.samples.start_ns), np.asarray(run.samples.finish_ns)
    moments = np.concatenate([start, finish])
    steps = np.concatenate([np.ones(len(start)), -np.ones(len(finish))])
    order = np.lexsort((steps, moments))  # at one moment those who leave go first
    flying = np.cumsum(steps[order])
    area = (flying[:-1] * np.diff(moments[order])).sum() / 1e9
    mean_in_flight = area / run.elapsed
    assert run.throughput * run.latency.mean == pytest.approx(mean_in_flight, rel=1e-9)
    assert flying.max() <= run.peak_in_flight
    if strategy in ("for_each", "bounded") and kind in ("delays", "a service"):
        assert mean_in_flight == pytest.approx(20, rel=0.02)  # all slots are taken but at the very end


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("queue", "ok"), [(0, 2), (1, 3), (3, 5), (None, 8), (100, 8)])
def test_a_full_queue_fails_those_who_come(strategy, queue, ok):
    options = {} if strategy == "when_all" else {"limit": 8}
    run = fw.run(fw.service(0.1, 2, queue), 8, strategy=strategy, clock="virtual", errors="keep", max_failures=None, **options)
    assert (run.counts.ok, run.counts.failed) == (ok, 8 - ok)
    for error in run.errors:
        assert type(error.exception) is fw.QueueFull and f"item {error.index} " in str(error.exception)
        assert error.start == error.finish == 0 and error.item == error.index
    assert [outcome.state for outcome in run.outcomes] == ["ok"] * ok + ["failed"] * (8 - ok)


@pytest.mark.parametrize(
    "items", [lambda: 100, lambda: iter(range(100)), lambda: list(range(100))], ids=["count", "iterator", "list"]
)
@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_the_first_rejection_stops_for_each(items, clock):
    with pytest.raises(fw.RunFailed) as caught:
        fw.for_each(fw.service(30, 2, 1), items(), limit=50, clock=clock)
    assert caught.value.run.counts[:4] == (0, 1, 0, 3)
    assert isinstance(caught.value.exceptions[0], fw.QueueFull) and caught.value.run.errors[0].item == 3


def test_who_gives_up_in_the_queue_frees_its_place():
    run = fw.when_all(fw.service(1.0, 1), 4, item_timeout=1.5, clock="virtual", errors="keep")
    assert [outcome.state for outcome in run.outcomes] == ["ok", "timed_out", "timed_out", "timed_out"]
    assert [outcome.finish for outcome in run.outcomes] == [1.0, 1.5, 1.5, 1.5]
    run = virtual(fw.service(1.0, 1, 1), 6, 2, item_timeout=1.5, errors="keep")
    assert run.counts.failed == 0, "the limit keeps the queue from being full"


def test_a_real_service_keeps_its_servers_busy():
    run = fw.when_all(fw.service(0.002, 4), 100)
    assert 0.05 <= run.elapsed < 2 and run.ideal == pytest.approx(0.05)
    ended = np.sort(np.asarray(run.samples.finish_ns))
    assert (ended >= (np.arange(100) // 4 + 1) * 2_000_000).all()


def test_cpu_on_the_virtual_clock_shares_the_cpus():
    run = fw.when_all(fw.cpu(0.1), 10, clock="virtual")
    assert run.elapsed == pytest.approx(math.ceil(10 / run.meta["cpus"]) * 0.1)
