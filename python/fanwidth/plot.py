"""Pictures of tables and runs: throughput, latency, in_flight, timeline, ecdf. Needs matplotlib, the extra [plot].

Each function draws on `ax`, or on a new one made with `plt.subplots()`, and returns it; nothing is shown, and no style,
setting or backend is changed. Series differ in marker, line or hatch as well as in colour. For files, in a loop or not:

fw.plot.save(fw.plot.throughput(table), "throughput.png")  # writes the file and closes the figure
"""

from __future__ import annotations

import errno
import io
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from . import export, scalability
from .checks import check_choice, check_count
from .errors import short
from .runs import STATES, Run
from .statistics import median
from .stats import Summary
from .steady import steady_rows
from .table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from numpy.typing import NDArray

__all__ = ["blank", "ecdf", "in_flight", "latency", "save", "throughput", "timeline"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito, "Color Universal Design" (2008): told apart with any colour vision."""
_MARKERS = "os^DvP"
_LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1, 1)), (0, (8, 1.5, 1, 1.5, 1, 1.5)), (0, (2, 2)))
_STATE_LOOKS: dict[str, tuple[tuple[str, str], str]] = {
    "ok": (("#94C4E3", "#5A9DCB"), ""),
    "failed": (("#D55E00", "#C05400"), "////"),
    "timed_out": (("#3B2A66", "#2E2050"), "xxxx"),
    "cancelled": (("#FFFFFF", "#F2F2F2"), "...."),
}
"""Two tones for items that follow one another in a slot, and a hatch; as greys they are light, middle, dark and white."""

CURVE_POINTS = 1_000
"""The most steps of a curve over items. What has more is drawn at so many ranks (ecdf) or in BINS (in flight)."""
BINS = 200
"""Enough to fill the width of a picture, few enough to tell a line from its neighbours."""


class _Recommended(Protocol):
    """What is drawn of a Recommendation."""

    @property
    def table(self) -> Table: ...
    @property
    def limit(self) -> int | None: ...


Tabular = Table | _Recommended
Runs = Run | Sequence[Run] | Mapping[str, Run]


def _style(place: int, count: int) -> dict[str, Any]:
    """Of series number `place`. What lies below is larger, so that series with the same values are all seen."""
    above = max(0, count - 1 - place % count)
    return {
        "color": _COLOURS[place % 6],
        "marker": _MARKERS[(place + place // 6) % 6],
        "linestyle": _LINES[place % 6],
        "linewidth": 1.3 + 0.45 * min(above, 5),
        "markersize": 5 + 1.5 * min(above, 4),
    }


# Axes and files


def blank(width: float = 6.4, height: float = 4.8) -> Axes:
    """Empty axes on a figure of their own, in inches, which pyplot never hears of: for files, without any display."""
    _need_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained").subplots()


def save(ax: Axes, path: str | os.PathLike[str], *, dpi: float = 150) -> None:
    """Write the figure of `ax` to `path`, whole or not at all, and close it where pyplot has it open.

    The ending of `path` (.png, .svg, .pdf) says the format; ValueError where matplotlib does not know it. To keep the
    figure open, use `ax.figure.savefig`.
    """
    target = Path(os.path.realpath(export.checked_path(path)))
    figure = _checked(ax).figure.figure  # of a subfigure: the whole
    try:
        known, kind = figure.canvas.get_supported_filetypes(), os.path.splitext(path)[1].lower().removeprefix(".")
        if kind not in known:
            raise ValueError(f"path must end in one of .{', .'.join(sorted(known))}, got {os.fspath(path)!r}")
        if not target.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "no such folder", str(target.parent))
        drawn = io.BytesIO()
        figure.savefig(drawn, format=kind, dpi=dpi)
        part = target.with_name(f".fanwidth-{os.urandom(8).hex()}.part")
        try:
            part.write_bytes(drawn.getvalue())
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
    finally:
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close(figure)


def _need_matplotlib() -> None:
    try:
        import matplotlib.axes  # noqa: F401
    except ImportError as error:
        raise ImportError(f'plots need matplotlib ({error}): pip install "fanwidth[plot]"', name="matplotlib") from error


def _checked(ax: Any) -> Axes:
    _need_matplotlib()
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise TypeError(f"ax must be a matplotlib Axes, got {type(ax).__name__} (of several pass one)")
    return ax


def _axes(ax: Axes | None) -> Axes:
    """`ax`, or new ones. Asked for once the data are known to be good, so that no empty figure is left behind."""
    if ax is not None:
        return _checked(ax)
    _need_matplotlib()
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def _ink() -> Any:
    """The colour of text: seen on a light background as on a dark one."""
    from matplotlib import rcParams

    return rcParams["text.color"]


def _time_axis(axis: Axis, what: str) -> None:
    """Ticks in the unit that suits what is in view. The data stay seconds, so that more can be drawn over them."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    low, high = sorted(map(abs, axis.get_view_interval()))
    size = (low * high) ** 0.5 if axis.get_scale() == "log" else high
    factor, unit = next(((f, u) for f, u in export.SCALES["s"] if size >= f), export.SCALES["s"][-1])
    axis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds / factor:,.6g}"))
    axis.set_minor_formatter(NullFormatter())
    axis.set_label_text(f"{what} ({unit})")


