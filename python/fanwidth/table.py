"""The tidy rows of a comparison or a sweep: typed columns, read-only, with summaries over repeats."""

from __future__ import annotations

import difflib
import importlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast, overload

from . import export, layout
from .columns import (
    COMPARE_COLUMNS,
    KNOWN,
    Column,
    Row,
    cell,
    fit,
    infer,
    int_width,
    run_row,
    sweep_columns,
)
from .export import Cell, Json
from .tablefile import TABLE_VERSION, Journal, parse_csv, parse_journal, parse_json, read_journal

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = [
    "COMPARE_COLUMNS",
    "Column",
    "Journal",
    "Row",
    "Table",
    "UnknownColumn",
    "read_journal",
    "read_table",
    "run_row",
    "sweep_columns",
]


class UnknownColumn(KeyError):
    """A column was asked for that the table does not have."""

    def __init__(self, name: object, columns: Iterable[str]) -> None:
        columns = list(columns)
        close = difflib.get_close_matches(str(name), columns)
        hint = "did you mean " + " or ".join(map(repr, close)) if close else "its columns are " + ", ".join(columns)
        self.message = f"the table has no column {name!r}; {hint}"
        super().__init__(self.message)

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _unknown_column, (self.message,)


def _unknown_column(message: str) -> UnknownColumn:
    error = UnknownColumn("", ())
    error.message, error.args = message, (message,)
    return error


