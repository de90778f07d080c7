"""progress: rate and eta by the rule, every display by a clock of our own, nothing that disturbs a run."""

import io
import math
import os
import re
import sys
import types
import warnings
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanwidth.progress import Meter, Progress, Reporter, reporter

TICK = 1 / 16  # seconds; exact in binary, close to the drivers' 50 ms


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Broken(io.StringIO):
    """A stream whose every write fails, as that of a reader who has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def drive(report: Reporter, clock: Clock, seconds: float, done_at: Callable[[float], int], failed: int = 0) -> None:
    """Report every tick for that long, then close, as a driver does."""
    start = clock.now
    while clock.now - start < seconds:
        report(done_at(clock.now - start), failed)
        clock.now += TICK
    clock.now = start + seconds
    report.close(done_at(seconds), failed)


def steadily(total: int, seconds: float) -> Callable[[float], int]:
    return lambda elapsed: int(total * min(1.0, elapsed / seconds))


# -- Meter


def test_rate_and_eta_of_a_steady_run():
    clock = Clock()
    meter = Meter(100, clock=clock)
    clock.now += 2
    assert meter.read(10, 1) == Progress(done=10, total=100, failed=1, rate=5.0, eta=18.0, elapsed=2.0)


def test_rate_is_unknown_while_no_time_has_passed():  # S070
    meter = Meter(10, clock=Clock())
    assert meter.read(0) == Progress(0, 10, 0, None, None, 0.0)
    assert meter.read(3) == Progress(3, 10, 0, None, None, 0.0)


def test_eta_is_unknown_at_rate_zero_and_without_a_total():
    clock = Clock()
    sized, endless = Meter(10, clock=clock), Meter(None, clock=clock)
    clock.now += 4
    assert (sized.read(0).rate, sized.read(0).eta) == (0.0, None)
    assert (endless.read(8).rate, endless.read(8).eta, endless.read(8).total) == (2.0, None, None)


@pytest.mark.parametrize(("total", "done"), [(0, 0), (5, 5), (5, 7)])
def test_eta_is_zero_when_nothing_remains(total: int, done: int):  # S070
    assert Meter(total, clock=Clock()).read(done).eta == 0.0


def test_rate_forgets_what_is_older_than_half_the_run_and_ten_seconds():
    clock = Clock()
    meter = Meter(None, clock=clock)
    for second in range(1, 41):  # 100/s for 20 s, then 1/s
        clock.now += 1
        progress = meter.read(100 * second if second <= 20 else 2000 + second - 20)
        if second == 10:
            assert progress.rate == 100
    assert progress.rate == 1


def test_rate_looks_back_at_most_five_minutes():
    clock = Clock()
    meter = Meter(None, clock=clock)
    for second in range(1, 3601):
        clock.now += 1
        progress = meter.read(50 * min(second, 3000))
    assert progress.rate == 0.0
    assert len(meter._points) < 50


def test_rate_of_slow_batches_never_falls_to_zero():
    clock = Clock()
    meter = Meter(80, clock=clock)
    rates = []
    for second in range(1, 300):  # 8 items at a time, 30 s each
        clock.now += 1
        rates.append(meter.read(8 * (second // 30)).rate)
    assert rates[:29] == [0.0] * 29
    assert all(0.1 < rate < 0.6 for rate in rates[30:])  # ideal: 8 / 30


def test_a_meter_read_rarely_measures_what_was_done_in_between():
    clock = Clock()
    meter = Meter(None, clock=clock)
    for done in (60, 660):
        clock.now += 3600
        progress = meter.read(done)
    assert progress.rate == 600 / 3600


@given(
    st.one_of(st.none(), st.integers(0, 2**63)),
    st.lists(st.tuples(st.floats(0, 1e9), st.integers(0, 2**60)), max_size=50),
)
def test_no_progress_is_nan_infinite_or_negative(total, steps):
    clock = Clock()
    clock.now = 0.0
    meter, done = Meter(total, clock=clock), 0
    for seconds, more in steps:
        clock.now += seconds
        done += more
        progress = meter.read(done)
        for value in (progress.rate, progress.eta, progress.elapsed):
            assert value is None or (math.isfinite(value) and value >= 0)
        assert len(meter._points) < 100


def test_progress_is_immutable():
    with pytest.raises(AttributeError):
        Meter(1, clock=Clock()).read(1).done = 2  # type: ignore[misc]


# -- a callable


def test_false_reports_nothing():
    assert reporter(False, 10) is None


async def _asynchronous(progress: Progress) -> None: ...


@pytest.mark.parametrize("bad", [None, 1, "bar", _asynchronous])
def test_what_is_neither_bool_nor_plain_callable_is_a_type_error(bad):
    with pytest.raises(TypeError, match=re.escape(f"plain (not async) callable, got {bad!r}")):
        reporter(bad, 10)


def test_callable_is_called_at_once_then_ten_times_a_second_and_once_at_the_end():
    clock = Clock()
    seen: list[Progress] = []
    report = reporter(seen.append, 320, clock=clock)
    drive(report, clock, 10, steadily(320, 10), failed=2)
    assert (seen[0].done, seen[0].elapsed) == (0, 0.0)
    assert seen[-1] == Progress(320, 320, 2, 32.0, 0.0, 10.0)
    times = [progress.elapsed for progress in seen[:-1]]
    assert len(times) == 80  # the first tick at or after 0.1 s is the second
    assert all(later - earlier >= 0.1 for earlier, later in pairwise(times))
    assert [p.done for p in seen] == sorted(p.done for p in seen)


def test_callable_sees_the_end_of_a_run_that_was_too_short_for_a_report():
    seen: list[Progress] = []
    report = reporter(seen.append, 0, clock=Clock())
    report.close(0, 0)
    assert seen == [Progress(0, 0, 0, None, 0.0, 0.0)]  # S070


def test_unknown_total_stays_none():  # S069
    clock = Clock()
    seen: list[Progress] = []
    drive(reporter(seen.append, None, clock=clock), clock, 1, steadily(5, 1))
    assert {(p.total, p.eta) for p in seen} == {(None, None)}
    assert seen[-1].done == 5


def test_failing_callable_warns_once_at_its_own_line_and_is_not_called_again():  # S029
    clock = Clock()
    calls: list[Progress] = []

    def show(progress: Progress) -> None:
        calls.append(progress)
        if len(calls) == 3:
            raise RuntimeError("hook")

    for _ in range(2):  # the second run has to say it as well, under Python's own filters
        calls.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.resetwarnings()
            drive(reporter(show, 10, clock=clock), clock, 3, steadily(10, 3))
        assert len(calls) == 3
        [warning] = caught
        assert warning.category is RuntimeWarning
        assert str(warning.message) == "progress raised and is not called again: RuntimeError: hook"
        raising = show.__code__.co_firstlineno + 3
        assert (warning.filename, warning.lineno) == (__file__, raising)


def test_callable_failing_at_the_end_warns_too():
    with pytest.warns(RuntimeWarning, match="ZeroDivisionError"):
        reporter(lambda progress: 1 / 0, 1, clock=Clock()).close(1, 0)


def test_failing_callable_without_python_code_warns():
    with pytest.warns(RuntimeWarning, match="TypeError"):
        reporter(len, 1, clock=Clock())(1, 0)  # type: ignore[arg-type]


def test_warning_made_an_error_passes_through_once():
    report = reporter(lambda progress: 1 / 0, 1, clock=Clock())
    with pytest.raises(RuntimeWarning, match="division by zero"):
        report(1, 0)
    report(1, 0)
    report.close(1, 0)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_interrupt_in_a_callable_passes_through_and_the_end_is_still_reported(kind):
    calls: list[Progress] = []

    def show(progress: Progress) -> None:
        calls.append(progress)
        if len(calls) == 1:
            raise kind

    report = reporter(show, 10, clock=Clock())
    with pytest.raises(kind):
        report(1, 0)
    report.close(4, 0)
    assert [p.done for p in calls] == [1, 4]


def test_close_is_idempotent_and_nothing_follows_it():  # S072
    clock = Clock()
    seen: list[Progress] = []
    report = reporter(seen.append, 10, clock=clock)
    report.close(3, 1)
    clock.now += 60
    report(4, 1)
    report.close(5, 1)
    assert [p.done for p in seen] == [3]


def test_as_context_manager_it_closes_with_the_last_counts_after_an_error_too():
    seen: list[Progress] = []
    with pytest.raises(LookupError), reporter(seen.append, 10, clock=Clock()) as report:
        report(1, 0)
        report(6, 2)
        raise LookupError
    assert [(p.done, p.failed) for p in seen] == [(1, 0), (6, 2)]


# -- plain lines


def plain(total: int | None, seconds: float, done_at: Callable[[float], int], **options) -> list[str]:
    clock, stream = Clock(), io.StringIO()
    drive(reporter(True, total, stream=stream, clock=clock, **options), clock, seconds, done_at)
    text = stream.getvalue()
    assert text.endswith("\n") and "\r" not in text and "\x1b" not in text
    return text.splitlines()


def test_short_run_writes_its_last_line_only():  # S073
    assert plain(50, 0.25, steadily(50, 0.25)) == ["50/50 (100%), 200/s, 0.2 s"]


def test_empty_run_writes_its_last_line():  # S070
    assert plain(0, 0, lambda elapsed: 0) == ["0/0 (100%), 0.0 s"]


def test_lines_come_by_the_tenth():
    lines = plain(100, 20, steadily(100, 20), label="hash")
    assert lines[0] == "hash: 2/100 (2%), 4/s, eta 24 s"
    shown = [line.split()[1] for line in lines]
    assert [f"{tenth}0/100" for tenth in range(1, 10)] == [part for part in shown if part[1:] == "0/100"]
    assert lines[-1] == "hash: 100/100 (100%), 5/s, 20 s"


def test_failures_are_told_when_there_are_any():
    clock, stream = Clock(), io.StringIO()
    drive(reporter(True, 4, stream=stream, clock=clock), clock, 0.25, steadily(4, 0.25), failed=3)
    assert stream.getvalue() == "4/4 (100%), 3 failed, 16/s, 0.2 s\n"


def test_unknown_total_writes_counts():  # S069
    lines = plain(None, 4, lambda elapsed: int(2 * elapsed))
    assert lines == ["1 done, 2/s", "3 done, 2/s", "7 done, 2/s", "8 done, 2/s, 4.0 s"]


def test_stopped_run_says_how_far_it_came():
    assert plain(50, 0.25, lambda elapsed: 12)[-1].startswith("12/50 (24%), ")


def test_percent_is_rounded_down_and_never_above_a_hundred():
    assert plain(1000, 0, lambda elapsed: 999)[-1].startswith("999/1000 (99%)")
    assert plain(100, 0, lambda elapsed: 29)[-1].startswith("29/100 (29%)")
    assert plain(10, 0, lambda elapsed: 14)[-1].startswith("14/10 (100%)")


def test_label_cannot_bring_control_characters():
    assert plain(1, 0, lambda elapsed: 1, label="a\r\nb\x1b[31m")[-1] == "a  b [31m: 1/1 (100%), 0.0 s"


@pytest.mark.parametrize(
    ("seconds", "said"), [(59, "59 s"), (59.75, "1:00"), (125, "2:05"), (3725, "1:02:05"), (400_000, "111:06:40")]
)
def test_durations_in_words(seconds: float, said: str):
    clock, stream = Clock(), io.StringIO()
    report = reporter(True, 0, stream=stream, clock=clock)
    clock.now += seconds
    report.close(0, 0)
    assert stream.getvalue() == f"0/0 (100%), 0/s, {said}\n"


@given(
    st.one_of(st.none(), st.integers(0, 1000)),
    st.lists(st.tuples(st.floats(0, 1e5), st.integers(0, 60)), max_size=300),
)
def test_twenty_lines_at_most_half_a_second_apart(total, steps):
    clock, at = Clock(), []

    class Noted(io.StringIO):
        def write(self, text: str) -> int:
            at.append(clock.now)
            return super().write(text)

    stream, start, done = Noted(), clock.now, 0
    report = reporter(True, total, stream=stream, clock=clock)
    for seconds, more in steps:
        clock.now += seconds
        done += more
        report(done, 0)
    report.close(done, 0)
    assert len(at) == stream.getvalue().count("\n") <= 20
    # The last line may follow at any time.
    assert all(later - earlier >= 0.499 for earlier, later in pairwise([start, *at[:-1]]))


def test_slow_run_keeps_a_line_for_every_tenth():
    clock, stream = Clock(), io.StringIO()
    report = reporter(True, 10, stream=stream, clock=clock)
    for minute in range(10 * 24 * 60):  # a day for each item
        report(minute // (24 * 60), 0)
        clock.now += 60
    report.close(10, 0)
    lines = stream.getvalue().splitlines()
    assert len(lines) <= 20
    assert {line.split()[0] for line in lines} == {f"{done}/10" for done in range(11)}


# -- a terminal


def test_terminal_redraws_one_line_and_ends_it():  # S072
    clock, stream = Clock(), Terminal()
    drive(reporter(True, 100, stream=stream, clock=clock, label="hash"), clock, 20, steadily(100, 20))
    text = stream.getvalue()
    assert "\x1b" not in text and text.count("\n") == 1
    first, *_, last = text.split("\r")[1:]
    assert first == "hash: 2/100 (2%), 4/s, eta 24 s"
    assert last.rstrip(" \n") == "hash: 100/100 (100%), 5/s, 20 s" and last.endswith("\n")
    assert 100 < text.count("\r") <= 10 * 20 + 1


def test_terminal_blanks_out_what_a_longer_line_left():
    clock, stream = Clock(), Terminal()
    drive(reporter(True, 1000, stream=stream, clock=clock), clock, 5, lambda elapsed: 1 if elapsed < 2 else 1000)
    cells = stream.getvalue().rstrip("\n").split("\r")[1:]
    for before, after in pairwise(cells):
        assert len(after) >= len(before.rstrip())


def test_nothing_is_drawn_before_half_a_second():
    clock, stream = Clock(), Terminal()
    report = reporter(True, 10, stream=stream, clock=clock)
    while clock.now < 1000.5:
        report(1, 0)
        clock.now += TICK
    assert stream.getvalue() == ""
    report(1, 0)
    assert stream.getvalue() == "\r1/10 (10%), 2/s, eta 4.5 s"


@pytest.mark.parametrize("columns", [0, 10, 33, 200])
def test_terminal_line_fits_the_width(columns: int):
    termios = pytest.importorskip("termios")
    leader, follower = os.openpty()
    try:
        if columns:
            termios.tcsetwinsize(follower, (24, columns))
        clock = Clock()
        with open(follower, "w", closefd=False) as stream:
            assert stream.isatty()
            report = reporter(True, 1000, stream=stream, clock=clock, label="a rather long label " * 6)
            drive(report, clock, 1, steadily(1000, 1))
        drawn = ""
        while not drawn.endswith("\n"):
            drawn += os.read(leader, 100_000).decode()
    finally:
        os.close(leader)
        os.close(follower)
    assert "\x1b" not in drawn and drawn.count("\n") == 1
    for line in drawn.rstrip("\r\n").split("\r")[1:]:
        assert len(line) <= (columns or 80) - 1


# -- streams that fail


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


class BrokenTerminal(Broken):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [closed(), Broken(), BrokenTerminal(), object()], ids=lambda s: type(s).__name__)
def test_stream_that_fails_does_not_disturb_the_run(stream):
    clock = Clock()
    drive(reporter(True, 10, stream=stream, clock=clock), clock, 3, steadily(10, 3))


def test_stream_that_closes_midway_ends_the_drawing():
    clock, stream = Clock(), Terminal()
    report = reporter(True, 10, stream=stream, clock=clock)
    clock.now += 1
    report(1, 0)
    stream.close()
    drive(report, clock, 3, steadily(10, 3))


def test_without_stderr_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", None)
    clock = Clock()
    drive(reporter(True, 10, clock=clock), clock, 3, steadily(10, 3))


def test_stderr_is_the_default(capsys: pytest.CaptureFixture[str]):
    reporter(True, 2, clock=Clock()).close(2, 0)
    assert capsys.readouterr() == ("", "2/2 (100%), 0.0 s\n")


# -- a notebook


class Kernel:
    """What IPython shows of itself inside a kernel; `shown` holds what display and update were given, rendered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, shell: str = "ZMQInteractiveShell") -> None:
        self.displays = 0
        self.shown: list[str] = []
        ipython, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
        instance = type(shell, (type("ZMQInteractiveShell", (), {}),) if shell == "Hosted" else (), {})()
        ipython.get_ipython = lambda: instance  # type: ignore[attr-defined]
        display.display = self.display  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def display(self, shown, *, display_id: bool):
        assert display_id is True
        self.displays += 1
        self.update(shown)
        return self

    def update(self, shown) -> None:
        self.shown.append(shown._repr_html_())


