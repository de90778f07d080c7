"""How a table looks: one unit per column, then text for a terminal, Markdown, or HTML for a notebook."""

from __future__ import annotations

import html
import math
import re
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .columns import Column, Role
from .export import MISSING, SCALES, Cell, no_minus_zero

ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
COMFORTABLE = 160  # columns of text; a wider table is folded even where the width has no bound


# Columns as they are shown


@dataclass(frozen=True, slots=True)
class Shown:
    """A column ready to be shown: every cell in one unit and with one number of decimals."""

    name: str
    unit: str  # as shown, "" = none
    cells: list[str]
    right: bool  # numbers are aligned to the right
    help: str
    role: Role

    @property
    def heading(self) -> str:
        return f"{self.words} ({self.unit})" if self.unit else self.words

    @property
    def words(self) -> str:
        return self.name.replace("p99_9", "p99.9").replace("_", " ")

    def one(self, index: int) -> str:
        """Heading and one cell as a phrase."""
        cell = self.cells[index]
        unit = f" {self.unit}" if self.unit and cell != MISSING else ""
        return f"{self.words} {cell}{unit}"


def show(column: Column, values: Sequence[Cell]) -> Shown:
    """The values of one column in the unit that suits their median."""
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if column.kind in ("str", "bool"):
        return Shown(column.name, "", [_word(v) for v in values], False, column.help, column.role)
    if column.unit == "id":  # a number to copy, not to read
        return Shown(column.name, "", [MISSING if v is None else str(v) for v in values], True, column.help, column.role)
    scales = SCALES.get(column.unit, ((1.0, column.unit),))
    sizes = sorted(abs(v) for v in numbers if v)
    factor, unit = scales[0]
    if sizes:
        middle = sizes[len(sizes) // 2]
        factor, unit = next(((f, u) for f, u in scales if middle >= f * 0.9995), scales[-1])
    if all(isinstance(v, int) for v in numbers) and factor == 1.0:
        cells = [MISSING if v is None else f"{v:,}" for v in values]
    elif sizes and (sizes[-1] >= 1e12 or (sizes[-1] < 1e-4 and len(scales) == 1)):
        unit = "" if column.unit == "1" else scales[0][1] if column.unit != "B" else "B"
        cells = [MISSING if v is None else f"{float(v) + 0:.4g}" for v in values]
    else:
        scaled = [None if v is None else float(v) / factor for v in values]
        places = _places([v for v in scaled if v is not None], 2 if column.unit == "1" else 4)
        cells = [MISSING if v is None else no_minus_zero(f"{v:,.{places}f}") for v in scaled]
    return Shown(column.name, unit, cells, True, column.help, column.role)


def _places(values: Sequence[float], most: int) -> int:
    """Decimals for a column: three digits of the smallest value, at most six of the largest, no needless zeros."""
    sizes = [abs(v) for v in values if v]
    if not sizes:
        return 0
    wanted = 2 - math.floor(math.log10(min(sizes)))
    room = 5 - math.floor(math.log10(max(sizes)))
    places = max(0, min(wanted, room, most))
    while places and all(abs(round(v, places - 1) - v) <= 1e-7 * abs(v) for v in values):
        places -= 1
    return places


def _word(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    # What would move the cursor or colour the screen is shown, not sent.
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value))


# Text


def text(
    columns: Sequence[Shown],
    *,
    title: str = "",
    notes: Sequence[str] = (),
    width: int | None = None,
    rows: int | None = None,
) -> str:
    """A table for a terminal of `width` columns, at most `rows` rows of it; None: as wide and long as it is.

    What does not fit is told under the table: first columns that say nothing or the same in all rows, then long words
    are cut, then whole columns are left out.
    """
    total = len(columns[0].cells) if columns else 0
    picked, gap = _elide(total, rows)
    below = [f"{total:,} rows"] if gap else []
    kept = list(columns)
    if _needed(kept) > (COMFORTABLE if width is None else width):
        kept, same = _fold(kept)
        below += same
    most: dict[str, int] = {}
    if width is not None:
        for column in sorted((c for c in kept if not c.right), key=_cell_width, reverse=True):
            spare = _needed(kept, most) - width
            if spare > 0:
                most[column.name] = max(10, _cell_width(column) - spare)
        hidden = []
        for column in _least_wanted(kept):
            if _needed(kept, most) <= width:
                break
            kept.remove(column)
            hidden.append(column)
        if hidden:
            below.append("not shown for want of width: " + ", ".join(c.name for c in columns if c in hidden))
    lines = [_word(title)] if title else []
    lines += _grid(kept, most, picked, gap)
    lines += _wrapped(below, width)
    lines += [""] if lines and notes else []
    lines += _wrapped(notes, width)
    return "\n".join(line.rstrip() for line in lines)


def _wrapped(notes: Sequence[str], width: int | None) -> list[str]:
    """What is told below the table; an indent shows which lines go on."""
    lines = []
    for note in map(_word, notes):
        lines += [note] if width is None else textwrap.wrap(note, max(width, 20), subsequent_indent="  ") or [""]
    return lines


def _fold(columns: Sequence[Shown]) -> tuple[list[Shown], list[str]]:
    """The columns that differ between rows, and a line that tells the others. The first column always stays."""
    if not columns or not columns[0].cells:
        return list(columns), []
    full = [columns[0], *(c for c in columns[1:] if any(cell not in ("", MISSING) for cell in c.cells))]
    if len(columns[0].cells) == 1:
        return full, []
    same = [c for c in full[1:] if len(set(c.cells)) == 1]
    line = "the same in all rows: " + ", ".join(c.one(0) for c in same)
    return [c for c in full if c not in same], [line] if same else []


