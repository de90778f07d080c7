"""The driver of native actions: turns checked arguments into one call of the engine."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterator
from typing import Any

from . import _core, machine
from .actions import NativeAction, service
from .distributions import Drawn, constant
from .errors import short
from .options import Options
from .record import Record
from .source import Source

MAX_THREADS = 1024
STOP_SOURCE = 4
"""The engine's number for a source that raised: FW_STOP_SOURCE of csrc/ledger.h."""
NS = 1_000_000_000
SHORTEST_NS = 10_000_000
"""Runs below 10 ms are too short to say that their source bound them."""
Report = Callable[[int, int], object]

_NOTHING: Drawn = constant(0).drawn()


def _ns(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * NS)


def drains(options: Options) -> bool:
    """Whether what is in flight runs to its end when the source raises: where every outcome is to be kept, it does."""
    return options.errors == "keep" and options.max_failures is None


def _call(
    action: NativeAction, drawn: Drawn, options: Options, *, iterator: Any, total: int | None, **given: Any
) -> dict[str, Any]:
    kind, a, b, values = drawn
    arguments = {
        "item_timeout_ns": _ns(options.item_timeout),
        "total_timeout_ns": _ns(options.total_timeout),
        "max_failures": options.max_failures,
        "samples": options.keep != "summary",
        "is_virtual": options.clock == "virtual",
        "origin_ns": 0,
        "cancel": options.cancel,
        "item_is_time": False,
        "report": None,
        "drains": drains(options),
        **given,
    }
    return _core.run(
        strategy=options.strategy,
        action=action.name,
        iterator=iterator,
        total=total,
        limit=options.limit,
        time=(kind, options.seed, a, b, values),
        capacity=action.capacity if isinstance(action, service) else machine.cpus(),
        queue=action.queue if isinstance(action, service) else None,
        max_threads=MAX_THREADS,
        uv_timer=False,
        **arguments,
    )


def simulate(action: NativeAction, drawn: Drawn, total: int, options: Options, *, samples: bool) -> dict[str, Any]:
    """A run on the virtual clock over times that are known; nothing but item_timeout can end an item early.

    Raises what a signal's handler raises meanwhile: a simulation that was interrupted is worth nothing.
    """
    facts = _call(
        action,
        drawn,
        options,
        iterator=None,
        total=total,
        samples=samples,
        is_virtual=True,
        total_timeout_ns=None,
        max_failures=None,
        cancel=None,
    )
    if facts["raised"] is not None:
        raise facts.pop("raised")
    return facts


def iterator_of(items: Any) -> Iterator[Any]:
    """Where making the iterator raises, that is what the source raises when it is first asked."""
    try:
        return iter(items)
    except Exception as error:
        return _raising(error)


def _raising(error: Exception) -> Iterator[Any]:
    def ask() -> Any:
        raise error

    return iter(ask, None)


def close(iterator: Any) -> BaseException | None:
    """Closes a generator, and gives what that raised. Not a file, which also has a close(): that one is the caller's."""
    try:
        if isinstance(iterator, Generator):
            iterator.close()
    except BaseException as error:
        return error
    return None


def _over(options: Options, origin_ns: int) -> Callable[[], bool] | None:
    """Whether a source is being read in vain: what may stop a run stops this, too."""
    cancel, total_ns = options.cancel, _ns(options.total_timeout) if options.clock == "real" else None
    if cancel is None and total_ns is None:
        return None
    return lambda: (
        (cancel is not None and cancel.cancelled) or (total_ns is not None and _core.clock_ns() - origin_ns >= total_ns)
    )


def read_ahead(source: Source, options: Options, origin_ns: int) -> tuple[Source, BaseException | None]:
    """The whole source of when_all as a list, and what it raised. What may stop a run begun at `origin_ns` stops this, too."""
    over = _over(options, origin_ns)
    items, raised = _read(source, over)
    cut_short = raised is not None or (over is not None and over())
    return Source(items, max(len(items), source.total or 0) if cut_short else len(items)), raised


def _read(source: Source, over: Callable[[], bool] | None) -> tuple[list[Any], BaseException | None]:
    items: list[Any] = []
    iterator = None
    try:
        iterator = iter(source.items)
        _append_all(items, iterator, over)
    except BaseException as error:
        return items, close(iterator) or error
    return items, close(iterator)


def _append_all(items: list[Any], iterator: Iterator[Any], over: Callable[[], bool] | None) -> None:
    """A loop of bytecode, so that Ctrl-C ends even an endless one.

    A function of its own: since Python 3.13 a `try` around the loop does not hold what is raised on its way back to the top.
    """
    for item in iterator:
        items.append(item)
        if over is not None and over():
            return


