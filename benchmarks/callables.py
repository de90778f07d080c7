"""What a Python callable costs per item under fanwidth and under what people write today. Needs nothing but fanwidth.

    python benchmarks/callables.py [--items 100000] [--limit 50] [--rounds 5] [--json callables.json]

Every contender does the same work: the results of `items` calls, at most `limit` at once, in order. All contenders of a table
run in turn within each round, so that a slow moment of the machine meets all of them; a figure is the median of the rounds, and
a target is a ratio of two such medians. Bytes per item are the peak of traced memory beyond the results themselves, taken in
a round of its own. Contenders that are not installed are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib.util
import json
import platform
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import fanwidth as fw

Action = Callable[[int], Any]
Contender = Callable[[Action, int, int], Any]


async def trivial(item: int) -> int:
    return item


async def one_turn(item: int) -> int:
    await asyncio.sleep(0)
    return item


def nothing(item: int) -> int:
    return item


# --- async contenders


def ours(action: Action, items: int, limit: int) -> Any:
    return fw.bounded(action, items, limit=limit).results


def ours_on_uvloop(action: Action, items: int, limit: int) -> Any:
    import uvloop

    return fw.bounded(action, items, limit=limit, loop_factory=uvloop.new_event_loop).results


def gather_semaphore(action: Action, items: int, limit: int) -> Any:
    async def main() -> Any:
        semaphore = asyncio.Semaphore(limit)

        async def one(item: int) -> Any:
            async with semaphore:
                return await action(item)

        return await asyncio.gather(*(one(item) for item in range(items)))

    return asyncio.run(main())


def gather_on_uvloop(action: Action, items: int, limit: int) -> Any:
    import uvloop

    async def main() -> Any:
        semaphore = asyncio.Semaphore(limit)

        async def one(item: int) -> Any:
            async with semaphore:
                return await action(item)

        return await asyncio.gather(*(one(item) for item in range(items)))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


def task_group(action: Action, items: int, limit: int) -> Any:
    async def main() -> Any:
        semaphore = asyncio.Semaphore(limit)

        async def one(item: int) -> Any:
            async with semaphore:
                return await action(item)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in range(items)]
        return [task.result() for task in tasks]

    return asyncio.run(main())


def worker_coroutines(action: Action, items: int, limit: int) -> Any:
    """The best that can be written by hand: no task per item, no record of anything."""

    async def main() -> Any:
        results = [None] * items
        source = iter(range(items))

        async def worker() -> None:
            for item in source:
                results[item] = await action(item)

        await asyncio.gather(*(worker() for _ in range(limit)))
        return results

    return asyncio.run(main())


def anyio_task_group(action: Action, items: int, limit: int) -> Any:
    import anyio

    async def main() -> Any:
        results = [None] * items
        limiter = anyio.CapacityLimiter(limit)

        async def one(item: int) -> None:
            async with limiter:
                results[item] = await action(item)

        async with anyio.create_task_group() as group:
            for item in range(items):
                group.start_soon(one, item)
        return results

    return asyncio.run(main())


def trio_nursery(action: Action, items: int, limit: int) -> Any:
    import trio

    async def turn(item: int) -> int:
        await trio.lowlevel.checkpoint()
        return item

    work = turn if action is one_turn else action

    async def main() -> Any:
        results = [None] * items
        limiter = trio.CapacityLimiter(limit)

        async def one(item: int) -> None:
            async with limiter:
                results[item] = await work(item)

        async with trio.open_nursery() as nursery:
            for item in range(items):
                nursery.start_soon(one, item)
        return results

    return trio.run(main)


def aiometer_run(action: Action, items: int, limit: int) -> Any:
    import functools

    import aiometer

    return asyncio.run(aiometer.run_all([functools.partial(action, item) for item in range(items)], max_at_once=limit))


def aiostream_map(action: Action, items: int, limit: int) -> Any:
    from aiostream import pipe, stream

    async def main() -> Any:
        return await (stream.range(items) | pipe.map(action, task_limit=limit) | pipe.list())

    return asyncio.run(main())


def tqdm_gather(action: Action, items: int, limit: int) -> Any:
    from tqdm.asyncio import tqdm

    async def main() -> Any:
        semaphore = asyncio.Semaphore(limit)

        async def one(item: int) -> Any:
            async with semaphore:
                return await action(item)

        return await tqdm.gather(*(one(item) for item in range(items)), disable=True)

    return asyncio.run(main())


# --- sync contenders


def pool_map(action: Action, items: int, limit: int) -> Any:
    with ThreadPoolExecutor(limit) as pool:
        return list(pool.map(action, range(items)))


ASYNC: dict[str, tuple[str | None, Contender]] = {
    "fanwidth": (None, ours),
    "gather + Semaphore": (None, gather_semaphore),
    "TaskGroup + Semaphore": (None, task_group),
    "worker coroutines by hand": (None, worker_coroutines),
    "fanwidth on uvloop": ("uvloop", ours_on_uvloop),
    "gather + Semaphore on uvloop": ("uvloop", gather_on_uvloop),
    "anyio": ("anyio", anyio_task_group),
    "trio": ("trio", trio_nursery),
    "aiometer": ("aiometer", aiometer_run),
    "aiostream": ("aiostream", aiostream_map),
    "tqdm.asyncio": ("tqdm", tqdm_gather),
}
SYNC: dict[str, tuple[str | None, Contender]] = {
    "fanwidth": (None, ours),
    "ThreadPoolExecutor.map": (None, pool_map),
}


@dataclass(frozen=True)
class Table:
    title: str
    action: Action
    contenders: dict[str, tuple[str | None, Contender]]
    rival: str
    target: float
    """How many times the rival's time per item ours should be below it."""


