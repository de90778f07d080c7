"""Progress of a run: what the drivers report, turned into a terminal line, a notebook display, plain lines or calls.

Drivers call a `Reporter` on the calling thread about every 50 ms, so no thread is needed and nothing is drawn once it
is closed. A display is an ornament: whatever goes wrong while drawing ends the drawing, never the run.
"""

from __future__ import annotations

import inspect
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

_FIRST_DRAW_S = 0.5  # a run shorter than this shows its last line only
_MOST_LINES = 20  # of plain output, the last one included
_SHORTEST_SPAN_S = 1e-6  # a rate over less than this is noise, and may overflow
_WINDOW_S = (10.0, 300.0)
_POINTS_PER_WINDOW = 20

Clock = Callable[[], float]
Draw = Callable[["Progress", str, bool], object]  # the progress, the same in words, whether it is the last one


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is. `Meter` tells the rule of `rate` and `eta`."""

    done: int  # items that have ended, in whatever state
    total: int | None  # None: the source has no length
    failed: int  # of the done ones
    rate: float | None  # items per second; None: not known yet
    eta: float | None  # seconds until `done` is `total`; None: not known
    elapsed: float  # seconds since the run's start


class Meter:
    """Turns counts into a `Progress`, by the clock; any thread may read it.

    The rate is that of the last half of the run, but of at least its last 10 seconds and of at most its last 5 minutes:
    with half of the run in view, a batch of slow items that end together does not make it jump between nothing and too
    much. It looks back to the latest reading it remembers from before that span, so a meter read once a minute still
    measures what was done in between. `eta` is what remains at that rate: None at rate 0, 0.0 when nothing remains.
    """

    def __init__(self, total: int | None, *, clock: Clock = time.monotonic) -> None:
        self._total = total
        self._clock = clock
        self._start = clock()
        # (elapsed, done), oldest first; replaced as a whole and never changed, hence no lock.
        self._points: tuple[tuple[float, int], ...] = ((0.0, 0),)

    def read(self, done: int, failed: int = 0) -> Progress:
        """The progress at this moment, given what is done by now."""
        elapsed = max(0.0, self._clock() - self._start)
        window = min(max(elapsed / 2, _WINDOW_S[0]), _WINDOW_S[1])
        points = self._points
        while len(points) > 1 and points[1][0] <= elapsed - window:
            points = points[1:]
        span, gained = elapsed - points[0][0], max(0, done - points[0][1])
        if elapsed - points[-1][0] >= window / _POINTS_PER_WINDOW:
            points = (*points, (elapsed, done))
        self._points = points

        rate = gained / span if span >= _SHORTEST_SPAN_S else None
        eta = None
        if self._total is not None:
            remaining = max(0, self._total - done)
            eta = 0.0 if remaining == 0 else remaining / rate if rate else None
        return Progress(done, self._total, failed, rate, eta, elapsed)


class Reporter:
    """What a driver calls: `report(done, failed)` as often as it likes, `close(done, failed)` once at the end.

    Both run on the caller's thread. As a context manager it closes itself with the last counts it was given. After
    `close` every further call is ignored. An exception that is no `Exception` (Ctrl-C) passes through from the callable
    or the drawing; so does the warning about a failing callable, where the user has made warnings errors.
    """

    def __init__(self, draw: Draw, meter: Meter, label: str, *, first: float, every: float, warn: bool) -> None:
        self._draw: Draw | None = draw  # None: closed, or it failed
        self._meter = meter
        self._label = label
        self._due = first  # seconds since the start
        self._every = every
        self._warn = warn
        self._counts = (0, 0)

    def __call__(self, done: int, failed: int) -> None:
        if self._draw is None:
            return
        self._counts = (done, failed)
        progress = self._meter.read(done, failed)
        if progress.elapsed >= self._due:
            self._due = progress.elapsed + self._every
            self._show(self._draw, progress, False)

    def close(self, done: int | None = None, failed: int | None = None) -> None:
        """Show the final counts (by default the last reported ones), then nothing any more."""
        draw, self._draw = self._draw, None
        if draw is not None:
            reported = self._counts
            counts = (reported[0] if done is None else done, reported[1] if failed is None else failed)
            self._show(draw, self._meter.read(*counts), True)

    def _show(self, draw: Draw, progress: Progress, last: bool) -> None:
        try:
            draw(progress, self._label + _text(progress, last), last)
        except Exception as error:
            self._draw = None
            if self._warn:
                _warn(error)

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def reporter(
    progress: bool | Callable[[Progress], object],
    total: int | None,
    *,
    label: str = "",
    stream: TextIO | None = None,
    clock: Clock = time.monotonic,
) -> Reporter | None:
    """The reporter for a run's `progress` argument; None for False. The run's time starts with this call.

    True draws: in a Jupyter kernel one display that is updated (unless `stream` is given), else to `stream` (by default
    sys.stderr) one line redrawn in place on a terminal, else at most 20 plain lines. The last line is always drawn, the
    others not before 0.5 s. A callable is called at most 10 times a second and once at the end; when it raises, there
    is one RuntimeWarning and it is not called again.
    """
    if progress is False:
        return None
    meter = Meter(total, clock=clock)
    if progress is True:
        label = "".join(c if c.isprintable() else " " for c in label) + ": " if label else ""
        draw, every = _display(stream)
        return Reporter(draw, meter, label, first=_FIRST_DRAW_S, every=every, warn=False)
    if not callable(progress) or inspect.iscoroutinefunction(progress):
        raise TypeError(f"progress must be True, False or a plain (not async) callable, got {progress!r}")
    return Reporter(lambda now, text, last: progress(now), meter, "", first=0, every=0.1, warn=True)


def _warn(error: Exception) -> None:
    """Warn that the callable raised; the warning points at the line in the callable."""
    import traceback

    text = "".join(traceback.format_exception_only(error)).strip()
    frames = [f for f in traceback.walk_tb(error.__traceback__) if f[0].f_globals is not globals()]
    file, line = (frames[0][0].f_code.co_filename, frames[0][1]) if frames else (__file__, 1)
    # No registry: by default a warning is shown once per line and text, but each run has to say it.
    warnings.warn_explicit(f"progress raised and is not called again: {text}", RuntimeWarning, file, line)


def _display(stream: TextIO | None) -> tuple[Draw, float]:
    """How to draw here, and the least time between two drawings (s)."""
    if stream is None and (show := _notebook()) is not None:
        return _Cell(show), 0.25
    stream = sys.stderr if stream is None else stream
    try:
        if stream.isatty():
            return _TerminalLine(stream), 0.1
    except Exception:
        pass  # closed, or no isatty: the first write finds out
    return _PlainLines(stream), _FIRST_DRAW_S


def _notebook() -> Callable[..., Any] | None:
    """IPython's `display` in a Jupyter kernel, else None. Never the first to import IPython."""
    shell: object = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    # By name, bases included: hosted notebooks derive their own shell from it.
    if any(base.__name__ == "ZMQInteractiveShell" for base in type(shell).__mro__):
        return getattr(sys.modules.get("IPython.display"), "display", None)
    return None


