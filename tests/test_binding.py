"""The binding: the GIL, references, threads, forks, descriptors, sources; what Python sees of the engine beside its results."""

import contextlib
import errno
import gc
import itertools
import os
import random
import resource
import sys
import threading
import time
import types
import warnings

import pytest

import fanwidth as fw
from fanwidth import _core

STRATEGIES = ("for_each", "when_all", "bounded", "chunked")


def limited(strategy, limit):
    return {} if strategy == "when_all" else {"limit": limit}


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def native_threads() -> int:
    return len(os.listdir("/proc/self/task"))


# The GIL


RUNS = {
    "delays of a count": lambda: fw.bounded(fw.delay(0.02), 10, limit=1),
    "delays that are pulled": lambda: fw.bounded(fw.delay(), iter([0.02] * 10), limit=1),
    "cpu": lambda: fw.bounded(fw.cpu(0.02), 10, limit=1),
    "virtual": lambda: fw.bounded(fw.delay(0.1), 20_000_000, limit=10, clock="virtual", keep="summary"),
}


@pytest.mark.parametrize("kind", RUNS)
def test_another_thread_makes_progress_during_a_run(kind):
    steps, over = 0, threading.Event()

    def other():
        nonlocal steps
        while not over.wait(0.002):
            steps += 1

    thread = threading.Thread(target=other)
    thread.start()
    before = steps
    run = RUNS[kind]()
    after = steps
    over.set()
    thread.join()
    assert run.ok and after - before >= 10


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_runs_in_several_threads_at_once(strategy):  # S084
    seen, errors = [], []

    def work(number):
        try:
            runs = [
                fw.run(fw.delay(0.002), 20, strategy=strategy, **limited(strategy, 5)),
                fw.run(fw.delay(), (0.001 for _ in range(20)), strategy=strategy, **limited(strategy, 5)),
                fw.run(fw.cpu(0.0005), 5, strategy=strategy, **limited(strategy, 2)),
                fw.run(fw.service(0.001, 2), 10, strategy=strategy, clock="virtual", **limited(strategy, 5)),
            ]
            seen.append(sum(run.counts.ok for run in runs))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert errors == [] and seen == [55] * 10


def test_a_run_inside_the_source_of_a_run():  # FK-nested
    inner = []

    def source():
        for _ in range(3):
            inner.append(fw.bounded(fw.delay(), (0.001 for _ in range(2)), limit=1).counts.ok)
            inner.append(fw.bounded(fw.cpu(0.001), 2, limit=2).counts.ok)
            yield 0.001

    for strategy in STRATEGIES:
        inner.clear()
        run = fw.run(fw.delay(), source(), strategy=strategy, **limited(strategy, 1))
        assert run.counts.ok == 3 and inner == [2] * 6


def test_a_run_in_the_progress_of_a_run():
    inner = []

    def progress(_):
        inner.append(fw.bounded(fw.delay(0.001), 2, limit=1).counts.ok)

    assert fw.bounded(fw.delay(0.06), 6, limit=1, progress=progress).ok
    assert inner and set(inner) == {2}


# References


class Item(float):
    pass


