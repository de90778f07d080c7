"""Which limit the work needs, with the evidence, or why that cannot be told: `fw.recommend` and `fw.check_limit`."""

from __future__ import annotations

import html
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from . import machine
from .axes import geometric
from .bench import STEADY, Bench, OutOfBudget
from .checks import check_count, check_seconds
from .export import percent, rate, seconds
from .options import Clock
from .scalability import (
    Knee,
    Little,
    Point,
    Usl,
    Verdict,
    ceiling_hint,
    knee,
    littles_law,
    points_from_rows,
    refine,
    stop_climbing,
    usl,
    verdict,
)
from .table import Table

LIMITS = tuple(geometric(1, 256))
MOST_REFINEMENTS = 12
EXPECTED_REFINEMENTS = 5


@dataclass(frozen=True)
class Evidence:
    """What a recommendation rests on."""

    knee: Knee
    """The rule's answer, with its bootstrap interval and the plateau it was compared with."""
    usl: Usl
    """The fit of the Universal Scalability Law: a second opinion, never the rule."""
    little: tuple[Little, ...]
    """Little's law at every limit."""
    limited_by: str | None
    """What bound the runs at the recommended limit, or at the largest one where there is none."""
    hint: str | None
    """A known ceiling of a client at which the knee sits, or None."""
    points: tuple[Point, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Recommendation:
    """`limit` is what to use, or None where `reason` says why that cannot be told."""

    limit: int | None
    reason: str
    table: Table
    evidence: Evidence

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"  {line}" for line in self.lines)])

    __repr__ = __str__  # what a prompt shows is what one wants to read

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        if self.limit is None:
            return f"No limit can be recommended: {self.reason}."
        return f"Use limit={self.limit:,}: {self.reason}."

    @property
    def lines(self) -> list[str]:
        """The evidence, a line each."""
        return list(_evidence_lines(self))

    def _repr_html_(self) -> str:
        lines = "".join(f"<li>{html.escape(line)}</li>" for line in self.lines)
        picture = _picture(self)
        return f"<div><p><b>{html.escape(self.sentence)}</b></p>{picture}<ul>{lines}</ul></div>"


