"""What was measured: a point per limit with all its repeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

from ..statistics import median


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


def in_order(points: Iterable[Point]) -> list[Point]:
    ordered = sorted(points, key=lambda point: point.limit)
    for first, second in pairwise(ordered):
        if first.limit == second.limit:
            raise ValueError(f"limit {first.limit} appears twice (put all its repeats into one point)")
    return ordered


def wide(low: int, high: int, resolution: float) -> bool:
    return high - low > 1 and high > low * (1.0 + resolution)
