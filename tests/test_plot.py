"""Plots: what is drawn, in which units and how much of it; files without a display; nothing left behind."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.container import ErrorbarContainer

import fanwidth as fw
from fanwidth import plot
from fanwidth.runs import Run
from fanwidth.table import Table, run_row, sweep_columns

matplotlib.use("Agg")  # the tests', whatever display there is; fanwidth itself never chooses
import matplotlib.pyplot as plt

LIMITS = (1, 2, 4, 8, 16, 32)
WAITS = fw.lognormal(0.020, 0.1)


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """Every figure of a test is the test's own to close; settings are as they were."""
    before = dict(matplotlib.rcParams)
    yield
    plt.close("all")
    assert dict(matplotlib.rcParams) == before


def virtual(strategy: str = "bounded", items: int = 200, **keywords: Any) -> Run:
    action = keywords.pop("action", fw.delay(WAITS))
    return fw.run(action, items, strategy=strategy, clock="virtual", seed=1, **keywords)


def synthetic(throughputs: dict[int | None, list[float]], **more: object) -> list[dict[str, object]]:
    return [
        {
            "strategy": "bounded",
            "limit": limit,
            "items": 1000,
            "repeat": repeat,
            "warmup": False,
            "throughput": value,
            "latency_p50": 0.02,
            "latency_p99": 0.1,
            "ok": 1000,
            "failed": 0,
            "clock": "real",
            **more,
        }
        for limit, values in throughputs.items()
        for repeat, value in enumerate(values)
    ]


def table_of(*rows: list[dict[str, object]], axes: tuple[str, ...] = ()) -> Table:
    return Table.from_rows([row for part in rows for row in part], sweep_columns(axes))


def flat_from(knee: int, noise: float = 0.001) -> dict[int | None, list[float]]:
    """Ten items per second and slot, up to `knee` slots."""
    return {limit: [10 * min(limit, knee) * (1 + noise * (i - 1)) for i in range(3)] for limit in LIMITS}


@pytest.fixture(scope="module")
def measured() -> Table:
    rows = []
    for repeat in range(2):
        for strategy, limits in (("bounded", (1, 8, 64)), ("chunked", (1, 8, 64)), ("when_all", (None,))):
            for limit in limits:
                run = fw.run(
                    fw.delay(WAITS), 300, strategy=strategy, clock="virtual", seed=repeat, **({"limit": limit} if limit else {})
                )
                rows.append(run_row(run, axes={}, repeat=repeat, warmup=False))
    return Table.from_rows(rows, sweep_columns())


