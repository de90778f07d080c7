"""How values, tables and files are written."""

import datetime
import enum
import json
import math
import os
import stat
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanwidth import export, layout, published
from fanwidth.columns import Column

# Quantities


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.05, "50.0 ms"),
        (0, "0 s"),
        (1.11, "1.11 s"),
        (78.43, "78.4 s"),
        (782.79, "783 s"),
        (12_345.6, "12,346 s"),
        (0.9996, "1.00 s"),
        (0.00099996, "1.00 ms"),
        (0.000_015, "15.0 µs"),
        (2.5e-9, "2.50 ns"),
        (-0.25, "-250 ms"),
        (None, export.MISSING),
        (math.nan, export.MISSING),
        (math.inf, export.MISSING),
    ],
)
def test_seconds_take_the_unit_that_suits_them(value: float | None, text: str) -> None:
    assert export.seconds(value) == text


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (export.byte_size(17), "17 B"),
        (export.byte_size(17.25), "17.2 B"),
        (export.byte_size(281_000), "281 kB"),
        (export.byte_size(999_999), "1.00 MB"),
        (export.byte_size(2.5e9), "2.50 GB"),
        (export.byte_size(math.nan), export.MISSING),
        (export.byte_size(None), export.MISSING),
        (export.rate(7_960.4), "7,960 /s"),
        (export.rate(0.05), "0.0500 /s"),
        (export.rate(0), "0 /s"),
        (export.percent(0.0041), "0.41 %"),
        (export.percent(-0.00001), "0.00 %"),
        (export.percent(0.256), "25.6 %"),
        (export.percent(None), export.MISSING),
        (export.count(10_000), "10,000"),
        (export.count(12.5), "12.5"),
        (export.count(-0.0), "0"),
        (export.count(math.inf), export.MISSING),
    ],
)
def test_other_quantities(written: str, text: str) -> None:
    assert written == text


@given(st.none() | st.floats())
def test_quantities_never_show_nan_inf_or_minus_zero(value: float | None) -> None:
    # S064
    for write in (export.seconds, export.byte_size, export.rate, export.percent, export.count):
        text = write(value)
        assert "nan" not in text and "inf" not in text
        assert not text.startswith("-") or text.strip("-0., /%smµnBkMG")


@given(
    st.sampled_from(["s", "B", "1/s", "1", "x", "", "rows"]),
    st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False)),
)
def test_columns_never_show_nan_inf_or_minus_zero(unit: str, values: list[float | None]) -> None:
    # S064
    for cell in layout.show(Column("x", "float", unit), values).cells:
        assert "nan" not in cell and "inf" not in cell
        assert not cell.startswith("-") or cell.strip("-0.,")


@given(st.lists(st.none() | st.integers(-(2**999), 2**999)), st.sampled_from(["", "id", "B", "s"]))
def test_columns_of_integers_of_any_size_can_be_shown(values: list[int | None], unit: str) -> None:
    assert len(layout.show(Column("x", "int", unit), values).cells) == len(values)


@pytest.mark.parametrize(
    ("unit", "values", "shown_unit", "cells"),
    [
        ("s", [0.05, 0.0512, None], "ms", ["50.0", "51.2", export.MISSING]),
        ("s", [78.43, 782.79, 1.11], "s", ["78.43", "782.79", "1.11"]),
        ("s", [0.05, 10.0, 62.5], "s", ["0.05", "10.00", "62.50"]),
        ("1", [0.0042, 0.25], "%", ["0.42", "25.00"]),
        ("1/s", [200_000.0, 160.0], "/s", ["200,000", "160"]),
        ("B", [2_500_000.0, 1_000_000.0], "MB", ["2.5", "1.0"]),
        ("", [1e300, 1.0], "", ["1e+300", "1"]),
        ("s", [1e300], "s", ["1e+300"]),
        ("1", [1e300], "", ["1e+300"]),
        ("s", [0.0, 0.0], "s", ["0", "0"]),
        ("s", [-1e-7, 1.0], "s", ["0.0000", "1.0000"]),
        ("s", [None], "s", [export.MISSING]),
    ],
)
def test_a_column_has_one_unit_and_one_number_of_decimals(
    unit: str, values: list[float | None], shown_unit: str, cells: list[str]
) -> None:
    shown = layout.show(Column("x", "float", unit), values)
    assert (shown.unit, shown.cells) == (shown_unit, cells)


def test_a_seed_is_shown_as_it_is_copied() -> None:
    assert layout.show(Column("seed", "int", "id"), [123456789]).cells == ["123456789"]


# Values


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 3


class Bad:
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (math.nan, None),
        (-math.inf, None),
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.float64("nan"), None),
        (np.longdouble(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (np.arange(3), [0, 1, 2]),
        (np.array([1.0, math.nan]), [1.0, None]),
        (np.datetime64("2024-05-01T00:00:00", "ns"), "2024-05-01T00:00:00.000000000"),
        (b"abc\xff", "abc\\xff"),
        (bytearray(b"abc"), "abc"),
        (memoryview(b"abc"), "abc"),
        (Path("a/b"), "a/b"),
        (datetime.datetime(2024, 5, 1, 12, 0), "2024-05-01 12:00:00"),
        (ValueError("bad"), "ValueError: bad"),
        (Decimal("1.5"), "1.5"),
        (Fraction(1, 3), "1/3"),
        (Colour.RED, "Colour.RED"),
        (Level.LOW, 3),
        ({1: (2, math.inf), None: {3}}, {"1": [2, None], "None": [3]}),
        (range(2), [0, 1]),
        ("half \ud800", "half \\ud800"),
        (Bad(), "<Bad>"),
        (2**70, 2**70),
    ],
)
def test_json_safe_turns_anything_into_strict_json(value: object, plain: object) -> None:
    # S107
    got = export.json_safe(value)
    assert got == plain
    assert type(got) is type(plain)
    json.dumps(got, allow_nan=False).encode()


