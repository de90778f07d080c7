"""Where to measure next, and where to stop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log, sqrt

from .choices import SAME, Choice
from .levels import ONE_SIDED, TWO_SIDED, Levels, levels_of
from .points import Point, in_order, wide
from .rules import Rule
from .surveys import survey_of


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
    rule = Rule(tolerance, max_p99, min_throughput, max_failure_rate)
    ordered = in_order(points)
    survey = survey_of(ordered, rule, exact)
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
        if first >= 0 and wide(low := ordered[first].limit, high := ordered[second].limit, resolution):
            new.add(min(max(round(sqrt(low * high)), low + 1), high - 1))
    if new or not levels.spread:
        return sorted(new)
    enough = most * min(len(point.throughputs) for point in ordered)
    again = (survey.allowed[i] for i in sorted(set(doubtful)))
    return [point.limit for point in again if len(point.throughputs) < enough]


def _summit(limits: Sequence[int], levels: Levels, rule: Rule) -> int | None:
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


def _doubtful(levels: Levels, choice: Choice, rule: Rule) -> list[int]:
    """The limits which cannot be told from the goal, up to the first that is clearly above it.

    With them two limits of the plateau above, as the goal hangs on its level.
    """
    shared = choice.error if rule.min_throughput is None else 0.0
    found: list[int] = []
    for i, (level, error) in enumerate(zip(levels.logs, levels.errors, strict=True)):
        reach = TWO_SIDED / ONE_SIDED * levels.z * sqrt(error**2 + shared**2)
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
    rule = Rule(tolerance, max_p99, None, max_failure_rate)
    ordered = in_order(points)
    if not ordered:
        return False
    if rule.fails(ordered[-1]):
        return True
    if max_p99 is not None and len(ordered) >= 2:
        times = [value for point in ordered[-2:] for value in point.p99s if value is not None]
        if times and min(times) > max_p99:
            return True
    levels = levels_of([point.throughputs for point in ordered if not rule.fails(point)], exact=exact)
    last = len(levels.logs) - 1
    best = max(range(last + 1), key=levels.logs.__getitem__)
    error = sqrt(2.0) * tolerance if levels.spread is None else levels.error_between(best, last)
    return levels.logs[best] - levels.logs[last] > rule.slack + 2.0 * error + SAME