def labels(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def line(ax: Axes, label: str) -> Any:
    return next(one for one in ax.lines if one.get_label() == label)


def drawn_vertices(ax: Axes) -> int:
    """Every corner of every artist: what a reader's machine has to draw."""
    total = sum(len(one.get_xdata()) for one in ax.lines)
    return total + sum(len(path.vertices) for one in ax.collections for path in one.get_paths()) + len(ax.patches)


def bars(ax: Axes) -> list[PolyCollection]:
    """A timeline's bars; the background of idle slots has an alpha."""
    return [one for one in ax.collections if isinstance(one, PolyCollection) and one.get_alpha() is None]


PICTURES: dict[str, Callable[[Table, Run, Axes | None], Axes]] = {
    "throughput": lambda table, run, ax: plot.throughput(table, ax=ax),
    "latency": lambda table, run, ax: plot.latency(table, ax=ax),
    "in_flight": lambda table, run, ax: plot.in_flight(run, ax=ax),
    "timeline": lambda table, run, ax: plot.timeline(run, ax=ax),
    "ecdf": lambda table, run, ax: plot.ecdf(run, ax=ax),
}
every_picture = pytest.mark.parametrize("name", PICTURES)


# What all pictures have in common


def test_every_public_picture_is_tested() -> None:
    assert set(plot.__all__) == set(PICTURES) | {"blank", "save"}


@every_picture
def test_without_axes_pyplot_makes_them_and_with_axes_nothing_else_is_made(name: str, measured: Table) -> None:
    run = virtual(limit=8)
    ax = PICTURES[name](measured, run, None)
    assert plt.get_fignums() == [ax.figure.number]
    own = plot.blank()
    assert PICTURES[name](measured, run, own) is own
    assert len(plt.get_fignums()) == 1


@every_picture
def test_labels_say_what_and_in_which_unit(name: str, measured: Table) -> None:
    ax = PICTURES[name](measured, virtual(limit=8), plot.blank())
    expected = {
        "throughput": ("limit (items in flight at most)", "throughput (ok items per second)"),
        "latency": ("limit (items in flight at most)", "service time (ms)"),
        "in_flight": ("time since the run's start (ms)", "items in flight"),
        "timeline": ("time since the run's start (ms)", "slot"),
        "ecdf": ("service time, at most (ms)", "share of the ok items"),
    }
    assert (ax.get_xlabel(), ax.get_ylabel()) == expected[name]


@every_picture
def test_the_legend_lies_above_the_data_within_the_axes_and_leaves_the_title_free(name: str, measured: Table) -> None:
    for size in ((6.4, 4.8), (4.5, 3.2)):
        ax = PICTURES[name](measured, virtual(limit=8), plot.blank(*size))
        ax.set_title("a title")
        ax.figure.draw_without_rendering()
        legend, inside = ax.get_legend().get_window_extent(), ax.get_window_extent()
        assert legend.y1 <= inside.y1 + 1
        assert legend.x1 <= inside.x1 + 8
        assert legend.y1 <= ax.title.get_window_extent().y0
        tops = [ax.transData.transform(path)[:, 1].max() for one in bars(ax) for path in (p.vertices for p in one.get_paths())]
        tops += [one.get_transform().transform(one.get_xydata())[:, 1].max() for one in ax.lines if len(one.get_xdata())]
        assert max(tops) <= legend.y0 + 1


@every_picture
def test_times_stay_seconds_so_that_more_can_be_drawn_over_them(name: str, measured: Table) -> None:
    ax = PICTURES[name](measured, virtual(limit=8), plot.blank())
    axis = ax.yaxis if name == "latency" else ax.xaxis
    if name != "throughput":
        assert "(ms)" in axis.get_label_text()
        assert axis.get_view_interval()[1] < 10
        assert axis.get_major_formatter()(0.05, 0) == "50"


def test_a_second_call_adds_to_the_same_axes_and_keeps_what_is_there_in_view() -> None:
    ax = plot.ecdf(virtual(limit=8, action=fw.delay(5.0)), ax=plot.blank())
    plot.ecdf(virtual(limit=4), ax=ax)
    assert len(labels(ax)) == 2
    assert ax.get_xlim()[1] > 5
    assert ax.lines[0].get_color() != ax.lines[1].get_color()
    ax = plot.throughput(table_of(synthetic({1: [10.0], 2: [1000.0]})), ax=plot.blank())
    plot.throughput(table_of(synthetic({4: [5.0]})), ax=ax)
    assert ax.get_xlim()[0] < 1 and ax.get_xlim()[1] > 4
    assert ax.get_ylim()[0] < 5 and ax.get_ylim()[1] > 1000


def test_series_differ_without_colour() -> None:
    for count in range(1, 37):
        styles = [plot._style(place, count) for place in range(count)]
        assert len({(one["marker"], one["linestyle"]) for one in styles}) == count
    greys = {}
    for state, (tones, hatch) in plot._STATE_LOOKS.items():
        red, green, blue = (int(tones[0][i : i + 2], 16) / 255 for i in (1, 3, 5))
        greys[state] = (0.299 * red + 0.587 * green + 0.114 * blue, hatch)
    assert set(greys) == set(fw.STATES) - {"not_started"}
    assert len({hatch for _, hatch in greys.values()}) == len(greys)
    ordered = sorted(grey for grey, _ in greys.values())
    assert min(b - a for a, b in pairwise(ordered)) > 0.15


@every_picture
def test_axes_of_another_kind_are_refused(name: str, measured: Table) -> None:
    with pytest.raises(TypeError, match="ax must be a matplotlib Axes, got ndarray"):
        PICTURES[name](measured, virtual(limit=8), np.zeros(2))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["throughput", "latency"])
