"""The main job: the strategies side by side, measured on real waits and, at full size, on the virtual clock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from . import actions, machine, published
from .checks import LARGEST, check_choice, check_count, check_seconds
from .columns import COMPARE_COLUMNS, KNOWN, Column
from .export import seconds
from .lessons import lessons, plain
from .options import Clock
from .progress import Progress, reporter
from .strategies import run as run_strategy
from .table import Table

if TYPE_CHECKING:
    from .runs import Run

REAL_ITEMS = 1_000
FULL_ITEMS = (10_000, 100_000)
WAIT = published.WAIT
FOR_EACH_LIMIT = 8
BOUNDED_LIMIT = 50
CPU_ITEMS = 2_000
CPU_SECONDS = 0.001

Work = Literal["delay", "cpu"]
Watch = bool | Callable[[Progress], object]

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


@dataclass(frozen=True, slots=True)
class Plan:
    """What is compared, checked."""

    points: list[Point]
    work: str
    wait: float  # seconds of each item
    rounds: int
    seed: int

    @property
    def action(self) -> actions.NativeAction:
        return actions.cpu(self.wait) if self.work == "cpu" else actions.delay(self.wait)

    @property
    def watched(self) -> Clock:
        """The clock whose runs progress is about: simulating costs next to nothing beside real waits."""
        return "real" if any(point.clock == "real" for point in self.points) else "virtual"

    @property
    def title(self) -> str:
        what = "compute for" if self.work == "cpu" else "wait"
        parts = [f"items that {what} {plain(self.wait)} each", "native, no Python code runs"]
        if any(point.clock == "virtual" for point in self.points):
            parts.append("virtual = simulated")
        if self.rounds > 1:
            parts.append(f"the median of {self.rounds} rounds")
        return "; ".join(parts)


def compare(
    items: int | Sequence[int] | None = None,
    *,
    delay: float | None = None,
    work: Work = "delay",
    clock: Clock | None = None,
    for_each_limit: int | Literal["cpu"] | None = None,
    bounded_limit: int | Literal["cpu"] | None = None,
    same_limit: int | Literal["cpu"] | None = None,
    chunked: bool = False,
    repeats: int = 1,
    seed: int | None = None,
    progress: Watch = False,
) -> Table:
    """The same items under `for_each`, `when_all` and `bounded`, beside the ideal and the published .NET figures.

    items: how many, or a list of sizes; default: 1,000 on the real clock, then 10,000 and 100,000 on the virtual one.
    delay: seconds that each item takes; default 0.05, with work="cpu" 0.001.
    work: "delay" waits; "cpu" computes, which tells whether CPU-bound work wants `for_each`.
    clock: "real" or "virtual"; default: real, and both for the default items.
    for_each_limit, bounded_limit: default 8 and 50, as published (work="cpu": the CPUs, and 50); "cpu": the CPUs.
    same_limit: one limit for both instead, to see that they take the same time.
    chunked: also the common mistake, with bounded's limit.
    repeats: interleaved rounds; each line is then the run of median time (of an even number, the faster of the middle two).
    seed: an int >= 0 that is recorded; round r draws from seed + r. None draws one.
    progress: True for a line on stderr, or a callable that is given a Progress over all runs on the real clock.

    Returns a Table whose notes say what it shows. KeyboardInterrupt carries what was measured as `.table`.
    """
    check_choice("work", work, ("delay", "cpu"))
    if clock is not None:
        check_choice("clock", clock, ("real", "virtual"))
    rounds = check_count("repeats", repeats, 1)
    wait = (CPU_SECONDS if work == "cpu" else WAIT) if delay is None else check_seconds("delay", delay)
    seed = int.from_bytes(os.urandom(8)) >> 11 if seed is None else check_count("seed", seed, 0)
    if seed + rounds - 1 > LARGEST:
        raise ValueError(f"seed must be below 2**63 in every round, got {seed} with {rounds} rounds")
    if same_limit is not None and not for_each_limit is bounded_limit is None:
        raise ValueError("same_limit sets both limits: leave out for_each_limit and bounded_limit")
    first = _limit("for_each_limit", for_each_limit, machine.cpus() if work == "cpu" else FOR_EACH_LIMIT)
    second = _limit("bounded_limit", bounded_limit, BOUNDED_LIMIT)
    if same_limit is not None:
        first = second = _limit("same_limit", same_limit, 0)
    lines = [("for_each", first), ("when_all", None), ("bounded", second), *([("chunked", second)] if chunked else [])]
    points = [Point(strategy, limit, size, on) for on, size in _sizes(items, work, clock) for strategy, limit in lines]
    return _measured(Plan(points, work, wait, rounds, seed), progress)


def _limit(name: str, given: Any, default: int) -> int:
    if given is None:
        return default
    if isinstance(given, str) and given == "cpu":
        return machine.cpus()
    return check_count(name, given, 1, 'or "cpu" for the number of CPUs')


def _sizes(items: Any, work: str, clock: Clock | None) -> Iterator[tuple[Clock, int]]:
    if items is None and work == "cpu":
        yield clock or "real", CPU_ITEMS
    elif items is None:
        if clock != "virtual":
            yield "real", REAL_ITEMS
        if clock != "real":
            yield from (("virtual", size) for size in FULL_ITEMS)
    else:
        sizes = items if isinstance(items, list | tuple | range) else [items]
        if not sizes:
            raise ValueError(f"items must be a size or several, got {items!r}")
        for size in sizes:
            yield clock or "real", check_count("items", size, 1)


Rows = list[dict[str, Any]]


def _measured(plan: Plan, progress: Watch) -> Table:
    rounds: list[Rows] = [[] for _ in plan.points]  # by point
    interrupted: KeyboardInterrupt | None = None
    total = sum(point.items for point in plan.points if point.clock == plan.watched) * plan.rounds
    report = reporter(progress, total, label="measuring")
    done = 0
    try:
        for repeat in range(plan.rounds):
            for point, rows in zip(plan.points, rounds, strict=True):
                watched = point.clock == plan.watched
                _measure(point, plan, repeat, _forward(report, done) if watched else False, rows)
                done += point.items if watched else 0
        if report is not None:
            report.close(done, 0)
    except KeyboardInterrupt as error:
        interrupted = error
    finally:
        if report is not None:
            report.close()
    table = _table(plan, rounds, interrupted is None)
    if interrupted is not None:
        interrupted.table = table  # type: ignore[attr-defined]
        raise interrupted
    return table


def _forward(report: Callable[[int, int], None] | None, done: int) -> Watch:
    """Progress of one run as progress of all of them."""
    return False if report is None else lambda progress: report(done + progress.done, progress.failed)


def _measure(point: Point, plan: Plan, repeat: int, watch: Watch, rows: Rows) -> None:
    """Measures one point and adds its row; adds that of what was done, too, when interrupted."""
    options: dict[str, Any] = {} if point.limit is None else {"limit": point.limit}
    options |= {"strategy": point.strategy, "clock": point.clock, "seed": plan.seed + repeat, "progress": watch}
    try:
        run = run_strategy(plan.action, point.items, errors="keep", **options)
    except KeyboardInterrupt as error:
        if hasattr(error, "run"):
            rows.append(_row(point, plan, error.run))
        raise
    except MemoryError as error:
        raise MemoryError(f"no memory for {point.items:,} items under {point.strategy} (use fewer)") from error
    rows.append(_row(point, plan, run))


def _row(point: Point, plan: Plan, run: Run) -> dict[str, Any]:
    row: dict[str, Any] = {
        "method": point.strategy,
        "limit": point.limit,
        "items": point.items,
        "clock": point.clock,
        "time": run.elapsed,
        "ideal": run.ideal,
        "overhead": run.overhead,
        "throughput": run.throughput,
        "peak_in_flight": run.peak_in_flight,
        "engine_bytes_per_item": run.engine_bytes / point.items,
        "ok": run.counts.ok,
        "published": _published(point, plan),
    }
    if plan.work == "cpu":
        row |= {"latency_p99": run.latency.p99, "wait_p50": run.wait.p50}
    return row


def _published(point: Point, plan: Plan) -> float | None:
    """The published time, beside a run of the published work under the published limit alone."""
    figure = published.published_figure(point.strategy, point.items)
    same = figure is not None and figure.limit == point.limit and plan.work == "delay" and plan.wait == WAIT
    return figure.elapsed if figure is not None and same else None


def _middle(rows: Rows) -> dict[str, Any]:
    """The run of median time among those that ran to their end, with what there is to say about it as its note."""
    whole = sorted((row for row in rows if row["ok"] == row["items"]), key=lambda row: row["time"])
    row = whole[(len(whole) - 1) // 2] if whole else rows[0]
    notes = []
    if not whole:
        notes.append(f"stopped: {row['ok']:,} of {row['items']:,} done")
    elif row["published"] and row["ideal"]:
        notes.append(f".NET took {row['published'] / row['ideal']:.2f} x the ideal")
    if len(whole) > 1 and row["clock"] == "real":
        notes.append(f"rounds: {seconds(whole[0]['time'])} to {seconds(whole[-1]['time'])}")
    return {**row, "note": "; ".join(notes)}


def _table(plan: Plan, rounds: list[Rows], complete: bool) -> Table:
    rows = [_middle(of) for of in rounds if of]
    columns = list(COMPARE_COLUMNS[:-2])
    columns += _CPU_COLUMNS if plan.work == "cpu" else ()
    columns += () if complete else (KNOWN["ok"],)  # how much of an interrupted run there is
    columns += COMPARE_COLUMNS[-2:]
    cpus = machine.cpus()
    meta = {
        **machine.describe(),
        "kind": "compare",
        "work": plan.work,
        "delay": plan.wait,
        "seed": plan.seed,
        "repeats": plan.rounds,
        **({"published": published.SOURCE} if any(row["published"] for row in rows) else {}),
    }
    return Table(
        columns,
        {column.name: [row[column.name] for row in rows] for column in columns},
        title=plan.title,
        notes=lessons(rows, work=plan.work, wait=plan.wait, cpus=cpus, seed=plan.seed) if complete else (),
        meta=meta,
        complete=complete,
    )
