"""What a sweep may spend: seconds and calls. A run that would not fit is not started."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from . import strategies
from .actions import NativeAction
from .export import seconds as in_seconds
from .trials import Measured, Trial, many

_LEAST_SECONDS = 1e-3


class Budget:
    """Admits the trials that fit into what is left, and counts those that do not.

    How long a run will take is known from the longest of its point; for a native action's first run from the virtual
    clock; for a callable's first run at least from the shortest mean service time met so far. What takes longer than the
    rest all the same is stopped and counted as left out. On the virtual clock a run's own time costs nothing.
    """

    def __init__(self, seconds: float | None, calls: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._calls = calls
        self._clock = clock
        self._start = clock()
        self._reserved: dict[int, int] = {}  # calls of trials under way, by the trial's id
        self._spent = 0
        self._took: dict[int, float] = {}  # the longest run in seconds, by the point's id
        self._simulated: dict[int, float] = {}
        self._service: float | None = None
        self.over_time = 0
        self.over_calls = 0

    def left(self) -> float | None:
        """Seconds left, or None without a bound."""
        return None if self._seconds is None else max(0.0, self._seconds - (self._clock() - self._start))

    def fitting(self, trials: Iterator[Trial]) -> Iterator[Trial]:
        """The trials that fit, judged one by one at the moment they are asked for."""
        for trial in trials:
            left = self.left()
            if left is not None and (left < _LEAST_SECONDS or self.expected(trial) > left):
                self.over_time += 1
                continue
            calls = trial.point.items
            if self._calls is not None and self._spent + sum(self._reserved.values()) + calls > self._calls:
                self.over_calls += 1
                continue
            trial = trial if left is None or trial.clock == "virtual" else replace(trial, total_timeout=left)
            self._reserved[id(trial)] = calls
            yield trial

    def expected(self, trial: Trial) -> float:
        """Seconds that the trial will take, at least."""
        point = trial.point
        if id(point) in self._took:
            return self._took[id(point)]
        if trial.clock == "virtual":
            return 0.0
        if isinstance(point.action, NativeAction):
            if id(point) not in self._simulated:
                self._simulated[id(point)] = _simulated(trial)
            return self._simulated[id(point)]
        at_once = point.items if point.limit is None else min(point.limit, point.items)
        return 0.0 if self._service is None else self._service * point.items / at_once

    def done(self, trial: Trial, measured: Measured) -> None:
        """Takes account of what a trial really cost."""
        self._reserved.pop(id(trial), None)
        self._spent += measured.calls
        self._took[id(trial.point)] = max(measured.seconds, self._took.get(id(trial.point), 0.0))
        if measured.service is not None:
            self._service = measured.service if self._service is None else min(self._service, measured.service)
        if measured.cut:
            self.over_time += 1

    def notes(self, planned: int) -> Iterator[str]:
        """What was left out, in words."""
        if self.over_time and self._seconds is not None:
            yield f"budget: {self.over_time:,} of {many(planned, 'run')} did not fit into {in_seconds(self._seconds)}."
        if self.over_calls:
            made = f"{many(self._calls or 0, 'call')} ({self._spent:,} made)"
            yield f"max_calls: {self.over_calls:,} of {many(planned, 'run')} did not fit into {made}."


def _simulated(trial: Trial) -> float:
    point = trial.point
    try:
        run = strategies.run(
            point.action,
            trial.items,
            strategy=point.strategy,
            limit=point.limit,
            errors="keep",
            keep="summary",
            clock="virtual",
            seed=trial.seed,
        )
    except Exception:  # the run itself will say it, in a row
        return 0.0
    return run.elapsed