@dataclass
class _TerminalLine:
    """One line, redrawn by a carriage return and blanks alone: no escape codes, so no colours to switch off."""

    stream: TextIO
    shown: int = 0  # columns to blank out

    def __call__(self, progress: Progress, text: str, last: bool) -> None:
        try:
            columns = os.get_terminal_size(self.stream.fileno()).columns
        except (OSError, ValueError, AttributeError):
            columns = 0  # a new pseudo-terminal says so too
        room = (columns or 80) - 1  # in the last column some terminals wrap
        line = text[:room]
        self.stream.write("\r" + line.ljust(min(self.shown, room)) + ("\n" if last else ""))
        self.stream.flush()
        self.shown = len(line)


@dataclass
class _PlainLines:
    """Lines for a log, at most 20 however long the run takes.

    A line is due when another tenth is done, or after a silence that grows with each: doubled when the total is not
    known, else tripled, and only as long as enough lines are left for the tenths to come.
    """

    stream: TextIO
    left: int = _MOST_LINES - 1  # without the last
    tenth: int = 0
    silence: float = _FIRST_DRAW_S
    drawn: float = 0.0  # seconds since the start

    def __call__(self, progress: Progress, text: str, last: bool) -> None:
        if last or self.due(progress):
            self.stream.write(text + "\n")
            self.stream.flush()

    def due(self, progress: Progress) -> bool:
        known = bool(progress.total)
        before, self.tenth = self.tenth, min(9, _percent(progress) // 10) if known else 0  # the tenth is the last's
        silent = progress.elapsed - self.drawn >= self.silence and self.left > (9 - self.tenth if known else 0)
        if not silent and self.tenth <= before:
            return False
        if silent:
            self.silence *= 3 if known else 2
        self.left -= 1
        self.drawn = progress.elapsed
        return True


@dataclass(repr=False)
class _Cell:
    """One display of a notebook, updated in place; it is itself what is displayed."""

    show: Callable[..., Any]
    handle: Any = None

    def __call__(self, progress: Progress, text: str, last: bool) -> None:
        self.progress, self.text = progress, text
        if self.handle is None:
            self.handle = self.show(self, display_id=True)
        else:
            self.handle.update(self)

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        from html import escape

        # The browser's own bar and the page's own text colour fit light and dark pages alike. No bar without a total:
        # it would go on moving in the saved notebook.
        style = "width:16em;vertical-align:middle"
        bar = f'<progress value="{_percent(self.progress)}" max="100" style="{style}"></progress> '
        return f"<div>{bar if self.progress.total is not None else ''}<span>{escape(self.text)}</span></div>"


def _text(progress: Progress, last: bool) -> str:
    """`37/50 (74%), 1 failed, 12.3/s, eta 3.1 s`; the last one has the mean rate and the time taken."""
    known = progress.total is not None
    parts = [f"{progress.done}/{progress.total} ({_percent(progress)}%)" if known else f"{progress.done} done"]
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    rate = progress.rate
    if last:
        rate = progress.done / progress.elapsed if progress.elapsed >= _SHORTEST_SPAN_S else None
    if rate is not None:
        parts.append(f"{rate:,.0f}/s" if rate >= 100 else f"{rate:.3g}/s")
    if last:
        parts.append(_duration(progress.elapsed))
    elif progress.eta is not None:
        parts.append(f"eta {_duration(progress.eta)}")
    return ", ".join(parts)


def _percent(progress: Progress) -> int:
    """What part of the total is done, rounded down; of nothing, all is done."""
    return min(100, 100 * progress.done // progress.total) if progress.total else 100


def _duration(seconds: float) -> str:
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
