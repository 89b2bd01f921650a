"""The columns of a table that is larger than memory, as an ``InputTable``: each lies in a file of its own.

What a column is, numbers or words, is decided as for tables in memory (:mod:`plgc.graphs.formats.values`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from plgc.graphs.formats.delimited import Collector, read_parts
from plgc.graphs.formats.limits import MAX_COLUMNS
from plgc.graphs.formats.values import Coder, Column, InputTable, Kind, MakePieces, column_of, numbers_of, word_of
from plgc.graphs.formats.written import Written
from plgc.graphs.store.blocks import Table, parquet_blocks
from plgc.graphs.store.spill import Spill, spills
from plgc.runtime.errors import GraphError

TOGETHER = 8  # columns of Parquet that are read in one pass over the files
MOST_WORDS = 1 << 20  # different words of a column of labels

Told = Callable[[int], None]


def read_columns(
    table: Table, kinds: Mapping[str, Kind], decimal: str | None, folder: Path, own: Mapping[str, Collector], told: Told
) -> InputTable:
    """Read these columns, each as its kind, into files of a folder.

    Args:
        table: as it was opened.
        kinds: of the columns.
        decimal: the sign before decimals, where it is known.
        folder: for the files.
        own: collectors for some of the columns, of ids for instance.
        told: called with the number of columns of Parquet that have been read.
    """
    pieces = spills(folder)
    if not table.parts.parquet:
        words = {name: _Words(kind, decimal, pieces, name) for name, kind in kinds.items() if kind == "word"}
        return read_parts(table.parts.name, table.layouts, kinds, decimal, pieces, {**words, **own})
    columns, names = dict[str, Column](), list(kinds)
    for start in range(0, len(names), TOGETHER):
        group = names[start : start + TOGETHER]
        collectors = [
            own.get(name) or _collector(table.types[name], kinds[name], decimal, pieces, name) for name in group
        ]
        for path in table.parts.files:
            for collector in collectors:
                collector.begin(path)
            for block in parquet_blocks(table, path, group):
                for collector, cells in zip(collectors, block, strict=True):
                    collector.add(cells)
        columns |= {name: collector.column() for name, collector in zip(group, collectors, strict=True)}
        told(start + len(group))
    return InputTable(table.parts.name, table.rows, columns)


def _collector(kind_of: Any, kind: Kind, decimal: str | None, pieces: MakePieces, name: str) -> Collector:
    """What collects a column of this type of pyarrow."""
    from pyarrow import types

    if types.is_dictionary(kind_of):
        kind_of = kind_of.value_type
    if types.is_string(kind_of) or types.is_large_string(kind_of) or types.is_null(kind_of):
        return _Words(kind, decimal, pieces, name)
    if types.is_list(kind_of) or types.is_large_list(kind_of) or types.is_fixed_size_list(kind_of):
        inner = kind_of.value_type
        if types.is_integer(inner) or types.is_floating(inner):
            exact = np.dtype(np.float32 if types.is_float32(inner) or types.is_float16(inner) else np.float64)
            return _Vectors(exact, pieces)
    if types.is_integer(kind_of) or types.is_floating(kind_of) or types.is_boolean(kind_of):
        return _Values(kind, pieces)
    if types.is_date(kind_of) or types.is_timestamp(kind_of):
        return _Values(kind, pieces)
    return _Ignored()


class _Ignored:
    """A column that is not read: of decimals, binary values, structures."""

    def __init__(self) -> None:
        self.rows = 0

    def begin(self, path: Path) -> None:
        """Nothing depends on the file."""

    def add(self, cells: Any) -> None:
        self.rows += len(cells)

    def column(self) -> Column:
        return Column(codes=np.full(self.rows, -1), words=None)


class _Values(_Ignored):
    """Collects numbers, true and false, dates; what they are is decided by all of them together."""

    def __init__(self, kind: Kind, pieces: MakePieces) -> None:
        super().__init__()
        self.kind: Kind = kind
        self.values, self.gaps, self.any_gap = pieces(), pieces(), False

    def add(self, cells: Any) -> None:
        import pyarrow as pa

        cells = cells.dictionary_decode() if pa.types.is_dictionary(cells.type) else cells
        times = pa.types.is_temporal(cells.type)
        gaps = cells.is_null().to_numpy(zero_copy_only=False)
        if gaps.any() and not times:  # numbers keep their type, so that large ones stay exact where none is missing
            cells = cells.fill_null(False if pa.types.is_boolean(cells.type) else 0)
        self.any_gap |= bool(gaps.any()) and not times
        self.values.append(cells.to_numpy(zero_copy_only=False))
        self.gaps.append(gaps)

    def column(self) -> Column:
        values = self.values.joined()
        if self.any_gap:
            values = np.where(self.gaps.joined(np.bool_), np.nan, values.astype(np.float64))
        found = column_of(values, self.kind)
        self.gaps.clear()
        if found.numbers is values or found.numbers is None or not isinstance(self.values, Spill):
            return found
        return Column(numbers=_on_disk(found.numbers, self.values), dates=found.dates)


def _on_disk(numbers: np.ndarray, spill: Spill) -> np.ndarray:
    """Numbers in a file again, in place of what they were made from."""
    spill.clear()
    spill.dtype, spill.rows = None, 0
    spill.append(numbers)
    return spill.joined()


class _Words(_Ignored):
    """Collects words, as ``written_column`` reads them: also as numbers and dates that people write."""

    def __init__(self, kind: Kind, decimal: str | None, pieces: MakePieces, name: str) -> None:
        super().__init__()
        self.kind, self.decimal, self.name = kind, decimal, name
        self.coder, self.written, self.plain = Coder(kind, pieces), Written(pieces), True

    def add(self, cells: Any) -> None:
        if self.coder.parts is None and not self.written.parts:  # a column of texts: nothing is kept of it
            self.coder.rows += len(cells)
            return
        words: list[str | None] = cells if isinstance(cells, list) else cells.to_pylist()
        self.coder.add([None if word is None else word_of(word) for word in words])
        if len(self.coder.known) > MOST_WORDS:
            raise GraphError(
                f"{self.name!r} has more than {MOST_WORDS:,} different words: they are no classes; name another column"
            )
        if self.kind == "value":
            self.plain = self.plain and numbers_of([word or "" for word in words]) is not None
            self.written.add(words)

    def column(self) -> Column:
        column = self.coder.column()
        if self.kind != "value" or column.example is None or self.plain:
            return column
        return self.written.column(self.decimal) or column


class _Vectors(_Ignored):
    """Collects vectors; a column with gaps or of different lengths is not read."""

    def __init__(self, dtype: np.dtype, pieces: MakePieces) -> None:
        super().__init__()
        self.dtype, self.width = dtype, None
        self.values = pieces()

    def add(self, cells: Any) -> None:
        from pyarrow import compute

        self.rows += len(cells)
        if self.width == -1 or not len(cells):
            return
        ends = compute.call_function("min_max", [compute.call_function("list_value_length", [cells])]).as_py()
        width = ends["min"] if not cells.null_count and ends["min"] == ends["max"] else -1
        if width is None or not 0 < width <= MAX_COLUMNS or self.width not in (None, width):
            self.width = -1
            self.values.clear()
            return
        self.width = width
        numbers = cells.flatten().to_numpy(zero_copy_only=False)
        self.values.append(numbers.reshape(-1, width).astype(self.dtype, copy=False))

    def column(self) -> Column:
        if self.width in (None, -1):
            return super().column()
        return Column(numbers=self.values.joined())
