"""How long an item takes: distributions, drawn by (seed, item index) alone, so that order and strategy do not change them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from .checks import check_seconds
from .errors import short

NS = 1_000_000_000
Drawn = tuple[str, float, float, "array[int] | None"]
"""What the engine needs to draw: the kind, its two parameters, and the values of an empirical one, all in ns."""

_Z99 = 2.3263478740408408
"""The standard normal quantile of 0.99."""


@dataclass(frozen=True)
class Distribution:
    """The base of all distributions of seconds."""

    kind: ClassVar[str]

    if TYPE_CHECKING:  # a property here would become the default of the field `mean` of a subclass

        @property
        def mean(self) -> float:
            """The expected value in seconds."""

    def drawn(self) -> Drawn:
        raise NotImplementedError


def keep_seconds(owner: object, name: str) -> None:
    """Checks a field of a frozen dataclass and keeps it as a plain number: a Decimal does not mix with floats."""
    value = getattr(owner, name)
    object.__setattr__(owner, name, plain_seconds(name, value))


def plain_seconds(name: str, value: Any) -> float:
    seconds = check_seconds(name, value)
    return value if type(value) in (int, float) else seconds


@dataclass(frozen=True)
class constant(Distribution):
    """Always `seconds`."""

    seconds: float
    kind: ClassVar[str] = "constant"

    def __post_init__(self) -> None:
        keep_seconds(self, "seconds")

    @property
    def mean(self) -> float:
        return self.seconds

    def drawn(self) -> Drawn:
        return self.kind, float(round(self.seconds * NS)), 0.0, None


@dataclass(frozen=True)
class uniform(Distribution):
    """Evenly between `low` and `high` seconds."""

    low: float
    high: float
    kind: ClassVar[str] = "uniform"

    def __post_init__(self) -> None:
        keep_seconds(self, "low")
        keep_seconds(self, "high")
        if self.high < self.low:
            raise ValueError(f"high must be at least low, got low={self.low!r} and high={self.high!r}")

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2

    def drawn(self) -> Drawn:
        return self.kind, self.low * NS, self.high * NS, None


@dataclass(frozen=True)
class exponential(Distribution):
    """Memoryless with this `mean` in seconds: the waits of a Poisson process."""

    mean: float
    kind: ClassVar[str] = "exponential"

    def __post_init__(self) -> None:
        keep_seconds(self, "mean")

    def drawn(self) -> Drawn:
        return self.kind, self.mean * NS, 0.0, None


@dataclass(frozen=True)
class lognormal(Distribution):
    """Half of the values are below `median`, 99 % below `p99` seconds: how response times of services usually look."""

    median: float
    p99: float
    kind: ClassVar[str] = "lognormal"

    def __post_init__(self) -> None:
        keep_seconds(self, "median")
        keep_seconds(self, "p99")
        if self.median == 0 or self.p99 < self.median:
            raise ValueError(f"p99 must be at least median, and median above 0, got median={self.median!r} and p99={self.p99!r}")

    @property
    def sigma(self) -> float:
        """The standard deviation of the logarithm: ln(p99 / median) / z(0.99)."""
        return math.log(self.p99 / self.median) / _Z99

    @property
    def mean(self) -> float:
        return self.median * math.exp(self.sigma**2 / 2)

    def drawn(self) -> Drawn:
        return self.kind, self.median * NS, self.sigma, None


@dataclass(frozen=True)
class empirical(Distribution):
    """Draws from measured `values` (seconds) with replacement, for instance the latencies of an earlier run."""

    values: tuple[float, ...]
    kind: ClassVar[str] = "empirical"

    def __init__(self, values: Iterable[float]) -> None:
        if not isinstance(values, Iterable):
            raise TypeError(f"values must be numbers of seconds, got {short(values)}")
        kept = tuple(check_seconds(f"values[{i}]", value) for i, value in enumerate(values))
        if not kept:
            raise ValueError("values must hold at least one number of seconds, got none")
        object.__setattr__(self, "values", kept)

    @property
    def mean(self) -> float:
        return math.fsum(self.values) / len(self.values)

    def drawn(self) -> Drawn:
        return self.kind, 0.0, 0.0, array("q", (round(value * NS) for value in self.values))


def as_distribution(name: str, time: Any) -> Distribution:
    """A time as an action takes it: seconds, or a distribution of them."""
    if isinstance(time, Distribution):
        return time
    if isinstance(time, type) and issubclass(time, Distribution):
        raise TypeError(f"{name} is the class {time.__name__} itself (write fw.{time.__name__}(...) with its parameters)")
    return constant(plain_seconds(name, time))