def ends():
    """Ways for a run to end, each with the objects whose references must come out even."""
    good, bad = [Item(0.0) for _ in range(5)], ["bad", Item(0.0), object()]
    token = fw.CancelToken()
    token.cancel()
    fresh = fw.CancelToken()
    action, timed = fw.delay(), fw.delay(0.0001)

    def failing_source():
        yield good[0]
        raise KeyError("src")

    def progress(_):
        raise RuntimeError("hook")

    virtual = {"clock": "virtual"}
    calls = {
        "success": lambda s: fw.run(action, good, strategy=s, cancel=fresh, **limited(s, 2)),
        "pulled": lambda s: fw.run(action, iter(good), strategy=s, cancel=fresh, **limited(s, 2)),
        "values": lambda s: fw.run(timed, iter(bad), strategy=s, **limited(s, 2)),
        "failure": lambda s: fw.run(action, bad, strategy=s, **virtual, **limited(s, 2)),
        "failure kept": lambda s: fw.run(action, iter(bad), strategy=s, errors="keep", **virtual, **limited(s, 2)).errors[:],
        "cancel": lambda s: fw.run(action, iter(good), strategy=s, cancel=token, **limited(s, 2)),
        "item time-out": lambda s: fw.run(action, [Item(9.0)] * 3, strategy=s, item_timeout=0.5, **virtual, **limited(s, 2)),
        "total time-out": lambda s: fw.run(
            action, iter([Item(9.0)] * 3), strategy=s, total_timeout=0.5, **virtual, **limited(s, 2)
        ),
        "source error": lambda s: fw.run(action, failing_source(), strategy=s, **limited(s, 2)),
        "hook error": lambda s: fw.run(timed, 3, strategy=s, progress=progress, **limited(s, 2)),
        "full queue": lambda s: fw.run(fw.service(1, 1, 0), iter(good), strategy=s, errors="keep", **virtual, **limited(s, 5)),
        "wrong argument": lambda s: fw.run(action, good, strategy=s, keep="nothing", **limited(s, 2)),
        "summary": lambda s: fw.run(action, iter(bad), strategy=s, keep="summary", **virtual, **limited(s, 2)),
    }
    watched = [*good, *bad, token, fresh, action, timed, progress, failing_source]
    return calls, watched


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("how", ends()[0])
def test_references_are_balanced(request, strategy, how):  # S054
    calls, watched = ends()

    def once():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            with contextlib.suppress(fw.RunFailed, fw.RunCancelled, fw.RunTimeout, KeyError, ValueError, TypeError):
                calls[how](strategy)

    gc.freeze()  # what the other tests hold need not be searched for garbage each time
    request.addfinalizer(gc.unfreeze)
    for _ in range(3):
        once()
    gc.collect()
    before, blocks = [sys.getrefcount(each) for each in watched], sys.getallocatedblocks()
    for _ in range(100):
        once()
    gc.collect()
    assert [sys.getrefcount(each) for each in watched] == before
    assert sys.getallocatedblocks() - blocks < 100  # less than one object per run


def test_a_ledger_and_its_columns_go_with_their_last_user():
    run = fw.bounded(fw.delay(0), 100_000, limit=5, clock="virtual")
    column = run.samples.start_ns
    owner = column.obj
    before = sys.getrefcount(owner)
    del run
    gc.collect()
    after = sys.getrefcount(owner)
    assert len(column) == 100_000 and after <= before


def test_memory_of_runs_is_given_back():
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def work():
        run = fw.bounded(fw.delay(0.1), 200_000, limit=50, clock="virtual")
        assert run.ok and run.latency.n == 200_000

    work()
    before = resident()
    for _ in range(20):  # 3.4 MB of samples each
        work()
    assert resident() - before < 20 << 20


# The core refuses nonsense instead of crashing


@pytest.mark.parametrize(
    "wrong",
    [
        {"strategy": "nope"},
        {"action": "nope"},
        {"time": ("nope", 0, 0.0, 0.0, None)},
        {"time": ("constant",)},
        {"time": None},
        {"total": -1},
        {"total": "3"},
        {"limit": 2**65},
        {"cancel": object()},
        {"item_timeout_ns": 2**63},
        {"capacity": -1},
    ],
    ids=str,
)
def test_the_core_refuses_wrong_arguments(wrong):
    right = {
        "strategy": "bounded",
        "action": "delay",
        "iterator": None,
        "total": 3,
        "limit": 1,
        "time": ("constant", 0, 1.0, 0.0, None),
        "item_timeout_ns": None,
        "total_timeout_ns": None,
        "capacity": 1,
        "queue": None,
        "max_threads": 1,
        "max_failures": None,
        "samples": True,
        "is_virtual": True,
        "uv_timer": False,
        "origin_ns": 0,
        "cancel": None,
        "item_is_time": False,
        "report": None,
    }
    assert _core.run(**right)["ledger"].counts == (3, 0, 0, 0, 0)
    with pytest.raises((ValueError, TypeError, OverflowError)):
        _core.run(**right | wrong)


