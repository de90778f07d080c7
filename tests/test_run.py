"""Run: every attribute and view, from the virtual clock where it matters, so that all numbers are known."""

import json
import math
import warnings
from array import array

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fanwidth as fw
from fanwidth import stats

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}


def virtual(items, limit=2, strategy="bounded", action=None, **options) -> fw.Run:
    options = {"limit": limit, **options} if strategy != "when_all" else options
    return fw.run(action or fw.delay(), items, strategy=strategy, clock="virtual", **options)


@pytest.fixture(scope="module")
def mixed() -> fw.Run:
    """ok, failed, ok, timed out, ok, cancelled by the failures, not started."""
    items = [0.2, "bad", 0.1, 9.0, 0.1, 0.35, 0.1, 0.1]
    return virtual(items, 2, item_timeout=0.5, max_failures=1, errors="keep")


# How it ended


def test_counts_and_states(mixed):
    assert mixed.counts == fw.Counts(ok=3, failed=1, timed_out=1, cancelled=1, not_started=2, total=8)
    assert mixed.counts._asdict()["total"] == 8
    assert mixed.ok is False and mixed.stopped_by == "failure"
    assert [outcome.state for outcome in mixed.outcomes] == "ok failed ok timed_out ok cancelled not_started not_started".split()
    assert set(fw.STATES) == set(fw.Counts._fields) - {"total"}


def test_elapsed_throughput_and_peak(mixed):
    assert mixed.elapsed == pytest.approx(0.6) and mixed.peak_in_flight == 2
    assert mixed.throughput == pytest.approx(3 / 0.6)
    assert mixed.engine_bytes >= 8 * 17


def test_a_run_is_immutable(mixed):
    for name in ("limit", "counts", "latency", "results", "anything"):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(mixed, name, 1)
        with pytest.raises(AttributeError, match="immutable"):
            delattr(mixed, name)
    with pytest.raises(AttributeError):
        mixed.outcomes[0].state = "ok"
    with pytest.raises(AttributeError):
        mixed.counts.ok = 1
    with pytest.raises(AttributeError, match="immutable"):
        mixed.latency.n = 9
    for sequence in (mixed.results, mixed.outcomes, mixed.errors):
        for change in ("append", "__setitem__", "clear", "sort"):
            assert not hasattr(sequence, change)


# Items, results, outcomes, errors


def test_outcomes_tell_all_of_an_item(mixed):
    first, bad, _, late, *_, last = mixed.outcomes
    assert first == fw.Outcome(0, 0.2, "ok", 0, None, 0.0, 0.2) and first.get() == 0
    assert (bad.item, bad.result, bad.start, bad.finish) == ("bad", None, 0.0, 0.0)
    assert type(bad.exception) is TypeError
    with pytest.raises(TypeError):
        bad.get()
    assert late.item == 9.0 and late.finish - late.start == pytest.approx(0.5)
    with pytest.raises(TimeoutError, match="item 3 took longer than its item_timeout of 0.5 s"):
        late.get()
    assert (last.start, last.finish, last.exception, last.result) == (None, None, None, None)
    with pytest.raises(LookupError, match="item 7 has no result: it was not started"):
        last.get()


def test_results_are_the_indices_of_ok_items(mixed):
    assert mixed.results == [0, None, 2, None, 4, None, None, None]
    assert mixed.results != [0] and mixed.results != "x" and mixed.results != 3
    assert mixed.results == mixed.results and mixed.results == tuple(mixed.results)
    with pytest.raises(TypeError):
        hash(mixed.results)


def test_errors_are_the_failed_and_the_timed_out(mixed):
    assert [(error.index, error.state) for error in mixed.errors] == [(1, "failed"), (3, "timed_out")]
    assert mixed.errors[0] == mixed.outcomes[1] and mixed.errors[-1].index == 3
    assert mixed.errors == [mixed.outcomes[1], mixed.outcomes[3]] or mixed.errors[1].exception is not mixed.outcomes[3].exception


