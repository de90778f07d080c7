"""for_each, when_all, bounded and chunked: check the arguments, pick a driver, raise by the table of ends or return a Run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from . import native
from .actions import NativeAction
from .errors import RunCancelled, RunTimeout, run_failed
from .options import DEFAULT, Clock, Default, ErrorPolicy, Keep, Options, check_options
from .record import Record
from .runs import Run
from .source import Source, check_action, check_source, close_coroutines

if TYPE_CHECKING:
    from .progress import Reporter

Action = NativeAction | Callable[..., Any]


def for_each(
    action: Action,
    items: Any,
    *,
    limit: int | None = None,
    max_failures: int | Default | None = DEFAULT,
    errors: ErrorPolicy = "raise",
    item_timeout: float | None = None,
    total_timeout: float | None = None,
    cancel: Any = None,
    setup: Callable[[], Any] | None = None,
    keep: Keep = "all",
    clock: Clock = "real",
    seed: int | None = None,
    progress: bool | Callable[[Any], object] = False,
    loop_factory: Callable[[], Any] | None = None,
) -> Run:
    """Like Parallel.ForEachAsync: `limit` workers (default: the CPUs available), items pulled lazily, the first failure stops.

    action: what is done to an item: a native action such as `fw.delay(0.05)`, a sync callable or an async one.
    items: an int n (the items are 0 .. n - 1), an iterable or, for async callables, an async iterable.
    limit: the most items in flight, >= 1.
    max_failures: when more items than this have failed, nothing new starts (0); None: never stop for failures.
    errors: "raise": RunFailed after the end where items failed; "keep": return the run.
    item_timeout, total_timeout: seconds, > 0; from an item's own start, and of the whole run.
    cancel: a CancelToken.
    setup: callables only: gives a value or context manager whose value is the action's second argument.
    keep: "all"; "samples": no results; "summary": counts and statistics alone, in constant memory.
    clock: "real", or "virtual" for native actions: the same engine, without waiting.
    seed: an int >= 0 for the drawn times; None draws one and records it in `run.meta`.
    progress: True for a bar or lines on stderr; or a callable that is given a Progress at most 10 times a second.
    loop_factory: async callables only: makes the event loop.

    Returns a Run. Raises RunFailed, RunTimeout, RunCancelled (all with `.run`), what the source raises, KeyboardInterrupt;
    TypeError or ValueError for wrong arguments, before anything starts.
    """
    return _run("for_each", action, items, locals())


def when_all(
    action: Action,
    items: Any,
    *,
    limit: None = None,
    max_failures: int | Default | None = DEFAULT,
    errors: ErrorPolicy = "raise",
    item_timeout: float | None = None,
    total_timeout: float | None = None,
    cancel: Any = None,
    setup: Callable[[], Any] | None = None,
    keep: Keep = "all",
    clock: Clock = "real",
    seed: int | None = None,
    progress: bool | Callable[[Any], object] = False,
    loop_factory: Callable[[], Any] | None = None,
) -> Run:
    """Like Task.WhenAll or asyncio.gather: the whole source is read first, then everything starts at once.

    There is no limit; failures do not stop it unless `max_failures` says so. All else as in `for_each`.
    """
    return _run("when_all", action, items, locals())


def bounded(
    action: Action,
    items: Any,
    *,
    limit: int | None = None,
    max_failures: int | Default | None = DEFAULT,
    errors: ErrorPolicy = "raise",
    item_timeout: float | None = None,
    total_timeout: float | None = None,
    cancel: Any = None,
    setup: Callable[[], Any] | None = None,
    keep: Keep = "all",
    clock: Clock = "real",
    seed: int | None = None,
    progress: bool | Callable[[Any], object] = False,
    loop_factory: Callable[[], Any] | None = None,
) -> Run:
    """Like SemaphoreSlim + Task.WhenAll: at most `limit` items in flight; failures do not stop it.

    `limit` is required. Unlike its model it pulls items as slots become free, in O(limit) memory. All else as in `for_each`.
    """
    return _run("bounded", action, items, locals())


def chunked(
    action: Action,
    items: Any,
    *,
    limit: int | None = None,
    max_failures: int | Default | None = DEFAULT,
    errors: ErrorPolicy = "raise",
    item_timeout: float | None = None,
    total_timeout: float | None = None,
    cancel: Any = None,
    setup: Callable[[], Any] | None = None,
    keep: Keep = "all",
    clock: Clock = "real",
    seed: int | None = None,
    progress: bool | Callable[[Any], object] = False,
    loop_factory: Callable[[], Any] | None = None,
) -> Run:
    """Like Chunk(n) + WhenAll per chunk: `limit` items start together, the next ones only when the slowest of them has ended.

    The common mistake, kept to show what it costs: use `bounded`. All else as in `for_each`; `limit` is required.
    """
    return _run("chunked", action, items, locals())


def run(action: Action, items: Any, *, strategy: str, **options: Any) -> Run:
    """A run under a strategy by name: "for_each", "when_all", "bounded" or "chunked". The other arguments are theirs."""
    return _run(strategy, action, items, options)


def _run(strategy: str, action: Any, items: Any, given: dict[str, Any]) -> Run:
    source, options = check(strategy, action, items, given)
    return execute(action, source, options)


def check(strategy: str, action: Any, items: Any, given: dict[str, Any]) -> tuple[Source, Options]:
    """All arguments of a run; ValueError or TypeError names what is wrong with which of them. Nothing is pulled."""
    try:
        return _check(strategy, action, items, given)
    except (TypeError, ValueError):
        close_coroutines(items)
        raise


def _check(strategy: str, action: Any, items: Any, given: dict[str, Any]) -> tuple[Source, Options]:
    options = check_options(strategy, **{name: value for name, value in given.items() if name not in ("action", "items")})
    check_action(action, items)
    source = check_source(items)
    if isinstance(action, NativeAction):
        native.refuse(action, source, options)
    elif options.clock == "virtual":
        raise ValueError(
            'clock="virtual" needs a native action, whose times are drawn (for a callable: run it once, then run.replay(...))'
        )
    return source, options


def execute(action: Action, source: Source, options: Options) -> Run:
    """Runs checked arguments to their end."""
    report = reporting(options, source)
    try:
        record, source = _drive(action, source, options, report)
    except BaseException:
        if report is not None:
            report.abandon()
        raise
    if report is not None:
        report.close(record)
    return finish(record, action, source, options)


class Reporting:
    """The progress of one run, which no warning ends in its middle, where the user has made warnings errors."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._held: Warning | None = None

    def __call__(self, done: int, failed: int) -> None:
        try:
            self._reporter(done, failed)
        except Warning as warning:
            self._held = warning

    def close(self, record: Record) -> None:
        """The last progress. What it raises is no less than what a job or the source raises: it must not take the run along."""
        counts = record.ledger.counts
        try:
            self._reporter.close(sum(counts[:4]), counts[1] + counts[2])
        except BaseException as error:
            record.raised = record.raised or error
        record.raised = record.raised or self._held

    def abandon(self) -> None:
        """The run has no record, and something else is on its way to the caller."""
        with contextlib.suppress(Warning):
            self._reporter.close()


