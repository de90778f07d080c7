"""Ctrl-C and other signals while the engine runs without the GIL: seen at once, nothing left behind, the run is kept."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import fanwidth as fw

PROGRAM = """
import itertools, os, sys, time
import fanwidth as fw

def source(values):
    try:
        yield from values
    finally:
        print("closed", flush=True)

def main():
    print("ready", flush=True)
    return {call}

try:
    main()
    print("ended by itself")
except KeyboardInterrupt as error:
    caught = time.monotonic()
    run = error.run
    counts = run.counts
    assert sum(counts[:5]) == counts.total, counts
    assert len(os.listdir("/proc/self/task")) == 1, "threads are left"
    print("kept", run.stopped_by, counts.ok, counts.cancelled, caught, flush=True)
"""

SIMULATED = "clock='virtual', keep='summary'"
RUNS = {
    "delays": "fw.for_each(fw.delay(10), 10, limit=2)",
    "delays at once": "fw.when_all(fw.delay(10), 1000)",
    "delays from a generator": "fw.for_each(fw.delay(), source([10.0] * 10), limit=2)",
    "delays from a list": "fw.chunked(fw.delay(), [10.0] * 10, limit=2)",
    "a service": "fw.bounded(fw.service(10, 2), 10, limit=5)",
    "cpu": "fw.bounded(fw.cpu(60), 4, limit=2)",
    "cpu from a generator": "fw.bounded(fw.cpu(60), source([0] * 4), limit=2)",
    "a source that sleeps": "fw.bounded(fw.delay(), source(time.sleep(10) for _ in range(9)), limit=2)",
    "a billion simulated items": f"fw.bounded(fw.delay(1), 10**9, limit=3, {SIMULATED})",
    "a billion simulated exponential items": f"fw.bounded(fw.delay(fw.exponential(1)), 10**9, limit=1000, {SIMULATED})",
    "an endless generator, simulated": f"fw.bounded(fw.delay(), source(itertools.repeat(1.0)), limit=3, {SIMULATED})",
    "an endless C iterator": "fw.bounded(fw.noop(), itertools.count(), limit=3, keep='summary')",
    "an endless C iterator, simulated": f"fw.for_each(fw.delay(), itertools.repeat(1.0), limit=10**6, {SIMULATED})",
    "an endless C iterator at once": "fw.when_all(fw.delay(), itertools.repeat(1.0))",
    "a C iterator around Python": f"fw.for_each(fw.delay(), map(float, itertools.repeat(1)), limit=4, {SIMULATED})",
}


def start(code: str) -> subprocess.Popen:
    child = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "ready\n", child.communicate()
    return child


@pytest.mark.parametrize("kind", RUNS)
def test_ctrl_c_ends_the_run_and_keeps_it(kind):  # S037
    child = start(PROGRAM.format(call=RUNS[kind]))
    try:
        time.sleep(0.3)
        sent = time.monotonic()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=10)
    finally:
        child.kill()
    assert (child.returncode, err) == (0, "")
    *closed, kept = out.splitlines()
    assert closed == (["closed"] if "source(" in RUNS[kind] else [])
    _, stopped_by, ok, cancelled, caught = kept.split()
    assert kept.startswith("kept") and float(caught) - sent < 2.5  # 0.5 s where nothing else is running
    assert stopped_by in ("cancel", "source")
    if "delays" in kind or kind in ("a service", "cpu"):
        assert ok == "0" and int(cancelled) >= 2


@pytest.mark.parametrize("call", ["fw.for_each(fw.delay(10), 10, limit=2)", "fw.bounded(fw.cpu(60), 4, limit=2)"])
def test_an_interrupt_that_nobody_catches_ends_the_program(call):
    child = start(f"import fanwidth as fw\nprint('ready', flush=True)\n{call}\n")
    try:
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=10)
    finally:
        child.kill()
    assert child.returncode in (130, -signal.SIGINT)
    assert err.rstrip().endswith("KeyboardInterrupt")


def test_after_an_interrupt_nothing_goes_on_and_the_next_run_works():  # S038
    assert fw.for_each(fw.delay(0.001), 5, limit=2).counts.ok == 5  # all is imported: an interrupt now meets a run
    threads = threading.active_count()
    tasks = len(os.listdir("/proc/self/task"))
    for action in (fw.delay(10), fw.cpu(10), fw.service(10, 1)):
        timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        before = time.monotonic()
        with pytest.raises(KeyboardInterrupt) as caught:
            fw.for_each(action, 100, limit=2)
        assert time.monotonic() - before < 2.5
        timer.join()
        run = caught.value.run
        assert run.counts.cancelled == 2 and run.counts.not_started == 98 and run.stopped_by == "cancel"
        assert threading.active_count() == threads and len(os.listdir("/proc/self/task")) <= tasks
        assert fw.for_each(fw.delay(0.001), 5, limit=2).counts.ok == 5


class Alarm(Exception):
    pass


@pytest.fixture
def alarm():
    """alarm(handler, seconds): SIGALRM after that long, handled by `handler`."""

    def ring(handler, seconds):
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, seconds)

    before = signal.getsignal(signal.SIGALRM)
    yield ring
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


SIGNALLED = {
    "delays": lambda: fw.bounded(fw.delay(0.2), 4, limit=2),
    "pulled": lambda: fw.bounded(fw.delay(), iter([0.2] * 4), limit=2),
    "cpu": lambda: fw.bounded(fw.cpu(0.1), 4, limit=2),
}


@pytest.mark.parametrize("kind", SIGNALLED)
def test_what_a_signals_handler_raises_ends_the_run(kind, alarm):
    def handler(number, frame):
        raise Alarm(number)

    alarm(handler, 0.03)
    with pytest.raises(Alarm) as caught:
        SIGNALLED[kind]()
    assert caught.value.run.counts.ok == 0 and caught.value.run.stopped_by is not None


@pytest.mark.parametrize("look", [lambda run: run.replay(limit=7), lambda run: run.ideal], ids=["replay", "ideal"])
def test_an_interrupted_simulation_is_no_answer(look, alarm):
    """It would be wrong, and remembered as the run's ideal."""

    def handler(number, frame):
        raise Alarm(number)

    run = fw.bounded(fw.noop(), 20_000_000, limit=1000, keep="summary", seed=1)
    run.__dict__["_action"] = fw.delay(fw.exponential(1))  # a run that would take hours to make
    alarm(handler, 0.1)
    with pytest.raises(Alarm):
        look(run)
    assert "ideal" not in run.__dict__


@pytest.mark.parametrize("kind", SIGNALLED)
def test_a_handled_signal_disturbs_nothing(kind, alarm):
    seen = []
    alarm(lambda number, frame: seen.append(threading.current_thread()), 0.03)
    run = SIGNALLED[kind]()
    assert run.ok and seen == [threading.main_thread()]


def test_a_run_in_another_thread_leaves_signals_to_the_main_one():
    done = []
    thread = threading.Thread(target=lambda: done.append(fw.bounded(fw.delay(0.15), 2, limit=1)))
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        time.sleep(0.03)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
    thread.join()
    assert done[0].ok
