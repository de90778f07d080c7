"""A run on a thread of its own, for those who do something else meanwhile: a stream takes its outcomes, a handle watches it."""

from __future__ import annotations

import threading
from typing import Any

from . import native
from ._core import CancelToken, Feed
from .actions import NativeAction
from .feed import Tap, driver_of
from .options import Options
from .record import Record
from .source import Source
from .threads import new_thread

Counts = tuple[int, int, int]
"""In flight, done, failed."""


class Background:
    """One run. `start()`, then `wait()`; `record` and `source` once `wait()` has said True."""

    def __init__(self, action: Any, source: Source, options: Options, buffer: int | None = None) -> None:
        self.action = action
        self.source = source
        self.options = options
        self.buffer = buffer
        self.feed: Feed | None = None
        self.record: Record | None = None
        self.error: BaseException | None = None
        self._token = CancelToken()
        self._reported = (0, 0)
        self._opened = threading.Event()
        self._over = threading.Event()
        self._thread = new_thread(self._run, "fanwidth-run")

    def start(self) -> None:
        """Returns once the run can be watched, which for when_all is before its source is read."""
        self._thread.start()
        self._opened.wait()

    def _run(self) -> None:
        try:
            self.record = self._execute()
        except BaseException as error:
            self.error = error
        finally:
            self._opened.set()
            self._over.set()
            if self.feed is not None:
                self.feed.wake_reader()

    def _execute(self) -> Record:
        if isinstance(self.action, NativeAction):
            self._opened.set()
            record, self.source = native.execute(self.action, self.source, self.options, self._report, self._token)
            return record
        driver = driver_of(self.action, self.source)
        return driver(self.action, self.source, self.options, None, Tap(self._open, self.buffer))

    def _open(self, feed: Feed) -> None:
        self.feed = feed
        self._opened.set()

    def _report(self, done: int, failed: int) -> None:
        self._reported = (done, failed)

    def cancel(self) -> None:
        """What is in flight is cancelled as far as it can be, nothing new starts. From any thread; does not wait."""
        self._token.cancel()
        if self.feed is not None:
            self.feed.cancel()

    def wait(self, timeout: float | None = None) -> bool:
        """Whether the run has ended, waiting for it for up to `timeout` seconds."""
        if not self._over.wait(timeout):
            return False
        self._thread.join()
        if self.error is not None:
            raise self.error
        return True

    @property
    def over(self) -> bool:
        return self._over.is_set()

    def counts(self) -> Counts:
        if self.record is not None:
            ended = self.record.ledger.counts
            return 0, sum(ended[:4]), ended[1] + ended[2]
        if self.feed is None:  # a native run tells every 50 ms, and not what is in flight
            return 0, *self._reported
        ledger = self.feed.ledger
        ended = ledger.counts
        return ledger.started - ledger.finished, sum(ended[:4]), ended[1] + ended[2]