def _count_axis(axis: Axis, what: str) -> None:
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    axis.set_major_formatter(StrMethodFormatter("{x:,.6g}"))
    axis.set_minor_formatter(NullFormatter())
    axis.set_label_text(what)


def _whole_numbers(axis: Axis) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))


def _scale_axis(ax: Axes, which: str, values: Sequence[float]) -> None:
    """Logarithmic where the values span a factor of ten, else from zero on."""
    from matplotlib.ticker import LogLocator

    axis = ax.yaxis if which == "y" else ax.xaxis
    ax.autoscale(axis="y" if which == "y" else "x")  # what was drawn before must stay in view
    low, high = min(values), max(values)
    if low > 0 and high >= 10 * low:
        ax.set(**{f"{which}scale": "log"})
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 300 * low else (1.0,)))
        return
    if low <= 0:
        ax.set(**{f"{which}scale": "linear"})
    if axis.get_scale() == "linear":
        ax.set(**{f"{which}lim": (0, None)})


def _limit_axis(ax: Axes) -> None:
    from matplotlib.ticker import NullLocator

    low, high = ax.dataLim.intervalx  # which lines across have no part in
    if low > high:
        ax.set_xticks([])
        ax.set_xlabel("no limit")
        return
    ax.set_xscale("log", base=2)
    ax.autoscale(axis="x")
    _count_axis(ax.xaxis, "limit (items in flight at most)")
    ax.xaxis.set_minor_locator(NullLocator())
    if low == high:
        ax.set_xlim(low / 2, high * 2)


def _size(ax: Axes) -> tuple[float, float]:
    """Width and height in typographic points; a layout yet to be made may change them a little."""
    box = ax.get_window_extent()
    return 72 * box.width / ax.figure.dpi, 72 * box.height / ax.figure.dpi


def _legend(ax: Axes, handles: Sequence[Any] | None = None) -> None:
    """Above the data but within the axes, where it hides neither data, nor a title, nor a neighbour."""
    from matplotlib.container import ErrorbarContainer
    from matplotlib.font_manager import FontProperties

    if handles is None:
        # Measured series first: errorbars come last by matplotlib's order.
        handles = sorted(ax.get_legend_handles_labels()[0], key=lambda handle: not isinstance(handle, ErrorbarContainer))
    em = FontProperties(size="small").get_size_in_points()
    width, height = _size(ax)
    longest = max(len(str(handle.get_label())) for handle in handles)
    columns = max(1, min(len(handles), int(width / (em * (0.48 * longest + 4.2)))))
    rows = math.ceil(len(handles) / columns)
    share = min(0.5, em * (1.5 * rows + 0.8) / height)
    scale = ax.yaxis.get_transform()
    low, high = (float(end) for end in scale.transform(list(ax.get_ylim())))
    ax.set_ylim(top=float(scale.inverted().transform([low + (high - low) / (1 - share)])[0]))
    ax.legend(handles=handles, ncols=columns, fontsize="small", loc="upper left", frameon=False, borderaxespad=0.2)


