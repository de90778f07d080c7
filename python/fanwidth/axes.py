"""The points of a sweep: which arguments are axes, and what their combinations are. Nothing is run here."""

from __future__ import annotations

import functools
import inspect
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from .actions import NativeAction
from .checks import check_count
from .columns import Column, cell, infer, sweep_columns
from .errors import short
from .export import Cell
from .options import DEFAULT, RULES, check_options

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def geometric(first: int, last: int, *, factor: float = 2) -> list[int]:
    """Whole numbers that grow by `factor`, from `first` to `last`: `geometric(1, 100)` is [1, 2, 4, 8, 16, 32, 64, 100].

    Limits differ by their ratio, so such an axis sees with 11 points what a linear one needs a thousand for.
    Both ends are in it.
    """
    first, last = check_count("first", first, 1), check_count("last", last, 1)
    if last < first:
        raise ValueError(f"last must be at least first, got first={first} and last={last}")
    if isinstance(factor, bool) or not isinstance(factor, int | float):
        raise TypeError(f"factor must be a number above 1, got {factor!r}")
    if not 1 < factor < float("inf"):
        raise ValueError(f"factor must be above 1 and finite, got {factor!r}")
    values, value = [], float(first)
    while value < last:
        values.append(round(value))
        value *= factor
    return sorted({*(v for v in values if v <= last), last})


@dataclass(frozen=True, eq=False, slots=True)
class Point:
    """One combination of the axes: what a run of it is given."""

    strategy: str
    limit: int | None
    """In force: the strategy's default where none was given."""
    items: int
    action: Any
    max_failures: Any
    axes: Mapping[str, Cell]
    """The other axes, as a row shows them."""

    def row(self) -> dict[str, Cell]:
        """The columns that name the point, in a row's order."""
        return {"strategy": self.strategy, "limit": self.limit, "items": self.items, **self.axes}

    def __str__(self) -> str:
        named = {"limit": self.limit, **self.axes}
        parts = [f"{name} {value}" for name, value in named.items() if not (name == "limit" and value is None)]
        return ", ".join([self.strategy, *parts, f"{self.items:,} items"])


def values_of(name: str, given: Any) -> list[Any]:
    """The values of an axis: those of a list, tuple, range or one-dimensional array; anything else, text too, is one value."""
    if isinstance(given, list | tuple | range):
        values = list(given)
    elif getattr(given, "ndim", None) == 1 and hasattr(given, "tolist"):
        values = given.tolist()
    elif hasattr(given, "__next__"):
        raise TypeError(f"{name} is {_an(given)}, which can be read only once (pass a list: list(...))")
    else:
        return [given]
    if not values:
        raise ValueError(f"{name} must hold at least one value, got {given!r}")
    return values


def is_sizes(items: Any) -> bool:
    """Whether `items` is a number of items, or a list of such: anything else is rows to work on."""
    several = items if isinstance(items, list | tuple) else [items]
    return bool(several) and all(hasattr(n, "__index__") and not isinstance(n, Iterable) for n in several)


def rows_of(items: Any) -> Sequence[Any]:
    """Rows that many runs can read, each from another place."""
    if hasattr(items, "__next__") or hasattr(items, "__anext__"):
        raise TypeError(f"items is {_an(items)}, which only one run could read (pass a list of its items: list(...))")
    if hasattr(items, "__aiter__"):
        raise TypeError(f"items is {_an(items)}, an async iterable: every run of a sweep reads items again (pass a list)")
    rows: Sequence[Any] = items if isinstance(items, list | tuple | range) else list(items)
    if not rows:
        raise ValueError("items must hold at least one item, got none")
    return rows


def _an(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def label(value: Any) -> Cell:
    """A value of an axis as a row shows it: functions and classes by their name, without addresses."""
    name = getattr(value, "__qualname__", None) if callable(value) else None
    shown = cell(name if isinstance(name, str) else value)
    return _ADDRESS.sub("", shown) if isinstance(shown, str) else shown


def grid(
    action: Any,
    items: Sequence[int],
    *,
    strategy: Any,
    limit: Any,
    max_failures: Any,
    axes: Mapping[str, Any],
    zipped: bool = False,
    with_setup: bool = False,
) -> list[Point]:
    """All points, without repetitions, checked. `zipped`: the n-th values of all axes make the n-th point.
    `with_setup`: the action's second argument is taken.
    """
    given = {"strategy": strategy, "limit": limit, "items": list(items)}
    if max_failures is not DEFAULT:
        given["max_failures"] = max_failures
    check_names(action, axes, 2 if with_setup else 1)
    values = {name: values_of(name, value) for name, value in {**given, **axes}.items()}
    for name in axes:
        _check_labels(name, values[name])
    points: dict[tuple[Any, ...], Point] = {}
    for combination in _zip(values) if zipped else itertools.product(*values.values()):
        point = _point(action, dict(zip(values, combination, strict=True)), axes)
        points.setdefault(tuple((type(value), value) for value in point.row().values()), point)
    return list(points.values())


def _zip(values: Mapping[str, list[Any]]) -> Iterable[tuple[Any, ...]]:
    lengths = {name: len(of) for name, of in values.items() if len(of) > 1}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"zip=True needs axes of one length, got {told} (leave it out for all combinations)")
    length = max(lengths.values(), default=1)
    return zip(*(of * (length if len(of) == 1 else 1) for of in values.values()), strict=True)


