"""What a table's columns hold, the fixed sets of columns, and how a run becomes a row.

This is the one place of the columns' names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from . import export
from .export import Cell

Kind = Literal["int", "float", "str", "bool"]
Role = Literal["key", "measure", "label"]
Row = Mapping[str, Cell]


@dataclass(frozen=True, slots=True)
class Column:
    """What one column holds.

    `unit` is "s", "1/s", "B", "1" (a ratio, shown in percent), "x" (a factor), "id" (a number to copy), or "".
    `role` is "key" (what was set: rows that agree in all keys repeat one another), "measure" (what came out of the
    run) or "label" (anything else).
    """

    name: str
    kind: Kind
    unit: str = ""
    role: Role = "key"
    help: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or "\0" in self.name or self.name != export.clean(self.name):
            raise ValueError(f"a column's name must be text that every format can write, got {self.name!r}")
        for field, value, allowed in (("kind", self.kind, get_args(Kind)), ("role", self.role, get_args(Role))):
            if value not in allowed:
                raise ValueError(f"{field} of column {self.name!r} must be one of {', '.join(allowed)}, got {value!r}")


# The fixed sets of columns

STATES = ("ok", "failed", "timed_out", "cancelled", "not_started")
QUANTILES = ("mean", "p50", "p90", "p95", "p99", "p99_9", "max")


def _measures() -> Iterator[Column]:
    yield Column("elapsed", "float", "s", "measure", "from just before the first pull to the last finish")
    yield Column("ideal", "float", "s", "measure", "the same service times under the same strategy without overhead")
    yield Column("overhead", "float", "1", "measure", "elapsed / ideal - 1: of scheduling only")
    yield Column("throughput", "float", "1/s", "measure", "items that ended ok, per second elapsed")
    yield Column("peak_in_flight", "int", "", "measure", "most items in flight at once")
    yield Column("effective_limit", "int", "", "measure", "the smallest ceiling that bound")
    yield Column("limited_by", "str", "", "measure", "what that ceiling was")
    for state in STATES:
        yield Column(state, "int", "", "measure", f"items that ended {state}")
    for group, what in (("latency", "service time"), ("wait", "time from the run's start to the item's")):
        for quantile in QUANTILES:
            yield Column(f"{group}_{quantile}", "float", "s", "measure", f"{quantile} of {what}, items that ended ok")


_SET = (
    Column("strategy", "str", "", "key", "the rule that says when the next item may start"),
    Column("limit", "int", "", "key", "how many items may be in flight at once"),
    Column("items", "int", "", "key", "items of the source"),
)
_REPEAT = (
    Column("repeat", "int", "", "label", "number of the repeat, from 0"),
    Column("warmup", "bool", "", "label", "a warm-up run: kept, but in no summary"),
)
_MEASURES = tuple(_measures())
_LAST = (
    Column("clock", "str", "", "key", "real or virtual"),
    Column("seed", "int", "id", "label", "of the drawn times"),
)

COMPARE_COLUMNS = (
    Column("method", "str", "", "key", "the strategy"),
    *_SET[1:],
    _LAST[0],
    replace(_MEASURES[0], name="time"),
    *_MEASURES[1:5],
    Column("engine_bytes_per_item", "float", "B", "measure", "memory of the engine, samples kept"),
    Column("published", "float", "s", "label", "the published .NET figure"),
    Column("note", "str", "", "label"),
)
ERROR = Column("error", "str", "", "label", "why a point of a sweep has no measurement")
STEADY = Column("steady_throughput", "float", "1/s", "measure", "ok items per second while all slots were taken")
"""Beside the other measures where limits are compared: see `steady.py`."""


def sweep_columns(axes: Iterable[str | Column] = ()) -> tuple[str | Column, ...]:
    """The columns of a sweep with `axes` beside strategy, limit and items. The kind of a named axis is its values'."""
    between: list[str | Column] = []
    for axis in axes:
        name = axis.name if isinstance(axis, Column) else axis
        if name in _RESULTS:
            raise ValueError(f"an axis cannot be called {name!r}: a column of the results has that name")
        if name not in _GIVEN:
            between.append(axis)
    return (*_SET, *between, *_REPEAT, *_MEASURES, *_LAST)


