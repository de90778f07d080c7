"""The arguments of `fanwidth sweep` and `fanwidth show`: lists, functions, files, and what is told of bad ones."""

import sys
from pathlib import Path
from typing import Any

import pytest

from fanwidth import arguments, cli
from fanwidth.options import STRATEGIES

Capture = pytest.CaptureFixture[str]

_JOBS = """
def fails(line):
    raise ValueError(line)

number = 5
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with modules to name functions of."""
    (tmp_path / "fw_args.py").write_text(_JOBS)
    (tmp_path / "fw_broken.py").write_text("1 / 0")
    (tmp_path / "ten.txt").write_text("a\nb\n")
    (tmp_path / "latin.txt").write_bytes(b"\xe9t\xe9\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "fw_args", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("8", [8]),
        ("1,2,4", [1, 2, 4]),
        ("1..4", [1, 2, 3, 4]),
        ("1..1024:geometric", [2**n for n in range(11)]),
        ("1..3,8,10..100:geometric", [1, 2, 3, 8, 10, 20, 40, 80, 100]),
    ],
)
def test_lists_of_numbers(text: str, values: list[int]) -> None:
    assert arguments.axis(text) == values


@pytest.mark.parametrize("text", ["", "a", "1,", "4..1", "1..", "1..8:linear", "8:geometric", "1.5", "8..1:geometric", "1..8:"])
def test_lists_of_numbers_that_are_none(text: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["sweep", "--noop", f"--limit={text}"])
    assert caught.value.code == cli.BAD_USE
    assert 'argument --limit: must be like "8", "1,2,4", "1..10" or "1..1024:geometric"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--delay", "x", "--limit", "1"], "argument --delay: must be a number of seconds"),
        (["--service", "5", "--limit", "1"], 'argument --service: must be like "0.05:10"'),
        (["--noop", "--strategy", "foo"], "argument --strategy: must be some of for_each, when_all"),
        (["--noop", "--axis", "a"], 'argument --axis: must be like "capacity=5,10"'),
        (["--noop", "--max-failures", "x"], "argument --max-failures: must be a whole number"),
        (["--limit", "1"], "one of the arguments --delay --service --cpu --noop --call is required"),
        (["--noop", "--delay", "1", "--limit", "1"], "not allowed with argument"),
    ],
)
def test_bad_use_by_form(given: list[str], told: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["sweep", *given])
    assert caught.value.code == cli.BAD_USE and told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--noop"], "--limit is needed by bounded: for instance --limit 1..64:geometric"),
        (["--noop", "--limit", "0"], "--limit must be at least 1, got 0"),
        (["--delay", "-1", "--limit", "1"], "seconds must be from 0 to 100 years"),
        (["--noop", "--limit", "1", "--source", "ten.txt"], "--source is for --call"),
        (["--call", "fw_args:fails", "--limit", "1"], "--call needs items: --source FILE, or --items N"),
        (["--call", "fw_args:fails", "--limit", "1", "--source", "ten.txt", "--items", "3"], "--items and --source exclude"),
        (["--call", "fw_args", "--items", "3", "--limit", "1"], '--call must be like "package.module:function"'),
        (["--call", "fw_no:f", "--items", "3", "--limit", "1"], "cannot import 'fw_no': ModuleNotFoundError"),
        (["--call", "fw_broken:f", "--items", "3", "--limit", "1"], "cannot import 'fw_broken': ZeroDivisionError"),
        (["--call", "fw_args:f", "--items", "3", "--limit", "1"], "'fw_args' has no 'f'"),
        (["--call", "fw_args:number", "--items", "3", "--limit", "1"], "cannot be called: it is of type int"),
        (["--call", "fw_args:fails", "--source", "no.txt", "--limit", "1"], "--source 'no.txt' cannot be read: No such file"),
        (["--call", "fw_args:fails", "--source", "/dev/null", "--limit", "1"], "--source '/dev/null' has no items"),
        (["--call", "fw_args:fails", "--source", "latin.txt", "--limit", "1"], "--source 'latin.txt' is not UTF-8 text"),
        (["--noop", "--limit", "1", "--axis", "limit=1"], "--axis limit has an option of its own: --limit"),
        (["--service", "1:1", "--limit", "1", "--axis", "queue=1", "--axis", "queue=2"], "--axis queue is given twice"),
        (["--noop", "--limit", "1", "--axis", "capacity=1"], "noop has no field 'capacity'"),
        (["--noop", "--limit", "1", "--plot", "x.gif"], "--plot must be a path that ends in .png or .svg"),
        (
            ["--call", "fw_args:fails", "--items", "3", "--limit", "1", "--clock", "virtual"],
            'clock="virtual" needs a native action',
        ),
    ],
)
def test_bad_use_by_meaning(given: list[str], told: str, capsys: Capture, folder: Path) -> None:
    code = cli.main(["sweep", *given])
    out, err = capsys.readouterr()
    assert (code, out) == (cli.BAD_USE, "") and err.startswith("fanwidth sweep: ") and told in err and len(err.splitlines()) == 1


def test_help_names_every_strategy_and_gives_examples(capsys: Capture) -> None:
    for command in ("sweep", "show"):
        with pytest.raises(SystemExit) as caught:
            cli.main([command, "--help"])
        assert caught.value.code == 0
        out = " ".join(capsys.readouterr().out.split())
        assert f"examples: fanwidth {command} " in out
        assert command == "show" or ", ".join(STRATEGIES) in out


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("a\nb\n", ["a", "b"]),
        ("a\r\n\r\nb", ["a", "b"]),
        ("\ufeff a \n", [" a "]),
        ("1\n2", ["1", "2"]),
        ("a\u2028b\n", ["a\u2028b"]),
    ],
)
def test_lines_are_items_as_they_are(text: str, items: list[Any], tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text(text, encoding="utf-8", newline="")
    assert arguments.read_items(str(tmp_path / "rows.txt")) == items