# Tables: a series for each combination of what was set beside the limit


@dataclass(frozen=True, slots=True)
class _Series:
    label: str
    rows: list[Mapping[str, export.Cell]]

    def values(self, name: str) -> dict[int, list[float]]:
        """The repeats of a column, by limit."""
        found: dict[int, list[float]] = {}
        for row in self.rows:
            limit, value = row["limit"], row[name]
            if isinstance(limit, int) and isinstance(value, int | float):
                found.setdefault(limit, []).append(value)
        return {limit: found[limit] for limit in sorted(found)}

    def unlimited(self, name: str) -> list[float]:
        """The repeats of a column where there was no limit."""
        return [value for row in self.rows if row["limit"] is None and isinstance(value := row[name], int | float)]

    @property
    def exact(self) -> bool:
        return all(row.get("clock") == "virtual" for row in self.rows)


def _series(table: Tabular, *needed: str) -> tuple[list[_Series], _Recommended | None]:
    """The series of a table, and the recommendation that it came in."""
    recommended = None
    if not isinstance(table, Table):
        if not isinstance(getattr(table, "table", None), Table):
            raise TypeError(f"table must be a fanwidth Table or Recommendation, got {type(table).__name__}")
        recommended, table = table, table.table
    for name in ("limit", *needed):
        if name not in table.columns:
            raise ValueError(f"table must have a column {name!r}, as a table of runs has (not its summary)")
    rows = [row for row in steady_rows(table) if not row.get("warmup")]
    rows = [row for row in rows if all(isinstance(row[name], int | float) for name in needed)]
    if not rows:
        what = " and ".join(needed)
        raise ValueError(f"table must have a row with {what}, got {len(table)} rows without (warm-up runs do not count)")
    keys = [column.name for column in table.schema if column.role == "key" and column.name != "limit"]
    if "items" in keys:
        # How many items a limit was measured with says nothing as long as it is one number.
        rest = [key for key in ("limit", *keys) if key != "items"]
        if len({tuple(row[key] for key in rest) for row in rows}) == len(
            {tuple(row[key] for key in (*rest, "items")) for row in rows}
        ):
            keys.remove("items")
    groups: dict[tuple[export.Cell, ...], list[Mapping[str, export.Cell]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    told = [i for i, key in enumerate(keys) if key in ("strategy", "method") or len({point[i] for point in groups}) > 1]
    # Sorted, as the rows of a sweep are shuffled: the same series always looks the same.
    points = sorted(groups, key=lambda point: [(value is None, 0 if value is None else value) for value in point])
    return [_Series(", ".join(_told(keys[i], point[i]) for i in told), groups[point]) for point in points], recommended


def _told(key: str, value: export.Cell) -> str:
    if key in ("strategy", "method", "clock"):
        return str(value)
    return f"{key} {export.count(value) if isinstance(value, int | float) else value}"


def _draw_series(ax: Axes, one: _Series, name: str, *, label: str | None, across: Any = "-.", **style: Any) -> None:
    """Medians with bars from the least to the most of the repeats; a line across for what has no limit."""
    values, free = one.values(name), one.unlimited(name)
    if values:
        medians = [median(sample) for sample in values.values()]
        spread = [(m - min(sample), max(sample) - m) for m, sample in zip(medians, values.values(), strict=True)]
        below, above = zip(*spread, strict=True)
        ax.errorbar(list(values), medians, yerr=[below, above], capsize=2.5, elinewidth=1, label=label, zorder=3, **style)
    if free:
        told = f"{label} (no limit)" if label and not values else None
        line = {"color": style["color"], "linestyle": across, "linewidth": 1.5}
        ax.axhline(median(free), label=told, **line)
        ax.axhspan(min(free), max(free), color=style["color"], alpha=0.15, linewidth=0)


def throughput(table: Tabular, *, ax: Axes | None = None, tolerance: float = 0.05) -> Axes:
    """Items per second against the limit: where more in flight stops helping.

    `table`: a Table of runs or a Recommendation. Points are medians over the repeats, bars reach from the least to the
    most; warm-up runs are left out. What was set beside the limit (strategy, other axes, several numbers of items)
    makes series of its own; runs without a limit are a line across. The ideal is what a slot does at a series' smallest
    limit times the limit, as far as it stays in sight. The ring marks the recommended limit: the Recommendation's, else
    the one that `fw.recommend`'s rule finds with `tolerance`, where it finds one. A single series of four limits or
    more has a fit of the Universal Scalability Law. Where it was measured (`fw.recommend` does), it is the throughput while
    all slots were taken, else that of whole runs.

    ValueError where no row was measured.
    """
    series, recommended = _series(table, "throughput")
    ax = _axes(ax)
    before = len(ax.containers)
    points = [scalability.points_from_rows(one.rows) for one in series]
    alone = len(series) == 1
    law = scalability.usl(points[0]) if alone else scalability.Usl("")
    rates = [float(str(row["throughput"])) for one in series for row in one.rows]
    for place, one in enumerate(series, before):
        style = _style(place, len(series))
        _draw_series(ax, one, "throughput", label=one.label, **style | ({"linestyle": "none"} if law.rate is not None else {}))
    if law.rate is not None:
        shown = "scalability law" + ("" if law.r2 is None else f", R² {law.r2:.2f}")
        limits = _between(points[0][0].limit, points[0][-1].limit)
        ax.plot(
            limits, [law.throughput(limit) or 0.0 for limit in limits], color=_COLOURS[before % 6], linewidth=1.2, label=shown
        )
    _draw_ideals(ax, points, 1.3 * max(rates))
    if alone and recommended is not None:
        _mark(ax, points[0], recommended.limit, "")
    else:
        for one, of in zip(series, points, strict=True):
            found = scalability.knee(of, tolerance=tolerance, exact=one.exact)
            _mark(ax, of, found.limit, _REFUSALS.get(found.status) if alone and len(of) > 2 else None)
    _scale_axis(ax, "y", rates)
    _count_axis(ax.yaxis, "throughput (ok items per second)")
    _limit_axis(ax)
    _legend(ax)
    return ax


def _draw_ideals(ax: Axes, points: Sequence[Sequence[scalability.Point]], highest: float) -> None:
    """One line for all series whose slots do about the same."""
    slots: list[float] = []
    for of in points:
        low, high = (of[0].limit, of[-1].limit) if of else (1, 1)
        slot = of[0].throughput / low if of else 0.0
        if low == high or slot == 0 or any(0.8 < slot / other < 1.25 for other in slots):
            continue
        limits = _between(low, min(high, max(low, highest / slot)))
        told = None if slots else "ideal: proportional"
        ax.plot(limits, [slot * limit for limit in limits], color=_ink(), linestyle=":", linewidth=1.2, label=told)
        slots.append(slot)


_REFUSALS = {
    "rising": ": it still rises at the last limit",
    "noisy": ": too noisy",
    "too_few": ": too few limits or repeats",
    "infeasible": ": items failed at every limit",
}


def _between(low: float, high: float) -> list[float]:
    """A hundred limits, evenly on a logarithmic axis."""
    return [low * (high / low) ** (i / 100) for i in range(101)]


def _mark(ax: Axes, points: Sequence[scalability.Point], limit: int | None, refusal: str | None) -> None:
    """A ring around the recommended limit, or a word in the legend that there is none."""
    if limit is None and refusal is not None:
        ax.plot([], [], linestyle="none", label=f"no limit recommended{refusal}")
    for point in points:
        if point.limit == limit:
            _ring(ax, point.limit, point.throughput)


def _ring(ax: Axes, limit: int, value: float, *, number: tuple[int, int] = (7, -17)) -> None:
    """`number`: where it stands, in points from the middle; by default below a curve that rises and then stays."""
    label = None if any(line.get_label() == "recommended limit" for line in ax.lines) else "recommended limit"
    ring: dict[str, Any] = {"marker": "o", "markersize": 13, "markerfacecolor": "none", "markeredgewidth": 1.5}
    ax.plot([limit], [value], linestyle="none", markeredgecolor=_ink(), label=label, zorder=4, **ring)
    side = "left" if number[0] > 0 else "right"
    ax.annotate(f"{limit:,}", (limit, value), xytext=number, textcoords="offset points", ha=side, fontweight="bold")


def latency(table: Tabular, *, ax: Axes | None = None) -> Axes:
    """Service time against the limit: p50 (filled, full lines) and p99 (hollow, dashed) of the ok items.

    `table`, points, bars, series and runs without a limit are as in `throughput`. A point is the median over the
    repeats of a run's percentile, never the percentile of all their items. Rings mark a Recommendation's limit.

    ValueError where no row has latencies.
    """
    names = ("latency_p50", "latency_p99")
    series, recommended = _series(table, *names)
    ax = _axes(ax)
    before = len(ax.containers) // 2
    alone = len(series) == 1 and before == 0
    for place, one in enumerate(series, before):
        style = _style(place, len(series))
        hollow = style | {"linestyle": _LINES[1], "across": _LINES[1], "markerfacecolor": "none"}
        _draw_series(ax, one, names[1], label="p99" if alone else None, **hollow)
        _draw_series(ax, one, names[0], label="p50" if alone else one.label, **style | {"linestyle": "-", "across": "-"})
    if not alone and before == 0:
        ax.plot([], [], color=_ink(), marker="o", markersize=5, label="p50")
        ax.plot([], [], color=_ink(), marker="o", markersize=5, markerfacecolor="none", linestyle="--", label="p99")
    if recommended is not None and recommended.limit is not None:
        for name in names:
            for sample in (one.values(name).get(recommended.limit) for one in series):
                if sample:
                    _ring(ax, recommended.limit, median(sample), number=(-4, 9))
    _scale_axis(ax, "y", [float(str(row[name])) for one in series for row in one.rows for name in names])
    _time_axis(ax.yaxis, "service time")
    _limit_axis(ax)
    _legend(ax)
    return ax


# Runs


def _runs(run: Runs) -> dict[str, Run]:
    """The runs by label."""
    given: Any = [run] if isinstance(run, Run) else run
    members = list(given.values() if isinstance(given, Mapping) else given) if isinstance(given, Mapping | Sequence) else [given]
    for one in members:
        if not isinstance(one, Run):
            raise TypeError(f"run must be a Run, a list of them, or a dict of them by label, got {short(one)}")
    if not members:
        raise ValueError(f"run must hold at least one Run, got {given!r}")
    if isinstance(given, Mapping):
        return {str(label): one for label, one in given.items()}
    runs: dict[str, Run] = {}
    for one in members:
        name = one.strategy if one.limit is None else f"{one.strategy}, limit {one.limit:,}"
        again = sum(label.partition(" (")[0] == name for label in runs)
        runs[f"{name} ({again + 1})" if again else name] = one
    return runs


def _started(label: str, run: Run) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Start and finish in seconds, and state, of the items that were started. What has no finish lasts to the end."""
    import numpy as np

    start, finish, state = map(np.asarray, run.samples)
    which = start >= 0
    if not which.any():
        raise ValueError(f"run must have an item that was started, got none of {run.counts.total:,} ({label})")
    end = max(round(run.elapsed * 1e9), int(start.max()))
    start, finish, state = start[which], finish[which], state[which]
    return start * 1e-9, np.where(finish < 0, end, finish) * 1e-9, state


def in_flight(run: Runs, *, ax: Axes | None = None) -> Axes:
    """Items in flight over the time of one run or several, as steps.

    `run`: a Run, a list of them, or a dict of them by label. A curve of more than 1,000 steps is drawn in 200 bins of
    equal time: their means as a line, from the least to the most of each as a band. With a single run its limit is a
    line across.

    ValueError where no item was started, or the samples were not kept.
    """
    _need_matplotlib()
    runs = _runs(run)
    curves = {label: _level_curve(*_started(label, one)[:2]) for label, one in runs.items()}
    ax = _axes(ax)
    before = len(ax.lines)
    for place, (label, (times, levels)) in enumerate(curves.items(), before):
        style = _style(place, len(runs)) | {"linestyle": "-", "linewidth": 1.3, "markersize": 6}
        if len(runs) + before == 1:
            style["marker"] = ""
        band = _bins(times, levels, BINS) if len(times) > CURVE_POINTS else None
        if band is not None:
            times, levels = band[0], band[2]
        ax.plot(times, levels, drawstyle="steps-post", markevery=max(1, len(times) // 12), label=label, **style)
        if band is not None:
            look = {"edgecolor": style["color"], "hatch": ("", "////", "....")[place % 3], "alpha": 0.25, "linewidth": 0}
            told = "least and most in a bin"
            ax.fill_between(band[0], band[1], band[3], step="post", facecolor=style["color"], label=told, **look)
    limits = {one.limit for one in runs.values()}
    if len(runs) == 1 and (limit := limits.pop()) is not None:
        ax.axhline(limit, color=_ink(), linestyle=":", linewidth=1.2, label="limit")
    ax.autoscale()  # what was drawn before must stay in view
    ax.set_xlim(0, None)
    ax.set_ylim(0, None)
    _whole_numbers(ax.yaxis)
    _time_axis(ax.xaxis, "time since the run's start")
    _count_axis(ax.yaxis, "items in flight")
    _legend(ax)
    return ax


def _level_curve(start: NDArray[Any], finish: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The times at which the number in flight changes, from 0 on, and the number from each of them on.

    What takes no time is never seen in flight. A slot that is freed and taken in the same instant is not counted twice.
    """
    import numpy as np

    lasting = finish > start
    starts, finishes = np.sort(start[lasting], kind="stable"), np.sort(finish[lasting])
    steps = np.full(2 * len(starts), -1)
    # Merged, finishes first: a start comes after all starts before it and all finishes up to it.
    steps[np.arange(len(starts)) + np.searchsorted(finishes, starts, side="right")] = 1
    times = np.empty(len(steps))
    times[steps > 0], times[steps < 0] = starts, finishes
    times, levels = np.concatenate(([0.0], times)), np.concatenate(([0], np.cumsum(steps)))
    last = np.append(times[1:] != times[:-1], True)
    return times[last], levels[last]


def _bins(times: NDArray[Any], levels: NDArray[Any], count: int) -> tuple[NDArray[Any], ...]:
    """Edges of `count` bins of equal time; from each edge on the least, the mean over time and the most, from the last on 0."""
    import numpy as np

    edges = np.linspace(times[0], times[-1], count + 1)
    at = np.searchsorted(times, edges, side="right") - 1  # the step that holds at each edge
    area = np.concatenate(([0.0], np.cumsum(levels[:-1] * np.diff(times))))
    upto = area[at] + levels[at] * (edges - times[at])
    mean = np.diff(upto) / np.diff(edges)
    # reduceat leaves out the step that reaches over a bin's end.
    last = np.where(times[at[1:]] < edges[1:], levels[at[1:]], levels[at[:-1]])
    least = np.minimum(np.minimum.reduceat(levels, at)[:-1], last)
    most = np.maximum(np.maximum.reduceat(levels, at)[:-1], last)
    return edges, *(np.append(values, 0) for values in (least, mean, most))


@dataclass(frozen=True, slots=True)
class _Band:
    """The drawn items of one run: (start, finish, state, slot from 0, tone); the time until which they are all there is."""

    label: str
    items: list[tuple[float, float, str, int, int]]
    slots: int
    until: float
    note: str
    """What is not drawn."""
    elapsed: str

    @property
    def end(self) -> float:
        return max(self.until, *(item[1] for item in self.items))


def _band(label: str, run: Run, first: int) -> _Band:
    start, finish, state = _started(label, run)
    rows = sorted(
        zip(start[:first].tolist(), finish[:first].tolist(), state[:first].tolist(), strict=True), key=lambda row: row[0]
    )
    slots = _slots([row[:2] for row in rows])
    served: dict[int, int] = {}
    items = []
    for (begin, end, how), slot in zip(rows, slots, strict=True):
        items.append((begin, end, STATES[how], slot, served.get(slot, 0) % 2))
        served[slot] = served.get(slot, 0) + 1
    count = max(slots) + 1
    if run.limit is not None:
        count = max(count, min(run.limit, len(rows)))
    elapsed, missing = export.seconds(run.elapsed), run.counts.total - len(start)
    if len(start) <= first:
        return _Band(label, items, count, run.elapsed, f"{missing:,} not started" if missing else "", elapsed)
    # What starts after the last one drawn would lie in slots that look idle.
    return _Band(label, items, count, float(start[first:].min()), f"the first {first:,} of {run.counts.total:,} items", elapsed)


_ROUND = [digit * 10**power for power in range(18) for digit in (1, 2, 5)]


def _slots(spans: Sequence[tuple[float, float]]) -> list[int]:
    """The lowest slot free at each start, for spans in the order of their starts."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    taken = []
    for begin, end in spans:
        while busy and busy[0][0] <= begin:
            heappush(free, heappop(busy)[1])
        slot = heappop(free) if free else len(busy)
        heappush(busy, (end, slot))
        taken.append(slot)
    return taken


def timeline(run: Runs, *, ax: Axes | None = None, first: int = 300) -> Axes:
    """Who ran when: a bar for every item, in the slot that it took; several runs below one another over one time.

    `run`: a Run, a list of them, or a dict of them by label. `first`: the most items to draw of each run, the first
    ones in source order. An item takes the lowest free slot; grey is a slot with nothing to do. Neighbours in a slot
    differ in tone; items that did not end ok are hatched, and crosses where they took no time.

    ValueError where no item was started, or the samples were not kept.
    """
    _need_matplotlib()
    first = check_count("first", first, 1)
    bands = [_band(label, one, first) for label, one in _runs(run).items()]
    ax = _axes(ax)
    alone = len(bands) == 1
    tallest, end = max(band.slots for band in bands), max(band.end for band in bands)
    heights = [max(band.slots, 0.4 * tallest) for band in bands]
    space = 0.12 * tallest
    bottom = 0.5 + sum(heights) + space * (len(bands) - 1)
    point = bottom / _size(ax)[1]
    top, middles = 0.5, []
    for band, height in zip(bands, heights, strict=True):
        slot = height / band.slots
        _draw_band(ax, band, top, slot, gap=0.06 * slot if slot > 2.5 * point else 0.0, visible=0.004 * end)
        middles.append(top + height / 2)
        top += height + space
    ax.set_xlim(0, 1.01 * end if end > 0 else 1e-9)
    ax.set_ylim(bottom, 0.5)  # the first slot on top
    _time_axis(ax.xaxis, "time since the run's start")
    if alone:
        step = next(step for step in _ROUND if bands[0].slots <= 12 * step)
        ax.set_yticks([1, *range(step, bands[0].slots + 1, step)] if step > 1 else range(1, bands[0].slots + 1))
        ax.set_ylabel("slot")
        if bands[0].note:
            ax.set_xlabel(f"{ax.get_xlabel()}; {bands[0].note}")
    else:
        ax.set_yticks(middles, [_folded(band) if len(bands) <= 6 else band.label for band in bands])
        ax.tick_params(axis="y", length=0)
    _legend(ax, _state_handles({item[2] for band in bands for item in band.items}))
    return ax


def _folded(band: _Band) -> str:
    note = band.note.replace(" of ", "\nof ") or band.elapsed
    return "\n".join([*band.label.split(", ", 1), note])


def _draw_band(ax: Axes, band: _Band, top: float, height: float, *, gap: float, visible: float) -> None:
    """The slots, `height` each, from `top` on. What takes less than `visible` seconds and is not ok is a cross as well."""
    from matplotlib.collections import PolyCollection

    def bar(begin: float, end: float, slot: int) -> list[tuple[float, float]]:
        high, low = top + slot * height + gap, top + (slot + 1) * height - gap
        return [(begin, high), (end, high), (end, low), (begin, low)]

    idle = [bar(0.0, band.until, slot) for slot in range(band.slots)]
    ax.add_collection(PolyCollection(idle, facecolor=_ink(), alpha=0.12, linewidth=0))
    looks: dict[tuple[str, int], list[list[tuple[float, float]]]] = {}
    crosses = []
    for begin, end, state, slot, tone in band.items:
        looks.setdefault((state, tone), []).append(bar(begin, end, slot))
        if state != "ok" and end - begin < visible:
            crosses.append((begin, top + (slot + 0.5) * height, state))
    for (state, tone), bars in looks.items():
        ax.add_collection(PolyCollection(bars, **_look(state, tone)))
    for state in {cross[2] for cross in crosses}:
        colour = _STATE_LOOKS[state][0][0] if state != "cancelled" else _ink()
        at = [cross[:2] for cross in crosses if cross[2] == state]
        ax.plot(*zip(*at, strict=True), linestyle="none", marker="x", markersize=5, color=colour, clip_on=False)


def _look(state: str, tone: int) -> dict[str, Any]:
    """A bar's; its edge is seen where it is too short for its face, and gives a hatch its colour."""
    tones, hatch = _STATE_LOOKS[state]
    edge = {"ok": tones[tone], "cancelled": "#777777"}.get(state, "#FFFFFF")
    return {"facecolor": tones[tone], "hatch": hatch, "edgecolor": edge, "linewidth": 0.4 if state == "ok" else 0}


def _state_handles(states: set[str]) -> list[Any]:
    from matplotlib.patches import Patch

    bars = [Patch(**_look(state, 0), label=state.replace("_", " ")) for state in STATES if state in states]
    return [*bars, Patch(facecolor=_ink(), alpha=0.12, label="idle")]


def ecdf(run: Runs, *, ax: Axes | None = None, of: str = "latency") -> Axes:
    """The share of the ok items that took at most so long, of one run or several.

    `run`: a Run, a list of them, or a dict of them by label. `of`: "latency" (service time) or "wait" (from the run's
    start to the item's). The marks are p50, p90 and p99. Of more than 1,000 items 1,000 evenly spaced ranks are drawn;
    with keep="summary" they come from its histogram.

    ValueError where no item is ok.
    """
    check_choice("of", of, ("latency", "wait"))
    runs = _runs(run)
    for label, one in runs.items():
        if one.counts.ok == 0:
            raise ValueError(f"run must have an item that is ok, got none of {one.counts.total:,} ({label})")
    ax = _axes(ax)
    extremes: list[float] = []
    for place, (label, one) in enumerate(runs.items(), len(ax.lines)):
        times = one.latency if of == "latency" else one.wait
        values, shares = _steps(times)
        style = _style(place, len(runs))
        told = f"{label}: p50 {export.seconds(times.p50)}, p99 {export.seconds(times.p99)}"
        marked = [1 + next(i for i, share in enumerate(shares) if share >= q) for q in (0.5, 0.9, 0.99)]
        ax.plot([values[0], *values], [0.0, *shares], drawstyle="steps-post", markevery=marked, label=told, **style)
        extremes += [values[0], values[-1]]
    _scale_axis(ax, "x", extremes)
    ax.set_ylim(0, 1.02)
    ax.set_yticks([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    ax.set_ylabel("share of the ok items")
    _time_axis(ax.xaxis, "service time, at most" if of == "latency" else "time until the start, at most")
    _legend(ax)
    return ax


def _steps(times: Summary) -> tuple[list[float], list[float]]:
    """Sorted times, and the share of items up to each."""
    n, most = times.n, CURVE_POINTS
    ranks = range(n) if n <= most else [round(i * (n - 1) / (most - 1)) for i in range(most)]
    return [times.quantile(rank / max(1, n - 1)) or 0.0 for rank in ranks], [(rank + 1) / n for rank in ranks]
