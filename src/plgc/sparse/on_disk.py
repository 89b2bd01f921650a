"""Â of a graph whose edges stay in their file: a few numbers per node in memory, and products block by block.

Entries are read in blocks of neighbouring rows. For a product Â H each becomes a CSR matrix like the rows of
:class:`plgc.sparse.adjacency.Adjacency`: self-loops in their place, the same values, summed by the same kernel in the
same order. So products agree bit for bit with those in memory. Sums (A + I) H take the entries as they lie in the file,
which is quicker where H is narrow, and agree up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from plgc.graphs.features import row_entries
from plgc.graphs.views.stream import row_starts
from plgc.runtime.errors import GraphError
from plgc.runtime.mapped import release
from plgc.sparse.adjacency import csr
from plgc.sparse.product import gathered_sums, index_dtype, multiply

BLOCK_ENTRIES = 1 << 19  # of a block of rows, self-loops included; a row with more is a block of its own
BLOCK_ROWS = 1 << 16
BYTES_AN_ENTRY = 64  # that a block takes while it is made, at most
BYTES_A_NODE = 16  # that stay in memory: row starts, degree and scale


@dataclass(frozen=True)
class StoredAdjacency:
    """A graph's edges in order, as they lie in a file, and what Â needs beside them.

    Attributes:
        edge_index: both directions of every edge, sorted by row, then column, without self-loops, [2, E].
        edge_weight: of every entry, [E]; None where edges have none.
        starts: where the entries of every node begin, int64 [N + 1].
        degree: weighted degree of every node, its self-loop included, float32 [N].
        scale: degree^-1/2, [N].
    """

    edge_index: Tensor
    edge_weight: Tensor | None
    starts: Tensor
    degree: Tensor
    scale: Tensor

    @property
    def num_nodes(self) -> int:
        """N, the number of nodes."""
        return self.starts.numel() - 1

    @property
    def num_entries(self) -> int:
        """Entries of A + I."""
        return self.edge_index.shape[1] + self.num_nodes

    def ranges(self, entries: int = BLOCK_ENTRIES, rows: int = BLOCK_ROWS) -> Iterator[tuple[int, int]]:
        """Consecutive rows, as the first and the one after the last, with at most so many entries of A + I."""
        yield from _ranges(self.starts, entries, rows)

    def block(self, first: int, last: int) -> Tensor:
        """Rows ``first`` to ``last`` of Â: a CSR matrix [last − first, N]."""
        crow, col, weight = _closed(self.edge_index, self.edge_weight, self.starts, first, last)
        value = self.scale[first:last].repeat_interleave(crow.diff(), output_size=col.numel())
        value *= self.scale.index_select(0, col)
        value = value if weight is None else value.mul_(weight)
        return csr(crow, col, value, (last - first, self.num_nodes))

    def sums(self, first: int, last: int, dense: Tensor) -> Tensor:
        """Rows ``first`` to ``last`` of (A + I) H."""
        begin, end = int(self.starts[first]), int(self.starts[last])
        col = self.edge_index[1, begin:end]
        weight = None if self.edge_weight is None else self.edge_weight[begin:end].to(torch.float32)
        return gathered_sums(dense, col, (self.starts[first : last + 1] - begin).to(col.dtype), weight).add_(
            dense[first:last]
        )

    def neighbours(self, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """The edges of some nodes, in any order, without self-loops.

        Returns:
            Where each node's begin, [n + 1]; the other ends, int64; and the edges' weights, or None.
        """
        starts, entry = row_entries(self.starts, nodes)
        col = self.edge_index[1].index_select(0, entry).long()
        weight = None if self.edge_weight is None else self.edge_weight.index_select(0, entry).to(torch.float32)
        self.release()
        return starts, col, weight

    def release(self) -> None:
        """Let go of the pages of the files."""
        release(self.edge_index)
        if self.edge_weight is not None:
            release(self.edge_weight)


def stored_adjacency(edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None = None) -> StoredAdjacency:
    """Â of edges in order (as :func:`plgc.load_graph` leaves them), in one pass over them; with weights, two.

    Raises:
        GraphError: the edges are not sorted by row.
    """
    starts = torch.from_numpy(_row_starts(edge_index, num_nodes))
    degree = torch.empty(num_nodes)
    if edge_weight is None:
        degree.copy_(starts.diff() + 1)
    else:
        ones = torch.ones(num_nodes, 1)
        for first, last in _ranges(starts, BLOCK_ENTRIES, BLOCK_ROWS):
            crow, col, weight = _closed(edge_index, edge_weight, starts, first, last)
            assert weight is not None
            sums = multiply(csr(crow, col, weight, (last - first, num_nodes)), ones)
            degree[first:last] = sums.flatten()
            release(edge_index)
            release(edge_weight)
    return StoredAdjacency(edge_index, edge_weight, starts, degree, degree.rsqrt())


def stream_product(
    adjacency: StoredAdjacency, dense: Tensor, *, entries: int = BLOCK_ENTRIES, rows: int = BLOCK_ROWS
) -> Iterator[tuple[int, Tensor]]:
    """Â H, block by block: the number of the first row of each, and the rows.

    ``dense`` is float32 [N, d], in memory or mapped from a file; what is mapped is not copied.
    """
    for first, last in adjacency.ranges(entries, rows):
        yield first, multiply(adjacency.block(first, last), dense)
        adjacency.release()
    release(dense)


def stream_sums(
    adjacency: StoredAdjacency, dense: Tensor, *, entries: int = BLOCK_ENTRIES, rows: int = BLOCK_ROWS
) -> Iterator[tuple[int, Tensor]]:
    """The same of (A + I) H."""
    for first, last in adjacency.ranges(entries, rows):
        yield first, adjacency.sums(first, last, dense)
        adjacency.release()
    release(dense)


def _row_starts(edge_index: Tensor, nodes: int) -> np.ndarray:
    if edge_index.shape[1] == 0:
        return np.zeros(nodes + 1, dtype=np.int64)
    try:
        return row_starts(edge_index, nodes)
    except (ValueError, IndexError) as error:  # negative counts, or more rows than nodes
        raise GraphError(
            f"the edges are not sorted by node, or name one beyond {nodes - 1}: store the graph with 'plgc data store'"
        ) from error


def _ranges(starts: Tensor, entries: int, rows: int) -> Iterator[tuple[int, int]]:
    closed = starts.numpy()
    nodes, first = len(closed) - 1, 0
    while first < nodes:
        most = min(nodes, first + rows)
        room = entries + closed[first] + first
        ends = closed[first + 1 : most + 1] + np.arange(first + 1, most + 1)
        last = first + max(1, int(np.searchsorted(ends, room, "right")))
        yield first, last
        first = last


def _closed(
    edge_index: Tensor, edge_weight: Tensor | None, starts: Tensor, first: int, last: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Rows of A + I: where they begin, columns, and weights where edges have some; self-loops in their place."""
    nodes, begin, end = starts.numel() - 1, int(starts[first]), int(starts[last])
    index = index_dtype(end - begin + last - first, nodes)
    counts = starts[first : last + 1].diff()
    own = torch.arange(first, last, dtype=index)
    crow = (starts[first : last + 1] - begin + torch.arange(last - first + 1)).to(index)
    row = own.repeat_interleave(counts, output_size=end - begin)
    other = edge_index[1, begin:end].to(index)
    place = torch.arange(end - begin, dtype=index).add_(row).sub_(first).add_(other > row)
    place = place.long()
    col = own.repeat_interleave(counts + 1, output_size=end - begin + last - first)  # itself, until a neighbour comes
    col[place] = other
    if edge_weight is None:
        return crow, col, None
    weight = torch.ones(col.numel())
    weight[place] = edge_weight[begin:end].to(torch.float32)
    return crow, col, weight
