"""Tables: rows and columns, how they look, exports and reading back, summaries over repeats, the Arrow stream."""

import copy
import ctypes
import gc
import html.parser
import json
import math
import os
import pickle
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanwidth import table as table_module
from fanwidth.columns import KNOWN, QUANTILES, STATES
from fanwidth.table import (
    COMPARE_COLUMNS,
    Column,
    Table,
    UnknownColumn,
    read_journal,
    read_table,
    run_row,
    sweep_columns,
)

AXES = [Column("delay", "float", "s"), "mode"]


def sweep_rows(repeats: int = 3) -> list[dict[str, object]]:
    """A small sweep: when_all and bounded at two limits, one warm-up and some repeats each."""
    rows: list[dict[str, object]] = []
    for repeat in range(-1, repeats):
        for strategy, limit, elapsed in (("when_all", None, 0.05), ("bounded", 1, 5.0), ("bounded", 10, 0.5)):
            row: dict[str, object] = {"strategy": strategy, "limit": limit, "items": 100, "delay": 0.05, "mode": "a"}
            row |= {"repeat": max(repeat, 0), "warmup": repeat < 0, "elapsed": elapsed * (1 + 0.01 * repeat)}
            row |= {"ideal": elapsed, "limited_by": "limit" if limit else "items", "latency_p99": 0.05 + 0.001 * repeat}
            row |= {"clock": "real", "seed": 7, "ok": 100, "peak_in_flight": limit or 100}
            rows.append(row)
    return rows


@pytest.fixture
def sweep() -> Table:
    return Table.from_rows(sweep_rows(), sweep_columns(AXES), meta={"machine": "m"}, title="a sweep", notes=["a note"])


# Rows and columns


def test_a_table_is_a_sequence_of_read_only_rows(sweep: Table) -> None:
    assert len(sweep) == 12
    assert [row["limit"] for row in sweep][:3] == [None, 1, 10]
    assert sweep[-1]["limit"] == 10
    assert sweep["limit"][:3] == (None, 1, 10)
    assert len(sweep[3:6]) == 3 and isinstance(sweep[3:6], Table)
    assert sweep[0] in sweep and "limit" in sweep and "limits" not in sweep
    with pytest.raises(TypeError):
        sweep[0]["limit"] = 2  # type: ignore[index]
    with pytest.raises(AttributeError):
        sweep.title = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        sweep.meta["machine"] = "other"  # type: ignore[index]


def test_fixed_columns_of_a_sweep() -> None:
    groups = [f"{group}_{quantile}" for group in ("latency", "wait") for quantile in QUANTILES]
    expected = (
        "strategy limit items delay mode repeat warmup elapsed ideal overhead throughput peak_in_flight "
        f"effective_limit limited_by {' '.join(STATES)} {' '.join(groups)} clock seed"
    )
    assert list(Table.from_rows([], sweep_columns(["delay", "mode"])).columns) == expected.split()
    assert list(QUANTILES) == ["mean", "p50", "p90", "p95", "p99", "p99_9", "max"]


def test_fixed_columns_of_a_comparison() -> None:
    assert ", ".join(column.name for column in COMPARE_COLUMNS) == (
        "method, limit, items, clock, time, ideal, overhead, throughput, peak_in_flight, engine_bytes_per_item, published, note"
    )


def test_an_axis_may_not_hide_a_result_and_need_not_repeat_a_fixed_column() -> None:
    assert sweep_columns(["limit", "seed", "strategy"]) == sweep_columns()
    with pytest.raises(ValueError, match="axis cannot be called 'elapsed'"):
        sweep_columns(["elapsed"])


@pytest.mark.parametrize(
    ("values", "kind", "cells"),
    [
        ([1, None, 3], "int", (1, None, 3)),
        ([1, 2.5], "float", (1.0, 2.5)),
        ([True, False], "bool", (True, False)),
        (["a", 1], "str", ("a", "1")),
        ([True, 1], "str", ("True", "1")),
        ([None, None], "str", (None, None)),
        ([math.nan, 1.0, -0.0], "float", (None, 1.0, 0.0)),
        (list(np.arange(3)), "int", (0, 1, 2)),
        (np.array([0.5, np.nan]), "float", (0.5, None)),
        ([(1, 2)], "str", ("(1, 2)",)),
        ([10**400, 1], "str", (hex(10**400), "1")),
    ],
)
def test_the_kind_of_an_unknown_column_is_that_of_its_values(values: Iterable[object], kind: str, cells: Any) -> None:
    # S107, S108
    table = Table(["x"], {"x": values})
    assert table.column("x").kind == kind
    assert [(type(cell), cell) for cell in table["x"]] == [(type(cell), cell) for cell in cells]