def _least_wanted(columns: Sequence[Shown]) -> list[Shown]:
    """The order in which columns are left out: remarks, results from the right, then the rest from the right."""
    measures = [c for c in columns if c.role == "measure"]
    order = [c for c in reversed(columns) if c.role == "label" and not c.right]
    order += reversed(measures[1:])
    order += [c for c in reversed(columns) if c not in order]
    return order[:-1]  # one stays


def _elide(total: int, rows: int | None) -> tuple[list[int], int]:
    """Which rows to show, and before which of these rows some are left out (0 = none are)."""
    if rows is None or total <= rows:
        return list(range(total)), 0
    tail = max(1, rows // 3)
    head = max(1, rows - tail)
    return [*range(head), *range(total - tail, total)], head


def _grid(kept: Sequence[Shown], most: Mapping[str, int], picked: Sequence[int], gap: int) -> list[str]:
    blocks = []
    for column in kept:
        cells = [_cut(column.cells[i], most.get(column.name)) for i in picked]
        if gap:
            cells.insert(gap, ELLIPSIS)
        blocks.append((_heading_lines(column), cells, _column_width(column, most), column.right))
    tall = max((len(heading) for heading, *_ in blocks), default=0)
    lines = []
    for i in range(tall):
        lines.append("  ".join(_pad(([""] * (tall - len(h)) + h)[i], w, r) for h, _, w, r in blocks))
    lines.append("  ".join("-" * w for _, _, w, _ in blocks))
    for i in range(len(blocks[0][1]) if blocks else 0):
        lines.append("  ".join(_pad(cells[i], w, r) for _, cells, w, r in blocks))
    return lines


def _heading_lines(column: Shown) -> list[str]:
    """The heading in at most three lines, as narrow as that allows."""
    heading = _word(column.heading)
    width = max(*map(display_width, heading.split(" ")), min(_cell_width(column), 24), 1)
    while len(lines := textwrap.wrap(heading, width, break_on_hyphens=False)) > 3:
        width += 1
    return lines or [""]


def _cell_width(column: Shown) -> int:
    return max(map(display_width, column.cells), default=0)


def _column_width(column: Shown, most: Mapping[str, int]) -> int:
    cells = min(_cell_width(column), most.get(column.name, 1 << 30))
    return max(cells, *map(display_width, _heading_lines(column)), 1)


def _needed(columns: Sequence[Shown], most: Mapping[str, int] | None = None) -> int:
    return sum(_column_width(c, most or {}) + 2 for c in columns) - 2


def display_width(text: str) -> int:
    """How many columns of a terminal `text` takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _cut(text: str, most: int | None) -> str:
    if most is None or display_width(text) <= most:
        return text
    while display_width(text) > most - 1:
        text = text[:-1]
    return text + ELLIPSIS


def _pad(text: str, width: int, right: bool) -> str:
    fill = " " * (width - display_width(text))
    return fill + text if right else text + fill


# Markdown and HTML


def markdown(columns: Sequence[Shown], *, title: str = "", notes: Sequence[str] = ()) -> str:
    """A table as GitHub and Jupyter read it, in the units of the text form."""
    lines = [f"**{_escape(title)}**", ""] if title else []
    lines.append("| " + " | ".join(_escape(c.heading) for c in columns) + " |")
    lines.append("|" + "|".join("---:" if c.right else "---" for c in columns) + "|")
    for i in range(len(columns[0].cells) if columns else 0):
        lines.append("| " + " | ".join(_escape(c.cells[i]) for c in columns) + " |")
    for note in notes:
        lines += ["", _escape(note)]
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    """`text` so that Markdown shows it as it is; an underscore inside a word needs no escape."""
    text = re.sub(r"([\\`*\[\]<>|~&$])", r"\\\1", _word(text))
    return re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text)


def html_table(columns: Sequence[Shown], *, title: str = "", notes: Sequence[str] = (), rows: int = 100) -> str:
    """A table for notebooks. It sets no colour, so it reads in light and dark; every word is escaped.

    A table of many columns is folded as in text; at most `rows` rows are shown, first and last ones.
    """
    total = len(columns[0].cells) if columns else 0
    picked, gap = _elide(total, rows)
    kept, below = _fold(columns) if len(columns) > 14 else (list(columns), [])
    align = {True: "text-align:right", False: "text-align:left"}
    style = "border-collapse:collapse;white-space:nowrap;font-variant-numeric:tabular-nums"
    out = [f'<div style="overflow-x:auto"><table cellpadding="4" style="{style}">']
    if title:
        out.append(f'<caption style="text-align:left;font-weight:bold">{_safe(title)}</caption>')
    heads = [
        f'<th scope="col" title="{_safe(c.help)}" style="{align[c.right]};vertical-align:bottom;white-space:normal">'
        f"{_safe(c.heading)}</th>"
        for c in kept
    ]
    out.append(f'<thead style="border-bottom:1px solid currentColor"><tr>{"".join(heads)}</tr></thead><tbody>')
    for at, i in enumerate(picked):
        if gap and at == gap:
            out.append(f'<tr><td colspan="{len(kept)}">{ELLIPSIS} {total - len(picked):,} more rows</td></tr>')
        out.append("<tr>" + "".join(f'<td style="{align[c.right]}">{_safe(c.cells[i])}</td>' for c in kept) + "</tr>")
    out.append("</tbody></table></div>")
    out += [f'<p style="margin:0.3em 0">{_safe(note)}</p>' for note in (*below, *notes)]
    return "\n".join(out)


def _safe(text: str) -> str:
    return html.escape(_word(text))
