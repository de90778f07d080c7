"""The columns of a table as buffers of the Arrow format, handed over as a stream; needs no pyarrow.

The stream itself is C: a receiver may free it while an exception is on its way or on a thread of its own, where a
callback into Python would crash.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from . import _core
from .columns import Column, int_width
from .export import Cell

Buffers = tuple[bytes | None, ...]  # validity, then values, for text with offsets between them


def stream(schema: Sequence[Column], data: Mapping[str, Sequence[Cell]], length: int) -> object:
    """A PyCapsule "arrow_array_stream" with one batch of all rows: int64 (uint64, text), float64, utf8, bool."""
    fields = []
    for column in schema:
        values = data[column.name]
        missing = values.count(None)
        validity = _bits([value is not None for value in values]) if missing else None
        form, buffers = _values(column.kind, values)
        fields.append((column.name, form, missing, (validity, *buffers)))
    return _core.arrow_stream(length, tuple(fields))


def _values(kind: str, values: Sequence[Cell]) -> tuple[str, Buffers]:
    """The format's letter and the buffers after the validity; what is missing is a zero."""
    if kind == "bool":
        return "b", (_bits([value is True for value in values]),)
    if kind == "float":
        return "g", (array("d", [float(value or 0) for value in values]).tobytes(),)
    width = int_width(values) if kind == "int" else "text"
    if width == "int64":
        return "l", (array("q", [int(value or 0) for value in values]).tobytes(),)
    if width == "uint64":
        return "L", (array("Q", [int(value or 0) for value in values]).tobytes(),)
    texts = [b"" if value is None else str(value).encode() for value in values]
    offsets = array("i", [0])
    for text in texts:
        offsets.append(offsets[-1] + len(text))
    return "u", (offsets.tobytes(), b"".join(texts))


def _bits(flags: Sequence[bool]) -> bytes:
    """Eight flags a byte, the first in the lowest bit."""
    packed = bytearray((len(flags) + 7) // 8)
    for i, flag in enumerate(flags):
        packed[i >> 3] |= flag << (i & 7)
    return bytes(packed)
