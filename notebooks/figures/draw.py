"""Draws the pictures of README.md: `python notebooks/figures/draw.py [FOLDER]`. The clock is virtual, so it takes seconds."""

import sys
from pathlib import Path

import fanwidth as fw

WAITS = fw.lognormal(0.020, 0.100)  # half below 20 ms, 1 % above 100 ms, as services usually answer


def draw(folder: Path) -> None:
    """Writes strategies.png and knee.png."""
    limits = {"for_each": 8, "bounded": 8, "chunked": 8, "when_all": None}
    runs = []
    for strategy, limit in limits.items():
        given = {} if limit is None else {"limit": limit}
        runs.append(fw.run(fw.delay(WAITS), 64, strategy=strategy, clock="virtual", seed=1, **given))
    fw.plot.save(fw.plot.timeline(runs, ax=fw.plot.blank(6.4, 4.4)), folder / "strategies.png")

    found = fw.recommend(fw.service(WAITS, capacity=24), clock="virtual", seed=1, progress=False)
    fw.plot.save(fw.plot.throughput(found, ax=fw.plot.blank(6.4, 4.0)), folder / "knee.png")


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
