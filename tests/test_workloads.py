"""Workloads that are not native actions, as users write them: sync callables around the standard library, runs side by side."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import fanwidth as fw

MS = 0.001


class Peak:
    """Counts how many are inside at once."""

    def __init__(self, job: Callable[[Any], Any]) -> None:
        self.job = job
        self.lock = threading.Lock()
        self.inside = self.most = 0

    def __call__(self, item: Any) -> Any:
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        try:
            return self.job(item)
        finally:
            with self.lock:
                self.inside -= 1


def command(*words: str, **options: Any) -> Callable[[Any], Any]:
    return lambda _: subprocess.run(words, capture_output=True, check=True, **options)


def test_processes_by_default_are_as_many_as_the_run_says() -> None:
    # S013
    job = Peak(command("sleep", "0.02"))
    run = fw.for_each(job, 20)
    assert run.counts.ok == 20
    assert run.limit is not None and job.most <= run.limit <= max(32, 4 * (os.cpu_count() or 1))
    assert run.peak_in_flight <= run.limit


def test_the_size_of_libuvs_pool_does_not_matter() -> None:
    # S016, S049: the engine does not use it
    code = (
        "import fanwidth as fw; r = fw.when_all(fw.delay(0.02), 50); assert r.ok and r.peak_in_flight == 50; print(r.limited_by)"
    )
    for size in ("1", "1024", "nonsense"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "UV_THREADPOOL_SIZE": size},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "items\n", "")


def test_blocked_reads_hold_up_neither_timers_nor_other_reads(tmp_path: Path) -> None:
    # S044, as runs side by side
    paths = [tmp_path / f"fifo{i}" for i in range(4)]
    for path in paths:
        os.mkfifo(path)
    plain = tmp_path / "plain"
    plain.write_bytes(b"here")
    blocked = fw.start(Path.read_bytes, paths, strategy="when_all")
    delays = fw.when_all(fw.delay(50 * MS), 1)
    read = fw.when_all(Path.read_bytes, [plain])
    assert not blocked.done  # nobody has written yet, and the others are through
    assert delays.ok and delays.latency.min is not None and delays.latency.min >= 50 * MS
    assert read.results == [b"here"]
    for path in paths:
        path.write_bytes(b"late")
    assert blocked.result(timeout=30).results == [b"late"] * 4


_OUT_OF_FILES = """
import errno, os, resource, sys, threading
import fanwidth as fw
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
fw.when_all(fw.delay(0), 1)  # what libuv keeps for ever is open now
here = lambda: len(os.listdir("/proc/self/fd"))
before, gate = here(), threading.Barrier(500)

def read(item):
    try:
        file = open(sys.argv[1], "rb")
    except OSError as error:
        gate.wait(30)
        raise
    with file:
        gate.wait(30)  # until everybody has tried
        return file.read()

run = fw.when_all(read, 500, errors="keep", max_failures=None)
assert run.counts.ok + run.counts.failed == 500 and run.counts.failed > 400, run.counts
assert all(o.exception.errno == errno.EMFILE for o in run.errors)
assert [o.index for o in run.errors] == sorted(o.index for o in run.errors)
run = fw.bounded(lambda item: open(sys.argv[1], "rb").close(), 500, limit=8)
assert run.ok and here() == before, (run, here(), before)
print("fine")
"""


def test_out_of_files_is_a_failure_of_the_items_it_met(tmp_path: Path) -> None:
    # S045
    (tmp_path / "small").write_bytes(b"small")
    done = subprocess.run([sys.executable, "-c", _OUT_OF_FILES, tmp_path / "small"], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("fine\n", "")


def test_one_after_the_other_does_not_drift() -> None:
    # S058, where there is no rate option: each delay begins when the one before has ended
    run = fw.for_each(fw.delay(20 * MS), 100, limit=1)
    assert run.elapsed >= 100 * 20 * MS
    starts = run.samples.start_ns
    assert all(later - earlier >= 20_000_000 for earlier, later in pairwise(starts))
    assert run.ideal == pytest.approx(2.0)


def test_more_output_than_a_pipe_holds() -> None:
    # S098
    script = "import sys; sys.stdout.write('o' * 1_000_000); sys.stderr.write('e' * 300_000)"
    run = fw.for_each(command(sys.executable, "-c", script), 4, limit=2, item_timeout=60)
    assert [(len(done.stdout), len(done.stderr)) for done in run.results] == [(1_000_000, 300_000)] * 4


_MISSING_PROGRAM = """
import errno, os, subprocess
import fanwidth as fw

run = fw.when_all(lambda words: subprocess.run(words, timeout=0.2).returncode,
                  [["true"], ["no-such-program-xyz"], ["sleep", "5"]], errors="keep")
assert run.results == [0, None, None] and run.elapsed < 4, run
missing, late = run.errors
assert missing.index == 1 and missing.exception.errno == errno.ENOENT, missing
assert late.index == 2 and isinstance(late.exception, subprocess.TimeoutExpired), late
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("fine")
"""


def test_a_missing_program_fails_alone_and_none_is_left_behind() -> None:
    # S099; in a process that has no other children
    done = subprocess.run([sys.executable, "-c", _MISSING_PROGRAM], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("fine\n", "")
