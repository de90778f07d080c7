"""What measurements of several limits say about the right one: the knee, where to look next, the scalability law.

Pure functions of `Point`s, one per limit; nothing here measures, waits or prints. Throughputs are in items per second,
times in seconds. Noise is taken as multiplicative, so everything is compared on the logarithm of the throughput.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, inf, isfinite, log, sqrt
from operator import mul
from random import Random
from typing import Literal

from .statistics import isotonic, median, solve

__all__ = [
    "CEILINGS",
    "Knee",
    "Little",
    "Point",
    "Status",
    "Usl",
    "Verdict",
    "ceiling_hint",
    "knee",
    "littles_law",
    "points_from_rows",
    "refine",
    "stop_climbing",
    "usl",
    "verdict",
]

_ONE_SIDED = 1.645  # the normal quantile of a one-sided test at 95 %
_TWO_SIDED = 1.960  # and of a two-sided one
_TAIL = 0.025  # what an interval leaves out on either side
_PRIOR = 4.0  # the spread of all limits counts as much in that of one as four more repeats of it would
_CLIP = 2.5  # a repeat further than this many deviations from its limit's median counts as this far
_STRETCH = 1.15  # what lies within this factor of the last limit is the end of the range
_SAME = 1e-9  # logarithms closer than this are equal: 19 of 20 is within 5 %


@dataclass(frozen=True, slots=True)
class Point:
    """All repeats of one limit; every tuple holds one value per repeat, in the order of the repeats, or is empty.

    A latency is None where no item of the repeat was ok. `failure_rates` are failed and timed-out items over those plus
    the ok ones.
    """

    limit: int
    throughputs: tuple[float, ...]
    p99s: tuple[float | None, ...] = ()
    failure_rates: tuple[float, ...] = ()
    latencies: tuple[float | None, ...] = ()
    peaks_in_flight: tuple[float | None, ...] = ()
    items: tuple[int, ...] = ()
    limited_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(f"limit must be at least 1, got {self.limit!r}")
        if not self.throughputs:
            raise ValueError(f"throughputs of limit {self.limit} are empty (leave the point out)")
        for value in self.throughputs:
            if not (isfinite(value) and value >= 0.0):
                raise ValueError(f"throughput must be finite and not negative, got {value!r} at limit {self.limit}")

    @property
    def throughput(self) -> float:
        """The median over the repeats."""
        return median(self.throughputs)

    @property
    def p99(self) -> float | None:
        """The median over the repeats' 99th percentiles, not the one of all items; None when not measured."""
        known = [value for value in self.p99s if value is not None]
        return median(known) if known else None

    @property
    def failure_rate(self) -> float:
        """The mean over the repeats; 0 when not measured."""
        return sum(self.failure_rates) / len(self.failure_rates) if self.failure_rates else 0.0


def points_from_rows(rows: Iterable[Mapping[str, object]]) -> list[Point]:
    """The points of a table's rows, by limit; of the columns only `limit` and `throughput` are needed.

    Warm-up rows, rows without a limit (`when_all`) and rows that measured nothing are left out. ValueError when rows of
    several strategies are mixed, for which there is no one limit.
    """
    groups: dict[int, list[Mapping[str, object]]] = {}
    strategies: set[str] = set()
    for row in rows:
        limit = _number(row, "limit")
        if row.get("warmup") or limit is None or _number(row, "throughput") is None:
            continue
        groups.setdefault(int(limit), []).append(row)
        strategies.add(str(row.get("strategy")))
    if len(strategies) > 1:
        names = ", ".join(sorted(strategies))
        raise ValueError(f"strategy must be the same in all rows, got {names} (filter the table first)")
    return [_point(limit, groups[limit]) for limit in sorted(groups)]


def _number(row: Mapping[str, object], name: str) -> float | None:
    value = row.get(name)
    return float(value) if isinstance(value, int | float) and isfinite(value) else None


def _point(limit: int, rows: list[Mapping[str, object]]) -> Point:
    rows = sorted(rows, key=lambda row: _number(row, "repeat") or 0.0)
    rates = []
    for row in rows:
        bad = (_number(row, "failed") or 0.0) + (_number(row, "timed_out") or 0.0)
        rates.append(bad / max(1.0, bad + (_number(row, "ok") or 0.0)))
    return Point(
        limit,
        throughputs=tuple(_number(row, "throughput") or 0.0 for row in rows),
        p99s=tuple(_number(row, "latency_p99") for row in rows),
        failure_rates=tuple(rates),
        latencies=tuple(_number(row, "latency_mean") for row in rows),
        peaks_in_flight=tuple(_number(row, "peak_in_flight") for row in rows),
        items=tuple(int(_number(row, "items") or 0) for row in rows),
        limited_by=tuple(str(row.get("limited_by") or "") for row in rows),
    )


