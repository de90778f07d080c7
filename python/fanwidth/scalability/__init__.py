"""What measurements of several limits say about the right one: the knee, where to look next, the scalability law.

Pure functions of `Point`s, one per limit; nothing here measures, waits or prints. Throughputs are in items per second,
times in seconds. Noise is taken as multiplicative, so everything is compared on the logarithm of the throughput.
"""

from .ceilings import CEILINGS, ceiling_hint
from .knees import Knee, Status, knee
from .law import Usl, usl
from .little import Little, littles_law
from .points import Point, points_from_rows
from .refinement import refine, stop_climbing
from .verdicts import Verdict, verdict

__all__ = [
    "CEILINGS",
    "Knee",
    "Little",
    "Point",
    "Status",
    "Usl",
    "Verdict",
    "ceiling_hint",
    "knee",
    "littles_law",
    "points_from_rows",
    "refine",
    "stop_climbing",
    "usl",
    "verdict",
]
