"""Repeated runs taken together: medians over repeats and ratios to a baseline, by the rules told at Table's methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .columns import Column, Row
from .export import Cell
from .statistics import bootstrap_interval, median
from .table import Table

Point = tuple[Cell, ...]  # the values of the key columns

_REPEATS = Column("repeats", "int", "", "label", "runs summed up, warm-up runs left out")
_PARTS = (("median", "median"), ("min", "least"), ("max", "most"))
_SUMMARY_NOTE = (
    "Median, min and max are over repeats, warm-up runs left out; "
    "a percentile is that of single runs, never that of all their items."
)


def summary(table: Table, measures: str | Iterable[str] | None) -> Table:
    """What `Table.summary` returns."""
    wanted = [measures] if isinstance(measures, str) else measures
    if wanted is None:
        chosen = [column for column in table.schema if column.role == "measure"]
    else:
        chosen = [table.column(name) for name in wanted]
    keys = _keys(table)
    rows: list[dict[str, object]] = []
    table = in_order(table)
    for point, indices in _points(table).items():
        row: dict[str, object] = {**dict(zip(keys, point, strict=True)), "repeats": len(indices)}
        for column in chosen:
            if column.kind in ("int", "float"):
                values = [value for _, value in _values(table, column.name, indices)]
                row[f"{column.name}_median"] = _median(values)
                row |= {
                    f"{column.name}_min": min(values, default=None),
                    f"{column.name}_max": max(values, default=None),
                }
            else:
                met = {table[column.name][i] for i in indices} - {None}
                row[column.name] = ", ".join(sorted(map(str, met))) or None
        rows.append(row)
    columns = [*(table.column(name) for name in keys), _REPEATS]
    for column in chosen:
        if column.kind in ("int", "float"):
            for part, what in _PARTS:
                kind = "float" if part == "median" else column.kind
                about = f"{what} over repeats of: {column.help or column.name}"
                columns.append(replace(column, name=f"{column.name}_{part}", kind=kind, role="measure", help=about))
        else:
            columns.append(replace(column, kind="str", role="label", help=f"all that occurred of: {column.help}"))
    return _derived(table, "summary", columns, rows, _SUMMARY_NOTE)


def in_order(table: Table) -> Table:
    """The rows by what was set, not in the shuffled order of measuring; nothing before numbers, text as it was given."""
    if "warmup" not in table or "repeat" not in table:
        return table
    names = [column.name for column in table.schema if column.role == "key"]
    asked: Any = table.meta.get("sweep", {})
    given: dict[str, list[Cell]] = asked.get("axes", {}) if isinstance(asked, dict) else {}
    met = {name: {value: at for at, value in enumerate(dict.fromkeys([*given.get(name, ()), *table[name]]))} for name in names}

    def rank(name: str, value: Cell) -> tuple[bool, float]:
        return (True, met[name][value]) if isinstance(value, str) else (value is not None, value or 0)

    def place(row: Row) -> tuple[Any, ...]:
        return (*(rank(name, row[name]) for name in names), not row["warmup"], row["repeat"] or 0)

    rows = sorted(table, key=place)
    about: dict[str, Any] = {"meta": table.meta, "title": table.title, "notes": table.notes, "complete": table.complete}
    return Table.from_rows(rows, table.schema, **about)


def compare(
    table: Table,
    baseline: object,
    by: str | Iterable[str] | None,
    measure: str | None,
    *,
    confidence: float,
    seed: int,
) -> Table:
    """What `Table.compare` returns."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}")
    keys, points = _keys(table), _points(table)
    if not keys:
        raise ValueError("the table has no key columns to compare by")
    measured = table.column(measure or ("time" if "time" in table.columns else "elapsed"))
    if measured.kind not in ("int", "float"):
        raise ValueError(f"measure must be a column of numbers, got {measured.name!r}")
    wanted = dict(baseline) if isinstance(baseline, Mapping) else {keys[0]: baseline}
    wanted = {_key(table, name, "baseline"): value for name, value in wanted.items()}
    chosen = set(table.row_numbers(**wanted))
    bases = [point for point, indices in points.items() if chosen.issuperset(indices)]
    if not bases:
        there = "; ".join(f"{name}: {', '.join(sorted(map(str, set(table[name]))))}" for name in wanted)
        raise ValueError(f"no rows match the baseline {wanted!r}; there are {there}")
    if by is None:
        differ = {name for name, values in zip(keys, zip(*bases, strict=True), strict=True) if len(set(values)) > 1}
        agree = [name for name in keys if name in differ | {"items", "clock"} and name not in wanted]
    else:
        agree = [_key(table, name, "by") for name in ([by] if isinstance(by, str) else by)]
    base_of = _bases(keys, agree, bases, wanted)
    rows: list[dict[str, object]] = []
    for point, indices in points.items():
        base = base_of.get(_part(keys, agree, point))
        these = _values(table, measured.name, indices)
        those = _values(table, measured.name, points[base]) if base else []
        ratio, low, high = _ratio(these, those, confidence, seed)
        rows.append(
            {
                **dict(zip(keys, point, strict=True)),
                "repeats": len(indices),
                f"{measured.name}_median": _median([value for _, value in these]),
                "baseline_median": _median([value for _, value in those]),
                "ratio": ratio,
                "ratio_low": low,
                "ratio_high": high,
            }
        )
    named = ", ".join(f"{name} {value}" for name, value in wanted.items())
    columns = [
        *map(table.column, keys),
        _REPEATS,
        Column(f"{measured.name}_median", "float", measured.unit, "measure", "median over repeats"),
        Column("baseline_median", "float", measured.unit, "measure", f"median over repeats of the baseline ({named})"),
        Column("ratio", "float", "x", "measure", f"{measured.name}_median / baseline_median"),
        Column("ratio_low", "float", "x", "measure", f"lower end of the {confidence:.0%} interval"),
        Column("ratio_high", "float", "x", "measure", f"upper end of the {confidence:.0%} interval"),
    ]
    same = f" at the same {', '.join(agree)}" if agree else ""
    note = f"Ratio: median {measured.name} / that of {named}{same}; low and high: its {confidence:.0%} bootstrap interval."
    return _derived(table, "comparison", columns, rows, note)


