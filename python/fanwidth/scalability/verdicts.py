"""Whether a limit that is in use is right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, log
from typing import Literal

from .choices import SAME
from .levels import levels_of
from .points import Point, in_order
from .rules import Rule, in_percent, in_rate

LENIENCE = 2.0
"""A recommended limit is up to the tolerance below the best; judged by the same mark, it would fail by the least noise."""

Verdict = Literal["ok", "too_low", "too_high", "unknown"]


def verdict(
    points: Iterable[Point],
    limit: int,
    *,
    factors: Sequence[float] = (0.5, 1.0, 2.0),
    tolerance: float = 0.05,
    max_p99: float | None = None,
    min_throughput: float | None = None,
    max_failure_rate: float = 0.0,
    exact: bool = False,
) -> tuple[Verdict, str]:
    """Whether `limit` is right, and why, from its point and those nearest to its smallest and largest factor.

    "too_low": the larger limit gives more than twice the `tolerance` over it, or reaches `min_throughput` where it does not.
    "too_high": the smaller limit is within `tolerance` of it (reaches `min_throughput`), or it breaks `max_p99` or
    `max_failure_rate`. Differences must pass a one-sided test at 95 %. "ok": neither. "unknown": too close to tell, too
    noisy, or not measured.
    """
    rule = Rule(tolerance, max_p99, min_throughput, max_failure_rate)
    ordered = in_order(points)
    here = next((point for point in ordered if point.limit == limit), None)
    if here is None:
        return "unknown", f"limit {limit} was not measured"
    smaller = _nearest([point for point in ordered if point.limit < limit], limit * min(factors))
    larger = _nearest([point for point in ordered if point.limit > limit], limit * max(factors))
    if rule.fails(here):
        share = f"limit {limit} fails {in_percent(here.failure_rate)} of its items"
        if smaller is None or rule.fails(smaller):
            return "unknown", f"{share}, and no smaller limit was measured that does not: it may not be the limit"
        return "too_high", f"{share}, {smaller.limit} fails {in_percent(smaller.failure_rate)}"
    if rule.slow(here):
        if here.p99 is None:
            return "unknown", "max_p99 was given but no p99 was measured"
        if limit == 1:
            return "unknown", f"limit 1 already has a p99 of {here.p99:.4g} s: no limit can meet {max_p99:g} s"
        return "too_high", f"limit {limit} has a p99 of {here.p99:.4g} s, more than {max_p99:g} s"
    if larger is None:
        return "unknown", f"no limit above {limit} was measured"
    if limit > 1 and (smaller is None or not rule.allows(smaller)):
        return "unknown", f"no limit below {limit} was measured that meets the conditions"
    # A larger limit that breaks a condition is no alternative, and so cannot make this one too low.
    return _compare(here, smaller, larger if rule.allows(larger) else None, rule, exact=exact)


def _nearest(points: Sequence[Point], wanted: float) -> Point | None:
    return min(points, key=lambda point: abs(log(point.limit / wanted)), default=None)


def _compare(here: Point, smaller: Point | None, larger: Point | None, rule: Rule, *, exact: bool) -> tuple[Verdict, str]:
    group = [point for point in (smaller, here, larger) if point is not None]
    levels = levels_of([point.throughputs for point in group], exact=exact)
    if levels.spread is None:
        return "unknown", "no limit was measured twice, so the noise is unknown (3 repeats or more)"
    at, last = group.index(here), len(group) - 1
    logs, errors = levels.logs, levels.errors
    goal = None if rule.min_throughput is None else log(rule.min_throughput)
    if goal is None and max(errors) > rule.slack + SAME:
        known = f"throughput is known to {in_percent(max(errors))} only"
        return "unknown", f"{known}, the tolerance is {in_percent(rule.tolerance)} (more repeats, or longer runs)"
    # Each claim: how far beyond its bound the data are, the standard error of that, the verdict.
    claims: list[tuple[float, float, Verdict]] = []
    if larger is not None and goal is None:
        claims.append((logs[last] - logs[at] - LENIENCE * rule.slack, levels.error_between(at, last), "too_low"))
    elif larger is not None and goal is not None:
        claims.append((min(goal - logs[at], logs[last] - goal), max(errors[at], errors[last]), "too_low"))
    if smaller is not None and goal is None:
        claims.append((logs[0] - logs[at] + rule.slack, levels.error_between(0, at), "too_high"))
    elif smaller is not None and goal is not None:
        claims.append((logs[0] - goal, errors[0], "too_high"))
    rates = ", ".join(f"{point.limit} gives {in_rate(point.throughput)}" for point in group)
    evidence = f"limit {rates} items/s"
    for beyond, error, claim in claims:
        if beyond > levels.z * error + SAME:
            return claim, evidence
    if any(beyond > SAME for beyond, _, _ in claims):
        return "unknown", f"too close to tell: {evidence} (more repeats, or longer runs)"
    if goal is not None and logs[at] < goal - SAME:
        return "unknown", f"no limit measured reaches {in_rate(exp(goal))} items/s: {evidence}"
    return "ok", evidence
