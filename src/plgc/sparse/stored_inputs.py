"""A graph on disk as encoders and heads compute with it: X and edges in their files, Â by blocks, scratch for the rest.

What grows with edges and features stays in files. In memory are a few numbers per node, and blocks of rows whose size
goes by the limit.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.runtime.errors import GraphError
from plgc.runtime.mapped import release
from plgc.runtime.progress import Progress, silent
from plgc.runtime.scratch import Scratch
from plgc.sparse.features import SparseFeatures, StoredFeatures, row_norms, sparse_features
from plgc.sparse.inputs import NORMS, check_magnitude, edge_weight, scale_rows
from plgc.sparse.on_disk import StoredAdjacency, stored_adjacency, stream_product, stream_sums
from plgc.sparse.rows import FeatureRows, KeptRows, Rows

BLOCK_BYTES = 64 << 20  # that a block of rows takes, in all its forms, where nothing else is said
COPIES = 4  # of the numbers of a block, while they are computed
MOST_ROWS, LEAST_ROWS = 1 << 16, 64
HALF_FROM = 8 << 30  # bytes of ÂX and Â²X as float32 from which all products are kept as float16
SLICE_BYTES = 1 << 30  # of the columns that are multiplied with Â at a time
LEAST_COLUMNS = 16


@dataclass(frozen=True, eq=False)
class StoredInputs:
    """A graph ready for a GNN, on disk.

    Attributes:
        x: X, scaled when its rows are read.
        adjacency: Â.
        room: for what does not fit into memory.
        block_bytes: memory that a block of rows may take, in all forms.
        slice_bytes: of the columns that a product gathers from at a time; they should fit into the system's cache.
        half_from: bytes of ÂX and Â²X as float32 from which products are kept as float16.
        progress: called while a pass over all nodes goes on.
        kept: what models have made of it, for as long as it is used.
    """

    x: FeatureRows
    adjacency: StoredAdjacency
    room: Scratch
    block_bytes: int = BLOCK_BYTES
    slice_bytes: int = SLICE_BYTES
    half_from: int = HALF_FROM
    progress: Progress = silent
    kept: dict[int, Any] = field(default_factory=dict)
    _propagated: list[Rows] = field(default_factory=list)

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.adjacency.num_nodes

    @property
    def num_features(self) -> int:
        """f."""
        return self.x.width

    @property
    def device(self) -> torch.device:
        """Where it is computed."""
        return torch.device("cpu")

    def ranges(self, width: int) -> Iterator[tuple[int, int]]:
        """Consecutive rows, as the first and the one after the last, of so many numbers each."""
        step = max(LEAST_ROWS, min(MOST_ROWS, self.block_bytes // (4 * COPIES * max(1, width))))
        for first in range(0, self.num_nodes, step):
            yield first, min(self.num_nodes, first + step)

    def table(self, *shape: int) -> Tensor:
        """An array [N, …] in a scratch file."""
        return self.room.empty(self.num_nodes, *shape)

    @property
    def half(self) -> bool:
        """Whether products are kept as float16."""
        return keeps_half(self.num_nodes, self.num_features, self.half_from)

    def propagated(self, steps: int) -> Rows:
        """Â^steps X; ÂX and Â²X are computed once."""
        while len(self._propagated) < steps:
            self._propagated.append(self.product(self._propagated[-1] if self._propagated else self.x))
        return self._propagated[steps - 1] if steps else self.x

    def together(self, width: int) -> int:
        """Of so many columns, how many are multiplied with Â at a time."""
        return columns_together(width, self.num_nodes, self.slice_bytes)

    def keep(self, source: Rows, together: int | None = None) -> KeptRows:
        """Rows as they are, written into scratch files."""
        result = KeptRows(self.room, self.num_nodes, source.width, half=self.half, together=together)
        for first, last in self.ranges(source.wide + source.width):
            result.write_all(first, source.block(first, last))
            self.progress("computing rows", last, self.num_nodes)
        result.release()
        return result

    def product(self, source: Rows, form: str = "scaled") -> KeptRows:
        """A product over neighbours, kept; a slice of columns at a time.

        Â H is the one in memory bit for bit, where it is not kept as float16; else it is D^-½ (A + I) D^-½ H.

        Args:
            source: H.
            form: ``scaled`` for Â H, ``sum`` for (A + I) H, ``mean`` for the mean over neighbours alone, where a node
                without any is its own.
        """
        scale = self.adjacency.scale if form == "scaled" and self.half else None
        stream = stream_product if form == "scaled" and not self.half else stream_sums
        together = self.together(source.width)
        result = KeptRows(self.room, self.num_nodes, source.width, half=self.half, together=together)
        count, rows_a_block = len(result.slices), next(self.ranges(together))[1]
        staged = source.cost > 0 and count > 1  # computed once, not once a slice
        source = self.keep(source, together) if staged else source
        for number in range(count):
            dense = self._columns(source, number, together, scale)
            if staged:
                assert isinstance(source, KeptRows)
                source.drop(number)
            for first, rows in stream(self.adjacency, dense, rows=rows_a_block):
                last = first + len(rows)
                rows = self._mean(rows, dense[first:last], first, last) if form == "mean" else rows
                rows = rows if scale is None else rows.mul_(scale[first:last, None])
                result.write(first, rows, number)
                self.progress("multiplying over edges", number * self.num_nodes + last, count * self.num_nodes)
            result.release()
        return result

    def _mean(self, total: Tensor, own: Tensor, first: int, last: int) -> Tensor:
        count = self.adjacency.degree[first:last, None] - 1
        return torch.where(count > 0, (total - own) / torch.where(count > 0, count, 1.0), own)

    def _columns(self, source: Rows, number: int, together: int, scale: Tensor | None) -> Tensor:
        """A slice of H's columns as it is multiplied: a float32 array, every row times ``scale`` if there is one."""
        sliced = source if isinstance(source, KeptRows) and source.together == together else None
        if sliced is not None and sliced.factors is None and scale is None:
            return sliced.slices[number]
        start = number * together
        end = min(source.width, start + together)
        dense = self.table(end - start)
        for first, last in self.ranges(source.wide):
            rows = source.block(first, last)[:, start:end] if sliced is None else sliced.part(number, first, last)
            dense[first:last] = rows if scale is None else rows * scale[first:last, None]
        release(dense)
        return dense


