"""What a recommendation rests on, and how that reads: as text, as a table, as HTML with a picture."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .columns import Column
from .scalability import Knee, Little, Point, Usl
from .table import Table

if TYPE_CHECKING:
    from .recommendation import Recommendation

POOR_FIT = 0.99
"""R^2 below which the scalability law does not describe the data. A ceiling, which it cannot bend to, has less."""
LOOSE_LITTLE = 0.1

_BOUND_BY = {
    "limit": "the limit alone, by nothing in this process",
    "items": "the number of items",
    "source": "the source, which gives items too slowly",
    "threads": "the threads that could be had",
    "cpus": "the CPUs of this machine",
    "files": "the open files of this process",
    "gil": "Python's global lock: the callable computes in the interpreter (processes would help, threads do not)",
}

_COLUMNS = (
    Column("limit", "int"),
    Column("throughput", "float", "1/s", "measure", "ok items per second while all slots were taken, median over the runs"),
    Column("spread", "float", "1", "measure", "from the least to the most of the runs, as a share of the median"),
    Column("p99", "float", "s", "measure", "service time, median over the runs' 99th percentiles"),
    Column("failed", "float", "1", "measure", "failed and timed-out items"),
    Column("runs", "int", "", "measure"),
    Column("choice", "str", "", "label"),
)


@dataclass(frozen=True)
class Evidence:
    """What a recommendation rests on."""

    knee: Knee
    """The rule's answer, with its bootstrap interval and the plateau it was compared with."""
    usl: Usl
    """The fit of the Universal Scalability Law: a second opinion, never the rule."""
    little: tuple[Little, ...]
    """Little's law at every limit."""
    limited_by: str | None
    """What bound most of the runs above the recommended limit; at the largest limit where there is none above, or no answer."""
    hint: str | None
    """A known ceiling of a client at which the knee sits, or None."""
    points: tuple[Point, ...]
    """What was measured, by limit."""
    notes: tuple[str, ...] = ()
    """What was left out or went wrong."""

    def overview(self) -> Table:
        """A row per limit: throughput, its spread over the runs, p99, failures."""
        return overview(self.points, {} if self.knee.limit is None else {self.knee.limit: "<- recommended"})

    def lines(self) -> Iterator[str]:
        """What stands beside the measurements, a line each."""
        yield from self._interval()
        yield from self._law()
        yield from self._little()
        if self.limited_by is not None and self.points:
            above = self.knee.limit is not None and self.knee.limit < self.points[-1].limit
            where = "above it" if above else f"at limit {self.points[-1].limit:,}"
            so = ": what ends the gain lies behind the calls" if above and self.limited_by == "limit" else ""
            yield f"bound {where} by {_BOUND_BY.get(self.limited_by, self.limited_by)}{so}"
        if self.hint is not None:
            yield self.hint
        yield from self.notes

    def _interval(self) -> Iterator[str]:
        found = self.knee
        if found.limit is None or found.interval is None:
            return
        low, high = found.interval
        which = f"{low:,} alone" if low == high else f"{low:,} to {high:,}"
        yield f"95 % interval of the limit, among those measured (bootstrap): {which}"

    def _little(self) -> Iterator[str]:
        """At the recommended limit: larger ones fill a queue first, which takes time that a short run does not have."""
        for check in self.little:
            if check.limit == self.knee.limit and abs(check.error) <= LOOSE_LITTLE:
                told = f"{check.in_flight:.3g} in flight, and {check.peak:,.0f} were"
                yield f"Little's law holds: at limit {check.limit:,} throughput x latency is {told}"
            elif check.limit == self.knee.limit:
                yield (
                    f"Little's law does not hold: at limit {check.limit:,} throughput x latency is {check.in_flight:.3g} in "
                    f"flight, but {check.peak:,.0f} were: slots stood empty, or runs were too short"
                )

    def _law(self) -> Iterator[str]:
        law = self.usl
        if law.sigma is None or law.kappa is None:
            return
        peak = "no peak" if law.peak is None else f"peak at {law.peak:,.0f}"
        fit = "" if law.r2 is None else f", R\N{SUPERSCRIPT TWO} {law.r2:.3f}"
        told = f"Universal Scalability Law, a second opinion: contention {law.sigma:.2g}, coherency {law.kappa:.2g}, {peak}{fit}"
        poor = law.r2 is not None and law.r2 < POOR_FIT
        yield told + (" (a poor fit: it bends too early where a capacity is a hard ceiling)" if poor else "")


def overview(points: Sequence[Point], marks: Mapping[int, str]) -> Table:
    """A row per limit. `marks`: what is written beside some of them."""
    rows = [
        {
            "limit": point.limit,
            "throughput": point.throughput,
            "spread": _spread(point),
            "p99": point.p99,
            "failed": point.failure_rate,
            "runs": len(point.throughputs),
            "choice": marks.get(point.limit, ""),
        }
        for point in points
    ]
    needless = {"failed"} if not any(point.failure_rate for point in points) else set()
    if not marks:
        needless.add("choice")
    columns = [column for column in _COLUMNS if column.name not in needless]
    return Table(columns, {column.name: [row[column.name] for row in rows] for column in columns})


def _spread(point: Point) -> float | None:
    if len(point.throughputs) < 2 or not point.throughput:
        return None
    return (max(point.throughputs) - min(point.throughputs)) / point.throughput


def text(found: Recommendation) -> str:
    """The answer, the measurements, and what stands beside them."""
    table = found.evidence.overview().to_text(width=10_000).splitlines() if found.evidence.points else []
    lines = (f"- {line}" for line in found.evidence.lines())
    return "\n".join([found.sentence, *(f"  {line}".rstrip() for line in [*table, *lines])])


def page(found: Recommendation) -> str:
    """The same as HTML, with a picture where matplotlib is installed. It takes its colours from the page."""
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in found.evidence.lines())
    table = found.evidence.overview()._repr_html_() if found.evidence.points else ""
    side = "display:flex;flex-wrap:wrap;align-items:flex-start;gap:1em"
    return (
        f'<div><p style="font-size:1.1em"><b>{html.escape(found.sentence)}</b></p>'
        f'<div style="{side}">{_picture(found)}<div>{table}</div></div><ul>{lines}</ul></div>'
    )


def _picture(found: Recommendation) -> str:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return ""
    import base64
    import io

    from . import plot

    try:
        ax = plot.throughput(found, ax=plot.blank(5.0, 3.75))
    except ValueError:  # nothing was measured
        return ""
    drawn = io.BytesIO()
    ax.figure.figure.savefig(drawn, format="png", dpi=100)
    image = base64.b64encode(drawn.getvalue()).decode()
    return (
        f'<img alt="throughput against the limit" style="background:white;border-radius:6px;max-width:100%" '
        f'src="data:image/png;base64,{image}">'
    )
