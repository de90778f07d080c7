"""Pickles: runs, actions, distributions and exceptions come back as they were; what cannot is named; no traceback travels."""

import copy
import copyreg
import gc
import json
import pickle
import subprocess
import sys
import threading
import time
import types
import weakref

import numpy as np
import pytest

import fanwidth as fw

PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)
STRATEGIES = ("for_each", "when_all", "bounded", "chunked")


@pytest.fixture(autouse=True)
def pickle_as_it_comes(monkeypatch):
    """distributed teaches pickle to take tracebacks along (tblib), in the whole process: that is not what is tested here."""
    for kind, how in list(copyreg.dispatch_table.items()):
        if how.__module__.startswith("tblib"):
            monkeypatch.delitem(copyreg.dispatch_table, kind)


def there_and_back(value, protocol=pickle.HIGHEST_PROTOCOL):
    return pickle.loads(pickle.dumps(value, protocol=protocol))


class Two(Exception):
    """Goes into a pickle and does not come out: its constructor wants more than its args have."""

    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")


class Holder(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


def square(x):
    return x * x


def failing(x):
    if x % 3 == 1:
        raise ValueError(f"item {x}")
    return x * x


def with_odd_errors(x):
    raise [Two(1, 2), Holder("held"), ValueError("plain")][x]


def with_odd_results(x):
    return [threading.Lock(), x, lambda: x][x]


def raised(call) -> BaseException:
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def cancelled_run():
    token = fw.CancelToken()
    token.cancel()
    return raised(lambda: fw.bounded(fw.delay(1), 3, limit=1, cancel=token)).run


RUNS = {
    "virtual": lambda: fw.bounded(fw.delay(fw.exponential(0.1)), 500, limit=7, clock="virtual", seed=3),
    "real": lambda: fw.for_each(fw.delay(0.001), 10, limit=3),
    "own times": lambda: fw.chunked(fw.delay(), [0.1, 0.3, 0.2], limit=2, clock="virtual"),
    "pulled": lambda: fw.bounded(fw.delay(), iter([0.1, 0.3, 0.2]), limit=2, clock="virtual"),
    "at once": lambda: fw.when_all(fw.delay(), [0.1, 0.3, 0.2], clock="virtual"),
    "empty": lambda: fw.bounded(fw.noop(), 0, limit=1),
    "samples": lambda: fw.bounded(fw.delay(0.1), 20, limit=3, keep="samples", clock="virtual"),
    "summary": lambda: fw.bounded(fw.delay(fw.uniform(0, 1)), 500, limit=3, keep="summary", clock="virtual", seed=1),
    "service": lambda: fw.when_all(fw.service(0.1, 2, 3), 9, clock="virtual", errors="keep"),
    "failed": lambda: fw.bounded(fw.delay(), [0.1, "bad", 0.2], limit=2, errors="keep", clock="virtual"),
    "timed out": lambda: fw.bounded(fw.delay(1), 3, limit=2, item_timeout=0.5, errors="keep", clock="virtual"),
    "cancelled": cancelled_run,
    "a callable": lambda: fw.bounded(square, [1, 2, 3], limit=2),
    "a failing callable": lambda: fw.bounded(failing, range(9), limit=2, errors="keep"),
    "a lambda": lambda: fw.bounded(lambda x: x + 1, range(3), limit=1),
    "a replay": lambda: fw.bounded(fw.delay(0.001), 5, limit=2).replay(limit=1),
}
PLAIN = (
    "strategy",
    "limit",
    "effective_limit",
    "limited_by",
    "counts",
    "ok",
    "stopped_by",
    "elapsed",
    "throughput",
    "peak_in_flight",
)
PLAIN += ("engine_bytes", "ideal", "overhead", "meta", "latency", "wait")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", RUNS)
def test_a_run_comes_back_as_it_was(kind, protocol):
    run = RUNS[kind]()
    back = there_and_back(run, protocol)
    for name in PLAIN:
        assert getattr(back, name) == getattr(run, name), name
    assert json.dumps(back.to_dict()) == json.dumps(run.to_dict())
    assert str(back) == str(run) and repr(back) == repr(run) and back._repr_html_() == run._repr_html_()
    if kind != "summary":
        assert [column.tolist() for column in back.samples] == [column.tolist() for column in run.samples]
        assert [column.format for column in back.samples] == ["q", "q", "b"] and all(column.readonly for column in back.samples)
        assert [error.index for error in back.errors] == [error.index for error in run.errors]
        assert [(type(e.exception), str(e.exception), e.item) for e in back.errors] == [
            (type(e.exception), str(e.exception), e.item) for e in run.errors
        ]
    if kind not in ("summary", "samples"):
        assert back.results == run.results and len(back.outcomes) == len(run.outcomes)
    with pytest.raises(AttributeError, match="immutable"):
        back.limit = 3
    again = there_and_back(back, protocol)
    assert json.dumps(again.to_dict()) == json.dumps(run.to_dict())


@pytest.mark.parametrize("kind", ["virtual", "own times", "pulled", "at once", "service", "a callable", "a replay"])
def test_a_run_that_came_back_can_be_replayed(kind):
    run = RUNS[kind]()
    back = there_and_back(run)
    assert back.replay(strategy="bounded", limit=1).elapsed == run.replay(strategy="bounded", limit=1).elapsed


def test_runs_can_be_copied():
    run = RUNS["failed"]()
    for other in (copy.copy(run), copy.deepcopy(run)):
        assert other.counts == run.counts and other.results == run.results


def test_samples_go_out_of_band():
    run = fw.bounded(fw.delay(0.1), 100_000, limit=50, clock="virtual", keep="samples")
    buffers = []
    data = pickle.dumps(run, protocol=5, buffer_callback=buffers.append)
    assert len(data) < 10_000 and sum(buffer.raw().nbytes for buffer in buffers) == 100_000 * 17
    back = pickle.loads(data, buffers=buffers)
    for mine, theirs in zip(run.samples, back.samples, strict=True):
        assert np.shares_memory(np.asarray(mine), np.asarray(theirs))
    assert back.latency == run.latency
    copied = pickle.loads(data, buffers=[bytearray(buffer.raw()) for buffer in buffers])
    assert all(column.readonly for column in copied.samples) and copied.latency == run.latency


def test_a_pickle_of_a_native_run_is_small():
    assert len(pickle.dumps(fw.bounded(fw.delay(0.1), 1000, limit=3, clock="virtual"))) < 1000 * 17 + 4000
    assert len(pickle.dumps(fw.bounded(fw.delay(0.1), 10**6, limit=3, clock="virtual", keep="summary"))) < 20_000


def test_the_callers_items_do_not_travel_but_those_of_failures():
    rows = [b"x" * 10_000 for _ in range(100)]
    run = fw.bounded(lambda row: 1 / 0 if row is rows[7] else None, rows, limit=1, errors="keep", max_failures=None)
    rows[7] = b"y" * 10_000
    failed = fw.bounded(fw.delay(), [*rows[:7], 0.1], limit=1, errors="keep", clock="virtual", max_failures=None)
    assert len(pickle.dumps(run)) < 30_000 or len(run.errors) > 1
    back = there_and_back(failed)
    assert [error.item for error in back.errors] == rows[:7]


def test_tokens_callbacks_and_setups_do_not_travel():
    lock = threading.Lock()
    token = fw.CancelToken()
    run = fw.bounded(lambda x, y: x, 3, limit=1, cancel=token, setup=lambda: lock, progress=lambda progress: None)
    back = there_and_back(run)
    assert back.counts.ok == 3 and back.results == [0, 1, 2]
    with pytest.raises(TypeError):
        pickle.dumps(token)


@pytest.mark.parametrize("kind", ["virtual", "summary", "failed", "empty"])
def test_parts_of_a_run_can_be_pickled(kind):
    run = RUNS[kind]()
    for part in (run.latency, run.wait, run.counts):
        back = there_and_back(part)
        assert back == part == copy.deepcopy(part) and type(back) is type(part)
    assert there_and_back(run.latency).quantile(0.3) == run.latency.quantile(0.3)
    if kind == "summary":
        return
    assert there_and_back(run.results) == run.results and type(there_and_back(run.results)) is list
    assert [outcome.index for outcome in there_and_back(run.outcomes)] == list(range(run.counts.total))
    assert [error.index for error in there_and_back(run.errors)] == [error.index for error in run.errors]


# What cannot be pickled


def test_exceptions_that_cannot_be_pickled_are_named():  # S095
    run = fw.bounded(with_odd_errors, 3, limit=1, errors="keep")
    back = there_and_back(run)
    two, held, plain = (error.exception for error in back.errors)
    assert type(two) is type(held) is fw.Unpicklable
    assert (two.type, two.text) == ("Two", "1 and 2") and (held.type, held.text) == ("Holder", "held")
    assert str(two) == "Two: 1 and 2" and type(plain) is ValueError
    assert there_and_back(two).type == "Two"
    again = there_and_back(back)
    assert [str(error.exception) for error in again.errors] == ["Two: 1 and 2", "Holder: held", "plain"]


def test_results_and_items_that_cannot_be_pickled_are_named():  # S094
    run = fw.bounded(with_odd_results, 3, limit=1)
    lock, one, function = there_and_back(run).results
    assert one == 1 and type(lock) is type(function) is fw.Unpicklable
    assert lock.type == "lock" and "lock" in lock.text and function.type == "function"
    items = [threading.Lock()]
    run = fw.bounded(failing, items, limit=1, errors="keep")
    assert type(there_and_back(run).errors[0].item) is fw.Unpicklable


def test_an_action_that_cannot_be_pickled_keeps_its_name():
    run = RUNS["a lambda"]()
    back = there_and_back(run)
    assert "<lambda>" in str(back) and back.meta["action"] == run.meta["action"] and back.ideal == run.ideal


# Actions, distributions, exceptions

VALUES = [
    fw.noop(),
    fw.delay(),
    fw.delay(0.05),
    fw.delay(fw.exponential(0.1)),
    fw.cpu(0.01),
    fw.service(0.1, 3),
    fw.service(fw.lognormal(0.1, 0.5), capacity=3, queue=7),
    fw.constant(1),
    fw.uniform(0, 2),
    fw.exponential(3),
    fw.lognormal(0.1, 0.9),
    fw.empirical([0.1, 0.2]),
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_actions_and_distributions(value, protocol):
    back = there_and_back(value, protocol)
    assert back == value and type(back) is type(value) and repr(back) == repr(value) and hash(back) == hash(value)
    assert copy.deepcopy(value) == value


ENDS = {
    fw.RunFailed: lambda: fw.bounded(failing, range(6), limit=2),
    fw.RunTimeout: lambda: fw.bounded(fw.delay(1), 3, limit=1, total_timeout=1.5, clock="virtual"),
    fw.RunCancelled: lambda: fw.bounded(fw.delay(1), 3, limit=1, cancel=_set_token()),
}


def _set_token():
    token = fw.CancelToken()
    token.cancel()
    return token


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", ENDS, ids=lambda kind: kind.__name__)
def test_exceptions_bring_their_run(kind, protocol):
    error = raised(ENDS[kind])
    back = there_and_back(error, protocol)
    assert type(back) is kind and str(back) == str(error)
    assert back.run.counts == error.run.counts and back.__traceback__ is None
    if kind is fw.RunFailed:
        assert [str(each) for each in back.exceptions] == [str(each) for each in error.exceptions]
        assert all(each.__traceback__ is None for each in back.exceptions)


def test_a_run_failed_of_exceptions_that_cannot_be_pickled():
    error = raised(lambda: fw.bounded(with_odd_errors, 3, limit=1))
    back = there_and_back(error)
    assert type(back) is fw.RunFailed and [type(each).__name__ for each in back.exceptions] == [
        "Unpicklable",
        "Unpicklable",
        "ValueError",
    ]
    assert back.run.counts.failed == 3


def test_the_rest():
    assert str(there_and_back(fw.QueueFull("full"))) == "full"
    back = there_and_back(fw.Unpicklable("Kind", "text"))
    assert (back.type, back.text) == ("Kind", "text")


def test_a_pickle_is_read_by_another_process(tmp_path):
    path = tmp_path / "run.pickle"
    run = fw.bounded(fw.delay(), [0.1, "bad", 0.2], limit=2, errors="keep", clock="virtual")
    path.write_bytes(pickle.dumps(run))
    code = (
        "import pickle, sys; run = pickle.load(open(sys.argv[1], 'rb')); "
        "print(run.counts.failed, run.errors[0].item, run.latency.n, run.meta['python'])"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.split() == ["1", "bad", "2", run.meta["python"]]


# Tracebacks and cycles


def reachable(start, limit=200_000):
    """All objects that `start` keeps alive, but for modules, types, functions and what they hold."""
    seen, queue = {id(start): start}, [start]
    while queue and len(seen) < limit:
        for each in gc.get_referents(queue.pop()):
            if id(each) in seen or isinstance(each, type | types.ModuleType | types.FunctionType | types.BuiltinFunctionType):
                continue
            seen[id(each)] = each
            queue.append(each)
    return seen


@pytest.mark.parametrize("kind", ENDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("touched", [False, True])
def test_a_run_never_refers_to_the_exception_that_carries_it(kind, touched):
    error = raised(ENDS[kind])
    run = error.run
    if touched:
        run.errors, run.latency, run.samples, run.meta, str(run), run.ideal
        list(run.outcomes)
    held = reachable(run)
    assert id(error) not in held
    assert not any(isinstance(each, fw.RunFailed | fw.RunCancelled | fw.RunTimeout) for each in held.values())


@pytest.mark.parametrize("kind", RUNS)
def test_a_run_goes_without_the_garbage_collector(kind):
    """Its samples may be large; a cycle would keep them until somebody collects."""
    gc.collect()
    gc.disable()
    try:
        run = RUNS[kind]()
        run.latency, run.wait, run.ideal, run.meta, str(run), run.to_dict()
        if kind != "summary":
            run.errors, run.samples, list(run.outcomes)
        watched = weakref.ref(run)
        del run
        assert watched() is None
    finally:
        gc.enable()


def source_error():
    def source():
        yield 0.1
        raise KeyError("src")

    return fw.bounded(fw.delay(), source(), limit=1, clock="virtual")


@pytest.mark.parametrize("call", [*ENDS.values(), source_error], ids=["failed", "timeout", "cancelled", "source"])
def test_an_exception_and_its_run_go_without_the_garbage_collector(call):
    gc.collect()
    gc.disable()
    try:
        error = raised(call)
        watched = weakref.ref(error.run)
        del error
        assert watched() is None
    finally:
        gc.enable()


def test_tracebacks_of_the_first_hundred_failures_only():
    def action(x):
        raise ValueError(x)

    error = raised(lambda: fw.bounded(action, 1500, limit=4, max_failures=None))
    assert len(error.exceptions) == 1000 and len(error.run.errors) == 1500
    with_traceback = [each.__traceback__ is not None for each in error.exceptions]
    assert with_traceback == [True] * 100 + [False] * 900
    assert "1,500 of 1,500 items failed" in error.message and "1,497 more" in error.message


# except*


def test_except_star_keeps_the_run():
    def action(x):
        raise (ValueError if x % 2 else KeyError)(x)

    caught = []
    try:
        fw.bounded(action, 6, limit=1, max_failures=None)
    except* ValueError as group:
        caught.append(group)
    except* KeyError as group:
        caught.append(group)
    values, keys = caught
    assert type(values) is type(keys) is fw.RunFailed
    assert values.run is keys.run and values.run.counts.failed == 6
    assert [error.args[0] for error in values.exceptions] == [1, 3, 5] and len(keys.exceptions) == 3


def test_split_subgroup_and_derive_keep_the_run():
    error = raised(ENDS[fw.RunFailed])
    match, rest = error.split(ValueError)
    assert type(match) is fw.RunFailed and match.run is error.run and rest is None
    assert error.subgroup(lambda each: "1" in str(each)).run is error.run
    derived = error.derive([OSError("x")])
    assert derived.run is error.run and derived.message == error.message and type(derived.exceptions[0]) is OSError
    assert isinstance(error, ExceptionGroup) and not isinstance(error, ValueError)


def test_a_timed_out_items_exception_is_a_timeout_error():
    error = raised(lambda: fw.bounded(fw.delay(1), 2, limit=1, item_timeout=0.5, clock="virtual"))
    assert type(error) is fw.RunFailed and {type(each) for each in error.exceptions} == {TimeoutError}


def test_what_a_run_keeps_alive_is_released_with_it():
    class Result:
        pass

    run = fw.bounded(lambda x: Result(), 3, limit=1)
    results = [weakref.ref(result) for result in run.results]
    del run
    gc.collect()
    deadline = time.monotonic() + 5
    while any(ref() for ref in results) and time.monotonic() < deadline:  # a thread may be on its way out
        time.sleep(0.01)
    assert [ref() for ref in results] == [None] * 3
