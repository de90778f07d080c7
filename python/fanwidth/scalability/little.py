"""Little's law: whether throughput, latency and items in flight agree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..statistics import median
from .points import Point, in_order


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
    for point in in_order(points):
        figures = zip(point.throughputs, point.latencies, point.peaks_in_flight, strict=False)
        known = [(rate * latency, peak) for rate, latency, peak in figures if latency is not None and peak]
        if known:
            in_flight, peak = median([mean for mean, _ in known]), median([peak for _, peak in known])
            checks.append(Little(point.limit, in_flight, peak, in_flight / peak - 1.0))
    return checks
