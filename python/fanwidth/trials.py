"""One planned run of a sweep, and what came out of it as a row. It runs in this process or, pickled, in another."""

from __future__ import annotations

import platform
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import strategies
from .actions import NativeAction
from .axes import Point
from .columns import cell, run_row
from .errors import short
from .export import Cell
from .runs import Run

ERROR_WIDTH = 300
SEEDS = 2**63


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """All that the trials of a sweep have in common."""

    points: Sequence[Point]
    repeats: int
    warmup: int
    seed: int
    clock: str
    setup: Callable[[], Any] | None
    rows: Sequence[Any] | None
    """Rows to work on; None: a point's items are a number."""

    def with_seed(self, seed: int) -> Plan:
        return replace(self, seed=seed)

    @property
    def rounds(self) -> int:
        return self.warmup + self.repeats

    def trials(self) -> Iterator[Trial]:
        """Round after round over all points, warm-up rounds first, each in an order shuffled by the seed.

        What disturbs the machine for a while thus disturbs all points alike. All points of a round have one seed: that of
        repeat r is seed + r, whatever the number of warm-up rounds.
        """
        shuffled = random.Random(self.seed)
        number = 0
        for turn in range(self.rounds):
            warming = turn < self.warmup
            repeat = turn if warming else turn - self.warmup
            order = list(self.points)
            shuffled.shuffle(order)
            for point in order:
                seed = (self.seed + repeat + (self.repeats if warming else 0)) % SEEDS
                yield Trial(point, repeat, warming, seed, self.clock, self.setup, self._share(number, point.items))
                number += 1

    def _share(self, number: int, items: int) -> Any:
        """What trial `number` works on.

        Rows go round: a trial takes those that follow its forerunner's, so that a cache of the latest ones helps no point.
        Where each takes all of them, each begins at another one.
        """
        if self.rows is None:
            return items
        length = len(self.rows)
        if isinstance(self.points[0].action, NativeAction):
            return self.rows  # simulated: no cache to avoid, and the same work in the same order is a fairer comparison
        step = items if items < length else max(1, length // len(self.points))
        begin = number * step % length
        return [self.rows[(begin + i) % length] for i in range(items)]


@dataclass(frozen=True, eq=False, slots=True)
class Trial:
    """One run that is to be done."""

    point: Point
    repeat: int
    warmup: bool
    seed: int
    clock: str
    setup: Callable[[], Any] | None
    items: Any
    """A number, or the rows."""
    total_timeout: float | None = None
    """What is left of the budget: a run that exceeds it is no measurement."""

    @property
    def key(self) -> tuple[Cell, ...]:
        """By which the row of this trial is known."""
        return (*self.point.row().values(), self.repeat, self.warmup)

    def __str__(self) -> str:
        return f"{self.point}, {'warm-up' if self.warmup else 'repeat'} {self.repeat}"


@dataclass(frozen=True, slots=True)
class Measured:
    """What became of a trial."""

    row: dict[str, Cell]
    seconds: float
    """By the wall clock, setup included."""
    calls: int
    """Items that were started."""
    failed: int = 0
    failure: str | None = None
    """The first item that failed."""
    service: float | None = None
    """Mean time of an item in seconds."""
    cut: bool = False
    """The rest of the budget was too short for it."""
    host: str = ""
    began: float = 0.0
    """By that host's monotonic clock."""


def measure(trial: Trial, progress: Callable[[Any], object] | bool = False) -> Measured:
    """Does the run. Items that fail end in counts, an exception of the run itself in the row's `error`."""
    point = trial.point
    started = time.monotonic()
    failures = {} if not isinstance(point.max_failures, int | None) else {"max_failures": point.max_failures}
    try:
        run = strategies.run(
            point.action,
            trial.items,
            strategy=point.strategy,
            limit=point.limit,
            errors="keep",
            total_timeout=trial.total_timeout,
            setup=trial.setup,
            keep="samples",
            clock=trial.clock,
            seed=trial.seed,
            progress=progress,
            **failures,
        )
        row = run_row(run, axes=point.axes, repeat=trial.repeat, warmup=trial.warmup)
    except Exception as error:
        counts = getattr(getattr(error, "run", None), "counts", None)
        calls = 0 if counts is None else counts.total - counts.not_started
        return failed(trial, told(error), time.monotonic() - started, calls)
    counts = run.counts
    return Measured(
        row=row,
        seconds=time.monotonic() - started,
        calls=counts.total - counts.not_started,
        failed=counts.failed + counts.timed_out,
        failure=_first_failure(run),
        service=run.latency.mean,
        cut=trial.total_timeout is not None and run.stopped_by == "timeout",
        host=platform.node(),
        began=started,
    )


def failed(trial: Trial, why: str, seconds: float = 0.0, calls: int = 0) -> Measured:
    """The row of a trial without a measurement."""
    row = {**trial.point.row(), "repeat": trial.repeat, "warmup": trial.warmup}
    row |= {"clock": trial.clock, "seed": trial.seed, "error": cell(why)}
    return Measured(row, seconds, calls)


def told(error: BaseException) -> str:
    """An exception in one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # somebody else's __str__
        text = ""
    text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= ERROR_WIDTH else text[: ERROR_WIDTH - 3] + "..."


def many(count: int, thing: str) -> str:
    """`many(1, "run")` is "1 run", `many(2_000, "run")` is "2,000 runs"."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _first_failure(run: Run) -> str | None:
    if not run.errors:
        return None
    first = run.errors[0]
    item = "" if first.item is None or first.item == first.index else f" ({short(first.item)})"
    return f"item {first.index}{item}: {told(first.exception)}"
