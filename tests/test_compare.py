"""fw.compare: exact on the virtual clock, one-sided on the real one; what its notes say must be true of its rows."""

import math
import re
import signal
import threading
import time
from typing import Any

import pytest

import fanwidth as fw
from fanwidth import experiment, published
from fanwidth.export import seconds
from fanwidth.table import COMPARE_COLUMNS, read_table


def row(table: Any, method: str, items: int | None = None) -> Any:
    found = [r for r in table if r["method"] == method and items in (None, r["items"])]
    assert len(found) == 1
    return found[0]


@pytest.fixture(scope="module")
def full() -> Any:
    """The published experiment at full size, simulated."""
    return fw.compare(clock="virtual", seed=1)


@pytest.fixture(scope="module")
def small() -> Any:
    """A measured comparison, small."""
    return fw.compare(60, delay=0.010, seed=1)


# Exact: the virtual clock


@pytest.mark.parametrize(
    ("method", "items", "expected", "figure", "ratio"),
    [
        ("for_each", 10_000, 62.5, 78.43, 1.25),
        ("for_each", 100_000, 625.0, 782.79, 1.25),
        ("when_all", 10_000, 0.05, 1.11, 22.20),
        ("when_all", 100_000, 0.05, 15.04, 300.80),
        ("bounded", 10_000, 10.0, 12.97, 1.30),
        ("bounded", 100_000, 100.0, 131.28, 1.31),
    ],
)
def test_exact_times_beside_the_published_figures(
    full: Any, method: str, items: int, expected: float, figure: float, ratio: float
) -> None:
    line = row(full, method, items)
    assert line["time"] == pytest.approx(expected, rel=1e-12)
    assert line["ideal"] == line["time"] and line["overhead"] == 0
    assert line["throughput"] == pytest.approx(items / expected)
    assert line["peak_in_flight"] == {"for_each": 8, "when_all": items, "bounded": 50}[method]
    assert line["limit"] == {"for_each": 8, "when_all": None, "bounded": 50}[method]
    assert line["clock"] == "virtual"
    assert line["published"] == figure
    assert line["note"] == f".NET took {ratio:.2f} x the ideal"
    assert 0 < line["engine_bytes_per_item"] < 40


@pytest.mark.parametrize(("strategy", "limit", "expected"), [("for_each", 8, 78.125), ("bounded", 50, 12.5)])
def test_timer_ticks_give_the_published_times(strategy: str, limit: int, expected: float) -> None:
    table = fw.compare(10_000, delay=0.0625, clock="virtual", for_each_limit=limit, bounded_limit=limit)
    assert row(table, strategy)["time"] == pytest.approx(expected, rel=1e-12)
    figure = published.published_time(strategy, 10_000)
    assert figure is not None and 1 < figure / expected < 1.04
    # The published times stand beside waits of 50 ms alone.
    assert set(table["published"]) == {None}


def test_the_columns_are_those_of_the_contract(full: Any) -> None:
    assert full.columns == tuple(column.name for column in COMPARE_COLUMNS)
    assert full.columns == (
        "method", "limit", "items", "clock", "time", "ideal", "overhead", "throughput", "peak_in_flight",
        "engine_bytes_per_item", "published", "note",
    )  # fmt: skip
    assert full.complete


def test_the_default_is_measured_first_and_then_at_full_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "REAL_ITEMS", 60)
    table = fw.compare()
    sizes = [(r["clock"], r["items"]) for r in table]
    assert sizes == [("real", 60)] * 3 + [("virtual", 10_000)] * 3 + [("virtual", 100_000)] * 3
    assert table["method"] == ("for_each", "when_all", "bounded") * 3
    assert "60 items were in flight" in table.notes[2]  # what was measured speaks, not what was simulated


