"""What a budget, calls and items allow to measure, decided before anything is spent. Nothing here waits."""

from __future__ import annotations

from typing import Any

import pytest

import fanwidth as fw
from fanwidth.bench import FEWEST_WAVES, MOST_ITEMS, WAVES, Bench, OutOfBudget

GRID = fw.geometric(1, 256)


def no_action(row: Any) -> None:
    raise AssertionError("nothing may start")


def bench(items: Any = 1_000, *, service: float | None = 0.05, **options: Any) -> Bench:
    """A bench that knows how long an item takes."""
    given = {"limits": GRID, "more": 5, "repeats": 3, "budget": None, "max_calls": None, "setup": None, "clock": "real"}
    made = Bench(no_action, items, **{**given, "seed": 1, "progress": False, **options})
    made.service = service
    return made


def test_all_limits_are_measured_where_there_is_enough_of_everything() -> None:
    assert bench(budget=1e6, max_calls=10**6).affordable(GRID) == (GRID, [])
    assert bench(budget=None).affordable(GRID) == (GRID, [])


def test_a_tight_budget_measures_every_other_limit_first() -> None:
    """9 limits, 3 runs of 3 waves each: 4.05 s; of 5 limits 2.25 s."""
    limits, notes = bench(budget=4.0).affordable(GRID)
    assert limits == [1, 4, 16, 64, 256]
    assert notes == ["for the budget of 4 s only 5 of 9 limits were measured first"]


def test_a_budget_that_is_too_small_is_refused_with_what_would_do() -> None:
    with pytest.raises(OutOfBudget, match="an item takes 50.0 ms, so 3 runs of 5 limits .* give a budget of 4 s, it is 2 s"):
        bench(budget=2.0).affordable(GRID)
    assert bench(budget=4.0).affordable(GRID)  # and that does


def test_the_limits_of_a_check_are_never_thinned_out() -> None:
    with pytest.raises(OutOfBudget, match="3 runs of 3 limits"):
        bench(budget=1.0, limits=[10, 20, 40], more=0).affordable([10, 20, 40])


def test_few_items_leave_out_the_limits_that_need_more() -> None:
    limits, notes = bench(["a"] * 50).affordable(GRID)
    assert limits == [1, 2, 4, 8, 16] and notes == ["limits above 16 need more items: 2 for each slot, there are 50"]


def test_few_calls_leave_out_the_limits_that_need_more_with_their_repeats() -> None:
    limits, notes = bench(max_calls=500).affordable(GRID)
    assert limits == [1, 2, 4, 8, 16] and notes == ["limits above 16 need more than 500 calls"]
    assert 3 * FEWEST_WAVES * sum(limits) <= 500


def test_a_run_has_whole_waves_as_many_as_its_share_of_the_budget_allows() -> None:
    assert bench().size(8) == 8 * WAVES
    assert bench(budget=60.0).size(8) == 8 * WAVES  # a share of 1.4 s is 28 waves
    tight = bench(budget=20.0)
    assert tight.size(8) == 8 * 9  # a share of 0.48 s
    assert bench(budget=8.0).size(8) == 8 * FEWEST_WAVES


def test_quick_items_fill_a_moment() -> None:
    assert bench(service=0.001).size(1) == 300
    assert bench(service=1e-9).size(4) == MOST_ITEMS


def test_a_limit_keeps_its_size() -> None:
    one = bench(budget=60.0)
    first = one.size(8)
    one.service = 0.5
    assert one.size(8) == first


def test_what_does_not_fit_any_more_is_refused() -> None:
    spent = bench(budget=60.0)
    assert spent.size(1) == WAVES
    spent._began -= 59.5  # of 20 waves, a second
    with pytest.raises(OutOfBudget, match="a run at limit 1 does not fit into what is left of 60 s"):
        spent.size(1)
    called = bench(max_calls=100)
    called.calls = 98
    with pytest.raises(OutOfBudget, match="a run at limit 1 does not fit into what is left of 100 calls"):
        called.size(1)


def test_what_a_run_will_take_follows_what_smaller_limits_gave() -> None:
    one = bench()
    assert one.seconds_at(8, 160) == pytest.approx(1.0)
    one._rates = {1: 20.0, 4: 79.0, 16: 100.0}
    assert one.seconds_at(8, 160) == pytest.approx(1.0)  # 4 gave what its slots can
    assert one.seconds_at(64, 200) == pytest.approx(2.0)  # 16 did not
    assert one.seconds_at(4, 158) == pytest.approx(2.0)


def test_simulated_runs_have_one_size_and_no_bound_of_seconds() -> None:
    options = {"limits": GRID, "more": 5, "repeats": 3, "budget": 1e-9, "max_calls": None, "setup": None, "progress": False}
    made = Bench(fw.service(0.05, 4), None, clock="virtual", seed=1, **options)  # type: ignore[arg-type]
    assert {made.size(limit) for limit in GRID} == {WAVES * 256}
    assert made.affordable(GRID) == (GRID, []) and made.left() is None