def tables() -> list[Table]:
    newer = sys.version_info >= (3, 12)  # where gather is faster
    return [
        Table("a coroutine that does nothing", trivial, ASYNC, "gather + Semaphore", 15 if newer else 25),
        Table("a coroutine that awaits sleep(0)", one_turn, ASYNC, "gather + Semaphore", 10 if newer else 16),
        Table("a function that does nothing", nothing, SYNC, "ThreadPoolExecutor.map", 8),
    ]


BYTES_TARGET = 48


def installed(contenders: dict[str, tuple[str | None, Contender]]) -> dict[str, Contender]:
    return {name: run for name, (package, run) in contenders.items() if package is None or importlib.util.find_spec(package)}


def seconds(run: Contender, action: Action, items: int, limit: int) -> float:
    gc.collect()
    before = time.perf_counter()
    results = run(action, items, limit)
    taken = time.perf_counter() - before
    assert len(results) == items
    return taken


def traced_bytes(run: Contender, action: Action, items: int, limit: int) -> float:
    """Per item, beyond the results: ints above 256 are objects of their own."""
    gc.collect()
    tracemalloc.start()
    results = run(action, items, limit)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    own = 17 if run in (ours, ours_on_uvloop) else 0  # start, finish and state, which the engine allocates for itself
    return peak / items + own - sum(map(sys.getsizeof, results)) / items


def measure(table: Table, items: int, limit: int, rounds: int) -> dict[str, dict[str, float]]:
    contenders = installed(table.contenders)
    for run in contenders.values():
        run(table.action, 1000, limit)
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            times[name].append(seconds(run, table.action, items, limit) / items * 1e9)
    traced = min(items, 20_000)
    return {
        name: {
            "ns_per_item": statistics.median(times[name]),
            "lowest_ns": min(times[name]),
            "highest_ns": max(times[name]),
            "bytes_per_item": traced_bytes(run, table.action, traced, limit),
        }
        for name, run in contenders.items()
    }


def show(table: Table, figures: dict[str, dict[str, float]]) -> Iterable[str]:
    own = figures["fanwidth"]["ns_per_item"]
    yield f"{table.title}"
    yield f"  {'':30}{'ns per item':>12}{'(rounds)':>20}{'bytes':>8}{'x fanwidth':>12}"
    for name, row in figures.items():
        span = f"({row['lowest_ns']:,.0f} to {row['highest_ns']:,.0f})"
        ratio = row["ns_per_item"] / own
        yield f"  {name:30}{row['ns_per_item']:12,.0f}{span:>20}{row['bytes_per_item']:8,.0f}{ratio:12.1f}"
    ratio = figures[table.rival]["ns_per_item"] / own
    yield f"  {table.rival} / fanwidth: {ratio:.1f}, target >= {table.target:g}: {'met' if ratio >= table.target else 'missed'}"
    size = figures["fanwidth"]["bytes_per_item"]
    yield f"  bytes per item: {size:.0f}, target <= {BYTES_TARGET}: {'met' if size <= BYTES_TARGET else 'missed'}"
    yield ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--limit", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="PATH")
    arguments = parser.parse_args()
    python = platform.python_version()
    print(f"{arguments.items:,} items, limit {arguments.limit}, medians of {arguments.rounds} rounds; Python {python}\n")
    report: dict[str, Any] = {
        "python": platform.python_version(),
        "machine": platform.platform(),
        **vars(arguments),
        "tables": {},
    }
    for table in tables():
        figures = measure(table, arguments.items, arguments.limit, arguments.rounds)
        report["tables"][table.title] = {"rival": table.rival, "target": table.target, "figures": figures}
        print("\n".join(show(table, figures)))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(report, file, indent=2)


if __name__ == "__main__":
    main()
