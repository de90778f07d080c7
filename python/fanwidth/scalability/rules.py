"""What is asked for: the tolerance and the conditions a limit must meet."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, log

from .points import Point


@dataclass(frozen=True, slots=True)
class Rule:
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


def in_percent(share: float) -> str:
    return f"{100.0 * share:.3g} %"


def in_rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 100.0 else f"{per_second:.3g}"
