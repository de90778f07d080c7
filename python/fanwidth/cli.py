"""The command line. Tables go to stdout, progress and errors to stderr.

Exit codes: 0 ok, 1 some items failed, 2 bad use or results that could not be written, 130 interrupted, 141 where the
reader of stdout went away.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from . import _unusable
from ._version import __version__
from .arguments import seconds, whole

if TYPE_CHECKING:
    from .table import Table

OK, FAILED, BAD_USE, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141

_EXPORTS = ("json", "csv", "markdown")
_OTHER_FILES = ("journal", "plot")  # of some commands
_NO_OPTIONS = ("path", "command", "measure", "shown", "verdict")

_EXIT_CODES = "exit codes: 0 ok, 1 some items failed, 2 bad use, 130 interrupted"

_COMPARE_EXAMPLES = f"""\
examples:
  fanwidth compare                    the published experiment
  fanwidth compare --same-limit 50    one limit: for_each and bounded are equal
  fanwidth compare --work cpu         does CPU-bound work want for_each?
  fanwidth compare --items 100000 --clock virtual --chunked
  fanwidth compare --json - | jq .rows

{_EXIT_CODES}
"""

# For a terminal that knows ASCII alone.
_ASCII = str.maketrans({"\N{EN DASH}": "-", "\N{MICRO SIGN}": "u", "\N{HORIZONTAL ELLIPSIS}": "~", "\N{SUPERSCRIPT TWO}": "^2"})


# Arguments


def _limit(text: str) -> int | Literal["cpu"]:
    if text == "cpu":
        return "cpu"
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'must be a whole number or "cpu", got {text!r}') from None


def _sizes(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be whole numbers with commas between them, got {text!r}") from None


def _add_exports(parser: argparse.ArgumentParser) -> None:
    """The options of every command that gives a table."""
    group = parser.add_argument_group("output (- is stdout, which then has nothing else)")
    group.add_argument("--json", metavar="PATH", help="write the table as strict JSON, with machine and versions")
    group.add_argument("--csv", metavar="PATH", help="write the table as CSV")
    group.add_argument("--markdown", metavar="PATH", help="write the table as Markdown")
    progress = parser.add_mutually_exclusive_group()
    progress.add_argument("--progress", action="store_true", default=None, help="progress on stderr even where it is no terminal")
    progress.add_argument("--quiet", dest="progress", action="store_false", help="no progress")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fanwidth",
        description="Many things to do at once: under which strategy, and how many in flight? Measured, with the reason why.",
        epilog=_EXIT_CODES,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"fanwidth {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    if _unusable is None:
        from .advice import add_recommend
        from .commands import add_show, add_sweep

        for add in (_add_compare, add_sweep, add_recommend, add_show):
            _add_exports(add(commands))
    return parser


def _add_compare(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    compare = commands.add_parser(
        "compare",
        help="the strategies side by side, beside the ideal and the published .NET figures",
        description="Measures for_each, when_all and bounded on the same items and says what the table shows.",
        epilog=_COMPARE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    compare.add_argument("--items", type=_sizes, metavar="N[,N]", help="how many (default: 1000 real, 10000 and 100000 virtual)")
    compare.add_argument("--delay", type=seconds, metavar="S", help="seconds of each item (default: 0.05; with --work cpu 0.001)")
    compare.add_argument("--work", choices=("delay", "cpu"), default="delay", help="items wait, or compute (default: delay)")
    compare.add_argument(
        "--clock", choices=("real", "virtual"), help="wait, or simulate exactly (default: both; with --items real)"
    )
    each = "in flight at most (default: 8, as published; with --work cpu the CPUs)"
    compare.add_argument("--for-each-limit", type=_limit, metavar="K|cpu", help=each)
    compare.add_argument("--bounded-limit", type=_limit, metavar="K|cpu", help="in flight at most (default: 50, as published)")
    compare.add_argument("--same-limit", type=_limit, metavar="K|cpu", help="one limit for both instead")
    compare.add_argument("--chunked", action="store_true", help="also chunk by chunk, the common mistake")
    rounds = "interleaved rounds; of each line the median one is shown (default: 1)"
    compare.add_argument("--repeats", type=whole, default=1, metavar="R", help=rounds)
    compare.add_argument("--seed", type=whole, metavar="N", help="of drawn times; recorded in the JSON")
    compare.set_defaults(measure=_compare)
    return compare


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _parser()
    given, unknown = parser.parse_known_args(arguments)
    if unknown:  # argparse would show the usage of the whole, which has no options
        print(f"fanwidth {given.command}: unknown {' '.join(unknown)} (see fanwidth {given.command} --help)", file=sys.stderr)
        raise SystemExit(BAD_USE)
    if getattr(given, "progress", False) is None:
        given.progress = sys.stderr.isatty()
    return given


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
        progress=given.progress,
    )


# Output


def _hold_descriptors() -> None:
    """Closed standard streams go to the null device: libuv aborts when it is given their numbers, and a file that got
    one would have our messages in it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _check_outputs(given: argparse.Namespace) -> None:
    """What cannot be written is told before the measuring, not after it."""
    for name in _EXPORTS:
        if getattr(given, name) == "/dev/stdout":
            setattr(given, name, "-")
    if [getattr(given, name) for name in _EXPORTS].count("-") > 1:
        raise ValueError("only one of --json, --csv and --markdown can go to stdout")
    written = {name: getattr(given, name, None) for name in (*_EXPORTS, *_OTHER_FILES)}
    files = {f"--{name}": path for name, path in written.items() if path not in (None, "-")}
    targets = [os.path.realpath(path) for path in files.values()]
    if len(set(targets)) < len(targets):
        raise ValueError(f"{' and '.join(files)} need a file of their own each")
    for path in files.values():
        if reason := _unwritable(path):
            raise ValueError(f"cannot write {path!r}: {reason}")
    if sys.stdout is None:
        raise ValueError("stdout is closed, so the table has nowhere to go (use >/dev/null to drop it)")