def never_started(source: Source, raised: BaseException) -> Record:
    """The record of a when_all whose source raised: nothing has been started."""
    return Record(ledger=_core.unstarted(source.total or 0, STOP_SOURCE), raised=raised, facts={"driver": "none"})


def _times(items: list[Any]) -> array[int]:
    """The items as their own times in ns; ValueError or TypeError names the first that is none."""
    return array("q", (_core.read_seconds(item, f"the delay of item {index}") for index, item in enumerate(items)))


def execute(
    action: NativeAction,
    source: Source,
    options: Options,
    report: Report | None,
    stop: _core.CancelToken | None = None,
    origin_ns: int | None = None,
) -> tuple[Record, Source]:
    """Runs a native action to its end. Gives the source too, for when_all has read it.

    `stop`: the driver's own token. `origin_ns`: when the run began, where that was before this call.
    """
    drawn: Drawn = ("given", 0.0, 0.0, None) if action.time is None else action.time.drawn()
    began_ns = _core.clock_ns() if origin_ns is None else origin_ns
    counted = source.counted and not action.item_is_time
    if not counted and options.reads_ahead:
        source, raised = read_ahead(source, options, began_ns)
        origin_ns = began_ns
        if raised is not None:
            return never_started(source, raised), source
        if action.item_is_time:
            try:
                drawn = ("per_item", 0.0, 0.0, _times(source.items))
            except (TypeError, ValueError):
                raise
            except BaseException as error:  # an interrupt, while nothing has been started
                return never_started(source, error), source
    pulled = not counted and not options.reads_ahead
    iterator = iterator_of(source.items) if pulled else None
    given = {"report": report, "stop": stop, "item_is_time": pulled and action.item_is_time, "origin_ns": origin_ns or 0}
    try:
        facts = _call(action, drawn, options, iterator=iterator, total=source.total, **given)
    finally:
        raised = close(iterator)
    record = to_record(facts, action, source, options)
    record.raised = record.raised or raised
    if drawn[0] == "per_item":
        record.drawn_ns = drawn[3]
    return record, source


def to_record(facts: dict[str, Any], action: NativeAction, source: Source, options: Options) -> Record:
    """The engine's facts as every driver gives them."""
    ledger = facts["ledger"]
    effective_limit, limited_by = _bound(facts, action, source, options)
    waits = action.name in ("delay", "service")
    real = "timerfd" if facts["uses_timerfd"] else "uv_timer_t" if waits else "monotonic"
    clock = "virtual" if options.clock == "virtual" else real
    record = Record(
        ledger=ledger,
        failures=facts["failures"],
        items=facts["items"],
        raised=facts.pop("raised"),  # the frames of its traceback hold the facts
        effective_limit=effective_limit,
        limited_by=limited_by,
        drawn_ns=None if facts["drawn_ns"] is None else memoryview(facts["drawn_ns"]).cast("q"),
        facts={"driver": "native", "clock_source": clock},
    )
    if facts["threads"]:
        record.facts["threads"] = facts["threads"]
    return record


def _bound(facts: dict[str, Any], action: NativeAction, source: Source, options: Options) -> tuple[int, str]:
    """What bound the run, and the most items that could be in flight.

    The source, where there were items enough and more than half of the time went into asking for them while a slot was free.
    """
    ledger = facts["ledger"]
    total = ledger.total
    limit = total if options.limit is None else options.limit
    threaded = action.name == "cpu" and options.clock == "real"
    ceiling = min(limit, total)
    if facts["threads_refused"]:
        return facts["threads"], "threads"
    if threaded and ceiling > MAX_THREADS:
        return MAX_THREADS, "threads"
    if action.name == "cpu" and ceiling > machine.cpus():
        return ceiling, "cpus"
    if total < limit or options.limit is None:
        return total, "items"
    long_enough = options.clock == "real" and ledger.last_finish_ns >= SHORTEST_NS
    if long_enough and facts["pulling_ns"] * 2 > ledger.last_finish_ns and ledger.peak_in_flight < limit:
        return limit, "source"
    return limit, "limit"


def refuse(action: NativeAction, source: Source, options: Options) -> None:
    """TypeError or ValueError for arguments that only callables take."""
    if source.asynchronous:
        raise TypeError(f"items is an async iterable, which only an async callable can take, got action={short(action)}")
    if options.setup is not None:
        raise ValueError("setup is for callables: a native action takes no second argument")
    if options.loop_factory is not None:
        raise ValueError("loop_factory is for async callables: a native action runs on a loop of its own")
