"""What a sweep may spend: seconds by a clock of the test's own, and calls."""

import threading
from typing import Any

import fanwidth as fw
from fanwidth import sweeps
from fanwidth.axes import grid
from fanwidth.budget import Budget
from fanwidth.options import DEFAULT
from fanwidth.table import Table
from fanwidth.trials import Measured, Plan, Trial


def sweep(*args: Any, **kwargs: Any) -> Table:
    return sweeps.sweep(*args, **{"progress": False, "repeats": 1, "warmup": 0, "seed": 1, **kwargs})


def work(row: Any) -> Any:
    return row


def a_trial(action: Any, items: int = 10, limit: int | None = 2, clock: str = "real") -> Trial:
    [point] = grid(action, [items], strategy="bounded", limit=limit, max_failures=DEFAULT, axes={})
    return next(Plan([point], 1, 0, 1, clock, None, None).trials())


def measured(seconds: float, calls: int = 10, service: float | None = None, cut: bool = False) -> Measured:
    return Measured({}, seconds, calls, service=service, cut=cut)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_budget_admits_what_fits_by_the_virtual_clock() -> None:
    clock = Clock()
    budget = Budget(10.0, None, clock)
    short, long = a_trial(fw.delay(1), items=18), a_trial(fw.delay(1), items=22)
    [admitted] = budget.fitting(iter([long, short, long]))
    assert admitted.point is short.point and admitted.total_timeout == 10.0
    assert budget.expected(long) == 11.0 and budget.over_time == 2
    clock.now += 1.5
    assert budget.left() == 8.5
    assert list(budget.fitting(iter([short]))) == []
    assert list(budget.notes(4)) == ["budget: 3 of 4 runs did not fit into 10.0 s."]


def test_budget_knows_the_longest_run_of_a_point() -> None:
    budget = Budget(10.0, None, Clock())
    trial = a_trial(fw.delay(0.001))
    budget.done(trial, measured(12.0))
    budget.done(trial, measured(3.0))
    assert budget.expected(trial) == 12.0 and list(budget.fitting(iter([trial]))) == []


def test_budget_estimates_callables_by_the_shortest_service_time() -> None:
    budget = Budget(10.0, None, Clock())
    first, other = a_trial(work, items=10, limit=5), a_trial(work, items=100, limit=2)
    assert budget.expected(first) == 0.0
    budget.done(first, measured(2.0, service=1.0))
    budget.done(first, measured(2.0, service=3.0))
    assert budget.expected(other) == 50.0 and list(budget.fitting(iter([other]))) == []


def test_budget_of_simulated_runs_is_of_real_seconds() -> None:
    trial = a_trial(fw.delay(1000), clock="virtual")
    [admitted] = Budget(1.0, None, Clock()).fitting(iter([trial]))
    assert admitted.total_timeout is None


def test_budget_leaves_out_what_it_cut() -> None:
    trial = a_trial(work)
    budget = Budget(10.0, None, Clock())
    budget.done(trial, measured(10.0, cut=True))
    assert list(budget.notes(1)) == ["budget: 1 of 1 run did not fit into 10.0 s."]


def test_a_run_beyond_the_budget_is_stopped_and_left_out() -> None:
    stop = threading.Event()
    table = sweep(lambda row: stop.wait(0.05), 10_000, limit=1, budget=0.2)
    assert len(table) == 0 and not table.complete
    assert table.notes == ("budget: 1 of 1 run did not fit into 200 ms.",)


def test_max_calls_counts_calls_of_the_action() -> None:
    calls: list[int] = []
    table = sweep(calls.append, [10, 100], limit=[1, 2], repeats=3, max_calls=150)
    assert len(calls) <= 150 and len(calls) == sum(table["items"])
    assert len(calls) > 50  # what does not fit keeps nothing else from running
    assert not table.complete
    assert table.notes[0].endswith(f"of 12 runs did not fit into 150 calls ({len(calls)} made).")


def test_max_calls_counts_only_what_was_started() -> None:
    budget = Budget(None, 25, Clock())
    trials_ = [a_trial(work) for _ in range(3)]
    admitted = budget.fitting(iter(trials_))
    for _ in range(2):
        budget.done(next(admitted), measured(1.0, calls=7))
    assert next(admitted).point is trials_[2].point


def test_max_calls_that_suffices_is_not_mentioned() -> None:
    table = sweep(fw.noop(), 10, clock="virtual", limit=[1, 2], max_calls=20, budget=1000)
    assert table.complete and table.notes == ()
