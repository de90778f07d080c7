"""The recommended limit, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, inf, log, sqrt
from random import Random
from typing import Literal

from ..statistics import median
from .choices import SAME, choose
from .levels import levels_of
from .points import Point, in_order, wide
from .rules import Rule, in_percent, in_rate
from .surveys import Survey, survey_of

_TAIL = 0.025  # what an interval leaves out on either side

Status = Literal["ok", "flat", "rising", "noisy", "too_few", "infeasible"]


@dataclass(frozen=True, slots=True)
class Knee:
    """The recommended limit, or None and why. `status` is "ok" or "flat" with a limit, anything else without.

    `interval`: 95 % bootstrap interval of the limit, in measured limits. `plateau`: the throughput (items/s) that the
    answer was compared with. `best_limit`, `best_throughput`: the highest median measured among the allowed limits.
    `below`: the largest measured limit under the answer. `noise`: relative standard deviation of one repeat, None when
    nothing was repeated.
    """

    limit: int | None
    status: Status
    reason: str
    interval: tuple[int, int] | None = None
    plateau: float | None = None
    best_limit: int | None = None
    best_throughput: float | None = None
    below: int | None = None
    noise: float | None = None


def knee(
    points: Iterable[Point],
    *,
    tolerance: float = 0.05,
    max_p99: float | None = None,
    min_throughput: float | None = None,
    max_failure_rate: float = 0.0,
    exact: bool = False,
    seed: int = 0,
) -> Knee:
    """The smallest measured limit whose throughput is within `tolerance` of the best, or a refusal with its reason.

    Only limits with at most `max_failure_rate` failures and a p99 of at most `max_p99` seconds are considered; with
    `min_throughput` (items/s) the answer is the smallest of them that reaches it instead. "The best" is the level of
    the plateau, the mean of the limits that cannot be told from the highest one, and the curve up to it is smoothed by
    isotonic regression. `exact`: the data are from the virtual clock, where a single repeat has no noise.

    It refuses, by `status`:

    - "infeasible": no limit meets the conditions, or none reaches `min_throughput`;
    - "too_few": fewer than three limits and nothing that bounds them, or nothing was repeated and is not exact;
    - "noisy": the standard error of the answer's distance from the best exceeds the tolerance, or the bootstrap
      interval of the answer reaches from n to more than 2 n + 1;
    - "rising": the last limit is on top, and by the trend before it doubling it would gain more than the tolerance.
    """
    rule = Rule(tolerance, max_p99, min_throughput, max_failure_rate)
    ordered = in_order(points)
    if not ordered:
        return Knee(None, "too_few", "no limit was measured")
    survey = survey_of(ordered, rule, exact)
    if survey is None:
        return Knee(None, "infeasible", _nothing_allowed(ordered, rule))
    levels, choice, allowed = survey.levels, survey.choice, survey.allowed
    best = max(allowed, key=lambda point: point.throughput)

    def refuse(status: Status, reason: str) -> Knee:
        return Knee(None, status, reason, None, exp(choice.plateau), best.limit, best.throughput, None, levels.spread)

    if len(ordered) < 3 and not survey.bounded:
        return refuse("too_few", f"at least 3 limits must be measured, got {len(ordered)}")
    if levels.spread is None:
        return refuse("too_few", "no limit was measured twice, so the noise is unknown (3 repeats or more)")
    if choice.index is None:
        reached = f"the best, {best.limit}, gives {in_rate(best.throughput)}"
        return refuse("infeasible", f"no limit reaches {in_rate(exp(choice.goal))} items/s: {reached}")
    answer = allowed[choice.index]
    if min_throughput is None:
        error = sqrt(levels.errors[choice.index] ** 2 + choice.error**2)
        if error > rule.slack + SAME:
            known = f"how far limit {answer.limit} is from the best is known to {in_percent(error)} only"
            return refuse("noisy", f"{known}, the tolerance is {in_percent(tolerance)} (more repeats, or longer runs)")
        if survey.rising and not survey.bounded:
            last = allowed[-1].limit
            return refuse("rising", f"throughput still rises at the last limit, {last} (measure larger limits)")
    interval = _interval(survey, answer.limit, exact=exact, seed=seed)
    if interval is None:
        return refuse("noisy", "whether any limit meets the conditions changes from repeat to repeat (more repeats)")
    if interval[1] > 2 * interval[0] + 1:
        return refuse("noisy", f"it could be any limit from {interval[0]} to {interval[1]} (more repeats, or longer runs)")
    below = max((point.limit for point in ordered if point.limit < answer.limit), default=None)
    flat = below is None and len(allowed) > 1 and min_throughput is None
    reason = _why(answer.limit, below, exp(choice.plateau), interval, rule, flat=flat)
    if survey.bounded and min_throughput is None and answer is allowed[-1]:
        reason += f"; {_broken(ordered[ordered.index(answer) + 1], rule)}"
    return Knee(
        answer.limit,
        "flat" if flat else "ok",
        reason,
        interval,
        exp(choice.plateau),
        best.limit,
        best.throughput,
        below,
        levels.spread,
    )


def _interval(survey: Survey, answer: int, *, exact: bool, seed: int) -> tuple[int, int] | None:
    """The bootstrap interval of the answer; None when too many resamples have no answer for there to be one.

    Parametric bootstrap (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 6): the levels are
    redrawn with their standard errors around the fitted curve, the rise and then the plateau. Drawing from the three
    repeats of a limit alone would understate its variance by a third.
    """
    choice, rule, z = survey.choice, survey.rule, survey.levels.z
    fitted = choice.rise + survey.levels.logs[len(choice.rise) :]
    for i in choice.top:
        fitted[i] = choice.plateau
    centres = list(survey.all_levels.logs)
    for i, level in zip(survey.chosen, fitted, strict=True):
        centres[i] = level
    drawn_from = list(zip((p.limit for p in survey.working), centres, survey.all_levels.errors, strict=True))
    tails = [(inf, 0.0) for _ in centres]
    if rule.max_p99 is not None:
        # A limit just outside the bound may be inside on another day, so whether it is allowed is redrawn too.
        known = [i for i, point in enumerate(survey.working) if point.p99 is not None]
        times = [[max(v, 1e-12) for v in survey.working[i].p99s if v is not None] for i in known]
        for i, sample, error in zip(known, times, levels_of(times, exact=exact).errors, strict=True):
            tails[i] = (log(median(sample)), error)
    if not any(survey.all_levels.errors) and not any(error for _, error in tails):
        return answer, answer
    gauss = Random(seed).gauss
    resamples = max(80, min(400, 20_000 // len(centres)))
    answers: list[int] = []
    for _ in range(resamples):
        drawn = drawn_from
        if rule.max_p99 is not None:
            bound = log(rule.max_p99)
            drawn = [row for row, tail in zip(drawn_from, tails, strict=True) if gauss(*tail) <= bound]
            if not drawn:
                continue
        index = choose([gauss(c, e) for _, c, e in drawn], [e for _, _, e in drawn], z, rule).index
        if index is not None:
            answers.append(drawn[index][0])
    if len(answers) < (1.0 - 2.0 * _TAIL) * resamples:
        return None
    answers.sort()
    cut = int(_TAIL * len(answers))
    return min(answers[cut], answer), max(answers[-1 - cut], answer)


def _why(limit: int, below: int | None, plateau: float, interval: tuple[int, int], rule: Rule, *, flat: bool) -> str:
    if flat:
        reason = f"no larger limit gives more than {in_percent(rule.tolerance)} over limit {limit}"
        if limit > 1:
            reason += " (smaller limits were not measured)"
    elif rule.min_throughput is not None:
        reason = f"the smallest limit that reaches {in_rate(rule.min_throughput)} items/s"
    else:
        within = f"within {in_percent(rule.tolerance)} of the best throughput, {in_rate(plateau)} items/s"
        reason = f"the smallest limit {within}"
    if rule.max_p99 is not None:
        reason += f", among those with a p99 of at most {rule.max_p99:g} s"
    if interval[0] != interval[1]:
        reason += f"; 95 % interval {interval[0]} to {interval[1]}"
    if below is not None and wide(below, limit, 0.25):
        reason += f"; nothing between {below} and {limit} was measured"
    return reason


def _broken(point: Point, rule: Rule) -> str:
    """Which condition a limit breaks."""
    if rule.fails(point):
        return f"{point.limit} fails {in_percent(point.failure_rate)} of its items"
    return f"{point.limit} has a p99 of {point.p99:.4g} s" if point.p99 is not None else f"the p99 of {point.limit} is not known"


def _nothing_allowed(points: Sequence[Point], rule: Rule) -> str:
    working = [point for point in points if not rule.fails(point)]
    if not working:
        first = points[0]
        already = f"limit {first.limit} already fails {in_percent(first.failure_rate)} of its items"
        return f"{already}, more than {in_percent(rule.max_failure_rate)} (max_failure_rate allows for more)"
    known = [point.p99 for point in working if point.p99 is not None]
    if not known:
        return "max_p99 was given but no p99 was measured"
    return f"no limit has a p99 of at most {rule.max_p99:g} s: the lowest is {min(known):.4g} s"
