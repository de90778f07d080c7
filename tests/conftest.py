"""What more than one test file uses."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# A loaded machine makes no example wrong (no deadline); under CI the same examples are drawn every time.
settings.register_profile("fanwidth", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("fanwidth")


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the source tree."""
    return Path(__file__).resolve().parent.parent


RunChild = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_child(tmp_path: Path) -> RunChild:
    """run_child(code, *argv, timeout=10, env=None): run Python code in a child process, outside the source tree.

    For what may crash, hang or leave threads behind: a child that outlives its guard is killed and fails the test.
    """

    def run(code: str, *argv: str, timeout: float = 10, env: dict[str, str] | None = None):
        command = [sys.executable, "-W", "error", "-c", code, *argv]
        environment = {**os.environ, **(env or {})}
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment, cwd=tmp_path)

    return run
