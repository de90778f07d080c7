"""How a run reads: one line, a few lines, a card in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .errors import short

if TYPE_CHECKING:
    from .runs import Run

SHOWN_FAILURES = 3

_BOUND_BY = {
    "limit": "the limit",
    "items": "the number of items: all of them could be in flight",
    "source": "the source: slots were free while it was asked for items",
    "consumer": "the consumer: finished outcomes were not taken",
    "threads": "the threads that could be had",
    "cpus": "the CPUs",
    "files": "the open files",
    "gil": "Python's global lock: the callable computes in the interpreter",
}

_STYLE = (
    "display:inline-block;border:1px solid currentColor;border-radius:6px;padding:.6em 1em;"
    "line-height:1.5;opacity:.95;font-family:system-ui,sans-serif;font-size:.95em"
)


def _percent(part: float) -> str:
    return f"{part * 100:+.2g} %" if abs(part) < 0.1 else f"{part * 100:+.0f} %"


def _ended(run: Run) -> str:
    counts = run.counts._asdict()
    total = counts.pop("total")
    parts = [f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count or name == "ok"]
    return f"{total:,} items: {', '.join(parts)}"


def headline(run: Run) -> str:
    """The run in one line."""
    from .export import seconds

    limit = "" if run.limit is None else f", limit {run.limit:,}"
    stopped = "" if run.stopped_by is None else f", stopped by {run.stopped_by}"
    return f"{run.strategy}{limit}; {_ended(run)}; {seconds(run.elapsed)}{stopped}"


def facts(run: Run) -> list[tuple[str, str]]:
    """What a reader asks for, as pairs of a label and a sentence."""
    from .export import seconds

    elapsed = seconds(run.elapsed) + (" (simulated)" if run._options.clock == "virtual" else "")
    if run.ideal is not None and run.overhead is not None and run._options.clock == "real":
        elapsed += f"; ideal {seconds(run.ideal)}, overhead {_percent(run.overhead)}"
    rows = [("items", _ended(run)), ("time", elapsed)]
    if run.throughput:
        rows.append(("throughput", f"{run.throughput:,.4g} ok per second"))
    if run.latency.n and run.latency.p50 is not None and run.latency.p99 is not None and run.latency.max is not None:
        rows.append(
            (
                "latency",
                f"p50 {seconds(run.latency.p50)}, p99 {seconds(run.latency.p99)}, max {seconds(run.latency.max)}",
            )
        )
    peak = f"{run.peak_in_flight:,} in flight at most"
    rows.append(("bound by", f"{_BOUND_BY[run.limited_by]} ({peak})"))
    if run.stopped_by is not None:
        rows.append(("stopped by", run.stopped_by))
    if run._options.keep != "summary":
        rows += [
            ("failed", f"item {o.index} ({short(o.item, 40)}): {short(o.exception, 100)}") for o in run.errors[:SHOWN_FAILURES]
        ]
        more = len(run.errors) - SHOWN_FAILURES
        if more > 0:
            rows.append(("", f"and {more:,} more in .errors"))
    return rows


def title(run: Run) -> str:
    from .actions import describe

    limit = "" if run.limit is None else f", limit {run.limit:,}"
    return f"{run.strategy}{limit}: {describe(run._action)}"


def lines(run: Run) -> list[str]:
    """The run in a few lines of text."""
    return [title(run), *(f"  {label:<10}  {text}" for label, text in facts(run))]


def card(run: Run, escape: Callable[[str], str]) -> str:
    """The run as HTML that takes its colours from the page."""
    cell = "text-align:left;padding:0 1em 0 0;background:none;border:none"
    rows = "".join(
        f'<tr style="background:none"><th style="{cell}">{escape(a)}</th><td style="{cell}">{escape(b)}</td></tr>'
        for a, b in facts(run)
    )
    return f'<div style="{_STYLE}"><b>{escape(title(run))}</b><table style="border:none;margin:.3em 0 0">{rows}</table></div>'
