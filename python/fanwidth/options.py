"""The arguments of a run, checked before anything starts."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from . import machine
from ._core import CancelToken
from .checks import check_choice, check_count, check_seconds

ErrorPolicy = Literal["raise", "keep"]
Keep = Literal["all", "samples", "summary"]
Clock = Literal["real", "virtual"]


class Default:
    """The type of DEFAULT: an argument that was not given, where None means something else."""

    def __repr__(self) -> str:
        return "<default>"


DEFAULT = Default()


@dataclass(frozen=True, slots=True)
class Rule:
    """What a strategy does with its arguments. The rule of starting itself is in csrc/strategy.c."""

    takes_limit: bool
    needs_limit: bool
    max_failures: int | None
    reads_ahead: bool = False


RULES = {
    "for_each": Rule(takes_limit=True, needs_limit=False, max_failures=0),
    "when_all": Rule(takes_limit=False, needs_limit=False, max_failures=None, reads_ahead=True),
    "bounded": Rule(takes_limit=True, needs_limit=True, max_failures=None),
    "chunked": Rule(takes_limit=True, needs_limit=True, max_failures=None),
}
STRATEGIES = tuple(RULES)


@dataclass(frozen=True, slots=True)
class Options:
    """Checked arguments of a run, with their defaults filled in. Times in seconds; None means none."""

    strategy: str
    limit: int | None
    max_failures: int | None
    errors: str
    item_timeout: float | None
    total_timeout: float | None
    cancel: CancelToken | None
    setup: Callable[[], Any] | None
    keep: str
    clock: str
    seed: int
    progress: bool | Callable[[Any], object]
    loop_factory: Callable[[], Any] | None

    @property
    def reads_ahead(self) -> bool:
        return RULES[self.strategy].reads_ahead


def check_limit(strategy: str, limit: Any) -> int | None:
    """The limit in force: the one given, or the strategy's default."""
    rule = RULES[strategy]
    if not rule.takes_limit:
        if limit is not None:
            raise TypeError(f"{strategy} takes no limit, got limit={limit!r} (use bounded to set one)")
        return None
    if limit is None and rule.needs_limit:
        raise TypeError(f"{strategy} needs a limit, got limit=None (for instance limit=50; use when_all for no limit)")
    if limit is None:
        return machine.cpus()
    return check_count("limit", limit, 1, "use when_all for no limit")


def _callable(name: str, value: Any, what: str) -> Any:
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be {what} or None, got {value!r}")
    return value


def check_options(
    strategy: str,
    *,
    limit: Any = None,
    max_failures: Any = DEFAULT,
    errors: Any = "raise",
    item_timeout: Any = None,
    total_timeout: Any = None,
    cancel: Any = None,
    setup: Any = None,
    keep: Any = "all",
    clock: Any = "real",
    seed: Any = None,
    progress: Any = False,
    loop_factory: Any = None,
) -> Options:
    """The options of a run of `strategy`; ValueError or TypeError names what is wrong with which argument."""
    check_choice("strategy", strategy, STRATEGIES)
    if max_failures is DEFAULT:
        max_failures = RULES[strategy].max_failures
    elif max_failures is not None:
        max_failures = check_count("max_failures", max_failures, 0, "None for no bound")
    if cancel is not None and not isinstance(cancel, CancelToken):
        raise TypeError(f"cancel must be a fw.CancelToken or None, got {cancel!r}")
    if not isinstance(progress, bool) and not callable(progress):
        raise TypeError(f"progress must be True, False or a callable, got {progress!r}")
    if seed is None:
        seed = int.from_bytes(os.urandom(8)) >> 11  # 53 bits: every JSON reader keeps them exactly
    elif check_count("seed", seed, 0) >= 2**63:
        raise ValueError(f"seed must be below 2**63, got {seed}")
    return Options(
        strategy=strategy,
        limit=check_limit(strategy, limit),
        max_failures=max_failures,
        errors=check_choice("errors", errors, ("raise", "keep")),
        item_timeout=None if item_timeout is None else check_seconds("item_timeout", item_timeout, above_zero=True),
        total_timeout=None if total_timeout is None else check_seconds("total_timeout", total_timeout, above_zero=True),
        cancel=cancel,
        setup=_callable("setup", setup, "a callable"),
        keep=check_choice("keep", keep, ("all", "samples", "summary")),
        clock=check_choice("clock", clock, ("real", "virtual")),
        seed=int(seed),
        progress=progress,
        loop_factory=_callable("loop_factory", loop_factory, "a callable that makes an event loop"),
    )