def _keys(table: Table) -> list[str]:
    return [column.name for column in table.schema if column.role == "key"]


def _key(table: Table, name: str, argument: str) -> str:
    column = table.column(name)
    if column.role != "key":
        raise ValueError(f"{argument} must name key columns ({', '.join(_keys(table))}), got {name!r}")
    return column.name


def _points(table: Table) -> dict[Point, list[int]]:
    """The numbers of the rows, without warm-up, by point in the order met."""
    keys = [table[name] for name in _keys(table)]
    warmup = table["warmup"] if "warmup" in table.columns else [None] * len(table)
    points: dict[Point, list[int]] = {}
    for i in range(len(table)):
        if not warmup[i]:
            points.setdefault(tuple(values[i] for values in keys), []).append(i)
    return points


def _values(table: Table, name: str, indices: Iterable[int]) -> list[tuple[Cell, float]]:
    """(repeat, value) of the rows that have a value."""
    repeat = table["repeat"] if "repeat" in table.columns else [None] * len(table)
    values = table[name]
    return [(repeat[i], value) for i in indices if isinstance(value := values[i], int | float)]


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _part(keys: Sequence[str], names: Sequence[str], point: Point) -> Point:
    return tuple(point[keys.index(name)] for name in names)


def _bases(keys: Sequence[str], agree: Sequence[str], bases: Iterable[Point], wanted: object) -> dict[Point, Point]:
    """The one baseline for each combination of the columns that must agree."""
    found: dict[Point, Point] = {}
    for point in bases:
        other = found.setdefault(_part(keys, agree, point), point)
        if other != point:
            differ = ", ".join(name for name, a, b in zip(keys, other, point, strict=True) if a != b)
            raise ValueError(f"the baseline {wanted!r} is several points, which differ in {differ}: name one, or add to by")
    return found


def _ratio(
    these: Sequence[tuple[Cell, float]], those: Sequence[tuple[Cell, float]], confidence: float, seed: int
) -> tuple[float | None, float | None, float | None]:
    """Ratio of the medians, and its interval."""
    upper, lower = [value for _, value in these], [value for _, value in those]
    if not upper or not lower or median(lower) == 0:
        return None, None, None
    ratio = median(upper) / median(lower)
    if min(len(upper), len(lower)) < 3:
        return ratio, None, None
    partner = dict(those)
    paired = len(partner) == len(those) and len(dict(these)) == len(these) and partner.keys() == dict(these).keys()
    both = [(value, partner[repeat]) for repeat, value in these] if paired else []

    def of_repeats(drawn: Sequence[float]) -> float:
        return median([both[int(i)][0] for i in drawn]) / median([both[int(i)][1] for i in drawn])

    def of_values(drawn: Sequence[float], base: Sequence[float]) -> float:
        return median(drawn) / median(base)

    try:
        if paired:
            low, high = bootstrap_interval([range(len(both))], of_repeats, confidence=confidence, seed=seed)
        else:
            low, high = bootstrap_interval([upper, lower], of_values, confidence=confidence, seed=seed)
    except ZeroDivisionError:  # so many zeros that a resample has the median 0
        return ratio, None, None
    return ratio, low, high


def _derived(table: Table, kind: str, columns: Iterable[Column], rows: Iterable[Mapping[str, object]], note: str) -> Table:
    meta = {**table.meta, "kind": kind}
    return Table.from_rows(rows, columns, meta=meta, title=table.title, notes=[note], complete=table.complete)
