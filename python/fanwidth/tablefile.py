"""Reading tables back: JSON and CSV as `Table` writes them, and journals, one line per finished run.

A journal is JSON Lines, UTF-8, each line flushed when its run has finished:

    {"fanwidth_journal": 1, "machine": ..., "seed": ...}    first: the version, then whatever holds for all rows
    {"row": {"strategy": "bounded", "limit": 8, ...}}       one per run, keys as in `columns.sweep_columns`
    {"complete": true}                                      last, when the sweep ended by itself

The header may have "columns", a list of objects with the fields of `Column`, for axes with a unit or a help text. A
last line that is cut off (the writer was killed) is left out with a RuntimeWarning; any other line that cannot be read
is an error. Objects with none of these keys are passed over. A row after "complete" (the sweep was run again) makes it
incomplete until the next "complete".
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from .columns import KNOWN, Column, fit, infer
from .export import Cell, checked_path, csv_rows

JOURNAL_VERSION = 1
TABLE_VERSION = 1


class Journal(NamedTuple):
    """What a journal says. `good_bytes`: how much of the file is whole lines; a writer that goes on cuts it there."""

    header: dict[str, Any]  # the first line without its "fanwidth_journal"
    rows: list[dict[str, Any]]
    complete: bool
    good_bytes: int


class Parsed(NamedTuple):
    """The parts of a table, as `Table` takes them."""

    columns: list[Column | str]
    rows: list[dict[str, Any]]
    about: dict[str, Any]


def read_journal(path: str | os.PathLike[str]) -> Journal:
    """Read a journal of the form above. RuntimeWarning for a torn last line, ValueError for any other fault."""
    name = checked_path(path)
    data = Path(name).read_bytes()
    header: dict[str, Any] | None = None
    rows: list[dict[str, Any]] = []
    complete, good, at = False, 0, 0
    for number, line in enumerate(_lines(data), 1):
        at += len(line)
        if line.strip():
            try:
                entry = _loads(line.decode("utf-8"))
                if not isinstance(entry, dict):
                    raise ValueError("it is no JSON object")
            except ValueError as error:
                # Zeros too: some file systems leave them where a write was under way when the power went.
                if at == len(data) and number > 1:
                    warnings.warn(f"{name}: the last line is cut off and left out", RuntimeWarning, stacklevel=2)
                    break
                raise ValueError(f"{name}, line {number}: {error}") from None
            if header is None:
                if entry.get("fanwidth_journal") != JOURNAL_VERSION:
                    raise ValueError(f'{name} is no journal of fanwidth: its first line has no "fanwidth_journal": 1')
                header = {key: value for key, value in entry.items() if key != "fanwidth_journal"}
            elif "row" in entry:
                if not isinstance(entry["row"], dict):
                    raise ValueError(f'{name}, line {number}: "row" must be an object, got {entry["row"]!r}')
                rows.append(entry["row"])
                complete = False
            elif "complete" in entry:
                complete = entry["complete"] is True
        good = at
    if header is None:
        raise ValueError(f"{name} is empty: a journal begins with a header line")
    return Journal(header, rows, complete, good)


def _lines(data: bytes) -> list[bytes]:
    """Lines that end in a newline only: other ends of line may stand inside a torn one."""
    *whole, last = data.split(b"\n")
    return [*(line + b"\n" for line in whole), *([last] if last else [])]


def parse_journal(path: str | os.PathLike[str]) -> Parsed:
    """The journal as a table."""
    journal = read_journal(path)
    header = dict(journal.header)
    columns: list[Column | str] = list(_columns(str(path), header.pop("columns", [])))
    return Parsed(columns, journal.rows, {"meta": header, "complete": journal.complete})


def parse_json(name: str, text: str) -> Parsed:
    """The parts of a table that `Table.to_json` wrote."""
    try:
        document = _loads(text)
    except ValueError as error:
        raise ValueError(f"{name} is not valid JSON: {error}") from None
    version = document.get("fanwidth_table") if isinstance(document, dict) else None
    if version != TABLE_VERSION:
        found = 'it has no "fanwidth_table"' if version is None else f"it is of version {version!r}"
        raise ValueError(f"{name} is no table that this version of fanwidth can read: {found}")
    rows = document.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f'{name}: "rows" must be a list of objects')
    about = {key: document[key] for key in ("meta", "title", "notes", "complete") if key in document}
    for key, kind in (("meta", dict), ("title", str), ("notes", list), ("complete", bool)):
        if not isinstance(about.get(key, kind()), kind):
            raise ValueError(f"{name}: {key!r} must be of type {kind.__name__}, got {about[key]!r}")
    return Parsed(list(_columns(name, document.get("columns"))), rows, about)


def parse_csv(name: str, text: str) -> Parsed:
    """The rows of a CSV with a header line. A column with the name of a fixed one has its kind, where all cells fit;
    the others have the kind of their cells."""
    try:
        lines = csv_rows(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if not lines:
        return Parsed([], [], {})
    heads = ["" if head is None else str(head) for head in lines[0]]
    if len(heads) > 1:  # a blank line is a row only where it may be one missing cell
        lines = [line for line in lines if line != [None]]
    for number, line in enumerate(lines, 1):
        if len(line) != len(heads):
            raise ValueError(f"{name}: row {number} has {len(line)} cells, the header has {len(heads)}")
    if len(set(heads)) < len(heads) or "" in heads:
        raise ValueError(f"{name}: every column needs a name of its own, got {', '.join(map(repr, heads))}")
    values = {head: [line[i] for line in lines[1:]] for i, head in enumerate(heads)}
    columns: list[Column | str] = [_csv_column(head, values[head]) for head in heads]
    return Parsed(columns, [dict(zip(heads, line, strict=True)) for line in lines[1:]], {})


def _csv_column(name: str, cells: list[Cell]) -> Column:
    """The fixed column of that name where its kind holds the cells unchanged.

    `csv_text` quotes text that looks like a number, so text and number differ here, too.
    """
    known = KNOWN.get(name)
    if known is not None and all(value is None or isinstance(value, str) == (known.kind == "str") for value in cells):
        with contextlib.suppress(TypeError):
            if fit(known, cells) == tuple(cells):
                return known
    return Column(name, infer(cells))


def _columns(name: str, given: object) -> list[Column]:
    if not isinstance(given, list):
        raise ValueError(f'{name}: "columns" must be a list, got {given!r}')
    columns = []
    for one in given:
        if not isinstance(one, Mapping) or not all(isinstance(value, str) for value in one.values()):
            raise ValueError(f"{name}: a column must be an object of texts, got {one!r}")
        fields = {key: value for key, value in one.items() if key in ("name", "kind", "unit", "role", "help")}
        try:
            columns.append(Column(**fields))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: {error}") from None
    return columns


def _loads(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")
