"""The command line: what goes where, exit codes, files, and what happens when it is stopped or misused."""

import contextlib
import fcntl
import json
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fanwidth as fw
from fanwidth import cli, experiment
from fanwidth.table import Table, read_table

QUICK = ["compare", "--items", "20", "--delay", "0.002"]
COMMAND = [sys.executable, "-W", "error", "-m", "fanwidth"]

Capture = pytest.CaptureFixture[str]


def strict(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} in JSON")

    return json.loads(text, parse_constant=refuse)


def shell(line: str, env: dict[str, str] | None = None) -> Any:
    command = ["bash", "-c", f"set -o pipefail; {line}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, env={**os.environ, **(env or {})})


def finish(*arguments: str, then: str = "", env: dict[str, str] | None = None) -> Any:
    """A command in a process of its own; `then`: what the shell does with it."""
    return shell(" ".join([*map(shlex.quote, [*COMMAND, *arguments]), then]), env)


# Output: the table on stdout, all else on stderr


def test_output_is_the_table_alone_where_nobody_watches(capsys: Capture) -> None:
    assert cli.main(QUICK) == cli.OK
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[0].startswith("items that wait 2 ms each")
    assert [line.split()[0] for line in lines[5:8]] == ["for_each", "when_all", "bounded"]
    assert lines[8] == "" and lines[9].startswith("The limit makes the time, not the method: for_each took")
    assert len(lines) == 12 and "\r" not in out and "\x1b" not in out


def test_progress_asked_for_is_plain_lines_in_a_log(capsys: Capture) -> None:
    # S073, PR-plain-output
    assert cli.main(["compare", "--items", "50", "--delay", "0.005", "--progress"]) == cli.OK
    err = capsys.readouterr().err
    assert "\r" not in err and "\x1b" not in err and len(err.splitlines()) <= 20
    assert "150/150 (100%)" in err.splitlines()[-1]


@pytest.mark.parametrize("columns", [80, 160])
def test_a_terminal_is_not_overrun(columns: int) -> None:
    """Progress in one line that is redrawn, and a table within the width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [*COMMAND, "compare", "--items", "60", "--delay", "0.05"]
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    received = b""
    with contextlib.suppress(OSError):  # EIO: the other side is closed
        while part := os.read(ours, 65536):
            received += part
    os.close(ours)
    assert child.wait(10) == cli.OK
    text = received.decode().replace("\r\n", "\n")
    progress, _, table = text.partition("\n")
    drawn = [part for part in progress.split("\r") if part]
    assert len(drawn) >= 1 and all(part.startswith("measuring: ") and len(part) < columns for part in drawn)
    assert "180/180 (100%)" in drawn[-1]
    assert "\x1b" not in text and "\r" not in table
    assert all(len(line) <= columns for line in table.splitlines())
    assert "when_all" in table and "The limit makes the time" in table


def test_ascii_terminals_get_the_table_too() -> None:
    done = finish("compare", "--items", "20", "--delay", "1e-4", "--clock", "virtual", env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii() and "when_all      -" in done.stdout and "(us)" in done.stdout


def test_exports_to_stdout_are_utf8_whatever_the_terminal() -> None:
    done = finish(*QUICK, "--markdown", "-", env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "| when_all | – |" in done.stdout


# Exports


def test_json_on_stdout_is_nothing_but_strict_json(capsys: Capture) -> None:
    # CL-json
    for more in ([], ["--delay", "0"], ["--work", "cpu"], ["--clock", "virtual", "--delay", "0"]):
        assert cli.main([*QUICK, *more, "--json", "-"]) == cli.OK
        out, err = capsys.readouterr()
        assert err == ""
        document = strict(out)
        assert document["complete"] is True
        assert [r["method"] for r in document["rows"]] == ["for_each", "when_all", "bounded"]
        assert all(type(r["items"]) is int for r in document["rows"])  # CL-table: whole numbers stay whole
        assert document["rows"][1]["limit"] is None
        assert len(document["notes"]) >= 2


def test_csv_and_markdown_on_stdout(capsys: Capture) -> None:
    assert cli.main([*QUICK, "--csv", "-"]) == cli.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("method,limit,items,clock,time,ideal,")
    assert [line.split(",")[:4] for line in lines[1:]] == [
        ["for_each", "8", "20", "real"],
        ["when_all", "", "20", "real"],
        ["bounded", "50", "20", "real"],
    ]
    assert cli.main([*QUICK, "--markdown", "-"]) == cli.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("| method | limit | items |") and set(lines[3]) <= set("|-:")


def test_files_are_written_beside_the_table(tmp_path: Path, capsys: Capture) -> None:
    names = {kind: str(tmp_path / f"t.{kind}") for kind in ("json", "csv", "markdown")}
    options = [part for kind, name in names.items() for part in (f"--{kind}", name)]
    assert cli.main([*QUICK, "--seed", "5", *options]) == cli.OK
    assert "for_each" in capsys.readouterr().out
    table = read_table(names["json"])
    assert table.complete and table.meta["seed"] == 5 and len(table.notes) == 3
    assert read_table(names["csv"]) == table
    assert (tmp_path / "t.markdown").read_text().count("| for_each |") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.csv", "t.json", "t.markdown"]


def test_files_and_stdout_together(tmp_path: Path, capsys: Capture) -> None:
    assert cli.main([*QUICK, "--json", str(tmp_path / "t.json"), "--csv", "-"]) == cli.OK
    out = capsys.readouterr().out
    (tmp_path / "t.csv").write_text(out)
    assert read_table(tmp_path / "t.csv") == read_table(tmp_path / "t.json")


def test_options_reach_the_comparison(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    seen: dict[str, Any] = {}

    def record(items: Any, **given: Any) -> Table:
        seen.update(given, items=items)
        return Table([], {})

    monkeypatch.setattr(experiment, "compare", record)
    options = "--items 5,1_000 --delay 0.5 --work cpu --clock virtual --for-each-limit cpu --bounded-limit 7"
    assert cli.main(["compare", *options.split(), "--same-limit", "3", "--chunked", "--repeats", "2", "--seed", "9"]) == cli.OK
    assert seen == {
        "items": [5, 1_000],
        "delay": 0.5,
        "work": "cpu",
        "clock": "virtual",
        "for_each_limit": "cpu",
        "bounded_limit": 7,
        "same_limit": 3,
        "chunked": True,
        "repeats": 2,
        "seed": 9,
        "progress": False,
    }


# Bad use: exit code 2, one or two lines on stderr, nothing on stdout, no traceback


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--items 0", "--items must be at least 1, got 0"),
        ("--items -5", "--items must be at least 1, got -5"),
        ("--items abc", "argument --items: must be whole numbers with commas between them, got 'abc'"),
        ("--items 5,", "must be whole numbers"),
        ("--items 1e6", "must be whole numbers"),
        ("--items 99999999999999999999", "--items must be below 2**63"),
        ("--items 1000000000000000 --clock virtual", "no memory for 1,000,000,000,000,000 items"),
        ("--delay nan", "--delay must be from 0 to 100 years in seconds, got nan"),
        ("--delay inf", "--delay must be from 0"),
        ("--delay -1", "--delay must be from 0"),
        ("--delay soon", "argument --delay: must be a number of seconds, got 'soon'"),
        ("--same-limit 0", "--same-limit must be at least 1, got 0"),
        ("--same-limit many", 'must be a whole number or "cpu"'),
        ("--same-limit 5 --bounded-limit 5", "leave out --for-each-limit and --bounded-limit"),
        ("--for-each-limit 0", "--for-each-limit must be at least 1"),
        ("--bounded-limit 1.5", 'argument --bounded-limit: must be a whole number or "cpu"'),
        ("--repeats 0", "--repeats must be at least 1"),
        ("--repeats x", "argument --repeats: must be a whole number, got 'x'"),
        ("--seed -1", "--seed must be at least 0"),
        ("--work io", "argument --work"),
        ("--clock wall", "argument --clock"),
        ("--progress --quiet", "not allowed with"),
        ("--limit 8", "unknown --limit 8 (see fanwidth compare --help)"),
        ("--item 8", "unknown --item 8"),
        ("everything", "unknown everything"),
        ("--json - --csv -", "only one of --json, --csv and --markdown can go to stdout"),
        ("--json t.txt --csv ./t.txt", "need a file of their own each"),
        ("--json nowhere/t.json", "there is no folder"),
        ("--csv .", "cannot write '.': it is a folder"),
        ("--markdown=", "cannot write '': the path is empty"),
        ("--json " + "x" * 300, "name too long"),
    ],
)
def test_bad_use_is_told_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture, options: str, said: str
) -> None:
    # S104, CL-exit-code
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(experiment, "REAL_ITEMS", 1)
    try:
        code: Any = cli.main(["compare", *options.split()])
    except SystemExit as end:  # argparse
        code = end.code
    out, err = capsys.readouterr()
    assert code == cli.BAD_USE
    assert out == "" and "Traceback" not in err
    assert said.lower() in err.splitlines()[-1].lower()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [[], ["compute"], ["--frobnicate"]])
def test_bad_command_is_told(capsys: Capture, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == cli.BAD_USE
    assert capsys.readouterr().err.startswith("usage: fanwidth")


def test_help_and_version(capsys: Capture) -> None:
    for arguments in (["--help"], ["compare", "--help"]):
        with pytest.raises(SystemExit) as end:
            cli.main(arguments)
        assert end.value.code == 0
        text = capsys.readouterr().out
        assert "exit codes: 0 ok, 1 some items failed, 2 bad use, 130 interrupted" in re.sub(r"\s+", " ", text)
    for option in "items delay work clock for-each-limit bounded-limit same-limit chunked repeats seed json csv markdown".split():
        assert f"--{option}" in text
    with pytest.raises(SystemExit) as end:
        cli.main(["--version"])
    assert end.value.code == 0 and capsys.readouterr().out == f"fanwidth {fw.__version__}\n"


def test_a_file_that_cannot_be_written_loses_neither_table_nor_other_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    def full(table: Table, path: Any = None) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Table, "to_json", full)
    code = cli.main([*QUICK, "--json", str(tmp_path / "t.json"), "--csv", str(tmp_path / "t.csv")])
    out, err = capsys.readouterr()
    assert code == cli.BAD_USE
    assert err == f"fanwidth compare: cannot write {str(tmp_path / 't.json')!r}: No space left on device\n"
    assert "for_each" in out and len(read_table(tmp_path / "t.csv")) == 3


@pytest.mark.parametrize("name", ["old.json", "new.json"])
def test_a_path_without_permission_is_told_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture, name: str
) -> None:
    (tmp_path / "old.json").write_text("old")
    monkeypatch.setattr(cli.os, "access", lambda path, mode: False)  # root, who may run the tests, may write everywhere
    monkeypatch.setattr(experiment, "compare", lambda *args, **options: pytest.fail("it ran"))
    assert cli.main([*QUICK, "--json", str(tmp_path / name)]) == cli.BAD_USE
    assert "there is no permission to write" in capsys.readouterr().err


# Items that failed: exit code 1


def test_failed_items_show_in_the_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    # S104, CL-exit-code
    table = Table.from_rows([{"method": "bounded", "ok": 8, "failed": 2}])
    monkeypatch.setattr(experiment, "compare", lambda *args, **options: table)
    assert cli.main(["compare"]) == cli.FAILED
    assert capsys.readouterr().err == "8 ok, 2 failed\n"


def test_failed_items_of_a_sweep_show_in_the_exit_code(capsys: Capture) -> None:
    # S104, CL-exit-code: two places in the service and two in its queue, so the others are refused
    options = ["sweep", "--service", "0.01:2:2", "--items", "10", "--limit", "10", "--clock", "virtual", "--warmup", "0"]
    assert cli.main([*options, "--repeats", "1"]) == cli.FAILED
    out, err = capsys.readouterr()
    assert err == "4 ok, 6 failed\n" and "bounded" in out


# Saved tables


def test_show_gives_a_saved_comparison_back(tmp_path: Path, capsys: Capture) -> None:
    path = str(tmp_path / "t.json")
    assert cli.main([*QUICK, "--json", path]) == cli.OK
    first = capsys.readouterr().out
    assert cli.main(["show", path]) == cli.OK
    assert capsys.readouterr() == (first, "")
    assert cli.main(["show", path, "--json", "-"]) == cli.OK
    assert capsys.readouterr().out == Path(path).read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("show missing.json", "'missing.json': No such file or directory"),
        ("show t.txt", "path must end in .json, .csv or .jsonl, got 't.txt'"),
        ("sweep --delay 0.01 --limit 2 --plot nowhere/t.png", "cannot write 'nowhere/t.png': there is no folder"),
        ("sweep --delay 0.01 --limit 2 --journal nowhere/t.jsonl", "cannot write 'nowhere/t.jsonl': there is no folder"),
        ("sweep --delay 0.01 --limit 2 --json t.jsonl --journal t.jsonl", "need a file of their own each"),
    ],
)
def test_bad_use_of_other_commands_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture, arguments: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments.split()) == cli.BAD_USE
    out, err = capsys.readouterr()
    assert out == "" and said in err and len(err.splitlines()) == 1


# Pipes and closed streams


LONG = """
import sys
from fanwidth import cli, experiment
from fanwidth.table import Table
experiment.compare = lambda *args, **options: Table(["method", "n"], {"method": ["bounded"] * 20_000, "n": range(20_000)})
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("export", [[], ["--csv", "-"], ["--json", "-"]])
def test_pipe_cut_by_head_is_silent(export: list[str], unbuffered: str) -> None:
    # S105, CL-pipe; 20,000 rows are more than a pipe holds
    command = " ".join(map(shlex.quote, [sys.executable, "-W", "error", "-c", LONG, "compare", *export]))
    done = shell(f"{command} | head -1", env={"PYTHONUNBUFFERED": unbuffered})
    assert done.stderr == ""
    assert done.returncode == cli.BROKEN_PIPE
    assert len(done.stdout.splitlines()) == 1
    if "--csv" in export:
        assert done.stdout == "method,n\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_pipe_that_is_read_slowly_gets_all(unbuffered: str) -> None:
    command = " ".join(map(shlex.quote, [sys.executable, "-W", "error", "-c", LONG, "compare", "--csv", "-"]))
    done = shell(f"{command} | (sleep 0.3; wc -l)", env={"PYTHONUNBUFFERED": unbuffered})
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "20001", "")


