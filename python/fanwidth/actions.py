"""Native actions: what the engine does to an item in C, without the GIL. Frozen dataclasses; csrc/actions/ does the work."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from .checks import check_count
from .distributions import Distribution, as_distribution, constant


@dataclass(frozen=True)
class NativeAction:
    """The base of all native actions. `name` is that of the C action."""

    name: ClassVar[str]

    @property
    def time(self) -> Distribution | None:
        """How long an item takes; None: the item itself says."""
        raise NotImplementedError

    @property
    def item_is_time(self) -> bool:
        return self.time is None


def _kept(name: str, time: Any) -> float | Distribution:
    """A time as an action keeps it: plain seconds, or a distribution."""
    distribution = as_distribution(name, time)
    return distribution.seconds if isinstance(distribution, constant) and distribution is not time else distribution


@dataclass(frozen=True)
class noop(NativeAction):
    """Does nothing: a run of it costs what fanwidth itself costs."""

    name: ClassVar[str] = "noop"

    @property
    def time(self) -> Distribution:
        return constant(0)


@dataclass(frozen=True)
class delay(NativeAction):
    """Waits: `seconds` is a number from 0 to 100 years, a distribution, or None for items that are their own delay in seconds.

    A delay never ends early; on the real clock it ends some 70 us late, a few times that on a busy machine.
    """

    seconds: float | Distribution | None = None
    name: ClassVar[str] = "delay"

    def __post_init__(self) -> None:
        if self.seconds is not None:
            object.__setattr__(self, "seconds", _kept("seconds", self.seconds))

    @property
    def time(self) -> Distribution | None:
        return None if self.seconds is None else as_distribution("seconds", self.seconds)


@dataclass(frozen=True)
class cpu(NativeAction):
    """Spins for `seconds` of CPU time (a number or a distribution) on threads that the run owns: min(limit, items, 1024) of them.

    A stop is noticed within 50 us. On the virtual clock the available CPUs are servers with one queue.
    """

    seconds: float | Distribution
    name: ClassVar[str] = "cpu"

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", _kept("seconds", self.seconds))

    @property
    def time(self) -> Distribution:
        return as_distribution("seconds", self.seconds)


@dataclass(frozen=True)
class service(NativeAction):
    """A simulated downstream: `capacity` servers, each of which takes `time` seconds (a number or a distribution) for an item.

    Items that find no server free wait in a first-come-first-served queue of `queue` places (None: no bound); where that is full,
    they fail with `fw.QueueFull`. An item is in flight from its admission, so its latency includes its time in the queue.
    """

    seconds: float | Distribution
    capacity: int
    queue: int | None
    name: ClassVar[str] = "service"

    def __init__(self, time: float | Distribution, capacity: int, queue: int | None = None) -> None:
        object.__setattr__(self, "seconds", _kept("time", time))
        object.__setattr__(self, "capacity", check_count("capacity", capacity, 1))
        object.__setattr__(self, "queue", None if queue is None else check_count("queue", queue, 0, "None for no bound"))

    def __repr__(self) -> str:
        return f"service(time={self.seconds!r}, capacity={self.capacity!r}, queue={self.queue!r})"

    @property
    def time(self) -> Distribution:
        return as_distribution("time", self.seconds)


NATIVE_ACTIONS: tuple[type[NativeAction], ...] = (noop, delay, cpu, service)
"""In the order of csrc/actions/list.h; a test compares the two."""


def describe(action: Any) -> str:
    """An action as a table or a summary names it."""
    if isinstance(action, NativeAction):
        set_fields = ((field.name, getattr(action, field.name)) for field in fields(action))
        return f"{action.name}({', '.join(repr(value) for _, value in set_fields if value is not None)})"
    return getattr(action, "__qualname__", None) or repr(action)
