"""The commands `fanwidth sweep` and `fanwidth show`: what they take, and how their tables are shown. cli.py runs them."""

from __future__ import annotations

import argparse
import importlib.util
from collections import UserList
from typing import TYPE_CHECKING, Any

from . import arguments as given_as

if TYPE_CHECKING:
    from .table import Table

SubParsers = Any  # argparse has no public name for what add_subparsers gives

_SWEEP_EXAMPLES = """\
examples:
  fanwidth sweep --service 0.05:10 --limit 1..64:geometric
  fanwidth sweep --delay 0.05 --strategy for_each,when_all,bounded --limit 8,50
  fanwidth sweep --service 0.05:10 --axis capacity=5,10,20 --limit 16 --clock virtual
  fanwidth sweep --call shop.api:fetch --source ids.txt --limit 1..64:geometric
  fanwidth sweep --call shop.api:fetch --source rows.jsonl --limit 4,8,16 \\
                 --budget 120 --max-calls 5000 --journal fetch.jsonl

A function gets one item per call: a line of the file, or a JSON value where its
name ends in .jsonl. Run the same command with its --journal again to go on.

exit codes: 0 ok, 1 some items or runs failed, 2 bad use, 130 interrupted
"""

_SHOW_EXAMPLES = """\
examples:
  fanwidth show fetch.jsonl            the points of a sweep, medians over repeats
  fanwidth show fetch.jsonl --all      every run
  fanwidth show fetch.jsonl --csv -    all columns, as CSV
"""

ITEMS = 1_000

_SHOWN = (
    "repeats",
    "elapsed_median",
    "elapsed_min",
    "elapsed_max",
    "throughput_median",
    "latency_p50_median",
    "latency_p99_median",
    "limited_by",
)


# What several commands take


def add_action(parser: argparse.ArgumentParser) -> None:
    """The options that say what is done to an item."""
    what = parser.add_argument_group("what is done to an item (one of these)").add_mutually_exclusive_group(required=True)
    what.add_argument("--delay", type=given_as.seconds, metavar="S", help="wait S seconds")
    what.add_argument(
        "--service", type=given_as.service, metavar="S:C[:Q]", help="S seconds at one of C servers, at most Q queueing"
    )
    what.add_argument("--cpu", type=given_as.seconds, metavar="S", help="compute for S seconds")
    what.add_argument("--noop", action="store_true", help="nothing: the cost of fanwidth itself")
    what.add_argument("--call", metavar="PKG.MOD:FN", help="call your function, sync or async, with the item")


def action_of(given: argparse.Namespace) -> Any:
    """The action that these options name."""
    from .actions import cpu, delay, noop, service

    if given.call is not None:
        return given_as.function("call", given.call)
    if given.delay is not None:
        return delay(given.delay)
    if given.cpu is not None:
        return cpu(given.cpu)
    return noop() if given.noop else service(*given.service)


def check_source(given: argparse.Namespace) -> None:
    """ValueError where the items do not belong to the action."""
    if given.source is not None and given.items is not None:
        raise ValueError("items and --source exclude each other: the source says how many there are")
    if given.source is not None and given.call is None:
        raise ValueError("source is for --call: a native action works on numbers")
    if given.call is not None and given.source is None and given.items is None:
        raise ValueError("call needs items: --source FILE, or --items N for the numbers below N")


def check_plot(given: argparse.Namespace) -> None:
    """ValueError where no picture can be drawn: told before the measuring."""
    if given.plot is not None:
        if not given.plot.lower().endswith((".png", ".svg")):
            raise ValueError(f"plot must be a path that ends in .png or .svg, got {given.plot!r}")
        if importlib.util.find_spec("matplotlib") is None:
            raise ValueError('plot needs matplotlib: pip install "fanwidth[plot]"')


# fanwidth sweep


