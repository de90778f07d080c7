"""Sweeps: rows that go round, rounds and seeds, callables, failures, interrupts. Exact on the virtual clock."""

import asyncio
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fanwidth as fw
from fanwidth import sweeps, trials
from fanwidth.axes import geometric
from fanwidth.table import Table


def sweep(*args: Any, **kwargs: Any) -> Table:
    """Once, quietly, without a warm-up, unless said otherwise."""
    return sweeps.sweep(*args, **{"progress": False, "repeats": 1, "warmup": 0, "seed": 1, **kwargs})


def virtual(action: Any, items: Any, **kwargs: Any) -> Table:
    return sweep(action, items, clock="virtual", **kwargs)


def work(row: Any, op: str = "", x: int = 0, *, y: Any = 0) -> Any:
    return row


# Items


def test_a_list_of_ints_is_an_axis_of_sizes() -> None:
    table = virtual(fw.delay(1), geometric(1, 8), limit=1)
    assert {row["items"]: row["elapsed"] for row in table} == {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}


async def _agen() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("items", "error", "told"),
    [
        ((n for n in range(3)), TypeError, r"items is a generator, which only one run could read \(pass a list"),
        (iter([1, 2]), TypeError, "items is a list_iterator, which only one run could read"),
        (_agen(), TypeError, "items is an async_generator, which only one run could read"),
        ("abc", TypeError, "items is a str, whose items are its characters"),
        (None, TypeError, "items must be an int, an iterable"),
        ([], ValueError, "items must hold at least one item, got none"),
        ([3, 0], ValueError, "items must be at least 1, got 0"),
        ([True], TypeError, "items must be an int"),
        (0, ValueError, "items must be at least 1, got 0"),
    ],
)
def test_items_that_no_sweep_can_use(items: Any, error: type[Exception], told: str) -> None:
    # DX-iter S096
    with pytest.raises(error, match=told):
        sweep(work, items, limit=1)


def test_swapped_arguments() -> None:
    with pytest.raises(TypeError, match="action and items are swapped"):
        sweep([1, 2], work, limit=1)


def worked_on(rows: Any, **kwargs: Any) -> list[list[Any]]:
    """What each run of a sweep worked on, in the order they ran."""
    runs: list[list[Any]] = []

    class Setup:
        def __enter__(self) -> list[Any]:
            runs.append([])
            return runs[-1]

        def __exit__(self, *_: object) -> None:
            pass

    sweep(lambda row, seen: seen.append(row), rows, limit=1, strategy=["bounded", "chunked"], setup=Setup, **kwargs)
    return runs


def test_rows_go_round_every_run_begins_at_another() -> None:
    rows = list("abcdef")
    runs = worked_on(rows, repeats=2)
    assert ["".join(run) for run in runs] == ["abcdef", "defabc", "abcdef", "defabc"]


def test_rows_go_round_in_shares_of_max_calls() -> None:
    runs = worked_on(list("abcdefghij"), repeats=2, max_calls=15)
    assert ["".join(run) for run in runs] == ["abc", "def", "ghi", "jab"]


def test_rows_of_a_native_action_stay_in_order() -> None:
    rows = [3.0, 1.0, 1.0, 1.0]
    table = virtual(fw.delay(), rows, limit=[2, 4], repeats=2)
    assert {(row["limit"], row["elapsed"], row["items"]) for row in table} == {(2, 3.0, 4), (4, 3.0, 4)}


@pytest.mark.parametrize(
    "rows", [range(3), np.arange(3), {5, 6, 7}, {1: 0, 2: 0, 3: 0}, ("a", "b", "c")], ids=lambda r: type(r).__name__
)
def test_rows_may_be_any_collection(rows: Any) -> None:
    table = sweep(work, rows, limit=1, repeats=2)
    assert table["ok"] == (3, 3) and table["items"] == (3, 3)


# Rounds, order, seeds


