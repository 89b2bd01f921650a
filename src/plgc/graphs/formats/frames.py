"""Tables with typed columns: Parquet files (through pyarrow, an extra) and data frames of pandas or polars."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from plgc.graphs.formats.columns import listed
from plgc.graphs.formats.limits import MAX_COLUMNS, MAX_TABLE_RATIO, is_oversized
from plgc.graphs.formats.values import InputTable, Kind
from plgc.graphs.formats.written import written_column
from plgc.runtime.errors import GraphError, GraphNotFoundError, MissingExtraError, PLGCError


def frame_columns(frame: Any, called: str) -> list[str]:
    """The names of a data frame's columns."""
    names = list(frame.columns)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise GraphError(f"the columns of {called} are {listed(names)}: expected words, each once")
    return names


def read_frame(frame: Any, called: str, kinds: Mapping[str, Kind], decimal: str | None = None) -> InputTable:
    """Read these columns of a data frame, each as its kind; ``called`` is the table's name in messages."""
    columns = {}
    for name, kind in kinds.items():
        series = frame[name]
        if str(getattr(series, "dtype", "")).lower() in ("category", "categorical", "enum"):
            values = series.to_list() if hasattr(series, "to_list") else list(series)
        else:
            values = series.to_numpy()
        columns[name] = written_column(values, kind, decimal)
    return InputTable(called, len(frame), columns)


def parquet_columns(path: Path) -> list[str]:
    """The names of a Parquet file's columns. Raises as :func:`read_parquet` does."""
    with open_parquet(path) as file:
        names = list(file.schema_arrow.names)
    if len(set(names)) < len(names):
        raise GraphError(f"{path}: a column name occurs twice in {listed(names)}")
    return names


def read_parquet(path: Path, kinds: Mapping[str, Kind], decimal: str | None = None) -> InputTable:
    """Read these columns of a Parquet file, each as its kind.

    Raises:
        MissingExtraError: pyarrow is not installed.
        GraphError: the file cannot be read, or declares more than its size can reasonably hold.
    """
    columns = {}
    with open_parquet(path) as file:
        rows = file.metadata.num_rows
        if len(kinds) > MAX_COLUMNS:
            raise GraphError(f"{path} has {len(kinds):,} columns, the limit is {MAX_COLUMNS:,}")
        if is_oversized(path, rows, len(kinds)):
            raise GraphError(
                f"{path} declares {rows:,} rows of {len(kinds):,} column(s), over {MAX_TABLE_RATIO} times its size: "
                "this looks like a decompression bomb"
            )
        for name, kind in kinds.items():
            values = file.read(columns=[name]).column(0)
            if len(values) != rows:
                raise GraphError(f"{path} is damaged: {name!r} has {len(values)} of {rows} rows")
            columns[name] = written_column(values.to_numpy(), kind, decimal)
    return InputTable(path.name, rows, columns)


@contextmanager
def open_parquet(path: Path, **options: Any) -> Iterator[Any]:
    """Open a Parquet file, with options of pyarrow; raises as :func:`read_parquet` does, also while it is read."""
    if not os.path.exists(path):
        raise GraphNotFoundError(f"no such file: {path}")
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("Parquet needs pyarrow: pip install 'plgc[tables]'") from error
    try:
        with parquet.ParquetFile(path, **options) as file:
            yield file
    except PLGCError:
        raise
    except Exception as error:  # a broken file fails in many ways: header, codec, types, memory, …
        raise GraphError(f"{path} is not a readable Parquet file ({type(error).__name__}: {error})") from error
