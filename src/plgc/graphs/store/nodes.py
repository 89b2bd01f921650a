"""The node table: ids, labels, masks and features, written into the folder of the graph."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from plgc.graphs.features import csr_features
from plgc.graphs.formats.columns import TableColumns
from plgc.graphs.formats.node_columns import describe_nodes, is_sparse
from plgc.graphs.formats.npy import write_features
from plgc.graphs.formats.table_features import encoded_blocks
from plgc.graphs.formats.tables import kinds_of, known_decimal
from plgc.graphs.store.blocks import Table
from plgc.graphs.store.columns import read_columns
from plgc.graphs.store.numbering import IdColumn
from plgc.runtime.progress import Progress

IDS = "ids"  # the folder of ids by place


def store_nodes(
    table: Table, columns: TableColumns, folder: Path, dtype: str | None, notes: list[str], progress: Progress
) -> Data:
    """Write ``node_ids.npy``, features, and ids by place into a folder; the rest is returned.

    The result has labels, masks, class names and how columns became features; its ``x`` is a matrix of the right shape
    without values where ``x.npy`` was written, and sparse where the features are.

    Raises:
        GraphError: the table is none of nodes; the message names the part or the column.
    """
    kinds, work = kinds_of(table.names, table.roles, columns), folder / "columns"
    work.mkdir()
    name = table.roles["node_id"]
    ids = IdColumn(work, name, table.parts.name)

    def told(done: int) -> None:
        progress(f"reading {table.parts.name}", done, 2 * len(kinds))

    told(0)
    read = read_columns(table, kinds, known_decimal(columns), work, {name: ids}, told)
    places = ids.finish(folder / "node_ids.npy")
    places.save(folder / IDS)
    found = describe_nodes(read, table.roles, columns, notes)
    data = Data(num_nodes=len(places), **found)
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

    write_features(folder / "x.npy", shape, np.dtype(dtype or "float32"), rows())
    data.x = shapes_only(shape)
    if is_sparse(shape, nonzeros):
        (folder / "x.npy").unlink()
        data.x = _sparse(encoded_blocks(known, read, []), shape)
    return data


def shapes_only(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor of this shape that takes no memory."""
    return torch.zeros((), dtype=dtype).expand(shape)


def _sparse(blocks: Iterator[tuple[int, np.ndarray]], shape: tuple[int, int]) -> Any:
    """Features that are mostly zero as CSR, in memory."""
    counts, columns, values = [np.zeros(1, np.int64)], list[np.ndarray](), list[np.ndarray]()
    for _, block in blocks:
        row, column = block.nonzero()
        counts.append(np.bincount(row, minlength=len(block)))
        columns.append(column.astype(np.int32))
        values.append(block[row, column])
    return csr_features(np.concatenate(counts).cumsum(), np.concatenate(columns), np.concatenate(values), shape)
