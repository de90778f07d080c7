"""The items of a run: what may be one, and what is a mistake that would otherwise go unnoticed."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import AsyncIterable, Iterable, Sized, ValuesView
from dataclasses import dataclass
from types import CoroutineType
from typing import Any

from .actions import NativeAction
from .checks import check_count
from .distributions import Distribution
from .errors import short

_FRAMES = {"pandas": "df.itertuples(index=False)", "polars": "df.iter_rows(named=True)", "pyarrow": "table.to_pylist()"}

_CONTAINERS = (list, tuple, set, frozenset, deque, dict, ValuesView)
"""What can be looked through without pulling anything."""


@dataclass(frozen=True, slots=True)
class Source:
    """Checked items."""

    items: Any
    """An iterable or an async iterable; an int n that was given is range(n)."""
    total: int | None
    """How many there are, where the source has a length."""
    asynchronous: bool = False

    @property
    def counted(self) -> bool:
        """The items are 0, 1, 2, ...: nothing needs to be pulled."""
        return isinstance(self.items, range) and self.items.start == 0 and self.items.step == 1


def check_action(action: Any, items: Any) -> None:
    """TypeError where the action is none, saying whether the two arguments were swapped."""
    if isinstance(action, NativeAction) or (callable(action) and not _is_type_by_mistake(action)):
        return
    if isinstance(action, type) and issubclass(action, NativeAction):
        raise TypeError(f"action is the class {action.__name__} itself (write fw.{action.__name__}(...))")
    if isinstance(action, Distribution):
        raise TypeError(f"action is the distribution {action!r} (write fw.delay({action!r}))")
    if inspect.iscoroutine(action):
        action.close()
        raise TypeError("action is a coroutine object (pass the async function itself, without calling it)")
    if callable(items) or isinstance(items, NativeAction):
        raise TypeError("action and items are swapped: the action comes first, as in map(action, items)")
    raise TypeError(f"action must be a callable or a native action such as fw.delay(0.05), got {short(action)}")


def _is_type_by_mistake(action: Any) -> bool:
    return isinstance(action, type) and issubclass(action, NativeAction | Distribution)


def check_source(items: Any) -> Source:
    """The items as a Source; nothing is pulled from them."""
    if isinstance(items, bool) or items is None:
        raise TypeError(f"items must be an int, an iterable or an async iterable, got {short(items)}")
    if isinstance(items, str | bytes | bytearray):
        kind = type(items).__name__
        raise TypeError(
            f"items is a {kind}, whose items are its characters (pass [items] for one item, items.splitlines() for its lines)"
        )
    _refuse_frame(items)
    if inspect.iscoroutine(items):
        items.close()
        raise TypeError("items is a coroutine object (await it first; an async generator can be passed as it is)")
    if hasattr(items, "__index__") and not isinstance(items, Iterable):
        count = check_count("items", items, 0)
        return Source(range(count), count)
    _refuse_coroutines(items)
    if isinstance(items, Iterable) or (hasattr(items, "__getitem__") and hasattr(items, "__len__")):
        return Source(items, _length(items) if isinstance(items, Sized) else None)
    if isinstance(items, AsyncIterable):
        return Source(items, None, asynchronous=True)
    if callable(items):
        raise TypeError(
            f"items must be an int or an iterable, got the callable {short(items)} "
            "(call it to make its items, or swap the arguments)"
        )
    raise TypeError(f"items must be an int, an iterable or an async iterable, got {short(items)}")


def _refuse_frame(items: Any) -> None:
    """Also where somebody has derived a class of their own, as geopandas does."""
    for kind in type(items).__mro__:
        module = kind.__module__.partition(".")[0]
        if module in _FRAMES and kind.__name__ in ("DataFrame", "Table", "LazyFrame"):
            raise TypeError(
                f"items is a {module} {kind.__name__}, which iterates over its columns (for its rows use {_FRAMES[module]})"
            )


def _length(items: Sized) -> int:
    try:
        return len(items)
    except OverflowError:
        raise ValueError(f"items must be fewer than 2**63, got {short(items)}") from None
    except TypeError:  # an array without dimensions has a __len__ that says so
        raise TypeError(f"items must be an int, an iterable or an async iterable, got {short(items)}") from None


def close_coroutines(items: Any) -> int:
    """Closes the coroutine objects among items that are refused, so that none is "never awaited"; tells how many there were."""
    coroutines = []
    if isinstance(items, _CONTAINERS) and CoroutineType in set(map(type, items)):  # runs in C: there may be millions
        coroutines = [item for item in items if inspect.iscoroutine(item)]
    elif inspect.iscoroutine(items):
        coroutines = [items]
    for coroutine in coroutines:
        coroutine.close()
    return len(coroutines)


def _refuse_coroutines(items: Any) -> None:
    """Coroutine objects run once, outside the strategy's hands."""
    count = close_coroutines(items)
    if count:
        raise TypeError(
            f"items holds {count:,} coroutine objects, which would escape the limit "
            "(pass the async function as action and its arguments as items)"
        )