def test_views_are_lazy_sequences():
    run = virtual(10**6, 1000, action=fw.delay(0.1), keep="all")
    assert (len(run.results), len(run.outcomes), len(run.errors)) == (10**6, 10**6, 0)
    assert run.results[-1] == 999_999 and run.results[np.int64(7)] == 7
    assert run.results[3:9:2] == [3, 5, 7] and run.results[::-1][:2] == [999_999, 999_998]
    assert run.outcomes[123].index == 123 and [outcome.index for outcome in run.outcomes[5:7]] == [5, 6]
    assert 5 in run.results and run.results.index(7) == 7 and next(reversed(run.results)) == 999_999
    for outside in (10**6, -(10**6) - 1):
        with pytest.raises(IndexError):
            run.results[outside]
    assert len(repr(run.results)) < 200 and "1,000,000" in repr(run.results)
    assert run.engine_bytes / 10**6 < 20


@pytest.mark.parametrize("items", [[0.1, 0.2], (0.1, 0.2), range(2), 2])
def test_items_are_told_where_that_costs_nothing(items):
    run = virtual(items, action=fw.delay(0.1))
    assert [outcome.item for outcome in run.outcomes] == list(range(2) if items == 2 else items)


# Samples


def test_samples_are_typed_read_only_and_shared():
    run = virtual([0.1, 0.2, 0.3], 1, total_timeout=0.25, errors="keep")
    start, finish, state = run.samples
    assert (start.format, finish.format, state.format) == ("q", "q", "b")
    assert run.samples._fields == ("start_ns", "finish_ns", "state")
    assert list(start) == [0, 100_000_000, -1] and list(finish) == [100_000_000, 250_000_000, -1] and list(state) == [0, 2, 4]
    for column, kind in zip(run.samples, (np.int64, np.int64, np.int8), strict=True):
        assert column.readonly and column.shape == (3,)
        one, two = np.asarray(column), np.asarray(column)
        assert one.dtype == kind and np.shares_memory(one, two) and not one.flags.writeable
        with pytest.raises(TypeError):
            column[0] = 1
        with pytest.raises(ValueError):
            one[0] = 1


def test_views_of_samples_are_the_callers_own():
    run = virtual(3, action=fw.delay(0.1))
    for column in run.samples:
        with column:
            pass
        with pytest.raises(ValueError):
            column.tolist()
    assert run.samples.state.tolist() == [0, 0, 0] and run.latency.n == 3 and run.outcomes[2].finish == 0.2


def test_samples_outlive_their_run():
    run = virtual(1000, 10, action=fw.delay(0.1))
    finish = np.asarray(run.samples.finish_ns)
    expected = finish.copy()
    del run
    others = [virtual(1000, 10, action=fw.delay(0.7)) for _ in range(5)]
    assert (finish == expected).all() and len(others) == 5


# keep


def test_what_was_not_kept_names_keep():
    summary, samples = (virtual([0.1, 0.2], keep=keep) for keep in ("summary", "samples"))
    for name in ("results", "outcomes", "errors", "samples"):
        with pytest.raises(ValueError, match='keep="summary"'):
            getattr(summary, name)
    with pytest.raises(ValueError, match='keep="samples".*use keep="all"'):
        samples.results  # noqa: B018
    assert samples.outcomes[1].result is None and samples.outcomes[1].state == "ok"
    for call in (summary.to_pandas, summary.to_polars, summary.to_records):
        with pytest.raises(ValueError, match="keep="):
            call()
    assert summary.to_dict()["errors"] == [] and str(summary) and summary._repr_html_()


@pytest.mark.parametrize("strategy", ["for_each", "when_all", "bounded", "chunked"])
@pytest.mark.parametrize("action", [fw.delay(fw.lognormal(0.1, 0.9)), fw.service(fw.exponential(0.1), 3), fw.noop(), fw.cpu(0.1)])
def test_a_summary_agrees_with_the_samples(strategy, action):
    runs = [virtual(3000, 7, strategy, action, seed=5, keep=keep) for keep in ("samples", "summary")]
    assert runs[0].counts == runs[1].counts and runs[0].elapsed == runs[1].elapsed and runs[0].ideal == runs[1].ideal
    for exact, kept in zip((runs[0].latency, runs[0].wait), (runs[1].latency, runs[1].wait), strict=True):
        assert (exact.n, exact.min, exact.max) == (kept.n, kept.min, kept.max)
        assert kept.mean == pytest.approx(exact.mean, rel=1e-9) and kept.std == pytest.approx(exact.std, rel=1e-6, abs=1e-12)
        for q in (0, 0.01, 0.25, *QUANTILES.values(), 1):
            assert kept.quantile(q) == pytest.approx(exact.quantile(q), rel=0.01, abs=1e-9)
            assert kept.min <= kept.quantile(q) <= kept.max
    assert runs[1].engine_bytes < 300_000