def _ordered(points: Iterable[Point]) -> list[Point]:
    ordered = sorted(points, key=lambda point: point.limit)
    for first, second in pairwise(ordered):
        if first.limit == second.limit:
            raise ValueError(f"limit {first.limit} appears twice (put all its repeats into one point)")
    return ordered


@dataclass(frozen=True, slots=True)
class _Rule:
    """What is asked for. Throughput in items per second, p99 in seconds, the rest are shares."""

    tolerance: float
    max_p99: float | None
    min_throughput: float | None
    max_failure_rate: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.tolerance < 1.0:
            raise ValueError(f"tolerance must be at least 0 and below 1, got {self.tolerance!r} (0.05 is 5 %)")
        if not 0.0 <= self.max_failure_rate <= 1.0:
            raise ValueError(f"max_failure_rate must be from 0 to 1, got {self.max_failure_rate!r} (0.01 is 1 %)")
        for name, value in (("max_p99", self.max_p99), ("min_throughput", self.min_throughput)):
            if value is not None and not (isfinite(value) and value > 0.0):
                raise ValueError(f"{name} must be positive and finite, got {value!r} (leave it out for no bound)")

    @property
    def slack(self) -> float:
        """The tolerance on the logarithmic scale."""
        return -log(1.0 - self.tolerance)

    def fails(self, point: Point) -> bool:
        return point.failure_rate > self.max_failure_rate or min(point.throughputs) == 0.0

    def slow(self, point: Point) -> bool:
        return self.max_p99 is not None and (point.p99 is None or point.p99 > self.max_p99)

    def allows(self, point: Point) -> bool:
        return not self.fails(point) and not self.slow(point)


@dataclass(frozen=True, slots=True)
class _Levels:
    """One level per limit, its standard error, and the standard deviation of a single repeat; all of logarithms."""

    logs: list[float]
    errors: list[float]
    spread: float | None  # None: nothing was repeated and the data are not exact
    z: float  # how many errors a difference must have to count, one-sided at 95 %

    def error_between(self, first: int, second: int) -> float:
        return sqrt(self.errors[first] ** 2 + self.errors[second] ** 2)

    def pick(self, which: Sequence[int]) -> _Levels:
        return _Levels([self.logs[i] for i in which], [self.errors[i] for i in which], self.spread, self.z)


def _levels(samples: Sequence[Sequence[float]], *, exact: bool) -> _Levels:
    """The levels of positive `samples`, one sequence of repeats per limit.

    A level is a winsorised mean, so that one stalled repeat does not move it. Two or three repeats say little about
    their own spread: it is drawn towards the spread of all limits, weighted as by Smyth, "Linear models and empirical
    Bayes methods for assessing differential expression in microarray experiments" (2004).
    """
    logs = _without_rounds([[log(value) for value in sample] for sample in samples])
    freedom = sum(len(sample) - 1 for sample in logs)
    if freedom == 0:
        return _Levels([sample[0] for sample in logs], [0.0] * len(logs), 0.0 if exact else None, 0.0)
    total = 0.0
    spreads: list[float] = []
    for sample in logs:
        more = len(sample) - 1
        if more:
            mean = sum(sample) / len(sample)
            square = sum((value - mean) ** 2 for value in sample)
            total += square
            # The median of a chi-square variable is near more * (1 - 2 / (9 more))^3 (Wilson and Hilferty, 1931).
            spreads.append(sqrt(square / more / (1.0 - 2.0 / (9.0 * more)) ** 3))
    # The median is robust against a few stalled repeats; of fewer than five spreads it is too uncertain itself.
    spread = median(spreads) if len(spreads) >= 5 else sqrt(total / freedom)
    levels: list[float] = []
    errors: list[float] = []
    for sample in logs:
        middle = median(sample)
        clipped = [min(max(value - middle, -_CLIP * spread), _CLIP * spread) for value in sample]
        mean = sum(clipped) / len(clipped)
        own = sum((value - mean) ** 2 for value in clipped)
        levels.append(middle + mean)
        errors.append(sqrt((_PRIOR * spread**2 + own) / (_PRIOR + len(sample) - 1) / len(sample)))
    # Student's t quantile to first order in 1 / freedom (Abramowitz and Stegun, 26.7.5).
    z = _ONE_SIDED * (1.0 + (_ONE_SIDED**2 + 1.0) / (4.0 * freedom))
    return _Levels(levels, errors, spread, z)


def _without_rounds(logs: list[list[float]]) -> list[list[float]]:
    """`logs` less what all limits of a repeat have in common: the machine's drift, or the draws of the repeat's seed.

    Repeats are measured in rounds over all limits, with one seed for a round. Only differences between limits matter,
    and what hits all of them alike is no noise in those.
    """
    rounds = min(len(sample) for sample in logs)
    if rounds < 2 or len(logs) < 3:
        return logs
    means = [sum(sample[:rounds]) / rounds for sample in logs]
    shifts = [median([sample[i] - mean for sample, mean in zip(logs, means, strict=True)]) for i in range(rounds)]
    centre = sum(shifts) / rounds
    return [[value - shift + centre for value, shift in zip(sample, shifts, strict=False)] + sample[rounds:] for sample in logs]


