"""`fw.start`: a long run in the background, and the handle by which it is watched, steered and ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import strategies
from .background import Background
from .checks import check_count, check_seconds
from .options import Options
from .runs import Run
from .source import Source

Action = strategies.Action


@dataclass(frozen=True, slots=True)
class Stats:
    """A run in progress. A native action's are those of up to 50 ms ago, and `active` is None."""

    active: int | None
    """Items in flight."""
    done: int
    """Items that have ended, in whatever state."""
    failed: int
    """Of those, the failed and timed-out ones."""
    total: int | None
    """Where the source has a length."""
    rate: float | None
    """Items done per second since the start; None before the first."""
    eta: float | None
    """Seconds until the end at that rate; None where it is not known."""
    elapsed: float
    """Seconds since the start."""


class RunHandle:
    """A run in the background, as `fw.start` gives it. All its methods may be called from any thread."""

    def __init__(self, action: Any, source: Source, options: Options) -> None:
        self._options = options
        self._background = Background(action, source, options)
        self._action = action
        self._started = time.monotonic()
        self._elapsed: float | None = None
        self._background.start()

    def stats(self) -> Stats:
        """How far the run is."""
        over = self._background.over
        elapsed = time.monotonic() - self._started if self._elapsed is None else self._elapsed
        if over and self._elapsed is None:
            self._elapsed = elapsed
        active, done, failed = self._background.counts()
        total = self._background.source.total
        rate = done / elapsed if done and elapsed > 0 else None
        eta = None if rate is None or total is None else max(0, total - done) / rate
        known = over or self._background.feed is not None
        return Stats(active if known else None, done, failed, total, rate, eta, elapsed)

    @property
    def done(self) -> bool:
        """Whether the run has ended, in whatever way."""
        return self._background.over

    def cancel(self) -> None:
        """As CancelToken.cancel(): within 100 ms nothing new starts; `result()` raises RunCancelled."""
        self._background.cancel()

    def result(self, timeout: float | None = None) -> Run:
        """The run, once it has ended; raises what the strategy itself would raise.

        timeout: seconds; TimeoutError where the run lasts longer, which goes on then.
        """
        if timeout is not None:
            check_seconds("timeout", timeout)
        if not self._background.wait(timeout):
            raise TimeoutError(f"the run has not ended within {timeout:g} s (it goes on; cancel() ends it)")
        record = self._background.record
        assert record is not None  # wait() has raised otherwise
        return strategies.finish(record, self._action, self._background.source, self._options)

    @property
    def limit(self) -> int | None:
        """The most items in flight. For callables under for_each and bounded it may be set while the run goes on.

        More start at once where it is raised; where it is lowered, nothing starts until fewer are in flight.
        """
        feed = self._background.feed
        return self._options.limit if feed is None or self._options.limit is None else feed.limit

    @limit.setter
    def limit(self, limit: int) -> None:
        feed = self._background.feed
        if feed is None:
            raise AttributeError("the limit of a native action is fixed once it runs")
        if self._options.strategy not in ("for_each", "bounded"):
            raise AttributeError(
                f"the limit of {self._options.strategy} is fixed once it runs (for_each and bounded have one to set)"
            )
        feed.limit = check_count("limit", limit, 1, "cancel() ends the run")

    def __repr__(self) -> str:
        stats = self.stats()
        total = "" if stats.total is None else f" of {stats.total:,}"
        return f"<RunHandle: {stats.done:,}{total} done, {stats.failed:,} failed{', ended' if self.done else ''}>"


def start(action: Action, items: Any, *, strategy: str = "bounded", **options: Any) -> RunHandle:
    """Starts a run in the background and returns its handle at once.

    The arguments are those of `fw.run`; the source is asked on a thread of the run's.
    """
    source, chosen = strategies.check(strategy, action, items, options)
    _refuse_progress(chosen.progress)
    return RunHandle(action, source, chosen)


def _refuse_progress(progress: bool | Callable[[Any], object]) -> None:
    if progress is not False:
        raise ValueError("progress is for runs that are waited for (a handle has stats())")
