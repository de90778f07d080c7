"""The driver of sync callables: up to `limit` threads that the run owns. What a thread does is csrc/binding/threads.c."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from typing import Any

from . import _core
from .feed import MAX_THREADS, SOURCE, TICK_SECONDS, Report, Tap, cause_of, close_source, open_feed, report_progress, to_record
from .options import Options
from .record import Record
from .source import Source


def is_asynchronous(value: Any) -> bool:
    """Whether what `setup` has given can only be used on an event loop."""
    return inspect.isawaitable(value) or (hasattr(value, "__aenter__") and not hasattr(value, "__enter__"))


def new_thread(target: Callable[[], object], name: str) -> threading.Thread:
    """A thread in a copy of the caller's context, for which the interpreter does not wait when it ends."""
    run = copy_context().run
    try:
        return threading.Thread(target=run, args=(target,), name=name, daemon=True)
    except RuntimeError:  # a subinterpreter may have no such threads
        return threading.Thread(target=run, args=(target,), name=name, daemon=False)


class Crew:
    """The threads of one run. All methods but those of the threads themselves are the calling thread's."""

    def __init__(self, feed: _core.Feed, setup: Callable[[], Any] | None) -> None:
        self.feed = feed
        self.setup = setup
        self.threads: list[threading.Thread] = []
        self.refused = False
        self.made: list[Any] = []
        """What `setup` gave to threads that could not use it."""
        self.over = threading.Event()
        """Set when the values of `setup` are no longer needed: an action that turned out to be async may await with them."""

    def start(self) -> None:
        """One thread more, or none where the system has no more: then the run goes on with those there are."""
        name = f"fanwidth-{len(self.threads) + 1}"
        thread = new_thread(self._run, name)
        hired = self.feed.hired_ever
        try:
            self.feed.hire()
            thread.start()
        except RuntimeError as error:
            self._refuse(error)
        except BaseException:  # a signal: nobody knows whether the thread has started
            if _comes(thread):
                self.threads.append(thread)
            elif self.feed.hired_ever > hired:
                self.feed.leave(False)
            raise
        else:
            self.threads.append(thread)

    def _refuse(self, error: RuntimeError) -> None:
        self.refused = True
        self.feed.leave(False)
        self.feed.most_threads = self.feed.hired
        if self.feed.hired == 0:
            self.feed.stop(SOURCE, error)

    def _run(self) -> None:
        came = False
        try:
            with _opened(self.setup, self.made, self.feed) as values:
                came = True
                self.feed.work(*values)
                if values and self.feed.handing_over:
                    self.over.wait()
        except BaseException as error:  # of the setup: the jobs' own are outcomes
            self.feed.stop(cause_of(error), error)
        finally:
            self.feed.leave(came)

    def join(self) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()


def _comes(thread: threading.Thread) -> bool:
    deadline = time.monotonic() + 1
    while thread.ident is None and time.monotonic() < deadline:
        time.sleep(0.001)
    return thread.ident is not None


def _opened(setup: Callable[[], Any] | None, made: list[Any], feed: _core.Feed) -> AbstractContextManager[tuple[Any, ...]]:
    """A context manager that gives the arguments of `work`, and closes what `setup` has opened."""
    if setup is None:
        return nullcontext(())
    value = setup()
    if is_asynchronous(value):
        made.append(value)
        feed.hand_over()
        return nullcontext((None,))
    return _Entered(value) if hasattr(value, "__enter__") and hasattr(value, "__exit__") else nullcontext((value,))


class _Entered:
    """A context manager whose value comes as the one member of a tuple."""

    def __init__(self, manager: Any) -> None:
        self.manager = manager

    def __enter__(self) -> tuple[Any]:
        return (self.manager.__enter__(),)

    def __exit__(self, *exception: Any) -> Any:
        return self.manager.__exit__(*exception)


def most_threads(feed: _core.Feed, options: Options) -> None:
    """when_all names no limit, so it is the only strategy with a ceiling of ours: said in `limited_by`."""
    if options.limit is None:
        feed.most_threads = MAX_THREADS


def execute(action: Any, source: Source, options: Options, report: Report | None, tap: Tap | None = None) -> Record:
    """Runs a sync callable to its end. One that turns out to give awaitables goes on in the asyncio driver."""
    feed, iterator = open_feed(action, source, options, tap, on_loop=False)
    most_threads(feed, options)
    crew = Crew(feed, options.setup)
    if not _attend(feed, crew, report):
        close_source(feed, iterator)
        return to_record(feed, options, facts(crew), refused=crew.refused)  # the threads that go on are abandoned
    if feed.handing_over:
        from . import loop

        record = loop.go_on(feed, crew.made, source, options, iterator, report)
        _wait(feed, crew)
        return record
    close_source(feed, iterator)
    _wait(feed, crew)
    return to_record(feed, options, facts(crew), refused=crew.refused)


def facts(crew: Crew) -> dict[str, Any]:
    return {"driver": "threads", "threads": len(crew.threads)}


def _attend(feed: _core.Feed, crew: Crew, report: Report | None) -> bool:
    """Serves the run until its last thread has left. False: a second Ctrl-C, and the threads that still run are abandoned."""
    interrupted = False
    while True:
        try:
            event = feed.attend(TICK_SECONDS)
            if event == "leave":
                return True
            if event == "hire":
                crew.start()
            else:
                report_progress(feed, report)
        except BaseException as error:  # Ctrl-C, or what the handler of another signal raised
            if interrupted or isinstance(feed.raised, KeyboardInterrupt):
                feed.abandon()
                return False
            interrupted = True
            feed.stop(cause_of(error), error)


def _wait(feed: _core.Feed, crew: Crew) -> None:
    """Joins the threads, which have nothing left to do but to end."""
    try:
        crew.join()
    except BaseException as error:
        feed.stop(cause_of(error), error)
        crew.join()