def _plateau(logs: Sequence[float], errors: Sequence[float], z: float) -> tuple[float, float, list[int]]:
    """The level of the top, its standard error, and the indices of the limits which cannot be told from it.

    The best of many equally good limits is the luckiest one, so the best alone would be too high a mark. From the best
    outwards, larger limits first, a limit joins unless it lies below the mean of those that have joined by more than
    a one-sided test at 95 % allows, in turns until none joins. Without noise there are only the best and its equals.
    """
    best = max(range(len(logs)), key=logs.__getitem__)
    level, mass = logs[best], 1.0 / _square(errors[best])
    joined = [best]
    others = [*range(best + 1, len(logs)), *range(best - 1, -1, -1)]
    while True:
        left = []
        for i in others:
            square = _square(errors[i])
            if logs[i] >= level - z * sqrt(square + 1.0 / mass) - _SAME:
                level = (level * mass + logs[i] / square) / (mass + 1.0 / square)
                mass += 1.0 / square
                joined.append(i)
            else:
                left.append(i)
        if len(left) == len(others):
            return level, sqrt(1.0 / mass), sorted(joined)
        others = left


def _square(error: float) -> float:
    return error * error + 1e-24  # exact data have no error, but a weight


@dataclass(frozen=True, slots=True)
class _Choice:
    """The answer as an index (None when no limit reaches `min_throughput`) and what it was compared with."""

    index: int | None
    goal: float  # logarithm, as are the next two
    plateau: float
    error: float  # standard error of the plateau
    top: list[int]  # the limits of the plateau
    rise: list[float]  # the isotonic fit up to the best limit


def _choose(logs: Sequence[float], errors: Sequence[float], z: float, rule: _Rule) -> _Choice:
    """The first limit whose isotonic fit reaches the goal: smoothed, a lucky limit below the knee is not the answer."""
    plateau, error, top = _plateau(logs, errors, z)
    upto = max(range(len(logs)), key=logs.__getitem__) + 1
    # Exact data need no smoothing, and a real dip in them must not be smoothed away.
    rise = isotonic(logs[:upto], [1.0 / _square(e) for e in errors[:upto]]) if any(errors) else list(logs[:upto])
    if rule.min_throughput is None:
        goal = plateau - rule.slack
    else:
        goal = log(rule.min_throughput)
        if goal > plateau + _SAME:
            return _Choice(None, goal, plateau, error, top, rise)
    index = next((i for i, level in enumerate(rise) if level >= goal - _SAME), upto - 1)
    return _Choice(index, goal, plateau, error, top, rise)


class _Survey:
    """The measured points, those that do not fail, those of them the rule allows, their levels and the choice."""

    def __init__(self, points: list[Point], rule: _Rule, exact: bool) -> None:
        self.points = points
        self.rule = rule
        self.working = [point for point in points if not rule.fails(point)]
        self.chosen = [i for i, point in enumerate(self.working) if not rule.slow(point)]
        self.allowed = [self.working[i] for i in self.chosen]
        # Unlike a failing limit, one that is only too slow tells as much about the noise as any other.
        self.all_levels = _levels([point.throughputs for point in self.working], exact=exact)
        self.levels = self.all_levels.pick(self.chosen)
        self.choice = _choose(self.levels.logs, self.levels.errors, self.levels.z, rule)

    @property
    def bounded(self) -> bool:
        """Whether something larger than the largest allowed limit was measured and is not allowed."""
        return self.points[-1] is not self.allowed[-1]

    @property
    def rising(self) -> bool:
        """Whether doubling the last allowed limit would gain more than the tolerance, by the trend up to it.

        With noise the gain must be significant at 97.5 %.
        """
        last = len(self.allowed) - 1
        if last == 0 or last not in self.choice.top:
            return False
        limits = [point.limit for point in self.allowed]
        before = next((i for i in reversed(range(last)) if limits[i] * _STRETCH <= limits[last]), last - 1)
        low, start, error = self._around(before, limits)
        high, end, other = self._around(last, limits)
        if (end - start) * log(2.0) / (high - low) <= self.rule.slack + _SAME:
            return False
        return end - start > _TWO_SIDED / _ONE_SIDED * self.levels.z * sqrt(error**2 + other**2)

    def _around(self, index: int, limits: Sequence[int]) -> tuple[float, float, float]:
        """Mean logarithm, mean level and its standard error of the limits up to this one and within 5 % of it."""
        near = [i for i in range(index + 1) if limits[i] * 1.05 >= limits[index]]
        weights = [1.0 / _square(self.levels.errors[i]) for i in near]
        mass = sum(weights)
        place = sum(weight * log(limits[i]) for weight, i in zip(weights, near, strict=True)) / mass
        level = sum(weight * self.levels.logs[i] for weight, i in zip(weights, near, strict=True)) / mass
        return place, level, sqrt(1.0 / mass)


