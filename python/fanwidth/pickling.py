"""Runs as pickles: no tracebacks, no tokens or callbacks; what cannot be pickled becomes an Unpicklable that says what it was."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from .actions import describe
from .errors import Unpicklable, short

if TYPE_CHECKING:
    from .runs import Run


@dataclass(frozen=True)
class SavedLedger:
    """A `_core.Ledger` that has been through a pickle: the same attributes over buffers of its own."""

    counts: tuple[int, int, int, int, int]
    pulled: int
    started: int
    finished: int
    total: int
    limit: int
    peak_in_flight: int
    bytes: int
    last_finish_ns: int
    stop: int
    saved_columns: tuple[memoryview, memoryview, memoryview] | None
    saved_tallies: Any

    def columns(self) -> tuple[memoryview, memoryview, memoryview] | None:
        return self.saved_columns

    def tallies(self) -> Any:
        return self.saved_tallies


_PLAIN = ("counts", "pulled", "started", "finished", "total", "limit", "peak_in_flight", "bytes", "last_finish_ns", "stop")


@dataclass(frozen=True)
class SavedAction:
    """The name of a callable that could not be pickled."""

    __qualname__: str


def _survives(value: Any) -> bool:
    """Whether a value comes back from a pickle: an exception that takes two arguments may go in and not come out."""
    try:
        pickle.loads(pickle.dumps(value, protocol=5))
    except Exception:
        return False
    return True


def portable(value: Any) -> Any:
    """The value itself where it survives pickling, else an Unpicklable that names it."""
    if isinstance(value, int | float | str | bytes | None) or _survives(value):
        return value
    text = str(value) if isinstance(value, BaseException) else short(value, 200)
    return Unpicklable(type(value).__name__, text)


def portable_all(values: list[Any]) -> list[Any]:
    """The values, each portable; at the price of one pickle where all of them are."""
    return values if _survives(values) else [portable(value) for value in values]


def _buffer(view: memoryview, protocol: int) -> Any:
    # Out of band with protocol 5: whoever sends the pickle need not copy the samples.
    return pickle.PickleBuffer(view) if protocol >= 5 else view.tobytes()


def reduce_run(run: Run, protocol: int = 2) -> tuple[Any, ...]:
    ledger = run._ledger
    columns = ledger.columns()
    run._meta  # noqa: B018  # the machine of this process, before the run leaves it
    state = {name: value for name, value in run.__dict__.items() if name not in _DERIVED}
    state["_ledger"] = {name: getattr(ledger, name) for name in _PLAIN}
    state["_failures"] = {i: (portable(item), portable(exception)) for i, (item, exception) in run._failures.items()}
    state["_options"] = replace(run._options, cancel=None, setup=None, progress=False, loop_factory=None)
    state["_action"] = run._action if _survives(run._action) else SavedAction(describe(run._action))
    state["_results"] = None if run._results is None else portable_all(run._results)
    state["_items"] = _items(run)
    state["_drawn_ns"] = None if run._drawn_ns is None else bytes(run._drawn_ns)
    saved = None if columns is None else tuple(_buffer(column, protocol) for column in columns)
    return restore_run, (state, saved, ledger.tallies())


_DERIVED = ("_columns", "_failed_indices", "latency", "wait")
"""Cached properties, which the loaded run makes again. `_meta` is not one of them: it tells of the machine that ran it."""


def _items(run: Run) -> Any:
    """Failed items only: the others are the caller's data, which would travel with every run."""
    if isinstance(run._items, range) or run._options.keep == "summary":
        return run._items if isinstance(run._items, range) else {}
    return {outcome.index: portable(outcome.item) for outcome in run.errors}


def restore_run(state: dict[str, Any], columns: tuple[Any, Any, Any] | None, tallies: Any) -> Run:
    from .runs import Run

    views = None
    if columns is not None:
        start, finish, ended = (memoryview(column).toreadonly() for column in columns)
        views = (_cast(start, "q"), _cast(finish, "q"), _cast(ended, "b"))
    run = Run.__new__(Run)
    run.__dict__.update(state)
    run.__dict__["_ledger"] = SavedLedger(**state["_ledger"], saved_columns=views, saved_tallies=tallies)
    if state["_drawn_ns"] is not None:
        run.__dict__["_drawn_ns"] = memoryview(state["_drawn_ns"]).cast("q")
    return run


def _cast(view: memoryview, form: Literal["q", "b"]) -> memoryview:
    return view if view.format == form else view.cast("B").cast(form)