@pytest.mark.parametrize("limit", [1, 7, 50, 2_000])
@pytest.mark.parametrize("delay", [0.05, 0.001, 3.0])
def test_one_limit_makes_the_methods_equal(limit: int, delay: float) -> None:
    table = fw.compare(1_000, delay=delay, clock="virtual", same_limit=limit, chunked=True)
    expected = math.ceil(1_000 / limit) * delay
    for method in ("for_each", "bounded", "chunked"):
        assert row(table, method)["time"] == pytest.approx(expected, rel=1e-9)
        assert row(table, method)["limit"] == limit


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"items": 10_000, "same_limit": 50}, {"when_all": 1.11, "bounded": 12.97}),
        ({"items": 10_000, "for_each_limit": 9}, {"when_all": 1.11, "bounded": 12.97}),
        ({"items": 10_000, "bounded_limit": 9}, {"when_all": 1.11, "for_each": 78.43}),
        ({"items": 10_001}, {}),
        ({"items": 10_000, "delay": 0.0501}, {}),
        ({"items": 10_000, "work": "cpu", "delay": 0.05}, {}),
    ],
)
def test_published_figures_stand_only_beside_the_published_work(given: Any, shown: dict[str, float]) -> None:
    table = fw.compare(clock="virtual", **given)
    assert {r["method"]: r["published"] for r in table if r["published"] is not None} == shown
    assert ("published" in table.meta) == bool(shown)
    assert sum(".NET" in r["note"] for r in table) == len(shown)


def test_several_sizes_and_chunked_keep_their_order() -> None:
    table = fw.compare([30, 10], clock="virtual", chunked=True)
    assert table["items"] == (30,) * 4 + (10,) * 4
    assert table["method"] == ("for_each", "when_all", "bounded", "chunked") * 2


def test_cpu_is_the_number_of_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment.machine, "cpus", lambda: 3)
    table = fw.compare(30, clock="virtual", for_each_limit="cpu", bounded_limit="cpu")
    assert table["limit"] == (3, None, 3)
    assert fw.compare(30, clock="virtual", same_limit="cpu")["limit"] == (3, None, 3)


# Real waits: never early, generous upper bounds


def test_real_waits_are_never_early(small: Any) -> None:
    for method, least in (("for_each", 0.08), ("when_all", 0.01), ("bounded", 0.02)):
        line = row(small, method)
        assert line["ideal"] == pytest.approx(least, rel=1e-9)
        assert least <= line["time"] < least + 3
        assert line["overhead"] == pytest.approx(line["time"] / line["ideal"] - 1) and line["overhead"] >= 0
        assert line["throughput"] == pytest.approx(60 / line["time"])
    assert small["peak_in_flight"] == (8, 60, 50)
    assert small["clock"] == ("real",) * 3


def test_repeats_show_the_median_round_and_the_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    times: dict[str, list[float]] = {"for_each": [], "when_all": [], "bounded": []}
    order, genuine = [], experiment._row

    def record(point: Any, plan: Any, run: Any) -> Any:
        times[point.strategy].append(run.elapsed)
        order.append(point.strategy)
        return genuine(point, plan, run)

    monkeypatch.setattr(experiment, "_row", record)
    table = fw.compare(10, delay=0.002, repeats=4)
    assert order == ["for_each", "when_all", "bounded"] * 4  # interleaved
    for method, measured in times.items():
        ordered = sorted(measured)
        assert row(table, method)["time"] == ordered[1]
        assert row(table, method)["note"] == f"rounds: {seconds(ordered[0])} to {seconds(ordered[-1])}"
    assert "median of 4 rounds" in table.title and table.meta["repeats"] == 4


def test_computing_has_its_own_columns_and_limits() -> None:
    table = fw.compare(40, work="cpu", delay=0.0005)
    assert table.columns[-4:] == ("latency_p99", "wait_p50", "published", "note")
    assert row(table, "for_each")["limit"] == experiment.machine.cpus()
    for line in table:
        assert line["time"] * experiment.machine.cpus() >= 40 * 0.0005 * 0.99
        assert line["latency_p99"] >= 0.0005
        assert line["wait_p50"] >= 0
    assert len(table.notes) == 3