def _survey(points: list[Point], rule: _Rule, exact: bool) -> _Survey | None:
    """None when the rule allows no point."""
    return _Survey(points, rule, exact) if any(rule.allows(point) for point in points) else None


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
    rule = _Rule(tolerance, max_p99, min_throughput, max_failure_rate)
    ordered = _ordered(points)
    if not ordered:
        return Knee(None, "too_few", "no limit was measured")
    survey = _survey(ordered, rule, exact)
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
        reached = f"the best, {best.limit}, gives {_rate(best.throughput)}"
        return refuse("infeasible", f"no limit reaches {_rate(exp(choice.goal))} items/s: {reached}")
    answer = allowed[choice.index]
    if min_throughput is None:
        error = sqrt(levels.errors[choice.index] ** 2 + choice.error**2)
        if error > rule.slack + _SAME:
            known = f"how far limit {answer.limit} is from the best is known to {_percent(error)} only"
            return refuse("noisy", f"{known}, the tolerance is {_percent(tolerance)} (more repeats, or longer runs)")
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


def _interval(survey: _Survey, answer: int, *, exact: bool, seed: int) -> tuple[int, int] | None:
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
        for i, sample, error in zip(known, times, _levels(times, exact=exact).errors, strict=True):
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
        index = _choose([gauss(c, e) for _, c, e in drawn], [e for _, _, e in drawn], z, rule).index
        if index is not None:
            answers.append(drawn[index][0])
    if len(answers) < (1.0 - 2.0 * _TAIL) * resamples:
        return None
    answers.sort()
    cut = int(_TAIL * len(answers))
    return min(answers[cut], answer), max(answers[-1 - cut], answer)


def _why(limit: int, below: int | None, plateau: float, interval: tuple[int, int], rule: _Rule, *, flat: bool) -> str:
    if flat:
        reason = f"no larger limit gives more than {_percent(rule.tolerance)} over limit {limit}"
        if limit > 1:
            reason += " (smaller limits were not measured)"
    elif rule.min_throughput is not None:
        reason = f"{limit} is the smallest limit that reaches {_rate(rule.min_throughput)} items/s"
    else:
        within = f"within {_percent(rule.tolerance)} of the best throughput, {_rate(plateau)} items/s"
        reason = f"{limit} is the smallest limit {within}"
    if rule.max_p99 is not None:
        reason += f", among those with a p99 of at most {rule.max_p99:g} s"
    if interval[0] != interval[1]:
        reason += f"; 95 % interval {interval[0]} to {interval[1]}"
    if below is not None and _wide(below, limit, 0.25):
        reason += f"; nothing between {below} and {limit} was measured"
    return reason


def _nothing_allowed(points: Sequence[Point], rule: _Rule) -> str:
    working = [point for point in points if not rule.fails(point)]
    if not working:
        first = points[0]
        share = f"limit {first.limit} already {_percent(first.failure_rate)}"
        return f"every limit fails more than {_percent(rule.max_failure_rate)} of its items, {share}"
    known = [point.p99 for point in working if point.p99 is not None]
    if not known:
        return "max_p99 was given but no p99 was measured"
    return f"no limit has a p99 of at most {rule.max_p99:g} s: the lowest is {min(known):.4g} s"


def _percent(share: float) -> str:
    return f"{100.0 * share:.3g} %"


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 100.0 else f"{per_second:.3g}"


def _wide(low: int, high: int, resolution: float) -> bool:
    return high - low > 1 and high > low * (1.0 + resolution)