def test_a_table_with_nothing_to_draw_is_refused_and_leaves_no_figure(name: str) -> None:
    draw = getattr(plot, name)
    warm = synthetic({1: [10.0], 2: [20.0]}, warmup=True)
    for table in (table_of(), table_of(warm)):
        with pytest.raises(ValueError, match="table must have a row with"):
            draw(table)
    with pytest.raises(ValueError, match=r"table must have a column .*, as a table of runs has \(not its summary\)"):
        draw(table_of(synthetic({1: [10.0]})).summary())
    with pytest.raises(TypeError, match="table must be a fanwidth Table or Recommendation, got list"):
        draw([{"limit": 1}])
    assert plt.get_fignums() == []


@pytest.mark.parametrize("name", ["in_flight", "timeline", "ecdf"])
def test_runs_with_nothing_to_draw_are_refused_and_leave_no_figure(name: str) -> None:
    draw = getattr(plot, name)
    for empty in ([], {}):
        with pytest.raises(ValueError, match="run must hold at least one Run"):
            draw(empty)
    with pytest.raises(ValueError, match="run must have an item"):
        draw(virtual(items=0, limit=8))
    for wrong in (7, "run", [virtual(limit=8), None], {"a": 3}, table_of()):
        with pytest.raises(TypeError, match="run must be a Run, a list of them, or a dict"):
            draw(wrong)
    assert plt.get_fignums() == []


@pytest.mark.parametrize("name", ["in_flight", "timeline"])
def test_samples_that_were_not_kept_are_told(name: str) -> None:
    with pytest.raises(ValueError, match='keep="summary"'):
        getattr(plot, name)(virtual(limit=8, keep="summary"))


# Throughput and latency


def test_points_are_medians_and_bars_the_spread_without_warm_up() -> None:
    rows = synthetic({1: [10, 12, 11], 4: [44, 40, 45]}) + synthetic({1: [1.0], 16: [1.0]}, warmup=True)
    ax = plot.throughput(table_of(rows), ax=plot.blank())
    (points,) = [one for one in ax.containers if isinstance(one, ErrorbarContainer)]
    data, _, (spread,) = points
    assert list(data.get_xdata()) == [1, 4]
    assert list(data.get_ydata()) == [11, 44]
    ends = [sorted(y for _, y in segment) for segment in spread.get_segments()]
    assert np.allclose(ends, [[10, 12], [40, 45]])
    assert ax.get_xscale() == "log"


def test_a_single_series_has_the_scalability_law_the_ideal_and_the_recommended_limit() -> None:
    ax = plot.throughput(table_of(synthetic(flat_from(8))), ax=plot.blank())
    assert [re.sub(r"[\d.]+", "#", label) for label in labels(ax)] == [
        "bounded",
        "scalability law, R² #",
        "ideal: proportional",
        "recommended limit",
    ]
    ideal = line(ax, "ideal: proportional")
    assert np.allclose(ideal.get_ydata(), 10 * np.array(ideal.get_xdata()), rtol=0.01)
    assert max(ideal.get_ydata()) < 1.5 * 80  # no further than it is in sight
    ring = line(ax, "recommended limit")
    assert list(ring.get_xdata()) == [8]
    assert [text.get_text() for text in ax.texts] == ["8"]


def test_the_limit_of_a_recommendation_is_marked_whatever_the_rule_would_say() -> None:
    table = table_of(synthetic(flat_from(8)))
    ax = plot.throughput(SimpleNamespace(table=table, limit=16), ax=plot.blank())
    assert list(line(ax, "recommended limit").get_xdata()) == [16]
    ax = plot.throughput(SimpleNamespace(table=table, limit=None), ax=plot.blank())
    assert labels(ax)[-1] == "no limit recommended"
    ax = plot.latency(SimpleNamespace(table=table, limit=16), ax=plot.blank())
    assert labels(ax)[-1] == "recommended limit"
    rings = [one for one in ax.lines if one.get_markersize() == 13]
    assert [(list(one.get_xdata()), list(one.get_ydata())) for one in rings] == [([16], [0.02]), ([16], [0.1])]