def test_a_summary_needs_constant_memory():
    small, large = (virtual(n, 10, action=fw.delay(fw.exponential(0.1)), keep="summary") for n in (1_000, 200_000))
    assert large.engine_bytes <= 1.1 * small.engine_bytes  # a ring or a heap may once have been a step longer


# ideal, overhead, throughput


@pytest.mark.parametrize("strategy", ["for_each", "when_all", "bounded", "chunked"])
@pytest.mark.parametrize("keep", ["all", "summary"])
def test_ideal_is_the_makespan_of_the_drawn_times(strategy, keep):
    action = fw.delay(fw.uniform(0.001, 0.003))
    options = {} if strategy == "when_all" else {"limit": 4}
    real = fw.run(action, 30, strategy=strategy, seed=3, keep=keep, **options)
    simulated = fw.run(action, 30, strategy=strategy, seed=3, keep=keep, clock="virtual", **options)
    assert real.ideal == simulated.elapsed == simulated.ideal
    assert real.elapsed >= real.ideal and real.overhead == pytest.approx(real.elapsed / real.ideal - 1)
    assert simulated.overhead == 0


def test_ideal_of_items_that_are_their_own_times():
    run = fw.bounded(fw.delay(), [0.004, 0.002, 0.001], limit=2)
    assert run.ideal == pytest.approx(0.004, abs=1e-12)


def test_ideal_of_measured_times():
    import time

    run = fw.bounded(lambda seconds: time.sleep(seconds), [0.03, 0.01, 0.01], limit=2)
    took = [(finish - start) / 1e9 for start, finish in zip(*run.samples[:2], strict=True)]
    assert run.ideal == pytest.approx(max(took[0], took[1] + took[2]), abs=1e-9)


def cancelled_run():
    token = fw.CancelToken()
    token.cancel()
    with pytest.raises(fw.RunCancelled) as caught:
        fw.bounded(fw.delay(1), 3, limit=1, cancel=token)
    return caught.value.run


NO_IDEAL = {
    "empty": lambda: virtual(0, action=fw.delay(1)),
    "zero": lambda: virtual(3, action=fw.delay(0)),
    "cancelled": cancelled_run,
    "not started": lambda: virtual([0.1, 0.2, 0.3], 1, total_timeout=0.25, errors="keep"),
    "out of time, all started": lambda: fw.when_all(fw.delay(3600), 3, total_timeout=0.01, errors="keep"),
    "out of virtual time, all started": lambda: virtual(
        3, strategy="when_all", action=fw.delay(9), total_timeout=1, errors="keep"
    ),
}


@pytest.mark.parametrize("how", NO_IDEAL)
def test_there_is_no_ideal_of_what_did_not_run_to_its_end(how):
    run = NO_IDEAL[how]()
    assert run.ideal is None and run.overhead is None
    json.dumps(run.to_dict(), allow_nan=False)


def test_degenerate_rates():  # S064
    none, failed, zero = virtual(0, action=fw.noop()), virtual(["x"] * 3, errors="keep"), virtual([0, 0, 0])
    assert none.throughput == failed.throughput == 0
    assert zero.throughput is None and zero.elapsed == 0
    for run in (none, failed, zero):
        text = json.dumps(run.to_dict(), allow_nan=False) + str(run) + repr(run) + run._repr_html_()
        assert "nan" not in text.replace("nanosecond", "") and "inf" not in text.lower()


# replay


