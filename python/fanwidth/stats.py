"""Summaries of durations. Percentiles use the linear definition (Hyndman and Fan 1996, type 7; numpy's default)."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Protocol

from . import _core

NS = 1e9  # per second; dividing by it rounds correctly, where its inverse is no binary fraction
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}
NAMES = ("n", "mean", "std", "min", *QUANTILES, "max")


class _Distribution(Protocol):
    """Sorted durations in ns, whole or as a histogram."""

    def quantile(self, q: float) -> float: ...


class _Sorted:
    def __init__(self, values_ns: Sequence[int]) -> None:
        self.values_ns = values_ns

    def __reduce__(self) -> tuple[Any, ...]:
        return _Sorted, (array("q", self.values_ns),)

    def quantile(self, q: float) -> float:
        values, place = self.values_ns, q * (len(self.values_ns) - 1)
        below = math.floor(place)
        if below + 1 >= len(values):
            return float(values[-1])
        low, high = values[below], values[below + 1]
        return low + (high - low) * (place - below)


class _Buckets:
    """A histogram: the value of a rank is its bucket's middle, at most 0.4 % off, kept within the extremes."""

    def __init__(self, buckets: list[tuple[int, int]], low: int, high: int) -> None:
        self.middles = [min(max(middle, low), high) for middle, _ in buckets]
        self.low, self.high, self.ranks = low, high, []
        seen = 0
        for _, count in buckets:
            seen += count
            self.ranks.append(seen)

    def _at(self, rank: int) -> float:
        if rank == 0:
            return self.low
        if rank == self.ranks[-1] - 1:
            return self.high
        return self.middles[bisect_left(self.ranks, rank + 1)]

    def quantile(self, q: float) -> float:
        place = q * (self.ranks[-1] - 1)
        below = math.floor(place)
        low = self._at(below)
        return low if below == place else low + (self._at(below + 1) - low) * (place - below)


class Summary:
    """Durations in seconds: `n`, `mean`, `std` (n - 1 in the denominator), `min`, `p50`, `p90`, `p95`, `p99`, `p99_9`, `max`.

    All but `n` are None where n is 0, `std` also where n is 1.
    """

    __slots__ = ("_distribution", "max", "mean", "min", "n", "std")

    n: int
    mean: float | None
    std: float | None
    min: float | None
    max: float | None
    _distribution: _Distribution | None

    def __init__(self, n: int, mean: float, std: float | None, low: int, high: int, distribution: _Distribution | None) -> None:
        values = {
            "n": n,
            "mean": mean / NS if n else None,
            "std": std / NS if n > 1 and std is not None else None,
            "min": low / NS if n else None,
            "max": high / NS if n else None,
            "_distribution": distribution if n else None,
        }
        self.__setstate__(values)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Summary is immutable: cannot set {name!r}")

    def quantile(self, q: float) -> float | None:
        """The value that a share `q` (0 to 1) of the durations does not exceed, by the linear definition; None without any."""
        if isinstance(q, bool) or not isinstance(q, int | float) or not 0 <= q <= 1:
            raise ValueError(f"q must be from 0 to 1, got {q!r}")
        return None if self._distribution is None else self._distribution.quantile(q) / NS

    @property
    def p50(self) -> float | None:
        return self.quantile(0.5)

    @property
    def p90(self) -> float | None:
        return self.quantile(0.9)

    @property
    def p95(self) -> float | None:
        return self.quantile(0.95)

    @property
    def p99(self) -> float | None:
        return self.quantile(0.99)

    @property
    def p99_9(self) -> float | None:
        return self.quantile(0.999)

    def to_dict(self) -> dict[str, int | float | None]:
        return {name: getattr(self, name) for name in NAMES}

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, Summary) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # compared by value, and large

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value:.6g}" for name, value in self.to_dict().items() if value is not None)
        return f"Summary({shown})"


def of_columns(from_ns: Any, to_ns: Any, state: Any) -> Summary:
    """The times from one column to another of the ok items; `from_ns` None: since the run's start."""
    data, mean, std = _core.durations(from_ns, to_ns, state)
    values = memoryview(data).cast("q")
    n = len(values)
    return Summary(n, mean, std, values[0] if n else 0, values[-1] if n else 0, _Sorted(values))


def of_tally(tally: tuple[int, float, float | None, int, int, list[tuple[int, int]]]) -> Summary:
    """A running summary of the engine."""
    n, mean, std, low, high, buckets = tally
    return Summary(n, mean, std, low, high, _Buckets(buckets, low, high) if n else None)


def of_values(seconds: Sequence[float]) -> Summary:
    """The summary of plain durations in seconds."""
    values_ns = sorted(round(value * 1e9) for value in seconds)
    n = len(values_ns)
    mean = math.fsum(values_ns) / n if n else 0.0
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in values_ns) / (n - 1)) if n > 1 else None
    return Summary(n, mean, std, values_ns[0] if n else 0, values_ns[-1] if n else 0, _Sorted(values_ns))