def refine(
    points: Iterable[Point],
    *,
    tolerance: float = 0.05,
    max_p99: float | None = None,
    min_throughput: float | None = None,
    max_failure_rate: float = 0.0,
    exact: bool = False,
    resolution: float = 0.05,
    most: int = 3,
) -> list[int]:
    """The limits to measure next, all repeats of each; none when more measuring would not make the answer better.

    New limits first, halfway (geometrically) into the gaps wider than `resolution`: below the answer, below a smaller
    limit that noise may have pushed under the goal, and where the curve between two limits may be higher than at both
    (before throughput falls, before a condition is broken). After those limits measured before, where more repeats
    would tell what is not certain, until one has `most` times the repeats of the others; `most=1` asks for none.
    """
    rule = _Rule(tolerance, max_p99, min_throughput, max_failure_rate)
    ordered = _ordered(points)
    survey = _survey(ordered, rule, exact)
    if survey is None:
        return []
    levels, choice = survey.levels, survey.choice
    places = [ordered.index(point) for point in survey.allowed]
    doubtful = _doubtful(levels, choice, rule)
    lower = [] if choice.index is None else [choice.index, *doubtful[:1]]
    upper: list[int] = []
    if choice.index is None or min_throughput is None:
        edge = choice.top[-1]
        summit = _summit([point.limit for point in survey.allowed], levels, rule)
        if survey.rising and survey.bounded:
            upper.append(edge)
            if choice.index == edge:
                lower = []  # a better limit above would also raise the goal
        elif survey.rising:  # only what lies near the last limit can tell whether it rises until there
            lower.append(edge)
            doubtful += [max(0, edge - 1), edge]
        elif edge + 1 < len(levels.logs) and levels.logs[edge + 1] < choice.plateau - rule.slack:
            upper.append(edge)
        if summit is not None:
            upper.append(summit)
    gaps = {(places[i] - 1, places[i]) for i in lower} | {(places[i], places[i] + 1) for i in upper}
    new: set[int] = set()
    for first, second in gaps:
        if first >= 0 and _wide(low := ordered[first].limit, high := ordered[second].limit, resolution):
            new.add(min(max(round(sqrt(low * high)), low + 1), high - 1))
    if new or not levels.spread:
        return sorted(new)
    enough = most * min(len(point.throughputs) for point in ordered)
    again = (survey.allowed[i] for i in sorted(set(doubtful)))
    return [point.limit for point in again if len(point.throughputs) < enough]


def _summit(limits: Sequence[int], levels: _Levels, rule: _Rule) -> int | None:
    """The limit above which, up to the next, a clearly better one should lie: by the parabola through the best three.

    Clearly: by a fifth of the tolerance, on top of what noise may pretend. Where the next two limits are as good as
    the best it is a plateau, not a summit.
    """
    best = max(range(len(limits)), key=levels.logs.__getitem__)
    little = rule.slack / 5.0
    if best == 0 or best + 1 == len(limits):
        return None
    if best + 2 < len(limits) and min(levels.logs[best + 1 : best + 3]) >= levels.logs[best] - little:
        return None
    left, right = log(limits[best] / limits[best - 1]), log(limits[best + 1] / limits[best])
    rise = (levels.logs[best] - levels.logs[best - 1]) / left
    fall = (levels.logs[best] - levels.logs[best + 1]) / right
    if rise + fall <= 0.0:
        return None
    slope = (rise * right - fall * left) / (left + right)
    gain = slope * slope * (left + right) / (4.0 * (rise + fall))
    if gain <= little + levels.z * levels.errors[best]:
        return None
    return best if slope > 0.0 else best - 1


def _doubtful(levels: _Levels, choice: _Choice, rule: _Rule) -> list[int]:
    """The limits which cannot be told from the goal, up to the first that is clearly above it.

    With them two limits of the plateau above, as the goal hangs on its level.
    """
    shared = choice.error if rule.min_throughput is None else 0.0
    found: list[int] = []
    for i, (level, error) in enumerate(zip(levels.logs, levels.errors, strict=True)):
        reach = _TWO_SIDED / _ONE_SIDED * levels.z * sqrt(error**2 + shared**2)
        if min(level, choice.plateau) - reach > choice.goal:  # what lies above the plateau does so by luck
            break
        if level + reach >= choice.goal:
            found.append(i)
    if found and rule.min_throughput is None:
        found += [i for i in choice.top if i > found[-1]][:2]
    return found


