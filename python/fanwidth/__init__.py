"""fanwidth: many things at once: under which strategy, and how many in flight? Three strategies on a C core, measured.

import fanwidth as fw

run = fw.bounded(fw.delay(0.050), 10_000, limit=50)
print(run)
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from ._version import __version__

_unusable: ImportError | None = None
try:
    from . import _core as _core
except ImportError as error:
    _unusable = ImportError(
        f"fanwidth's compiled part fanwidth._core cannot be loaded ({error}): install fanwidth anew with pip, "
        "which builds it where there is no wheel for this Python"
    )
    # The command line shows the same words without a traceback, and its --version still works: see cli.py.
    if os.path.basename(sys.argv[0] if sys.argv else "") not in ("fanwidth", "-m"):
        raise _unusable from None
else:
    from ._core import CancelToken, admit
    from .actions import NATIVE_ACTIONS, NativeAction, cpu, delay, noop, service
    from .distributions import Distribution, constant, empirical, exponential, lognormal, uniform
    from .errors import QueueFull, RunCancelled, RunFailed, RunTimeout, Unpicklable
    from .run import STATES, Counts, Outcome, Run, Samples
    from .stats import Summary
    from .strategies import bounded, chunked, for_each, run, when_all

if TYPE_CHECKING:
    from . import aio
    from .experiment import compare
    from .progress import Progress
    from .table import Table, read_table

__all__ = [
    "NATIVE_ACTIONS",
    "STATES",
    "CancelToken",
    "Counts",
    "Distribution",
    "NativeAction",
    "Outcome",
    "Progress",
    "QueueFull",
    "Run",
    "RunCancelled",
    "RunFailed",
    "RunTimeout",
    "Samples",
    "Summary",
    "Table",
    "Unpicklable",
    "__version__",
    "admit",
    "aio",
    "bounded",
    "chunked",
    "compare",
    "constant",
    "cpu",
    "delay",
    "empirical",
    "exponential",
    "for_each",
    "lognormal",
    "noop",
    "read_table",
    "run",
    "service",
    "uniform",
    "when_all",
]

_LAZY = {
    "aio": "aio",
    "compare": "experiment",
    "Progress": "progress",
    "Table": "table",
    "read_table": "table",
}
"""Public names by the module that has them, imported on first use: importing fanwidth must cost next to nothing."""


def __getattr__(name: str) -> Any:
    if _unusable is not None and name in __all__:
        raise _unusable
    if name not in _LAZY:
        raise AttributeError(f"module 'fanwidth' has no attribute {name!r}")
    module = importlib.import_module(f".{_LAZY[name]}", __name__)
    value = module if _LAZY[name] == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_LAZY))