def test_replay_runs_the_same_times_under_another_rule():
    run = fw.bounded(fw.delay(fw.exponential(0.002)), 40, limit=5, seed=9)
    for strategy in ("for_each", "when_all", "bounded", "chunked"):
        options = {} if strategy == "when_all" else {"limit": 3}
        replayed = run.replay(strategy=strategy, **options)
        expected = fw.run(fw.delay(fw.exponential(0.002)), 40, strategy=strategy, seed=9, clock="virtual", **options)
        assert replayed.elapsed == expected.elapsed and list(replayed.samples.start_ns) == list(expected.samples.start_ns)
        assert replayed.strategy == strategy and "do not depend on the limit" in replayed.meta["assumes"]
    assert run.replay().elapsed == run.ideal
    assert run.replay(limit=40).elapsed == run.replay(strategy="when_all").elapsed


def test_replay_of_measured_times_and_of_a_replay():
    run = fw.bounded(lambda item: None, 20, limit=4)
    took = [finish - start for start, finish in zip(*run.samples[:2], strict=True)]
    again = run.replay(strategy="when_all")
    assert again.elapsed == pytest.approx(max(took) / 1e9, abs=1e-12) and again.ok
    assert again.replay(strategy="bounded", limit=1).elapsed == pytest.approx(sum(took) / 1e9, abs=1e-9)


def test_replay_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="2 of 3 were cut short or not started"):
        virtual([0.1, 0.2, 0.3], 1, total_timeout=0.25, errors="keep").replay(limit=2)
    with pytest.raises(ValueError, match='keep="summary"'):
        virtual([0.1, 0.2], keep="summary").replay(limit=2)
    run = virtual([0.1, 0.2])
    with pytest.raises(ValueError, match="limit must be at least 1"):
        run.replay(limit=0)
    with pytest.raises(ValueError, match="strategy must be"):
        run.replay(strategy="gather")
    with pytest.raises(TypeError, match="when_all takes no limit"):
        run.replay(strategy="when_all", limit=3)


# latency, wait


def test_latency_and_wait_are_of_ok_items_only(mixed):  # S066, S067
    assert mixed.latency.n == mixed.wait.n == 3
    assert mixed.latency.max == pytest.approx(0.2) and mixed.latency.min == pytest.approx(0.1)
    samples = mixed.samples
    waits = [start for start, state in zip(samples.start_ns, samples.state, strict=True) if state == 0]
    assert mixed.wait.max == pytest.approx(max(waits) / 1e9)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 10**10), min_size=1, max_size=300))
def test_summaries_agree_with_numpy(times):  # S062
    run = virtual([time / 1e9 for time in times], strategy="when_all")
    summary, values = run.latency, np.array(times) / 1e9
    assert summary.n == len(times)
    assert summary.mean == pytest.approx(values.mean(), rel=1e-12, abs=1e-12)
    assert (summary.min, summary.max) == (pytest.approx(values.min()), pytest.approx(values.max()))
    assert summary.std is None if len(times) == 1 else summary.std == pytest.approx(values.std(ddof=1), rel=1e-9, abs=1e-9)
    for name, q in QUANTILES.items():
        assert (
            getattr(summary, name) == summary.quantile(q) == pytest.approx(np.percentile(values, q * 100), rel=1e-12, abs=1e-12)
        )
    ordered = [summary.min, *(getattr(summary, name) for name in QUANTILES), summary.max]
    assert ordered == sorted(ordered)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=300))
