"""What a comparison teaches, in sentences whose figures are those of its rows, or are labelled as published or simulated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from . import published
from .actions import delay
from .columns import Row
from .distributions import exponential
from .export import byte_size, percent, rate, seconds
from .strategies import run

MOST_SIMULATED = 10_000  # items of a run made for a sentence alone


def lessons(rows: Sequence[Row], *, work: str, wait: float, cpus: int, seed: int) -> list[str]:
    """One sentence or two per lesson. `rows`: all of a complete comparison; `wait`: seconds of each item."""
    rows = [row for row in rows if row["clock"] == rows[0]["clock"]]
    most = max(_int(row, "items") for row in rows)
    # A size that was given twice is there twice; the first one speaks.
    of = {str(row["method"]): row for row in reversed(rows) if row["items"] == most}
    if work == "cpu":
        return [*_of_computing(of, wait, cpus)]
    return [*_of_waiting(of, wait), *([] if "chunked" not in of else [_chunks(of, wait, seed)])]


def plain(value: float) -> str:
    """A given time as one would write it: 50 ms, not 50.0 ms."""
    number, unit = seconds(value, 6).split(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {unit}"


def _number(row: Row, name: str) -> float:
    value = row[name]
    return float(value) if isinstance(value, int | float) else 0.0


def _int(row: Row, name: str) -> int:
    return int(_number(row, name))


def _time(row: Row) -> str:
    return seconds(_number(row, "time"))


def _simulate(strategy: str, items: int, limit: int, time: Any, seed: int = 0) -> float:
    return run(delay(time), items, strategy=strategy, limit=limit, clock="virtual", keep="summary", seed=seed).elapsed


# Waiting


def _of_waiting(of: dict[str, Row], wait: float) -> Iterator[str]:
    each, every, bounded = of["for_each"], of["when_all"], of["bounded"]
    if each["ideal"] is None or bounded["ideal"] is None:
        yield _nothing_waited(of)
    elif _int(each, "items") <= min(_int(each, "limit"), _int(bounded, "limit")):
        yield _all_fit(of, wait)
    elif each["limit"] == bounded["limit"]:
        yield _same_limit(each, bounded)
    else:
        yield _limits(each, bounded, wait)
    if wait == published.WAIT:
        yield _published_ticks()
    elif each["ideal"] is not None:
        yield _ticks(each, bounded, wait)
    yield _no_limit(every, wait)


def _nothing_waited(of: dict[str, Row]) -> str:
    told = "There is nothing to wait for, so there is no ideal to hold the times against"
    if of["for_each"]["clock"] == "virtual":
        return told + ", and the virtual clock counts waits alone: it stands still."
    cost = [
        f"{seconds(_number(of[name], 'time') / _int(of[name], 'items'))} under {name}"
        for name in ("for_each", "when_all", "bounded")
    ]
    return f"{told}: what is left is what the engine itself costs, per item {', '.join(cost)}."


def _all_fit(of: dict[str, Row], wait: float) -> str:
    each, every, bounded = of["for_each"], of["when_all"], of["bounded"]
    items, took = _int(each, "items"), f"{_time(each)}, {_time(every)} and {_time(bounded)}"
    limits = " and ".join(f"{limit:,}" for limit in sorted({_int(each, "limit"), _int(bounded, "limit")}))
    fit = "One item fits within any limit" if items == 1 else f"All {items:,} items fit within the limits ({limits})"
    measured = "simulated" if each["clock"] == "virtual" else "measured"
    return (
        f"{fit}, so every method starts at once and takes one wait, {plain(wait)} ({measured}: {took}). "
        "A limit shows only with more items than it lets in."
    )


def _same_limit(each: Row, bounded: Row) -> str:
    ratio = _number(each, "time") / _number(bounded, "time")
    took = "take" if each["clock"] == "virtual" else "took"
    return (
        f"The limit makes the time, not the method: with one limit, {_int(each, 'limit'):,}, for_each and bounded have the same "
        f"ideal, {seconds(_number(each, 'ideal'))}, and {took} {_time(each)} and {_time(bounded)} ({ratio:.2f} x)."
    )


def _limits(each: Row, bounded: Row, wait: float) -> str:
    simulated = each["clock"] == "virtual"
    near = percent(max(_number(each, "overhead"), _number(bounded, "overhead")))
    took, held = ("takes", "which is") if simulated else ("took", f"within {near} of")
    again = _simulate("for_each", _int(each, "items"), _int(bounded, "limit"), wait)
    return (
        f"The limit makes the time, not the method: for_each {took} {_time(each)} at {each['limit']:,} in flight "
        f"and bounded {_time(bounded)} at {bounded['limit']:,}, {held} ceil(items / limit) x {plain(wait)}. "
        f"With limit {bounded['limit']:,} for_each takes {seconds(again)} as well{'' if simulated else ' (simulated)'}."
    )


def _published_ticks() -> str:
    """A run at 62.5 ms gives the published figures: computed here, on the virtual clock."""
    ticked, items = published.timer_tick(published.WAIT), 10_000
    parts = []
    for strategy in ("for_each", "bounded"):
        figure = published.published_figure(strategy, items)
        if figure is not None and figure.limit is not None:
            time = _simulate(strategy, items, figure.limit, ticked)
            parts.append(f"{plain(time)} under {strategy} at {figure.limit} (published: {seconds(figure.elapsed, 4)})")
    return (
        f"Windows timers tick every {seconds(published.WINDOWS_TICK)}, so {plain(published.WAIT)} become {plain(ticked)} there, "
        f"{ticked / published.WAIT:.2f} x: {items:,} items of {plain(ticked)} take {' and '.join(parts)}."
    )


def _ticks(each: Row, bounded: Row, wait: float) -> str:
    ticked = published.timer_tick(wait)
    told = f"Windows timers tick every {seconds(published.WINDOWS_TICK)} by default"
    if math.isclose(ticked, wait, rel_tol=1e-9):
        return f"{told}; {plain(wait)} are whole ticks and would take no longer there."
    factor = ticked / wait
    stretched = [seconds(_number(row, "ideal") * factor) for row in (each, bounded)]
    return (
        f"{told}, so {plain(wait)} become {plain(ticked)} there, {factor:.3g} x: at best {stretched[0]} under for_each and "
        f"{stretched[1]} under bounded."
    )


def _no_limit(every: Row, wait: float) -> str:
    peak = _int(every, "peak_in_flight")
    took = f", {_time(every)} in all" if every["ideal"] is not None else ""
    speed = f" ({rate(_number(every, 'throughput'))})" if every["throughput"] and took else ""
    told = (
        f"when_all has no limit: {_counted(peak, 'item')} {'was' if peak == 1 else 'were'} in flight at once{took}{speed}, "
        f"at {byte_size(_number(every, 'engine_bytes_per_item'))} each in this engine"
    )
    figure = published.published_figure("when_all", 100_000)
    if wait != published.WAIT or figure is None:
        return f"{told}; what an item itself holds, such as a connection, comes on top."
    each, took_there = seconds((figure.elapsed - wait) / figure.items), seconds(figure.elapsed, 4)
    return f"{told}. In .NET {figure.items:,} such tasks took {took_there} (published): {each} each beyond the wait."


def _chunks(of: dict[str, Row], wait: float, seed: int) -> str:
    chunked, bounded = of["chunked"], of["bounded"]
    items, limit = min(_int(chunked, "items"), MOST_SIMULATED), _int(chunked, "limit")
    told = f"chunked has the ideal of bounded only while all waits are equal ({_time(chunked)} and {_time(bounded)})"
    times = [_simulate(name, items, limit, exponential(wait), seed) for name in ("chunked", "bounded")]
    if items <= limit or not all(times):
        return f"{told}; where they vary, each chunk waits for its slowest."
    return (
        f"{told}; where they vary, each chunk waits for its slowest: with exponential waits of this mean {items:,} items take "
        f"{seconds(times[0])} chunked and {seconds(times[1])} bounded (simulated), {times[0] / times[1]:.2f} x."
    )


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# Computing


def _of_computing(of: dict[str, Row], wait: float, cpus: int) -> Iterator[str]:
    names = ("for_each", "bounded", "when_all")
    three = [of[name] for name in names]
    took = ", ".join(f"{_time(row)} under {row['method']}" for row in three)
    simulated = three[0]["clock"] == "virtual"
    ideals = [seconds(_number(row, "ideal")) for row in three]
    on = f"on {_counted(cpus, 'CPU')}"
    if any(row["ideal"] is None for row in three):
        yield f"There is nothing to compute, so there is no ideal; {took} went to starting threads and switching between them."
    elif simulated:
        items = _counted(_int(three[0], "items"), "item")
        yield f"Computing {items} of {plain(wait)} {on} takes {took} (simulated: nothing else runs)."
    else:
        best = f"{ideals[0]} under every method" if len(set(ideals)) == 1 else _by_method(names, ideals)
        yield f"At best computing takes {best} {on}; measured: {took}. The rest went to switching and to other programs."
    if "chunked" in of:
        yield f"chunked took {_time(of['chunked'])}: every chunk waits for its slowest item."
    at = [f"{seconds(_number(row, 'latency_p99'))} at {_int(row, 'peak_in_flight'):,}" for row in three]
    waits = [seconds(_number(row, "wait_p50")) for row in three]
    p99 = [_number(row, "latency_p99") for row in three]
    shorter = p99[0] < 0.9 * min(p99[1:])
    yield (
        ("What a small limit buys is short service: 99 %" if shorter else "Service times: 99 %")
        + f" of the items took at most {at[0]} in flight, {at[1]} and {at[2]}; half of them had started after {waits[0]}, "
        + f"{waits[1]} and {waits[2]}."
    )
    held = [byte_size(_number(row, "engine_bytes_per_item") * _int(row, "items")) for row in three]
    yield f"And memory: the engine held {_by_method(names, held)}{'' if simulated else '; every thread has a stack besides'}."


def _by_method(names: Sequence[str], values: Sequence[str]) -> str:
    parts = [f"{value} under {name}" for name, value in zip(names, values, strict=True)]
    return ", ".join(parts[:-1]) + " and " + parts[-1]
