"""The driver of async callables: workers on an event loop, no task per item. What a worker does is csrc/binding/coroutine.c."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any

from . import _core
from .feed import (
    CANCEL,
    SOURCE,
    TICK_SECONDS,
    TIMEOUT,
    Report,
    Tap,
    cause_of,
    close_source,
    open_feed,
    report_progress,
    to_record,
)
from .options import Options
from .record import Record
from .source import Source
from .threads import new_thread

_NS = 1e9
_FOREIGN_LOOP = ("attached to a different loop", "bound to a different event loop", "Event loop is closed")
_FOREIGN_LOOP_NOTE = (
    "What the action uses belongs to an event loop other than the run's: make it in setup=, "
    "whose value the action is given as its second argument."
)


class Session:
    """One run on an event loop: `await run()`, then `record()`."""

    def __init__(
        self,
        feed: _core.Feed,
        made: list[Any],
        source: Source,
        options: Options,
        iterator: Any,
        opened: float | None = None,
    ) -> None:
        """`made`: what setup has given already. `opened`: when the feed was opened by the loop's clock, where it ran then."""
        self.feed = feed
        self.opened = opened
        self.made = made
        self.source = source
        self.options = options
        self.iterator = iterator
        self.closing = False

    async def run(self, report: Report | None = None) -> None:
        """Runs until nothing of it is running. CancelledError, after that, where the task was cancelled meanwhile."""
        cancelled: asyncio.CancelledError | None = None
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self.options.total_timeout) as timeout:
                    value = await self._set_up(stack)
                cancelled = await self._serve(value, report)
        except TimeoutError as error:
            if timeout.expired():
                self.feed.stop(TIMEOUT)
            else:
                self.feed.stop(SOURCE, error)
        except asyncio.CancelledError:
            self.feed.stop(CANCEL)
            raise
        except BaseException as error:  # of the setup: the jobs' own are outcomes
            self.feed.stop(cause_of(error), error)
        finally:
            close_source(self.feed, self.iterator)
        if cancelled is not None:
            raise cancelled

    async def _set_up(self, stack: AsyncExitStack) -> Any:
        if self.options.setup is None:
            return None
        value = self.made.pop() if self.made else self.options.setup()
        for unused in self.made:
            with suppress(AttributeError):
                unused.close()
        if hasattr(value, "__aenter__"):
            return await stack.enter_async_context(value)
        if hasattr(value, "__await__"):
            value = await value
        if hasattr(value, "__enter__") and hasattr(value, "__exit__"):
            return stack.enter_context(value)
        return value

    async def _serve(self, value: Any, report: Report | None) -> asyncio.CancelledError | None:
        feed, loop = self.feed, asyncio.get_running_loop()
        feed.use_loop(loop, asyncio.current_task(), value)
        feed.governor = partial(loop.call_soon_threadsafe, feed.look)
        timers = _Timers(loop, feed, self.options, report, self.opened)
        puller = loop.create_task(self._pull()) if self.source.asynchronous else None
        cancelled = None
        try:
            if not (puller and self.options.reads_ahead):
                feed.launch()
            while not feed.over or feed.alive:
                closed = loop.create_future()
                feed.closer = partial(resolve, closed)
                try:
                    await closed
                except asyncio.CancelledError as error:
                    cancelled = error
                    feed.stop(CANCEL)
            if puller is not None and not self.closing:  # an async generator that is being closed comes to its end by itself
                puller.cancel()
            while puller is not None and not puller.done():
                try:
                    await asyncio.wait([puller])
                except asyncio.CancelledError as error:
                    if cancelled is not None:  # the second time: whoever insists does not wait for the generator
                        puller.cancel()
                    cancelled = error
        finally:
            timers.close()
            feed.governor = None  # it refers to the feed
        return cancelled

    async def _pull(self) -> None:
        """Asks an async iterable, one item at a time, and as the only one."""
        feed, iterator = self.feed, self.iterator
        try:
            if self.options.reads_ahead:
                await self._read(iterator)
            else:
                await self._offer_as_wanted(iterator)
        except asyncio.CancelledError as error:
            if not feed.over:
                feed.stop(SOURCE, error)
        except BaseException as error:
            feed.stop(cause_of(error), error)
        finally:
            await self._close(iterator)

    async def _read(self, iterator: AsyncIterator[Any]) -> None:
        items = []
        try:
            async for item in iterator:
                items.append(item)
        finally:
            self.feed.pulled = len(items)
        if not self.feed.over:
            self.feed.give(items)
            self.feed.launch()

    async def _offer_as_wanted(self, iterator: AsyncIterator[Any]) -> None:
        feed, loop = self.feed, asyncio.get_running_loop()
        while not feed.over:
            if not feed.wants_item:
                room = loop.create_future()
                feed.listener = partial(resolve, room)
                await room
                continue
            asked_ns = feed.now_ns
            try:
                item = await anext(iterator)
            except StopAsyncIteration:
                feed.end()
                return
            finally:
                feed.pulling_ns += feed.now_ns - asked_ns
            feed.offer(item)

    async def _close(self, iterator: Any) -> None:
        self.closing = True
        if not hasattr(iterator, "aclose"):
            return
        try:
            await iterator.aclose()
        except BaseException as error:
            self.feed.stop(SOURCE, error)

    def record(self) -> Record:
        record = to_record(self.feed, self.options, {"driver": "asyncio"})
        for error in [record.raised, *(failure[2] for failure in record.failures)]:
            note_foreign_loop(error)
        return record