@dataclass(frozen=True, repr=False)
class LimitCheck:
    """Whether `limit` is right: `verdict` is "ok", "too_low", "too_high" or "unknown"."""

    limit: int
    verdict: Verdict
    reason: str
    table: Table

    def __str__(self) -> str:
        return f"limit {self.limit:,} is {self.verdict.replace('_', ' ')}: {self.reason}"

    __repr__ = __str__


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

    action_or_table: a native action or a callable, or a Table of a sweep (then nothing is measured).
    items: rows to work on, or how many items; runs take them in turn, so that no limit meets a warm cache. None for native
        actions: as many as needed.
    limits: to measure first, 1 always; around the knee others follow. Climbing ends where throughput clearly falls or
        failures exceed `max_failure_rate`.
    max_p99: seconds; only limits whose p99 latency meets it are considered.
    min_throughput: items per second; then the smallest limit that reaches it.
    max_failure_rate: share of failed and timed-out items, 0 to 1.
    repeats: runs per limit, interleaved. budget: seconds for all of it, on the real clock. max_calls: of the action.
    clock: "virtual" for native actions: exact, in a moment.

    Returns a Recommendation (`limit` or None, `reason`, `table`, `evidence`). It refuses when the data are too noisy, still
    rising at the last limit, or too few. Ctrl-C is a KeyboardInterrupt with `.table`. ValueError, TypeError for arguments.
    """
    conditions = _conditions(tolerance, max_p99, min_throughput, max_failure_rate)
    if isinstance(action_or_table, Table):
        if items is not None:
            raise TypeError("items is for an action to measure; a table has been measured already")
        return _from_table(action_or_table, conditions)
    climb = sorted({1, *(check_count("limits", limit, 1) for limit in limits)})
    bench = Bench(
        action_or_table,
        items,
        repeats=repeats,
        runs=(len(climb) + EXPECTED_REFINEMENTS) * repeats if isinstance(repeats, int) else 1,
        budget=budget,
        max_calls=max_calls,
        setup=setup,
        clock=clock,
        seed=seed,
        progress=progress,
    )
    notes = _guarded(bench, "recommend", lambda: _search(bench, climb, conditions))
    table = bench.table("recommend")
    return _recommendation(bench.points(), table, conditions, exact=bench.exact, seed=bench.seed, notes=notes)


def _guarded(bench: Bench, kind: str, search: Callable[[], list[str]]) -> list[str]:
    try:
        return search()
    except BaseException as error:  # what was measured must not be lost, whatever stops the measuring
        error.table = bench.table(kind, complete=False)  # type: ignore[attr-defined]
        raise
    finally:
        bench.close()


def _conditions(tolerance: Any, max_p99: Any, min_throughput: Any, max_failure_rate: Any) -> dict[str, Any]:
    for name, share in (("tolerance", tolerance), ("max_failure_rate", max_failure_rate)):
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
            raise ValueError(f"{name} must be a share from 0 to below 1, got {share!r}")
    if tolerance == 0:
        raise ValueError("tolerance must be above 0, got 0 (0.05 is 5 %)")
    if max_p99 is not None:
        check_seconds("max_p99", max_p99, above_zero=True)
    if min_throughput is not None and (isinstance(min_throughput, bool) or not min_throughput > 0):
        raise ValueError(f"min_throughput must be items per second above 0, got {min_throughput!r}")
    return {
        "tolerance": tolerance,
        "max_p99": max_p99,
        "min_throughput": min_throughput,
        "max_failure_rate": max_failure_rate,
    }


def _search(bench: Bench, climb: Sequence[int], conditions: dict[str, Any]) -> list[str]:
    """Climbs, repeats what was climbed in shuffled rounds, then refines around the knee. Gives notes on what was left out."""
    shuffled = random.Random(bench.seed)
    climbing = {name: conditions[name] for name in ("tolerance", "max_p99", "max_failure_rate")}
    measured: list[int] = []
    try:
        bench.pilot()
        for limit in climb:
            bench.measure([limit], 0)
            measured.append(limit)
            if stop_climbing(bench.points(), exact=bench.exact, **climbing):
                break
    except OutOfBudget as why:
        if not measured:
            return [f"nothing was measured: {why}"]
        notes = [f"climbing ended at limit {measured[-1]:,}: {why}"]
    else:
        notes = []
    try:
        for repeat in range(1, 1 if bench.exact and _is_constant(bench) else bench.repeats):
            bench.measure(shuffled.sample(measured, len(measured)), repeat)
        for _ in range(MOST_REFINEMENTS):
            more = refine(bench.points(), exact=bench.exact, **conditions)
            if not more:
                break
            known = {point.limit: len(point.throughputs) for point in bench.points()}
            for repeat in range(1 if bench.exact and _is_constant(bench) else bench.repeats):
                order = shuffled.sample(more, len(more))
                for limit in order:
                    bench.measure([limit], known.get(limit, 0) + repeat)
    except OutOfBudget as why:
        notes.append(f"refining ended early: {why}")
    return notes


def _is_constant(bench: Bench) -> bool:
    """A simulated run of constant times is the same every time: one is enough."""
    time = bench.action.time if bench.native else None
    return time is not None and time.kind == "constant"


def _from_table(table: Table, conditions: dict[str, Any]) -> Recommendation:
    rows: list[dict[str, Any]] = [dict(row) for row in table]
    for row in rows:
        if row.get(STEADY.name) is not None:
            row["throughput"] = row[STEADY.name]
    clocks = {row.get("clock") for row in rows}
    if len(clocks) > 1:
        raise ValueError('the table mixes real and virtual runs (filter it first: table.filter(clock="real"))')
    return _recommendation(points_from_rows(rows), table, conditions, exact=clocks == {"virtual"}, seed=0, notes=[])


def _recommendation(
    points: list[Point], table: Table, conditions: dict[str, Any], *, exact: bool, seed: int, notes: Sequence[str]
) -> Recommendation:
    found = knee(points, exact=exact, seed=seed, **conditions)
    at = next((point for point in points if point.limit == found.limit), points[-1] if points else None)
    bound = max(set(at.limited_by), key=at.limited_by.count) if at is not None and at.limited_by else None
    evidence = Evidence(
        knee=found,
        usl=usl(points, seed=seed),
        little=tuple(littles_law(points)),
        limited_by=bound,
        hint=None if found.limit is None else ceiling_hint(found.limit, machine.cpus()),
        points=tuple(points),
        notes=tuple(notes),
    )
    return Recommendation(found.limit, found.reason, table, evidence)


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

    "too_low": a larger one gives more than `tolerance`; "too_high": a smaller one gives as much, or `limit` breaks a
    condition; "ok": neither; "unknown": too close or too noisy to tell. The other arguments are those of `recommend`.
    """
    check_count("limit", limit, 1)
    conditions = _conditions(tolerance, max_p99, min_throughput, max_failure_rate)
    if not factors or not all(isinstance(factor, int | float) and factor > 0 for factor in factors):
        raise ValueError(f"factors must be numbers above 0, got {factors!r}")
    chosen = sorted({limit, *(max(1, round(limit * factor)) for factor in factors)})
    if isinstance(action_or_table, Table):
        rows = [dict(row) for row in action_or_table]
        table, points, exact = action_or_table, points_from_rows(rows), {row.get("clock") for row in rows} == {"virtual"}
    else:
        bench = Bench(
            action_or_table,
            items,
            repeats=repeats,
            runs=len(chosen) * repeats if isinstance(repeats, int) else 1,
            budget=budget,
            max_calls=max_calls,
            setup=setup,
            clock=clock,
            seed=seed,
            progress=progress,
        )
        _guarded(bench, "check_limit", lambda: _rounds(bench, chosen))
        table, points, exact = bench.table("check_limit"), bench.points(), bench.exact
    found, reason = verdict(points, limit, factors=factors, exact=exact, **conditions)
    return LimitCheck(limit, found, reason, table)


