"""The throughput while all slots are taken: exact where times are equal, without a run's beginning and end where not."""

from __future__ import annotations

import time

import pytest

import fanwidth as fw
from fanwidth.columns import STEADY
from fanwidth.steady import steady_rows, steady_throughput

SERVICE = 0.05


def steady_of(action: fw.NativeAction, items: int, limit: int, **options: object) -> float:
    found = steady_throughput(fw.bounded(action, items, limit=limit, clock="virtual", errors="keep", **options))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("capacity", "limit", "items"),
    [
        (12, 16, 48),
        (12, 13, 260),
        (12, 12, 36),
        (200, 256, 5_120),
        (10, 4, 12),
        (10, 256, 768),
        (7, 10, 30),
        (1, 1, 3),
        (5, 1, 9),
    ],
)
def test_equal_times_give_the_exact_rate_whatever_the_last_wave_holds(capacity: int, limit: int, items: int) -> None:
    assert steady_of(fw.service(SERVICE, capacity), items, limit) == pytest.approx(min(capacity, limit) / SERVICE)


def test_the_slow_end_of_a_run_does_not_count() -> None:
    """Without it a limit of 256 seems to give a seventh less than its slots do."""
    action = fw.service(fw.exponential(SERVICE), 200)
    run = fw.bounded(action, 5_120, limit=256, clock="virtual", seed=1)
    assert run.throughput is not None and run.throughput < 0.9 * 200 / SERVICE
    assert steady_throughput(run) == pytest.approx(200 / SERVICE, rel=0.05)


def test_equally_good_limits_have_equal_rates() -> None:
    action = fw.service(fw.lognormal(SERVICE, 0.5), 20)
    rates = [steady_of(action, 5_120, limit, seed=3) for limit in (20, 32, 64, 128, 256)]
    assert max(rates) <= 1.02 * min(rates)


def test_only_ok_items_count() -> None:
    """Of 16 in flight 12 find a place, the others fail at once, so nearly all items fail."""
    assert steady_of(fw.service(SERVICE, 4, queue=8), 2_000, 16) <= 1.01 * 4 / SERVICE


@pytest.mark.parametrize(("items", "limit"), [(5, 5), (3, 8), (1, 1)])
def test_where_nothing_waits_it_is_the_runs_throughput(items: int, limit: int) -> None:
    run = fw.bounded(fw.delay(SERVICE), items, limit=limit, clock="virtual")
    assert steady_throughput(run) == run.throughput


def test_without_time_or_items_there_is_none() -> None:
    assert steady_throughput(fw.bounded(fw.noop(), 10, limit=2, clock="virtual")) is None
    assert steady_throughput(fw.bounded(fw.delay(1), 0, limit=2, clock="virtual")) == 0


def test_many_items_are_sampled() -> None:
    assert steady_of(fw.service(SERVICE, 10), 100_000, 16) == pytest.approx(200, rel=1e-3)


def test_a_slow_beginning_does_not_count() -> None:
    """Each thread's first item pays for a connection."""

    def connect() -> list[bool]:
        return []

    def fetch(row: int, used: list[bool]) -> None:
        time.sleep(0.005 if used else 0.5)
        used.append(True)

    run = fw.bounded(fetch, 160, limit=4, setup=connect)
    assert run.throughput is not None
    found = steady_throughput(run)
    assert found is not None and run.throughput < found <= 1.5 * 4 / 0.005


def test_rows_show_it_where_it_was_measured() -> None:
    rows = steady_rows([{"throughput": 1.0}, {"throughput": 1.0, STEADY.name: 2.0}, {"throughput": 1.0, STEADY.name: None}])
    assert [row["throughput"] for row in rows] == [1.0, 2.0, 1.0]
