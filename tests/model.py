"""An independent model of a run on the virtual clock: an event list, written from the contract and not from the engine.

Times are whole nanoseconds. A time of None stands for a value that is none: the item fails as it starts.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

BY_ITSELF, GIVEN_UP = 0, 1  # at one instant, what ends by itself comes before what is given up


@dataclass
class Course:
    """What a run did, by item."""

    start: list[int]
    finish: list[int]
    state: list[str]
    peak: int = 0
    stopped_by: str | None = None


def may_start(strategy: str, started: int, in_flight: int, limit: int | None) -> bool:
    """Whether one more item may start, by the table of strategies."""
    if strategy == "when_all":
        return True
    assert limit is not None
    if strategy == "chunked":
        return started % limit > 0 or in_flight == 0
    return in_flight < limit


def simulate(
    strategy: str,
    times: Sequence[int | None],
    *,
    limit: int | None = None,
    item_timeout: int | None = None,
    total_timeout: int | None = None,
    max_failures: int | None = None,
    capacity: int | None = None,
    queue: int | None = None,
    sized: bool = True,
) -> Course:
    """The course of a run. `capacity` and `queue` are those of a service; `sized`: the end of the source is known beforehand."""
    n = len(times)
    course = Course([-1] * n, [-1] * n, ["not_started"] * n)
    flying: set[int] = set()
    events: list[tuple[int, int, int]] = []
    waiting: deque[int] = deque()
    now = started = busy = failures = 0
    at_end = sized and n == 0

    def end(item: int, state: str) -> None:
        nonlocal failures
        course.finish[item], course.state[item] = now, state
        flying.discard(item)
        failures += state in ("failed", "timed_out")
        if max_failures is not None and failures > max_failures and course.stopped_by is None:
            course.stopped_by = "failure"

    def serve(item: int) -> None:
        nonlocal busy
        busy += 1
        heapq.heappush(events, (now + times[item], BY_ITSELF, item))

    def settle(kind: int, item: int) -> None:
        nonlocal busy
        end(item, "ok" if kind == BY_ITSELF else "timed_out")
        if item in waiting:
            waiting.remove(item)
            return
        busy -= 1
        if waiting and course.stopped_by is None:
            serve(waiting.popleft())

    def begin(item: int) -> None:
        course.start[item] = now
        flying.add(item)
        course.peak = max(course.peak, len(flying))
        if item_timeout is not None:
            heapq.heappush(events, (now + item_timeout, GIVEN_UP, item))
        if times[item] is None:
            end(item, "failed")
        elif capacity is None or busy < capacity:
            serve(item)
        elif queue is None or len(waiting) < queue:
            waiting.append(item)
        else:
            end(item, "failed")

    while True:
        while events and (events[0][0] <= now or events[0][2] not in flying):
            _, kind, item = heapq.heappop(events)
            if item in flying:
                settle(kind, item)
        if at_end and not flying:
            return course
        if total_timeout is not None and now >= total_timeout:
            course.stopped_by = "timeout"
        if course.stopped_by is not None:
            for item in list(flying):
                end(item, "timed_out" if course.stopped_by == "timeout" else "cancelled")
            return course
        while not at_end and course.stopped_by is None and may_start(strategy, started, len(flying), limit):
            if started == n:
                at_end = True  # asked once more, and told so
                break
            begin(started)
            started += 1
            at_end = sized and started == n
        if flying and course.stopped_by is None:
            now = events[0][0] if total_timeout is None else min(events[0][0], total_timeout)
