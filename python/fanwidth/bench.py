"""Runs of one action at chosen limits, within a budget: what `recommend` and `check_limit` measure with."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import axes, machine
from .actions import NativeAction, describe
from .checks import check_choice, check_count, check_seconds
from .columns import STEADY, run_row, sweep_columns
from .errors import short
from .export import Cell, seconds
from .options import Clock
from .progress import reporter
from .runs import Run
from .scalability import Point, points_from_rows
from .source import check_action, check_source
from .steady import steady_rows, steady_throughput
from .strategies import run as run_strategy
from .table import Table
from .trials import SEEDS, many, told

STRATEGY = "bounded"
PILOT_ITEMS = 4
FEWEST_WAVES = 3
"""Items per slot that a run must have: the first ones only fill the slots."""
WAVES = 20
"""Items per slot that it should have."""
MOST_ALONE = 3
SHORTEST_S = 0.3
"""A run of quick items takes more waves until it is so long: what disturbs a machine lasts milliseconds."""
FEWEST_SIMULATED = 2_000
MOST_ITEMS = 200_000
"""More are only taken where the limit needs them. Up to here all limits are simulated with one number of items: the same
draws for all."""
ROWS_PER_SLOT = 2
"""Rows there must be for each slot: with fewer, a row would be taken again while it is still in flight."""
FEWEST_LIMITS = 4
"""Fewer say too little to spend a budget on."""


class OutOfBudget(Exception):
    """The next run would not fit into what is left of seconds, calls or items; the message says of which."""


class Bench:
    """Measures limits and keeps the rows. Every run takes the next of the items, so that no limit meets a warm cache.

    `limits`: those that are planned; `more`: how many others may follow. From these is known what share of the budget a
    run may have.
    """

    def __init__(
        self,
        action: Any,
        items: Any,
        *,
        limits: Sequence[int],
        more: int,
        repeats: int,
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
        self.exact = clock == "virtual"
        self.clock: Clock = clock
        self.repeats = check_count("repeats", repeats, 1)
        self.budget = None if budget is None else check_seconds("budget", budget, above_zero=True)
        self.max_calls = None if max_calls is None else check_count("max_calls", max_calls, 1, "None for no bound")
        self.seed = int.from_bytes(os.urandom(8)) >> 11 if seed is None else check_count("seed", seed, 0)
        self.setup = setup
        self.items = self._checked(items)
        self.largest = max(limits)
        self.planned = (len(limits) + more) * self.repeats
        self.rows: list[dict[str, Cell]] = []
        self.calls = 0
        self.failed = 0
        self.failure: str | None = None
        """The first item that failed, in words."""
        self._failing: list[Any] = []
        self.service: float | None = None
        """Seconds that an item takes, at the least of all runs."""
        self._rates: dict[int, float] = {}
        self._sizes: dict[int, int] = {}
        self._next = 0
        self._runs = 0
        self._began = time.monotonic()
        self._report = reporter(progress, None, label="measuring")

    def _checked(self, items: Any) -> Sequence[Any] | None:
        if items is None and self.native and not self.action.item_is_time:
            return None
        if items is None:
            raise TypeError("items must be the rows to work on, or how many there are, got None")
        return axes.rows_of(check_source(items).items)

    # What is left

    @property
    def constant(self) -> bool:
        """A simulated run of constant times is the same every time: one is enough."""
        return self.exact and (self.action.item_is_time or self.action.time.kind == "constant")

    def left(self) -> float | None:
        """Seconds left of the budget; None: no bound. A simulation costs next to nothing."""
        return None if self.budget is None or self.exact else self.budget - (time.monotonic() - self._began)

    def seconds_at(self, limit: int, count: int) -> float:
        """How long a run of `count` items at `limit` will take, about."""
        return count / self._rate(limit) if self.service else 0.0

    def _rate(self, limit: int) -> float:
        """Items per second at `limit`: as measured, as at the next smaller limit where that was clearly less than its slots
        could do, or what the slots can do."""
        assert self.service
        nearest = max((known for known in self._rates if known <= limit), default=0)
        if nearest == limit or (nearest and self._rates[nearest] < 0.8 * nearest / self.service):
            return self._rates[nearest]
        return limit / self.service

    def affordable(self, limits: Sequence[int]) -> tuple[list[int], list[str]]:
        """Those of `limits`, rising, that items, calls and seconds allow to measure at all, and notes on the others.

        OutOfBudget where the seconds are too few even for every other limit: nothing is spent where nothing can be told.
        """
        kept, notes = list(limits), []
        most = None if self.items is None or self.exact else len(self.items) // ROWS_PER_SLOT
        if most is not None and kept[-1] > most:
            kept = [limit for limit in kept if limit <= most] or kept[:1]
            given = len(self.items or ())
            notes.append(f"limits above {kept[-1]:,} need more items: {ROWS_PER_SLOT} for each slot, there are {given:,}")
        if self.max_calls is not None:
            calls = self.max_calls - self.calls
            allowed = [limit for i, limit in enumerate(kept) if self._fewest_calls(kept[: i + 1]) <= 0.8 * calls] or kept[:1]
            if len(allowed) < len(kept):
                kept = allowed
                notes.append(f"limits above {kept[-1]:,} need more than {many(self.max_calls, 'call')}")
        left = self.left()
        if left is not None and self.service and not self.exact:
            fine = kept
            while (needed := self.repeats * len(kept) * FEWEST_WAVES * self.service) > 0.7 * left:
                coarser = sorted({kept[0], *kept[::-2]})
                if len(coarser) < min(FEWEST_LIMITS, len(fine)) or len(coarser) == len(kept):
                    raise OutOfBudget(
                        f"an item takes {seconds(self.service)}, so {many(self.repeats, 'run')} of {len(kept)} limits take at "
                        f"least {seconds(needed)}: give a budget of {_rounded_up(1.5 * needed):g} s, it is {self.budget:g} s"
                    )
                kept = coarser
            if len(kept) < len(fine):
                notes.append(f"for the budget of {self.budget:g} s only {len(kept)} of {len(fine)} limits were measured first")
        return kept, notes

    def _fewest_calls(self, limits: Sequence[int]) -> int:
        return self.repeats * FEWEST_WAVES * sum(limits)

    def size(self, limit: int) -> int:
        """How many items a run at `limit` takes, the same each time; OutOfBudget where they do not fit into what is left."""
        count = self._sizes.get(limit) or (self._simulated_size(limit) if self.exact else self._real_size(limit))
        left = self.left()
        if left is not None and (left <= 0 or self.seconds_at(limit, count) > left):
            raise OutOfBudget(f"a run at limit {limit:,} does not fit into what is left of {self.budget:g} s")
        if self.max_calls is not None and self.calls + count > self.max_calls:
            raise OutOfBudget(f"a run at limit {limit:,} does not fit into what is left of {many(self.max_calls, 'call')}")
        self._sizes[limit] = count
        return count

    def _simulated_size(self, limit: int) -> int:
        given = 0 if self.items is None else len(self.items)
        return max(FEWEST_SIMULATED, min(WAVES * self.largest, MOST_ITEMS), WAVES * limit, given)

    def _real_size(self, limit: int) -> int:
        """Whole waves: an even share of seconds and calls, at most 20 waves or 0.3 s, at least 3 waves."""
        runs = max(self.planned - self._runs, self.repeats)
        waves = float(WAVES)
        if self.service:
            wanted = max(WAVES * self.service, SHORTEST_S)
            left = self.left()
            if left is not None:
                wanted = min(wanted, left / runs)
            waves = self._rate(limit) * wanted / limit
        if self.max_calls is not None:
            waves = min(waves, (self.max_calls - self.calls) / runs / limit)
        return limit * max(FEWEST_WAVES, int(min(waves, MOST_ITEMS / limit)))

    # Measuring

    def pilot(self) -> None:
        """An item, and where that is quick some more, one by one: a warm-up, and the first idea of how long one takes."""
        if self.exact:
            return
        self._run(1, 1, repeat=0, warmup=True)
        left, service = self.left(), self.service or 0.0
        more = PILOT_ITEMS if left is None or service * PILOT_ITEMS * 10 < left else int(service * 3 < left)
        if self.max_calls is not None:
            more = min(more, self.max_calls - self.calls)
        if more > 0:  # slow or not: the first item of all often pays for imports and connections
            self._run(1, more, repeat=1, warmup=True)

    def fail_alone(self) -> str | None:
        """The items that failed in the last run, a few of them, done again one by one: in words, where all fail as well, so
        that it is not the limit's fault."""
        items = self._failing
        if self.native or not items or (self.max_calls is not None and self.calls + len(items) > self.max_calls):
            return None
        self._run(1, len(items), repeat=2, warmup=True, items=items)
        return self.failure if len(self._failing) == len(items) else None

    def measure(self, limit: int, repeat: int) -> None:
        """One run. OutOfBudget where it does not fit or turns out not to; what was measured before stays."""
        self._run(limit, self.size(limit), repeat, warmup=False)

    def _run(self, limit: int, count: int, repeat: int, *, warmup: bool, items: Any = None) -> None:
        left = self.left()
        bound = None if left is None or self.budget is None else max(left, 0.0) + 0.1 * self.budget
        try:
            run = run_strategy(
                self.action,
                self._take(count) if items is None else items,
                strategy=STRATEGY,
                limit=limit,
                errors="keep",
                total_timeout=bound,
                setup=self.setup,
                keep="samples",
                clock=self.clock,
                seed=(self.seed + repeat) % SEEDS,
                progress=self._forward(),
            )
        except BaseException as error:
            counts = getattr(getattr(error, "run", None), "counts", None)
            self.calls += 0 if counts is None else counts.total - counts.not_started
            raise
        started = run.counts.total - run.counts.not_started
        self.calls += started
        if run.stopped_by == "timeout":
            raise OutOfBudget(f"a run at limit {limit:,} took longer than what was left of {self.budget:g} s")
        self._runs += not warmup
        self._keep(run, limit, repeat, warmup)
        if started and run.elapsed > 0:
            item = run.elapsed * min(limit, started) / started
            self.service = item if self.service is None else min(self.service, item)

    def _keep(self, run: Run, limit: int, repeat: int, warmup: bool) -> None:
        row = run_row(run, axes={}, repeat=repeat, warmup=warmup)
        row[STEADY.name] = steady = steady_throughput(run)
        self.rows.append(row)
        self.failed += run.counts.failed + run.counts.timed_out
        self._failing = [outcome.item for outcome in run.errors[:MOST_ALONE]]
        if run.errors and self.failure is None:
            first = run.errors[0]
            what = f"item {first.index}" if self.native else f"item {short(first.item)}"
            self.failure = f"{what}: {told(first.exception)}"
        if steady and not warmup:
            self._rates[limit] = steady

    def _take(self, count: int) -> Any:
        if self.items is None or (self.native and not self.action.item_is_time):
            return count
        # Simulated: no cache to avoid, and the same work in the same order is a fairer comparison.
        begin = 0 if self.native else self._next
        self._next = (begin + count) % len(self.items)
        return [self.items[(begin + i) % len(self.items)] for i in range(count)]

    def _forward(self) -> Callable[[Any], None] | bool:
        report = self._report
        if report is None:
            return False
        calls, failed = self.calls, self.failed
        return lambda progress: report(calls + progress.done, failed + progress.failed)

    def close(self) -> None:
        """The last word of the progress."""
        if self._report is not None:
            self._report.close(self.calls, self.failed)

    # What was measured

    def points(self) -> list[Point]:
        """By limit, with the throughput while all slots were taken."""
        return points_from_rows(steady_rows(self.rows))

    def repeats_of(self, limit: int) -> int:
        """How often it was measured."""
        return sum(row["limit"] == limit and not row["warmup"] for row in self.rows)

    def notes(self) -> Iterator[str]:
        """What went wrong with items."""
        if self.failure is not None:
            yield f"{many(self.failed, 'item')} failed, for instance {self.failure}"

    def table(self, kind: str, *, complete: bool = True, **meta: Any) -> Table:
        """All runs, in the order they were measured."""
        name = describe(self.action)
        about = {
            **machine.describe(),
            "kind": kind,
            "seed": self.seed,
            "action": name,
            "repeats": self.repeats,
            "budget": self.budget,
            "max_calls": self.max_calls,
            "calls": self.calls,
        }
        title = f"{kind} of {name}"
        return Table.from_rows(self.rows, [*sweep_columns(), STEADY], title=title, meta={**about, **meta}, complete=complete)


def _rounded_up(value: float) -> float:
    """To two digits, or a multiple of ten."""
    return max(1.0, -(-value // 10) * 10.0 if value > 10 else -(-value // 1))
