"""How values and tables are written: quantities with units, strict JSON values, CSV, Markdown, HTML, text, whole files.

Nothing here prints, and nothing here knows what the columns mean beyond their kind and unit.
"""

from __future__ import annotations

import errno
import math
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Cell = int | float | str | bool | None
Json = int | float | str | bool | None | list["Json"] | dict[str, "Json"]

MISSING = "\N{EN DASH}"
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"

_TIME = ((1.0, "s"), (1e-3, "ms"), (1e-6, "\N{MICRO SIGN}s"), (1e-9, "ns"))
_BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
# What a column's unit may become in print. A unit not listed is shown as it is.
SCALES = {"s": _TIME, "B": _BYTES, "1/s": ((1.0, "/s"),), "1": ((0.01, "%"),), "x": ((1.0, "x"),)}


# Quantities


def _scaled(value: float, scales: Sequence[tuple[float, str]], digits: int) -> str:
    """`value` in the largest unit that leaves at least 1 before the point, after rounding to `digits` digits."""
    if not math.isfinite(value):
        return MISSING
    rounded = float(f"{value:.{digits - 1}e}")
    factor, unit = next(((f, u) for f, u in scales if abs(rounded) >= f * (1 - 1e-12)), scales[-1] if value else scales[0])
    shown = value / factor
    if abs(shown) >= 1e12:
        return f"{shown:.{digits - 1}e} {unit}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(rounded / factor)) + 1e-12)) if shown else 0
    return f"{no_minus_zero(f'{shown:,.{min(places, 9)}f}')} {unit}"


def seconds(value: float | None, digits: int = 3) -> str:
    """A time given in seconds, to `digits` significant digits: `seconds(0.05)` is "50.0 ms". None is an en dash."""
    return MISSING if value is None else _scaled(value, _TIME, digits)


def byte_size(value: float | None, digits: int = 3) -> str:
    """A number of bytes in B, kB, MB or GB, decimal: `byte_size(281_000)` is "281 kB". Whole bytes have no fraction."""
    if value is not None and value == value // 1 and abs(value) < 1000:
        return f"{int(value)} B"
    return MISSING if value is None else _scaled(value, _BYTES, digits)


def rate(value: float | None, digits: int = 3) -> str:
    """A number per second: `rate(7_960.4)` is "7,960 /s"."""
    return MISSING if value is None else _scaled(value, SCALES["1/s"], digits)


def percent(value: float | None) -> str:
    """A ratio in percent: `percent(0.0041)` is "0.41 %"."""
    if value is None or not math.isfinite(value):
        return MISSING
    if abs(value) >= 1e10:
        return f"{value:.3g} x"
    return no_minus_zero(f"{value * 100:,.2f}" if abs(value) < 0.1 else f"{value * 100:,.1f}") + " %"


def count(value: float | None) -> str:
    """A number with its thousands apart: `count(10_000)` is "10,000"."""
    if value is None or not math.isfinite(value):
        return MISSING
    return no_minus_zero(f"{value:,.6g}" if isinstance(value, float) else f"{value:,}")


def no_minus_zero(text: str) -> str:
    return text[1:] if text.startswith("-") and not text.strip("-0.,") else text


# Values


def json_safe(value: object, _depth: int = 0) -> Json:
    """`value` as strict JSON knows it: nan and inf are None, numpy's numbers are numbers, the rest is text.

    Bytes are read as UTF-8, paths and dates are their text, an exception is "ValueError: message". Integers stay
    integers of any size. Half surrogates, which UTF-8 cannot write, become escapes.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) + 0.0 if math.isfinite(value) else None  # + 0.0 turns -0.0 into 0.0
    if isinstance(value, str):
        return clean(str.__str__(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, BaseException):
        return clean(f"{type(value).__name__}: {_text(value)}")
    if isinstance(value, os.PathLike):
        return json_safe(os.fspath(value))
    if _depth < 50:  # a list within itself must end, too
        if isinstance(value, Mapping):
            return {_text(json_safe(key)): json_safe(item, _depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple | range):
            return [json_safe(item, _depth + 1) for item in value]
        if isinstance(value, set | frozenset):
            return [json_safe(item, _depth + 1) for item in sorted(value, key=str)]
        plain = _plain_number(value)
        if plain is not value:
            return json_safe(plain, _depth + 1)
    return _text(value)


def _plain_number(value: Any) -> object:
    """The Python value of a numpy scalar or array; any other value comes back itself. Asks for no numpy."""
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind in ("M", "m"):  # `item()` of a date in nanoseconds would be a bare number
        return str(value)
    if kind in ("b", "i", "u", "f", "U", "S", "O"):
        plain: object = value.tolist()
        return plain if type(plain) is not type(value) else float(str(plain))  # a longdouble gives itself
    return value


def _text(value: object) -> str:
    try:
        return clean(str(value))
    except Exception:  # somebody else's __str__
        return f"<{type(value).__name__}>"


def clean(text: str) -> str:
    """`text` without half surrogates."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