def test_pipe_whose_reader_is_gone_is_silent() -> None:
    # S105, CL-pipe
    done = finish(*QUICK, then="| true")
    assert (done.stderr, done.stdout) == ("", "") and done.returncode in (0, cli.BROKEN_PIPE)


@pytest.mark.parametrize(
    ("closed", "code", "said"),
    [("<&-", 0, ""), ("2>&-", 0, ""), ("<&- 2>&-", 0, ""), (">&-", 2, "stdout is closed"), (">&- 2>&- <&-", 2, "")],
)
def test_closed_streams_do_not_end_in_an_abort(closed: str, code: int, said: str) -> None:
    # libuv aborts when it is given the number of a standard stream.
    done = finish(*QUICK, then=closed)
    assert done.returncode == code
    assert said in done.stderr and "Traceback" not in done.stderr and "Assertion" not in done.stderr
    assert ("for_each" in done.stdout) == (code == 0)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_full_disk_is_told_in_one_line() -> None:
    done = finish(*QUICK, then="> /dev/full")
    assert done.returncode == cli.BAD_USE
    assert done.stderr == "fanwidth compare: cannot write to stdout: No space left on device\n"


# Interrupts and kills


@contextlib.contextmanager
def running(tmp_path: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], Callable[[], None]]]:
    """20 waits of 100 ms at limit 2, and a function that waits until some of them are done."""
    command = [*COMMAND, "compare", "--items", "20", "--delay", "0.1", "--same-limit", "2", "--progress", *options]
    with open(tmp_path / "log", "w") as log:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=tmp_path)

    def started() -> None:
        deadline = time.monotonic() + 15
        while "measuring" not in (tmp_path / "log").read_text():  # the first line comes after half a second
            assert time.monotonic() < deadline and child.poll() is None
            time.sleep(0.01)

    try:
        yield child, started
    finally:
        child.kill()
        child.communicate()


