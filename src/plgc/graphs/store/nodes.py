"""The node table: ids, labels, masks and features, written into the folder of the graph."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from plgc.graphs.formats.arrays import CSR_KEYS, index_type
from plgc.graphs.formats.columns import TableColumns
from plgc.graphs.formats.node_columns import describe_nodes, is_sparse
from plgc.graphs.formats.npy import write_features, write_header
from plgc.graphs.formats.table_features import encoded_blocks
from plgc.graphs.formats.tables import kinds_of, known_decimal
from plgc.graphs.store.blocks import Table
from plgc.graphs.store.budget import check_disk
from plgc.graphs.store.columns import read_columns
from plgc.graphs.store.numbering import IdColumn
from plgc.graphs.store.spill import raw
from plgc.runtime.progress import Progress

IDS = "ids"  # the folder of ids by place


def store_nodes(
    table: Table, columns: TableColumns, folder: Path, dtype: str | None, notes: list[str], progress: Progress
) -> Data:
    """Write ``node_ids.npy``, features, and ids by place into a folder; the rest is returned.

    The result has labels, masks, class names and how columns became features; its ``x`` is a matrix of the right shape
    without values.

    Raises:
        GraphError: the table is none of nodes; the message names the part or the column.
    """
    kinds, work = kinds_of(table.names, table.roles, columns), folder / "columns"
    work.mkdir()
    name = table.roles["node_id"]
    parquet = table.parts.parquet  # which is read column by column, text row by row

    def told(done: int) -> None:
        progress(f"reading {table.parts.name}", done, 2 * (len(kinds) if parquet else table.rows))

    ids = IdColumn(work, name, table.parts.name, None if parquet else told)
    read = read_columns(table, kinds, known_decimal(columns), work, {name: ids}, told)
    ids.finish(folder / "node_ids.npy").save(folder / IDS)
    found = describe_nodes(read, table.roles, columns, notes)
    data = Data(num_nodes=read.rows, **found)
    if "seen" not in found:
        notes.append(f"{table.parts.name}: there is no feature column")
        return data
    known, nonzeros = data.seen.preprocessing, 0
    shape = (read.rows, len(known.features))

    def rows() -> Iterator[np.ndarray]:
        nonlocal nonzeros
        for start, block in encoded_blocks(known, read, notes, later=columns.preprocessing is not None):
            nonzeros += int(np.count_nonzero(block))
            yield block
            progress(f"writing features of {table.parts.name}", read.rows + start + len(block), 2 * read.rows)

    kind = np.dtype(dtype or "float32")
    check_disk(folder, kind.itemsize * math.prod(shape))
    write_features(folder / "x.npy", shape, kind, rows())
    data.x = shapes_only(shape)
    if is_sparse(shape, nonzeros):
        (folder / "x.npy").unlink()
        _write_sparse(encoded_blocks(known, read, []), shape, nonzeros, folder)
    return data


def shapes_only(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor of this shape that takes no memory."""
    return torch.zeros((), dtype=dtype).expand(shape)


def _write_sparse(
    blocks: Iterator[tuple[int, np.ndarray]], shape: tuple[int, int], nonzeros: int, folder: Path
) -> None:
    """Write features that are mostly zero as CSR."""
    index, before = np.dtype(index_type(max(*shape, nonzeros))), 0
    with contextlib.ExitStack() as files:
        indptr, indices, values = (files.enter_context(open(folder / f"{key}.npy", "wb")) for key in CSR_KEYS[:3])
        write_header(indptr, index, (shape[0] + 1,))
        write_header(indices, index, (nonzeros,))
        write_header(values, np.dtype(np.float32), (nonzeros,))
        indptr.write(raw(np.zeros(1, index)))
        for _, block in blocks:
            row, column = block.nonzero()
            ends = before + np.bincount(row, minlength=len(block)).cumsum()
            before = int(ends[-1])
            indptr.write(raw(ends.astype(index)))
            indices.write(raw(column.astype(index)))
            values.write(raw(block[row, column]))
    np.save(folder / f"{CSR_KEYS[3]}.npy", np.array(shape, dtype=np.int64))
