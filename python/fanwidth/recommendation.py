"""Which limit the work needs, with the evidence, or why that cannot be told: `fw.recommend` and `fw.check_limit`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from . import evidence as evidence_module
from . import machine, search
from .axes import geometric
from .bench import Bench
from .checks import check_count, check_seconds
from .columns import STEADY
from .errors import short
from .evidence import Evidence
from .options import Clock
from .scalability import Point, Verdict, ceiling_hint, knee, littles_law, points_from_rows, usl, verdict
from .steady import steady_rows
from .table import Table

Found = TypeVar("Found")

LIMITS = tuple(geometric(1, 256))
SHORT = 10
REFINEMENTS = 5
"""Limits that usually follow around the knee."""


@dataclass(frozen=True, repr=False)
class Recommendation:
    """`limit` is what to use, or None where `reason` says why that cannot be told. Printed, it shows the evidence."""

    limit: int | None
    reason: str
    table: Table
    """Every run; `table.meta["recommendation"]` holds the answer, and so do its exports as JSON."""
    evidence: Evidence

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        return _sentence(self.limit, self.reason)

    def __str__(self) -> str:
        return evidence_module.text(self)

    __repr__ = __str__  # what a prompt shows is what one wants to read

    def _repr_html_(self) -> str:
        return evidence_module.page(self)


@dataclass(frozen=True, repr=False)
class LimitCheck:
    """Whether `limit` is right: `verdict` is "ok", "too_low", "too_high" or "unknown"."""

    limit: int
    verdict: Verdict
    reason: str
    table: Table

    def __str__(self) -> str:
        return f"limit {self.limit} is {self.verdict.replace('_', ' ')}: {self.reason}"

    __repr__ = __str__

    def overview(self) -> Table:
        """A row per limit: throughput, its spread over the runs, p99, failures."""
        points = points_from_rows(steady_rows(self.table))
        return evidence_module.overview(points, {self.limit: f"<- {self.verdict.replace('_', ' ')}"})


def recommend(
    action_or_table: Any,
    items: Any = None,
    *,
    limits: Iterable[int] = LIMITS,
    tolerance: float = 0.05,
    max_p99: float | None = None,
    min_throughput: float | None = None,
    max_failure_rate: float = 0.0,
    repeats: int = 3,
    budget: float | None = 60,
    max_calls: int | None = None,
    setup: Callable[[], Any] | None = None,
    clock: Clock = "real",
    seed: int | None = None,
    progress: bool | Callable[[Any], object] = True,
) -> Recommendation:
    """The smallest limit whose throughput is within `tolerance` of the best, measured; or an honest refusal.

        fw.recommend(fetch, rows, setup=make_client, budget=60)

    action_or_table: a native action or a callable; or the Table of a sweep, of which all rows count: nothing is measured.
    items: rows to work on, or how many. They go round: a run takes those that follow the rows of the run before, so that no
        limit meets just what is in a cache, and each comes again only after all others. There must be two for each slot of
        the largest limit, or a row would come again while it is in flight. None for native actions: as many as needed.
    limits: to measure first, 1 always; around the knee others follow. Climbing ends where throughput clearly falls or where
        failures exceed `max_failure_rate`.
    max_p99: seconds; only limits whose p99 latency meets it are considered.
    min_throughput: items per second; then it is the smallest limit that reaches it.
    max_failure_rate: share of failed and timed-out items, from 0 to below 1.
    repeats: runs per limit; where noise leaves doubt, a limit gets up to three times as many.
    budget: seconds for all of it, on the real clock. max_calls: of the action.
    setup: as in `fw.bounded`, for every run anew.
    clock: "virtual" for native actions: simulated, in a moment, each run with at least 2,000 items and 20 for each slot.
    seed: of order and drawn times; None draws one and records it.
    progress: True, False or a callable, as in `fw.bounded`.

    Throughput is that while all slots are taken, the column `steady_throughput`: the beginning and the end of a short run,
    which a long one hardly has, do not count.

    Returns a Recommendation (`limit` or None, `reason`, `table`, `evidence`). It refuses when the data are too noisy, still
    rising at the last limit, or too few. Ctrl-C is a KeyboardInterrupt with what was measured as `.table`.
    TypeError or ValueError for wrong arguments, before anything starts.
    """
    conditions = _conditions(tolerance, max_p99, min_throughput, max_failure_rate)
    climb = sorted({1, *_limits(limits)})
    if isinstance(action_or_table, Table):
        if items is not None:
            raise TypeError("items is for an action to measure; a table has been measured already")
        points, exact = _points(action_or_table)
        findings = search.Findings(list(_short_runs(action_or_table, points)))
        return _recommendation(points, action_or_table, conditions, findings, exact=exact, seed=0, hints=not exact)
    bench = Bench(
        action_or_table,
        items,
        limits=climb,
        more=REFINEMENTS,
        repeats=repeats,
        budget=budget,
        max_calls=max_calls,
        setup=setup,
        clock=clock,
        seed=seed,
        progress=progress,
    )
    findings = _guarded(bench, "recommendation", lambda: search.knee(bench, climb, conditions))
    findings.notes += bench.notes()
    return _recommendation(
        bench.points(),
        bench.table("recommendation"),
        conditions,
        findings,
        exact=bench.exact,
        seed=bench.seed,
        hints=not bench.native,
    )


def check_limit(
    action_or_table: Any,
    limit: int,
    items: Any = None,
    *,
    factors: Sequence[float] = (0.5, 1, 2),
    tolerance: float = 0.05,
    max_p99: float | None = None,
    min_throughput: float | None = None,
    max_failure_rate: float = 0.0,
    repeats: int = 3,
    budget: float | None = 60,
    max_calls: int | None = None,
    setup: Callable[[], Any] | None = None,
    clock: Clock = "real",
    seed: int | None = None,
    progress: bool | Callable[[Any], object] = False,
) -> LimitCheck:
    """Whether a limit that is in use is still right: measured at `limit` x `factors`, for pytest suites.

        assert fw.check_limit(fetch, 50, rows).verdict == "ok"

    "too_low": a larger one gives more than twice the `tolerance` over it (twice, as a limit that `recommend` gave may be up
    to `tolerance` below the best, and must not fail by noise); "too_high": a smaller one gives as much within `tolerance`,
    or `limit` breaks a condition; "ok": neither; "unknown": too close, too noisy or too few to tell. While that is so, more
    repeats are measured, up to three times as many, as far as the budget goes. The other arguments are those of `recommend`.
    """
    limit = check_count("limit", limit, 1)
    conditions = _conditions(tolerance, max_p99, min_throughput, max_failure_rate)
    factors = _factors(factors)
    if isinstance(action_or_table, Table):
        if items is not None:
            raise TypeError("items is for an action to measure; a table has been measured already")
        points, exact = _points(action_or_table)
        found, reason = verdict(points, limit, factors=factors, exact=exact, **conditions)
        return LimitCheck(limit, found, reason, action_or_table)
    limits = sorted({limit, *(max(1, round(limit * factor)) for factor in factors)})
    bench = Bench(
        action_or_table,
        items,
        limits=limits,
        more=0,
        repeats=repeats,
        budget=budget,
        max_calls=max_calls,
        setup=setup,
        clock=clock,
        seed=seed,
        progress=progress,
    )

    def judge() -> tuple[Verdict, str]:
        return verdict(bench.points(), limit, factors=factors, exact=bench.exact, **conditions)

    notes = _guarded(bench, "limit check", lambda: search.verdict(bench, limits, lambda: judge()[0] != "unknown"))
    found, reason = judge()
    if found == "unknown" and notes:
        reason = f"{reason} ({'; '.join(notes)})"
    if bench.failure is not None:
        reason = f"{reason}; {'; '.join(bench.notes())}"
    told = {"limit": limit, "verdict": found, "reason": reason}
    return LimitCheck(limit, found, reason, bench.table("limit check", check=told))


def _sentence(limit: int | None, reason: str) -> str:
    return f"No limit can be recommended: {reason}." if limit is None else f"Use limit={limit}: {reason}."


# Arguments


def _limits(limits: Any) -> list[int]:
    hint = "several ints, such as [1, 2, 4, 8] or fw.geometric(1, 256)"
    if isinstance(limits, str | bytes) or not isinstance(limits, Iterable):
        raise TypeError(f"limits must be {hint}, got {short(limits)}")
    checked = [check_count("limits", limit, 1) for limit in limits]
    if not checked:
        raise ValueError(f"limits must be {hint}, got none")
    return checked


def _conditions(tolerance: Any, max_p99: Any, min_throughput: Any, max_failure_rate: Any) -> dict[str, Any]:
    return {
        "tolerance": _share("tolerance", tolerance, above_zero=True),
        "max_p99": None if max_p99 is None else check_seconds("max_p99", max_p99, above_zero=True),
        "min_throughput": None if min_throughput is None else _positive("min_throughput", min_throughput, "items per second"),
        "max_failure_rate": _share("max_failure_rate", max_failure_rate),
    }


def _share(name: str, value: Any, *, above_zero: bool = False) -> float:
    where = "above 0 and below 1" if above_zero else "from 0 to below 1"
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a share {where}, got {short(value)} (0.05 is 5 %)")
    if not 0 <= float(value) < 1 or (above_zero and value == 0):
        raise ValueError(f"{name} must be a share {where}, got {short(value)} (0.05 is 5 %)")
    return float(value)


def _positive(name: str, value: Any, what: str) -> float:
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number of {what}, got {short(value)}")
    if not 0 < float(value) < float("inf"):
        raise ValueError(f"{name} must be {what}, above 0 and finite, got {short(value)}")
    return float(value)


def _factors(factors: Any) -> list[float]:
    if isinstance(factors, str | bytes) or not isinstance(factors, Iterable):
        raise TypeError(f"factors must be several numbers such as (0.5, 1, 2), got {short(factors)}")
    checked = [_positive("factors", factor, "factors of the limit") for factor in factors]
    if not checked:
        raise ValueError("factors must be several numbers such as (0.5, 1, 2), got none")
    return checked


# Measured before


def _points(table: Table) -> tuple[list[Point], bool]:
    """The points of a table, and whether they were simulated. ValueError where its rows are not of one kind."""
    for name in ("limit", "throughput"):
        if name not in table:
            raise ValueError(f"the table must have a column {name!r}, as that of a sweep has (its rows, not its summary)")
    rows = [row for row in steady_rows(table) if not row.get("warmup") and row["limit"] is not None]
    for column in table.schema:
        values = sorted({row[column.name] for row in rows}, key=str) if column.role == "key" else []
        if column.name not in ("limit", "items") and len(values) > 1:
            told = " and ".join(map(repr, values[:3]))
            raise ValueError(f"the table mixes {column.name} {told}: filter it first, table.filter({column.name}={values[0]!r})")
    if "items" in table and table.meta.get("kind") == "sweep" and len({row["items"] for row in rows}) > 1:
        sizes = sorted({int(row["items"] or 0) for row in rows})
        raise ValueError(f"the table mixes items {sizes[0]} and {sizes[1]}: filter it first, table.filter(items={sizes[-1]})")
    return points_from_rows(rows), bool(rows) and {row.get("clock") for row in rows} == {"virtual"}


def _annotated(table: Table, told: dict[str, Any]) -> Table:
    """The table with the answer in its meta, and as a note in the place of an earlier one."""
    before = table.meta.get("recommendation")
    old = _sentence(before["limit"], before["reason"]) if isinstance(before, dict) else None  # type: ignore[arg-type]
    notes = [*(note for note in table.notes if note != old), _sentence(told["limit"], told["reason"])]
    data = {name: table[name] for name in table.columns}
    meta = {**table.meta, "recommendation": told}
    return Table(table.schema, data, meta=meta, title=table.title, notes=notes, complete=table.complete)


def _short_runs(table: Table, points: Sequence[Point]) -> Iterator[str]:
    """A sweep has the throughput of whole runs, and a run of few items is mostly its beginning and its end."""
    short_ones = [point for point in points if point.items and 0 < min(point.items) < SHORT * point.limit]
    if STEADY.name not in table and short_ones:
        worst = short_ones[-1]
        yield (
            f"limit {worst.limit:,} had {min(worst.items):,} items only: with fewer than {SHORT} for each slot the beginning and "
            "the end of a run make a knee of their own"
        )


# The answer


def _guarded(bench: Bench, kind: str, measured: Callable[[], Found]) -> Found:
    try:
        return measured()
    except BaseException as error:  # what was measured must not be lost, whatever stops the measuring
        with contextlib.suppress(AttributeError):  # an exception of the user's may have no room for it
            error.table = bench.table(kind, complete=False)  # type: ignore[attr-defined]
        raise
    finally:
        bench.close()


def _recommendation(
    points: list[Point],
    table: Table,
    conditions: dict[str, Any],
    findings: search.Findings,
    *,
    exact: bool,
    seed: int,
    hints: bool,
) -> Recommendation:
    found = knee(points, exact=exact, seed=seed, **conditions)
    if findings.refusal is not None:
        status, reason = findings.refusal
        found = replace(found, limit=None, status=status, reason=reason, interval=None, below=None)
    above = [point for point in points if found.limit is not None and point.limit > found.limit] or points[-1:]
    bound = [name for point in above for name in point.limited_by if name]
    evidence = Evidence(
        knee=found,
        usl=usl(points, seed=seed),
        little=tuple(littles_law(points)),
        limited_by=max(sorted(set(bound)), key=bound.count) if bound else None,
        hint=ceiling_hint(found.limit, machine.cpus()) if hints and found.limit is not None else None,
        points=tuple(points),
        notes=tuple(findings.notes),
    )
    told = {
        "limit": found.limit,
        "status": found.status,
        "reason": found.reason,
        "interval": found.interval,
        "plateau": found.plateau,
        **conditions,
    }
    return Recommendation(found.limit, found.reason, _annotated(table, told), evidence)
