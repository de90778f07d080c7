"""The strategies for code that runs on an event loop: `run = await fw.aio.bounded(fetch, rows, limit=50)`.

Every kind of action is welcome. Async callables run on the caller's loop, sync and native ones on threads beside it, and the
loop goes on meanwhile. Cancelling the awaiting task ends the run: CancelledError is raised once nothing of it is running.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec

from . import strategies
from .streams import AsyncStream
from .streams import async_stream as stream

if TYPE_CHECKING:
    from .runs import Run

__all__ = ["AsyncStream", "bounded", "chunked", "for_each", "run", "stream", "when_all"]

P = ParamSpec("P")


def _on_loop(strategy: Callable[P, Run]) -> Callable[P, Coroutine[Any, Any, Run]]:
    signature = inspect.signature(strategy)

    @functools.wraps(strategy)
    async def on_loop(*args: P.args, **kwargs: P.kwargs) -> Run:
        from . import beside

        given = signature.bind(*args, **kwargs).arguments
        return await beside.run(strategy.__name__, given.pop("action"), given.pop("items"), given)

    return on_loop


for_each = _on_loop(strategies.for_each)
when_all = _on_loop(strategies.when_all)
bounded = _on_loop(strategies.bounded)
chunked = _on_loop(strategies.chunked)


async def run(action: Any, items: Any, *, strategy: str, **options: Any) -> Run:
    """A run under a strategy by name: "for_each", "when_all", "bounded" or "chunked". The other arguments are theirs."""
    from . import beside

    return await beside.run(strategy, action, items, options)