@pytest.mark.parametrize("shell", ["ZMQInteractiveShell", "Hosted"])
def test_kernel_has_one_display_that_is_updated(monkeypatch, capsys, shell):
    kernel, clock = Kernel(monkeypatch, shell), Clock()
    drive(reporter(True, 50, clock=clock, label="a<b"), clock, 10, steadily(50, 10))
    assert kernel.displays == 1
    assert 20 < len(kernel.shown) <= 4 * 10 + 1
    assert '<progress value="4" max="100"' in kernel.shown[0]
    assert '<progress value="100" max="100"' in kernel.shown[-1]
    assert "<span>a&lt;b: 50/50 (100%), 5/s, 10 s</span>" in kernel.shown[-1]
    assert "<script" not in kernel.shown[-1] and "color" not in kernel.shown[-1]
    assert capsys.readouterr() == ("", "")


def test_kernel_shows_no_bar_without_a_total(monkeypatch):
    kernel, clock = Kernel(monkeypatch), Clock()
    drive(reporter(True, None, clock=clock), clock, 0.25, steadily(5, 0.25))
    assert kernel.shown == ["<div><span>5 done, 20/s, 0.2 s</span></div>"]


def test_terminal_ipython_is_no_kernel(monkeypatch, capsys):
    kernel = Kernel(monkeypatch, "TerminalInteractiveShell")
    reporter(True, 2, clock=Clock()).close(2, 0)
    assert (kernel.displays, capsys.readouterr().err) == (0, "2/2 (100%), 0.0 s\n")