def reporting(options: Options, source: Source) -> Reporting | None:
    """What tells of the progress, where it is wanted."""
    from .progress import reporter

    made = None if options.progress is False else reporter(options.progress, source.total)
    return None if made is None else Reporting(made)


def _drive(action: Action, source: Source, options: Options, report: native.Report | None) -> tuple[Record, Source]:
    if isinstance(action, NativeAction):
        return native.execute(action, source, options, report)
    from .feed import driver_of

    return driver_of(action, source)(action, source, options, report), source


def finish(record: Record, action: Action, source: Source, options: Options) -> Run:
    """The run, or what the table of ends says is to be raised."""
    run = Run(record, action, source, options)
    if record.raised is not None:
        raised, record.raised = [record.raised], None
        _raise(raised.pop(), run)
    if run.stopped_by == "cancel":
        _raise(RunCancelled(f"the run was cancelled: {_done(run)}"), run)
    if options.errors == "keep":
        return run
    if run.stopped_by == "timeout":
        _raise(RunTimeout(f"the run took longer than its total_timeout of {options.total_timeout:g} s: {_done(run)}"), run)
    if run.counts.failed or run.counts.timed_out:
        raise _summary_failure(run) if options.keep == "summary" else run_failed(run)
    return run


def _done(run: Run) -> str:
    return f"{run.counts.ok:,} of {run.counts.total:,} items were ok (what was done is in .run)"


def _raise(exception: BaseException, run: Run) -> NoReturn:
    try:
        with contextlib.suppress(AttributeError):  # an exception of the user's may have no room for it
            exception.run = run  # type: ignore[attr-defined]
        raise exception
    finally:
        del exception, run  # an exception refers to this frame: a cycle would keep the run until somebody collects


def _summary_failure(run: Run) -> BaseException:
    """keep="summary" has the number of the failures and nothing else of them."""
    from .errors import failed_run

    failed = run.counts.failed + run.counts.timed_out
    message = f'{failed:,} of {run.counts.total:,} items failed; keep="summary" kept their number alone'
    return failed_run(message, [RuntimeError(message)], run)
