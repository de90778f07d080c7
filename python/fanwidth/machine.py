"""What this machine gives a run: CPUs, versions, a description. No measuring is done here."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

from . import _core
from ._version import __version__

_CGROUP_V2 = "/sys/fs/cgroup/cpu.max"
_CGROUP_V1 = "/sys/fs/cgroup/cpu/"


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


def _quota() -> float | None:
    """CPUs by the control group's bandwidth limit, or None."""
    try:
        if os.path.exists(_CGROUP_V2):
            quota, period = _read(_CGROUP_V2).split()
            return None if quota == "max" else int(quota) / int(period)
        quota_us = int(_read(_CGROUP_V1 + "cpu.cfs_quota_us"))
        return None if quota_us <= 0 else quota_us / int(_read(_CGROUP_V1 + "cpu.cfs_period_us"))
    except (OSError, ValueError, ZeroDivisionError):
        return None


def cpus() -> int:
    """CPUs available to this process, at least 1: its affinity, lowered to its control group's quota, rounded up."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cached_quota()
    return max(1, affinity if quota is None else min(affinity, -int(-quota // 1)))


@functools.cache
def _cached_quota() -> float | None:
    return _quota()


def describe() -> dict[str, Any]:
    """The machine and the versions, for the `meta` of runs and tables."""
    import platform  # not at the top: most programs never ask

    return {
        "fanwidth": __version__,
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "libuv": _core.libuv_version,
        "system": platform.platform(),
        "machine": platform.machine(),
        "cpus": cpus(),
    }
