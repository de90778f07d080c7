"""In which order limits are measured: the climb, the rounds, the refinement around the knee. Each step asks for budget."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .bench import Bench, OutOfBudget
from .scalability import Status, refine, stop_climbing

MOST_REFINEMENTS = 12
MOST_REPEATS = 3
"""Times the repeats, where the first ones leave doubt."""
SIMULATED, MEASURED = 0.01, 0.05
"""How near two limits must be for none between them to be measured: a simulation costs nothing."""
FEWEST = 3
"""Limits that are measured before the climb thinks of its costs."""


@dataclass
class Findings:
    """What a search has to say beside what it measured."""

    notes: list[str] = field(default_factory=list)
    """What was left out."""
    refusal: tuple[Status, str] | None = None
    """Where the measurements alone would mislead, or there are none: why."""


def knee(bench: Bench, climb: Sequence[int], conditions: dict[str, Any]) -> Findings:
    """Climbs once, repeats what was climbed in shuffled rounds, refines around the knee."""
    try:
        bench.pilot()
        limits, notes = bench.affordable(climb)
    except OutOfBudget as why:
        return Findings(refusal=("too_few", str(why)))
    measured = _climb(bench, limits, conditions, notes)
    if not bench.points():
        return Findings(notes, ("too_few", f"nothing was measured: {'; '.join(notes) or 'no time passes'}"))
    failing = bench.points()[-1].failure_rate > conditions["max_failure_rate"]
    if failing and measured[-1] > 1 and (why_alone := _fail_alone(bench)) is not None:
        told = f"items fail whatever the limit, {why_alone} (leave them out, or allow a share of them: max_failure_rate)"
        return Findings(notes, ("infeasible", told))
    if failing and len(measured) == 1:
        return Findings(notes)  # more of the same would tell nothing
    shuffled = random.Random(bench.seed)
    repeats = 1 if bench.constant else bench.repeats
    left_out = [why for repeat in range(1, repeats) for why in _round(bench, measured, repeat, shuffled)]
    for _ in range(MOST_REFINEMENTS):
        more = refine(bench.points(), exact=bench.exact, resolution=SIMULATED if bench.exact else MEASURED, **conditions)
        if not more or left_out:
            break
        first = {limit: bench.repeats_of(limit) for limit in more}
        for repeat in range(repeats):
            left_out += _round(bench, more, repeat, shuffled, first)
    return Findings([*notes, *(f"measuring ended early: {why}" for why in left_out[:1])])


def _fail_alone(bench: Bench) -> str | None:
    try:
        return bench.fail_alone()
    except OutOfBudget:
        return None


def _climb(bench: Bench, limits: Sequence[int], conditions: dict[str, Any], notes: list[str]) -> list[int]:
    """One run at each limit, from the smallest on, as long as that tells something and leaves time for the repeats."""
    decisive = {name: conditions[name] for name in ("tolerance", "max_p99", "max_failure_rate")}
    measured: list[int] = []
    whole, spent = bench.left(), 0.0
    try:
        for limit in limits:
            if whole is not None and len(measured) >= FEWEST:
                spent = whole - (bench.left() or 0.0)
                if (spent + bench.seconds_at(limit, bench.size(limit))) * bench.repeats > whole:
                    raise OutOfBudget(f"a run at limit {limit:,} takes too much of the {bench.budget:g} s")
            bench.measure(limit, 0)
            measured.append(limit)
            if stop_climbing(bench.points(), exact=bench.exact, **decisive):
                break
    except OutOfBudget as why:
        notes.append(f"climbing ended at limit {measured[-1]:,}: {why}" if measured else str(why))
    return measured


def _round(
    bench: Bench, limits: Sequence[int], repeat: int, shuffled: random.Random, first: dict[int, int] | None = None
) -> list[str]:
    """One run at each limit, in any order, so that what disturbs the machine disturbs all alike. `first`: the number of a
    limit's first repeat. Gives what did not fit."""
    left_out = []
    for limit in shuffled.sample(limits, len(limits)):
        try:
            bench.measure(limit, repeat + (first or {}).get(limit, 0))
        except OutOfBudget as why:
            left_out.append(str(why))
    return left_out


def verdict(bench: Bench, limits: Sequence[int], clear: Callable[[], bool]) -> list[str]:
    """Rounds over the limits: as many as asked for, then more until it is clear."""
    try:
        bench.pilot()
        kept, notes = bench.affordable(limits)
    except OutOfBudget as why:
        return [str(why)]
    shuffled = random.Random(bench.seed)
    most = 1 if bench.constant else bench.repeats if bench.exact else MOST_REPEATS * bench.repeats
    for repeat in range(most):
        if repeat >= bench.repeats and clear():
            break
        left_out = _round(bench, kept, repeat, shuffled)
        if left_out:
            return [*notes, left_out[0]]
    return notes