# CSV

# Text is quoted where a reader would otherwise take it for a number, a truth value or nothing.
_MUST_QUOTE = re.compile(r'.*[",\r\n]|\s|.*\s$|$|(?i:true|false|[+-]?nan|[+-]?inf(inity)?)$|[+-]?\.?\d', re.DOTALL)
_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^,"\r\n][^,\r\n]*|))(,|\r?\n|\r|\Z)')
_NOT_FINITE = re.compile(r"(?i:[+-]?(nan|inf(inity)?))\Z")
_INT = re.compile(r"[+-]?\d+\Z", re.ASCII)
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z", re.ASCII)


def csv_text(names: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """RFC 4180 with "\\n" ends of line, UTF-8. Missing is an empty cell, empty text is "" in quotes."""
    lines = [",".join(map(_csv_cell, names))] if names else []
    lines += [",".join(map(_csv_cell, row)) for row in rows]
    return "".join(line + "\n" for line in lines)


def _csv_cell(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"' if _MUST_QUOTE.match(value) else value
    return repr(value)


def csv_rows(text: str) -> list[list[Cell]]:
    """The cells of a CSV text, typed by how they are written: what is quoted is text, an empty cell is None."""
    rows: list[list[Cell]] = []
    row: list[Cell] = []
    at = 0
    while at < len(text):
        field = _FIELD.match(text, at)
        if field is None:
            raise ValueError(f"line {text.count(chr(10), 0, at) + 1} of the CSV has a stray quote")
        quoted, bare, end = field.groups()
        row.append(quoted.replace('""', '"') if quoted is not None else _csv_value(bare))
        at = field.end()
        if end == "," and at == len(text):
            row.append(None)
        if end != "," or at == len(text):
            rows.append(row)
            row = []
    return rows


def _csv_value(bare: str) -> Cell:
    if bare == "" or _NOT_FINITE.match(bare):
        return None
    if bare.lower() in ("true", "false"):
        return bare.lower() == "true"
    if _INT.match(bare):
        return int(bare)
    return float(bare) + 0.0 if _FLOAT.match(bare) else bare


# Files


def write_text_atomic(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` as UTF-8 to `path`: afterwards the file holds all of it or what it held before.

    It is written beside the target and then renamed over it; the target's permissions stay. A link is followed. What
    is no regular file (a pipe, /dev/stdout) is written to directly.
    """
    target = Path(os.path.realpath(checked_path(path)))
    data = text.encode("utf-8")
    try:
        old = target.stat()
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        target.write_bytes(data)
        return
    if old is None and not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(target.parent))
    if old is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    part = target.parent / f".fanwidth-{os.urandom(8).hex()}.part"
    # os.open, not tempfile: a new file then has the permissions that the user's umask gives.
    file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with open(file, "wb") as stream:
            if old is not None:
                os.fchmod(file, stat.S_IMODE(old.st_mode))
            stream.write(data)
            stream.flush()
            os.fsync(file)
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def checked_path(path: object) -> str:
    """`path` as text; TypeError for what is no path, such as a file number, which `open` would take."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be a str or os.PathLike, got {path!r}")
    name = os.fspath(path)
    if not isinstance(name, str):
        raise TypeError(f"path must be text, got {name!r} (use os.fsdecode)")
    if not name:
        raise ValueError("path must not be empty")
    return name
