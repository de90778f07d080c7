"""Trials on an executor: one run per task, in other processes or on other machines. What goes wrong there ends in rows."""

from __future__ import annotations

import collections
import contextlib
import importlib
import os
import pickle
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from typing import Any

from .trials import Measured, Trial, failed, measure, told

_POLL_S = 2.0
_PATIENCE_S = 30.0
"""How long a cluster may be without any worker: a lost one is usually replaced within seconds."""

Result = Measured | str
"""What comes back: a measurement, or why there is none."""


def measured_remotely(trials: Iterator[Trial], executor: Executor, at_most: int) -> Iterator[tuple[Trial, Measured]]:
    """Gives each trial with what became of it, in the order they end. At most `at_most` are handed out at a time.

    A task that ends without an answer may have lost its worker through no fault of its own (a process pool breaks as a
    whole), so it is run again, alone; if it fails again, it ends in a row. A process pool that broke is replaced by one of
    the same kind.
    """
    pool = _Pool(executor, at_most)
    under_way: dict[Future[Result], Trial] = {}
    suspects: collections.deque[Trial] = collections.deque()
    try:
        while True:
            while not suspects and len(under_way) < pool.at_most and (trial := next(trials, None)) is not None:
                future = pool.submit(trial)
                if isinstance(future, str):
                    yield trial, failed(trial, future)
                else:
                    under_way[future] = trial
            if under_way:
                for future in pool.wait(under_way):
                    trial = under_way.pop(future)
                    measured = _measured(trial, future)
                    if measured is not None:
                        yield trial, measured
                    else:
                        suspects.append(trial)
            elif suspects:
                trial = suspects.popleft()
                yield trial, _alone(pool, trial, under_way)
            else:
                return
    finally:
        pool.close(under_way)


def _alone(pool: _Pool, trial: Trial, under_way: dict[Future[Result], Trial]) -> Measured:
    future = pool.submit(trial)
    if isinstance(future, str):
        return failed(trial, future, calls=trial.point.items)
    under_way[future] = trial
    pool.wait(under_way)
    del under_way[future]
    measured = _measured(trial, future)
    if measured is None:
        error = future.exception() if not future.cancelled() else None
        why = "no worker was left to do it" if error is None else _lost(error)
        measured = failed(trial, why, calls=trial.point.items)
    return measured


def _measured(trial: Trial, future: Future[Result]) -> Measured | None:
    """What the task answered; None where it did not."""
    if future.cancelled() or future.exception() is not None:
        return None
    result = future.result()
    return result if isinstance(result, Measured) else failed(trial, result)


