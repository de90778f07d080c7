"""Limits that widely used clients have by default: a knee at one of them may be the client's."""

from __future__ import annotations

CEILINGS: tuple[tuple[int, str], ...] = (
    (100, "aiohttp's TCPConnector(limit=100)"),
    (100, "httpx's Limits(max_connections=100)"),
    (40, "anyio's limiter of 40 worker threads"),
    (15, "SQLAlchemy's pool (pool_size=5 + max_overflow=10)"),
)
"""Limits that widely used clients have by default: connections, threads."""


def ceiling_hint(limit: int, cpus: int, *, tolerance: float = 0.05) -> str | None:
    """What a knee at `limit` may be instead of the service's capacity: the default ceiling of a client. None: nothing.

    `cpus`: those available to the process. At a ceiling means within `tolerance` of it, as the recommended limit is
    within that of the best.
    """
    threads = min(32, cpus + 4)
    executor = f"the default executor of asyncio.to_thread (min(32, cpus + 4) = {threads} threads)"
    names = [name for at, name in (*CEILINGS, (threads, executor)) if abs(limit - at) <= tolerance * at]
    return f"this may be a ceiling of the client, not of the service: {' or '.join(names)}" if names else None