_GIVEN = frozenset(column.name for column in (*_SET, *_LAST))
_RESULTS = frozenset(column.name for column in (*_REPEAT, *_MEASURES, ERROR, STEADY))
KNOWN = {c.name: c for c in (ERROR, STEADY, *COMPARE_COLUMNS, *_SET, *_REPEAT, *_MEASURES, *_LAST)}


def run_row(run: Any, *, axes: Mapping[str, object], repeat: int, warmup: bool) -> dict[str, Cell]:
    """One finished run as a row of a sweep. `axes`: the point's values of the axes beside strategy, limit and items."""
    meta = getattr(run, "meta", {})
    told = {**meta, **meta.get("arguments", {})}
    row: dict[str, object] = {
        "strategy": getattr(run, "strategy", told.get("strategy")),
        "limit": run.limit,
        "items": run.counts.total,
    }
    row |= {name: value for name, value in axes.items() if name not in row and name not in _GIVEN}
    row |= {"repeat": repeat, "warmup": warmup}
    for name in ("elapsed", "ideal", "overhead", "throughput", "peak_in_flight", "effective_limit", "limited_by"):
        row[name] = getattr(run, name)
    row |= {state: getattr(run.counts, state) for state in STATES}
    for group in ("latency", "wait"):
        summary = getattr(run, group)
        row |= {f"{group}_{quantile}": getattr(summary, quantile) for quantile in QUANTILES}
    row |= {"clock": told.get("clock"), "seed": told.get("seed")}
    return {name: cell(value) for name, value in row.items()}


# Cells


def cell(value: object) -> Cell:
    """`value` as a table holds it: an int, a finite float, text, a bool or None; nan and inf are None."""
    plain = export.json_safe(value)
    if isinstance(plain, list | dict):
        return export.clean(str(value))
    if isinstance(plain, int) and plain.bit_length() > 1000:
        return hex(plain)  # beyond every float, and soon beyond what Python turns into decimal digits
    return plain


def infer(values: Iterable[Cell]) -> Kind:
    kinds = {type(value) for value in values if value is not None}
    if kinds and kinds <= {int, float}:
        return "float" if float in kinds else "int"
    return "bool" if kinds == {bool} else "str"


def _to_int(value: Cell) -> Cell:
    return int(value) if isinstance(value, int) or (isinstance(value, float) and value.is_integer()) else None


def _to_float(value: Cell) -> Cell:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _to_str(value: Cell) -> Cell:
    return value if isinstance(value, str) else str(value)


def _to_bool(value: Cell) -> Cell:
    return bool(value) if isinstance(value, bool) or value in (0, 1) else None


_CASTS: dict[str, Callable[[Cell], Cell]] = {"int": _to_int, "float": _to_float, "str": _to_str, "bool": _to_bool}


def fit(column: Column, values: Iterable[object]) -> tuple[Cell, ...]:
    """The values as cells of the column's kind; TypeError naming the first that is of another kind."""
    cast_one, out = _CASTS[column.kind], []
    for i, value in enumerate(map(cell, values)):
        fitted = None if value is None else cast_one(value)
        if fitted is None and value is not None:
            raise TypeError(f"column {column.name!r} holds {column.kind}, got {value!r} in row {i}")
        out.append(fitted)
    return tuple(out)


def int_width(values: Iterable[Cell]) -> Literal["int64", "uint64", "wide"]:
    """Which machine integer holds all of the values."""
    numbers = [value for value in values if isinstance(value, int)]
    low, high = min(numbers, default=0), max(numbers, default=0)
    if low >= -(2**63) and high < 2**63:
        return "int64"
    return "uint64" if low >= 0 and high < 2**64 else "wide"