class Table:
    """Tidy rows with typed columns; immutable.

    `len`, iteration and `table[i]` are of rows (read-only mappings), `table["elapsed"]` is a column (a tuple), a slice
    is a table. A missing value is None; there is never a nan, an inf or a negative zero. Two tables are equal when
    their column names and all values are: `meta`, `title` and `notes` are not compared.

    `columns`: Columns or names (then the kind is that of the values). `data`: the values by column name. `meta`: what
    holds for all rows (machine, versions, seed, kind of table, axes). `notes`: lines shown below. `complete` is False
    when runs are missing: the measuring was interrupted, or its budget was spent.
    """

    __slots__ = ("_columns", "_complete", "_data", "_length", "_meta", "_notes", "_title")
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        columns: Iterable[Column | str],
        data: Mapping[str, Iterable[object]],
        *,
        meta: Mapping[str, object] | None = None,
        title: str = "",
        notes: Iterable[str] = (),
        complete: bool = True,
    ) -> None:
        if not isinstance(title, str):
            raise TypeError(f"title must be text, got {title!r}")
        lines = () if isinstance(notes, str) else tuple(notes)
        if isinstance(notes, str) or not all(isinstance(line, str) for line in lines):
            raise TypeError(f"notes must be several lines of text, got {notes!r}")
        self._columns: dict[str, Column] = {}
        self._data: dict[str, tuple[Cell, ...]] = {}
        for given in columns:
            name = given.name if isinstance(given, Column) else given
            if name in self._columns:
                raise ValueError(f"column {name!r} is there twice")
            if name not in data:
                raise ValueError(f"data has no values for column {name!r}")
            cells = tuple(map(cell, data[name]))
            column = given if isinstance(given, Column) else Column(given, infer(cells))
            self._columns[name] = column
            self._data[name] = fit(column, cells)
        if extra := [name for name in data if name not in self._data]:
            raise ValueError(f"data has values for {extra[0]!r}, which columns does not name")
        lengths = {len(values) for values in self._data.values()}
        if len(lengths) > 1:
            told = ", ".join(f"{name} {len(values)}" for name, values in self._data.items())
            raise ValueError(f"all columns must be of one length, got {told}")
        self._length = lengths.pop() if lengths else 0
        self._meta = cast("dict[str, Json]", export.json_safe(dict(meta or {})))
        self._title = export.clean(title)
        self._notes = tuple(map(export.clean, lines))
        self._complete = bool(complete)

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, object]], columns: Iterable[Column | str] = (), **about: Any) -> Table:
        """A table of dict rows. What a row lacks is None.

        Keys beyond `columns` become columns after them, in the order met: with the metadata of the fixed columns where
        they have such a name, else with the kind of their values. `about`: `meta`, `title`, `notes`, `complete` as in
        `Table`.
        """
        rows, columns = list(rows), list(columns)
        named = {column.name if isinstance(column, Column) else column: column for column in columns}
        if len(named) < len(columns):
            return cls(columns, dict.fromkeys(named, ()))  # says which column is there twice
        for row in rows:
            for key in row:
                if not isinstance(key, str):
                    raise TypeError(f"the keys of a row must be column names, got {key!r}")
                named.setdefault(key, KNOWN.get(key, key))
        return cls(named.values(), {name: [row.get(name) for row in rows] for name in named}, **about)

    def _with(self, columns: Iterable[Column], data: Mapping[str, Iterable[object]]) -> Table:
        about: dict[str, Any] = {
            "meta": self._meta,
            "title": self._title,
            "notes": self._notes,
            "complete": self._complete,
        }
        return Table(columns, data, **about)

    def _rows_at(self, indices: Sequence[int]) -> Table:
        return self._with(self.schema, {name: [values[i] for i in indices] for name, values in self._data.items()})

    # What it holds

    @property
    def columns(self) -> tuple[str, ...]:
        """The column names."""
        return tuple(self._columns)

    @property
    def schema(self) -> tuple[Column, ...]:
        """What each column holds: kind, unit, role and help."""
        return tuple(self._columns.values())

    def column(self, name: str) -> Column:
        """What the column `name` holds."""
        return self._columns[self._name(name)]

    @property
    def meta(self) -> Mapping[str, Json]:
        return MappingProxyType(self._meta)

    @property
    def title(self) -> str:
        return self._title

    @property
    def notes(self) -> tuple[str, ...]:
        return self._notes

    @property
    def complete(self) -> bool:
        """False when runs are missing."""
        return self._complete

    def __contains__(self, key: object) -> bool:
        """Whether `key` is the name of a column, or equal to a row."""
        return key in self._columns if isinstance(key, str) else any(row == key for row in self)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Row]:
        return (self[i] for i in range(self._length))

    @overload
    def __getitem__(self, key: str) -> tuple[Cell, ...]: ...
    @overload
    def __getitem__(self, key: int) -> Row: ...
    @overload
    def __getitem__(self, key: slice) -> Table: ...
    def __getitem__(self, key: str | int | slice) -> tuple[Cell, ...] | Row | Table:
        if isinstance(key, str):
            return self._data[self._name(key)]
        if isinstance(key, slice):
            return self._rows_at(range(self._length)[key])
        try:
            i = range(self._length)[key]
        except IndexError:
            raise IndexError(f"the table has {self._length} rows, got index {key}") from None
        except TypeError:
            raise TypeError(f"a table is indexed by a column name, a row number or a slice, got {key!r}") from None
        return MappingProxyType({name: values[i] for name, values in self._data.items()})

    def _name(self, name: str) -> str:
        """The column's name; its heading, with spaces for underscores, will do."""
        for known in (name, name.replace(" ", "_")):
            if known in self._columns:
                return known
        raise UnknownColumn(name, self._columns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return self.columns == other.columns and self._data == other._data

    # Parts and summaries

    def select(self, *names: str) -> Table:
        """The table of these columns alone, in this order."""
        return self._with(map(self.column, names), {self._name(name): self[name] for name in names})

    def row_numbers(self, **keywords: object) -> list[int]:
        """The numbers of the rows that `filter` would keep."""
        picked = list(range(self._length))
        for given, wanted in keywords.items():
            column = self.column(given)
            values = self._data[column.name]
            if callable(wanted):
                picked = [i for i in picked if _holds(wanted, values[i])]
                continue
            plain = export.json_safe(wanted)
            several = plain if isinstance(plain, list) else [plain]
            for one in several:
                if one is not None and isinstance(one, str) != (column.kind == "str"):
                    raise TypeError(f"column {column.name!r} holds {column.kind}: {given}={one!r} can equal none of its values")
            picked = [i for i in picked if values[i] in several]
        return picked

    def filter(self, **keywords: object) -> Table:
        """The rows that meet every keyword: `filter(strategy="bounded", limit=[8, 50], elapsed=lambda s: s < 1)`.

        A keyword is a column; its value is a value to equal (None: missing), several of them (list, tuple, set, range,
        array), or a function of the value that says True or False. Where a function cannot take None, None fails it.
        """
        return self._rows_at(self.row_numbers(**keywords))

    def summary(self, measures: str | Iterable[str] | None = None) -> Table:
        """One row per point, by rising keys: how often it was measured, and the median, the least and the most of each measure.

        These are over the repeats: columns `<measure>_median`, `_min`, `_max`; warm-up runs are left out. A point is a
        combination of the key columns. `measures`: which ones; None is all. A percentile stays what it was, one run's:
        `latency_p99_median` is the median over repeats of the runs' p99, not the p99 of all their items, which the rows
        cannot tell. Text measures (`limited_by`) show all values that occurred.
        """
        from . import repeats

        return repeats.summary(self, measures)

    def compare(
        self,
        baseline: object,
        by: str | Iterable[str] | None = None,
        measure: str | None = None,
        *,
        confidence: float = 0.95,
        seed: int = 0,
    ) -> Table:
        """Every point beside its baseline: the ratio of their medians over repeats, with an interval.

        `baseline`: a value of the first key column (`"for_each"`), or a dict of key columns (`{"limit": 8}`).
        `by`: the columns in which a point and its baseline agree; None: those in which the baseline's own points
        differ, and always items and clock. `measure`: None is elapsed (or time). For a time, a ratio below 1 is faster.

        The interval is the percentile bootstrap of the ratio of medians, 1,000 resamples from `seed`. Where both sides
        have the same repeats, whole repeats are drawn (what disturbed a round disturbed both), else each side is drawn
        on its own. It is None with fewer than three repeats on a side; ratio and interval are None where the base is 0.
        Warm-up runs are left out.
        """
        from . import repeats

        return repeats.compare(self, baseline, by, measure, confidence=confidence, seed=seed)

    # How it looks

    def to_text(self, width: int | None = None, rows: int | None = None) -> str:
        """The table for a terminal: each column in the unit that suits it, numbers to the right.

        `width`: columns of the terminal; None: that of stdout's terminal, and no bound where stdout is none. What does
        not fit is told below the table. `rows`: the most to show, first and last ones; None is all.
        """
        shown = [layout.show(column, self._data[column.name]) for column in self.schema]
        width = _terminal_width() if width is None else width
        return layout.text(shown, title=self._title, notes=self._all_notes(), width=width, rows=rows)

    def _all_notes(self) -> tuple[str, ...]:
        return self._notes if self._complete else (*self._notes, "Not complete: runs are missing.")

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return self.to_text(rows=60)

    def _repr_html_(self) -> str:
        shown = [layout.show(column, self._data[column.name]) for column in self.schema]
        return layout.html_table(shown, title=self._title, notes=self._all_notes())

    # Exports: the text is returned, or written to `path` as a whole or not at all

    @overload
    def to_markdown(self, path: None = None) -> str: ...
    @overload
    def to_markdown(self, path: str | os.PathLike[str]) -> str | None: ...
    def to_markdown(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """A Markdown table, in the units of the text form. `path` None or "-": the text is returned."""
        shown = [layout.show(column, self._data[column.name]) for column in self.schema]
        return _deliver(path, layout.markdown(shown, title=self._title, notes=self._all_notes()))

    @overload
    def to_csv(self, path: None = None) -> str: ...
    @overload
    def to_csv(self, path: str | os.PathLike[str]) -> str | None: ...
    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """CSV with a header line, values as they are (seconds, ratios); missing is an empty cell.

        `path` None or "-": the text is returned. `read_table` reads it back.
        """
        return _deliver(path, export.csv_text(self.columns, zip(*self._data.values(), strict=True)))

    @overload
    def to_json(self, path: None = None) -> str: ...
    @overload
    def to_json(self, path: str | os.PathLike[str]) -> str | None: ...
    def to_json(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Strict JSON with all there is: columns, rows, meta, title, notes, "complete".

        `path` None or "-": the text is returned. `read_table` reads it back.
        """
        head = {
            "fanwidth_table": TABLE_VERSION,
            "complete": self._complete,
            "title": self._title,
            "notes": self._notes,
            "meta": self._meta,
        }
        lines = [f" {_dumps(key)}: {_dumps(value)}" for key, value in head.items()]
        lines.append(_json_lines("columns", map(asdict, self.schema)))
        lines.append(_json_lines("rows", map(dict, self)))
        return _deliver(path, "{\n" + ",\n".join(lines) + "\n}\n")

    def to_records(self) -> list[dict[str, Cell]]:
        """The rows as dicts."""
        return [dict(row) for row in self]

    def to_pandas(self) -> pandas.DataFrame:
        """A DataFrame. Integers stay integers: a column with missing ones is of dtype Int64."""
        pd = _optional("pandas", 'pip install "fanwidth[pandas]"')
        series = {}
        for column in self.schema:
            values = self._data[column.name]
            dtype = {"int": int_width(values), "float": "float64", "str": "string", "bool": "bool"}[column.kind]
            if None in values:
                dtype = {"int64": "Int64", "uint64": "UInt64", "bool": "boolean"}.get(dtype, dtype)
            series[column.name] = pd.Series(list(values), dtype="object" if dtype == "wide" else dtype)
        return cast("pandas.DataFrame", pd.DataFrame(series))

    def to_polars(self) -> polars.DataFrame:
        """A DataFrame of polars."""
        pl = _optional("polars", "pip install polars")
        types = {
            "int64": pl.Int64,
            "uint64": pl.UInt64,
            "wide": pl.String,
            "float": pl.Float64,
            "str": pl.String,
            "bool": pl.Boolean,
        }
        schema, data = {}, {}
        for column in self.schema:
            values: Sequence[Cell] = self._data[column.name]
            kind = int_width(values) if column.kind == "int" else column.kind
            schema[column.name] = types[kind]
            data[column.name] = [v if v is None else str(v) for v in values] if kind == "wide" else values
        return cast("polars.DataFrame", pl.DataFrame(data, schema=schema))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow PyCapsule interface, by which `polars.DataFrame(table)` and `pyarrow.table(table)` read it."""
        from . import arrow

        return arrow.stream(self.schema, self._data, self._length)


def read_table(path: str | os.PathLike[str]) -> Table:
    """Read a table back: .json and .csv as `Table` writes them, .jsonl journals of a sweep.

    The table equals the one written; a CSV holds no meta, title or notes. ValueError for a file of another kind.
    """
    name = export.checked_path(path)
    suffix = os.path.splitext(name)[1].lower()
    if suffix in (".jsonl", ".ndjson"):
        parsed = parse_journal(name)
    elif suffix in (".json", ".csv"):
        with open(name, encoding="utf-8-sig", newline="") as file:
            try:
                text = file.read()
            except UnicodeDecodeError as error:
                raise ValueError(f"{name} is not UTF-8 text: {error}") from None
        parsed = parse_json(name, text) if suffix == ".json" else parse_csv(name, text)
    else:
        raise ValueError(f"path must end in .json, .csv or .jsonl, got {name!r}")
    try:
        return Table.from_rows(parsed.rows, parsed.columns, **parsed.about)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None


def _holds(test: Callable[[Cell], object], value: Cell) -> bool:
    try:
        return bool(test(value))
    except TypeError:
        if value is None:
            return False
        raise


def _terminal_width() -> int | None:
    try:
        return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    except (AttributeError, ValueError):  # no stdout, or a closed one
        return None


def _deliver(path: str | os.PathLike[str] | None, text: str) -> str | None:
    if path is None or path == "-":
        return text
    export.write_text_atomic(path, text)
    return None


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _json_lines(key: str, entries: Iterable[object]) -> str:
    """A list with one entry a line: as easy to read, to grep and to diff as CSV."""
    lines = ",\n".join(f"  {_dumps(entry)}" for entry in entries)
    return f" {_dumps(key)}: [\n{lines}\n ]" if lines else f" {_dumps(key)}: []"


def _optional(module: str, remedy: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"this needs {module}: {remedy}", name=module) from error
