"""The checks of single arguments: each names the argument, its value and the remedy."""

from __future__ import annotations

import math
import operator
from typing import Any, SupportsIndex

YEARS_100 = 100 * 365.25 * 24 * 3600.0
LARGEST = 2**63 - 1


def check_seconds(name: str, value: Any, *, above_zero: bool = False) -> float:
    """A finite number of seconds from 0 to 100 years."""
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number of seconds, got {value!r}")
    seconds = float(value)
    if not math.isfinite(seconds) or seconds < 0 or seconds > YEARS_100 or (above_zero and seconds == 0):
        least = "above 0" if above_zero else "from 0"
        raise ValueError(f"{name} must be {least} to 100 years in seconds, got {value!r}")
    return seconds


def check_count(name: str, value: Any, least: int, remedy: str = "") -> int:
    """An int of at least `least`: anything with `__index__` but bool."""
    hint = f" ({remedy})" if remedy else ""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int of at least {least}, got {value!r}{hint}")
    count = operator.index(_indexed(value))
    if count < least:
        raise ValueError(f"{name} must be at least {least}, got {count}{hint}")
    if count > LARGEST:
        raise ValueError(f"{name} must be below 2**63, got {count}{hint}")
    return count


def _indexed(value: Any) -> SupportsIndex:
    index: SupportsIndex = value
    return index


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """One of some words."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be {_either(choices)}, got {value!r}")
    if value not in choices:
        raise ValueError(f"{name} must be {_either(choices)}, got {value!r}")
    return value


def _either(choices: tuple[str, ...]) -> str:
    words = [f'"{choice}"' for choice in choices]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]