def test_a_histogram_is_close_and_within_the_extremes(times):
    run = virtual([time / 1e9 for time in times], strategy="when_all", keep="summary")
    values = np.array(times) / 1e9
    assert run.latency.mean == pytest.approx(values.mean(), rel=1e-9, abs=1e-9)
    for q in (0, *QUANTILES.values(), 1):
        got, place = run.latency.quantile(q), q * (len(times) - 1)
        low, high = np.sort(values)[[math.floor(place), math.ceil(place)]]
        assert low * 0.99 - 1e-9 <= got <= high * 1.01 + 1e-9 and values.min() <= got <= values.max()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], {"n": 0, "mean": None, "std": None, "min": None, "p50": None, "p99_9": None, "max": None}),
        ([5.0], {"n": 1, "mean": 5, "std": None, "min": 5, "p50": 5, "p99_9": 5, "max": 5}),
        ([5.0, 5.0], {"n": 2, "mean": 5, "std": 0, "p50": 5, "p99": 5}),
        ([1000, 3000], {"p50": 2000, "min": 1000, "max": 3000}),
        ([10, 20, 30, 40, 50, 60, 70, 80], {"p50": 45, "p90": 73, "p95": 76.5, "p99": 79.3}),
        ([1] * 99 + [1000], {"n": 100, "p99": 10.99, "p50": 1, "max": 1000}),
    ],
    ids=["none", "one", "equal", "two", "eight", "merged"],
)
@pytest.mark.parametrize("way", ["values", "run"])
def test_few_and_equal_samples(values, expected, way):  # S061, S062, S063, S068
    summary = stats.of_values(values) if way == "values" else virtual(values, strategy="when_all").latency
    for name, value in expected.items():
        got = getattr(summary, name)
        assert got == value if value is None else got == pytest.approx(value, rel=1e-9)
    json.dumps(summary.to_dict(), allow_nan=False)
    assert "nan" not in repr(summary)


@pytest.mark.parametrize("q", [-0.1, 1.1, float("nan"), "0.5", True, None])
def test_a_quantile_outside_its_domain(q):
    with pytest.raises(ValueError, match="q must be from 0 to 1"):
        stats.of_values([1.0]).quantile(q)


def test_times_of_the_requester():  # S066
    """One worker, one stalled item: the service times hide what the waits show."""
    run = virtual([0.2] + [0.001] * 29, 1)
    assert run.latency.p50 == pytest.approx(0.001) and run.latency.max == pytest.approx(0.2)
    assert run.wait.p50 > 0.2 and run.wait.min == 0


# meta, to_dict, texts


def test_meta_tells_of_machine_versions_and_arguments(mixed):
    meta = mixed.meta
    for name in (
        "fanwidth",
        "python",
        "libuv",
        "system",
        "machine",
        "cpus",
        "clock_source",
        "driver",
        "seed",
        "action",
        "strategy",
    ):
        assert meta[name] not in (None, "")
    assert meta["arguments"] == {
        "limit": 2,
        "max_failures": 1,
        "errors": "keep",
        "item_timeout": 0.5,
        "total_timeout": None,
        "keep": "all",
        "clock": "virtual",
    }
    assert fw.bounded(fw.delay(0), 1, limit=1).meta["clock_source"] in ("timerfd", "uv_timer_t")


def test_to_dict_is_strict_json(mixed):  # S107
    token = object()
    odd = virtual([0.1, token, float("nan"), b"\xff", 10**400], errors="keep")
    for run in (mixed, odd, virtual(0, action=fw.noop()), cancelled_run(), virtual([0.1], keep="summary")):
        text = json.dumps(run.to_dict(), allow_nan=False)
        back = json.loads(text)
        assert back["counts"]["total"] == run.counts.total and back["strategy"] == run.strategy
        assert list(back["latency"]) == ["n", "mean", "std", "min", *QUANTILES, "max"]
    assert len(odd.to_dict()["errors"]) == 4


def test_to_dict_cannot_reach_back_into_the_run(mixed):
    told = mixed.to_dict()
    told["counts"].clear()
    told["errors"].clear()
    told["meta"]["arguments"].clear()
    told["meta"].clear()
    mixed.meta["arguments"].clear()
    mixed.meta.clear()
    told["latency"].clear()
    assert mixed.counts.total == 8 and mixed.meta["strategy"] == "bounded" and mixed.to_dict()["errors"]
    assert mixed.meta["arguments"]["limit"] == 2


def test_texts_tell_the_essentials(mixed):
    assert repr(mixed).startswith("<Run: bounded, limit 2; 8 items: 3 ok, 1 failed, 1 timed out, 1 cancelled, 2 not started;")
    assert "stopped by failure" in repr(mixed)
    text = str(mixed)
    assert "item 1 ('bad')" in text and "item 3 (9.0)" in text and "simulated" in text


