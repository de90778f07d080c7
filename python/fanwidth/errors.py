"""What a run raises. Every one of these carries the run, with all that was done, as `.run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .runs import Outcome, Run

KEPT_FAILURES = 1_000
"""A RunFailed holds this many exceptions; the run itself has all of them."""
KEPT_TRACEBACKS = 100
NAMED_FAILURES = 3


class RunCancelled(Exception):
    """The run's CancelToken was cancelled. `.run` has what was done until then."""

    run: Run


class RunTimeout(TimeoutError):
    """The run took longer than its `total_timeout`. `.run` has what was done until then."""

    run: Run


class RunFailed(ExceptionGroup[Exception]):
    """Items failed or timed out. A plain `except ValueError` does not catch it: use `except*`, or read `.run.errors`.

    It holds the exceptions of the first 1,000 failures in the order of the items; `.run.errors` has all of them.
    """

    run: Run

    def derive(self, excs: Sequence[Exception], /) -> RunFailed:  # type: ignore[override]  # typeshed's is generic
        return failed_run(self.message, excs, self.run)

    def __reduce__(self) -> tuple[Any, ...]:
        from .pickling import portable_all

        return failed_run, (self.message, portable_all(list(self.exceptions)), self.run)


class QueueFull(Exception):
    """A `fw.service` turned an item away because its queue was full."""


class Unpicklable(Exception):
    """Stands in a pickled run for an exception that could not be pickled: `type` is its class's name, `text` its message."""

    def __init__(self, type: str, text: str) -> None:
        super().__init__(type, text)
        self.type = type
        self.text = text

    def __str__(self) -> str:
        return f"{self.type}: {self.text}"


def failed_run(message: str, exceptions: Sequence[Exception], run: Run) -> RunFailed:
    group = RunFailed(message, exceptions)
    group.run = run
    return group


def short(value: object, width: int = 60) -> str:
    """The repr of a user's value, cut to `width` characters; a repr that raises does not hide the failure it belongs to."""
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__}: its repr raised {type(error).__name__}>"
    return text if len(text) <= width else text[: width - 3] + "..."


def _groupable(exception: BaseException) -> Exception:
    if isinstance(exception, Exception):
        return exception
    wrapped = RuntimeError(f"the item raised {short(exception)}, which no exception group can hold")
    wrapped.__cause__ = exception
    return wrapped


def _named(outcome: Outcome) -> str:
    where = f"item {outcome.index}"
    if outcome.item is not None and outcome.item != outcome.index:
        where += f" ({short(outcome.item)})"
    return f"{where}: {short(outcome.exception, 120)}"


def run_failed(run: Run) -> RunFailed:
    """The RunFailed of a run with failed or timed-out items."""
    errors = run.errors
    kept = [errors[i] for i in range(min(len(errors), KEPT_FAILURES))]
    exceptions = [_groupable(outcome.exception) for outcome in kept if outcome.exception is not None]
    for exception in exceptions[KEPT_TRACEBACKS:]:
        exception.__traceback__ = None
    names = "; ".join(_named(outcome) for outcome in kept[:NAMED_FAILURES])
    more = f"; and {len(errors) - NAMED_FAILURES:,} more" if len(errors) > NAMED_FAILURES else ""
    message = f"{len(errors):,} of {run.counts.total:,} items failed: {names}{more} (all results are in .run)"
    return failed_run(message, exceptions, run)
