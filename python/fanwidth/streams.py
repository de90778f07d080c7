"""`fw.stream` and `fw.aio.stream`: the outcomes of a run one by one, as they complete."""

from __future__ import annotations

import sys
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from . import strategies
from ._core import Feed
from .actions import NativeAction
from .background import Background
from .checks import check_count
from .feed import Tap
from .record import Record
from .runs import STATES, Outcome, Run
from .source import Source
from .stats import NS

if TYPE_CHECKING:
    import asyncio

Row = tuple[int, Any, int, Any, BaseException | None, int, int]


class _Plan:
    """The checked arguments of a stream, and what becomes of its rows."""

    def __init__(self, action: Any, items: Any, strategy: str, ordered: bool, buffer: Any, given: dict[str, Any]) -> None:
        given = {"errors": "keep", "keep": "summary", **given}
        if given["keep"] == "all":
            raise ValueError('keep="all" is not for streams, which give their results away (use keep="samples" or "summary")')
        if given.get("progress", False) is not False:
            raise ValueError("progress is for runs that are waited for (a stream shows its progress by what it gives)")
        if given.get("clock", "real") != "real":
            raise ValueError('clock="virtual" is not for streams, whose consumer lives in real time')
        self.source, self.options = strategies.check(strategy, action, items, given)
        self.given_action = self.action = action
        self.ordered = bool(ordered)
        self.numbered = isinstance(action, NativeAction)
        limit = self.options.limit or 0
        self.buffer = max(64, 2 * limit) if buffer is None else check_count("buffer", buffer, 1)
        if isinstance(action, NativeAction):
            from .imitation import imitate

            self.action, self.source = imitate(action, self.source, self.options)

    def outcome(self, row: Row) -> Outcome:
        index, item, state, result, exception, start_ns, finish_ns = row
        if exception is not None and "asyncio" in sys.modules:
            from .loop import note_foreign_loop

            note_foreign_loop(exception)
        item = item[1] if self.numbered else item
        return Outcome(index, item, STATES[state], result, exception, start_ns / NS, finish_ns / NS)

    def finish(self, record: Record) -> Run:
        return strategies.finish(record, self.given_action, self.source, self.options)


class _Outlet:
    """Rows in the order in which they are to be given: as they came, or by index."""

    def __init__(self, ordered: bool) -> None:
        self.ordered = ordered
        self.ready: deque[Row] = deque()
        self.held: dict[int, Row] = {}
        self.next = 0

    def put(self, rows: list[Row]) -> None:
        if not self.ordered:
            self.ready.extend(rows)
            return
        self.held.update((row[0], row) for row in rows)
        while self.next in self.held:
            self.ready.append(self.held.pop(self.next))
            self.next += 1


class Stream:
    """The outcomes of a run as they complete: `with fw.stream(...) as outcomes: for outcome in outcomes: ...`.

    Used with `with`, iterated once. Outcomes never raise by themselves, `outcome.get()` does; what the source raises, and
    what else ends a run whatever the error policy, is raised after the last outcome. Leaving the `with` block ends the run.
    """

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        self._outlet = _Outlet(plan.ordered)
        self._background: Background | None = None
        self._run: Run | None = None
        self._ended = False

    def __enter__(self) -> Stream:
        if self._background is not None:
            raise RuntimeError("a stream is used once: make a new one with fw.stream(...)")
        plan = self._plan
        self._background = Background(plan.action, plan.source, plan.options, plan.buffer)
        self._background.start()
        return self

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Outcome:
        if self._background is None:
            raise RuntimeError("a stream is used with `with`: with fw.stream(...) as outcomes: ...")
        while not self._outlet.ready:
            if self._ended or not self._fill(self._background):
                self._finish(self._background)
                raise StopIteration
        row = self._outlet.ready.popleft()
        self._feed.taken()
        return self._plan.outcome(row)

    def _fill(self, background: Background) -> bool:
        """Waits for outcomes; False where there will be no more."""
        over = background.over
        rows = self._feed.collect()
        if not rows:
            if over:
                return False
            bell = threading.Event()
            self._feed.reader = bell.set
            rows = self._feed.collect()
            if not rows and not background.over:
                bell.wait()
        self._outlet.put(rows)
        return True

    @property
    def _feed(self) -> Feed:
        assert self._background is not None
        if self._background.feed is None:  # it ended before it began
            self._background.wait()
        assert self._background.feed is not None
        return self._background.feed

    def _finish(self, background: Background) -> None:
        """Raises once what ends a run whatever the error policy."""
        if self._ended:
            return
        self._ended = True
        background.wait()
        assert background.record is not None
        try:
            self._run = self._plan.finish(background.record)
        except BaseException as error:
            self._run = getattr(error, "run", None)
            raise

    def close(self) -> None:
        """Ends the run: nothing new starts, what is in flight is cancelled as far as it can be. Waits for its end."""
        background = self._background
        if background is None or self._ended:
            return
        self._ended = True
        background.cancel()
        background.wait()
        if background.record is not None:
            self._run = Run(background.record, self._plan.given_action, self._plan.source, self._plan.options)

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def run(self) -> Run:
        """The run, once all outcomes have been given or the stream has been closed."""
        if self._run is None:
            raise RuntimeError("the stream has not ended: its run is there after the last outcome or close()")
        return self._run