def _unwritable(path: str) -> str:
    """Why, or nothing."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not path:
        return "the path is empty"
    if os.path.isdir(target):
        return "it is a folder"
    if not os.path.isdir(folder):
        return f"there is no folder {folder!r}"
    try:
        os.stat(target)
    except FileNotFoundError:
        return "" if os.access(folder, os.W_OK) else f"there is no permission to write in {folder!r}"
    except OSError as error:
        return error.strerror or str(error)
    return "" if os.access(target, os.W_OK) else "there is no permission to write it"


def _deliver(table: Table, given: argparse.Namespace) -> bool:
    """Writes everything that can be written; whether that is all."""
    exports = ((given.json, table.to_json), (given.csv, table.to_csv), (given.markdown, table.to_markdown))
    well = True
    for path, export in exports:
        if path not in (None, "-"):
            try:
                export(path)
            except OSError as error:
                well = False
                _say(f"fanwidth {given.command}: cannot write {path!r}: {error.strerror or error}")
    to_stdout = [export for path, export in exports if path == "-"]
    if to_stdout:
        _write(str(to_stdout[0]("-")).encode())  # as in a file, whatever the terminal's encoding
    else:
        shown: Callable[[Table], object] | None = getattr(given, "shown", None)
        text = str(table if shown is None else shown(table)).rstrip("\n") + "\n"
        _write(_encoded(text, sys.stdout.encoding or "utf-8"))
    return well


def _encoded(text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "backslashreplace")


def _write(data: bytes) -> None:
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:  # somebody's replacement of stdout
        sys.stdout.write(data.decode(sys.stdout.encoding or "utf-8", "replace"))
    while buffer is not None and data:
        data = data[buffer.write(data) :]  # with PYTHONUNBUFFERED not all of it is written at once
    sys.stdout.flush()


def _say(text: str) -> None:
    """Tells it on stderr, unless nobody reads that."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr)


def _leave_stdout() -> None:
    """The reader is gone, or the disk is full: what Python still wants to write at its end goes nowhere."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# A command from its start to its exit code


def _failures(table: Table, given: argparse.Namespace) -> str:
    """What failed, in words."""
    from .commands import verdict

    return str(getattr(given, "verdict", verdict)(table))


def _run(given: argparse.Namespace) -> int:
    _check_outputs(given)
    try:
        table, interrupted = given.measure(given), False
    except KeyboardInterrupt as interrupt:
        table, interrupted = getattr(interrupt, "table", None), True
        if not table:  # nothing worth replacing an older file
            raise
        _say("interrupted: this is what was measured until then")
    try:
        well = _deliver(table, given)
    except BrokenPipeError:
        _leave_stdout()
        return BROKEN_PIPE
    except OSError as error:
        _leave_stdout()
        _say(f"fanwidth {given.command}: cannot write to stdout: {error.strerror or error}")
        return BAD_USE
    if failed := _failures(table, given):
        _say(failed)
    return INTERRUPTED if interrupted else BAD_USE if not well else FAILED if failed else OK


def _told(error: BaseException, given: argparse.Namespace) -> str:
    """The error in terms of the command line: `for_each_limit must be ...` speaks of --for-each-limit."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename!r}: {error.strerror}"
    words = (str(error) or type(error).__name__).split(" ")
    names = vars(given).keys() - set(_NO_OPTIONS)
    option = [word in names and (place == 0 or "_" in word) for place, word in enumerate(words)]
    return " ".join("--" + word.replace("_", "-") if is_one else word for word, is_one in zip(words, option, strict=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code."""
    _hold_descriptors()
    given = argparse.Namespace()
    try:
        arguments = sys.argv[1:] if arguments is None else arguments
        if _unusable is not None and list(arguments) != ["--version"]:
            raise _unusable
        given = _parse(arguments)
        return _run(given)
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except (ValueError, TypeError, ImportError, OSError, MemoryError) as error:
        command = f" {given.command}" if "command" in given else ""
        _say(f"fanwidth{command}: {_told(error, given)}")
        return BAD_USE
