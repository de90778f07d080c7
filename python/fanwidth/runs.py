"""A run that has ended, as its user sees it: immutable, lazy, picklable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from . import actions, display, stats
from .record import Record

if TYPE_CHECKING:
    import pandas
    import polars

    from ._core import Ledger
    from .options import Options
    from .pickling import SavedLedger
    from .source import Source

STATES = ("ok", "failed", "timed_out", "cancelled", "not_started")
"""How an item can end, by the number that the column `state` holds."""

_STOPS = (None, "failure", "timeout", "cancel", "source", "cancel")
"""By the engine's number; an interrupt is a cancel by hand."""


class Counts(NamedTuple):
    """Items by how they ended; the five add up to `total`."""

    ok: int
    failed: int
    timed_out: int
    cancelled: int
    not_started: int
    total: int


class Samples(NamedTuple):
    """One entry per item in source order, as read-only buffers that `np.asarray` shares.

    `start_ns` and `finish_ns` are int64 since the run's start, -1 for never; `state` is int8, an index into `fw.STATES`.
    """

    start_ns: memoryview
    finish_ns: memoryview
    state: memoryview


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one item ended. `start` and `finish` are seconds since the run's start, None for never."""

    index: int
    item: Any
    state: str
    result: Any
    exception: BaseException | None
    start: float | None
    finish: float | None

    def get(self) -> Any:
        """The result of an ok item; raises the exception of any other."""
        if self.state == "ok":
            return self.result
        if self.exception is not None:
            raise self.exception
        raise LookupError(f"item {self.index} has no result: it was {self.state.replace('_', ' ')}")


class Lazy(Sequence[Any]):
    """A read-only sequence that makes its members when they are asked for. Equal to any sequence of equal members."""

    __slots__ = ("_get", "_length")

    def __init__(self, length: int, get: Callable[[int], Any]) -> None:
        self._length = length
        self._get = get

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        places = range(self._length)[index]
        return [self._get(place) for place in places] if isinstance(places, range) else self._get(places)

    def __iter__(self) -> Iterator[Any]:
        return map(self._get, range(self._length))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str | bytes) or not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine is theirs or mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # compared by value, like a list

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)  # a view without its run is a list

    def __repr__(self) -> str:
        shown = ", ".join(repr(self._get(i)) for i in range(min(self._length, 6)))
        return f"[{shown}{', ...' if self._length > 6 else ''}]" + (f" ({self._length:,} in all)" if self._length > 6 else "")


