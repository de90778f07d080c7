"""A run as a table with one row per item."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import short

if TYPE_CHECKING:
    import pandas
    import polars

    from .runs import Run

COLUMNS = ("index", "item", "state", "result", "error", "wait", "latency", "start", "finish")


def to_columns(run: Run) -> dict[str, list[Any]]:
    """Lists by column name; seconds, None for what is not there. `error` is the exception as text."""
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for outcome in run.outcomes:
        started, finished = outcome.start, outcome.finish
        columns["index"].append(outcome.index)
        columns["item"].append(outcome.item)
        columns["state"].append(outcome.state)
        columns["result"].append(outcome.result)
        columns["error"].append(None if outcome.exception is None else short(outcome.exception, 200))
        columns["wait"].append(started)
        columns["latency"].append(None if started is None or finished is None else finished - started)
        columns["start"].append(started)
        columns["finish"].append(finished)
    return columns


def to_records(run: Run) -> list[dict[str, Any]]:
    columns = to_columns(run)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _all_ints(values: list[Any]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(type(value) is int and -(2**63) <= value < 2**63 for value in present)


def to_pandas(run: Run) -> pandas.DataFrame:
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError('to_pandas needs pandas: pip install "fanwidth[pandas]"') from error
    columns = to_columns(run)
    seconds = ("wait", "latency", "start", "finish")
    kinds = {"index": "int64"} | dict.fromkeys(seconds, "float64")
    # A missing value would turn ints into floats: pandas' nullable Int64 keeps them.
    kinds |= {name: "Int64" for name in ("item", "result") if _all_ints(columns[name])}
    return pd.DataFrame({name: pd.Series(values, dtype=kinds.get(name, "object")) for name, values in columns.items()})


def to_polars(run: Run) -> polars.DataFrame:
    try:
        import polars as pl
    except ImportError as error:
        raise ImportError("to_polars needs polars: pip install polars") from error
    columns = to_columns(run)
    kinds: dict[str, Any] = dict.fromkeys(("wait", "latency", "start", "finish"), pl.Float64)
    kinds |= {"index": pl.Int64, "state": pl.String, "error": pl.String}
    series = []
    for name, values in columns.items():
        kind = kinds.get(name, pl.Int64 if _all_ints(values) else None)
        try:
            series.append(pl.Series(name, values, dtype=kind, strict=True))
        except (TypeError, ValueError, pl.exceptions.PolarsError):
            series.append(pl.Series(name, [None if value is None else str(value) for value in values], dtype=pl.String))
    return pl.DataFrame(series)
