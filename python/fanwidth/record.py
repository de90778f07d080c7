"""What a driver knows when its run has ended: the only thing that drivers and `Run` have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._core import Ledger


@dataclass(slots=True)
class Record:
    """The raw facts of a run that has ended."""

    ledger: Ledger
    """Sealed: it will not change any more."""
    results: list[Any] | None = None
    """By index, None where not ok. None: not kept, or a native action's, which are the indices."""
    failures: list[tuple[int, Any, BaseException]] = field(default_factory=list)
    """Index, item and exception; items that timed out on the native driver may be missing."""
    items: dict[int, Any] | list[Any] = field(default_factory=dict)
    """Items by index: of failures that are not in `failures`, or all of them where the driver has read the source."""
    raised: BaseException | None = None
    """What ends the run whatever the error policy: an interrupt, a job's SystemExit, the source's own exception."""
    effective_limit: int | None = None
    limited_by: str = "limit"
    drawn_ns: Any = None
    """Buffer of int64: the times of a native action whose items were their own, by index."""
    facts: dict[str, Any] = field(default_factory=dict)
    """For `Run.meta`."""
