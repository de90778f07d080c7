"""Assertions for test suites: one line each, and a failure shows the evidence.

from fanwidth import testing

testing.assert_all_ok(run)
testing.assert_peak_in_flight(run, at_most=50)
testing.assert_overhead(run, at_most=0.05)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .checks import check_count
from .errors import short
from .export import percent

if TYPE_CHECKING:
    from .recommendation import LimitCheck
    from .runs import Run


def _fail(what: str, run: Run) -> None:
    __tracebackhide__ = True
    raise AssertionError(f"{what}\n{run}")


def assert_all_ok(run: Run) -> None:
    """Every item ended ok. The failure names the first items that did not, and why."""
    __tracebackhide__ = True
    if run.ok:
        return
    counts = {name: count for name, count in run.counts._asdict().items() if count and name not in ("ok", "total")}
    ended = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items())
    _fail(f"{run.counts.total - run.counts.ok:,} of {run.counts.total:,} items are not ok: {ended}", run)


def assert_peak_in_flight(run: Run, at_most: int, at_least: int = 0) -> None:
    """At no instant were more than `at_most` items in flight, and at some instant at least `at_least`."""
    __tracebackhide__ = True
    check_count("at_most", at_most, 0)
    check_count("at_least", at_least, 0)
    if run.peak_in_flight > at_most:
        _fail(f"{run.peak_in_flight:,} items were in flight at once, more than {at_most:,}", run)
    if run.peak_in_flight < at_least:
        _fail(f"only {run.peak_in_flight:,} items were in flight at once, fewer than {at_least:,}", run)


def assert_overhead(run: Run, at_most: float) -> None:
    """The run took at most (1 + `at_most`) x its ideal, the makespan of the same service times with no overhead.

    On a real clock and a busy machine leave room: 0.5 is a good bound for a test that must not depend on luck.
    """
    __tracebackhide__ = True
    if isinstance(at_most, bool) or not isinstance(at_most, int | float) or not at_most >= 0:
        raise ValueError(f"at_most must be a share of at least 0 (0.5 is 50 %), got {short(at_most)}")
    if run.overhead is None:
        _fail("the run has no overhead: it has no ideal, since not every item ended by itself or no time passed", run)
    elif run.overhead > at_most:
        _fail(f"the overhead is {percent(run.overhead)}, more than {percent(at_most)}", run)


def assert_limit(check: LimitCheck) -> None:
    """The verdict of `fw.check_limit` is "ok"; "unknown" fails too, for it proves nothing."""
    __tracebackhide__ = True
    if check.verdict != "ok":
        raise AssertionError(f"{check}\n{check.overview()}")
