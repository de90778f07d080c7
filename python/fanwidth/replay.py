"""The same service times once more on the virtual clock: the ideal of a run, and what another rule would have made of it."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from . import actions, native
from .distributions import Drawn
from .options import check_limit
from .source import Source

if TYPE_CHECKING:
    from .runs import Run


def _measured_ns(run: Run) -> array[int]:
    samples = run.samples
    return array("q", (finish - start for start, finish in zip(samples.start_ns, samples.finish_ns, strict=True)))


def _times(run: Run) -> tuple[actions.NativeAction, Drawn] | None:
    """The action and the times to run it with; None where they were not kept."""
    action = run._action
    if not isinstance(action, actions.NativeAction):
        return None if run._options.keep == "summary" else (actions.delay(0), ("per_item", 0.0, 0.0, _measured_ns(run)))
    if run._drawn_ns is not None:  # also those of a replay, whose action has no time of its own
        return action, ("per_item", 0.0, 0.0, run._drawn_ns)
    return None if action.time is None else (action, action.time.drawn())


def _cut_short(run: Run) -> int:
    """Items whose service was not seen to its end by whatever may end it: those that the end of the run has taken along."""
    counts = run.counts
    return counts.cancelled + counts.not_started + (counts.timed_out if run.stopped_by == "timeout" else 0)


def ideal(run: Run) -> float | None:
    if _cut_short(run) or run.counts.total == 0:
        return None
    if run.limit is not None and run.peak_in_flight > run.limit:
        return None  # the limit was raised while it ran, so that no one rule held
    if run._options.clock == "virtual":
        return run.elapsed or None  # the same computation, already made
    times = _times(run)
    if times is None:
        return None
    action, drawn = times
    facts = native.simulate(action, drawn, run.counts.total, run._options, samples=False)
    return facts["ledger"].last_finish_ns / native.NS or None


def replay(run: Run, *, strategy: str | None, limit: int | None) -> Run:
    from dataclasses import replace

    from .checks import check_choice
    from .options import STRATEGIES
    from .runs import Run

    missing = _cut_short(run)
    if missing:
        raise ValueError(
            f"replay needs the time of every item, but {missing:,} of {run.counts.total:,} were cut short or not started"
        )
    times = _times(run)
    if times is None:
        raise ValueError(
            f'replay needs the time of every item, which keep="{run._options.keep}" did not keep (use keep="samples" or "all")'
        )
    strategy = run.strategy if strategy is None else check_choice("strategy", strategy, STRATEGIES)
    same = strategy == run.strategy and limit is None
    options = replace(
        run._options,
        strategy=strategy,
        limit=run.limit if same else check_limit(strategy, limit),
        max_failures=None,
        total_timeout=None,
        cancel=None,
        keep="samples" if run._options.keep == "summary" else run._options.keep,
        clock="virtual",
        progress=False,
    )
    action, drawn = times
    total = run.counts.total
    facts: dict[str, Any] = native.simulate(action, drawn, total, options, samples=True)
    record = native.to_record(facts, action, Source(range(total), total), options)
    record.drawn_ns = drawn[3] if drawn[0] == "per_item" else None
    record.facts["assumes"] = "service times that do not depend on the limit"
    if not isinstance(run._action, actions.NativeAction):
        record.facts["replayed"] = actions.describe(run._action)
    return Run(record, action, Source(range(total), total), options)