def _point(action: Any, chosen: Mapping[str, Any], axes: Mapping[str, Any]) -> Point:
    strategy, limit = chosen["strategy"], chosen["limit"]
    if isinstance(strategy, str) and strategy in RULES and not RULES[strategy].takes_limit:
        limit = None  # one point, whatever the axis of limits
    failures = chosen.get("max_failures", DEFAULT)
    options = check_options(strategy, limit=limit, max_failures=failures)
    shown: dict[str, Cell] = {} if failures is DEFAULT else {"max_failures": cell(failures)}
    return Point(
        strategy=options.strategy,
        limit=options.limit,
        items=check_count("items", chosen["items"], 1),
        action=built(action, {name: chosen[name] for name in axes}),
        max_failures=failures,
        axes=shown | {name: label(chosen[name]) for name in axes},
    )


def _check_labels(name: str, values: list[Any]) -> None:
    """Points that read the same cannot be told apart in a table."""
    seen: dict[Cell, Any] = {}
    for value in values:
        other = seen.setdefault(label(value), value)
        if other is not value and not _equal(other, value):
            raise ValueError(f"{name} has two values that both read {label(value)!r} (give them names that differ)")


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # somebody else's ==, of arrays for instance
        return False


def axis_columns(points: Sequence[Point]) -> list[Column]:
    """The columns of a sweep of these points."""
    names = points[0].axes
    axes: list[str | Column] = [
        Column(name, "int" if name == "max_failures" else infer(point.axes[name] for point in points)) for name in names
    ]
    return [column for column in sweep_columns(axes) if isinstance(column, Column)]


# The action with the values of a point


def native_fields(action: Any) -> dict[str, str]:
    """By the name of each parameter of a native action: the field that holds it."""
    return dict(zip(inspect.signature(action).parameters, (field.name for field in fields(action)), strict=True))


def built(action: Any, values: Mapping[str, Any]) -> Any:
    """The action with these of its fields or keywords set. A partial keeps what async detection looks at."""
    if isinstance(action, type) and issubclass(action, NativeAction):
        names = {field: name for name, field in native_fields(action).items()}
        given = {names.get(name, name): value for name, value in values.items()}
        missing = [
            name
            for name, parameter in inspect.signature(action).parameters.items()
            if parameter.default is parameter.empty and name not in given
        ]
        if missing:
            raise TypeError(f"{action.__name__} needs {missing[0]} (give it as an axis, or pass fw.{action.__name__}(...))")
        return action(**given)
    if isinstance(action, NativeAction):
        if not values:
            return action
        now = {name: getattr(action, field) for name, field in native_fields(type(action)).items()}
        names = {field: name for name, field in native_fields(type(action)).items()}
        return type(action)(**now | {names.get(name, name): value for name, value in values.items()})
    return functools.partial(action, **values) if values else action


def check_names(action: Any, axes: Mapping[str, Any], taken: int = 1) -> None:
    """TypeError for an axis that the action has no place for. `taken`: how many of its arguments a run fills."""
    kind = action if isinstance(action, type) else type(action)
    if issubclass(kind, NativeAction):
        known = native_fields(kind)
        for name in axes:
            if name not in known and name not in known.values():
                told = f"its fields are {', '.join(known)}" if known else "it has no fields"
                raise TypeError(f"{kind.__name__} has no field {name!r}: {told}")
        return
    try:
        parameters = inspect.signature(action).parameters
    except (TypeError, ValueError):  # a callable of C that says nothing of its arguments
        return
    anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    filled = [p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD][:taken]
    for name in axes:
        parameter = parameters.get(name)
        if name in filled:
            what = "the item itself" if name == filled[0] else "what setup gave"
            raise TypeError(f"{name!r} is {what} in {short(action)}: it cannot be an axis")
        if not anything and (parameter is None or parameter.kind is parameter.POSITIONAL_ONLY):
            raise TypeError(f"{short(action)} takes no keyword {name!r} (an axis is an argument of sweep, or of the action)")