def _rounds(bench: Bench, limits: Sequence[int]) -> list[str]:
    shuffled = random.Random(bench.seed)
    try:
        bench.pilot()
        for repeat in range(bench.repeats):
            bench.measure(shuffled.sample(limits, len(limits)), repeat)
    except OutOfBudget as why:
        return [str(why)]
    return []


def _evidence_lines(found: Recommendation) -> Iterable[str]:
    evidence = found.evidence
    for point in evidence.points:
        mark = "  <- recommended" if point.limit == found.limit else ""
        p99 = "" if point.p99 is None else f", p99 {seconds(point.p99)}"
        failed = f", {percent(point.failure_rate)} failed" if point.failure_rate else ""
        yield f"limit {point.limit:>5,}: {rate(point.throughput)}{p99}{failed} ({len(point.throughputs)} runs){mark}"
    if evidence.knee.interval is not None and found.limit is not None:
        low, high = evidence.knee.interval
        yield f"95 % interval of the limit, by bootstrap over the runs: {low:,} to {high:,}"
    fit = evidence.usl
    if fit.sigma is not None and fit.kappa is not None and fit.r2 is not None:
        peak = "no peak" if fit.peak is None else f"peak at {fit.peak:,.0f}"
        yield f"Universal Scalability Law: contention {fit.sigma:.3g}, coherency {fit.kappa:.3g}, {peak} (R^2 {fit.r2:.3f})"
    worst = max(evidence.little, key=lambda check: abs(check.error), default=None)
    if worst is not None:
        yield f"Little's law: throughput x latency is within {percent(abs(worst.error))} of the items in flight at every limit"
    if evidence.limited_by is not None:
        yield f"bound by: {evidence.limited_by}"
    if evidence.hint is not None:
        yield evidence.hint
    yield from evidence.notes


def _picture(found: Recommendation) -> str:
    """The throughput plot as an image in the page; nothing where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return ""
    import base64
    import io

    from . import plot

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    try:
        plot.throughput(found, ax=figure.subplots())
    except ValueError:  # nothing to draw
        return ""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=100)
    image = base64.b64encode(data.getvalue()).decode()
    return f'<img alt="throughput against the limit" style="background:white" src="data:image/png;base64,{image}">'
