"""The drivers as the contract suite sees them. A driver joins the suite by an entry in DRIVERS and says
there what it can do; native actions join by themselves.

The items of all tests are `Job`s. A trial runs them under one driver, strategy and clock and tells by index what became of each,
as an observer inside the jobs saw it where there is one, and else by the run's samples.
"""

import asyncio
import selectors
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import fanwidth as fw

LIMITED = ("for_each", "bounded", "chunked")
STRATEGIES = (*LIMITED, "when_all")
WINDOWS = ("for_each", "bounded")  # whose limit is a window


class Boom(Exception):
    pass


class Job(float):
    """An item that keeps its slot for that many seconds."""

    fails = False
    index: int

    @property
    def seconds(self) -> float:
        return float(self)


class Broken:
    """An item that fails after that many seconds; a native delay finds at once that it is no number."""

    fails = True
    index: int

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


@dataclass
class Trial:
    """What happened. Times are seconds since the run's start, None for never."""

    run: fw.Run | None
    error: BaseException | None
    start: list[float | None] = field(default_factory=list)
    finish: list[float | None] = field(default_factory=list)
    order: list[int] | None = None
    """Indices as the jobs saw themselves start; None where nobody watched."""
    took: float = 0.0
    """Real seconds of the whole call."""

    @property
    def states(self) -> list[str]:
        return [fw.STATES[state] for state in self.run.samples.state]

    @property
    def peak(self) -> int:
        """Most jobs at the same time, by their starts and finishes; one that starts as another ends is after it."""
        moments = [(when, 1) for when in self.start if when is not None]
        moments += [(when, -1) for when in self.finish if when is not None]
        peak = flying = 0
        for _, step in sorted(moments):
            flying += step
            peak = max(peak, flying)
        return peak


class Log:
    """Starts and finishes as the jobs themselves see them, under a lock: `list.append` alone would lose the order."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.lock = threading.Lock()
        self.origin = clock()
        self.start: dict[int, float] = {}
        self.finish: dict[int, float] = {}
        self.order: list[int] = []

    def begin(self, job: Any) -> None:
        with self.lock:
            self.start[job.index] = self.clock() - self.origin
            self.order.append(job.index)

    def end(self, job: Any) -> None:
        with self.lock:
            self.finish[job.index] = self.clock() - self.origin


@dataclass(frozen=True)
class Driver:
    """What a driver can do, and a way to run jobs under it."""

    name: str
    clocks: tuple[str, ...]
    call: Callable[..., fw.Run]  # (driver, strategy, clock, jobs, seconds, log, options) -> Run
    times: str = "own"  # each job takes its "own" time, all take the "same", or they take "none"
    fails: bool = True  # a job may fail of itself
    reads_values: bool = False  # when_all looks at the items, and refuses broken ones before it starts
    cancels: bool = True  # what is in flight can be cancelled
    is_exact: bool = True  # on the virtual clock a job takes its time and nothing else
    is_watched: bool = False  # jobs keep a log

    def unit(self, clock: str) -> float:
        """Seconds of one unit of a test: long on the virtual clock, where they cost nothing."""
        return 1.0 if clock == "virtual" else 0.005

    def trial(self, strategy: str, clock: str, jobs: Any, *, seconds: float = 0.0, **options: Any) -> Trial:
        """`seconds`: of each job, where all take the same. `limit` is left out for when_all."""
        if strategy == "when_all":
            options.pop("limit", None)
        if isinstance(jobs, list):
            for index, job in enumerate(jobs):
                job.index = index
        log = Log() if self.is_watched else None
        before = time.monotonic()
        error = None
        try:
            run = self.call(self, strategy, clock, jobs, seconds, log, options)
        except BaseException as raised:
            error, run = raised, getattr(raised, "run", None)
        trial = Trial(run, error, took=time.monotonic() - before)
        if run is None:
            return trial
        indices = range(run.counts.total)
        if log is not None:
            trial.start, trial.finish = [log.start.get(i) for i in indices], [log.finish.get(i) for i in indices]
            trial.order = log.order
        else:
            samples = run.samples
            trial.start = [None if ns < 0 else ns / 1e9 for ns in samples.start_ns]
            trial.finish = [None if ns < 0 else ns / 1e9 for ns in samples.finish_ns]
        return trial


# Native actions


def call_native(make: Callable[[float], fw.NativeAction]) -> Callable[..., fw.Run]:
    def call(driver, strategy, clock, jobs, seconds, log, options, run=fw.run):
        return run(make(seconds), jobs, strategy=strategy, clock=clock, **options)

    return call


# Sync callables


def call_threads(driver, strategy, clock, jobs, seconds, log, options, run=fw.run):
    def action(job):
        log.begin(job)
        try:
            time.sleep(job.seconds)
            if job.fails:
                raise Boom(job.index)
            return job.index
        finally:
            log.end(job)

    log.origin = log.clock()
    return run(action, jobs, strategy=strategy, **options)


# Async callables; on the virtual clock by a loop whose time jumps


class JumpingLoop(asyncio.SelectorEventLoop):
    """A loop that does not wait for its timers: when nothing else is to do, its time jumps to the next one."""

    def __init__(self) -> None:
        super().__init__(selectors.DefaultSelector())
        self.now = 0.0
        wait = self._selector.select
        self._clock_resolution = 1e-9  # a timer runs once its time is less than so far ahead

        def select(timeout=None):
            events = wait(0 if timeout is None or timeout > 0 else timeout)
            if events or timeout is None or timeout <= 0:
                return events or (wait(None) if timeout is None else events)
            self.now = max(self.now, self._scheduled[0].when()) if self._scheduled else self.now
            return events

        self._selector.select = select

    def time(self) -> float:
        return self.now


def call_asyncio(driver, strategy, clock, jobs, seconds, log, options):
    async def action(job):
        log.begin(job)
        try:
            await asyncio.sleep(job.seconds)
            if job.fails:
                raise Boom(job.index)
            return job.index
        finally:
            log.end(job)

    if clock == "real":
        log.origin = log.clock()
        return fw.run(action, jobs, strategy=strategy, **options)

    async def main():
        log.clock = asyncio.get_running_loop().time
        log.origin = log.clock()
        return await fw.aio.run(action, jobs, strategy=strategy, **options)

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(main())


# The same through fw.aio, on the caller's loop


class AioCaller:
    """Makes a driver's `fw.run` an awaited `fw.aio.run`."""

    def __init__(self, call: Callable[..., fw.Run]) -> None:
        self.call = call

    def __call__(self, driver, strategy, clock, jobs, seconds, log, options):
        def run(action, items, **given):
            async def main():
                return await fw.aio.run(action, items, **given)

            return asyncio.run(main())

        return self.call(driver, strategy, clock, jobs, seconds, log, options, run=run)


