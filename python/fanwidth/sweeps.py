"""A grid of runs: `fw.sweep` measures an action over strategies, limits, sizes and the action's own arguments."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import asdict
from typing import Any

from . import axes as axes_module
from . import machine, native
from .actions import NativeAction, describe
from .axes import Point
from .budget import Budget
from .checks import check_choice, check_count, check_seconds
from .errors import short
from .export import Cell, json_safe
from .journal import JournalWriter
from .options import DEFAULT, Clock, check_options
from .progress import Progress, Reporter, reporter
from .source import Source, check_action, check_source
from .table import Table
from .trials import Measured, Plan, Trial, many, measure


def sweep(
    action: Any,
    items: Any,
    *,
    strategy: Any = "bounded",
    limit: Any = None,
    max_failures: Any = DEFAULT,
    repeats: int = 5,
    budget: float | None = None,
    max_calls: int | None = None,
    warmup: int = 1,
    setup: Callable[[], Any] | None = None,
    journal: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    clock: Clock = "real",
    seed: int | None = None,
    progress: bool | Callable[[Progress], object] = True,
    zip: bool = False,
    **axes: Any,
) -> Table:
    """Measures an action at every combination of its axes, several times, and gives one row per run.

        fw.sweep(fw.service(0.05, capacity=10), 2_000, limit=fw.geometric(1, 64), capacity=[5, 10])

    Axes are `strategy`, `limit`, `items` where it is a number, `max_failures`, and by keyword any field of a native action
    or any keyword argument of a callable. An axis is a list (tuple, range, array); anything else, text too, is one value,
    and a column all the same. A strategy without a limit is one point, whatever the limits.

    action: a native action, its class (`fw.delay, seconds=[...]`), a sync or an async callable.
    items: how many, or a list of such sizes; or rows to work on (a list of anything but ints, an array, a range). Rows go
        round: a run takes those that follow the rows of the run before, and where each run takes all of them, each begins
        at another one, so that no point meets just what is still in a cache. A cache that holds all rows helps all runs
        after the warm-up: to keep out of it give many rows and a `max_calls`, which is then shared out.
    repeats, warmup: rounds over all points, in an order that is shuffled in each round, so that what disturbs the machine
        disturbs all points alike. Warm-up rounds come first; their rows are marked. All points of a round have one seed.
    budget: seconds for all. What would not fit into the rest is not started (see the notes), what turns out not to fit is
        stopped and left out.
    max_calls: the most calls of the action in all. With rows each run takes max_calls / runs of them, where that is fewer.
    setup: as in `fw.bounded`, for every run anew.
    journal: a path (.jsonl) to which each run's row is written when the run has ended. The same sweep with the same journal
        goes on where that ends; ValueError where it is another machine's or another sweep's.
    executor: a concurrent.futures.Executor, to which each run is one task; action, setup and rows are pickled.
        Runs that share a host disturb each other. To give each a host of its own: one worker with one thread per host,
        or with Dask a resource, `Client.get_executor(resources={"host": 1})` on workers started with
        `--resources host=1`. `ProcessPoolExecutor(1)` measures one at a time, apart from this process.
    clock: "virtual": exact, simulated times of native actions.
    seed: of order and drawn times; None draws one (or takes the journal's) and records it.
    progress: True, False or a callable, as in `fw.bounded`; it counts items.
    zip: the first values of all axes make the first point, and so on, instead of all combinations.

    Returns a Table: `table.summary()` has one row per point. Failed items are in the counts; a run that ended in an
    exception is a row with a text in `error`. Ctrl-C is a KeyboardInterrupt with what was measured as `.table`.
    TypeError or ValueError for wrong arguments, before anything starts.
    """
    _check_action(action, items)
    check_choice("clock", clock, ("real", "virtual"))
    repeats, warmup = check_count("repeats", repeats, 1), check_count("warmup", warmup, 0)
    if budget is not None:
        budget = check_seconds("budget", budget, above_zero=True)
    if max_calls is not None:
        max_calls = check_count("max_calls", max_calls, 1, "None for no bound")
    _check_executor(executor)
    rows = None if axes_module.is_sizes(items) else axes_module.rows_of(check_source(items).items)
    sizes = axes_module.values_of("items", items) if rows is None else [len(rows)]
    arguments = {"strategy": strategy, "limit": limit, "max_failures": max_failures, "axes": axes, "zipped": bool(zip)}
    points = axes_module.grid(action, sizes, **arguments, with_setup=setup is not None)
    runs = len(points) * (repeats + warmup)
    if rows is not None and max_calls is not None and not isinstance(points[0].action, NativeAction):
        share = max(1, min(len(rows), max_calls // runs))
        points = axes_module.grid(action, [share], **arguments, with_setup=setup is not None)
    _check_runs(points, setup, clock, seed)
    drawn = int.from_bytes(os.urandom(8)) >> 11 if seed is None else int(seed)
    plan = Plan(points, repeats, warmup, drawn, clock, setup, rows)
    return _Sweep(plan, action, Budget(budget, max_calls), executor, progress).run(journal, seed is None)


def _check_executor(executor: Any) -> None:
    if executor is not None and not isinstance(executor, Executor):
        hint = " (Dask's is client.get_executor())" if hasattr(executor, "get_executor") else ""
        raise TypeError(f"executor must be a concurrent.futures.Executor or None, got {short(executor)}{hint}")


def _check_action(action: Any, items: Any) -> None:
    if not (isinstance(action, type) and issubclass(action, NativeAction) and action is not NativeAction):
        check_action(action, items)


def _check_runs(points: Sequence[Point], setup: Any, clock: str, seed: Any) -> None:
    """What every single run would refuse is refused once, and first."""
    for point in points:
        options = check_options(point.strategy, limit=point.limit, setup=setup, clock=clock, seed=seed)
        if isinstance(point.action, NativeAction):
            native.refuse(point.action, Source(range(point.items), point.items), options)
        elif clock == "virtual":
            raise ValueError('clock="virtual" needs a native action, whose times are drawn (a callable has to be run)')


class _Sweep:
    """A sweep under way."""

    def __init__(
        self,
        plan: Plan,
        action: Any,
        budget: Budget,
        executor: Executor | None,
        progress: bool | Callable[[Progress], object],
    ) -> None:
        self.plan = plan
        self.action = action
        self.budget = budget
        self.executor = executor
        self.progress = progress
        self.columns = axes_module.axis_columns(plan.points)
        self.rows: list[dict[str, Cell]] = []
        self.measured: list[tuple[Trial, Measured]] = []
        self.planned = len(plan.points) * plan.rounds
        self.retried = 0

    def run(self, path: str | os.PathLike[str] | None, own_seed: bool) -> Table:
        if path is None:
            return self._run(None)
        with JournalWriter(path, self._header() | {"columns": list(map(asdict, self.columns))}, own_seed=own_seed) as journal:
            self.plan = self.plan.with_seed(journal.seed)
            self.rows, self.retried = list(journal.rows), journal.retried
            return self._run(journal)

    def _run(self, journal: JournalWriter | None) -> Table:
        names = [*self.plan.points[0].row(), "repeat", "warmup"]
        there = {tuple(row.get(name) for name in names) for row in self.rows}
        todo = [trial for trial in self.plan.trials() if trial.key not in there]
        report = reporter(self.progress, sum(trial.point.items for trial in todo), label="sweep") if todo else None
        try:
            for trial, measured in self._measure(self.budget.fitting(iter(todo)), report):
                self.budget.done(trial, measured)
                self.measured.append((trial, measured))
                if not measured.cut:
                    self.rows.append(measured.row)
                    if journal is not None:
                        journal.add(measured.row, measured.host)
                if report is not None:
                    report(*self._done())
            if journal is not None and not journal.complete and self.complete:
                journal.finish()
        except BaseException as error:  # what was measured must not be lost, whatever stops the measuring
            error.table = self.table()  # type: ignore[attr-defined]
            raise
        finally:
            if report is not None:
                report.close(*self._done())
        return self.table()

    def _measure(self, trials: Iterator[Trial], report: Reporter | None) -> Iterator[tuple[Trial, Measured]]:
        if self.executor is not None:
            from .remote import measured_remotely

            return measured_remotely(trials, self.executor, len(self.plan.points))
        return ((trial, measure(trial, self._forward(report))) for trial in trials)

    def _forward(self, report: Reporter | None) -> Callable[[Progress], None] | bool:
        if report is None:
            return False
        done, failed = self._done()
        return lambda progress: report(done + progress.done, failed + progress.failed)

    def _done(self) -> tuple[int, int]:
        """Items that have ended, and how many of them failed."""
        return sum(trial.point.items for trial, _ in self.measured), sum(measured.failed for _, measured in self.measured)

    @property
    def complete(self) -> bool:
        return len(self.rows) == self.planned and not any(row.get("error") for row in self.rows)

    def table(self) -> Table:
        """What has been measured until now, in the order it was."""
        size = f"{many(len(self.plan.points), 'point')}, {many(self.plan.repeats, 'repeat')}"
        return Table.from_rows(
            self.rows,
            self.columns,
            title=f"sweep of {describe(self.action)}: {size}",
            notes=self._notes(),
            meta=self._header(),
            complete=len(self.rows) == self.planned,
        )

    def _header(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "kind": "sweep",
            "host": platform.node(),
            **machine.describe(),
            "seed": plan.seed,
            "sweep": {
                "action": _named(self.action),
                "setup": None if plan.setup is None else _named(plan.setup),
                "axes": {name: _values(plan.points, name) for name in plan.points[0].row()},
                "rows": None if plan.rows is None else _digest(plan.rows),
                "points": _digest([point.row() for point in plan.points]),
                "repeats": plan.repeats,
                "warmup": plan.warmup,
                "clock": plan.clock,
            },
        }

    def _notes(self) -> Iterator[str]:
        yield from self.budget.notes(self.planned)
        if self.retried:
            yield f"{many(self.retried, 'run')} that had ended in an error before: run again."
        errors = [(trial, measured.row["error"]) for trial, measured in self.measured if measured.row.get("error")]
        if errors:
            trial, why = errors[0]
            yield f"{len(errors):,} of {many(self.planned, 'run')} ended in an error; the first ({trial}): {why}"
        failures = [(trial, measured) for trial, measured in self.measured if measured.failure and not measured.cut]
        if failures:
            trial, measured = failures[0]
            count = sum(measured.failed for _, measured in failures)
            yield f"{many(count, 'item')} failed, in {many(len(failures), 'run')}; the first ({trial}): {measured.failure}"
        host, at_once = _crowd([measured for _, measured in self.measured if measured.host])
        hosts = sorted({measured.host for _, measured in self.measured if measured.host})
        if self.plan.clock == "real" and len(hosts) > 1:
            yield f"Measured on {len(hosts):,} hosts ({', '.join(hosts[:5])}): what differs may be the machines."
        if self.plan.clock == "real" and at_once > 1:
            yield f"Up to {at_once:,} runs at a time shared the host {host}, where they disturb each other."


def _crowd(measured: Sequence[Measured]) -> tuple[str, int]:
    """The host with the most runs at a time, and how many those were."""
    most: dict[str, int] = {}
    running: Counter[str] = Counter()
    # An end comes before a beginning at the same instant.
    events = [(one.began, 1, one.host) for one in measured] + [(one.began + one.seconds, -1, one.host) for one in measured]
    for _, change, host in sorted(events):
        running[host] += change
        most[host] = max(running[host], most.get(host, 0))
    return max(most.items(), key=lambda entry: entry[1], default=("", 0))


def _named(action: Any) -> str:
    """What an action is, the same in every process."""
    name = describe(action)
    module = getattr(action, "__module__", None)
    label = axes_module.label(name)
    return str(label) if isinstance(action, NativeAction) or not isinstance(module, str) else f"{module}.{label}"


def _values(points: Sequence[Point], name: str) -> list[Cell]:
    """The values of one axis, in the order met."""
    return list({(type(value), value): value for value in (point.row()[name] for point in points)}.values())


def _digest(values: Sequence[Any]) -> str:
    """How many values, and a hash of what they are: enough to know them again."""
    text = json.dumps([axes_module.label(value) if not isinstance(value, dict) else json_safe(value) for value in values])
    return f"{len(values)}, sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"