def stop_climbing(
    points: Iterable[Point],
    *,
    tolerance: float = 0.05,
    max_p99: float | None = None,
    max_failure_rate: float = 0.0,
    exact: bool = False,
) -> bool:
    """Whether limits larger than the last one need no measuring.

    True when the last limit fails too many items; when its throughput has clearly fallen, by more than the tolerance
    and two standard errors below the best (the tolerance stands for the error of limits that were not repeated); or
    when every repeat of the last two limits is above `max_p99`.
    """
    rule = _Rule(tolerance, max_p99, None, max_failure_rate)
    ordered = _ordered(points)
    if not ordered:
        return False
    if rule.fails(ordered[-1]):
        return True
    if max_p99 is not None and len(ordered) >= 2:
        times = [value for point in ordered[-2:] for value in point.p99s if value is not None]
        if times and min(times) > max_p99:
            return True
    levels = _levels([point.throughputs for point in ordered if not rule.fails(point)], exact=exact)
    last = len(levels.logs) - 1
    best = max(range(last + 1), key=levels.logs.__getitem__)
    error = sqrt(2.0) * tolerance if levels.spread is None else levels.error_between(best, last)
    return levels.logs[best] - levels.logs[last] > rule.slack + 2.0 * error + _SAME


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

    "too_low": the larger limit gives more than `tolerance` over it, or reaches `min_throughput` where it does not.
    "too_high": the smaller limit is within `tolerance` of it (reaches `min_throughput`), or it breaks `max_p99` or
    `max_failure_rate`. Differences must pass a one-sided test at 95 %. "ok": neither. "unknown": too close to tell, too
    noisy, or not measured.
    """
    rule = _Rule(tolerance, max_p99, min_throughput, max_failure_rate)
    ordered = _ordered(points)
    here = next((point for point in ordered if point.limit == limit), None)
    if here is None:
        return "unknown", f"limit {limit} was not measured"
    smaller = _nearest([point for point in ordered if point.limit < limit], limit * min(factors))
    larger = _nearest([point for point in ordered if point.limit > limit], limit * max(factors))
    if rule.fails(here):
        share = f"limit {limit} fails {_percent(here.failure_rate)} of its items"
        if smaller is None or rule.fails(smaller):
            return "unknown", f"{share}, and no smaller limit was measured that does not: it may not be the limit"
        return "too_high", f"{share}, {smaller.limit} fails {_percent(smaller.failure_rate)}"
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


def _compare(here: Point, smaller: Point | None, larger: Point | None, rule: _Rule, *, exact: bool) -> tuple[Verdict, str]:
    group = [point for point in (smaller, here, larger) if point is not None]
    levels = _levels([point.throughputs for point in group], exact=exact)
    if levels.spread is None:
        return "unknown", "no limit was measured twice, so the noise is unknown (3 repeats or more)"
    at, last = group.index(here), len(group) - 1
    logs, errors = levels.logs, levels.errors
    goal = None if rule.min_throughput is None else log(rule.min_throughput)
    if goal is None and max(errors) > rule.slack + _SAME:
        known = f"throughput is known to {_percent(max(errors))} only"
        return "unknown", f"{known}, the tolerance is {_percent(rule.tolerance)} (more repeats, or longer runs)"
    # Each claim: how far beyond its bound the data are, the standard error of that, the verdict.
    claims: list[tuple[float, float, Verdict]] = []
    if larger is not None and goal is None:
        claims.append((logs[last] - logs[at] - rule.slack, levels.error_between(at, last), "too_low"))
    elif larger is not None and goal is not None:
        claims.append((min(goal - logs[at], logs[last] - goal), max(errors[at], errors[last]), "too_low"))
    if smaller is not None and goal is None:
        claims.append((logs[0] - logs[at] + rule.slack, levels.error_between(0, at), "too_high"))
    elif smaller is not None and goal is not None:
        claims.append((logs[0] - goal, errors[0], "too_high"))
    rates = ", ".join(f"{point.limit} gives {_rate(point.throughput)}" for point in group)
    evidence = f"limit {rates} items/s"
    for beyond, error, claim in claims:
        if beyond > levels.z * error + _SAME:
            return claim, evidence
    if any(beyond > _SAME for beyond, _, _ in claims):
        return "unknown", f"too close to tell: {evidence} (more repeats, or longer runs)"
    if goal is not None and logs[at] < goal - _SAME:
        return "unknown", f"no limit measured reaches {_rate(exp(goal))} items/s: {evidence}"
    return "ok", evidence


@dataclass(frozen=True, slots=True)
class Usl:
    """A fit of the Universal Scalability Law; without one everything but `reason` is None.

    X(N) = rate N / (1 + sigma (N - 1) + kappa N (N - 1)). `rate`: items/s at limit 1. `sigma`: contention, the share
    that is serialised. `kappa`: coherency, what agreeing costs each pair. `peak`: sqrt((1 - sigma) / kappa), the limit
    of the most throughput, None when the curve never falls. `r2`: of the throughputs, None when they are all equal.
    Intervals: 95 %, bootstrap; the upper end of `peak_interval` is None when there may be no peak.
    """

    reason: str
    rate: float | None = None
    sigma: float | None = None
    kappa: float | None = None
    peak: float | None = None
    r2: float | None = None
    rate_interval: tuple[float, float] | None = None
    sigma_interval: tuple[float, float] | None = None
    kappa_interval: tuple[float, float] | None = None
    peak_interval: tuple[float, float | None] | None = None

    def throughput(self, limit: float) -> float | None:
        """The law's items per second at `limit`; None without a fit."""
        if self.rate is None or self.sigma is None or self.kappa is None:
            return None
        return self.rate * limit / _slowdown(limit, self.sigma, self.kappa)