class _Pool:
    """The user's executor, or its replacement once it broke."""

    def __init__(self, executor: Executor, at_most: int) -> None:
        self.executor = executor
        self._mine = False
        workers = _workers(executor)
        # No more than there are workers: what waits in a pool's queue dies with it, and could not be judged by the clock.
        self.at_most = max(1, min(at_most, workers or at_most))
        self._dumps = _dumpers()

    def submit(self, trial: Trial) -> Future[Result] | str:
        """Hands a trial out; says why not where that cannot be done."""
        data = b""
        if not isinstance(self.executor, ThreadPoolExecutor):
            try:
                data = self._pickled(trial)
            except _CannotSend as error:
                return str(error)
        try:
            return self._submit(trial, data)
        except Exception as error:  # broken, or shut down
            if not self._replace():
                return _lost(error)
        try:
            return self._submit(trial, data)
        except Exception as error:
            return _lost(error)

    def _submit(self, trial: Trial, data: bytes) -> Future[Result]:
        if not data:
            return self.executor.submit(measure, trial)
        # The nonce makes every task another one: Dask gives equal calls one result.
        return self.executor.submit(measure_pickled, data, os.urandom(8).hex())

    def _pickled(self, trial: Trial) -> bytes:
        data = self._try(trial)
        if isinstance(data, bytes):
            return data
        parts = {"action": trial.point.action, "setup": trial.setup, "items": trial.items}
        culprit = next(
            (f"{name} {_name(part)}" for name, part in parts.items() if not isinstance(self._try(part), bytes)), "the run"
        )
        raise _CannotSend(f"{culprit} cannot be sent to another process: {told(data)}")

    def _try(self, part: Any) -> bytes | Exception:
        """The part pickled, or what the last pickler said against it."""
        problem: Exception | None = None
        for dumps in self._dumps:
            try:
                return dumps(part)
            except Exception as error:  # TypeError, PicklingError, or whatever somebody's __getstate__ raises
                problem = error
        return problem or TypeError("there is no pickler")

    def _replace(self) -> bool:
        """A new pool like the user's, which is for us to shut down; False where we know not how to make one."""
        old = self.executor
        if not isinstance(old, ProcessPoolExecutor) or not getattr(old, "_broken", False):
            return False
        given = {
            name: getattr(old, f"_{name}", None)
            for name in ("max_workers", "mp_context", "initializer", "initargs", "max_tasks_per_child")
        }
        new = type(old)(**{name: value for name, value in given.items() if value is not None})
        if self._mine:
            old.shutdown(wait=False)
        self.executor, self._mine = new, True
        return True

    def wait(self, under_way: dict[Future[Result], Trial]) -> list[Future[Result]]:
        """The futures that have ended; all of them, given up, where a cluster has had no worker for long."""
        deserted_since: float | None = None
        while True:
            done = wait(under_way, timeout=_POLL_S, return_when=FIRST_COMPLETED).done
            if done:
                return [future for future in under_way if future in done]
            if not _deserted(self.executor):
                deserted_since = None
            elif deserted_since is None:
                deserted_since = time.monotonic()
            elif time.monotonic() - deserted_since > _PATIENCE_S:
                for future in under_way:
                    future.cancel()
                return list(under_way)

    def close(self, under_way: dict[Future[Result], Trial]) -> None:
        for future in under_way:
            future.cancel()
        if self._mine:
            self.executor.shutdown(wait=not under_way, cancel_futures=True)


class _CannotSend(Exception):
    pass


def measure_pickled(data: bytes, nonce: str) -> Result:
    """Does the run of a pickled trial. Every fault is in the answer: exceptions may not survive the way back."""
    try:
        trial: Trial = pickle.loads(data)
    except Exception as error:
        return f"the worker cannot rebuild the action: {told(error)} (define it in a module that the worker can import)"
    try:
        return measure(trial)
    except SystemExit as error:
        return told(error)


def _dumpers() -> list[Callable[[Any], bytes]]:
    """cloudpickle first, where there is one: it takes lambdas, and functions of a notebook or script along."""
    dumpers: list[Callable[[Any], bytes]] = [pickle.dumps]
    with contextlib.suppress(ImportError):
        dumpers.insert(0, importlib.import_module("cloudpickle").dumps)
    return dumpers


def _name(part: Any) -> str:
    inner = getattr(part, "func", part)  # of a partial
    name = getattr(inner, "__qualname__", None)
    return name if isinstance(name, str) else f"of type {type(inner).__name__}"


def _lost(error: BaseException) -> str:
    if any(word in type(error).__name__ for word in ("Broken", "KilledWorker", "TerminatedWorker")):
        return f"the worker died: {told(error)}"
    return told(error)


def _workers(executor: Executor) -> int | None:
    """How many tasks run at a time: a pool's size, or the threads of a Dask cluster."""
    size = getattr(executor, "_max_workers", None)
    if isinstance(size, int):
        return size
    client = getattr(executor, "_client", None)
    return None if client is None else sum(client.nthreads().values())


def _deserted(executor: Executor) -> bool:
    """Whether a Dask cluster has no worker at the moment; it would wait for one for ever."""
    client = getattr(executor, "_client", None)
    try:
        return client is not None and not client.nthreads()
    except Exception:  # the connection is lost as well
        return True
