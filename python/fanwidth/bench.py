"""Runs of one action at chosen limits, within a budget: what `recommend` and `check_limit` measure with."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from . import axes, machine
from .actions import NativeAction, describe
from .checks import check_choice, check_count, check_seconds
from .columns import Column, run_row, sweep_columns
from .export import Cell
from .options import Clock
from .progress import reporter
from .runs import Run
from .scalability import Point, points_from_rows
from .source import check_action, check_source
from .strategies import run as run_strategy
from .table import Table

STRATEGY = "bounded"
PILOT_ITEMS = 5
WAVES = 20
"""Items per slot that a run should have: fewer, and its end, when slots run empty, shows a false knee."""
FEWEST_WAVES = 3
FEWEST_SIMULATED = 2_000

STEADY = Column("steady_throughput", "float", "1/s", "measure", "ok items per second until the last start, while slots were full")


class OutOfBudget(Exception):
    """The next run would not fit into what is left of seconds or calls."""


def steady_throughput(run: Run) -> float | None:
    """Ok items per second while the slots were full: (n - limit) starts that waited for a slot, over the time of the last.

    The whole run's throughput also holds its end, in which ever fewer items are in flight. None where no item waited.
    """
    started, limit = run.counts.total - run.counts.not_started, run.effective_limit or 0
    if started <= limit or not started:
        return run.throughput
    last_start = max(islice(run.samples.start_ns, started - 1, started)) * 1e-9
    share = run.counts.ok / started
    return (started - limit) / last_start * share if last_start > 0 else run.throughput


class Bench:
    """Measures limits and keeps the rows. Every run takes the next of the items, so that no limit meets a warm cache."""

    def __init__(
        self,
        action: Any,
        items: Any,
        *,
        repeats: int,
        runs: int,
        budget: float | None,
        max_calls: int | None,
        setup: Callable[[], Any] | None,
        clock: Clock,
        seed: int | None,
        progress: Any,
    ) -> None:
        check_action(action, items)
        check_choice("clock", clock, ("real", "virtual"))
        self.action = action
        self.native = isinstance(action, NativeAction)
        if clock == "virtual" and not self.native:
            raise ValueError('clock="virtual" needs a native action, whose times are drawn (a callable has to be run)')
        self.repeats = check_count("repeats", repeats, 1)
        self.clock: Clock = clock
        self.setup = setup
        self.seed = int.from_bytes(os.urandom(8)) >> 11 if seed is None else check_count("seed", seed, 0)
        self.budget = None if budget is None else check_seconds("budget", budget, above_zero=True)
        self.max_calls = None if max_calls is None else check_count("max_calls", max_calls, 1, "None for no bound")
        self.rows_of_items = self._items(items)
        self.expected_runs = max(1, runs)
        self.rows: list[dict[str, Cell]] = []
        self.calls = 0
        self.service: float | None = None
        self.rates: dict[int, float] = {}
        self._next = 0
        self._began = time.monotonic()
        self._report = reporter(progress, None, label="measuring")

    def _items(self, items: Any) -> Sequence[Any] | None:
        if items is None:
            if not self.native:
                raise TypeError("items must be the rows or the number of items to work on, got None")
            return None
        source = check_source(items)
        rows = axes.rows_of(source.items)
        if not len(rows):
            raise ValueError("items must hold at least one item to measure, got none")
        return rows

    @property
    def exact(self) -> bool:
        return self.clock == "virtual"

    def left(self) -> float | None:
        """Seconds left of the budget."""
        return None if self.budget is None or self.exact else self.budget - (time.monotonic() - self._began)

    def size(self, limit: int) -> int:
        """How many items a run at `limit` takes; OutOfBudget where too few would fit.

        Simulated: max(2,000, 20 x limit). Else as many as an even share of the budget and of `max_calls` allows, at most
        20 x limit, at least 3 x limit, and never more than there are items.
        """
        if self.exact:
            given = 0 if self.rows_of_items is None else len(self.rows_of_items)
            return max(FEWEST_SIMULATED, WAVES * limit, given)
        most, least = WAVES * limit, FEWEST_WAVES * limit
        if self.rows_of_items is not None:
            most = min(most, len(self.rows_of_items))
        left = self.left()
        if left is not None and self.service:
            share = left if not self.budget else min(left, self.budget / self.expected_runs)
            most = min(most, max(int(self._expected_rate(limit) * share), least))
            if self._expected_rate(limit) * left < least:
                raise OutOfBudget(f"{self.budget:g} s are used up")
        if self.max_calls is not None:
            most = min(most, max(self.max_calls // self.expected_runs, least))
            if self.calls + most > self.max_calls:
                raise OutOfBudget(f"{self.max_calls:,} calls are used up")
        if most < min(least, 2 * limit):
            raise OutOfBudget(f"there are too few items for limit {limit:,}")
        return max(1, most)

    def _expected_rate(self, limit: int) -> float:
        """Items per second at `limit`: that of the next smaller limit measured, or what the mean service time promises."""
        assert self.service
        smaller = [known for known in self.rates if known <= limit]
        if not smaller:
            return limit / self.service
        nearest = max(smaller)
        return self.rates[nearest] if self.rates[nearest] < 0.8 * nearest / self.service else limit / self.service

    def _take(self, count: int) -> Any:
        if self.rows_of_items is None or self.exact or self.native:
            return count
        rows, begin = self.rows_of_items, self._next
        self._next = (begin + count) % len(rows)
        return [rows[(begin + i) % len(rows)] for i in range(count)]

    def pilot(self) -> None:
        """A few items one by one: a warm-up, and the first idea of how long one takes."""
        if not self.exact:
            count = PILOT_ITEMS if self.rows_of_items is None else min(PILOT_ITEMS, len(self.rows_of_items))
            self._run(1, count, repeat=0, warmup=True)

    def measure(self, limits: Iterable[int], repeat: int) -> None:
        """One round over `limits`. OutOfBudget ends it early; what was measured stays."""
        for limit in limits:
            self._run(limit, self.size(limit), repeat, warmup=False)

    def _run(self, limit: int, count: int, repeat: int, *, warmup: bool) -> None:
        run = run_strategy(
            self.action,
            self._take(count),
            strategy=STRATEGY,
            limit=limit,
            errors="keep",
            setup=self.setup,
            keep="samples",
            clock=self.clock,
            seed=(self.seed + repeat) % 2**63,
            progress=False if self._report is None else self._forward(self._report),
        )
        self.calls += run.counts.total - run.counts.not_started
        row = run_row(run, axes={}, repeat=repeat, warmup=warmup)
        row[STEADY.name] = steady = steady_throughput(run)
        self.rows.append(row)
        if self.service is None or not warmup:
            self.service = min(self.service or run.latency.mean or 0.0, run.latency.mean or 0.0) or self.service
        if not warmup and steady:
            self.rates[limit] = steady

    def _forward(self, report: Any) -> Any:
        calls = self.calls
        return lambda progress: report(calls + progress.done, progress.failed)

    def close(self) -> None:
        if self._report is not None:
            self._report.close(self.calls)

    def points(self) -> list[Point]:
        """What was measured, by limit, with the throughput while the slots were full."""
        return points_from_rows({**row, "throughput": row[STEADY.name]} for row in self.rows)

    def table(self, kind: str, *, complete: bool = True) -> Table:
        return Table.from_rows(
            self.rows,
            [*sweep_columns(), STEADY],
            title=f"{kind}: {describe(self.action)}",
            meta={**machine.describe(), "kind": kind, "seed": self.seed, "action": describe(self.action)},
            complete=complete,
        )