def keeps_half(nodes: int, features: int, half_from: int) -> bool:
    """Whether a graph is so large that products are kept as float16: by the bytes of ÂX and Â²X as float32."""
    return 8 * nodes * features > half_from


def columns_together(width: int, nodes: int, slice_bytes: int) -> int:
    """Of so many columns, how many are multiplied with Â at a time: as many as fit, and not fewer than a few."""
    return min(width, max(LEAST_COLUMNS, slice_bytes // (4 * nodes)))


class StoredGraphs:
    """A cache of graphs on disk that have been prepared, so that models which are compared share ÂX and Â²X."""

    def __init__(self, room: Scratch, **how: Any) -> None:
        """``how`` are fields of :class:`StoredInputs`."""
        self.room, self.how = room, how
        self._adjacencies: dict[Hashable, StoredAdjacency] = {}
        self._inputs: dict[Hashable, StoredInputs] = {}

    def adjacency(self, graph: Data) -> StoredAdjacency:
        """Â of a graph."""
        assert graph.edge_index is not None
        assert graph.num_nodes is not None
        key = graph.edge_index.data_ptr(), graph.edge_index.shape[1]
        if key not in self._adjacencies:
            self._adjacencies[key] = stored_adjacency(graph.edge_index, graph.num_nodes, edge_weight(graph))
        return self._adjacencies[key]

    def inputs(self, graph: Data, scaling: str) -> StoredInputs:
        """A graph as :func:`plgc.load_graph` gives it, without reading its features and edges whole."""
        if graph.x is None:
            raise GraphError("this graph has no node features (x): give it some before condensing or training on it")
        adjacency, x = self.adjacency(graph), graph.x
        values = x.values() if x.layout == torch.sparse_csr else x
        key = id(adjacency), values.data_ptr(), scaling
        if key not in self._inputs:
            if scaling == "none":
                check_magnitude(x)
            self._inputs[key] = StoredInputs(FeatureRows(_scaled(x, scaling)), adjacency, self.room, **self.how)
        return self._inputs[key]


def _scaled(x: Tensor, scaling: str) -> SparseFeatures | StoredFeatures:
    if x.layout == torch.sparse_csr:  # what is not zero is in memory already
        return sparse_features(scale_rows(x.to(torch.float32), scaling))
    return StoredFeatures(x, None if scaling == "none" else row_norms(x, NORMS[scaling]))
