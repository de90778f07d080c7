"""The checks of single arguments: each names the argument, its value and the remedy."""

from __future__ import annotations

import math
import operator
from typing import Any

from .errors import short

YEARS_100 = 100 * 365.25 * 24 * 3600.0
LARGEST = 2**63 - 1


def _is_bool(value: Any) -> bool:
    """True and False are ints to Python; numpy's are floats to it. Neither is meant to be a number here."""
    return isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", None) == "b"


def check_seconds(name: str, value: Any, *, above_zero: bool = False) -> float:
    """A finite number of seconds from 0 to 100 years."""
    try:
        if _is_bool(value) or not hasattr(value, "__float__"):
            raise TypeError
        seconds = float(value)
    except TypeError:
        raise TypeError(f"{name} must be a number of seconds, got {short(value)}") from None
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds) or seconds < 0 or seconds > YEARS_100 or (above_zero and seconds == 0):
        least = "above 0 and at most" if above_zero else "from 0 to"
        raise ValueError(f"{name} must be {least} 100 years in seconds, got {short(value)}")
    return seconds


def check_count(name: str, value: Any, least: int, remedy: str = "") -> int:
    """An int of at least `least`: anything with `__index__` but bool."""
    hint = f" ({remedy})" if remedy else ""
    try:
        if _is_bool(value):
            raise TypeError
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int of at least {least}, got {short(value)}{hint}") from None
    if count < least:
        raise ValueError(f"{name} must be at least {least}, got {short(count)}{hint}")
    if count > LARGEST:
        raise ValueError(f"{name} must be below 2**63, got {short(count)}{hint}")
    return count


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """One of some words."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be {_either(choices)}, got {short(value)}")
    if value not in choices:
        raise ValueError(f"{name} must be {_either(choices)}, got {short(value)}")
    return value


def _either(choices: tuple[str, ...]) -> str:
    words = [f'"{choice}"' for choice in choices]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]