def test_computing_on_the_virtual_clock_is_exact() -> None:
    cpus = experiment.machine.cpus()
    table = fw.compare(40 * cpus, work="cpu", clock="virtual")
    for line in table:
        assert line["time"] == pytest.approx(0.040)
    assert row(table, "for_each")["latency_p99"] == pytest.approx(0.001)
    assert row(table, "when_all")["latency_p99"] > 0.039
    assert "What a small limit buys is short service" in table.notes[1]


# Notes: true of the rows they stand under


def test_notes_are_three_and_contain_the_figures_of_the_table(small: Any) -> None:
    limit, ticks, none = small.notes
    each, every, bounded = small
    assert seconds(each["time"]) in limit and seconds(bounded["time"]) in limit
    assert "ceil(items / limit) x 10 ms" in limit
    overhead = max(each["overhead"], bounded["overhead"]) * 100
    within = float(re.search(r"within ([\d.,]+) %", limit)[1].replace(",", ""))  # type: ignore[index]
    assert within == pytest.approx(overhead, abs=0.06)
    assert "With limit 50 for_each takes 20.0 ms as well (simulated)" in limit
    assert seconds(every["time"]) in none and "60 items were in flight at once" in none
    # 10 ms end at the first tick of 15.625 ms; nothing was published of them.
    assert "10 ms become 15.625 ms" in ticks and "published" not in "".join(small.notes)


def test_notes_of_the_published_experiment(full: Any) -> None:
    limit, ticks, none = full.notes
    assert "for_each takes 625 s at 8 in flight and bounded 100 s at 50, which is ceil(items / limit) x 50 ms" in limit
    assert "With limit 50 for_each takes 100 s as well" in limit
    assert "50 ms become 62.5 ms there, 1.25 x" in ticks
    assert "78.125 s under for_each at 8 (published: 78.43 s)" in ticks
    assert "12.5 s under bounded at 50 (published: 12.97 s)" in ticks
    assert "100,000 items were in flight at once" in none
    assert "In .NET 100,000 such tasks took 15.04 s (published): 150 µs each beyond the wait" in none


@pytest.mark.parametrize("clock", ["real", "virtual"])
@pytest.mark.parametrize("work", ["delay", "cpu"])
@pytest.mark.parametrize("items", [1, 3, 8, 9, 50, 51])
@pytest.mark.parametrize("delay", [0, 1e-10, 1e-4])
def test_notes_hold_for_degenerate_comparisons(clock: Any, work: Any, items: int, delay: float) -> None:
    table = fw.compare(items, delay=delay, work=work, clock=clock, chunked=True)
    for text in (*table.notes, str(table), table.to_markdown(), table.to_json()):
        for word in ("nan", "inf ", "None", "–."):
            assert word not in re.sub("[Ii]nfo", "", text)
    notes = " ".join(table.notes)
    assert "published" not in notes
    if delay < 1e-9:
        assert "There is nothing to" in notes
        assert set(table["ideal"]) == set(table["overhead"]) == {None}
        assert "limit makes the time" not in notes and "become" not in notes
    elif work == "delay" and items <= 8:
        assert "A limit shows only with more items" in notes and "limit makes the time" not in notes
    elif work == "delay":
        assert "The limit makes the time" in notes


@pytest.mark.parametrize(
    ("delay", "said"),
    [
        (0.010, "10 ms become 15.625 ms there, 1.56 x: at best 20.3 s under for_each and 3.25 s under bounded"),
        (0.250, "250 ms are whole ticks and would take no longer there"),
        (1.0, "1 s are whole ticks"),
        (0.2, "200 ms become 203.125 ms there, 1.02 x"),
    ],
)
def test_notes_tell_the_ticks_of_other_waits(delay: float, said: str) -> None:
    notes = fw.compare(10_400, delay=delay, clock="virtual").notes
    assert said in notes[1]
    assert "published" not in " ".join(notes)


def test_notes_of_one_limit_compare_ideals() -> None:
    note = fw.compare(1_000, clock="virtual", same_limit=50).notes[0]
    assert "with one limit, 50" in note and "same ideal, 1.00 s" in note and "take 1.00 s and 1.00 s (1.00 x)" in note


