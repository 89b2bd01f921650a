"""Tables that know their types: Parquet files (through pyarrow, an extra) and data frames of pandas or polars."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from plgc.graphs.formats.columns import listed
from plgc.graphs.formats.values import MAX_COLUMNS, MAX_VALUES, Table, column_of
from plgc.runtime.errors import GraphError, GraphNotFoundError, MissingExtraError, PLGCError

MAX_RATIO = 1000  # how far a Parquet file may expand …
FREE_BYTES = 2**30  # … beyond this size


def is_frame(source: Any) -> bool:
    """Whether this is a data frame of pandas or polars, without importing either."""
    return type(source).__name__ == "DataFrame" and hasattr(source, "columns") and hasattr(source, "__getitem__")


def frame_columns(frame: Any, called: str) -> list[str]:
    """The names of a data frame's columns."""
    names = list(frame.columns)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise GraphError(f"the columns of {called} are {listed(names)}: expected words, each once")
    return names


def read_frame(
    frame: Any, called: str, ids: Sequence[str] = (), words: Sequence[str] = (), only: Sequence[str] | None = None
) -> Table:
    """Read a data frame; ``ids``, ``words`` and ``only`` as for :func:`plgc.graphs.formats.delimited.read_delimited`."""
    columns = {}
    for name in frame_columns(frame, called) if only is None else only:
        series = frame[name]
        if str(getattr(series, "dtype", "")).lower() in ("category", "categorical", "enum"):
            values = series.to_list() if hasattr(series, "to_list") else list(series)
        else:
            values = series.to_numpy()
        columns[name] = column_of(values, words=name in words, cap=_cap(name, ids, words), ids=name in ids)
    return Table(called, len(frame), columns)


def parquet_columns(path: Path) -> list[str]:
    """The names of a Parquet file's columns. Raises as :func:`read_parquet` does."""
    with _open(path) as file:
        names = list(file.schema_arrow.names)
    if len(set(names)) < len(names):
        raise GraphError(f"{path}: a column name occurs twice in {listed(names)}")
    return names


def read_parquet(
    path: Path, ids: Sequence[str] = (), words: Sequence[str] = (), only: Sequence[str] | None = None
) -> Table:
    """Read a Parquet file; ``ids``, ``words`` and ``only`` as for :func:`plgc.graphs.formats.delimited.read_delimited`.

    Raises:
        MissingExtraError: pyarrow is not installed.
        GraphError: the file cannot be read, or declares more than its size can reasonably hold.
    """
    names = parquet_columns(path) if only is None else only
    columns = {}
    with _open(path) as file:
        rows = file.metadata.num_rows
        _check_size(path, rows, len(names))
        for name in names:
            values = file.read(columns=[name]).column(0)
            if len(values) != rows:
                raise GraphError(f"{path} is damaged: {name!r} has {len(values)} of {rows} rows")
            array = values.to_numpy()
            columns[name] = column_of(array, words=name in words, cap=_cap(name, ids, words), ids=name in ids)
    return Table(path.name, rows, columns)


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    if not os.path.exists(path):
        raise GraphNotFoundError(f"no such file: {path}")
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("Parquet needs pyarrow: pip install 'plgc[tables]'") from error
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except PLGCError:
        raise
    except Exception as error:  # a broken file fails in many ways: header, codec, types, memory, …
        raise GraphError(f"{path} is not a readable Parquet file ({type(error).__name__}: {error})") from error


def _check_size(path: Path, rows: int, columns: int) -> None:
    if columns > MAX_COLUMNS:
        raise GraphError(f"{path} has {columns:,} columns, the limit is {MAX_COLUMNS:,}")
    limit = max(FREE_BYTES, MAX_RATIO * os.path.getsize(path))
    if 8 * rows * columns > limit:
        raise GraphError(
            f"{path} declares {rows:,} rows of {columns:,} column(s), over {MAX_RATIO} times its size: this looks like "
            "a decompression bomb"
        )


def _cap(name: str, ids: Sequence[str], words: Sequence[str]) -> int | None:
    return None if name in ids or name in words else MAX_VALUES