def usl(points: Iterable[Point], *, resamples: int = 200, seed: int = 0) -> Usl:
    """Fit the Universal Scalability Law to the points that have a throughput, by least squares of the logarithms.

    Gunther, "Guerrilla Capacity Planning" (2007), chapters 4 to 6; 0 <= sigma <= 1, kappa >= 0. The start is the linear
    form N / X = a + b (N - 1) + c N (N - 1), then follows the method of Levenberg and Marquardt. The intervals come
    from redrawn residuals: they hold what the law does not explain as well as the noise.
    """
    ordered = [point for point in _ordered(points) if min(point.throughputs) > 0.0]
    if len(ordered) < 4:
        return Usl(f"at least 4 limits with a throughput are needed for its 3 parameters, got {len(ordered)}")
    limits = [float(point.limit) for point in ordered]
    logs = _levels([point.throughputs for point in ordered], exact=True).logs
    start = _LinearForm(limits, logs).solve([1.0] * len(limits))
    sigma, kappa = _least_squares(limits, logs, min(start[1] / start[0], 1.0), start[2] / start[0])
    shape = [log(n / _slowdown(n, sigma, kappa)) for n in limits]
    height = sum(y - x for y, x in zip(logs, shape, strict=True)) / len(logs)
    fitted = [height + x for x in shape]
    peak = _peak(sigma, kappa)
    reason = "fitted to the measured limits"
    if peak is not None and peak > limits[-1]:
        reason += "; the peak is an extrapolation beyond the largest of them"
    draws = _redraw(limits, logs, fitted, resamples, seed)
    rates, sigmas, kappas = ([draw[i] for draw in draws] for i in range(3))
    peaks = [inf if (found := _peak(draw[1], draw[2])) is None else found for draw in draws]
    low, high = _middle(peaks)
    return Usl(
        reason,
        exp(height),
        sigma,
        kappa,
        peak,
        _r_squared([exp(y) for y in logs], [exp(y) for y in fitted]),
        _middle(rates),
        _middle(sigmas),
        _middle(kappas),
        None if peak is None or low == inf else (low, None if high == inf else high),
    )


def _slowdown(limit: float, sigma: float, kappa: float) -> float:
    return 1.0 + sigma * (limit - 1.0) + kappa * limit * (limit - 1.0)


def _peak(sigma: float, kappa: float) -> float | None:
    """Where the law's derivative is 0, or 1 when the curve falls from the start."""
    return max(1.0, sqrt((1.0 - sigma) / kappa)) if kappa > 0.0 else None