def test_notes_show_what_chunks_cost_where_waits_vary() -> None:
    tables = [fw.compare(2_000, clock="virtual", chunked=True, seed=seed) for seed in (7, 7, 8)]
    said = [table.notes[3] for table in tables]
    assert said[0] == said[1] != said[2]  # drawn by the seed
    chunked, bounded, ratio = re.search(
        r"take ([\d.]+) s chunked and ([\d.]+) s bounded \(simulated\), ([\d.]+) x", said[0]
    ).groups()  # type: ignore[union-attr]
    draws = {"clock": "virtual", "seed": 7, "limit": 50}
    times = [fw.run(fw.delay(fw.exponential(0.05)), 2_000, strategy=s, **draws).elapsed for s in ("chunked", "bounded")]
    assert [float(chunked), float(bounded)] == pytest.approx(times, rel=0.005)
    assert float(ratio) == pytest.approx(times[0] / times[1], abs=0.005) and float(ratio) > 2


@pytest.mark.parametrize(("limit", "ideals"), [(1, 2), (None, 1)])
def test_notes_of_computing_tell_idle_cpus(limit: int | None, ideals: int) -> None:
    if experiment.machine.cpus() == 1:
        pytest.skip("with one CPU a limit of 1 leaves none idle")
    notes = fw.compare(40, work="cpu", delay=0.0005, for_each_limit=limit).notes
    assert ("under every method" in notes[0]) == (ideals == 1)


# Progress


def test_progress_callable_counts_all_real_runs_together() -> None:
    # PR-counts
    seen: list[fw.Progress] = []
    fw.compare([40, 20], delay=0.005, repeats=2, progress=seen.append)
    assert {p.total for p in seen} == {360}
    done = [p.done for p in seen]
    assert done == sorted(done) and done[-1] == 360
    assert {p.failed for p in seen} == {0}


def test_progress_of_simulated_runs_alone_counts_them() -> None:
    seen: list[fw.Progress] = []
    fw.compare(1_000, clock="virtual", progress=seen.append)
    assert (seen[-1].done, seen[-1].total) == (3_000, 3_000)


def test_progress_flag_draws_plain_lines_on_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    # S073, PR-plain-output
    fw.compare(50, delay=0.005, progress=True)
    out, err = capsys.readouterr()
    assert out == "" and "\r" not in err and "\x1b" not in err
    lines = err.splitlines()
    assert len(lines) <= 20 and "150/150 (100%)" in lines[-1]
    fw.compare(5, delay=0.001)
    assert capsys.readouterr() == ("", "")


def test_progress_that_raises_is_warned_of_once() -> None:
    def broken(progress: fw.Progress) -> None:
        raise RuntimeError("no display")

    with pytest.warns(RuntimeWarning, match="no display") as caught:
        table = fw.compare(20, delay=0.002, progress=broken)
    assert len(caught) == 1 and table.complete


# Interrupts