@pytest.mark.parametrize("kind", [_core.Ledger, type(_core.CancelToken())])
def test_types_cannot_be_broken(kind):
    with pytest.raises(TypeError):
        kind.new_attribute = 1
    if kind is _core.Ledger:
        with pytest.raises(TypeError):
            kind()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_both_kinds_of_timer_keep_every_promise(strategy):
    for uv_timer in (False, True):
        facts = _core.run(
            strategy=strategy,
            action="delay",
            iterator=None,
            total=20,
            limit=None if strategy == "when_all" else 5,
            time=("uniform", 1, 1e6, 4e6, None),
            item_timeout_ns=None,
            total_timeout_ns=None,
            capacity=1,
            queue=None,
            max_threads=1,
            max_failures=None,
            samples=True,
            is_virtual=False,
            uv_timer=uv_timer,
            origin_ns=0,
            cancel=None,
            item_is_time=False,
            report=None,
        )
        assert facts["uses_timerfd"] is (not uv_timer and sys.platform == "linux")
        start, finish, state = facts["ledger"].columns()
        assert set(state) == {0} and min(b - a for a, b in zip(start, finish, strict=True)) >= 1_000_000


# Cancelling from another thread


def test_a_token_races_with_completion():  # S034
    token = None
    rng, over, ready = random.Random(7), threading.Event(), threading.Semaphore(0)

    def canceller():
        while ready.acquire() and not over.is_set():
            mine, until = token, time.perf_counter() + rng.uniform(0, 0.0004)
            while time.perf_counter() < until:
                pass
            mine.cancel()

    thread = threading.Thread(target=canceller)
    thread.start()
    done = cancelled = 0
    for _ in range(2000):
        token = fw.CancelToken()
        ready.release()
        try:
            run = fw.bounded(fw.delay(0.0002), 1, limit=1, cancel=token)
            assert run.results == [0]
            done += 1
        except fw.RunCancelled as error:
            assert error.run.counts.ok == 0
            cancelled += 1
    over.set()
    ready.release()
    thread.join(10)
    assert done + cancelled == 2000


@pytest.mark.parametrize("trial", range(20))
@pytest.mark.parametrize("end", ["token", "time"])
def test_cpu_threads_that_see_the_end_first_stop_the_run(trial, end):
    """They look every 50 us, the caller's thread every 50 ms."""
    token = fw.CancelToken()
    timer = threading.Timer(0.01, token.cancel)
    timer.start()
    options = {"cancel": token} if end == "token" else {"total_timeout": 0.01}
    with pytest.raises(fw.RunCancelled if end == "token" else fw.RunTimeout):
        fw.when_all(fw.cpu(30), 3, **options)
    timer.join()


def test_a_token_ends_a_virtual_run_of_a_billion_items():
    token = fw.CancelToken()
    timer = threading.Timer(0.1, token.cancel)
    timer.start()
    before = time.monotonic()
    with pytest.raises(fw.RunCancelled) as caught:
        fw.bounded(fw.delay(1), 10**9, limit=3, clock="virtual", keep="summary", cancel=token)
    timer.join()
    assert time.monotonic() - before < 5
    counts = caught.value.run.counts
    assert counts.total == 10**9 and counts.ok > 0 and counts.not_started > 0 and sum(counts[:5]) == 10**9


def test_a_token_is_seen_while_a_source_blocks():
    token, released = fw.CancelToken(), threading.Event()

    def source():
        yield 30.0
        released.wait(10)
        yield 30.0

    def cancel():
        time.sleep(0.05)
        token.cancel()
        time.sleep(0.1)
        released.set()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(fw.RunCancelled) as caught:
        fw.bounded(fw.delay(), source(), limit=2, cancel=token)
    thread.join()
    run = caught.value.run
    assert run.counts.cancelled == 1 and run.elapsed < 5  # the item ended with the token, not with the source
    assert token.cancelled and "cancelled" in repr(token)