def test_interrupt_keeps_what_was_done(tmp_path: Path) -> None:
    # S106, CL-partial, S072
    (tmp_path / "r.json").write_text('{"old": true}')
    with running(tmp_path, "--json", "r.json") as (child, started):
        started()
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=15)
    assert child.returncode == cli.INTERRUPTED
    document = strict((tmp_path / "r.json").read_text())
    assert document["complete"] is False
    [line] = document["rows"]
    # The first progress line is drawn after half a second, when ten are done; the rest is the machine's delay.
    assert 8 <= line["ok"] < 20 and line["note"] == f"stopped: {line['ok']} of 20 done"
    assert not read_table(tmp_path / "r.json").complete
    assert "for_each" in out and "Not complete: runs are missing." in out
    log = (tmp_path / "log").read_text()
    assert log.endswith("\ninterrupted: this is what was measured until then\n") and "Traceback" not in log
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log", "r.json"]


def test_interrupt_gives_json_on_stdout_all_the_same(tmp_path: Path) -> None:
    with running(tmp_path, "--json", "-") as (child, started):
        started()
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=15)
    assert child.returncode == cli.INTERRUPTED
    assert strict(out)["complete"] is False


def test_kill_leaves_the_older_file_as_it_was(tmp_path: Path) -> None:
    # S106, CL-partial
    old = b'{"old": true}'
    (tmp_path / "r.json").write_bytes(old)
    with running(tmp_path, "--json", "r.json") as (child, started):
        started()
        child.kill()
        child.communicate(timeout=15)
    assert child.returncode == -signal.SIGKILL
    assert (tmp_path / "r.json").read_bytes() == old
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log", "r.json"]


def test_interrupt_before_anything_is_measured_leaves_the_older_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    def interrupted(*args: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "run_strategy", interrupted)
    (tmp_path / "r.json").write_text("old")
    assert cli.main([*QUICK, "--json", str(tmp_path / "r.json")]) == cli.INTERRUPTED
    assert capsys.readouterr() == ("", "interrupted\n")
    assert (tmp_path / "r.json").read_text() == "old"