def add_sweep(commands: SubParsers) -> argparse.ArgumentParser:
    """The parser of `fanwidth sweep`, without the exports."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "sweep",
        help="measure an action, or your own function, over strategies and limits",
        description="Measures one action at every combination of strategies, limits and sizes, in shuffled rounds.",
        epilog=_SWEEP_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_action(parser)
    over = parser.add_argument_group("over what (lists: 1,2,4 or 1..10 or 1..1024:geometric)")
    over.add_argument("--items", type=given_as.axis, metavar="LIST", help="how many items (default: 1000, or those of --source)")
    over.add_argument("--source", metavar="FILE", help="items for --call: one per line, or JSON Lines (.jsonl); - is stdin")
    names = "some of for_each, when_all, bounded, chunked (default: bounded)"
    over.add_argument("--strategy", type=given_as.strategies, default=["bounded"], metavar="NAMES", help=names)
    over.add_argument("--limit", type=given_as.axis, metavar="LIST", help="in flight at most")
    over.add_argument(
        "--max-failures", type=given_as.failures, metavar="LIST", help='stop after more failures than this; "none" is no bound'
    )
    more = "a field of the action or a keyword of the function, with its values; may be given several times"
    over.add_argument("--axis", type=given_as.named_axis, action="append", default=[], metavar="NAME=V[,V]", help=more)
    over.add_argument("--zip", action="store_true", help="the n-th values together, instead of all combinations")
    how = parser.add_argument_group("how")
    how.add_argument("--repeats", type=given_as.whole, default=5, metavar="R", help="rounds over all points (default: 5)")
    how.add_argument("--warmup", type=given_as.whole, default=1, metavar="R", help="rounds before, marked as such (default: 1)")
    how.add_argument("--budget", type=given_as.seconds, metavar="S", help="seconds for all; what would not fit is left out")
    how.add_argument("--max-calls", type=given_as.whole, metavar="N", help="the most calls in all")
    how.add_argument("--setup", metavar="PKG.MOD:FN", help="gives the function's second argument, see fw.bounded")
    how.add_argument("--journal", metavar="PATH.jsonl", help="write each run as it ends, and go on from there when run again")
    how.add_argument("--clock", choices=("real", "virtual"), default="real", help="wait, or simulate exactly (default: real)")
    how.add_argument("--seed", type=given_as.whole, metavar="N", help="of order and drawn times (default: drawn, recorded)")
    how.add_argument("--plot", metavar="PATH.png|svg", help="draw throughput over the limit (needs matplotlib)")
    parser.set_defaults(measure=_sweep, shown=overview, verdict=verdict)
    return parser


def _sweep(given: argparse.Namespace) -> Table:
    from .options import DEFAULT
    from .sweeps import sweep

    _check_together(given)
    action, setup = action_of(given), given_as.function("setup", given.setup) if given.setup else None
    # A list of ints would be an axis of sizes, and not the rows of a file.
    items = (given.items or [ITEMS]) if given.source is None else UserList(given_as.read_items(given.source))
    table = sweep(
        action,
        items,
        strategy=given.strategy,
        limit=given.limit,
        max_failures=DEFAULT if given.max_failures is None else given.max_failures,
        repeats=given.repeats,
        budget=given.budget,
        max_calls=given.max_calls,
        warmup=given.warmup,
        setup=setup,
        journal=given.journal,
        clock=given.clock,
        seed=given.seed,
        progress=given.progress,
        zip=given.zip,
        **dict(given.axis),
    )
    if given.plot is not None:
        from . import plot

        plot.save(plot.throughput(table, ax=plot.blank()), given.plot)
    return table


def _check_together(given: argparse.Namespace) -> None:
    check_source(given)
    if given.limit is None and {"bounded", "chunked"} & set(given.strategy):
        raise ValueError(f"limit is needed by {', '.join(given.strategy)}: for instance --limit 1..64:geometric")
    names = [name for name, _ in given.axis]
    for name in names:
        if name in vars(given):
            raise ValueError(f"axis {name} has an option of its own: --{name.replace('_', '-')}")
        if names.count(name) > 1:
            raise ValueError(f"axis {name} is given twice: all its values belong into one (--axis {name}=1,2)")
    check_plot(given)


# fanwidth show


def add_show(commands: SubParsers) -> argparse.ArgumentParser:
    """The parser of `fanwidth show`, without the exports."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "show",
        help="print a saved table: .json, .csv, or the journal of a sweep (.jsonl)",
        description="Prints a table that was written before, or writes it in another format.",
        epilog=_SHOW_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("path", metavar="PATH", help="a .json or .csv of any command, or a journal (.jsonl)")
    parser.add_argument("--all", action="store_true", help="every run of a sweep, not the medians over repeats")
    parser.set_defaults(measure=_show, verdict=lambda table: "")
    return parser


def _show(given: argparse.Namespace) -> Table:
    from .repeats import in_order
    from .table import read_table

    table = read_table(given.path)
    given.shown = in_order if given.all else overview
    return table


# What a sweep looks like


def overview(table: Table) -> Table:
    """A row per point, with what one reads first. Any table but a sweep's is itself."""
    from .table import Table

    if "warmup" not in table or "repeat" not in table:
        return table
    summed = table.summary()
    keys = [column.name for column in summed.schema if column.role == "key"]
    told = [f"{state}_max" for state in ("failed", "timed_out", "cancelled", "not_started") if any(summed[f"{state}_max"])]
    names = [*keys, *(name for name in _SHOWN if name in summed), *told]
    chosen = summed.select(*names)
    about: dict[str, Any] = {"meta": table.meta, "title": table.title, "complete": table.complete}
    return Table(chosen.schema, {name: chosen[name] for name in chosen.columns}, notes=(*table.notes, *summed.notes), **about)


def verdict(table: Table) -> str:
    """What went wrong, in words: "8 ok, 2 failed"; nothing where all is well."""
    states = [state for state in ("ok", "failed", "timed_out", "cancelled", "not_started") if state in table]
    counted = [tuple(int(row[state] or 0) for state in states) for row in table if not row.get("error")]
    errors = len(table) - len(counted)
    totals = dict(zip(states, map(sum, zip(*counted, strict=True)), strict=False))
    parts = []
    if totals.get("failed") or totals.get("timed_out"):
        alike = len(set(counted)) == 1
        shown = dict(zip(states, counted[0], strict=True)) if alike else totals
        said = [f"{count:,} {state.replace('_', ' ')}" for state, count in shown.items() if count or state == "ok"]
        runs = f" in {'each of ' if alike else ''}{len(counted):,} runs" if len(counted) > 1 else ""
        parts.append(", ".join(said) + runs)
    if errors:
        parts.append(f"{errors:,} of {len(table):,} runs ended in an error")
    return "; ".join(parts)