@pytest.mark.parametrize("end", ["token", "time"])
@pytest.mark.parametrize("action", [fw.delay(), abs], ids=["native", "callable"])
def test_an_endless_source_of_when_all_can_be_stopped(end, action):
    token = fw.CancelToken()

    def endless():
        for i in itertools.count():
            if i == 2000:
                token.cancel()
            time.sleep(0.00001)
            yield 0.001

    options = {"cancel": token} if end == "token" else {"total_timeout": 0.05}
    generator = endless()
    with pytest.raises(fw.RunCancelled if end == "token" else fw.RunTimeout) as caught:
        fw.when_all(action, generator, **options)
    counts = caught.value.run.counts
    assert counts.not_started == counts.total > 0 and generator.gi_frame is None


# Descriptors and threads


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_descriptors_and_threads_are_given_back(strategy):
    before = descriptors(), native_threads()
    for _ in range(5):
        fw.run(fw.delay(0.001), 5, strategy=strategy, **limited(strategy, 2))
        fw.run(fw.delay(), iter([0.001] * 5), strategy=strategy, **limited(strategy, 2))
        fw.run(fw.cpu(0.0005), 5, strategy=strategy, **limited(strategy, 2))
        with pytest.raises(fw.RunTimeout):
            fw.run(fw.delay(9), 5, strategy=strategy, total_timeout=0.005, **limited(strategy, 2))
    assert descriptors() == before[0] and native_threads() <= before[1]  # less where a thread of another test has only now gone


OUT_OF_FILES = """
import errno, os, resource
import fanwidth as fw
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
before = len(os.listdir("/proc/self/fd")) + 2  # libuv's first loop makes a pipe for signals, once in a process
for make in (lambda: fw.for_each(fw.delay(0.01), 3, limit=2), lambda: fw.for_each(fw.delay(), iter([0.01] * 3), limit=2)):
    for spare in range(8):
        held = []
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        for _ in range(spare):
            os.close(held.pop())
        try:
            make()
            raise SystemExit(f"it ran with {spare} free descriptors")
        except OSError as error:
            assert error.errno == errno.EMFILE, error
        finally:
            for each in held:
                os.close(each)
        assert len(os.listdir("/proc/self/fd")) <= before
    assert make().counts.ok == 3
print("ok")
"""


def test_out_of_descriptors_is_an_os_error(run_child):  # S046
    done = run_child(OUT_OF_FILES)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "ok", "")


def test_no_descriptor_is_needed_on_the_virtual_clock(run_child):
    code = """
import os, resource
import fanwidth as fw
fw.noop(), fw.bounded(fw.noop(), 1, limit=1)
held = []
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
print(fw.bounded(fw.delay(5), 10, limit=2, clock="virtual").counts.ok, fw.bounded(fw.noop(), 10, limit=2).counts.ok)
"""
    done = run_child(code)
    assert done.stdout.split() == ["10", "10"], done.stderr


@pytest.mark.parametrize("size", ["1", "4", "1024", "nonsense"])
def test_the_size_of_libuvs_pool_has_no_effect(run_child, size):
    code = """
import os
import fanwidth as fw
run = fw.when_all(fw.delay(0.05), 200)
run2 = fw.when_all(fw.cpu(0.001), 8)
print(run.counts.ok, run.peak_in_flight, run2.counts.ok, run.effective_limit, len(os.listdir("/proc/self/task")))
"""
    done = run_child(code, env={"UV_THREADPOOL_SIZE": size})
    assert done.stdout.split() == ["200", "200", "8", "200", "1"], done.stderr


# Forks


FORK = """
import os, signal, sys
import fanwidth as fw

def work():
    assert fw.bounded(fw.delay(0.002), 3, limit=2).counts.ok == 3
    assert fw.bounded(fw.delay(), iter([0.001] * 3), limit=2).counts.ok == 3
    assert fw.bounded(fw.cpu(0.001), 3, limit=2).counts.ok == 3
    assert fw.bounded(fw.delay(1), 1000, limit=2, clock="virtual").counts.ok == 1000
    assert len(os.listdir("/proc/self/task")) == 1

for _ in range(20):
    work()
    child = os.fork()
    if child == 0:
        signal.alarm(5)
        work()
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    work()
print("ok")
"""