def _middle(values: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(values)  # quantiles of infinite values: without interpolation
    cut = int(_TAIL * len(ordered))
    return ordered[cut], ordered[-1 - cut]


def _r_squared(measured: Sequence[float], fitted: Sequence[float]) -> float | None:
    mean = sum(measured) / len(measured)
    total = sum((value - mean) ** 2 for value in measured)
    if total <= len(measured) * (1e-9 * mean) ** 2:
        return None
    return 1.0 - sum((x - y) ** 2 for x, y in zip(measured, fitted, strict=True)) / total


class _LinearForm:
    """Least squares of relative errors for N / X = a + b (N - 1) + c N (N - 1) with a > 0, b >= 0, c >= 0."""

    def __init__(self, limits: Sequence[float], logs: Sequence[float]) -> None:
        gains = [exp(y) / n for n, y in zip(limits, logs, strict=True)]
        self.columns = [
            gains,
            [(n - 1.0) * gain for n, gain in zip(limits, gains, strict=True)],
            [n * (n - 1.0) * gain for n, gain in zip(limits, gains, strict=True)],
        ]
        self.gram = [[sum(map(mul, first, second)) for second in self.columns] for first in self.columns]

    def solve(self, target: Sequence[float]) -> list[float]:
        """a, b, c for N / X times `target`: the best of the solutions with b, c or both held at 0 where needed."""
        right = [sum(map(mul, column, target)) for column in self.columns]
        best, found = -inf, [right[0] / self.gram[0][0], 0.0, 0.0]
        for free in ((0, 1, 2), (0, 1), (0, 2), (0,)):
            part = solve([[self.gram[i][j] for j in free] for i in free], [right[i] for i in free])
            if part is None or part[0] <= 0.0 or min(part) < 0.0:
                continue
            explained = sum(value * right[i] for value, i in zip(part, free, strict=True))
            if explained > best:
                best, found = explained, [0.0, 0.0, 0.0]
                for value, i in zip(part, free, strict=True):
                    found[i] = value
            if len(free) == 3:
                break  # what is best without bounds is best with them
        return found


def _least_squares(limits: Sequence[float], logs: Sequence[float], sigma: float, kappa: float) -> tuple[float, float]:
    """Levenberg and Marquardt's method on sigma and kappa, projected on their bounds; the rate follows in closed form.

    Marquardt, "An Algorithm for Least-Squares Estimation of Nonlinear Parameters" (1963). As the rate is a factor, it
    drops out when the residuals of the logarithms are centred.
    """
    gains = [y - log(n) for y, n in zip(logs, limits, strict=True)]

    def residuals(at: tuple[float, float]) -> list[float]:
        return _centred([gain + log(_slowdown(n, *at)) for gain, n in zip(gains, limits, strict=True)])

    here = (sigma, kappa)
    errors = residuals(here)
    total = sum(map(mul, errors, errors))
    damping = 1e-3
    while damping < 1e12 and total > 0.0:
        slow = [_slowdown(n, *here) for n in limits]
        sides = (
            _centred([(n - 1.0) / d for n, d in zip(limits, slow, strict=True)]),
            _centred([n * (n - 1.0) / d for n, d in zip(limits, slow, strict=True)]),
        )
        slopes = [sum(map(mul, side, errors)) for side in sides]
        # A parameter on its bound takes no part while the slope pushes it outwards.
        outwards = (here[0] <= 0.0 < slopes[0] or (slopes[0] < 0.0 and here[0] >= 1.0), here[1] <= 0.0 < slopes[1])
        free = [i for i in (0, 1) if not outwards[i]]
        gram = [[sum(map(mul, sides[i], sides[j])) * (1.0 + damping * (i == j)) for j in free] for i in free]
        step = solve(gram, [-slopes[i] for i in free]) if free else None
        if step is None:
            break
        moved = list(here)
        for i, change in zip(free, step, strict=True):
            moved[i] = max(0.0, here[i] + change)
        there = (min(1.0, moved[0]), moved[1])
        tried = residuals(there)
        new = sum(map(mul, tried, tried))
        if new >= total:
            damping *= 10.0
            continue
        settled = total - new <= 1e-12 * total
        here, errors, total, damping = there, tried, new, damping / 10.0
        if settled:
            break
    return here


def _centred(values: Sequence[float]) -> list[float]:
    mean = sum(values) / len(values)
    return [value - mean for value in values]


def _redraw(
    limits: Sequence[float], logs: Sequence[float], fitted: Sequence[float], resamples: int, seed: int
) -> list[tuple[float, float, float]]:
    """Rate, sigma and kappa of curves with redrawn residuals, by the linear form at the fitted curve."""
    linear = _LinearForm(limits, fitted)
    inflate = sqrt(len(limits) / (len(limits) - 3.0))  # three parameters have absorbed that much of the residuals
    factors = [exp(-inflate * (y - fit)) for y, fit in zip(logs, fitted, strict=True)]
    choices = Random(seed).choices
    draws = []
    for _ in range(resamples):
        a, b, c = linear.solve(choices(factors, k=len(factors)))
        draws.append((1.0 / a, min(b / a, 1.0), c / a))
    return draws


@dataclass(frozen=True, slots=True)
class Little:
    """Little's law at one limit: `in_flight`, throughput x mean latency, against the measured `peak`.

    `error`: the relative difference, `in_flight` / `peak` - 1.
    """

    limit: int
    in_flight: float
    peak: float
    error: float


def littles_law(points: Iterable[Point]) -> list[Little]:
    """The check of every point that has latencies and peaks in flight; medians over the repeats.

    Little, "A Proof for the Queuing Formula: L = lambda W" (1961): the mean number in flight is throughput x mean
    latency. An error near 0 says that the slots were busy all the time. Clearly below 0: slots stood empty (a slow
    source, waiting for the slowest of a chunk, a run too short for its limit) or failed items held them. Above: the
    figures contradict each other.
    """
    checks = []
    for point in _ordered(points):
        figures = zip(point.throughputs, point.latencies, point.peaks_in_flight, strict=False)
        known = [(rate * latency, peak) for rate, latency, peak in figures if latency is not None and peak]
        if known:
            in_flight, peak = median([mean for mean, _ in known]), median([peak for _, peak in known])
            checks.append(Little(point.limit, in_flight, peak, in_flight / peak - 1.0))
    return checks


CEILINGS: tuple[tuple[int, str], ...] = (
    (100, "aiohttp's TCPConnector(limit=100)"),
    (100, "httpx's Limits(max_connections=100)"),
    (40, "anyio's limiter of 40 worker threads"),
    (15, "SQLAlchemy's pool (pool_size=5 + max_overflow=10)"),
)
"""Limits that widely used clients have by default: connections, threads."""


def ceiling_hint(limit: int, cpus: int, *, tolerance: float = 0.05) -> str | None:
    """What a knee at `limit` may be instead of the service's capacity: the default ceiling of a client. None: nothing.

    `cpus`: those available to the process. At a ceiling means within `tolerance` of it, as the recommended limit is
    within that of the best.
    """
    threads = min(32, cpus + 4)
    executor = f"the default executor of asyncio.to_thread (min(32, cpus + 4) = {threads} threads)"
    names = [name for at, name in (*CEILINGS, (threads, executor)) if abs(limit - at) <= tolerance * at]
    return f"this may be a ceiling of the client, not of the service: {' or '.join(names)}" if names else None
