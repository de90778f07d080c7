"""What the command line's arguments mean: lists of numbers, strategies, functions, files of items."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any


def axis(text: str) -> list[int]:
    """`1,2,4`, `1..10` or `1..1024:geometric`: whole numbers, also mixed."""
    from .axes import geometric

    values: list[int] = []
    try:
        for part in text.split(","):
            ends, colon, how = part.partition(":")
            first, dots, last = ends.partition("..")
            if colon and (how != "geometric" or not dots):
                raise ValueError
            if not dots:
                values.append(int(first))
            elif colon:
                values += geometric(int(first), int(last))
            else:
                values += range(int(first), int(last) + 1) or _refuse()
    except ValueError:
        told = f'must be like "8", "1,2,4", "1..10" or "1..1024:geometric", got {text!r}'
        raise argparse.ArgumentTypeError(told) from None
    return values


def _refuse() -> list[int]:
    raise ValueError


def strategies(text: str) -> list[str]:
    from .options import STRATEGIES

    names = text.split(",")
    for name in names:
        if name not in STRATEGIES:
            raise argparse.ArgumentTypeError(f"must be some of {', '.join(STRATEGIES)} with commas between them, got {name!r}")
    return names


def failures(text: str) -> list[int | None]:
    return [None if part == "none" else whole(part) for part in text.split(",")]


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None


def seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, got {text!r}") from None


def service(text: str) -> tuple[float, int, int | None]:
    """`0.05:10` or `0.05:10:100`: seconds, capacity and queue."""
    time, _, rest = text.partition(":")
    capacity, _, queue = rest.partition(":")
    if not capacity:
        raise argparse.ArgumentTypeError(f'must be like "0.05:10" (seconds:capacity) or "0.05:10:100" (and queue), got {text!r}')
    return seconds(time), whole(capacity), whole(queue) if queue else None


def named_axis(text: str) -> tuple[str, list[Any]]:
    """`capacity=5,10`: each value is JSON where it can be, else text."""
    name, _, values = text.partition("=")
    if not name.isidentifier() or not values:
        raise argparse.ArgumentTypeError(f'must be like "capacity=5,10", got {text!r}')
    return name, [_value(part) for part in values.split(",")]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def function(option: str, text: str) -> Callable[..., Any]:
    """The function named `package.module:function`; the current folder's modules count, as with `python -m`."""
    module_name, _, name = text.partition(":")
    if not module_name or not name:
        raise ValueError(f'{option} must be like "package.module:function", got {text!r}')
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:  # whatever the module's own code raises
        raise ValueError(f"{option} {text!r}: cannot import {module_name!r}: {type(error).__name__}: {error}") from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{option} {text!r}: {module_name!r} has no {part!r}")
        found = getattr(found, part)
    if not callable(found):
        raise ValueError(f"{option} {text!r} cannot be called: it is of type {type(found).__name__}")
    called: Callable[..., Any] = found
    return called


def read_items(path: str) -> list[Any]:
    """One item per line, blank lines left out; JSON values where the name ends in .jsonl. "-" is stdin."""
    try:
        if path == "-":
            text = sys.stdin.read()
        else:
            with open(path, encoding="utf-8-sig") as file:
                text = file.read()
    except UnicodeDecodeError as error:
        raise ValueError(f"source {path!r} is not UTF-8 text: {error}") from None
    except OSError as error:
        raise ValueError(f"source {path!r} cannot be read: {error.strerror or error}") from None
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise ValueError(f"source {path!r} has no items: it is empty")
    if not path.lower().endswith((".jsonl", ".ndjson")):
        return [line for _, line in lines]
    items = []
    for number, line in lines:
        try:
            items.append(json.loads(line))
        except ValueError as error:
            raise ValueError(f"source {path!r}, line {number}, is no JSON: {error}") from None
    return items
