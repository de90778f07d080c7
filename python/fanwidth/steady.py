"""Throughput while all slots were taken: what a limit gives, without the beginning and the end of a run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .columns import STEADY, Row

if TYPE_CHECKING:
    from .runs import Run

FULL = 0.95
"""The share of the most in flight that counts as all slots taken: the very last one may come late."""
MOST_ENDS = 4_096
"""Enough for the slope of a line; a run of millions has no more to say."""


def steady_rows(rows: Iterable[Row]) -> list[Row]:
    """The rows with the steady throughput in the place of the whole run's, where it was measured."""
    return [{**row, "throughput": row[STEADY.name]} if row.get(STEADY.name) is not None else row for row in rows]


def steady_throughput(run: Run) -> float | None:
    """Ok items per second while all slots were taken.

    A run's `throughput` also holds its end, where ever fewer items are in flight, and its beginning, where threads are made
    and connections opened: the larger the limit, the more, which makes a knee where there is none. Here only those items
    count that end after the slots are full and before the last item starts. Their rate is the slope of their number over
    time by least squares: with equal times they end in waves, and where the last of m waves is not whole, the first and the
    last end alone would be wrong by up to 1 / m, least squares by less than 1 / m^2.

    Where that leaves no two moments it is the run's throughput; None where no time passed.
    """
    started = run.counts.total - run.counts.not_started
    starts, ends, states = run.samples
    begun = sorted(starts[:started])
    if not begun:
        return run.throughput
    ended = sorted(end for end in ends[:started] if end >= 0)
    since = _full_at(begun, ended, FULL * run.peak_in_flight)
    fine = (
        ended
        if run.counts.ok == len(ended)
        else sorted(end for end, state in zip(ends[:started], states[:started], strict=True) if state == 0)
    )
    first, last = bisect_right(fine, since), bisect_right(fine, begun[-1])
    return _slope(fine, range(first, last, max(1, (last - first) // MOST_ENDS))) or run.throughput


def _full_at(begun: Sequence[int], ended: Sequence[int], wanted: float) -> int:
    """The first start with which at least `wanted` items are in flight, in ns."""
    over = 0
    for number, start in enumerate(begun, 1):
        while over < len(ended) and ended[over] <= start and over < number - 1:
            over += 1
        if number - over >= wanted:
            return start
    return begun[-1]


def _slope(moments: Sequence[int], places: range) -> float | None:
    """Places per second, by least squares; None where all moments are one."""
    if len(places) < 2:
        return None
    times = [moments[place] for place in places]
    middle, centre = sum(times) / len(times), (places[0] + places[-1]) / 2
    spread = sum((time - middle) ** 2 for time in times)
    rise = sum((place - centre) * (time - middle) for place, time in zip(places, times, strict=True))
    return 1e9 * rise / spread if spread else None
