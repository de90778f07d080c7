"""Native actions as callables, for streams: the engine tells what happened only when its run has ended.

They take the times that the engine would draw and keep its rules, at the cost of a callable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from types import GeneratorType
from typing import Any

from . import _core, native
from .actions import NativeAction, cpu, noop, service
from .errors import QueueFull
from .options import Options
from .source import Source

Pair = tuple[int, Any]


def imitate(action: NativeAction, source: Source, options: Options) -> tuple[Callable[[Pair], Any], Source]:
    """A callable for pairs of an index and an item, and their source."""
    draw = _drawer(action, options)
    numbered = Source(_numbered(source.items), source.total)
    if isinstance(action, noop):
        return lambda pair: pair[0], numbered
    if isinstance(action, cpu):
        return _spinner(action, draw, options), numbered
    return (_server(action, draw) if isinstance(action, service) else _waiter(draw)), numbered


def _numbered(items: Iterable[Any]) -> Iterator[Pair]:
    iterator = iter(items)
    try:
        yield from enumerate(iterator)
    finally:
        if isinstance(iterator, GeneratorType):
            iterator.close()


def _drawer(action: NativeAction, options: Options) -> Callable[[Pair], int]:
    """The ns that a pair takes."""
    if action.time is None:
        return lambda pair: _core.read_seconds(pair[1], f"the delay of item {pair[0]}")
    kind, a, b, values = action.time.drawn()
    time = (kind, options.seed, a, b, values)
    return lambda pair: _core.draw(time, pair[0])


def _waiter(draw: Callable[[Pair], int]) -> Callable[[Pair], Any]:
    async def wait(pair: Pair) -> int:
        until = _core.clock_ns() + draw(pair)
        while (left := until - _core.clock_ns()) > 0:  # a loop's timer may come a little early, a delay never does
            await asyncio.sleep(left / native.NS)
        return pair[0]

    return wait


def _server(action: service, draw: Callable[[Pair], int]) -> Callable[[Pair], Any]:
    wait = _waiter(draw)
    free = asyncio.Semaphore(action.capacity)
    inside = 0

    async def serve(pair: Pair) -> int:
        nonlocal inside
        if action.queue is not None and inside >= action.capacity + action.queue:
            raise QueueFull(f"item {pair[0]} found the queue full")
        inside += 1
        try:
            async with free:
                await wait(pair)
                return pair[0]
        finally:
            inside -= 1

    return serve


def _spinner(action: cpu, draw: Callable[[Pair], int], options: Options) -> Callable[[Pair], Any]:
    one = replace(options, strategy="bounded", limit=1, max_failures=None, item_timeout=None, total_timeout=None, keep="summary")

    def spin(pair: Pair) -> int:
        native.execute(cpu(draw(pair) / native.NS), Source(range(1), 1), one, None)
        return pair[0]

    return spin
