"""The command line. Tables go to stdout, progress and errors to stderr.

Exit codes: 0 ok, 1 some items failed, 2 bad use, 130 interrupted, 141 where the reader of stdout went away.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from . import _unusable
from ._version import __version__

if TYPE_CHECKING:
    from .table import Table

OK, FAILED, BAD_USE, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141

_COMPARE_EXAMPLES = """\
examples:
  fanwidth compare                          the published experiment: measured, and at full size on the virtual clock
  fanwidth compare --same-limit 50          with one limit, for_each and bounded take the same time
  fanwidth compare --items 100000 --clock virtual --chunked
  fanwidth compare --work cpu               does CPU-bound work want for_each?
  fanwidth compare --json - | jq .rows
"""


def _limit(text: str) -> int | Literal["cpu"]:
    if text == "cpu":
        return "cpu"
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'must be a whole number or "cpu", got {text!r}') from None


def _sizes(text: str) -> list[int]:
    try:
        return [int(part.replace("_", "")) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be whole numbers with commas between them, got {text!r}") from None


def _add_exports(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output (- is stdout, which then has nothing else)")
    group.add_argument("--json", metavar="PATH", help="write the table as strict JSON, with machine and versions")
    group.add_argument("--csv", metavar="PATH", help="write the table as CSV")
    group.add_argument("--markdown", metavar="PATH", help="write the table as Markdown")
    group.add_argument("--quiet", action="store_true", help="no progress on stderr")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fanwidth",
        description="Many things to do at once: under which strategy, and how many in flight? Measured, with the reason why.",
    )
    parser.add_argument("--version", action="version", version=f"fanwidth {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    compare = commands.add_parser(
        "compare",
        help="the strategies side by side, beside the ideal and the published .NET figures",
        description="Measures for_each, when_all and bounded on the same items and says what the table shows.",
        epilog=_COMPARE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    compare.add_argument("--items", type=_sizes, metavar="N[,N]", help="how many (default: 1000 real, 10000 and 100000 virtual)")
    compare.add_argument("--delay", type=float, metavar="S", help="seconds of each item (default: 0.05; with --work cpu 0.001)")
    compare.add_argument("--work", choices=("delay", "cpu"), default="delay", help="items wait, or compute (default: delay)")
    compare.add_argument("--clock", choices=("real", "virtual"), help="wait, or simulate exactly (default: both)")
    compare.add_argument("--for-each-limit", type=_limit, metavar="K|cpu", help="in flight at most (default: 8, as published)")
    compare.add_argument("--bounded-limit", type=_limit, metavar="K|cpu", help="in flight at most (default: 50, as published)")
    compare.add_argument("--same-limit", type=int, metavar="K", help="one limit for both")
    compare.add_argument("--chunked", action="store_true", help="also chunk by chunk, the common mistake")
    compare.add_argument("--repeats", type=int, default=1, metavar="R", help="interleaved rounds, medians shown (default: 1)")
    compare.add_argument("--seed", type=int, metavar="N", help="of drawn times; recorded in the JSON")
    _add_exports(compare)
    compare.set_defaults(measure=_compare)
    return parser


def _compare(given: argparse.Namespace) -> Table:
    from .experiment import compare

    return compare(
        given.items,
        delay=given.delay,
        work=given.work,
        clock=given.clock,
        for_each_limit=given.for_each_limit,
        bounded_limit=given.bounded_limit,
        same_limit=given.same_limit,
        chunked=given.chunked,
        repeats=given.repeats,
        seed=given.seed,
        progress=not given.quiet,
    )


def _check_outputs(given: argparse.Namespace) -> None:
    """A path that cannot be written is told before the measuring, not after it."""
    paths = [path for path in (given.json, given.csv, given.markdown) if path is not None]
    if paths.count("-") > 1:
        raise ValueError("only one of --json, --csv and --markdown can go to stdout")
    for path in paths:
        folder = os.path.dirname(path) or "."
        if path != "-" and (not os.path.isdir(folder) or os.path.isdir(path)):
            raise ValueError(
                f"cannot write {path!r}: " + ("it is a folder" if os.path.isdir(path) else f"there is no folder {folder!r}")
            )


def _deliver(table: Table, given: argparse.Namespace) -> None:
    exports = ((given.json, table.to_json), (given.csv, table.to_csv), (given.markdown, table.to_markdown))
    for path, export in exports:
        if path not in (None, "-"):
            export(path)
    to_stdout = [export for path, export in exports if path == "-"]
    text = to_stdout[0]("-") if to_stdout else str(table)
    sys.stdout.write((text or "").rstrip("\n") + "\n")
    sys.stdout.flush()


def _leave_stdout() -> None:
    """The reader is gone: what Python still wants to write at its end goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(given: argparse.Namespace) -> int:
    _check_outputs(given)
    try:
        table, code = given.measure(given), OK
    except KeyboardInterrupt as interrupt:
        table, code = getattr(interrupt, "table", None), INTERRUPTED
        if table is None:
            raise
        print("interrupted: this is what was measured until then", file=sys.stderr)
    _deliver(table, given)
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code."""
    given = _parser().parse_args(arguments)
    if _unusable is not None:
        print(f"fanwidth {given.command}: {_unusable}", file=sys.stderr)
        return BAD_USE
    try:
        return _run(given)
    except BrokenPipeError:
        _leave_stdout()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except (ValueError, TypeError, ImportError, OSError) as error:
        print(f"fanwidth {given.command}: {error}", file=sys.stderr)
        return BAD_USE