def test_a_recommendation_is_one_series_however_many_items_each_limit_was_measured_with() -> None:
    found = fw.recommend(fw.service(WAITS, capacity=12), limits=[1, 4, 8, 16, 32, 128], clock="virtual", seed=1, progress=False)
    rows = [{**row, "items": 20 * int(str(row["limit"]))} for row in found.table]  # as on the real clock
    table = Table.from_rows(rows, found.table.schema)
    ax = plot.throughput(SimpleNamespace(table=table, limit=found.limit), ax=plot.blank())
    assert labels(ax)[0] == "bounded"
    assert list(line(ax, "recommended limit").get_xdata()) == [found.limit]
    assert len(plot.latency(SimpleNamespace(table=table, limit=found.limit), ax=plot.blank()).containers) == 2


def test_a_recommendation_shows_the_throughput_that_it_rests_on() -> None:
    found = fw.recommend(fw.service(WAITS, capacity=12), limits=[1, 4, 8, 16, 32, 128], clock="virtual", seed=1, progress=False)
    point = next(point for point in found.evidence.points if point.limit == found.limit)
    shown = line(plot.throughput(found, ax=plot.blank()), "recommended limit")
    assert list(shown.get_ydata()) == [pytest.approx(point.throughput)]
    several = table_of(synthetic({1: [10.0], 2: [20.0]}), synthetic({1: [30.0], 2: [40.0]}, items=2000))
    assert labels(plot.throughput(several, ax=plot.blank()))[:2] == ["bounded, items 1,000", "bounded, items 2,000"]


@pytest.mark.parametrize(
    ("throughputs", "why"),
    [
        ({limit: [10.0 * limit] * 3 for limit in LIMITS}, "it still rises at the last limit"),
        ({limit: [100.0] for limit in LIMITS}, "too few limits or repeats"),
        ({limit: [0.0] * 3 for limit in LIMITS}, "items failed at every limit"),
    ],
)
def test_where_no_limit_can_be_recommended_the_legend_says_why(throughputs: dict[int | None, list[float]], why: str) -> None:
    ax = plot.throughput(table_of(synthetic(throughputs)), ax=plot.blank())
    assert f"no limit recommended: {why}" in labels(ax)


def test_what_was_set_beside_the_limit_makes_series_and_no_limit_a_line_across(measured: Table) -> None:
    for draw in (plot.throughput, plot.latency):
        ax = draw(measured, ax=plot.blank())
        assert [label for label in labels(ax) if label in ("bounded", "chunked", "when_all (no limit)")] == [
            "bounded",
            "chunked",
            "when_all (no limit)",
        ]
    (level,) = set(line(plot.throughput(measured, ax=plot.blank()), "when_all (no limit)").get_ydata())
    values = measured.filter(strategy="when_all")["throughput"]
    assert min(values) <= level <= max(values)
    rows = synthetic({1: [10.0], 2: [20.0]}, wait=0.1) + synthetic({1: [1.0], 2: [2.0]}, wait=2)
    ax = plot.throughput(table_of(rows[::-1], axes=("wait",)), ax=plot.blank())
    assert labels(ax)[:2] == ["bounded, wait 0.1", "bounded, wait 2"]
    assert sum(one.get_linestyle() == ":" for one in ax.lines) == 2  # slots differ, so the ideals do


def test_a_table_of_compare_and_one_read_back_are_drawn(measured: Table, tmp_path: Path) -> None:
    ax = plot.throughput(fw.compare(100, clock="virtual", progress=False), ax=plot.blank())
    assert set(labels(ax)) >= {"for_each", "bounded", "when_all (no limit)"}
    measured.to_json(tmp_path / "table.json")
    measured.to_csv(tmp_path / "table.csv")
    for suffix in ("json", "csv"):
        assert labels(plot.latency(fw.read_table(tmp_path / f"table.{suffix}"), ax=plot.blank()))[0] == "bounded"