class Run:
    """What a run did: how its items ended, how long it took, what bound it.

    Times are seconds. What `keep` did not keep is a ValueError when asked for.
    """

    def __init__(self, record: Record, action: Any, source: Source, options: Options) -> None:
        ledger = record.ledger
        state = self.__dict__
        state["_ledger"] = ledger
        state["_options"] = options
        state["_action"] = action
        state["_results"] = record.results
        state["_items"] = _items_kept(source, record)
        state["_drawn_ns"] = record.drawn_ns
        state["_facts"] = record.facts
        state["_failures"] = {index: (item, exception) for index, item, exception in record.failures}
        state["strategy"] = options.strategy
        state["limit"] = options.limit
        state["effective_limit"] = record.effective_limit
        state["limited_by"] = record.limited_by
        ended = ledger.counts
        state["counts"] = Counts(*ended, sum(ended))

    _ledger: Ledger | SavedLedger
    _options: Options
    _action: Any
    _results: list[Any] | None
    _items: Any
    _drawn_ns: Any
    _facts: dict[str, Any]
    _failures: dict[int, tuple[Any, BaseException]]

    strategy: str
    limit: int | None
    """As given, or the strategy's default; None where there is none."""
    effective_limit: int | None
    """The most items that could be in flight: lower than `limit` where something else bound it, see `limited_by`."""
    limited_by: str
    """What bound the run: one of limit, items, source, consumer, threads, cpus, files, gil."""
    counts: Counts

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Run is immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Run is immutable: cannot delete {name!r}")

    # --- how it ended

    @property
    def ok(self) -> bool:
        """Whether every item ended ok."""
        return self.counts.ok == self.counts.total

    @property
    def stopped_by(self) -> str | None:
        """None: it ran to its end; else what stopped it: failure, cancel, timeout or source."""
        return _STOPS[self._ledger.stop]

    @property
    def elapsed(self) -> float:
        """Seconds from just before the first pull to the last finish."""
        return self._ledger.last_finish_ns / stats.NS

    @property
    def throughput(self) -> float | None:
        """Ok items per second; 0 without any, None where no time passed."""
        if self.counts.ok == 0:
            return 0.0
        return self.counts.ok / self.elapsed if self.elapsed > 0 else None

    @property
    def peak_in_flight(self) -> int:
        """The most items that were in flight at once."""
        return self._ledger.peak_in_flight

    @property
    def engine_bytes(self) -> int:
        """Memory that the engine held at the most: samples and its own structures, not the results."""
        return self._ledger.bytes

    # --- item by item

    @property
    def samples(self) -> Samples:
        """Start, finish and state of every item. The views are the caller's own: releasing them harms nobody."""
        return Samples(*(column[:] for column in self._columns))

    @cached_property
    def _columns(self) -> Samples:
        columns = self._ledger.columns()
        if columns is None:
            raise ValueError('samples were not kept: keep="summary" (use keep="samples" or "all")')
        return Samples(*columns)

    @property
    def results(self) -> Lazy:
        """Results in source order, None where an item is not ok. A native action's result is its item's index."""
        if self._options.keep != "all":
            raise ValueError(f'results were not kept: keep="{self._options.keep}" (use keep="all")')
        return Lazy(self.counts.total, self._result)

    def _result(self, index: int) -> Any:
        if self._results is not None:
            return self._results[index] if index < len(self._results) else None
        return index if self._columns.state[index] == 0 else None

    @property
    def outcomes(self) -> Lazy:
        """An Outcome for every item, in source order."""
        self._need_items("outcomes")
        return Lazy(self.counts.total, self._outcome)

    @property
    def errors(self) -> Lazy:
        """The outcomes of the items that failed or timed out, in source order."""
        self._need_items("errors")
        indices = self._failed_indices
        return Lazy(len(indices), lambda place: self._outcome(indices[place]))

    @cached_property
    def _failed_indices(self) -> list[int]:
        """Kept instead of the view, which refers to the run: a run in a cycle would wait for the garbage collector."""
        if self.counts.failed + self.counts.timed_out == 0:
            return []
        return [index for index, state in enumerate(self._columns.state) if state in (1, 2)]

    def _need_items(self, what: str) -> None:
        if self._options.keep == "summary":
            raise ValueError(f'{what} were not kept: keep="summary" (use keep="samples" or "all")')

    def _outcome(self, index: int) -> Outcome:
        start_ns, finish_ns, state = (column[index] for column in self._columns)
        item, exception = self._failures.get(index, (None, None))
        if index not in self._failures:
            item = self._item(index)
            exception = self._missing_exception(index, state)
        return Outcome(
            index=index,
            item=item,
            state=STATES[state],
            result=self._result(index) if state == 0 and self._options.keep == "all" else None,
            exception=exception,
            start=None if start_ns < 0 else start_ns / stats.NS,
            finish=None if finish_ns < 0 else finish_ns / stats.NS,
        )

    def _item(self, index: int) -> Any:
        if isinstance(self._items, dict):
            return self._items.get(index)
        return self._items[index] if index < len(self._items) else None

    def _missing_exception(self, index: int, state: int) -> BaseException | None:
        """The native driver leaves the exceptions of its own failures to be made here."""
        if STATES[state] == "failed":
            from .errors import QueueFull

            return QueueFull(f"item {index} found the queue of {actions.describe(self._action)} full")
        if STATES[state] != "timed_out":
            return None
        took = (self._columns.finish_ns[index] - self._columns.start_ns[index]) / stats.NS
        item_timeout, total_timeout = self._options.item_timeout, self._options.total_timeout
        if item_timeout is not None and took >= item_timeout:
            return TimeoutError(f"item {index} took longer than its item_timeout of {item_timeout:g} s")
        return TimeoutError(f"item {index} was in flight when the total_timeout of {total_timeout:g} s was over")

    # --- times

    @cached_property
    def latency(self) -> stats.Summary:
        """Service times of the ok items: from an item's start to its finish."""
        tallies = self._ledger.tallies()
        if tallies is not None:
            return stats.of_tally(tallies[0])
        return stats.of_columns(self._columns.start_ns, self._columns.finish_ns, self._columns.state)

    @cached_property
    def wait(self) -> stats.Summary:
        """Times from the run's start to the start of each ok item."""
        tallies = self._ledger.tallies()
        if tallies is not None:
            return stats.of_tally(tallies[1])
        return stats.of_columns(None, self._columns.start_ns, self._columns.state)

    @cached_property
    def ideal(self) -> float | None:
        """Seconds that the same service times take under the same strategy with no overhead, computed on the virtual clock.

        Drawn times for native actions, measured ones for callables. None where an item was cancelled or not started, where the
        times were not kept, or where it would be 0.
        """
        from . import replay

        return replay.ideal(self)

    @property
    def overhead(self) -> float | None:
        """elapsed / ideal - 1: what scheduling cost. It does not say whether the limit is right."""
        return None if self.ideal is None else self.elapsed / self.ideal - 1

    def replay(self, *, strategy: str | None = None, limit: int | None = None) -> Run:
        """The same service times under another rule, on the virtual clock.

        It assumes times that do not depend on the limit: a downstream that slows down under load is not in it.
        ValueError where an item was cancelled or not started, or where the times were not kept.
        """
        from . import replay

        return replay.replay(self, strategy=strategy, limit=limit)

    # --- the whole

    @property
    def meta(self) -> dict[str, Any]:
        """Versions, machine, clock source, seed and arguments of the run. A copy: the run does not change with it."""
        return {**self._meta, "arguments": dict(self._meta["arguments"])}

    @cached_property
    def _meta(self) -> dict[str, Any]:
        from . import machine

        options = self._options
        arguments = {
            name: getattr(options, name)
            for name in ("limit", "max_failures", "errors", "item_timeout", "total_timeout", "keep", "clock")
        }
        return {
            **machine.describe(),
            **self._facts,
            "seed": options.seed,
            "action": actions.describe(self._action),
            "strategy": self.strategy,
            "arguments": arguments,
        }

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain data: what JSON takes, with the first failures as text."""
        from .errors import short

        failures = [] if self._options.keep == "summary" else self.errors[:10]
        return {
            "strategy": self.strategy,
            "action": actions.describe(self._action),
            "ok": self.ok,
            "counts": self.counts._asdict(),
            "stopped_by": self.stopped_by,
            "elapsed": self.elapsed,
            "ideal": self.ideal,
            "overhead": self.overhead,
            "throughput": self.throughput,
            "limit": self.limit,
            "effective_limit": self.effective_limit,
            "limited_by": self.limited_by,
            "peak_in_flight": self.peak_in_flight,
            "engine_bytes": self.engine_bytes,
            "latency": self.latency.to_dict(),
            "wait": self.wait.to_dict(),
            "errors": [
                {"index": o.index, "item": short(o.item), "state": o.state, "exception": short(o.exception, 200)}
                for o in failures
            ],
            "meta": self.meta,
        }

    def to_records(self) -> list[dict[str, Any]]:
        """One dict per item: index, item, state, result, error, wait, latency, start, finish."""
        from . import items

        return items.to_records(self)

    def to_pandas(self) -> pandas.DataFrame:
        """One row per item as a pandas DataFrame; ints stay ints. Needs the extra [pandas]."""
        from . import items

        return items.to_pandas(self)

    def to_polars(self) -> polars.DataFrame:
        """One row per item as a polars DataFrame. Needs polars."""
        from . import items

        return items.to_polars(self)

    def __reduce__(self) -> tuple[Any, ...]:
        from . import pickling

        return pickling.reduce_run(self)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        from . import pickling

        return pickling.reduce_run(self, int(protocol))

    def __str__(self) -> str:
        return "\n".join(display.lines(self))

    def __repr__(self) -> str:
        return f"<Run: {display.headline(self)}>"

    def _repr_html_(self) -> str:
        import html

        return display.card(self, html.escape)


def _items_kept(source: Source, record: Record) -> Any:
    """Items by index where that costs nothing, else those of failures."""
    if isinstance(source.items, range | list | tuple):
        return source.items
    return record.items
