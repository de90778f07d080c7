"""The engine against the ideal: time, CPU and memory of native waits, as ratios in one run.

    python benchmarks/engine.py                      # all of it, some minutes
    python benchmarks/engine.py --rounds 3 --largest 1000000
    python benchmarks/engine.py --json engine.json --plot engine.png

Every figure is the median of `--rounds` interleaved rounds, after one warm-up round that is not counted. `time / ideal` is the
run's own elapsed time over the makespan of the same drawn times on the virtual clock; CPU is that of the whole process during
the call, per item, so it includes the allocation of the samples; `call` is the wall time of the whole call over the ideal.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import fanwidth as fw
from fanwidth import machine

WAIT = fw.delay(0.050)
RANDOM = fw.delay(fw.exponential(0.050))
MB = 1_000_000


@dataclass
class Case:
    """One line of the table: what is run, and what it should reach."""

    name: str
    run: Callable[[], fw.Run]
    items: int
    unit: str
    """What the target is about: `time / ideal`, `CPU ns/item` or `wall ns/item`."""
    target: float
    elapsed: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    ideal: float | None = None
    bytes_per_item: float = 0.0
    early: int = 0

    def measure(self, counted: bool) -> None:
        cpu, wall = time.process_time(), time.perf_counter()
        run = self.run()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        if not run.ok:
            raise SystemExit(f"{self.name}: {run}")
        if not counted:
            self.ideal = run.ideal
            self.bytes_per_item = run.engine_bytes / self.items
            self.early = early(run)
            return
        self.elapsed.append(run.elapsed)
        self.wall.append(wall)
        self.cpu.append(cpu)

    @property
    def reached(self) -> float:
        if self.unit == "time / ideal":
            assert self.ideal is not None
            return statistics.median(self.elapsed) / self.ideal
        return statistics.median(self.cpu if self.unit == "CPU ns/item" else self.wall) / self.items * 1e9

    def row(self) -> dict[str, Any]:
        return {
            "case": self.name,
            "items": self.items,
            "time / ideal": statistics.median(self.elapsed) / self.ideal if self.ideal else None,
            "call / ideal": statistics.median(self.wall) / self.ideal if self.ideal else None,
            "CPU ns/item": statistics.median(self.cpu) / self.items * 1e9,
            "wall ns/item": statistics.median(self.wall) / self.items * 1e9,
            "bytes/item": self.bytes_per_item,
            "early": self.early,
            "of": self.unit,
            "target": self.target,
            "reached": self.reached,
            "met": self.reached <= self.target,
        }


def early(run: fw.Run) -> int:
    """Constant waits that ended before their time, by the run's own stamps."""
    if run._action != WAIT or run._options.keep == "summary":
        return 0
    samples = run.samples
    if run.counts.total > MB:  # the largest runs: every 101st item tells as much
        pairs = zip(samples.start_ns[::101], samples.finish_ns[::101], strict=True)
    else:
        pairs = zip(samples.start_ns, samples.finish_ns, strict=True)
    return sum(finish - start < 50_000_000 for start, finish in pairs)


def cases(largest: int) -> list[Case]:
    def case(name: str, items: int, unit: str, target: float, strategy: str, action: Any, **options: Any) -> Case:
        return Case(name, lambda: fw.run(action, items, strategy=strategy, **options), items, unit, target)

    ratio, cpu, wall = "time / ideal", "CPU ns/item", "wall ns/item"
    found = [
        case("for_each 8", 400, ratio, 1.006, "for_each", WAIT, limit=8),
        case("bounded 50", 2_000, ratio, 1.006, "bounded", WAIT, limit=50),
        case("bounded 1,000", 40_000, ratio, 1.006, "bounded", WAIT, limit=1_000),
        case("bounded 10,000", 400_000, ratio, 1.006, "bounded", WAIT, limit=10_000),
        case("when_all 10k", 10_000, ratio, 1.02, "when_all", WAIT),
        case("when_all 100k", 100_000, ratio, 1.02, "when_all", WAIT),
        case("when_all 1M", MB, ratio, 1.06, "when_all", WAIT),
        case("when_all 10M", 10 * MB, ratio, 1.5, "when_all", WAIT),
        case("when_all 1M: CPU", MB, cpu, 12, "when_all", WAIT),
        case("noop, bounded 50, 10M", 10 * MB, wall, 15, "bounded", fw.noop(), limit=50),
        case("random, bounded 1k", 100_000, ratio, 1.005, "bounded", RANDOM, limit=1_000, seed=1),
        case("random, bounded 10k", 400_000, ratio, 1.005, "bounded", RANDOM, limit=10_000, seed=1),
        case("random, when_all 10M: CPU", 10 * MB, cpu, 200, "when_all", RANDOM, seed=1),
        case("virtual, constant, bounded 8", 10 * MB, wall, 25, "bounded", WAIT, limit=8, clock="virtual"),
        case("virtual, random, bounded 1k", MB, wall, 200, "bounded", RANDOM, limit=1_000, clock="virtual", seed=1),
        case("virtual, summary, bounded 1M", 100 * MB, wall, 25, "bounded", WAIT, limit=MB, clock="virtual", keep="summary"),
    ]
    return [case for case in found if case.items <= largest]


def one_call(rounds: int) -> dict[str, Any]:
    """`bounded(noop(), 1, limit=1)`: what a call costs when there is nothing to do."""
    nothing = fw.noop()
    times = []
    for _ in range(max(rounds, 5) * 200):
        begin = time.perf_counter()
        fw.bounded(nothing, 1, limit=1)
        times.append(time.perf_counter() - begin)
    reached = statistics.median(times) * 1e6
    return {"case": "one call: bounded(noop(), 1, limit=1)", "of": "us", "target": 60, "reached": reached, "met": reached <= 60}


