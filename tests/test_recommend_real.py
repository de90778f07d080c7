"""`fw.recommend` on the real clock: callables, budgets, calls, rows, failures, interruptions. Bands are wide: no luck."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import fanwidth as fw
from fanwidth.recommendation import Recommendation
from fanwidth.table import Table

SLACK = 5.0
"""Seconds that a loaded machine may add to a budget."""


def recommend(action: Any, items: Any = None, **options: Any) -> Recommendation:
    return fw.recommend(action, items, **{"progress": False, "seed": 1, **options})


class Downstream:
    """`capacity` calls at a time, each of `seconds`; it counts what is done to it."""

    def __init__(self, capacity: int, seconds: float) -> None:
        self.seconds = seconds
        self.free = threading.BoundedSemaphore(capacity)
        self.lock = threading.Lock()
        self.rows: Counter[Any] = Counter()

    @property
    def calls(self) -> int:
        return self.rows.total()

    def __call__(self, row: Any) -> None:
        with self.lock:
            self.rows[row] += 1
        with self.free:
            time.sleep(self.seconds)


def assert_refused_or_from(found: Recommendation, low: int, high: int) -> None:
    if found.limit is None:
        assert found.evidence.knee.status in ("noisy", "rising", "too_few"), str(found)
    else:
        assert low <= found.limit <= high, str(found)


# Known truth


def test_a_native_service() -> None:
    found = recommend(fw.service(0.005, 8), budget=4)
    assert_refused_or_from(found, 4, 16)
    assert found.table["clock"][0] == "real"


def test_a_sync_callable() -> None:
    assert_refused_or_from(recommend(Downstream(8, 0.005), 500, limits=fw.geometric(1, 64), budget=4), 4, 16)


def test_an_async_callable() -> None:
    gates: dict[Any, asyncio.Semaphore] = {}

    async def fetch(row: int) -> None:
        loop = asyncio.get_running_loop()
        async with gates.setdefault(loop, asyncio.Semaphore(8)):
            await asyncio.sleep(0.005)

    assert_refused_or_from(recommend(fetch, 500, limits=fw.geometric(1, 64), budget=4), 4, 16)


def test_from_within_a_running_loop() -> None:
    """As in a notebook."""

    async def fetch(row: int) -> None:
        await asyncio.sleep(0.001)

    async def cell() -> Recommendation:
        return recommend(fetch, 100, limits=[1, 2, 4], budget=1, repeats=1)

    assert asyncio.run(cell()).table["ok"]


# Budget, calls, rows


@pytest.mark.parametrize("budget", [0.2, 1.0])
def test_the_budget_is_kept(budget: float) -> None:
    begun = time.monotonic()
    found = recommend(Downstream(4, 0.01), 1_000, budget=budget)
    assert time.monotonic() - begun <= budget * 1.2 + SLACK
    assert found.table.meta["budget"] == budget


def test_a_run_that_turns_out_too_long_is_stopped_and_not_counted() -> None:
    calls: list[int] = []

    async def fetch(row: int) -> None:
        calls.append(row)
        await asyncio.sleep(60.0 if len(calls) > 25 else 0.001)

    begun = time.monotonic()
    found = recommend(fetch, 10_000, budget=2)
    assert time.monotonic() - begun <= 2.2 + SLACK
    assert all(row["ok"] == row["items"] for row in found.table)
    assert any("took longer than what was left of 2 s" in note for note in found.evidence.notes)


def test_a_budget_that_can_tell_nothing_is_not_spent() -> None:
    downstream = Downstream(4, 0.3)
    found = recommend(downstream, 1_000, budget=3)
    assert found.limit is None and found.evidence.knee.status == "too_few"
    assert "an item takes" in found.reason and "give a budget of" in found.reason
    assert downstream.calls <= 5


@pytest.mark.parametrize("most", [1, 7, 60, 300])
def test_max_calls_is_kept_to_the_call(most: int) -> None:
    downstream = Downstream(100, 0.0005)
    found = recommend(downstream, 1_000, max_calls=most, budget=None)
    assert downstream.calls == found.table.meta["calls"] <= most
    if most < 60:
        assert found.limit is None


def test_rows_go_round_and_there_are_two_for_each_slot() -> None:
    rows = [f"row {n}" for n in range(37)]
    downstream = Downstream(100, 0.001)
    found = recommend(downstream, rows, limits=[1, 2, 4, 8, 16, 64], max_calls=700, budget=None)
    assert set(downstream.rows) == set(rows) and max(downstream.rows.values()) - min(downstream.rows.values()) <= 1
    assert max(point.limit for point in found.evidence.points) <= 37 // 2
    assert any("need more items: 2 for each slot, there are 37" in note for note in found.evidence.notes)


@pytest.mark.parametrize("items", [{"a": 1, "b": 2}, {"a", "b"}, ("a", "b"), range(5, 7)])
def test_any_collection_of_rows_will_do(items: Any) -> None:
    downstream = Downstream(9, 0.0)
    recommend(downstream, items, limits=[1], budget=None, max_calls=20, repeats=1)
    assert set(downstream.rows) == set(items)


# Failures


def test_calls_that_fail_from_a_limit_on_bound_it() -> None:
    under_way, lock = [0], threading.Lock()

    def fetch(row: int) -> None:
        with lock:
            under_way[0] += 1
            crowd = under_way[0]
        time.sleep(0.02)
        with lock:
            under_way[0] -= 1
        if crowd > 8:
            raise ConnectionError("too many")

    found = recommend(fetch, 500, budget=4)
    assert_refused_or_from(found, 5, 8)
    assert max(point.limit for point in found.evidence.points) == 16  # the climb ends there
    assert any("ConnectionError: too many" in note for note in found.evidence.notes)


def test_items_that_always_fail_are_not_the_limits_fault() -> None:
    """The bad row is met at a larger limit first, which would seem to be too large."""

    def fetch(row: int) -> None:
        time.sleep(0.001)
        if row == 150:
            raise ValueError("bad row")

    found = recommend(fetch, 400, budget=4)
    assert (found.limit, found.evidence.knee.status) == (None, "infeasible")
    if found.evidence.points[-1].limit > 1:
        assert "items fail whatever the limit, item 150: ValueError: bad row" in found.reason
    assert recommend(fetch, 400, budget=2, max_failure_rate=0.5).evidence.knee.status != "infeasible"


def test_calls_that_all_fail_end_it_at_once() -> None:
    calls = []

    def fetch(row: int) -> None:
        calls.append(row)
        raise KeyError("id")

    found = recommend(fetch, 400, budget=4)
    assert "limit 1 already fails 100 % of its items" in found.reason
    assert any("for instance item 0: KeyError: 'id'" in note for note in found.evidence.notes)
    assert {point.limit for point in found.evidence.points} == {1}


def test_a_setup_that_raises_ends_it() -> None:
    def connect() -> None:
        raise ConnectionError("down")

    with pytest.raises(ConnectionError, match="down") as caught:
        recommend(lambda row, client: None, 10, setup=connect)
    assert isinstance(caught.value.table, Table)  # type: ignore[attr-defined]


def test_setup_is_entered_and_left_for_every_run() -> None:
    opened, closed = [], []

    @contextlib.contextmanager
    def client() -> Iterator[str]:
        opened.append(1)
        yield "client"
        closed.append(1)

    def fetch(row: int, client: str) -> None:
        assert client == "client"

    found = recommend(fetch, 50, limits=[1, 2], repeats=1, max_calls=40, setup=client)
    assert len(opened) == len(closed) >= len(found.table) and sum(found.table["failed"]) == 0  # type: ignore[arg-type]


# Interruption, progress


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_what_was_measured_is_kept_when_interrupted(interrupt: type[BaseException]) -> None:
    downstream = Downstream(100, 0.0005)

    def fetch(row: int) -> None:
        downstream(row)
        if downstream.calls > 60:
            raise interrupt

    with pytest.raises(interrupt) as caught:
        recommend(fetch, 1_000, budget=10)
    table = caught.value.table  # type: ignore[attr-defined]
    assert len(table) >= 2 and not table.complete and "Not complete" in str(table)
    assert fw.recommend(table).limit is None  # and says why, instead of failing


def test_progress_counts_calls_over_all_runs() -> None:
    seen: list[tuple[int, int | None]] = []
    found = recommend(
        Downstream(8, 0.01), 100, limits=[1, 2, 4], budget=2, progress=lambda now: seen.append((now.done, now.total))
    )
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (found.table.meta["calls"], None)


def test_a_single_repeat_is_refused_as_its_noise_is_unknown() -> None:
    found = recommend(Downstream(4, 0.001), 100, limits=[1, 2, 4, 8], repeats=1, budget=2)
    assert found.limit is None and "no limit was measured twice" in found.reason


def test_runs_of_one_limit_have_one_number_of_items() -> None:
    """So that a plot has one series; and each has three items per slot at least."""
    table = recommend(Downstream(6, 0.002), 200, limits=[1, 4, 16], budget=2).table.filter(warmup=False)
    sizes = {(row["limit"], row["items"]) for row in table}
    assert len(sizes) == len({limit for limit, _ in sizes})
    assert all(math.isclose(items % limit, 0) and items >= 3 * limit for limit, items in sizes)  # type: ignore[operator]