def test_repeats_are_interleaved_in_shuffled_rounds() -> None:
    table = virtual(fw.delay(1), 4, limit=list(range(1, 9)), repeats=3, warmup=2, seed=5)
    assert len(table) == 40
    rounds = [table[start : start + 8] for start in range(0, 40, 8)]
    assert [set(part["warmup"]) for part in rounds] == [{True}, {True}, {False}, {False}, {False}]
    assert [set(part["repeat"]) for part in rounds] == [{0}, {1}, {0}, {1}, {2}]
    assert all(sorted(part["limit"]) == list(range(1, 9)) for part in rounds)
    assert len({part["limit"] for part in rounds}) == 5
    assert table == virtual(fw.delay(1), 4, limit=list(range(1, 9)), repeats=3, warmup=2, seed=5)


def test_all_points_of_a_round_have_one_seed() -> None:
    action = fw.delay(fw.exponential(1))
    table = virtual(action, 100, strategy=["bounded", "chunked"], limit=[1, 7], repeats=3, warmup=1, seed=5)
    measured = table.filter(warmup=False)
    assert {(row["repeat"], row["seed"]) for row in measured} == {(0, 5), (1, 6), (2, 7)}
    assert set(table.filter(warmup=True)["seed"]) == {8}  # another draw than any that counts
    for row in measured:
        same = fw.run(action, 100, strategy=row["strategy"], limit=row["limit"], clock="virtual", seed=row["seed"])
        assert row["elapsed"] == same.elapsed and row["latency_p99"] == same.latency.p99


def test_a_seed_is_drawn_and_recorded() -> None:
    table = virtual(fw.delay(fw.exponential(1)), 10, limit=1, seed=None)
    assert table.meta["seed"] == table["seed"][0]
    assert virtual(fw.delay(fw.exponential(1)), 10, limit=1, seed=table.meta["seed"]) == table
    assert virtual(fw.noop(), 1, limit=1, seed=2**63 - 1, repeats=2)["seed"] == (2**63 - 1, 0)


def test_warm_up_runs_are_in_no_summary() -> None:
    table = virtual(fw.delay(1), 4, limit=[1, 2], repeats=3, warmup=2)
    assert table.summary("elapsed")["repeats"] == (3, 3)


def test_what_the_table_says_of_itself() -> None:
    table = sweeps.sweep(fw.delay(1), 4, limit=2, clock="virtual", progress=False)
    assert len(table) == 6 and table.complete and table.notes == ()
    assert table.title == "sweep of delay(1): 1 point, 5 repeats"
    assert table.meta["kind"] == "sweep" and "cpus" in table.meta and "host" in table.meta
    assert "error" not in table.columns


# Callables


async def awork(row: Any, pause: float = 0.0) -> Any:
    assert asyncio.get_running_loop()
    await asyncio.sleep(pause)
    return row


class AsyncObject:
    async def __call__(self, row: Any, pause: float = 0.0) -> Any:
        return await awork(row, pause)


@pytest.mark.parametrize("action", [awork, AsyncObject(), functools.partial(awork)], ids=["function", "object", "partial"])
def test_async_callables_stay_async_under_keywords(action: Any) -> None:
    table = sweep(action, 6, strategy=["for_each", "when_all", "bounded"], limit=3, pause=[0.0, 0.001])
    assert table["ok"] == (6,) * 6
    assert set(table.filter(strategy="when_all")["peak_in_flight"]) == {6}
    assert set(table.filter(strategy="bounded")["peak_in_flight"]) <= {1, 2, 3}


def test_sweep_within_a_running_loop() -> None:
    async def notebook() -> Table:
        return sweep(awork, 4, limit=2)

    assert asyncio.run(notebook())["ok"] == (4,)


def test_setup_is_entered_for_every_run() -> None:
    entered: list[int] = []
    sweep(lambda row, n: row, 3, limit=1, repeats=3, setup=lambda: entered.append(1))
    assert len(entered) == 3


# Failures


def fails_on(row: int, bad: int = 0) -> int:
    if row % 5 < bad:
        raise ValueError(f"row {row}")
    return row