def test_stream_given_is_used_in_a_kernel_too(monkeypatch):
    kernel, stream = Kernel(monkeypatch), io.StringIO()
    reporter(True, 2, stream=stream, clock=Clock()).close(2, 0)
    assert (kernel.displays, stream.getvalue()) == (0, "2/2 (100%), 0.0 s\n")


def test_display_that_fails_does_not_disturb_the_run(monkeypatch):
    kernel, clock = Kernel(monkeypatch), Clock()
    monkeypatch.setattr(kernel, "update", lambda shown: 1 / 0)
    drive(reporter(True, 50, clock=clock), clock, 10, steadily(50, 10))


def test_in_a_real_kernel_one_output_is_left():
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    cell = nbformat.v4.new_code_cell(
        "from fanwidth.progress import reporter\n"
        "now = 0.0\n"
        "with reporter(True, 40, clock=lambda: now) as report:\n"
        "    for done in range(41):\n"
        "        report(done, 0)\n"
        "        now += 0.25\n"
    )
    notebook = nbformat.v4.new_notebook(cells=[cell])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the client's and the kernel manager's own
        nbclient.NotebookClient(notebook, timeout=50, kernel_name="python3").execute()
    [output] = notebook.cells[0].outputs
    assert output.output_type == "display_data"
    assert output.data["text/plain"] == "40/40 (100%), 3.9/s, 10 s"
    assert '<progress value="100" max="100"' in output.data["text/html"]


def test_progress_imports_neither_ipython_nor_another_thread(run_child):  # S072
    code = (
        "import sys, threading\n"
        "from fanwidth.progress import reporter\n"
        "with reporter(True, 50) as report:\n"
        "    report(50, 0)\n"
        "assert 'IPython' not in sys.modules\n"
        "assert threading.active_count() == 1\n"
    )
    child = run_child(code)
    assert (child.returncode, child.stdout) == (0, "")
    assert child.stderr.startswith("50/50 (100%)") and child.stderr.count("\n") == 1