def import_time(rounds: int) -> dict[str, Any]:
    """`import fanwidth` beyond the bare interpreter, in fresh processes, interleaved."""
    bare, ours = [], []
    for _ in range(max(rounds, 5) + 1):
        for code, times in (("pass", bare), ("import fanwidth", ours)):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(time.perf_counter() - begin)
    reached = (statistics.median(ours[1:]) - statistics.median(bare[1:])) * 1e3
    return {"case": "import fanwidth", "of": "ms", "target": 25, "reached": reached, "met": reached <= 25}


_IN_FLIGHT = """
import fanwidth as fw

def peak():  # kB; ru_maxrss would be the parent's, where that was larger
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

fw.run({action}, 10, strategy="{strategy}", {options})
before = peak()
run = fw.run({action}, {items}, strategy="{strategy}", {options})
assert run.ok, run
print((peak() - before) * 1024 / 1e6)
"""


def resident(name: str, target: float, **what: Any) -> dict[str, Any]:
    """Resident memory of a run beyond the imported package, in a process of its own, MB."""
    done = subprocess.run([sys.executable, "-c", _IN_FLIGHT.format(**what)], check=True, capture_output=True, text=True)
    reached = float(done.stdout)
    return {"case": name, "of": "MB", "target": target, "reached": reached, "met": reached <= target}


def flatness(largest: int, rounds: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """CPU per item over sizes: how much dearer an item of a larger run is. What a small run costs is mostly the call itself."""
    sizes = [10**power for power in range(4, 8) if 10**power <= largest]
    points = []
    for strategy, options in (("when_all", {}), ("bounded", {"limit": 1_000, "clock": "virtual"})):
        for size in sizes:
            repeats = max(1, 200_000 // size)
            costs = []
            for _ in range(rounds + 1):
                begin = time.process_time()
                for _ in range(repeats):
                    fw.run(WAIT, size, strategy=strategy, **options)
                costs.append((time.process_time() - begin) / size / repeats * 1e9)
            points.append({"strategy": strategy, "items": size, "CPU ns/item": statistics.median(costs[1:])})
    growth = []
    for strategy in ("when_all", "bounded"):
        costs = [p["CPU ns/item"] for p in points if p["strategy"] == strategy]
        growth.append(max(costs) / costs[0])
    reached = max(growth)
    name = f"CPU per item, at most, to that of {sizes[0]:,} items (up to {sizes[-1]:,})"
    return points, {"case": name, "of": "x", "target": 2, "reached": reached, "met": reached <= 2}


def draw(points: list[dict[str, Any]], path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4))
    axes = figure.subplots()
    for strategy, marker in (("when_all", "o"), ("bounded", "s")):
        chosen = [point for point in points if point["strategy"] == strategy]
        label = "when_all, real clock" if strategy == "when_all" else "bounded 1,000, virtual clock"
        axes.plot([p["items"] for p in chosen], [p["CPU ns/item"] for p in chosen], marker=marker, label=label)
    axes.set(xscale="log", yscale="log", xlabel="items", ylabel="CPU per item (ns)", title="Waits of 50 ms")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'case':<58} {'reached':>10} {'target':>8}  {'of':<13} {'bytes/item':>10} {'call/ideal':>10} {'early':>5}")
    for row in rows:
        call = row.get("call / ideal")
        print(
            f"{row['case']:<58} {row['reached']:>10.4g} {row['target']:>8g}  {row['of']:<13} "
            f"{row.get('bytes/item') or 0:>10.3g} {call or 0:>10.4g} {row.get('early', 0):>5}{'' if row['met'] else '  MISSED'}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default: 5)")
    parser.add_argument("--largest", type=int, default=100 * MB, help="leave out what has more items")
    parser.add_argument("--billion", action="store_true", help="also 10^9 items on the virtual clock, about a minute")
    parser.add_argument("--json", metavar="PATH", help="write all figures with the machine they are of")
    parser.add_argument("--plot", metavar="PATH", help="draw cost per item from 10^4 to 10^7 items")
    given = parser.parse_args()

    measured = cases(given.largest)
    for number in range(given.rounds + 1):
        for case in measured:
            print(f"\rround {number} of {given.rounds}: {case.name:<40}", end="", file=sys.stderr, flush=True)
            case.measure(counted=number > 0)
    print(file=sys.stderr)
    rows = [case.row() for case in measured]
    rows += [one_call(given.rounds), import_time(given.rounds)]
    points, flat = flatness(min(given.largest, 10 * MB), given.rounds)
    rows.append(flat)
    if given.largest >= 10 * MB:
        rows.append(resident("10M waits in flight", 250, action="fw.delay(0.05)", items=10 * MB, strategy="when_all", options=""))
    if given.billion:
        wide = 'limit=10**6, clock="virtual", keep="summary"'
        rows.append(
            resident(
                "10^9 items, bounded 1M, virtual", 64, action="fw.delay(0.05)", items=10**9, strategy="bounded", options=wide
            )
        )
    show(rows)
    if given.plot:
        draw(points, given.plot)
    if given.json:
        from fanwidth.export import json_safe, write_text_atomic

        facts = {"machine": machine.describe(), "rounds": given.rounds, "rows": rows, "cost": points}
        facts["cases"] = [{k: v for k, v in asdict(case).items() if k != "run"} for case in measured]
        write_text_atomic(given.json, json.dumps(json_safe(facts), indent=1) + "\n")


if __name__ == "__main__":
    main()