def test_values_over_a_wide_range_are_drawn_on_a_logarithmic_axis_others_from_zero() -> None:
    ax = plot.throughput(table_of(synthetic({1: [10.0], 64: [640.0]})), ax=plot.blank())
    assert ax.get_yscale() == "log"
    for values in ({1: [10.0], 64: [20.0]}, {1: [0.0], 64: [640.0]}):
        ax = plot.throughput(table_of(synthetic(values)), ax=plot.blank())
        assert (ax.get_yscale(), ax.get_ylim()[0]) == ("linear", 0)


def test_one_limit_and_no_limit_at_all_have_readable_axes() -> None:
    ax = plot.throughput(table_of(synthetic({8: [10.0]})), ax=plot.blank())
    assert ax.get_xlim() == (4, 16)
    ax = plot.throughput(table_of(synthetic({None: [10.0]}, strategy="when_all")), ax=plot.blank())
    assert ax.get_xlabel() == "no limit"
    assert labels(ax) == ["when_all (no limit)"]


def test_latency_draws_both_percentiles_of_rows_that_have_them() -> None:
    rows = synthetic({1: [10.0, 11.0], 2: [20.0]}) + synthetic({4: [0.0]}, latency_p50=None, latency_p99=None)
    ax = plot.latency(table_of(rows), ax=plot.blank())
    assert labels(ax) == ["p99", "p50"]
    p99, p50 = (one[0] for one in ax.containers)
    assert list(p50.get_xdata()) == [1, 2]
    assert list(p50.get_ydata()) == [0.02, 0.02]
    assert list(p99.get_ydata()) == [0.1, 0.1]
    assert p99.get_markerfacecolor() == "none"


# In flight


def test_in_flight_is_the_run_step_by_step() -> None:
    run = virtual(limit=8)
    ax = plot.in_flight(run, ax=plot.blank())
    curve = line(ax, "bounded, limit 8")
    times, levels = np.array(curve.get_xdata()), np.array(curve.get_ydata())
    assert levels.max() == run.peak_in_flight == 8
    assert levels[-1] == 0
    assert times[-1] == pytest.approx(run.elapsed)
    assert set(line(ax, "limit").get_ydata()) == {8}
    assert curve.get_drawstyle() == "steps-post"
    assert labels(plot.in_flight([run, virtual("when_all")], ax=plot.blank())) == ["bounded, limit 8", "when_all"]


def test_of_many_items_bins_are_drawn() -> None:
    run = virtual("chunked", 50_000, limit=200)
    ax = plot.in_flight(run, ax=plot.blank())
    assert drawn_vertices(ax) < 3_000
    assert "least and most in a bin" in labels(ax)
    curve = line(ax, "chunked, limit 200")
    mean = np.average(np.array(curve.get_ydata())[:-1])
    assert mean == pytest.approx(run.latency.mean * run.counts.ok / run.elapsed, rel=1e-6)  # Little's law
    (band,) = ax.collections
    assert band.get_paths()[0].vertices[:, 1].max() == 200


spans = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), min_size=1, max_size=40)


@given(spans)
def test_the_level_curve_counts_what_is_running(items: list[tuple[int, int]]) -> None:
    start, finish = (np.array(column, float) for column in zip(*((a, a + d) for a, d in items), strict=True))
    times, levels = plot._level_curve(start, finish)
    assert list(times) == sorted(set(times)) and times[0] == 0
    for moment in range(45):
        level = levels[np.searchsorted(times, moment, side="right") - 1]
        assert level == sum(a <= moment < b for a, b in zip(start, finish, strict=True))


