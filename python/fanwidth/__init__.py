"""fanwidth: many things at once: under which strategy, and how many in flight? Three strategies on a C core, measured.

import fanwidth as fw

run = fw.bounded(fw.delay(0.050), 10_000, limit=50)
print(run)
"""

from __future__ import annotations

import importlib
import os
import sys

from ._version import __version__

_unusable: ImportError | None = None
try:
    importlib.import_module("._core", __name__)  # "from . import" would tell of a circular import where there is none
except ImportError as error:
    _unusable = ImportError(
        f"fanwidth's compiled part fanwidth._core cannot be loaded ({error}): install fanwidth anew with pip, "
        "which builds it where there is no wheel for this Python"
    )
    # The command line shows the same words without a traceback, and its --version still works: see cli.py.
    if os.path.basename(sys.argv[0] if sys.argv else "") not in ("fanwidth", "-m"):
        raise _unusable from None

TYPE_CHECKING = False  # that of typing, whose import costs more than all of this
if TYPE_CHECKING:  # "as" makes a name public for type checkers
    from typing import Any

    from . import aio as aio
    from . import plot as plot
    from . import testing as testing
    from ._core import CancelToken as CancelToken
    from ._core import admit as admit
    from .actions import NATIVE_ACTIONS as NATIVE_ACTIONS
    from .actions import NativeAction as NativeAction
    from .actions import cpu as cpu
    from .actions import delay as delay
    from .actions import noop as noop
    from .actions import service as service
    from .axes import geometric as geometric
    from .distributions import Distribution as Distribution
    from .distributions import constant as constant
    from .distributions import empirical as empirical
    from .distributions import exponential as exponential
    from .distributions import lognormal as lognormal
    from .distributions import uniform as uniform
    from .errors import QueueFull as QueueFull
    from .errors import RunCancelled as RunCancelled
    from .errors import RunFailed as RunFailed
    from .errors import RunTimeout as RunTimeout
    from .errors import Unpicklable as Unpicklable
    from .experiment import compare as compare
    from .handles import RunHandle as RunHandle
    from .handles import start as start
    from .progress import Progress as Progress
    from .recommendation import LimitCheck as LimitCheck
    from .recommendation import Recommendation as Recommendation
    from .recommendation import check_limit as check_limit
    from .recommendation import recommend as recommend
    from .runs import STATES as STATES
    from .runs import Counts as Counts
    from .runs import Outcome as Outcome
    from .runs import Run as Run
    from .runs import Samples as Samples
    from .stats import Summary as Summary
    from .strategies import bounded as bounded
    from .strategies import chunked as chunked
    from .strategies import for_each as for_each
    from .strategies import run as run
    from .strategies import when_all as when_all
    from .streams import Stream as Stream
    from .streams import stream as stream
    from .sweeps import sweep as sweep
    from .table import Table as Table
    from .table import read_table as read_table

_HOMES = {
    "": ("aio", "plot", "testing"),
    "_core": ("CancelToken", "admit"),
    "actions": ("NATIVE_ACTIONS", "NativeAction", "cpu", "delay", "noop", "service"),
    "axes": ("geometric",),
    "distributions": ("Distribution", "constant", "empirical", "exponential", "lognormal", "uniform"),
    "errors": ("QueueFull", "RunCancelled", "RunFailed", "RunTimeout", "Unpicklable"),
    "experiment": ("compare",),
    "handles": ("RunHandle", "start"),
    "progress": ("Progress",),
    "recommendation": ("LimitCheck", "Recommendation", "check_limit", "recommend"),
    "runs": ("STATES", "Counts", "Outcome", "Run", "Samples"),
    "stats": ("Summary",),
    "strategies": ("bounded", "chunked", "for_each", "run", "when_all"),
    "streams": ("Stream", "stream"),
    "sweeps": ("sweep",),
    "table": ("Table", "read_table"),
}
"""Public names by the module that has them. They are imported on first use: `import fanwidth` must cost next to nothing.

No module has the name of a public function, or importing the one would hide the other; a test sees to it.
"""
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *_HOME_OF]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'fanwidth' has no attribute {name!r}")
    if _unusable is not None:
        raise _unusable
    module = importlib.import_module(f".{home or name}", __name__)
    value = getattr(module, name) if home else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
