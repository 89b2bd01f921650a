"""Edges of any source, some at a time, into sorted runs; the runs into ``edge_index.npy`` and ``edge_weight.npy``."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plgc.graphs.check import MAX_WEIGHT
from plgc.graphs.formats.assemble import weights_of
from plgc.graphs.formats.npy import write_header
from plgc.graphs.formats.values import Column
from plgc.graphs.store.blocks import Table, table_blocks
from plgc.graphs.store.ids import MissingIdError, NodeIds, as_ids
from plgc.graphs.store.runs import CHUNK, Runs, merged
from plgc.graphs.store.spill import raw
from plgc.runtime.errors import GraphError
from plgc.runtime.progress import Progress

INDEX = np.dtype(np.int32)  # N is below 2³¹
PARTS = ("rows.part", "columns.part", "weights.part")


@dataclass(frozen=True)
class EdgeBlock:
    """Some edges: nodes they start from and lead to, int64; weights, float64; where they are, for messages."""

    source: np.ndarray
    target: np.ndarray
    weight: np.ndarray | None
    where: str
    row: int


def named_ends(table: Table) -> Iterator[tuple[Path, int, np.ndarray, np.ndarray]]:
    """The ids at both ends of edges, some rows at a time, with the file and the row in it."""
    names = [table.roles["source"], table.roles["target"]]
    for path, row, ends in table_blocks(table, names):
        try:
            source, target = map(as_ids, ends)
        except MissingIdError as error:
            raise GraphError(
                f"{path}: row {row + error.row + 1} names no node at one end: every edge needs two"
            ) from error
        yield path, row, source, target


def table_edges(table: Table, ids: NodeIds, owner: str, weight: Column | None, notes: list[str]) -> Iterator[EdgeBlock]:
    """The edges of a table; ``owner`` is the name of the node table.

    Raises:
        GraphError: an edge names a node that there is not; the message names the part and the row.
    """
    start, gaps = 0, 0
    for path, row, *ends in named_ends(table):
        places = [ids.find(end) for end in ends]
        for end, place in zip(ends, places, strict=True):
            if len(unknown := np.flatnonzero(place < 0)):
                raise GraphError(
                    f"{path}: row {row + int(unknown[0]) + 1} names the node {str(end[unknown[0]])!r}, which {owner} "
                    f"does not have ({len(unknown):,} such edge(s) in {len(place):,} rows): add a row for each node or "
                    "drop those edges, and see that ids are written alike in both"
                )
        own = None
        if weight is not None:
            part = weight.part(start, start + len(places[0]))
            own = weights_of(part, table.parts.name, [])
            gaps += 0 if part.numbers is None else int(np.isnan(part.numbers).sum())
            if len(own) < len(places[0]):
                raise GraphError(f"{path} has more edges than weights: is a quotation mark missing?")
        yield EdgeBlock(places[0], places[1], own, str(path), row)
        start += len(places[0])
    if gaps:
        notes.append(f"{table.parts.name}: {gaps:,} edge(s) without a weight count as 1")


def sort_edges(blocks: Iterator[EdgeBlock], nodes: int, runs: Runs, weighted: bool, total: int, told: Progress) -> None:
    """Add both directions of all edges but self-loops to sorted runs; ``total`` is the number of edges, or more."""
    done = 0
    for block in blocks:
        source, target, weight = block.source, block.target, block.weight
        done += len(source)
        if weight is not None:
            _check_weights(weight, block)
        if (loops := source == target).any():
            source, target = source[~loops], target[~loops]
            weight = None if weight is None else weight[~loops]
        if weighted:
            assert weight is not None
            runs.add((source * nodes + target) * 2, weight.astype(np.float32))
            runs.add((target * nodes + source) * 2 + 1, weight.astype(np.float32))
        else:
            runs.add(source * nodes + target)
            runs.add(target * nodes + source)
        told(f"sorting edges of {Path(block.where).name}", done, total)
    runs.flush()


def _check_weights(weight: np.ndarray, block: EdgeBlock) -> None:
    bad = np.flatnonzero(~((weight >= 0) & (weight <= MAX_WEIGHT)))
    if len(bad):
        raise GraphError(
            f"{block.where}: edge {block.row + int(bad[0])} has the weight {weight[bad[0]]}: weights must be finite "
            f"and not negative, at most {MAX_WEIGHT:g}; divide larger ones by a constant"
        )


def merge_edges(runs: Path, count: int, nodes: int, capacity: int, weighted: bool, folder: Path, told: Progress) -> int:
    """Merge ``count`` runs into files of rows, columns and weights in a folder; return the number of entries."""
    entries, total = 0, sum(path.stat().st_size // 8 for path in runs.glob("*.keys"))
    rows, columns, weights = (folder / name for name in PARTS)
    with open(rows, "wb") as row_file, open(columns, "wb") as column_file, open(weights, "wb") as weight_file:
        for keys, weight in merged(runs, count, capacity, weighted):
            for start in range(0, len(keys), CHUNK):
                row, column = np.divmod(keys[start : start + CHUNK], nodes)
                row_file.write(raw(row.astype(INDEX)))
                column_file.write(raw(column.astype(INDEX)))
            if weight is not None:
                weight_file.write(raw(weight))
            entries += len(keys)
            told("merging edges", entries, total)
    return entries


def join_edges(folder: Path, entries: int, weighted: bool) -> None:
    """Make ``edge_index.npy`` and ``edge_weight.npy`` of the files in a folder."""
    rows, columns, weights = (folder / name for name in PARTS)
    _joined(folder / "edge_index.npy", INDEX, (2, entries), rows, columns)
    if weighted:
        _joined(folder / "edge_weight.npy", np.dtype(np.float32), (entries,), weights)
    weights.unlink(missing_ok=True)


def _joined(path: Path, dtype: np.dtype, shape: tuple[int, ...], *parts: Path) -> None:
    """An npy file of the values in some files, which are removed."""
    with open(path, "wb") as file:
        write_header(file, dtype, shape)
        for part in parts:
            with open(part, "rb") as values:
                shutil.copyfileobj(values, file, 1 << 20)
            part.unlink()
