"""The command `fanwidth recommend`: what it takes, and what it says. cli.py runs it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from . import arguments as given_as
from .commands import SubParsers, action_of, add_action, check_plot, check_source, overview

if TYPE_CHECKING:
    from .table import Table

_EXAMPLES = """\
examples:
  fanwidth recommend --call shop.api:fetch --source ids.txt
  fanwidth recommend --call shop.api:fetch --source ids.txt --setup shop.api:client \\
                     --budget 120 --max-calls 20000 --max-p99 0.5 --plot knee.png
  fanwidth recommend --call shop.api:fetch --source ids.txt --limits 1..64:geometric --json -
  fanwidth recommend --service 0.05:24 --clock virtual

A function gets one item per call: a line of the file, or a JSON value where its
name ends in .jsonl. The lines go round; there must be two for each slot of the
largest limit.

exit codes: 0 a limit is recommended, 1 none can be (the reason is printed),
2 bad use, 130 interrupted (what was measured is printed)
"""


def add_recommend(commands: SubParsers) -> argparse.ArgumentParser:
    """The parser of `fanwidth recommend`, without the exports."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "recommend",
        help="which limit an action, or your own function, needs, and why",
        description="Measures a few limits, looks closer around the knee, and recommends the smallest one that gives all the "
        "throughput there is, with the evidence; or says why that cannot be told.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_action(parser)
    over = parser.add_argument_group("on what")
    over.add_argument("--items", type=given_as.whole, metavar="N", help="items for --call: the numbers below N")
    over.add_argument("--source", metavar="FILE", help="items for --call: one per line, or JSON Lines (.jsonl); - is stdin")
    limits = "measured first, a list: 1,2,4 or 1..10 or 1..256:geometric (the default); others follow around the knee"
    over.add_argument("--limits", type=given_as.axis, metavar="LIST", help=limits)
    wanted = parser.add_argument_group("what is wanted")
    share = "how far below the best throughput it may be (default: 0.05)"
    wanted.add_argument("--tolerance", type=_number, default=0.05, metavar="SHARE", help=share)
    wanted.add_argument(
        "--max-p99", type=given_as.seconds, metavar="S", help="only limits whose p99 latency is at most S seconds"
    )
    enough = "the smallest limit that gives so many items per second instead"
    wanted.add_argument("--min-throughput", type=_number, metavar="RATE", help=enough)
    failures = "share of items that may fail (default: 0)"
    wanted.add_argument("--max-failure-rate", type=_number, default=0.0, metavar="SHARE", help=failures)
    how = parser.add_argument_group("how")
    how.add_argument("--repeats", type=given_as.whole, default=3, metavar="R", help="runs per limit (default: 3)")
    how.add_argument("--budget", type=given_as.seconds, default=60.0, metavar="S", help="seconds for all (default: 60)")
    how.add_argument("--max-calls", type=given_as.whole, metavar="N", help="the most calls in all")
    how.add_argument("--setup", metavar="PKG.MOD:FN", help="gives the function's second argument, see fw.bounded")
    how.add_argument("--clock", choices=("real", "virtual"), default="real", help="wait, or simulate exactly (default: real)")
    how.add_argument("--seed", type=given_as.whole, metavar="N", help="of order and drawn times (default: drawn, recorded)")
    how.add_argument("--plot", metavar="PATH.png|svg", help="draw throughput over the limit (needs matplotlib)")
    parser.set_defaults(measure=_recommend, shown=overview, verdict=_verdict)
    return parser


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None


def _recommend(given: argparse.Namespace) -> Table:
    from .recommendation import LIMITS, recommend

    check_source(given)
    check_plot(given)
    action, setup = action_of(given), given_as.function("setup", given.setup) if given.setup else None
    items: Any = given.items if given.source is None else given_as.read_items(given.source)
    found = recommend(
        action,
        items,
        limits=given.limits or LIMITS,
        tolerance=given.tolerance,
        max_p99=given.max_p99,
        min_throughput=given.min_throughput,
        max_failure_rate=given.max_failure_rate,
        repeats=given.repeats,
        budget=given.budget,
        max_calls=given.max_calls,
        setup=setup,
        clock=given.clock,
        seed=given.seed,
        progress=given.progress,
    )
    given.shown = lambda table: found
    if given.plot is not None and found.evidence.points:
        from . import plot

        plot.save(plot.throughput(found, ax=plot.blank()), given.plot)
    return found.table


def _verdict(table: Table) -> str:
    """Nothing where a limit is recommended, or where the measuring was interrupted."""
    told = table.meta.get("recommendation")
    return "no limit can be recommended" if isinstance(told, dict) and told["limit"] is None else ""