def test_forks_after_and_between_runs(run_child):  # S080, S081
    """With warnings as errors: from Python 3.12 a fork with other threads alive is a DeprecationWarning."""
    done = run_child(FORK, timeout=50)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "ok", "")


def test_a_fork_while_a_source_is_asked(run_child):
    code = """
import os
import fanwidth as fw

def source():
    for i in range(4):
        child = os.fork()
        if child == 0:
            os._exit(7)
        assert os.waitpid(child, 0)[1] == 7 << 8
        yield 0.002

print(fw.bounded(fw.delay(), source(), limit=2).counts.ok)
"""
    done = run_child("import warnings; warnings.simplefilter('ignore')\n" + code)
    assert done.stdout.strip() == "4", done.stderr


# Sources


class Odd:
    """An iterator with a behaviour of its own at each step."""

    def __init__(self, *steps):
        self.steps = list(steps)

    def __iter__(self):
        return self

    def __next__(self):
        step = self.steps.pop(0) if self.steps else StopIteration()
        if isinstance(step, BaseException):
            raise step
        return step


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("clock", ["real", "virtual"])
@pytest.mark.parametrize(
    "error", [KeyError("k"), MemoryError(), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), RecursionError()], ids=repr
)
def test_whatever_a_source_raises_is_raised(strategy, clock, error):
    with pytest.raises(type(error)) as caught:
        fw.run(fw.delay(), Odd(0.001, 0.001, error), strategy=strategy, clock=clock, **limited(strategy, 5))
    assert caught.value is error and error.run.counts.total == 2
    del error.run


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_source_that_cannot_even_be_made(strategy):
    class Unwilling:
        def __iter__(self):
            raise LookupError("no items today")

    with pytest.raises(LookupError, match="no items today") as caught:
        fw.run(fw.delay(), Unwilling(), strategy=strategy, **limited(strategy, 2))
    assert caught.value.run.counts.total == 0 and caught.value.run.stopped_by == "source"


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("told", "given"), [(5, 3), (3, 5)])
def test_a_length_that_is_wrong(strategy, told, given):
    class Liar:
        def __len__(self):
            return told

        def __iter__(self):
            return iter([0.001] * given)

    run = fw.run(fw.delay(), Liar(), strategy=strategy, clock="virtual", **limited(strategy, 2))
    assert run.counts.ok == given and sum(run.counts[:5]) == run.counts.total


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_sized_source_that_raises_still_adds_up(strategy):
    class Sized(Odd):
        def __len__(self):
            return 10

    with pytest.raises(KeyError) as caught:
        fw.run(fw.delay(), Sized(0.001, 0.001, KeyError("k")), strategy=strategy, clock="virtual", **limited(strategy, 5))
    counts = caught.value.run.counts
    assert sum(counts[:5]) == counts.total == 10


def test_a_file_is_a_source_and_stays_the_callers(tmp_path):
    path = tmp_path / "delays"
    path.write_text("0.1\n0.2\n0.3\n")
    for strategy in STRATEGIES:
        with path.open() as file:
            run = fw.run(fw.noop(), file, strategy=strategy, **limited(strategy, 1))
            assert run.counts.ok == 3 and not file.closed


def test_a_finally_that_raises_is_the_sources_error():
    def source():
        try:
            yield from [0.1] * 10
        finally:
            raise OSError("cannot close")

    with pytest.raises(OSError, match="cannot close") as caught:
        fw.bounded(fw.delay(), source(), limit=2, total_timeout=0.15, clock="virtual")
    assert caught.value.run.counts.ok == 2


def test_values_of_items_are_read_once():
    class Once:
        reads = 0

        def __float__(self):
            self.reads += 1
            return 0.01

    for strategy in STRATEGIES:
        items = [Once() for _ in range(5)]
        assert fw.run(fw.delay(), items, strategy=strategy, clock="virtual", **limited(strategy, 2)).ok
        assert [item.reads for item in items] == [1] * 5