def test_failures_of_items_end_in_counts() -> None:
    table = sweep(fails_on, 10, limit=2, bad=[0, 1], repeats=2)
    assert {(row["bad"], row["ok"], row["failed"]) for row in table} == {(0, 10, 0), (1, 8, 2)}
    assert "error" not in table.columns and table.complete
    assert table.notes == (
        "4 items failed, in 2 runs; the first (bounded, limit 2, bad 1, 10 items, repeat 0): item 0: ValueError: row 0",
    )


def test_max_failures_is_an_axis() -> None:
    table = sweep(fails_on, 10, limit=1, bad=5, max_failures=[0, 3, None])
    assert {row["max_failures"]: (row["failed"], row["not_started"]) for row in table} == {0: (1, 9), 3: (4, 6), None: (10, 0)}
    assert table.column("max_failures").kind == "int"


def test_a_full_queue_ends_in_counts() -> None:
    table = virtual(fw.service(1, capacity=1, queue=2), 10, strategy="when_all")
    assert table["ok"] == (3,) and table["failed"] == (7,) and "QueueFull" in table.notes[0]


class Refuses(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"no {a}\n{b}")


def test_an_exception_of_the_run_ends_in_a_row() -> None:
    def setup() -> int:
        raise Refuses(1, 2)

    table = sweep(lambda row, value: row, 3, limit=[1, 2], setup=setup, repeats=2)
    assert table["error"] == ("Refuses: no 1 2",) * 4
    assert table["elapsed"] == (None,) * 4 and table["items"] == (3,) * 4 and sorted(table["limit"]) == [1, 1, 2, 2]
    assert table.notes[0].startswith("4 of 4 runs ended in an error; the first (bounded, limit ")
    assert table.summary("elapsed")["elapsed_median"] == (None, None)


def test_rows_that_raise_while_they_are_read_end_in_a_row() -> None:
    class Rows(tuple[int, ...]):
        def __iter__(self) -> Iterator[int]:
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):  # read at once, before anything starts
        sweep(work, Rows((1,)), limit=1)
    table = virtual(fw.delay(), [0.1, "x"], strategy=["when_all", "bounded"], limit=1)
    assert "delay of item 1" in str(table.filter(strategy="when_all")["error"][0])
    assert table.filter(strategy="bounded")["failed"] == (1,)


# Interrupts and progress


def test_runs_at_a_time_are_counted_by_host() -> None:
    def one(host: str, began: float, seconds: float) -> trials.Measured:
        return trials.Measured({}, seconds, 1, host=host, began=began)

    assert sweeps._crowd([one("a", 0, 2), one("a", 2, 2), one("b", 1, 2)]) == ("a", 1)
    assert sweeps._crowd([one("a", 0, 2), one("b", 0, 9), one("b", 1, 1), one("b", 3, 9), one("b", 4, 1)]) == ("b", 3)
    assert sweeps._crowd([]) == ("", 0)


def test_ctrl_c_keeps_what_is_done() -> None:
    seen: list[int] = []

    def stops(row: int) -> int:
        seen.append(row)
        if len(seen) == 25:
            raise KeyboardInterrupt
        return row

    with pytest.raises(KeyboardInterrupt) as caught:
        sweep(stops, 10, limit=[1, 2], repeats=3)
    table = caught.value.table
    assert isinstance(table, Table) and len(table) == 2 and not table.complete
    assert table["ok"] == (10, 10)


def test_progress_counts_items_of_all_runs() -> None:
    seen: list[Any] = []
    table = sweep(fails_on, 10, limit=[1, 2], bad=1, repeats=2, progress=seen.append)
    assert (seen[-1].done, seen[-1].total, seen[-1].failed) == (40, 40, 8)
    assert sorted(now.done for now in seen) == [now.done for now in seen] and len(table) == 4


def test_nothing_is_printed_without_progress(capfd: pytest.CaptureFixture[str]) -> None:
    virtual(fw.delay(1), 10, limit=[1, 2])
    assert capfd.readouterr() == ("", "")
    sweeps.sweep(fw.delay(1), 10, limit=[1, 2], clock="virtual")
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("sweep: 120/120 (100%)")
