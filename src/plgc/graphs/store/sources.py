"""The two kinds of sources, tables and arrays, each with its nodes and its edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch_geometric.data import Data

from plgc.graphs.formats.columns import TableColumns
from plgc.graphs.formats.delimited import words_of
from plgc.graphs.formats.stored import stored_files
from plgc.graphs.formats.tables import EDGE_ROLES, NODE_ROLES, known_decimal
from plgc.graphs.store.arrays import array_edges, open_arrays, raw_graph, read_whole, store_features, store_ids
from plgc.graphs.store.blocks import Table, open_table
from plgc.graphs.store.budget import BASE, BLOCKS, CELL, check_disk, check_memory, edges_on_disk
from plgc.graphs.store.columns import read_columns
from plgc.graphs.store.edges import EdgeBlock, named_ends, table_edges
from plgc.graphs.store.ids import NodeIds
from plgc.graphs.store.nodes import IDS, store_nodes
from plgc.graphs.store.numbering import NamedNodes
from plgc.graphs.store.parts import Parts, find_parts
from plgc.runtime.errors import GraphError
from plgc.runtime.progress import Progress


@dataclass(frozen=True)
class Edges:
    """The edges of a source: some at a time, whether they have weights, how many there are, roles of the columns."""

    blocks: Iterator[EdgeBlock]
    weighted: bool
    total: int
    roles: dict[str, str]


class TableSource:
    """An edge list and, where there is one, a node table."""

    def __init__(self, edges: Path, nodes: Path | None, columns: TableColumns, notes: list[str]) -> None:
        self.columns, self.name = columns, edges.name.split(".")[0] or "edges"
        self.edge_parts = find_parts(edges, notes)
        self.node_parts = None if nodes is None else find_parts(nodes, notes)

    @property
    def node_files(self) -> list[Path]:
        """The files that nodes are read from."""
        return list((self.edge_parts if self.node_parts is None else self.node_parts).files)

    @property
    def edge_files(self) -> list[Path]:
        """The files that edges are read from."""
        return list(self.edge_parts.files)

    def nodes(self, folder: Path, memory: int, dtype: str | None, notes: list[str], progress: Progress) -> Data:
        """Write features and ids of the nodes into a folder; labels, masks and names are returned."""
        edges = self._open(self.edge_parts, EDGE_ROLES, [])  # so that what is wrong with it is told before the work
        sorting = edges_on_disk(edges.rows, "weight" in edges.roles)
        check_disk(folder, sorting)
        if self.node_parts is None:
            return self._named_nodes(edges, folder, memory, notes, progress)
        ends = tuple if self.edge_parts.parquet else partial(words_of, self.edge_parts.files[0])
        table = self._open(self.node_parts, (*NODE_ROLES, *self.columns.timed), notes, ends)
        check_memory(memory, table.rows)
        check_disk(folder, sorting + CELL * table.cells)
        return store_nodes(table, self.columns, folder, dtype, notes, progress)

    def _named_nodes(self, edges: Table, folder: Path, memory: int, notes: list[str], progress: Progress) -> Data:
        """The nodes that edges name."""
        check_memory(memory, 0)
        found, done = NamedNodes(memory - BASE - BLOCKS), 0
        for path, _, *ends in named_ends(edges):
            for end in ends:
                found.add(end)
            done += len(ends[0])
            progress(f"reading ids of {path.name}", done, edges.rows)
        ids = found.finish(folder / "node_ids.npy", "the edges")
        if not len(ids):
            raise GraphError(f"{edges.parts.name} has no edges, and there is no table of nodes: nothing to store")
        check_memory(memory, len(ids))
        ids.save(folder / IDS)
        name = edges.parts.name
        notes.append(f"{name}: without a node table the {len(ids):,} nodes are those the edges name; no features")
        return Data(num_nodes=len(ids))

    def edges(self, nodes: Path, folder: Path, notes: list[str]) -> Edges:
        """The edges as numbers of nodes, whose ids are in the folder ``nodes``."""
        ids = NodeIds.load(nodes / IDS)
        table = self._open(self.edge_parts, EDGE_ROLES, notes, lambda: ids if self.node_parts is not None else ())
        weight = None
        if (name := table.roles.get("weight")) is not None:
            read = read_columns(table, {name: "value"}, known_decimal(self.columns), folder / "weights", {}, _untold)
            weight = read.columns[name]
        owner = "the edges" if self.node_parts is None else self.node_parts.name
        blocks = table_edges(table, ids, owner, weight, notes)
        return Edges(blocks, weight is not None, table.rows, table.roles)

    def _open(self, parts: Parts, roles: tuple[str, ...], notes: list[str], ids: Any = tuple) -> Table:
        return open_table(parts, roles, self.columns, notes, ids)


def _untold(_done: int) -> None:
    pass


class ArraySource:
    """A folder of npy files, a safetensors or an npz file; the last is unpacked into ``work``."""

    def __init__(self, source: Path, work: Path) -> None:
        self.source, self.name = source, source.stem
        self.arrays = open_arrays(source, work)

    @property
    def node_files(self) -> list[Path]:
        """The files that nodes are read from."""
        return [self.source, *stored_files(self.source)]

    @property
    def edge_files(self) -> list[Path]:
        """The files that edges are read from."""
        return self.node_files

    def nodes(self, folder: Path, memory: int, dtype: str | None, notes: list[str], progress: Progress) -> Data:
        """Write features and ids of the nodes into a folder; labels, masks and names are returned."""
        try:
            graph = raw_graph(self.arrays)
            nodes, x = int(graph["num_nodes"]), self.arrays.get("x")
            edges = self.arrays["edge_index"].shape[1]
            check_memory(memory, nodes, read_whole(self.arrays))
            check_disk(folder, edges_on_disk(edges, "edge_weight" in self.arrays) + (0 if x is None else 4 * x.size))
            if x is not None and x.shape[1] > 0:
                store_features(x, folder, dtype, progress)
            elif x is not None:
                graph.x = None
            if "node_ids" in self.arrays:
                store_ids(np.asarray(self.arrays["node_ids"]), nodes, folder, folder)
        except GraphError as error:
            raise GraphError(f"{self.source}: {error}") from error
        return graph

    def edges(self, nodes: Path, folder: Path, notes: list[str]) -> Edges:
        """The edges as they are numbered."""
        del folder, notes
        count = int(raw_graph(self.arrays)["num_nodes"])
        blocks = array_edges(self.arrays, count, str(self.source))
        return Edges(blocks, "edge_weight" in self.arrays, self.arrays["edge_index"].shape[1], {})
