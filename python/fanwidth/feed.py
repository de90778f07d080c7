"""What the two drivers of Python callables have in common: a `_core.Feed` before the run, a `Record` after it."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from types import GeneratorType
from typing import Any

from . import _core, native
from .errors import KEPT_FAILURES
from .options import Options
from .record import Record
from .source import Source

Report = Callable[[int, int], object]

TICK_SECONDS = 0.05
"""How often a driver looks at the cancel token and reports."""
MAX_THREADS = 1024
"""Of when_all, which names no limit."""
FAILURE, TIMEOUT, CANCEL, SOURCE, INTERRUPT = 1, 2, 3, 4, 5
"""Why a run stops, as csrc/ledger.h numbers it."""

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Tap:
    """What a stream or a handle wants of a run in progress."""

    opened: Callable[[_core.Feed], object]
    """Called with the feed before anything starts."""
    buffer: int | None = None
    """Outcomes go to `feed.collect()` instead of being kept, and nothing starts while so many have not been taken."""
    ended: Callable[[Record], object] | None = None
    """Called with the record of a run whose task was cancelled, and has nothing to return."""


def cause_of(error: BaseException) -> int:
    """What stops a run that an exception has come into from outside its items."""
    return INTERRUPT if isinstance(error, KeyboardInterrupt | SystemExit) else SOURCE


_EXAMPLES: tuple[Any, ...] = ([], (), {}, {}.values(), set(), "", b"", range(1), range(2**70), reversed([]))

# The iterators of these types run no Python code of anybody's and make no containers, which could start the garbage collector
# and with it finalizers: threads may advance them one by one under the GIL.
_PLAIN = frozenset(type(iter(each)) for each in _EXAMPLES)
_COLLECTS_ANYWHERE = sys.version_info < (3, 12)
"""Later Pythons collect garbage between bytecodes only."""


def runs_bytecode(iterator: Any) -> bool:
    """Whether next() may run Python code: then the source is asked on the calling thread alone."""
    if type(iterator) in (zip, enumerate) and not _COLLECTS_ANYWHERE:
        return any(runs_bytecode(part) for part in iterator.__reduce__()[1] if not isinstance(part, int))
    return type(iterator) not in _PLAIN


def is_async(action: Any) -> bool:
    """Whether calling `action` gives a coroutine: an async function or method, a partial of one, or an object with an async call.

    A sync callable that returns an awaitable is found out when it is first called.
    """
    while isinstance(action, functools.partial):
        action = action.func
    return inspect.iscoroutinefunction(action) or inspect.iscoroutinefunction(type(action).__call__)


def driver_of(action: Any, source: Source) -> Callable[..., Record]:
    """What runs a callable from sync code: execute(action, source, options, report, tap)."""
    if is_async(action) or source.asynchronous:
        from . import loop

        return loop.execute
    from . import threads

    return threads.execute


def open_feed(
    action: Any, source: Source, options: Options, tap: Tap | None, *, on_loop: bool
) -> tuple[_core.Feed, Iterator[Any] | AsyncIterator[Any] | None]:
    """The feed, whose clock starts now, and the iterator of the source; None where making it raised, which ends the run."""
    error: BaseException | None = None
    iterator: Any = None
    try:
        iterator = aiter(source.items) if source.asynchronous else iter(source.items)
    except BaseException as raised:
        error = raised
    reads = runs_bytecode(iterator)
    asyncio = sys.modules.get("asyncio")
    buffer = None if tap is None else tap.buffer
    feed = _core.Feed(
        action,
        None if source.asynchronous else iterator,
        strategy=_core.strategies.index(options.strategy),
        limit=options.limit,
        known=source.total,
        by_offer=source.asynchronous or (reads and not on_loop),
        runs_bytecode=reads,
        samples=options.keep != "summary",
        results=options.keep == "all" and buffer is None,
        failures_kept=KEPT_FAILURES if options.keep == "summary" else None,
        max_failures=options.max_failures,
        buffer=buffer,
        cancel=options.cancel,
        item_timeout=options.item_timeout,
        total_timeout=None if on_loop else options.total_timeout,
        item_timeout_text=_seconds(options.item_timeout),
        total_timeout_text=_seconds(options.total_timeout),
        has_setup=options.setup is not None,
        drains=native.drains(options),
        most_threads=options.limit,
        cancelled_error=None if asyncio is None else asyncio.CancelledError,
    )
    if tap is not None:
        tap.opened(feed)
    if error is not None:
        feed.stop(cause_of(error), error)
    elif options.reads_ahead and not source.asynchronous:
        feed.read()
    return feed, iterator


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def close_source(feed: _core.Feed, iterator: Any) -> None:
    """A generator that has not come to its end learns that it will not be asked again."""
    if not isinstance(iterator, GeneratorType):
        return
    try:
        feed.close_source(iterator)
    except BaseException as error:
        feed.stop(SOURCE, error)


def report_progress(feed: _core.Feed, report: Report | None) -> None:
    if report is not None:
        counts = feed.ledger.counts
        report(sum(counts[:4]), counts[1] + counts[2])


def to_record(feed: _core.Feed, options: Options, facts: dict[str, Any], *, refused: bool = False) -> Record:
    """Seals the run. `refused`: the system gave fewer threads than were wanted."""
    feed.seal()
    effective_limit, limited_by = _bound(feed, options, facts.get("threads", 0), refused)
    record = Record(
        ledger=feed.ledger,
        results=feed.results,
        failures=sorted(feed.failures, key=lambda failure: failure[0]),
        raised=feed.raised,
        effective_limit=effective_limit,
        limited_by=limited_by,
        facts={"clock_source": "monotonic", **facts},
    )
    if options.keep != "summary" and feed.items is not None:
        record.items = feed.items
    return record


def _bound(feed: _core.Feed, options: Options, threads: int, refused: bool) -> tuple[int, str]:
    """What bound the run, and the most items that could be in flight.

    consumer: a full buffer let nothing start for more than half of the time. source: it was being asked, so a slot was
    free, for more than half of the time. gil: the CPU times of all threads add up to the run's own time, from 0.8 to 1.1
    times: they took turns. With less they waited, with more they ran on several CPUs, both without the GIL.
    """
    ledger = feed.ledger
    elapsed = ledger.last_finish_ns
    limit = ledger.total if options.limit is None else feed.limit
    long = elapsed >= native.SHORTEST_NS
    if refused:
        return threads, "threads"
    if options.limit is None and threads and ledger.total > MAX_THREADS:  # also where they were never all busy
        return MAX_THREADS, "threads"
    if feed.held_ns * 2 > elapsed > 0:
        return limit, "consumer"
    if long and feed.pulling_ns * 2 > elapsed and ledger.peak_in_flight < limit:
        return limit, "source"
    if long and ledger.peak_in_flight > 1 and 0.8 <= feed.cpu_ns / elapsed <= 1.1:
        return min(limit, ledger.total), "gil"
    return (ledger.total, "items") if ledger.total < limit or options.limit is None else (limit, "limit")
