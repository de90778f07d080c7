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
    stopped = "" if run.stopped_by is None else f", stopped by {run.stopped_by}"
    return f"{_rule(run)}; {_ended(run)}; {_elapsed(run)}{stopped}"


def _rule(run: Run) -> str:
    return run.strategy if run.limit is None else f"{run.strategy}, limit {run.limit:,}"


def _elapsed(run: Run) -> str:
    from .export import seconds

    return seconds(run.elapsed) + (" (simulated)" if run._options.clock == "virtual" else "")


def _time(run: Run) -> str:
    """The time beside its ideal; where the overhead is more than the work itself, in seconds instead of percent."""
    from .export import seconds

    if run.ideal is None or run.overhead is None or run._options.clock == "virtual":
        return _elapsed(run)
    over = _percent(run.overhead) if run.overhead < 1 else seconds(run.elapsed - run.ideal)
    return f"{_elapsed(run)}; ideal {seconds(run.ideal)}, overhead {over}"


def _bound(run: Run) -> str:
    peak = f"{run.peak_in_flight:,} in flight at most"
    if run.limited_by == "limit" and run.effective_limit is not None and run.peak_in_flight < run.effective_limit:
        return f"nothing: items ended before others could start ({peak}, of {run.effective_limit:,})"
    return f"{_BOUND_BY[run.limited_by]} ({peak})"


def facts(run: Run) -> list[tuple[str, str]]:
    """What a reader asks for, as pairs of a label and a sentence."""
    from .export import rate, seconds

    rows = [("items", _ended(run)), ("time", _time(run))]
    if run.throughput:
        rows.append(("throughput", f"{rate(run.throughput, 4).removesuffix(' /s')} ok per second"))
    if run.latency.n:
        latency = run.latency
        rows.append(("latency", f"p50 {seconds(latency.p50)}, p99 {seconds(latency.p99)}, max {seconds(latency.max)}"))
    rows.append(("bound by", _bound(run)))
    if "assumes" in run._facts:
        rows.append(("assumes", run._facts["assumes"]))
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

    replayed = run._facts.get("replayed")
    return f"{_rule(run)}: {describe(run._action) if replayed is None else f'replay of {replayed}'}"


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
