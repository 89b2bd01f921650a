"""Tables are read some rows at a time: Parquet and text through pyarrow; text that it cannot read cell by cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plgc.graphs.formats.columns import TableColumns, listed
from plgc.graphs.formats.delimited import Layout, cell_blocks, find_layout
from plgc.graphs.formats.frames import open_parquet, parquet_columns
from plgc.graphs.formats.limits import open_bytes
from plgc.graphs.formats.tables import find_columns
from plgc.graphs.store.parts import Parts
from plgc.runtime.errors import GraphError, SettingError

ROWS, LEAST_ROWS = 1 << 17, 128  # of a block …
BLOCK_BYTES = 8 << 20  # … which is about as large as this, where rows are
CSV_BYTES = 4 << 20  # of text that are parsed at a time
BUFFER = 1 << 18  # bytes of a column of Parquet that are read at a time


@dataclass(frozen=True)
class Table:
    """A table in one or more files, before its rows are read.

    Attributes:
        parts: its files.
        names: of its columns.
        roles: the column of every role that has one.
        layouts: of every file of text.
        types: of every column of Parquet, as pyarrow has them.
        bytes: of every column of Parquet in a row, on average.
        rows: how many there are; of text at most so many.
        cells: numbers or words in them, the entries of vectors one by one.
    """

    parts: Parts
    names: tuple[str, ...]
    roles: dict[str, str]
    layouts: tuple[Layout, ...]
    types: dict[str, Any]
    bytes: dict[str, int]
    rows: int
    cells: int


def open_table(parts: Parts, roles: Sequence[str], columns: TableColumns, notes: list[str], ids: Any = tuple) -> Table:
    """Find the columns of a table, and see that all parts have the same; arguments as in ``formats.tables``.

    Raises:
        GraphError: a part is damaged, or two parts have different columns or types.
        SettingError: a column that the user names is not there.
    """
    if parts.parquet:
        if columns.header is not None:
            raise SettingError(f"{parts.name}: header says how a table of text begins; this table has names of its own")
        table = _parquet_table(parts)
        return replace(table, roles=find_columns(parts.name, table.names, roles, columns, notes, None))
    named = columns.names_of(roles)
    first = find_layout(parts.files[0], roles, notes, columns.header, named, ids)
    layouts = [first]
    for path in parts.files[1:]:
        layouts.append(find_layout(path, roles, [], first.header))
        _check_same(parts.files[0], first.names, path, layouts[-1].names)
    found = find_columns(parts.name, first.names, roles, columns, notes, first)
    rows = sum(_lines(path) for path in parts.files)
    return Table(parts, first.names, found, tuple(layouts), {}, {}, rows, rows * len(first.names))


def _parquet_table(parts: Parts) -> Table:
    """A table of Parquet without roles."""
    first, sizes, rows, cells = dict[str, Any](), dict[str, int](), 0, 0
    for path in parts.files:
        names = parquet_columns(path)
        with open_parquet(path) as file:
            types = {name: file.schema_arrow.field(name).type for name in names}
            about = file.metadata
            rows += about.num_rows
            paths = [file.schema.column(place).path for place in range(about.num_columns)]
            owners = [path if path in types else path.partition(".")[0] for path in paths]
            for group in map(about.row_group, range(about.num_row_groups)):
                for name, leaf in zip(owners, map(group.column, range(group.num_columns)), strict=True):
                    cells += leaf.num_values
                    size = max(leaf.total_uncompressed_size, 8 * leaf.num_values) // max(1, group.num_rows)
                    sizes[name] = max(sizes.get(name, 0), size)
        first = first or types
        _check_same(parts.files[0], [*first], path, names)
        if other := next((name for name in names if types[name] != first[name]), None):
            raise GraphError(
                f"{path}: {other!r} is of type {types[other]}, and {first[other]} in {parts.files[0].name}: write all "
                "parts with the same types"
            )
    return Table(parts, tuple(first), {}, (), first, sizes, rows, cells)


def _check_same(first: Path, names: Sequence[str], path: Path, others: Sequence[str]) -> None:
    if list(names) != list(others):
        raise GraphError(
            f"{path} has the columns {listed(others)}, and {first.name} has {listed(names)}: all parts need the same, "
            "in the same order"
        )


def _lines(path: Path) -> int:
    """How many lines a file of text has, at least as many as rows."""
    count = 1
    with open_bytes(path) as file:
        while block := file.read(CSV_BYTES):
            count += block.count(b"\n")
    return count


def table_blocks(table: Table, names: Sequence[str]) -> Iterator[tuple[Path, int, list[Any]]]:
    """These columns of a table, some rows at a time: the file, the row in it, and arrays of pyarrow or lists of cells.

    Raises:
        GraphError: a file is damaged; the message names it.
    """
    for place, path in enumerate(table.parts.files):
        blocks = (
            parquet_blocks(table, path, names) if table.parts.parquet else _text_blocks(table.layouts[place], names)
        )
        row = 0
        for columns in blocks:
            yield path, row, columns
            row += len(columns[0])


def parquet_blocks(table: Table, path: Path, names: Sequence[str]) -> Iterator[list[Any]]:
    """These columns of a file of a table in Parquet, some rows at a time."""
    size = sum(table.bytes.get(name, 8) for name in names)
    rows = max(LEAST_ROWS, min(ROWS, BLOCK_BYTES // max(1, size)))
    with open_parquet(path, buffer_size=BUFFER) as file:
        for batch in file.iter_batches(batch_size=rows, columns=list(names)):
            yield [batch.column(name) for name in names]


def _text_blocks(layout: Layout, names: Sequence[str]) -> Iterator[list[Any]]:
    try:
        from pyarrow import csv
    except ImportError:
        csv = None
    if csv is not None and layout.delimiter != " ":
        yield from _arrow_blocks(csv, layout, names)
        return
    width, places = len(layout.names), [layout.names.index(name) for name in names]
    for cells in cell_blocks(layout):
        yield [cells[place::width] for place in places]


def _arrow_blocks(csv: Any, layout: Layout, names: Sequence[str]) -> Iterator[list[Any]]:
    """The cells of a file of text as pyarrow parses it, many times as fast."""
    import pyarrow as pa
    from pyarrow import compute

    skipped = layout.skipped + layout.header
    reading = csv.ReadOptions(block_size=CSV_BYTES, skip_rows=skipped, column_names=list(layout.names))
    parsing = csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True)
    types = dict.fromkeys(layout.names, pa.string())
    converting = csv.ConvertOptions(column_types=types, include_columns=list(names), strings_can_be_null=False)
    with open_bytes(layout.path) as file:
        try:
            for batch in csv.open_csv(pa.PythonFile(file, "r"), reading, parsing, converting):
                if batch.num_rows:
                    yield [compute.call_function("utf8_trim_whitespace", [batch.column(name)]) for name in names]
        except pa.ArrowInvalid as error:
            if any(list(map(len, cell_blocks(layout)))):  # which names the line; without rows all is well
                raise GraphError(f"{layout.path} cannot be read: {error}") from error