@given(spans.filter(lambda items: any(d for _, d in items)), st.integers(1, 12))
def test_bins_hold_the_least_the_mean_and_the_most(items: list[tuple[int, int]], count: int) -> None:
    start, finish = (np.array(column, float) for column in zip(*((a, a + d) for a, d in items), strict=True))
    times, levels = plot._level_curve(start, finish)
    edges, least, mean, most = plot._bins(times, levels, count)
    assert (len(edges), edges[0], edges[-1]) == (count + 1, 0, times[-1])
    assert (least[-1], mean[-1], most[-1]) == (0, 0, 0)
    for i, (low, high) in enumerate(pairwise(edges)):
        inner = [float(t) for t in times if low < t < high]
        cuts = [float(low), *inner, float(high)]
        held = [int(levels[np.searchsorted(times, cut, side="right") - 1]) for cut in cuts[:-1]]
        assert (least[i], most[i]) == (min(held), max(held))
        area = sum(level * (b - a) for level, a, b in zip(held, cuts[:-1], cuts[1:], strict=True))
        assert mean[i] == pytest.approx(area / (high - low), abs=1e-9)


# Timeline


@given(spans)
def test_a_slot_runs_one_item_at_a_time_and_there_are_no_more_slots_than_needed(items: list[tuple[int, int]]) -> None:
    rows = sorted((float(a), float(a + d)) for a, d in items)
    slots = plot._slots(rows)
    last: dict[int, float] = {}
    for (begin, end), slot in zip(rows, slots, strict=True):
        assert last.get(slot, 0.0) <= begin
        assert all(last.get(lower, 0.0) > begin for lower in range(slot))
        last[slot] = end


def test_timeline_draws_a_bar_for_every_item_in_its_slot() -> None:
    run = virtual(items=60, limit=8)
    ax = plot.timeline(run, ax=plot.blank())
    corners = [path.vertices for one in bars(ax) for path in one.get_paths()]
    assert len(corners) == 60
    spans_drawn = sorted((v[:, 0].min(), v[:, 0].max()) for v in corners)
    expected = sorted((o.start, o.finish) for o in run.outcomes)
    assert np.allclose(spans_drawn, expected)
    assert {round(v[:, 1].mean()) for v in corners} == set(range(1, 9))
    assert ax.yaxis_inverted()
    assert labels(ax) == ["ok", "idle"]
    assert [int(tick) for tick in ax.get_yticks()] == list(range(1, 9))


def test_of_many_items_the_first_are_drawn_and_it_says_so() -> None:
    run = virtual(items=10_000, limit=50)
    ax = plot.timeline(run, ax=plot.blank(), first=120)
    assert sum(len(one.get_paths()) for one in bars(ax)) == 120
    assert ax.get_xlabel().endswith("(ms); the first 120 of 10,000 items")
    with pytest.raises(ValueError, match="first must be at least 1, got 0"):
        plot.timeline(run, first=0)


def test_several_runs_share_the_time_axis() -> None:
    runs = [virtual(strategy, 64, **({"limit": 8} if strategy != "when_all" else {})) for strategy in ("for_each", "when_all")]
    ax = plot.timeline(runs, ax=plot.blank())
    ticks = [tick.get_text() for tick in ax.get_yticklabels()]
    assert [tick.splitlines()[:-1] for tick in ticks] == [["for_each", "limit 8"], ["when_all"]]
    assert all(re.fullmatch(r"[\d.]+ ms", tick.splitlines()[-1]) for tick in ticks)
    assert sum(len(one.get_paths()) for one in bars(ax)) == 128
    named = plot.timeline({"small": runs[0], "large": runs[1]}, ax=plot.blank())
    assert [tick.get_text().splitlines()[0] for tick in named.get_yticklabels()] == ["small", "large"]
    again = plot.timeline([runs[0], runs[0]], ax=plot.blank())
    assert again.get_yticklabels()[1].get_text().splitlines()[1] == "limit 8 (2)"