def test_json_safe_ends_on_a_list_within_itself() -> None:
    endless: list[object] = []
    endless.append(endless)
    json.dumps(export.json_safe(endless), allow_nan=False)


# CSV

cells = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
words = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    [
        "",
        "1",
        "-2",
        "+3",
        "1e5",
        ".5",
        "true",
        "False",
        "nan",
        "-inf",
        "Infinity",
        " a",
        "a ",
        'q"',
        "a,b",
        "x\ny",
        "\r",
    ]
)


@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(cells | words, min_size=n, max_size=n))))
def test_csv_gives_every_cell_back_with_its_type(rows: list[list[export.Cell]]) -> None:
    text = export.csv_text([], rows)
    back = export.csv_rows(text)
    assert [[(type(c), c) for c in row] for row in back] == [[(type(c), c) for c in row] for row in rows]


def test_csv_integers_stay_integers_beside_missing_ones() -> None:
    # S108
    assert export.csv_text(["n"], [[1], [None], [3]]).split("\n") == ["n", "1", "", "3", ""]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_csv_of_other_programs_is_read(end: str) -> None:
    text = f'a,b{end}1,"two, three"{end},nan{end}TRUE,'
    assert export.csv_rows(text) == [["a", "b"], [1, "two, three"], [None, None], [True, None]]


def test_csv_with_a_stray_quote_is_an_error_that_names_the_line() -> None:
    with pytest.raises(ValueError, match="line 2 of the CSV has a stray quote"):
        export.csv_rows('a\n"b"c\n')


# Files


def test_a_file_is_written_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "r.json"
    export.write_text_atomic(target, "é\r\n")
    assert target.read_bytes() == "é\r\n".encode()
    export.write_text_atomic(str(target), "new")
    assert target.read_text() == "new"
    assert os.listdir(tmp_path) == ["r.json"]


def test_a_new_file_has_the_mode_of_the_umask_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "r"
    old = os.umask(0o027)
    try:
        export.write_text_atomic(target, "1")
    finally:
        os.umask(old)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    target.chmod(0o604)
    export.write_text_atomic(target, "2")
    assert (target.read_text(), stat.S_IMODE(target.stat().st_mode)) == ("2", 0o604)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    export.write_text_atomic(link, "text")
    assert link.is_symlink()
    assert target.read_text() == "text"


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_error_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    target = tmp_path / "r.json"
    target.write_text("good")

    def fail(*args: object) -> None:
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error)):
        export.write_text_atomic(target, "half")
    assert target.read_text() == "good"
    assert os.listdir(tmp_path) == ["r.json"]


def test_a_kill_in_the_middle_leaves_the_old_file(tmp_path: Path, run_child) -> None:
    # S106
    target = tmp_path / "r.json"
    target.write_text("good")
    code = """
import os, signal, sys
from fanwidth import export
os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
export.write_text_atomic(sys.argv[1], "half")
"""
    assert run_child(code, str(target), env={"PYTHONPATH": os.pathsep.join(sys.path)}).returncode == -9
    assert target.read_text() == "good"


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path) -> None:
    before = os.stat("/dev/null")
    export.write_text_atomic("/dev/null", "text")
    assert os.stat("/dev/null").st_ino == before.st_ino
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        export.write_text_atomic(pipe, "text")
        assert os.read(reader, 100) == b"text"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to every file")
def test_a_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "r"
    target.write_text("good")
    target.chmod(0o400)
    with pytest.raises(PermissionError, match="r"):
        export.write_text_atomic(target, "new")
    assert target.read_text() == "good"


def test_a_missing_folder_and_a_folder_as_target_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such folder.*nowhere"):
        export.write_text_atomic(tmp_path / "nowhere" / "r.json", "text")
    with pytest.raises(IsADirectoryError):
        export.write_text_atomic(tmp_path, "text")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", [1, True, b"name", None, ["a"]])
def test_a_path_of_another_type_is_a_type_error(path: object) -> None:
    with pytest.raises(TypeError, match="path must be"):
        export.write_text_atomic(path, "text")  # type: ignore[arg-type]


def test_an_empty_path_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="path must not be empty"):
        export.write_text_atomic("", "text")


# The published experiment


def test_ticks_of_the_windows_timer_make_62_5_ms_of_50() -> None:
    assert published.timer_tick(0.050) == 0.0625
    assert published.timer_tick(0.0) == 0.0
    assert published.timer_tick(1 / 64) == 1 / 64
    assert published.timer_tick(0.3, tick=0.1) == pytest.approx(0.3)
    assert published.timer_tick(0.31, tick=0.1) == pytest.approx(0.4)


@pytest.mark.parametrize("wait", [-1.0, math.nan, math.inf])
def test_a_wait_must_be_a_finite_time(wait: float) -> None:
    with pytest.raises(ValueError, match="seconds must be"):
        published.timer_tick(wait)
    with pytest.raises(ValueError, match="tick must be"):
        published.timer_tick(1.0, tick=-abs(wait))


def test_published_times() -> None:
    assert published.published_time("for_each", 10_000) == 78.43
    assert published.published_time("when_all", 100_000) == 15.04
    assert published.published_time("bounded", 10_000) == 12.97
    assert published.published_time("chunked", 10_000) is None
    assert published.published_time("bounded", 10_001) is None


def test_ticks_explain_the_published_times_of_the_limited_strategies() -> None:
    for figure in published.FIGURES:
        if figure.limit is not None:
            assert figure.elapsed / figure.ideal > 1.25
            assert 1 < figure.elapsed / figure.ideal_with_ticks < 1.06
