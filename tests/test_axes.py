"""The points of a sweep: axes and their values, their combinations, the action's own arguments. No run takes any time."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

import fanwidth as fw
from fanwidth import sweeps
from fanwidth.axes import geometric, grid
from fanwidth.columns import sweep_columns
from fanwidth.table import Table


def sweep(*args: Any, **kwargs: Any) -> Table:
    """Once, quietly, without a warm-up, unless said otherwise."""
    return sweeps.sweep(*args, **{"progress": False, "repeats": 1, "warmup": 0, "seed": 1, **kwargs})


def virtual(action: Any, items: Any, **kwargs: Any) -> Table:
    return sweep(action, items, clock="virtual", **kwargs)


def work(row: Any, op: str = "", x: int = 0, *, y: Any = 0) -> Any:
    return row


# Axes


def test_geometric_has_both_ends() -> None:
    assert geometric(1, 1024) == [2**n for n in range(11)]
    assert geometric(1, 100) == [1, 2, 4, 8, 16, 32, 64, 100]
    assert geometric(5, 5) == [5]
    assert geometric(1, 10, factor=1.5) == [1, 2, 3, 5, 8, 10]
    assert geometric(3, 3_000, factor=10) == [3, 30, 300, 3_000]


@pytest.mark.parametrize(
    ("first", "last", "factor", "error", "told"),
    [
        (0, 8, 2, ValueError, "first must be at least 1, got 0"),
        (9, 8, 2, ValueError, "last must be at least first, got first=9 and last=8"),
        (1, 8.5, 2, TypeError, "last must be an int"),
        (1, 8, 1, ValueError, "factor must be above 1"),
        (1, 8, float("nan"), ValueError, "factor must be above 1"),
        (1, 8, "2", TypeError, "factor must be a number above 1"),
    ],
)
def test_geometric_argument_out_of_domain(first: Any, last: Any, factor: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        geometric(first, last, factor=factor)


def test_axis_values_given_as_scalar_or_text() -> None:
    # LV-values S019
    table = sweep(work, 10, limit=[1, 2, 4], op="delay")
    assert table["op"] == ("delay",) * 3 and sorted(table["limit"]) == [1, 2, 4]
    table = sweep(work, 10, limit=1, x=[0, 1, 2], y=0)
    assert table["y"] == (0, 0, 0) and sorted(table["x"]) == [0, 1, 2]


@pytest.mark.parametrize(
    "several", [[1, 2, 4], (1, 2, 4), np.array([1, 2, 4]), range(1, 4)], ids=["list", "tuple", "array", "range"]
)
def test_axis_values_given_as_any_list(several: Any) -> None:
    table = virtual(fw.delay(1), 12, limit=several)
    assert {row["limit"]: row["elapsed"] for row in table} == {limit: 12 / limit for limit in map(int, several)}
    assert all(type(limit) is int for limit in table["limit"])


@pytest.mark.parametrize("value", [None, "ab", b"ab", {"a": 1}, 2.5, False])
def test_axis_values_that_are_single(value: Any) -> None:
    seen: list[Any] = []
    sweep(lambda row, y: seen.append(y), 1, limit=1, y=value)
    assert seen == [value]


def test_axis_value_that_is_a_list_itself() -> None:
    seen: list[Any] = []
    table = sweep(lambda row, y: seen.append(y), 1, limit=1, y=[[1, 2], [3]])
    assert sorted(seen) == [[1, 2], [3]] and sorted(map(str, table["y"])) == ["[1, 2]", "[3]"]


def test_points_are_all_combinations_in_the_columns_order() -> None:
    axes = {"seconds": [0.5, 1.0]}
    points = grid(fw.delay(9), [4, 8], strategy=["bounded", "chunked"], limit=[1, 2], max_failures=None, axes=axes)
    assert len(points) == 16
    assert list(points[1].row().values()) == ["bounded", 1, 4, None, 1.0]
    assert points[1].action == fw.delay(1.0)
    table = virtual(fw.delay(9), [4, 8], strategy=["bounded", "chunked"], limit=[1, 2], max_failures=None, seconds=[0.5, 1.0])
    assert table.columns == tuple(c if isinstance(c, str) else c.name for c in sweep_columns(["max_failures", "seconds"]))


def test_a_strategy_without_limit_is_one_point() -> None:
    table = virtual(fw.delay(1), 8, strategy=["for_each", "when_all", "bounded"], limit=[1, 2, 4])
    assert Counter(table["strategy"]) == {"for_each": 3, "bounded": 3, "when_all": 1}
    assert table.filter(strategy="when_all")["limit"] == (None,)


def test_a_default_limit_is_told() -> None:
    assert virtual(fw.delay(1), 8, strategy="for_each")["limit"] == (fw.for_each(fw.noop(), 1).limit,)


def test_points_that_repeat_are_measured_once() -> None:
    assert len(virtual(fw.delay(1), [8, 8], limit=[1, 1, 2])) == 2


def test_zip_pairs_the_values() -> None:
    table = virtual(fw.service, 10, limit=[1, 2, 4], capacity=[1, 2, 3], time=0.5, zip=True)
    assert sorted(zip(table["limit"], table["capacity"], strict=True)) == [(1, 1), (2, 2), (4, 3)]
    with pytest.raises(ValueError, match="zip=True needs axes of one length, got limit 3, capacity 2"):
        virtual(fw.service(1, 1), 10, limit=[1, 2, 4], capacity=[1, 2], zip=True)


def test_fields_of_a_native_action_are_axes() -> None:
    table = virtual(fw.service(0.05, capacity=10, queue=7), 100, limit=64, capacity=[5, 10], queue=None)
    assert {row["capacity"]: row["elapsed"] for row in table} == {5: pytest.approx(1.0), 10: pytest.approx(0.5)}
    assert table["queue"] == (None, None)
    for name in ("time", "seconds"):  # the parameter's name, and the field's
        assert virtual(fw.service(9, capacity=10), 10, limit=1, **{name: 1})["elapsed"] == (10.0,)


def test_a_class_of_native_actions_takes_its_fields_from_axes() -> None:
    table = virtual(fw.delay, 10, limit=1, seconds=[1, 2])
    assert sorted(table["elapsed"]) == [10.0, 20.0]
    with pytest.raises(TypeError, match=r"service needs capacity \(give it as an axis, or pass fw.service"):
        virtual(fw.service, 10, limit=1, time=1)


def test_distributions_are_axis_values() -> None:
    table = virtual(fw.delay, 10, limit=1, seconds=[fw.constant(1), fw.exponential(2)])
    assert sorted(table["seconds"]) == ["constant(seconds=1)", "exponential(mean=2)"]


def test_functions_are_axis_values_by_name() -> None:
    table = sweep(lambda row, y: y(row), [2.5, 3.5], limit=1, y=[int, round])
    assert sorted(table["y"]) == ["int", "round"]
    with pytest.raises(ValueError, match=r"y has two values that both read 'object' \(give them names that differ\)"):
        sweep(work, 1, limit=1, y=[object, type("object", (), {})])


@pytest.mark.parametrize(
    ("action", "given", "told"),
    [
        (fw.delay(1), {"capacity": 3}, "delay has no field 'capacity': its fields are seconds"),
        (fw.noop(), {"seconds": 3}, "noop has no field 'seconds': it has no fields"),
        (work, {"z": 3}, "takes no keyword 'z'"),
        (work, {"row": 3}, "'row' is the item itself"),
        (work, {"op": 3, "setup": int}, "'op' is what setup gave"),
        (lambda row, elapsed: row, {"elapsed": 3}, None),
        (fw.delay(1), {"executor": 5}, "executor must be a concurrent.futures.Executor"),
    ],
)
def test_axis_without_a_place(action: Any, given: dict[str, Any], told: str | None) -> None:
    with pytest.raises(TypeError if told else ValueError, match=told or "an axis cannot be called 'elapsed'"):
        sweep(action, 3, limit=1, **given)


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"limit": [1, 0]}, ValueError, "limit must be at least 1, got 0"),
        ({"limit": [True]}, TypeError, "limit must be an int"),
        ({"limit": []}, ValueError, "limit must hold at least one value"),
        ({"limit": iter([1, 2])}, TypeError, "limit is a list_iterator, which can be read only once"),
        ({"limit": None}, TypeError, "bounded needs a limit"),
        ({"strategy": ["bounded", "foo"]}, ValueError, "strategy must be"),
        ({"repeats": 0}, ValueError, "repeats must be at least 1"),
        ({"warmup": -1}, ValueError, "warmup must be at least 0"),
        ({"budget": 0}, ValueError, "budget must be above 0"),
        ({"max_calls": 0}, ValueError, "max_calls must be at least 1"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        ({"clock": "sundial"}, ValueError, "clock must be"),
        ({"clock": "virtual"}, ValueError, 'clock="virtual" needs a native action'),
        ({"max_failures": [None, -1]}, ValueError, "max_failures must be at least 0"),
        ({"setup": 5}, TypeError, "setup must be a callable"),
    ],
)
def test_bad_arguments_before_anything_starts(given: dict[str, Any], error: type[Exception], told: str) -> None:
    calls: list[Any] = []
    with pytest.raises(error, match=told):
        sweep(calls.append, 3, **{"limit": 1, **given})
    assert not calls


def test_setup_of_a_native_action() -> None:
    with pytest.raises(ValueError, match="setup is for callables"):
        sweep(fw.noop(), 3, limit=1, setup=int)