def test_items_that_did_not_end_ok_are_hatched_and_seen_even_when_they_took_no_time() -> None:
    stopped = virtual("for_each", 100, limit=8, total_timeout=0.2, errors="keep")
    assert stopped.counts.timed_out and stopped.counts.not_started
    ax = plot.timeline(stopped, ax=plot.blank())
    assert labels(ax) == ["ok", "timed out", "idle"]
    hatches = {one.get_hatch() for one in bars(ax)}
    assert hatches == {"", "xxxx"} or hatches == {None, "xxxx"}
    assert ax.get_xlabel().endswith(f"; {stopped.counts.not_started} not started")
    refused = virtual(items=40, limit=8, action=fw.service(WAITS, capacity=4, queue=2), errors="keep")
    assert refused.counts.failed
    ax = plot.timeline(refused, ax=plot.blank())
    crosses = [one for one in ax.lines if one.get_marker() == "x"]
    assert sum(len(one.get_xdata()) for one in crosses) == refused.counts.failed


def test_items_that_take_no_time_at_all_are_drawn_without_a_warning() -> None:
    for draw in (plot.timeline, plot.in_flight, plot.ecdf):
        ax = draw(virtual(items=20, limit=8, action=fw.noop()), ax=plot.blank())
        ax.figure.draw_without_rendering()


# ECDF


def test_ecdf_is_exact_for_few_items() -> None:
    run = virtual(items=200, limit=8)
    ax = plot.ecdf(run, ax=plot.blank())
    (curve,) = ax.lines
    took = sorted(o.finish - o.start for o in run.outcomes)
    assert np.allclose(curve.get_xdata()[1:], took)
    assert np.allclose(curve.get_ydata()[1:], np.arange(1, 201) / 200)
    assert curve.get_ydata()[0] == 0
    marked = [curve.get_ydata()[i] for i in curve.get_markevery()]
    assert marked == [0.5, 0.9, 0.99]
    assert re.fullmatch(r"bounded, limit 8: p50 [\d.]+ ms, p99 [\d.]+ ms", labels(ax)[0])


@pytest.mark.parametrize("keep", ["samples", "summary"])
def test_ecdf_of_many_items_draws_a_thousand_ranks_to_the_very_last(keep: str) -> None:
    run = virtual(items=30_000, limit=100, keep=keep)
    ax = plot.ecdf(run, ax=plot.blank())
    assert drawn_vertices(ax) <= 1_001
    assert max(ax.lines[0].get_xdata()) == pytest.approx(run.latency.max)
    assert max(ax.lines[0].get_ydata()) == 1


def test_ecdf_of_the_wait_and_of_nothing_else() -> None:
    run = virtual(items=100, limit=8)
    ax = plot.ecdf({"a": run, "b": virtual(items=100, limit=16)}, of="wait", ax=plot.blank())
    assert ax.get_xlabel() == "time until the start, at most (ms)"
    assert max(ax.lines[0].get_xdata()) == pytest.approx(run.wait.max)
    assert ax.get_xlim()[0] == 0
    with pytest.raises(ValueError, match='of must be "latency" or "wait", got \'elapsed\''):
        plot.ecdf(run, of="elapsed")


# Files


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_save_writes_the_figure_and_lets_go_of_it(suffix: str, measured: Table, tmp_path: Path) -> None:
    plot.save(plot.throughput(measured), tmp_path / f"a.{suffix}")
    assert plt.get_fignums() == []
    head = (tmp_path / f"a.{suffix}").read_bytes()[:5]
    assert head == {"png": b"\x89PNG\r", "svg": b"<?xml", "pdf": b"%PDF-"}[suffix]
    if suffix == "svg":
        ElementTree.parse(tmp_path / "a.svg")
    assert [path.name for path in tmp_path.iterdir()] == [f"a.{suffix}"]


def test_save_takes_axes_of_a_subfigure(tmp_path: Path) -> None:
    figure = plt.figure()
    ax = figure.subfigures(1, 2)[0].subplots()
    plot.save(plot.ecdf(virtual(limit=8), ax=ax), tmp_path / "a.png")
    assert plt.get_fignums() == []