def test_interrupt_carries_the_table_of_what_was_done(tmp_path: Any) -> None:
    # S106, CL-partial; 20 waits of 100 ms at limit 2 take 1 s
    started = time.perf_counter()
    timer = threading.Timer(0.55, signal.pthread_kill, [threading.get_ident(), signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        fw.compare(20, delay=0.1, same_limit=2)
    assert time.perf_counter() - started < 5
    timer.join()
    table = caught.value.table  # type: ignore[attr-defined]
    assert not table.complete and len(table) == 1 and table.notes == ()
    line = table[0]
    assert line["method"] == "for_each" and line["ideal"] is None and line["overhead"] is None
    assert line["ok"] < 20 and line["time"] < 1 and line["note"] == f"stopped: {line['ok']} of 20 done"
    table.to_json(tmp_path / "r.json")
    assert read_table(tmp_path / "r.json") == table
    assert "Not complete: runs are missing." in str(table)


def test_interrupt_keeps_whole_rounds_before_broken_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine, calls = experiment.run_strategy, []

    def third_breaks(*args: Any, **options: Any) -> Any:
        run = genuine(*args, **options)
        calls.append(run)
        if len(calls) == 4:  # for_each in the second round
            stopped = KeyboardInterrupt()
            stopped.run = fw.bounded(fw.noop(), 1, limit=1)  # type: ignore[attr-defined]
            raise stopped
        return run

    monkeypatch.setattr(experiment, "run_strategy", third_breaks)
    with pytest.raises(KeyboardInterrupt) as caught:
        fw.compare(20, delay=0.001, repeats=3)
    table = caught.value.table  # type: ignore[attr-defined]
    assert len(table) == 3 and table["time"][0] == calls[0].elapsed and table["ok"] == (20, 20, 20)


def test_interrupt_before_anything_is_measured_gives_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "run_strategy", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        fw.compare(20)
    assert len(caught.value.table) == 0  # type: ignore[attr-defined]


# Seeds and records


def test_seed_is_recorded_and_drawn_anew(full: Any) -> None:
    assert full.meta["seed"] == 1
    drawn = {fw.compare(1, delay=0, clock="virtual").meta["seed"] for _ in range(3)}
    assert len(drawn) == 3 and all(0 <= seed < 2**53 for seed in drawn)  # every JSON reader keeps them exactly


def test_meta_tells_what_was_compared_and_where(small: Any) -> None:
    meta = small.meta
    assert (meta["kind"], meta["work"], meta["delay"], meta["repeats"]) == ("compare", "delay", 0.01, 1)
    assert {"fanwidth", "python", "libuv", "system", "cpus"} <= set(meta)


@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_read_table_gives_the_comparison_back(full: Any, small: Any, tmp_path: Any, suffix: str) -> None:
    for table in (full, small, fw.compare(10, work="cpu", clock="virtual")):
        path = tmp_path / f"t.{suffix}"
        getattr(table, f"to_{suffix}")(path)
        assert read_table(path) == table


# Bad use


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"items": 0}, ValueError, "items must be at least 1, got 0"),
        ({"items": [10, -1]}, ValueError, "items must be at least 1, got -1"),
        ({"items": []}, ValueError, "items must be a size or several"),
        ({"items": "10"}, TypeError, "items must be an int"),
        ({"items": True}, TypeError, "items must be an int"),
        ({"items": 1.5}, TypeError, "items must be an int"),
        ({"items": 2**63}, ValueError, "items must be below"),
        ({"delay": math.nan}, ValueError, "delay must be from 0 to 100 years"),
        ({"delay": math.inf}, ValueError, "delay must be from 0"),
        ({"delay": -1}, ValueError, "delay must be from 0"),
        ({"delay": "1"}, TypeError, "delay must be a number of seconds"),
        ({"work": "io"}, ValueError, 'work must be "delay" or "cpu"'),
        ({"clock": "wall"}, ValueError, 'clock must be "real" or "virtual"'),
        ({"for_each_limit": 0}, ValueError, 'for_each_limit must be at least 1, got 0 .or "cpu"'),
        ({"bounded_limit": "all"}, TypeError, "bounded_limit must be an int"),
        ({"same_limit": 0}, ValueError, "same_limit must be at least 1"),
        ({"same_limit": True}, TypeError, "same_limit must be an int"),
        ({"same_limit": 5, "for_each_limit": 8}, ValueError, "same_limit sets both limits"),
        ({"same_limit": 5, "bounded_limit": 5}, ValueError, "same_limit sets both limits"),
        ({"repeats": 0}, ValueError, "repeats must be at least 1"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        ({"seed": 2**63 - 1, "repeats": 2}, ValueError, "seed must be below"),
        ({"progress": 1}, TypeError, "progress must be True, False"),
    ],
)
def test_bad_arguments_are_told_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, given: Any, error: Any, message: str
) -> None:
    monkeypatch.setattr(experiment, "run_strategy", lambda *args, **options: pytest.fail("it ran"))
    with pytest.raises(error, match=message):
        fw.compare(**given)


def test_too_many_items_for_memory_are_told() -> None:
    with pytest.raises(MemoryError, match="no memory for 1,000,000,000,000,000 items under for_each"):
        fw.compare(10**15, clock="virtual")