# Progress


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_progress_callback_that_raises_is_warned_of_once(strategy):  # S029
    calls = []

    def hook(progress):
        calls.append(progress.done)
        raise RuntimeError("hook")

    with pytest.warns(RuntimeWarning, match="hook") as warned:
        run = fw.run(fw.delay(0.12), 4, strategy=strategy, progress=hook, **limited(strategy, 2))
    assert run.ok and len(warned) == 1 and len(calls) == 1
    assert fw.run(fw.delay(0.001), 4, strategy=strategy, **limited(strategy, 2)).ok


def test_an_interrupt_from_a_progress_callback_ends_the_run():
    def hook(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        fw.bounded(fw.delay(30), 4, limit=2, progress=hook)
    assert caught.value.run.stopped_by == "cancel" and caught.value.run.counts.cancelled == 2


# Clocks


def test_the_wall_clock_may_jump(monkeypatch):  # S060
    real = time.time
    jumps = itertools.cycle([0, -3600, 3600])
    monkeypatch.setattr(time, "time", lambda: real() + next(jumps))
    run = fw.for_each(fw.delay(0.02), 10, limit=2)
    took = [finish - start for start, finish in zip(*run.samples[:2], strict=True)]
    assert min(took) >= 20_000_000 and run.elapsed >= 0.1 and run.throughput > 0


def test_delays_are_never_early_by_an_outside_clock():  # S055
    for _ in range(20):
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        fw.bounded(fw.delay(0.0015), 1, limit=1)
        assert time.clock_gettime_ns(time.CLOCK_MONOTONIC) - before >= 1_500_000
    assert abs(_core.clock_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC)) < 10**9


@pytest.mark.parametrize("items", [lambda: 3, lambda: iter([0.3] * 3)], ids=["counted", "pulled"])
def test_waiting_does_not_spin(items):  # S057
    before = time.process_time()
    fw.when_all(fw.delay(0.3), 3) if items() == 3 else fw.bounded(fw.delay(), items(), limit=3)
    assert time.process_time() - before < 0.15


def test_a_delay_after_busy_work_counts_from_its_own_start():  # S056
    def source():
        for _ in range(3):
            until = time.perf_counter() + 0.02
            while time.perf_counter() < until:
                pass
            yield 0.01

    run = fw.for_each(fw.delay(), source(), limit=1)
    assert run.latency.min >= 0.01 and run.elapsed >= 0.09


# Memory and cost


def test_memory_is_bound_by_the_limit(run_child):  # S050
    code = """
import resource
import fanwidth as fw
fw.bounded(fw.delay(), (0 for _ in range(100)), limit=10, keep="summary")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
run = fw.for_each(fw.delay(), (0 for _ in range(100_000)), limit=10, keep="summary")
print(run.counts.ok, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
run = fw.for_each(fw.delay(0), 10_000_000, limit=10, keep="summary", clock="virtual")
print(run.counts.ok, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = run_child(code, timeout=50)
    counts = [line.split() for line in done.stdout.splitlines()]
    assert [line[0] for line in counts] == ["100000", "10000000"], done.stderr
    assert all(int(line[1]) < 32 * 1024 for line in counts)


@pytest.mark.parametrize("clock", ["real", "virtual"])
def test_cost_grows_linearly(clock):  # S051
    def cost(n):
        best = float("inf")
        for _ in range(3):
            before = time.process_time()
            fw.when_all(fw.delay(fw.uniform(0, 1e-6)), n, clock=clock)
            best = min(best, time.process_time() - before)
        return best

    cost(1000)
    assert cost(80_000) <= 8 * max(cost(20_000), 0.002)  # linear is 4, quadratic 16


def test_the_package_has_no_mutable_state_between_runs():
    before = {name: id(value) for name, value in vars(_core).items() if not name.startswith("__")}
    fw.bounded(fw.delay(0.001), 3, limit=1)
    assert {name: id(value) for name, value in vars(_core).items() if not name.startswith("__")} == before
    assert isinstance(_core, types.ModuleType) and errno.EMFILE
