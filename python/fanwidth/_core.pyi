"""The compiled part. Each section names the C file that defines it."""

from collections.abc import Callable, Iterator
from typing import Any, final

# csrc/binding/module.c
strategies: tuple[str, ...]
actions: tuple[str, ...]
distributions: tuple[str, ...]
libuv_version: str

def admit(strategy: str, total: int | None, started: int, finished: int, limit: int | None) -> int: ...
def clock_ns() -> int: ...

# csrc/binding/ledger.c
_Tally = tuple[int, float, float | None, int, int, list[tuple[int, int]]]

@final
class Ledger:
    @property
    def counts(self) -> tuple[int, int, int, int, int]: ...
    @property
    def pulled(self) -> int: ...
    @property
    def started(self) -> int: ...
    @property
    def finished(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def limit(self) -> int: ...
    @property
    def peak_in_flight(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def last_finish_ns(self) -> int: ...
    @property
    def stop(self) -> int: ...
    def columns(self) -> tuple[memoryview, memoryview, memoryview] | None: ...
    def tallies(self) -> tuple[_Tally, _Tally] | None: ...

# csrc/binding/cancel.c
@final
class CancelToken:
    def cancel(self) -> None: ...
    @property
    def cancelled(self) -> bool: ...

# csrc/binding/native.c
def read_seconds(seconds: object, what: str, /) -> int: ...
def run(
    strategy: str,
    action: str,
    iterator: Iterator[Any] | None,
    total: int | None,
    limit: int | None,
    time: tuple[str, int, float, float, Any],
    item_timeout_ns: int | None,
    total_timeout_ns: int | None,
    capacity: int | None,
    queue: int | None,
    max_threads: int,
    max_failures: int | None,
    samples: bool,
    is_virtual: bool,
    uv_timer: bool,
    origin_ns: int,
    cancel: CancelToken | None,
    item_is_time: bool,
    report: Callable[[int, int], object] | None,
) -> dict[str, Any]: ...

# csrc/binding/order.c
def durations(from_ns: Any, to_ns: Any, state: Any, /) -> tuple[bytes, float, float]: ...

# csrc/binding/arrow.c
def arrow_stream(length: int, columns: tuple[tuple[str, str, int, tuple[bytes | None, ...]], ...], /) -> object: ...