BOTH = ("virtual", "real")
# What the suite has to know of a native action, where it is more than that it takes seconds, or nothing, and does so exactly.
KNOWN = {
    "delay": {"make": lambda seconds: fw.delay(), "times": "own", "fails": True, "reads_values": True},
    "service": {"make": lambda seconds: fw.service(seconds, 10**6)},
    "cpu": {"is_exact": False},
}


def native(kind: type[fw.NativeAction]) -> Driver:
    """The entry of a native action: whatever is on the engine's list is in the suite."""
    facts = {"times": "same" if fields(kind) else "none", "fails": False, **KNOWN.get(kind.name, {})}
    make = facts.pop("make", lambda seconds: kind(seconds) if fields(kind) else kind())
    return Driver(f"native-{kind.name}", BOTH, call_native(make), **facts)


DRIVERS = (
    *(native(kind) for kind in fw.NATIVE_ACTIONS),
    Driver("threads", ("real",), call_threads, cancels=False, is_watched=True),
    Driver("asyncio", BOTH, call_asyncio, is_watched=True),
    Driver("aio-delay", ("real",), AioCaller(call_native(lambda seconds: fw.delay())), reads_values=True),
    Driver("aio-cpu", ("real",), AioCaller(call_native(fw.cpu)), times="same", fails=False, is_exact=False),
    Driver("aio-threads", ("real",), AioCaller(call_threads), cancels=False, is_watched=True),
)


def combinations(
    strategies: Iterable[str] = STRATEGIES, where: Callable[[Driver], bool] = lambda driver: True, clock: str | None = None
) -> list[tuple[Driver, str, str]]:
    """(driver, strategy, clock) of all drivers that can do what a test needs."""
    return [
        (driver, strategy, on)
        for driver in DRIVERS
        if where(driver)
        for strategy in strategies
        for on in driver.clocks
        if clock in (None, on)
    ]