def test_a_value_of_another_kind_is_an_error_that_names_it() -> None:
    with pytest.raises(TypeError, match=r"column 'limit' holds int, got 8.5 in row 1"):
        Table.from_rows([{"limit": 8.0}, {"limit": 8.5}])
    assert Table.from_rows([{"limit": 8.0}])["limit"] == (8,)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Table(["a", "a"], {"a": [1]}), ValueError, "column 'a' is there twice"),
        (lambda: Table(["a"], {}), ValueError, "no values for column 'a'"),
        (lambda: Table(["a"], {"a": [1], "b": [1]}), ValueError, "values for 'b', which columns does not name"),
        (lambda: Table(["a", "b"], {"a": [1], "b": []}), ValueError, "one length, got a 1, b 0"),
        (lambda: Table([], {}, notes="text"), TypeError, "notes must be several lines"),
        (lambda: Table([], {}, title=1), TypeError, "title must be text"),  # type: ignore[arg-type]
        (lambda: Table.from_rows([{1: 2}]), TypeError, "must be column names, got 1"),  # type: ignore[dict-item]
        (lambda: Table.from_rows([], ["a", "a"]), ValueError, "column 'a' is there twice"),
        (lambda: Column("", "int"), ValueError, "name must be text"),
        (lambda: Column("a\0", "int"), ValueError, "every format can write"),
        (lambda: Column("a\ud800", "int"), ValueError, "every format can write"),
        (lambda: Column("a", "complex"), ValueError, "kind of column 'a' must be one of int"),  # type: ignore[arg-type]
        (lambda: Table(["a"], {"a": [1]})[1.5], TypeError, "indexed by a column name"),  # type: ignore[call-overload]
        (lambda: Table(["a"], {"a": [1]})[1], IndexError, "the table has 1 rows, got index 1"),
    ],
)
def test_wrong_input_is_named(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_an_unknown_column_is_named_with_its_close_matches(sweep: Table) -> None:
    for ask in (
        lambda: sweep["elapsd"],
        lambda: sweep.filter(elapsd=1),
        lambda: sweep.summary(["elapsd"]),
        lambda: sweep.select("elapsd"),
        lambda: sweep.compare("bounded", by="elapsd"),
    ):
        with pytest.raises(UnknownColumn) as caught:
            ask()
        assert "no column 'elapsd'; did you mean 'elapsed'" in str(caught.value)
        assert isinstance(caught.value, KeyError)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(KeyError, match="its columns are a, b"):
        Table(["a", "b"], {"a": [], "b": []})["zzz"]


def test_a_heading_names_its_column(sweep: Table) -> None:
    assert sweep["peak in flight"] == sweep["peak_in_flight"]


def test_equal_means_the_same_columns_and_values(sweep: Table) -> None:
    other = Table.from_rows(sweep_rows(), sweep_columns(AXES))
    assert sweep == other and sweep.meta != other.meta
    assert sweep != other[1:]
    assert sweep != sweep.select(*reversed(sweep.columns))
    assert sweep != list(sweep)
    assert pickle.loads(pickle.dumps(sweep)) == copy.deepcopy(sweep) == sweep
    assert pickle.loads(pickle.dumps(sweep)).schema == sweep.schema
    with pytest.raises(TypeError):
        hash(sweep)


@pytest.mark.parametrize(
    ("keywords", "rows"),
    [
        ({}, 12),
        ({"strategy": "bounded"}, 8),
        ({"limit": None}, 4),
        ({"limit": [None, 10]}, 8),
        ({"limit": np.array([1, 10])}, 8),
        ({"limit": range(5)}, 4),
        ({"limit": lambda limit: limit > 5}, 4),
        ({"strategy": "bounded", "warmup": False, "limit": np.int64(1)}, 3),
        ({"items": 7}, 0),
    ],
)
def test_filter(sweep: Table, keywords: dict[str, object], rows: int) -> None:
    filtered = sweep.filter(**keywords)
    assert len(filtered) == rows
    assert filtered.schema == sweep.schema
    assert filtered.meta == sweep.meta


def test_a_filter_that_can_never_match_is_an_error(sweep: Table) -> None:
    with pytest.raises(TypeError, match="'limit' holds int: limit='8'"):
        sweep.filter(limit="8")
    with pytest.raises(TypeError, match="'strategy' holds str: strategy=1"):
        sweep.filter(strategy=["bounded", 1])
    with pytest.raises(TypeError):
        sweep.filter(items=lambda items: items + "text")


# A run as a row


def make_run(**changes: object) -> SimpleNamespace:
    summary = SimpleNamespace(**dict.fromkeys(QUANTILES, 0.05))
    run = SimpleNamespace(
        limit=8,
        counts=SimpleNamespace(ok=10, failed=1, timed_out=2, cancelled=3, not_started=4, total=20),
        elapsed=1.0,
        ideal=0.9,
        overhead=1 / 9,
        throughput=10.0,
        peak_in_flight=8,
        effective_limit=4,
        limited_by="cpus",
        latency=summary,
        wait=summary,
        meta={"seed": 7, "arguments": {"strategy": "bounded", "clock": "real"}},
    )
    return SimpleNamespace(**{**vars(run), **changes})


def test_a_run_becomes_a_row_of_a_sweep() -> None:
    row = run_row(make_run(), axes={"delay": np.float64(0.05), "limit": 8}, repeat=2, warmup=False)
    assert list(row) == [c if isinstance(c, str) else c.name for c in sweep_columns(["delay"])]
    table = Table.from_rows([row], sweep_columns(["delay"]))
    assert table[0]["strategy"] == "bounded" and table[0]["clock"] == "real" and table[0]["seed"] == 7
    assert [table[0][state] for state in STATES] == [10, 1, 2, 3, 4]
    assert table[0]["items"] == 20 and table[0]["delay"] == 0.05 and table[0]["warmup"] is False


def test_a_run_with_nothing_done_has_no_numbers_instead_of_nan() -> None:
    # S064
    nothing = SimpleNamespace(**dict.fromkeys(QUANTILES))
    run = make_run(ideal=None, overhead=math.nan, throughput=0.0, latency=nothing, wait=nothing, strategy="when_all")
    table = Table.from_rows([run_row(run, axes={}, repeat=0, warmup=False)], sweep_columns())
    assert table[0]["strategy"] == "when_all" and table[0]["throughput"] == 0 and table[0]["overhead"] is None
    for text in (str(table), table.to_csv(), table.to_json(), table.to_markdown(), table._repr_html_()):
        assert "nan" not in text.replace("tenance", "") and "-0" not in text
    assert math.inf not in table.to_records()[0].values()


# How it looks

COMPARISON = [
    {
        "method": "for_each",
        "limit": 8,
        "items": 10_000,
        "clock": "virtual",
        "time": 62.5,
        "ideal": 62.5,
        "overhead": 0.0,
    },
    {"method": "when_all", "items": 10_000, "clock": "virtual", "time": 0.0502, "ideal": 0.05, "overhead": 0.0042},
]


def test_a_table_reads_at_a_glance() -> None:
    table = Table.from_rows(COMPARISON, COMPARE_COLUMNS, title="10,000 items of 50 ms", notes=["What it shows."])
    assert table.select(*table.columns[:7]).to_text().splitlines() == [
        "10,000 items of 50 ms",
        "                                     time  ideal  overhead",
        "method    limit   items  clock        (s)    (s)       (%)",
        "--------  -----  ------  -------  -------  -----  --------",
        "for_each      8  10,000  virtual  62.5000  62.50      0.00",
        "when_all      –  10,000  virtual   0.0502   0.05      0.42",
        "",
        "What it shows.",
    ]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal_and_nothing_is_hidden_silently(sweep: Table, width: int) -> None:
    text = sweep.to_text(width=width)
    assert max(map(len, text.splitlines())) <= width
    told = text.replace("\n", " ").replace(" ", "_")
    for name in sweep.columns:
        if any(value is not None for value in sweep[name]):
            assert name in told or name.split("_")[0] in told


def test_the_first_column_stays_however_narrow(sweep: Table) -> None:
    assert "bounded" in sweep.to_text(width=1)


def test_a_wide_table_tells_once_what_is_the_same_in_all_rows(sweep: Table) -> None:
    text = sweep.to_text()
    assert "the same in all rows: items 100, delay 50 ms, mode a" in text
    assert "effective" not in text  # says nothing in any row
    assert text.count("real") == 1


def test_a_long_table_is_shortened_by_repr_only() -> None:
    table = Table(["n"], {"n": range(1000)})
    assert len(str(table).splitlines()) == 1002
    assert len(repr(table).splitlines()) == 64
    assert repr(table).splitlines()[-1] == "1,000 rows"
    assert "999" in repr(table)


def test_a_narrow_terminal_is_asked_for_its_width(sweep: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "50")
    assert max(map(len, str(sweep).splitlines())) <= 50
    monkeypatch.setattr(sys, "stdout", None)
    assert max(map(len, str(sweep).splitlines())) > 50


def test_text_of_others_cannot_control_the_terminal_or_break_the_page() -> None:
    # S073
    evil = "\x1b[31m<script>|\r\n _x_*y*"
    table = Table.from_rows([{evil: evil}], title=evil, notes=[evil])
    for text in (str(table), repr(table), table.to_markdown(), table._repr_html_()):
        assert "\x1b" not in text and "\r" not in text
    assert "<script" not in table._repr_html_()
    row = table.to_markdown().splitlines()[4]
    assert row == r"| \\x1b\[31m\<script\>\|\\r\\n \_x\_\*y\* |"


def test_wide_letters_keep_the_columns_in_line() -> None:
    lines = Table.from_rows([{"a": "日本", "b": 1}, {"a": "ab", "b": 22}]).to_text().splitlines()
    assert lines[2:] == ["日本   1", "ab    22"]


def test_an_interrupted_table_says_so() -> None:
    table = Table(["a"], {"a": [1]}, complete=False)
    for text in (str(table), table.to_markdown(), table._repr_html_()):
        assert "Not complete" in text
    assert json.loads(table.to_json())["complete"] is False
    assert table[:1].complete is False and table.summary().complete is False


class Balance(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.cells += tag == "td"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html_is_whole_and_sets_no_colour(sweep: Table) -> None:
    text = sweep._repr_html_()
    parser = Balance()
    parser.feed(text)
    assert not parser.open and parser.cells >= 12 * 5
    assert "background" not in text and "color:" not in text.lower() and "#" not in text
    assert len(Table(["n"], {"n": range(100_000)})._repr_html_()) < 20_000


def test_markdown_is_a_table_of_the_same_cells(sweep: Table) -> None:
    lines = sweep.select("strategy", "limit", "elapsed").to_markdown().splitlines()
    assert lines[:5] == ["**a sweep**", "", "| strategy | limit | elapsed (ms) |", "|---|---:|---:|", lines[4]]
    assert len([line for line in lines if line.startswith("|")]) == 14


@pytest.mark.parametrize("table", [Table([], {}), Table(["a"], {"a": []}), Table.from_rows([{}])])
def test_an_empty_table_has_every_form(table: Table, tmp_path: Path) -> None:
    for form in (str, repr, Table.to_markdown, Table.to_csv, Table.to_json, Table._repr_html_):
        assert isinstance(form(table), str)
    assert len(table.to_pandas()) == len(table.to_polars()) == len(pa.table(table)) == 0
    table.to_json(tmp_path / "t.json")
    table.to_csv(tmp_path / "t.csv")
    assert read_table(tmp_path / "t.json") == read_table(tmp_path / "t.csv") == table
    assert len(table.summary()) == 0


# Exports and reading back


def test_an_export_goes_to_a_path_or_comes_back(sweep: Table, tmp_path: Path) -> None:
    for name in ("to_json", "to_csv", "to_markdown"):
        export = getattr(sweep, name)
        assert export("-") == export() == export(None)
        assert export(tmp_path / name) is None
        assert (tmp_path / name).read_text() == export()
        with pytest.raises(TypeError, match="path must be"):
            export(1)
    assert sorted(os.listdir(tmp_path)) == ["to_csv", "to_json", "to_markdown"]


def refuse(constant: str) -> None:
    raise AssertionError(constant)


def test_json_is_strict_and_tells_all(sweep: Table, tmp_path: Path) -> None:
    # S107
    meta = {"nan": math.nan, "numpy": np.float32(0.5), "path": Path("p"), "bytes": b"b", "error": ValueError("e")}
    table = Table.from_rows(sweep, sweep.schema, meta=meta, title="title", notes=["one", "two"], complete=False)
    document = json.loads(table.to_json(), parse_constant=refuse)
    assert document["meta"] == {"nan": None, "numpy": 0.5, "path": "p", "bytes": "b", "error": "ValueError: e"}
    assert document["rows"][1]["limit"] == 1 and type(document["rows"][1]["limit"]) is int
    table.to_json(tmp_path / "t.json")
    back = read_table(tmp_path / "t.json")
    assert back == table and back.schema == table.schema and back.meta == table.meta
    assert (back.title, back.notes, back.complete) == ("title", ("one", "two"), False)


def test_csv_cells_of_integers_beside_missing_ones() -> None:
    # S108
    table = Table.from_rows([{"n": 1}, {"n": None}, {"n": 3}])
    assert table.to_csv().split("\n") == ["n", "1", "", "3", ""]
    frame = table.to_pandas()
    assert str(frame["n"].dtype) == "Int64" and frame["n"][2] == 3 and frame["n"].isna().tolist() == [False, True, False]


def test_a_sweep_reads_back_from_csv_with_its_types(sweep: Table, tmp_path: Path) -> None:
    sweep.to_csv(tmp_path / "t.csv")
    back = read_table(tmp_path / "t.csv")
    assert back == sweep
    assert [column.kind for column in back.schema] == [column.kind for column in sweep.schema]
    assert back.column("elapsed") == sweep.column("elapsed")
    assert back.summary() == sweep.summary()


def test_csv_as_pandas_writes_it_reads_back(sweep: Table, tmp_path: Path) -> None:
    sweep.to_pandas().to_csv(tmp_path / "t.csv", index=False)
    assert read_table(tmp_path / "t.csv") == sweep


cell_values = (
    st.none() | st.integers() | st.floats() | st.booleans() | st.text() | st.sampled_from(["", "1", "nan", "true", "a,b"])
)
names = st.sampled_from(list(KNOWN)) | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Tables with known and unknown names, of one kind a column or mixed."""
    rows = draw(st.integers(0, 5))
    kinds = (st.integers(), st.floats(), st.booleans(), st.text(), cell_values, st.integers(0, 1))
    column = st.sampled_from(kinds).flatmap(lambda kind: st.lists(st.none() | kind, min_size=rows, max_size=rows))
    data = draw(st.dictionaries(names, column, min_size=1, max_size=4))
    return Table(data, data, meta={"m": draw(cell_values)}, notes=draw(st.lists(st.text(), max_size=2)))


@given(tables())
def test_any_table_reads_back_equal(tmp_path_factory: pytest.TempPathFactory, table: Table) -> None:
    folder = tmp_path_factory.mktemp("t")
    table.to_json(folder / "t.json")
    back = read_table(folder / "t.json")
    assert back == table and back.schema == table.schema and back.meta == table.meta and back.notes == table.notes
    table.to_csv(folder / "t.csv")
    back = read_table(folder / "t.csv")
    assert back == table
    for form in (table.to_text(), table.to_markdown(), table._repr_html_(), table.to_text(width=30)):
        form.encode()


@given(tables())
def test_any_table_goes_to_data_frames(table: Table) -> None:
    assert table.to_records() == [dict(row) for row in table]
    arrow, polars, frame = pa.table(table), table.to_polars(), table.to_pandas()
    assert len(arrow) == len(polars) == len(frame) == len(table)
    assert pl.DataFrame(table).equals(polars)
    for column in table.schema:
        wide = column.kind == "int" and table_module.int_width(table[column.name]) == "wide"
        values = [str(v) if wide and v is not None else v for v in table[column.name]]
        assert polars[column.name].to_list() == values
        assert frame[column.name].isna().tolist() == [value is None for value in values]
        if column.kind in ("int", "bool") and not wide:
            assert "float" not in str(frame[column.name].dtype)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.txt", "", r"must end in .json, .csv or .jsonl, got '.*t.txt'"),
        ("t.json", "{", "is not valid JSON"),
        ("t.json", '{"rows": []}', 'no "fanwidth_table"'),
        ("t.json", "[]", 'no "fanwidth_table"'),
        ("t.json", '{"fanwidth_table": 99}', "version 99"),
        ("t.json", '{"fanwidth_table": 1, "columns": [], "rows": [1]}', "list of objects"),
        ("t.json", '{"fanwidth_table": 1, "columns": [], "rows": [{"x": NaN}]}', "NaN is no JSON number"),
        ("t.json", '{"fanwidth_table": 1, "columns": 1, "rows": []}', '"columns" must be a list'),
        ("t.json", '{"fanwidth_table": 1, "columns": [{"name": "a"}], "rows": []}', "kind"),
        ("t.json", '{"fanwidth_table": 1, "columns": [{"name": "a", "kind": "x"}], "rows": []}', "must be one of int"),
        ("t.json", '{"fanwidth_table": 1, "columns": [], "rows": [], "notes": "x"}', "'notes' must be of type list"),
        ("t.json", '{"fanwidth_table": 1, "columns": [], "rows": [], "notes": [1]}', "notes must be several lines"),
        (
            "t.json",
            '{"fanwidth_table": 1, "columns": [{"name": "a", "kind": "int"}], "rows": [{"a": "x"}]}',
            "holds int",
        ),
        ("t.csv", "a,b\n1\n", "row 2 has 1 cells, the header has 2"),
        ("t.csv", "a,a\n1,2\n", "a name of its own"),
        ("t.csv", 'a\n"x"y\n', "stray quote"),
        ("t.csv", b"a\n\xff\n", "is not UTF-8"),
        ("t.jsonl", "", "is empty"),
        ("t.jsonl", '{"row": {}}\n', "no journal of fanwidth"),
        ("t.jsonl", '{"fanwidth_journal": 1}\n{"row"\n{"row": {}}\n', "line 2"),
        ("t.jsonl", '{"fanwidth_journal": 1}\n{"row": 1}\n', "must be an object"),
    ],
)
def test_a_file_that_is_no_table_is_named_with_the_reason(tmp_path: Path, name: str, text: str | bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=message) as caught:
        read_table(path)
    assert name in str(caught.value)


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / "t.json")
    with pytest.raises(TypeError, match="path must be"):
        read_table(1)  # type: ignore[arg-type]


def write_journal(path: Path, rows: Iterable[Mapping[str, object]], *tail: str) -> None:
    lines = [{"fanwidth_journal": 1, "machine": "m"}, *({"row": dict(row)} for row in rows)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "".join(tail))


def test_a_journal_reads_back_as_the_table(sweep: Table, tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    write_journal(path, sweep, '{"complete": true}\n')
    back = read_table(path)
    assert back == sweep and back.complete and back.meta == {"machine": "m"}
    write_journal(path, sweep)
    assert read_table(path) == sweep and not read_table(path).complete
    write_journal(path, sweep[:1], '{"complete": true}\n', json.dumps({"row": dict(sweep[1])}) + "\n", '{"new": 1}\n')
    assert read_table(path) == sweep[:2] and not read_table(path).complete


@pytest.mark.parametrize("torn", [b'{"row": {"limit": 1', b'{"row": "\xc3', b"\0" * 40, b"[]", b'{"row": {"limit": 1\r'])
def test_a_torn_last_line_is_left_out_and_reported(sweep: Table, tmp_path: Path, torn: bytes) -> None:
    # S106
    path = tmp_path / "j.jsonl"
    write_journal(path, sweep)
    good = path.stat().st_size
    path.write_bytes(path.read_bytes() + torn)
    with pytest.warns(RuntimeWarning, match="last line is cut off"):
        assert read_table(path) == sweep
    with pytest.warns(RuntimeWarning, match="last line is cut off"):
        journal = read_journal(path)
    assert (journal.good_bytes, len(journal.rows), journal.header) == (good, 12, {"machine": "m"})


def test_a_whole_last_line_without_its_newline_counts(sweep: Table, tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    write_journal(path, sweep)
    path.write_bytes(path.read_bytes()[:-1])
    assert read_table(path) == sweep


# Summaries over repeats


def test_summary_takes_the_median_over_repeats_without_warm_up(sweep: Table) -> None:
    summary = sweep.summary(["elapsed", "limited_by", "peak_in_flight"])
    assert [(row["strategy"], row["limit"], row["repeats"]) for row in summary] == [
        ("when_all", None, 3),
        ("bounded", 1, 3),
        ("bounded", 10, 3),
    ]
    assert summary[1]["elapsed_median"] == 5.05 and summary[1]["elapsed_min"] == 5.0
    assert summary[1]["elapsed_max"] == pytest.approx(5.1)
    assert summary["limited_by"] == ("items", "limit", "limit")
    assert summary.column("elapsed_median").unit == "s" and "median over repeats" in summary.column("elapsed_median").help
    assert summary.column("peak_in_flight_max").kind == "int"
    assert summary.meta == {"machine": "m", "kind": "summary"}
    assert sweep.summary("elapsed").columns[-1] == "elapsed_max"


def test_percentiles_of_repeats_are_not_merged_into_one_of_all_items() -> None:
    # S068: of [1] * 99 and [1000] the p99 of all items is 10.99, which no rule makes of the parts' 1 and 1000.
    table = Table.from_rows([{"repeat": 0, "latency_p99": 1.0}, {"repeat": 1, "latency_p99": 1000.0}])
    summary = table.summary()
    assert "latency_p99" not in summary
    assert (summary[0]["latency_p99_min"], summary[0]["latency_p99_max"]) == (1.0, 1000.0)
    assert "over repeats" in summary.column("latency_p99_median").help
    assert "never that of all their items" in str(summary)


def test_summary_of_missing_values_is_missing() -> None:
    table = Table.from_rows([{"strategy": "a", "elapsed": None}, {"strategy": "b", "elapsed": 1.0}])
    assert table.summary()["elapsed_median"] == (None, 1.0)
    assert table.summary()["repeats"] == (1, 1)


def test_a_row_that_tells_an_error_belongs_to_its_point() -> None:
    rows = [{"strategy": "a", "elapsed": 1.0}, {"strategy": "a", "error": "worker lost"}]
    assert len(Table.from_rows(rows).summary()) == 1


def test_compare_gives_the_ratio_to_the_baseline_with_an_interval() -> None:
    rows = [
        {
            "strategy": s,
            "limit": limit,
            "items": 10,
            "repeat": r,
            "elapsed": (2.0 if s == "bounded" else 1.0) * limit * (1 + r / 10),
        }
        for s in ("for_each", "bounded")
        for limit in (1, 8)
        for r in range(5)
    ]
    compared = Table.from_rows(rows).compare("for_each")
    assert compared["ratio"] == pytest.approx((1, 1, 2, 2))
    # Repeats are drawn together: what disturbed a round disturbed both sides alike.
    assert compared["ratio_low"] == compared["ratio_high"] == pytest.approx((1, 1, 2, 2))
    assert compared["repeats"] == (5, 5, 5, 5)
    assert compared == Table.from_rows(rows).compare({"strategy": "for_each"}, by=["limit", "items"])
    by_limit = Table.from_rows(rows).compare({"limit": 8}, by="strategy")
    assert by_limit["ratio"] == pytest.approx((1 / 8, 1, 1 / 8, 1))


def test_compare_draws_each_side_on_its_own_where_repeats_differ() -> None:
    rows = [{"strategy": "a", "repeat": r, "elapsed": v} for r, v in enumerate([1.0, 1.1, 1.2, 1.3])]
    rows += [{"strategy": "b", "repeat": r, "elapsed": v} for r, v in enumerate([2.0, 2.2, 2.4])]
    compared = Table.from_rows(rows).compare("a")
    row = compared.filter(strategy="b")[0]
    low, ratio, high = row["ratio_low"], row["ratio"], row["ratio_high"]
    assert isinstance(low, float) and isinstance(ratio, float) and isinstance(high, float)
    assert 1.5 < low < ratio < high < 2.4
    assert compared == Table.from_rows(rows).compare("a")
    wider = Table.from_rows(rows).compare("a", confidence=0.99).filter(strategy="b")[0]
    assert isinstance(wider["ratio_high"], float) and wider["ratio_high"] >= high


def test_compare_with_a_zero_base_or_few_repeats_gives_none() -> None:
    # S064
    rows = [{"strategy": s, "repeat": r, "elapsed": v} for s, v in (("a", 0.0), ("b", 1.0)) for r in range(3)]
    zero = Table.from_rows(rows).compare("a")
    assert zero["ratio"] == zero["ratio_low"] == zero["ratio_high"] == (None, None)
    assert Table.from_rows(rows).compare("b")["ratio"] == (0.0, 1.0)
    few = Table.from_rows(rows[:2] + rows[3:5]).compare("b")
    assert few["ratio"] == (0.0, 1.0) and few["ratio_low"] == (None, None)
    mixed = Table.from_rows([{"strategy": "a", "repeat": r, "elapsed": v} for r, v in enumerate((0.0, 0.0, 1.0, 1.0, 1.0))])
    assert mixed.compare("a")["ratio"] == (1.0,) and mixed.compare("a")["ratio_low"] == (None,)
    for text in (str(zero), zero.to_csv(), zero.to_json()):
        assert "nan" not in text and "inf" not in text


def test_compare_where_limits_differ_pairs_what_the_baseline_can_tell_apart() -> None:
    rows = [
        {"method": "for_each", "limit": 8, "items": 100, "time": 2.0},
        {"method": "when_all", "limit": None, "items": 100, "time": 1.0},
        {"method": "when_all", "limit": None, "items": 999, "time": 1.0},
    ]
    assert Table.from_rows(rows).compare("for_each")["ratio"] == (1.0, 0.5, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"baseline": "nobody"}, "no rows match the baseline.*bounded, when_all"),
        ({"baseline": {"elapsed": 1}}, "baseline must name key columns.*got 'elapsed'"),
        ({"baseline": "bounded", "by": "elapsed"}, "by must name key columns"),
        ({"baseline": "bounded", "by": "items"}, "several points, which differ in limit"),
        ({"baseline": "bounded", "measure": "limited_by"}, "measure must be a column of numbers"),
        ({"baseline": "bounded", "confidence": 1.0}, "confidence must be between 0 and 1"),
    ],
)
def test_a_comparison_that_makes_no_sense_is_refused(sweep: Table, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sweep.compare(**arguments)
    with pytest.raises(ValueError, match="no key columns"):
        Table.from_rows([{"elapsed": 1.0}]).compare("x")


# Data frames and the Arrow stream

EVERYTHING = Table.from_rows(
    [
        {"i": 1, "f": 0.5, "s": "é", "b": True, "big": 2**64 - 1, "huge": 2**70, "gap": None},
        {"i": None, "f": None, "s": None, "b": None, "big": 0, "huge": -1, "gap": 3},
        {"i": -(2**63), "f": -1.5, "s": "", "b": False, "big": 1, "huge": 0, "gap": 4},
    ]
    * 5
)
AS_READ = [{**row, "huge": str(row["huge"])} for row in EVERYTHING]


def test_the_stream_is_read_by_pyarrow_and_polars() -> None:
    arrow = pa.table(EVERYTHING)
    arrow.validate(full=True)
    assert arrow.to_pylist() == AS_READ
    assert [str(kind) for kind in arrow.schema.types] == [
        "int64",
        "double",
        "string",
        "bool",
        "uint64",
        "string",
        "int64",
    ]
    assert pl.DataFrame(EVERYTHING).to_dicts() == AS_READ
    assert pl.DataFrame(EVERYTHING).equals(EVERYTHING.to_polars())


def test_data_frames_keep_integers(sweep: Table) -> None:
    dtypes = EVERYTHING.to_pandas().dtypes.astype(str).to_dict()
    assert dtypes == {
        "i": "Int64",
        "f": "float64",
        "s": "string",
        "b": "boolean",
        "big": "uint64",
        "huge": "object",
        "gap": "Int64",
    }
    assert isinstance(sweep.to_pandas(), pd.DataFrame) and str(sweep.to_pandas()["items"].dtype) == "int64"
    assert sweep.to_pandas()["warmup"].dtype == bool


def test_columns_can_be_taken_from_the_stream_and_outlive_it() -> None:
    reader = pa.RecordBatchReader.from_stream(EVERYTHING)
    column = reader.read_next_batch().column(2)
    with pytest.raises(StopIteration):
        reader.read_next_batch()
    reader.close()
    del reader
    gc.collect()
    assert column.to_pylist() == list(EVERYTHING["s"])


class Stream(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("get_schema", "get_next", "get_last_error", "release", "private_data")]


def test_a_receiver_may_release_early_or_never() -> None:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    release_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    take_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    for early in (True, False):
        capsule = EVERYTHING.__arrow_c_stream__()
        address = pointer(capsule, b"arrow_array_stream")
        stream = Stream.from_address(address)
        block = (ctypes.c_void_p * 10)()  # an ArrowArray is ten words
        if early:
            assert take_type(stream.get_next)(address, ctypes.addressof(block)) == 0
            assert block[8] is not None
            release_type(stream.release)(address)
            assert stream.release is None
            release_type(block[8])(ctypes.addressof(block))
            assert block[8] is None
        del capsule


def test_a_stream_may_be_freed_while_an_exception_is_on_its_way() -> None:
    def takes(*values: object) -> None:
        raise AssertionError("not reached")

    for make in (pa.table, pl.DataFrame, Table.__arrow_c_stream__):
        with pytest.raises(ZeroDivisionError):
            takes(make(EVERYTHING), 1 / 0)


def test_streams_leak_nothing() -> None:
    table = Table(["s", "n"], {"s": ["text" * 100] * 1000, "n": range(1000)})

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    if not Path("/proc/self/statm").exists():
        pytest.skip("memory is read from /proc")
    for _ in range(3):
        before = resident()
        for _ in range(30):  # 400 kB each
            table.__arrow_c_stream__()
            pa.RecordBatchReader.from_stream(table)
            pl.DataFrame(table)
        if resident() - before < 4_000_000:
            return
    pytest.fail("three times 30 streams left more than 4 MB behind")


def test_missing_libraries_are_named_with_the_remedy(sweep: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, make, remedy in (
        ("pandas", Table.to_pandas, r"fanwidth\[pandas\]"),
        ("polars", Table.to_polars, "pip install"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ImportError, match=f"this needs {module}: .*{remedy}"):
            make(sweep)


def test_a_table_needs_no_other_library(run_child) -> None:
    code = """
import sys
import fanwidth.table
heavy = {"numpy", "pandas", "polars", "pyarrow", "matplotlib", "asyncio", "random"}
print(sorted(heavy & set(sys.modules)), "fanwidth.statistics" in sys.modules, "fanwidth.arrow" in sys.modules)
"""
    child = run_child(code, env={"PYTHONPATH": os.pathsep.join(sys.path)})
    assert (child.stdout, child.stderr) == ("[] False False\n", "")
