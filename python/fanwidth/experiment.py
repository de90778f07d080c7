"""The main job: the strategies side by side, measured on real waits and, at full size, on the virtual clock."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from . import machine, published
from .actions import NativeAction, cpu, delay
from .checks import check_choice, check_count, check_seconds
from .export import byte_size, percent, rate, seconds
from .options import Clock
from .progress import Progress, reporter
from .strategies import run as run_strategy
from .table import COMPARE_COLUMNS, Column, Table

if TYPE_CHECKING:
    from .run import Run

REAL_ITEMS = 1_000
FULL_ITEMS = (10_000, 100_000)
WAIT = published.WAIT
FOR_EACH_LIMIT = 8
BOUNDED_LIMIT = 50
CPU_ITEMS = 2_000
CPU_SECONDS = 0.001

Work = Literal["delay", "cpu"]

_CPU_COLUMNS = (
    Column("latency_p99", "float", "s", "measure", "99 % of the items took at most this long, from start to finish"),
    Column("wait_p50", "float", "s", "measure", "half of the items had started by then"),
)


@dataclass(frozen=True, slots=True)
class Point:
    """One line of the comparison, before it is measured."""

    strategy: str
    limit: int | None
    items: int
    clock: Clock


def compare(
    items: int | list[int] | None = None,
    *,
    delay: float | None = None,
    work: Work = "delay",
    clock: Clock | None = None,
    for_each_limit: int | Literal["cpu"] | None = None,
    bounded_limit: int | Literal["cpu"] | None = None,
    same_limit: int | None = None,
    chunked: bool = False,
    repeats: int = 1,
    seed: int | None = None,
    progress: bool = False,
) -> Table:
    """The same items under `for_each`, `when_all` and `bounded`, beside the ideal and the published .NET figures.

    items: how many, or several sizes; default: 1,000 on the real clock, then 10,000 and 100,000 on the virtual one.
    delay: seconds that each item takes; default 0.05, with work="cpu" 0.001.
    work: "delay" waits; "cpu" computes, which tells whether CPU-bound work wants `for_each`.
    clock: "real" or "virtual"; default: real, and both for the default items.
    for_each_limit, bounded_limit: default 8 and 50, as published (work="cpu": the CPUs, and 50); "cpu": the CPUs.
    same_limit: one limit for both, to see that they take the same time.
    chunked: also the common mistake, with bounded's limit.
    repeats: interleaved rounds; each line is then the run of median time.

    Returns a Table whose notes say what it shows. KeyboardInterrupt carries what was measured as `.table`.
    """
    check_choice("work", work, ("delay", "cpu"))
    if clock is not None:
        check_choice("clock", clock, ("real", "virtual"))
    rounds = check_count("repeats", repeats, 1)
    wait = (CPU_SECONDS if work == "cpu" else WAIT) if delay is None else check_seconds("delay", delay)
    seed = int.from_bytes(os.urandom(8)) >> 11 if seed is None else check_count("seed", seed, 0)
    first_limit = _limit("for_each_limit", for_each_limit, machine.cpus() if work == "cpu" else FOR_EACH_LIMIT)
    second_limit = _limit("bounded_limit", bounded_limit, BOUNDED_LIMIT)
    if same_limit is not None:
        first_limit = second_limit = _limit("same_limit", same_limit, 0)
    action = cpu(wait) if work == "cpu" else _delay(wait)

    points = [
        Point(strategy, limit, size, on)
        for on, size in _sizes(items, work, clock)
        for strategy, limit in (("for_each", first_limit), ("when_all", None), ("bounded", second_limit))
    ]
    if chunked:
        points += [Point("chunked", second_limit, p.items, p.clock) for p in points if p.strategy == "bounded"]
        points.sort(key=lambda p: (p.clock != "real", p.items))
    return _measured(points, action, rounds, seed, progress, work)


def _delay(wait: float) -> NativeAction:
    return delay(wait)


def _limit(name: str, given: Any, default: int) -> int:
    if given is None:
        return default
    return machine.cpus() if given == "cpu" else check_count(name, given, 1, 'or "cpu" for the number of CPUs')


def _sizes(items: Any, work: str, clock: Clock | None) -> Iterator[tuple[Clock, int]]:
    if items is None and work == "cpu":
        yield clock or "real", CPU_ITEMS
    elif items is None:
        if clock != "virtual":
            yield "real", REAL_ITEMS
        if clock != "real":
            yield from (("virtual", size) for size in FULL_ITEMS)
    else:
        for size in items if isinstance(items, list | tuple) else [items]:
            yield clock or "real", check_count("items", size, 1)


def _measured(points: list[Point], action: NativeAction, rounds: int, seed: int, progress: bool, work: str) -> Table:
    runs: dict[int, list[Run]] = {}
    total = sum(point.items for point in points if point.clock == "real") * rounds
    report = reporter(progress and total > 0, total, label="measuring")
    interrupted: BaseException | None = None
    done = 0
    try:
        for repeat in range(rounds):
            for place, point in enumerate(points):
                runs.setdefault(place, []).append(_one(point, action, seed + repeat, done, report))
                done += point.items if point.clock == "real" else 0
    except KeyboardInterrupt as error:
        interrupted = error
        if hasattr(error, "run"):
            runs.setdefault(place, []).append(error.run)
    finally:
        if report is not None:
            report.close()
    rows = [_row(points[place], action, sorted(of, key=lambda run: run.elapsed)[len(of) // 2]) for place, of in runs.items()]
    table = Table.from_rows(
        rows,
        [*COMPARE_COLUMNS[:-2], *(_CPU_COLUMNS if work == "cpu" else ()), *COMPARE_COLUMNS[-2:]],
        title=_title(action, rounds),
        notes=() if interrupted else _notes(points, runs, action),
        meta={**machine.describe(), "kind": "compare", "seed": seed, "repeats": rounds, "published": published.SOURCE},
        complete=interrupted is None,
    )
    if interrupted is not None:
        interrupted.table = table  # type: ignore[attr-defined]
        raise interrupted
    return table


def _one(point: Point, action: NativeAction, seed: int, done: int, report: Any) -> Run:
    def forward(progress: Progress) -> None:
        report(done + progress.done, progress.failed)

    watch: Any = forward if report is not None and point.clock == "real" else False
    limit = {} if point.limit is None else {"limit": point.limit}
    return run_strategy(
        action, point.items, strategy=point.strategy, clock=point.clock, seed=seed, progress=watch, errors="keep", **limit
    )


def _figure(point: Point, action: NativeAction) -> float | None:
    """The published time, beside a run of the published work under the published limit alone."""
    figure = published.published_figure(point.strategy, point.items)
    same = figure is not None and figure.limit == point.limit and action == delay(WAIT)
    return figure.elapsed if figure is not None and same else None


def _row(point: Point, action: NativeAction, run: Run) -> dict[str, object]:
    figure = _figure(point, action)
    note = f".NET took {figure / run.ideal:.2f} x the ideal" if figure is not None and run.ideal else ""
    if run.stopped_by is not None:
        note = f"stopped: {run.counts.ok:,} of {run.counts.total:,} done"
    row: dict[str, object] = {
        "method": point.strategy,
        "limit": point.limit,
        "items": point.items,
        "clock": point.clock,
        "time": run.elapsed,
        "ideal": run.ideal,
        "overhead": run.overhead,
        "throughput": run.throughput,
        "peak_in_flight": run.peak_in_flight,
        "engine_bytes_per_item": run.engine_bytes / run.counts.total,
        "published": figure,
        "note": note,
    }
    if isinstance(action, cpu):
        row |= {"latency_p99": run.latency.p99, "wait_p50": run.wait.p50}
    return row


def _title(action: NativeAction, rounds: int) -> str:
    time = action.time
    each = seconds(time.mean) if time is not None else "its own time"
    what = f"items that compute for {each} each" if isinstance(action, cpu) else f"items that wait {each} each"
    return f"{what}; native, no Python code runs" + (f"; median of {rounds} rounds" if rounds > 1 else "")


def _notes(points: list[Point], runs: dict[int, list[Run]], action: NativeAction) -> Iterator[str]:
    """What the table shows, in figures of the table itself."""
    first = {
        point.strategy: (point, statistics.median(run.elapsed for run in runs[place]), runs[place][0])
        for place, point in reversed(list(enumerate(points)))
        if point.items == points[0].items and point.clock == points[0].clock
    }
    (each_point, each_time, each_run), (_, all_time, all_run), (bounded_point, bounded_time, bounded_run) = (
        first[name] for name in ("for_each", "when_all", "bounded")
    )
    if isinstance(action, cpu):
        yield (
            f"Computing takes {seconds(each_run.ideal)} of {machine.cpus()} CPUs under every method; measured: "
            f"{seconds(each_time)} under for_each, {seconds(all_time)} under when_all, {seconds(bounded_time)} under bounded. "
            "What is above it went to switching and to other programs."
        )
        yield (
            f"What a small limit buys is short service: p99 {seconds(each_run.latency.p99)} at {each_point.limit} in flight, "
            f"{seconds(bounded_run.latency.p99)} at {bounded_run.peak_in_flight}, {seconds(all_run.latency.p99)} at "
            f"{all_run.peak_in_flight}; items wait for their start instead (p50 {seconds(each_run.wait.p50)}, "
            f"{seconds(bounded_run.wait.p50)} and {seconds(all_run.wait.p50)})."
        )
        yield (
            f"And memory: the engine held {byte_size(each_run.engine_bytes)}, {byte_size(all_run.engine_bytes)} and "
            f"{byte_size(bounded_run.engine_bytes)}; every thread has a stack besides."
        )
        return
    ratio = "" if not bounded_time else f" ({each_time / bounded_time:.2f} x)"
    if each_point.limit == bounded_point.limit:
        yield (
            f"With the same limit, {each_point.limit}, for_each and bounded take the same time: {seconds(each_time)} and "
            f"{seconds(bounded_time)}{ratio}. The limit makes the time, not the method."
        )
    else:
        yield (
            f"The limit makes the time, not the method: for_each took {seconds(each_time)} at {each_point.limit} and bounded "
            f"{seconds(bounded_time)} at {bounded_point.limit}{ratio}. Both are within {_near(each_run, bounded_run)} of their "
            f"ideals, ceil(items / limit) x {seconds(_mean(action))}."
        )
    yield _tick_note(action)
    yield (
        f"when_all has no limit: {all_run.peak_in_flight:,} waits were in flight at once, {seconds(all_time)} in all "
        f"({rate(all_run.throughput)}), at {byte_size(all_run.engine_bytes / all_run.counts.total)} each in this engine; "
        "tasks that run code need far more."
    )


def _near(*runs: Run) -> str:
    return percent(max(run.overhead or 0.0 for run in runs))


def _mean(action: NativeAction) -> float:
    return action.time.mean if action.time is not None else 0.0


def _tick_note(action: NativeAction) -> str:
    """A run at 62.5 ms gives the published figures: computed here, on the virtual clock."""
    ticked = published.timer_tick(WAIT)
    parts = []
    for strategy, limit in (("for_each", FOR_EACH_LIMIT), ("bounded", BOUNDED_LIMIT)):
        run = run_strategy(delay(ticked), FULL_ITEMS[0], strategy=strategy, limit=limit, clock="virtual", keep="summary")
        figure = published.published_time(strategy, FULL_ITEMS[0])
        parts.append(f"{seconds(run.elapsed, 4)} under {strategy} (published: {seconds(figure, 4)})")
    return (
        f"Windows timers tick every {seconds(published.WINDOWS_TICK)}, so {seconds(WAIT)} become {seconds(ticked)} there: "
        f"{FULL_ITEMS[0]:,} items of {seconds(ticked)} take {' and '.join(parts)}."
    )