class AsyncStream:
    """As Stream, on the caller's loop: `async with fw.aio.stream(...) as outcomes: async for outcome in outcomes: ...`."""

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        self._outlet = _Outlet(plan.ordered)
        self._task: asyncio.Task[tuple[Record, Source]] | None = None
        self._feed: Feed | None = None
        self._run: Run | None = None
        self._record: Record | None = None
        self._ended = False

    async def __aenter__(self) -> AsyncStream:
        import asyncio

        from . import beside

        if self._task is not None:
            raise RuntimeError("a stream is used once: make a new one with fw.aio.stream(...)")
        plan = self._plan
        tap = Tap(self._open, plan.buffer, self._keep)
        self._task = asyncio.create_task(beside.execute(plan.action, plan.source, plan.options, None, tap))
        return self

    def _open(self, feed: Feed) -> None:
        self._feed = feed

    def _keep(self, record: Record) -> None:
        self._record = record

    def __aiter__(self) -> AsyncStream:
        return self

    async def __anext__(self) -> Outcome:
        if self._task is None:
            raise RuntimeError("a stream is used with `async with`: async with fw.aio.stream(...) as outcomes: ...")
        while not self._outlet.ready:
            if self._ended or not await self._fill(self._task):
                await self._finish(self._task)
                raise StopAsyncIteration
        row = self._outlet.ready.popleft()
        if self._feed is not None:
            self._feed.taken()
        return self._plan.outcome(row)

    async def _fill(self, task: asyncio.Task[Any]) -> bool:
        """Waits for outcomes; False where there will be no more."""
        import asyncio

        from .loop import resolve

        over = task.done()
        rows = [] if self._feed is None else self._feed.collect()
        if not rows:
            if over:
                return False
            loop = asyncio.get_running_loop()
            bell = loop.create_future()
            if self._feed is None:
                await asyncio.sleep(0)  # the task has not made its first step
                return True
            self._feed.reader = partial(loop.call_soon_threadsafe, resolve, bell)
            rows = self._feed.collect()
            if not rows:
                await asyncio.wait([bell, task], return_when=asyncio.FIRST_COMPLETED)
        self._outlet.put(rows)
        return True

    async def _finish(self, task: asyncio.Task[tuple[Record, Source]]) -> None:
        if self._ended:
            return
        self._ended = True
        record, _ = await task
        try:
            self._run = self._plan.finish(record)
        except BaseException as error:
            self._run = getattr(error, "run", None)
            raise

    async def aclose(self) -> None:
        """Ends the run, and returns once nothing of it is running."""
        import asyncio

        task = self._task
        if task is None or self._ended:
            return
        self._ended = True
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is None:  # it had ended; whoever leaves early does not ask for an error
            self._record, _ = task.result()
        if self._record is not None:
            self._run = Run(self._record, self._plan.given_action, self._plan.source, self._plan.options)

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def run(self) -> Run:
        """The run, once all outcomes have been given or the stream has been closed."""
        if self._run is None:
            raise RuntimeError("the stream has not ended: its run is there after the last outcome or aclose()")
        return self._run


def stream(
    action: strategies.Action,
    items: Any,
    *,
    strategy: str = "bounded",
    ordered: bool = False,
    buffer: int | None = None,
    **options: Any,
) -> Stream:
    """The outcomes of a run as they complete, to be used with `with` and iterated once.

    ordered: in source order; starts are not held back, so that what completes early waits in memory.
    buffer: so many outcomes may have finished and not been taken (default max(64, 2 * limit)); then nothing new starts.
    The other arguments are those of `fw.run`, but errors="keep" and keep="summary" by default. The source is asked on a
    thread of the run's. Native actions run as callables would, so that each outcome can be given at once.
    """
    return Stream(_Plan(action, items, strategy, ordered, buffer, options))


def async_stream(
    action: strategies.Action,
    items: Any,
    *,
    strategy: str = "bounded",
    ordered: bool = False,
    buffer: int | None = None,
    **options: Any,
) -> AsyncStream:
    """As `fw.stream`, on the loop that is running, to be used with `async with` and iterated once with `async for`."""
    return AsyncStream(_Plan(action, items, strategy, ordered, buffer, options))
