"""Runs for code that is on an event loop already: async callables on that loop, sync and native actions on threads beside it."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from . import _core, native, strategies
from ._core import CancelToken, Feed
from .actions import NativeAction
from .feed import CANCEL, TICK_SECONDS, Report, Tap, close_source, is_async, open_feed, report_progress, runs_bytecode, to_record
from .loop import Session, resolve
from .options import Options
from .record import Record
from .runs import Run
from .source import Source
from .threads import Crew, facts, most_threads, new_thread

Cancelled = asyncio.CancelledError | None

_BREATH_SECONDS = 0.005
"""The most time for which starting threads keeps the caller's loop from everything else."""


async def run(strategy: str, action: Any, items: Any, given: dict[str, Any]) -> Run:
    """A run on the loop that is running."""
    source, options = strategies.check(strategy, action, items, given)
    if options.loop_factory is not None:
        raise ValueError("loop_factory is for runs from sync code: fw.aio runs on the loop that is running")
    report = strategies.reporting(options, source)
    try:
        record, source = await execute(action, source, options, report)
    except BaseException:
        if report is not None:
            report.abandon()
        raise
    if report is not None:
        report.close(record)
    return strategies.finish(record, action, source, options)


async def execute(
    action: Any, source: Source, options: Options, report: Report | None, tap: Tap | None = None
) -> tuple[Record, Source]:
    """Runs an action of any kind to its end; gives the source too, for when_all has read it.

    CancelledError where the task was cancelled, once nothing of the run is running.
    """
    if isinstance(action, NativeAction):
        return await _native(action, source, options, report)
    if is_async(action) or source.asynchronous:
        opened = asyncio.get_running_loop().time()
        feed, iterator = open_feed(action, source, options, tap, on_loop=True)
        session = Session(feed, [], source, options, iterator, opened)
        try:
            await session.run(report)
        except asyncio.CancelledError:
            _tell(tap, session.record())
            raise
        return session.record(), source
    return await _threads(action, source, options, report, tap), source


async def _threads(action: Any, source: Source, options: Options, report: Report | None, tap: Tap | None) -> Record:
    feed, iterator = open_feed(action, source, options, tap, on_loop=False)
    most_threads(feed, options)
    crew = Crew(feed, options.setup)
    try:
        cancelled = await _attend(feed, crew, report)
    except BaseException:  # a second Ctrl-C does not wait for running sync callables
        feed.stop(CANCEL)
        feed.abandon()
        raise
    if feed.handing_over:
        session = Session(feed, crew.made, source, options, iterator)
        try:
            await session.run(report)
        except asyncio.CancelledError as error:
            cancelled = error
        crew.join()
        record = session.record()
    else:
        close_source(feed, iterator)
        crew.join()
        record = to_record(feed, options, facts(crew), refused=crew.refused)
    if cancelled is not None:
        _tell(tap, record)
        raise cancelled
    return record


def _tell(tap: Tap | None, record: Record) -> None:
    if tap is not None and tap.ended is not None:
        tap.ended(record)


async def _attend(feed: Feed, crew: Crew, report: Report | None) -> Cancelled:
    """As the calling thread does it in threads.py, but without ever waiting on the loop's thread."""
    loop = asyncio.get_running_loop()
    cancelled: Cancelled = None
    breathed = loop.time()
    while True:
        rung = loop.create_future()
        feed.listener = partial(loop.call_soon_threadsafe, resolve, rung)
        event = feed.attend(0)
        if event == "leave":
            return cancelled
        if event == "hire":
            crew.start()
            if loop.time() - breathed < _BREATH_SECONDS:
                continue
        else:
            report_progress(feed, report)
        try:
            await asyncio.wait([rung], timeout=0 if event == "hire" else TICK_SECONDS)
            breathed = loop.time()
        except asyncio.CancelledError as error:
            cancelled = error
            feed.stop(CANCEL)


class _OnLoop(Iterator[Any]):
    """A source that is asked on the loop's thread, by the engine on another."""

    def __init__(self, iterator: Iterator[Any], loop: asyncio.AbstractEventLoop) -> None:
        self.iterator = iterator
        self.loop = loop

    def __next__(self) -> Any:
        answer: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self.loop.call_soon_threadsafe(self._ask, answer)
        return answer.result()

    def _ask(self, answer: concurrent.futures.Future[Any]) -> None:
        try:
            answer.set_result(next(self.iterator))
        except BaseException as error:
            answer.set_exception(error)


async def _native(action: NativeAction, source: Source, options: Options, report: Report | None) -> tuple[Record, Source]:
    loop = asyncio.get_running_loop()
    origin_ns = _core.clock_ns()
    iterator = None if source.counted else native.iterator_of(source.items)
    asked = source
    if options.reads_ahead and iterator is not None:
        asked, raised = native.read_ahead(replace(source, items=iterator), options, origin_ns)
        if raised is not None:
            return native.never_started(asked, raised), asked
    elif runs_bytecode(iterator) and iterator is not None:
        asked = Source(_OnLoop(iterator, loop), source.total)
    token = CancelToken()
    counts = [(0, 0)]
    answer: asyncio.Future[tuple[Record, Source]] = loop.create_future()

    def settle(result: tuple[Record, Source] | None, error: BaseException | None) -> None:
        if error is not None:
            answer.set_exception(error)
        elif result is not None:
            answer.set_result(result)

    def thread_main() -> None:
        result, raised = None, None
        try:
            result = native.execute(action, asked, options, lambda *now: counts.append(now), token, origin_ns)
        except BaseException as error:
            raised = error
        with suppress(RuntimeError):  # the loop has closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, raised)

    thread = new_thread(thread_main, "fanwidth-engine")
    thread.start()
    cancelled: Cancelled = None
    interrupt: BaseException | None = None
    while not answer.done():
        try:
            await asyncio.wait([answer], timeout=TICK_SECONDS)
            if report is not None:
                del counts[:-1]
                report(*counts[-1])
        except asyncio.CancelledError as error:
            cancelled = error
            token.cancel()
        except BaseException as error:  # from the report: the engine's thread must not be left alone
            interrupt, report = error, None
            token.cancel()
    thread.join()
    unclosed = native.close(iterator)
    if cancelled is not None:
        raise cancelled
    record, read = answer.result()
    record.raised = interrupt or record.raised or unclosed
    return record, read if asked is source or options.reads_ahead else source
