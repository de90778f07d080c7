"""Callables in a real notebook kernel, where an event loop runs already: results, and Ctrl-C ("interrupt the kernel")."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

manager = pytest.importorskip("jupyter_client.manager")
pytest.importorskip("ipykernel")

SETUP = """
import asyncio, threading, time
import fanwidth as fw

count = 0

def sync(item):
    global count
    time.sleep(0.02)
    count += 1
    return item

async def coroutine(item):
    global count
    await asyncio.sleep(0.02)
    count += 1
    return item

actions = {"sync": sync, "coroutine": coroutine, "native": fw.delay(0.02)}
for action in actions.values():
    fw.bounded(action, 2, limit=2)  # imports what it needs
"""


class Notebook:
    def __init__(self, client: Any, kernel: Any) -> None:
        self.client = client
        self.kernel = kernel

    def cell(self, code: str, interrupt_after: float | None = None) -> str:
        """Runs a cell and gives what it printed; an error as `Name: text`."""
        message = self.client.execute(code)
        printed: list[str] = []
        interrupt_at = None if interrupt_after is None else time.monotonic() + interrupt_after
        while True:
            if interrupt_at is not None and time.monotonic() >= interrupt_at:
                self.kernel.interrupt_kernel()
                interrupt_at = None
            try:
                said = self.client.get_iopub_msg(timeout=0.02)
            except Exception as error:
                if type(error).__name__ != "Empty":
                    raise
                continue
            if said["parent_header"].get("msg_id") != message:
                continue
            content = said["content"]
            if said["msg_type"] == "stream":
                printed.append(content["text"])
            elif said["msg_type"] == "error":
                printed.append(f"{content['ename']}: {content['evalue']}")
            elif said["msg_type"] == "status" and content["execution_state"] == "idle":
                return "".join(printed)


@pytest.fixture(scope="module")
def notebook() -> Iterator[Notebook]:
    kernel, client = manager.start_new_kernel(kernel_name="python3")
    try:
        book = Notebook(client, kernel)
        assert book.cell(SETUP) == ""
        yield book
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)


@pytest.mark.parametrize("action", ["sync", "coroutine", "native"])
def test_the_sync_call_and_await_work_in_a_cell(notebook: Notebook, action: str) -> None:
    # S086
    said = notebook.cell(
        f"run = fw.bounded(actions[{action!r}], 5, limit=2); print(run.results == [0, 1, 2, 3, 4])\n"
        f"run = await fw.aio.bounded(actions[{action!r}], 5, limit=2); print(run.results == [0, 1, 2, 3, 4])"
    )
    assert said == "True\nTrue\n"


@pytest.mark.parametrize("call", ["fw.bounded(action, 10_000, limit=4)", "await fw.aio.bounded(action, 10_000, limit=4)"])
@pytest.mark.parametrize("action", ["sync", "coroutine", "native"])
def test_interrupting_the_kernel_ends_the_run(notebook: Notebook, action: str, call: str) -> None:
    # S038
    said = notebook.cell(
        f"""
action, error, stopped = actions[{action!r}], None, None
try:
    {call}
except BaseException as raised:
    stopped, error = time.perf_counter(), raised
    at_once = count
print(type(error).__name__)
""",
        interrupt_after=0.3,
    )
    assert said in ("KeyboardInterrupt\n", "CancelledError\n"), said
    said = notebook.cell("await asyncio.sleep(0.2)\nprint(count == at_once, fw.bounded(action, 3, limit=2).ok)")
    assert said == "True True\n"
    if said == "KeyboardInterrupt\n":
        assert notebook.cell("print(0 < error.run.counts.ok < 10_000, error.run.stopped_by)") == "True cancel\n"
