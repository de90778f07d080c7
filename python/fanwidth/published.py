"""The published .NET experiment: its figures as data, and the timer ticks that explain them."""

from __future__ import annotations

import math
from dataclasses import dataclass

SOURCE = ".NET 8 on Windows, 8 CPUs, items that wait 50 ms (published experiment)"
WAIT = 0.050  # seconds: what every item of the experiment asked to wait
WINDOWS_TICK = 1 / 64  # seconds: the default period of the Windows system timer, 15.625 ms


@dataclass(frozen=True, slots=True)
class Figure:
    """One published measurement. Times in seconds."""

    method: str  # as it is called in .NET
    strategy: str  # as it is called here
    items: int
    limit: int | None
    elapsed: float

    @property
    def ideal(self) -> float:
        """What waits of exactly 50 ms would take."""
        return _waves(self.items, self.limit) * WAIT

    @property
    def ideal_with_ticks(self) -> float:
        """What the same waits take when each ends at a tick of the Windows timer."""
        return _waves(self.items, self.limit) * timer_tick(WAIT)


FIGURES = (
    Figure("Parallel.ForEachAsync", "for_each", 10_000, 8, 78.43),
    Figure("Parallel.ForEachAsync", "for_each", 100_000, 8, 782.79),
    Figure("Task.WhenAll", "when_all", 10_000, None, 1.11),
    Figure("Task.WhenAll", "when_all", 100_000, None, 15.04),
    Figure("SemaphoreSlim + Task.WhenAll", "bounded", 10_000, 50, 12.97),
    Figure("SemaphoreSlim + Task.WhenAll", "bounded", 100_000, 50, 131.28),
)


def published_figure(strategy: str, items: int) -> Figure | None:
    """The published measurement of `strategy` over `items` items, if any. Set it only beside a run of its limit."""
    return next((figure for figure in FIGURES if (figure.strategy, figure.items) == (strategy, items)), None)


def published_time(strategy: str, items: int) -> float | None:
    """The published time in seconds of `strategy` over `items` items of 50 ms, or None where none was published."""
    figure = published_figure(strategy, items)
    return figure.elapsed if figure else None


def timer_tick(seconds: float, tick: float = WINDOWS_TICK) -> float:
    """The first tick at or after `seconds`: when a wait ends on a clock that looks only every `tick` seconds.

    `timer_tick(0.050)` is 0.0625: the fourth tick of 15.625 ms, since the third comes at 46.875 ms.
    """
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"seconds must be a finite number, 0 or more, got {seconds!r}")
    if not (math.isfinite(tick) and tick > 0):
        raise ValueError(f"tick must be a finite number above 0, got {tick!r}")
    # The small allowance keeps 3 x 0.1 at three ticks of 0.1, although it is a hair above them in binary.
    return math.ceil(seconds / tick * (1 - 1e-12)) * tick


def _waves(items: int, limit: int | None) -> int:
    return 1 if limit is None else math.ceil(items / limit)