def note_foreign_loop(error: BaseException | None) -> None:
    """An error about a loop that is not the run's learns what to do about it."""
    if not isinstance(error, RuntimeError) or _FOREIGN_LOOP_NOTE in getattr(error, "__notes__", ()):
        return
    if any(text in str(error) for text in _FOREIGN_LOOP):
        error.add_note(_FOREIGN_LOOP_NOTE)


class _Timers:
    """What a run does from time to time on its loop: look at the token, report, and cancel what is late."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        feed: _core.Feed,
        options: Options,
        report: Report | None,
        opened: float | None,
    ) -> None:
        self.loop = loop
        self.feed = feed
        self.options = options
        self.report = report
        self.handles: dict[str, asyncio.TimerHandle] = {}
        if options.cancel is not None or report is not None:
            self._tick()
        if options.total_timeout is not None:
            spent = loop.time() - opened if opened is not None else feed.now_ns / _NS
            self.handles["total"] = loop.call_later(max(0, options.total_timeout - spent), feed.stop, TIMEOUT)
        if options.item_timeout is not None:
            self.handles["items"] = loop.call_later(options.item_timeout, self._expire)

    def _tick(self) -> None:
        self.feed.look()
        report_progress(self.feed, self.report)
        self.handles["tick"] = self.loop.call_later(TICK_SECONDS, self._tick)

    def _expire(self) -> None:
        """Items that start from now on cannot be late before another item_timeout has passed."""
        now = self.loop.time()
        at = self.feed.expire(now)
        self.handles["items"] = self.loop.call_at(min(at, now + (self.options.item_timeout or math.inf)), self._expire)

    def close(self) -> None:
        for handle in self.handles.values():
            handle.cancel()


def resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def execute(action: Any, source: Source, options: Options, report: Report | None, tap: Tap | None = None) -> Record:
    """Runs an async callable to its end, on a loop of its own."""
    feed, iterator = open_feed(action, source, options, tap, on_loop=True)
    return go_on(feed, [], source, options, iterator, report)


def go_on(feed: _core.Feed, made: list[Any], source: Source, options: Options, iterator: Any, report: Report | None) -> Record:
    """Runs a feed to its end on a loop of its own: on the calling thread, or beside the loop that runs there already."""
    session = Session(feed, made, source, options, iterator)
    if _loop_runs_here():
        _run_beside(session, report)
        return session.record()
    try:
        _run(session.run(report), options)
    except BaseException as error:  # Ctrl-C, what the handler of another signal raised, or a loop factory
        feed.stop(cause_of(error), error)
    return session.record()


def _loop_runs_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run(main: Coroutine[Any, Any, None], options: Options) -> None:
    # A factory keeps the Runner from making its loop the thread's current one, which would be gone afterwards.
    with asyncio.Runner(loop_factory=options.loop_factory or asyncio.new_event_loop) as runner:
        runner.run(main)


def _run_beside(session: Session, report: Report | None) -> None:
    """In a helper thread. Ctrl-C comes to the calling thread, which waits; a second one does not."""
    feed = session.feed
    loops: list[asyncio.AbstractEventLoop] = []
    errors: list[BaseException] = []
    over = threading.Event()  # not is_alive(): a join() that Ctrl-C interrupts takes a running thread for dead in 3.11

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        await session.run()

    def thread_main() -> None:
        try:
            _run(main(), session.options)
        except BaseException as error:  # a loop factory's, say
            errors.append(error)
        finally:
            over.set()

    thread = new_thread(thread_main, "fanwidth-loop")
    thread.start()
    interrupt: BaseException | None = None
    while not over.is_set():
        try:
            over.wait(TICK_SECONDS)
            report_progress(feed, report)
        except BaseException as error:  # Ctrl-C, or what the handler of another signal raised
            if interrupt is not None or isinstance(feed.raised, KeyboardInterrupt):
                feed.abandon()
                return
            interrupt = error
        if interrupt is not None and loops:  # it may come before the loop is there
            with suppress(RuntimeError):  # it has closed just now
                loops.pop().call_soon_threadsafe(feed.stop, cause_of(interrupt), interrupt)
    try:
        thread.join()
    except BaseException as error:
        interrupt = error
    if interrupt is not None:  # it may have come when the loop was gone
        feed.stop(cause_of(interrupt), interrupt)
    for failure in errors:
        feed.stop(SOURCE, failure)
