"""Products with Â: propagation over a graph.

The backward of ``Â @ H`` is ``Â @ grad``, since Â is symmetric: one matrix serves both directions. With A' = I
(``None``) every product is the identity.
"""

from __future__ import annotations

import torch
from torch import Tensor

from plgc.graphs.features import row_entries
from plgc.sparse.adjacency import Adjacency, csr, kept_entries
from plgc.sparse.product import SparseProduct


def propagate(adjacency: Adjacency | None, hidden: Tensor, steps: int = 1) -> Tensor:
    """Multiply ``hidden`` by Â ``steps`` times; with A' = I (``None``) return it unchanged."""
    if adjacency is not None:
        for _ in range(steps):
            hidden = SparseProduct.apply(adjacency.matrix, adjacency.matrix, hidden)  # pyright: ignore
    return hidden


def propagate_rows(adjacency: Adjacency, hidden: Tensor, rows: Tensor) -> Tensor:
    """``(Â @ hidden)[rows]``, [n, d], at about the cost of these rows; so is its gradient."""
    there, back = row_matrices(adjacency, rows)
    result = SparseProduct.apply(there, back, hidden)  # pyright: ignore
    return result.index_select(0, rows) if there.is_cuda else result


def row_matrices(adjacency: Adjacency, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Â with only these (ascending) rows, and its transpose, which by symmetry is Â with only these columns.

    On a CPU the others are left out, and the matrices are [n, N] and [N, n]. On a GPU, where a size that depends on the
    rows would have to be read back, they are zeros, which its product does not gather, and the matrices are [N, N].
    """
    crow, col, value = adjacency.crow, adjacency.col, adjacency.matrix.values()
    nodes, entries = adjacency.num_nodes, col.numel()
    if col.is_cuda:
        chosen = torch.zeros(nodes, device=col.device).index_fill_(0, rows, 1.0)
        there = chosen.repeat_interleave(crow.diff(), output_size=entries).mul_(value)
        return adjacency.with_values(there), adjacency.with_values(chosen.index_select(0, col).mul_(value))
    starts, entry = row_entries(crow, rows)
    there = csr(starts, col.index_select(0, entry), value.index_select(0, entry), (len(rows), nodes))
    place = torch.full((nodes,), -1, dtype=col.dtype)
    place[rows] = torch.arange(len(rows), dtype=col.dtype)
    source = place.index_select(0, col)
    starts, places = kept_entries(source >= 0, crow)
    back = csr(starts, source.index_select(0, places), value.index_select(0, places), (nodes, len(rows)))
    return there, back


def neighbor_sum(adjacency: Adjacency | None, hidden: Tensor) -> Tensor:
    """(A + I) @ hidden: the sum over a node and its neighbours; with A' = I the node itself."""
    if adjacency is None:
        return hidden
    return SparseProduct.apply(adjacency.sum_matrix, adjacency.sum_matrix, hidden)  # pyright: ignore