def test_html_is_escaped():
    class Evil:
        def __repr__(self):
            return "<script>alert('x')</script>"

    run = virtual([Evil(), "<b>&\"'"], errors="keep")
    html = run._repr_html_()
    assert "<script>" not in html and "<b>&" not in html and "&lt;script&gt;" in html

    def action(item):
        raise ValueError("<img src=x>")

    action.__qualname__ = "<i>name</i>"
    html = fw.bounded(action, 1, limit=1, errors="keep")._repr_html_()
    assert "<img" not in html and "<i>" not in html and html.count("<div") == html.count("</div>")


def test_a_repr_that_raises_spoils_nothing():
    class Broken:
        def __repr__(self):
            raise RuntimeError("no")

    run = virtual([Broken()], errors="keep")
    for text in (str(run), repr(run), run._repr_html_(), json.dumps(run.to_dict())):
        assert text
    with pytest.raises(fw.RunFailed, match="its repr raised"):
        virtual([Broken()])


# One row per item


@pytest.fixture(scope="module")
def rows() -> fw.Run:  # S108
    def action(item):
        if item == 20:
            raise ValueError("x")
        return item * 10

    return fw.bounded(action, [10, 20, 30], limit=1, errors="keep", max_failures=None)


def test_to_pandas_keeps_ints(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = rows.to_pandas()
    assert list(frame.columns) == ["index", "item", "state", "result", "error", "wait", "latency", "start", "finish"]
    assert str(frame["result"].dtype) == "Int64" and frame["index"].dtype == np.int64
    assert frame["result"].tolist()[0] == 100 and frame["result"].isna().tolist() == [False, True, False]
    assert frame["result"].to_csv(index=False, header=False).split("\n")[:3] == ["100", '""', "300"]
    assert frame["item"].tolist() == [10, 20, 30] and frame["error"].tolist()[1] == "ValueError('x')"
    assert frame["latency"].dtype == float and (frame["finish"] >= frame["start"]).all()


def test_to_polars_keeps_ints(rows):
    frame = rows.to_polars()
    assert frame.schema["result"] == pl.Int64 and frame["result"].to_list() == [100, None, 300]
    assert frame.schema["wait"] == pl.Float64 and frame["state"].to_list() == ["ok", "failed", "ok"]


@pytest.mark.parametrize(
    "results",
    [
        [1, None, "x"],
        [{"a": 1}, [2], None],
        [2**70, 1, None],
        [True, False, None],
        [1.5, 2, None],
        [object(), None, 1],
        [None] * 3,
    ],
    ids=str,
)
def test_frames_of_results_of_every_kind(results):
    run = fw.bounded(lambda i: results[i], 3, limit=1)
    assert len(run.to_pandas()) == len(run.to_polars()) == len(run.to_records()) == 3
    assert [record["result"] for record in run.to_records()] == results


def test_frames_of_empty_and_unstarted_runs():
    for run in (virtual(0, action=fw.noop()), cancelled_run()):
        assert len(run.to_pandas()) == len(run.to_polars()) == run.counts.total
    frame = cancelled_run().to_pandas()
    assert frame["start"].isna().all() and set(frame["state"]) == {"not_started"}
    assert isinstance(frame, pd.DataFrame)


# limited_by


def test_what_bound_a_native_run():
    assert virtual(100, 8, action=fw.delay(1)).limited_by == "limit"
    assert virtual(5, 8, action=fw.delay(1)).limited_by == "items"
    assert virtual(5, strategy="when_all", action=fw.delay(1)).limited_by == "items"
    run = virtual(100, 50, action=fw.cpu(1))
    assert run.limited_by == "cpus" and run.limit == 50


def test_a_slow_source_is_what_bound_the_run():
    import time

    def slow():
        for _ in range(8):
            time.sleep(0.01)
            yield 0.001

    run = fw.bounded(fw.delay(), slow(), limit=4)
    assert run.limited_by == "source" and run.effective_limit == 4


def test_values_of_an_array_are_items():
    run = virtual(array("d", [0.1, 0.2]), 1)
    assert run.elapsed == pytest.approx(0.3)
