"""The items of a run: what may be one, and what is a mistake that would otherwise go unnoticed."""

from __future__ import annotations

import inspect
import operator
from collections.abc import AsyncIterable, Iterable, Sized
from dataclasses import dataclass
from typing import Any

from .actions import NativeAction
from .checks import check_count
from .distributions import Distribution

_FRAMES = {"pandas": "df.itertuples(index=False)", "polars": "df.iter_rows(named=True)", "pyarrow": "table.to_pylist()"}


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
    raise TypeError(f"action must be a callable or a native action such as fw.delay(0.05), got {action!r}")


def _is_type_by_mistake(action: Any) -> bool:
    return isinstance(action, type) and issubclass(action, NativeAction | Distribution)


def check_source(items: Any) -> Source:
    """The items as a Source; nothing is pulled from them."""
    if isinstance(items, bool) or items is None:
        raise TypeError(f"items must be an int, an iterable or an async iterable, got {items!r}")
    if isinstance(items, str | bytes | bytearray):
        kind = type(items).__name__
        raise TypeError(
            f"items is a {kind}, whose items are its characters (pass [items] for one item, items.splitlines() for its lines)"
        )
    module = type(items).__module__.partition(".")[0]
    if module in _FRAMES and type(items).__name__ in ("DataFrame", "Table", "LazyFrame"):
        raise TypeError(
            f"items is a {module} {type(items).__name__}, which iterates over its columns (for its rows use {_FRAMES[module]})"
        )
    if inspect.iscoroutine(items):
        items.close()
        raise TypeError("items is a coroutine object (await it first; an async generator can be passed as it is)")
    if hasattr(items, "__index__") and not isinstance(items, Iterable):
        return Source(range(check_count("items", operator.index(items), 0)), operator.index(items))
    if isinstance(items, list | tuple | set | frozenset):
        _refuse_coroutines(items)
    if isinstance(items, Iterable):
        return Source(items, len(items) if isinstance(items, Sized) else None)
    if hasattr(items, "__getitem__") and hasattr(items, "__len__"):
        return Source(items, len(items))
    if isinstance(items, AsyncIterable):
        return Source(items, None, asynchronous=True)
    if callable(items):
        raise TypeError(
            f"items must be an int or an iterable, got the callable {items!r} (call it to make its items, or swap the arguments)"
        )
    raise TypeError(f"items must be an int, an iterable or an async iterable, got {items!r}")


def _refuse_coroutines(items: Iterable[Any]) -> None:
    """Coroutine objects run once, outside the strategy's hands; they are closed, so that none is "never awaited"."""
    coroutines = [item for item in items if inspect.iscoroutine(item)]
    for coroutine in coroutines:
        coroutine.close()
    if coroutines:
        raise TypeError(
            f"items holds {len(coroutines):,} coroutine objects, which would escape the limit "
            "(pass the async function as action and its arguments as items)"
        )