def test_save_that_cannot_be_done_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.png"
    path.write_text("old")
    ax = plot.ecdf(virtual(limit=8), ax=plot.blank())
    for wrong in (tmp_path / "a.xyz", tmp_path / "a"):
        with pytest.raises(ValueError, match=r"path must end in one of .*\.png, .*got "):
            plot.save(ax, wrong)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        plot.save(ax, tmp_path / "none" / "a.png")
    with pytest.raises(TypeError, match="path must be a str or os.PathLike, got 3"):
        plot.save(ax, 3)  # type: ignore[arg-type]

    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        plot.save(ax, path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.png"]


_NO_DISPLAY = """
import os
for name in ("DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND"):
    os.environ.pop(name, None)
"""

_LOOP = """
import json
import fanwidth as fw
from fanwidth import plot
from fanwidth.table import Table, run_row, sweep_columns

import matplotlib.pyplot as plt
before = plt.get_backend()
runs = [fw.bounded(fw.delay(0.01), 50, limit=n, clock="virtual") for n in (1, 2, 4, 8)]
table = Table.from_rows([run_row(run, axes={}, repeat=0, warmup=False) for run in runs], sweep_columns())
for i in range(25):
    draw = (plot.throughput, plot.latency, plot.in_flight, plot.timeline, plot.ecdf)[i % 5]
    plot.save(draw(table if i % 5 < 2 else runs), f"{i}.png", dpi=50)
sizes = [os.path.getsize(f"{i}.png") for i in range(25)]
print(json.dumps({"least": min(sizes), "open": plt.get_fignums(), "same": before == plt.get_backend()}))
"""


def test_a_loop_of_plots_to_files_without_a_display_leaves_nothing_open(run_child: Any) -> None:  # S109
    done = run_child(_NO_DISPLAY + _LOOP, timeout=50)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["least"] > 0
    assert told["open"] == []
    assert told["same"]
    assert done.stderr == ""


def test_a_backend_that_cannot_work_here_does_not_matter_to_files(run_child: Any) -> None:  # S109
    code = """
os.environ["MPLBACKEND"] = "tkagg"
import sys
import fanwidth as fw
from fanwidth import plot
run = fw.bounded(fw.delay(0.01), 50, limit=4, clock="virtual")
for draw in (plot.in_flight, plot.timeline, plot.ecdf):
    plot.save(draw(run, ax=plot.blank()), "a.png")
assert "matplotlib.pyplot" not in sys.modules
"""
    done = run_child(_NO_DISPLAY + code, timeout=50)
    assert done.returncode == 0, done.stderr


def test_matplotlib_is_imported_when_a_plot_is_made_and_its_absence_is_told(run_child: Any) -> None:
    code = """
import sys
sys.modules["matplotlib"] = None
import fanwidth as fw
from fanwidth import plot
assert "numpy" not in sys.modules
run = fw.bounded(fw.delay(0.01), 5, limit=4, clock="virtual")
for draw in (plot.in_flight, plot.timeline, plot.ecdf, lambda run: plot.blank()):
    try:
        draw(run)
    except ImportError as error:
        assert 'pip install "fanwidth[plot]"' in str(error), error
        assert error.name == "matplotlib"
    else:
        raise AssertionError("no error")
"""
    done = run_child(code)
    assert done.returncode == 0, done.stderr


def test_nothing_is_shown(measured: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(plt, "show", lambda *args, **keywords: pytest.fail("plt.show was called"))
    backend = matplotlib.get_backend()
    for draw in PICTURES.values():
        plt.close(draw(measured, virtual(limit=8), None).figure)
    assert matplotlib.get_backend() == backend
    assert capsys.readouterr() == ("", "")
    assert "matplotlib.pyplot" in sys.modules


def test_the_pictures_of_the_readme_are_drawn_by_their_script(root: Path, tmp_path: Path, run_child: Any) -> None:
    script = root / "notebooks" / "figures" / "draw.py"
    code = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
    done = run_child(code, str(script), str(tmp_path), timeout=50)
    assert done.returncode == 0, done.stderr
    drawn = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert all(0 < size < 150_000 for size in drawn.values())
    shown = re.findall(r"notebooks/figures/([\w.-]+)", (root / "README.md").read_text(encoding="utf-8"))
    assert set(shown) - {"draw.py"} <= set(drawn)
