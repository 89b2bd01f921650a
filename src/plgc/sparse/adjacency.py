"""Propagation over a graph: Â as a sorted CSR matrix, one sparse product with its own backward, and masked views.

Â = D^-1/2 (A + I) D^-1/2 is symmetric, so the backward of ``Â @ H`` is ``Â @ grad``: the same matrix serves both
directions and nothing is ever transposed. Edges are dropped symmetrically for the same reason. The condensed graph
has A' = I; it is written as ``None``, and every product with it is the identity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from plgc.sparse.product import SparseProduct, index_dtype, multiply, row_entries
from plgc.sparse.stored_features import StoredFeatures, StoredProduct
from plgc.sparse.structure import closed_structure


@dataclass(frozen=True)
class Adjacency:
    """A graph's normalised adjacency Â with what its masked views need.

    Stored entries are those of A + I sorted by row, then column (:class:`plgc.sparse.structure.Structure`). ``pair[e]`` is the
    undirected edge an entry belongs to (``num_pairs`` for self-loops), so one random draw per pair drops both
    directions.
    """

    crow: Tensor
    col: Tensor
    weight: Tensor | None
    pair: Tensor
    num_pairs: int

    @property
    def num_nodes(self) -> int:
        """N, the number of nodes."""
        return self.crow.numel() - 1

    @cached_property
    def row(self) -> Tensor:
        """Row of every entry."""
        nodes = torch.arange(self.num_nodes, dtype=self.crow.dtype, device=self.crow.device)
        return nodes.repeat_interleave(self._counts, output_size=self.col.numel())

    @cached_property
    def degree(self) -> Tensor:
        """Weighted degree of every node, its self-loop included."""
        if self.weight is None:
            return self._counts.to(torch.float32)
        return multiply(self.sum_matrix, torch.ones(self.num_nodes, 1, device=self.col.device)).flatten()

    @cached_property
    def matrix(self) -> Tensor:
        """Â = D^-1/2 (A + I) D^-1/2."""
        scale = self.degree.rsqrt()
        value = scale.repeat_interleave(self._counts, output_size=self.col.numel())
        value *= scale.index_select(0, self.col)
        return self.with_values(value if self.weight is None else value.mul_(self.weight))

    @cached_property
    def sum_matrix(self) -> Tensor:
        """A + I, for the aggregators that are not GCN's."""
        return self.with_values(torch.ones_like(self.col, dtype=torch.float32) if self.weight is None else self.weight)

    @property
    def _counts(self) -> Tensor:
        return self.crow[1:] - self.crow[:-1]

    def with_values(self, value: Tensor) -> Tensor:
        """A CSR matrix with these entries."""
        return _csr(self.crow, self.col, value, (self.num_nodes, self.num_nodes))


def _csr(crow: Tensor, col: Tensor, value: Tensor, shape: tuple[int, int]) -> Tensor:
    return torch.sparse_csr_tensor(crow, col, value, shape, check_invariants=False)


def build_adjacency(edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None = None) -> Adjacency:
    """Build Â's structure from symmetric edges without self-loops (as :func:`plgc.load_graph` returns them)."""
    built = closed_structure(edge_index, num_nodes, edge_weight)
    return Adjacency(built.crow, built.col, built.weight, built.pair, built.num_pairs)


def drop_edges(adjacency: Adjacency, rate: float, generator: torch.Generator) -> Adjacency:
    """Drop each undirected edge with probability ``rate``; self-loops stay, rows stay sorted, nothing is re-sorted."""
    return keep_edges(adjacency, draw_kept(adjacency, rate, generator))


def draw_kept(adjacency: Adjacency, rate: float, generator: torch.Generator) -> Tensor:
    """Which pairs to keep, and at last the self-loops: bool [pairs + 1], by the generator's device; empty for all."""
    if rate == 0.0:
        return torch.empty(0, dtype=torch.bool, device=generator.device)
    kept = torch.rand(adjacency.num_pairs + 1, generator=generator, device=generator.device) >= rate
    kept[-1] = True
    return kept


def keep_edges(adjacency: Adjacency, kept: Tensor) -> Adjacency:
    """The view in which only these pairs are left.

    On a GPU the others stay where they are with a weight of zero, which its product does not gather: the size of a view
    is then that of the graph, and nobody has to wait to be told it.
    """
    if kept.numel() == 0:
        return adjacency
    keep = kept.to(adjacency.pair.device).index_select(0, adjacency.pair)
    if keep.is_cuda:
        return replace(adjacency, weight=keep.float() if adjacency.weight is None else adjacency.weight * keep)
    crow, places = _kept(keep, adjacency.crow)
    return Adjacency(
        crow=crow,
        col=adjacency.col.index_select(0, places),
        weight=None if adjacency.weight is None else adjacency.weight.index_select(0, places),
        pair=adjacency.pair.index_select(0, places),
        num_pairs=adjacency.num_pairs,
    )


def _kept(keep: Tensor, crow: Tensor) -> tuple[Tensor, Tensor]:
    """Where rows start once only some entries are kept, and where these are; on a CPU."""
    places = torch.from_numpy(np.flatnonzero(keep.numpy()))  # ten times faster than torch's own
    running = torch.zeros(keep.numel() + 1, dtype=crow.dtype)
    torch.cumsum(keep, 0, out=running[1:])
    return running.index_select(0, crow), places


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

    On a CPU the others are left out, and the matrices are [n, N] and [N, n]; on a GPU, where a size that depends on the
    rows would have to be waited for, they are zeros, which its product does not gather, and the matrices are [N, N].
    """
    crow, col, value = adjacency.crow, adjacency.col, adjacency.matrix.values()
    nodes, entries = adjacency.num_nodes, col.numel()
    if col.is_cuda:
        chosen = torch.zeros(nodes, device=col.device).index_fill_(0, rows, 1.0)
        there = chosen.repeat_interleave(crow.diff(), output_size=entries).mul_(value)
        return adjacency.with_values(there), adjacency.with_values(chosen.index_select(0, col).mul_(value))
    starts, entry = row_entries(crow, rows)
    there = _csr(starts, col.index_select(0, entry), value.index_select(0, entry), (len(rows), nodes))
    place = torch.full((nodes,), -1, dtype=col.dtype)
    place[rows] = torch.arange(len(rows), dtype=col.dtype)
    source = place.index_select(0, col)
    starts, places = _kept(source >= 0, crow)
    back = _csr(starts, source.index_select(0, places), value.index_select(0, places), (nodes, len(rows)))
    return there, back


def neighbor_sum(adjacency: Adjacency | None, hidden: Tensor) -> Tensor:
    """(A + I) @ hidden: the sum over a node and its neighbours; with A' = I the node itself."""
    if adjacency is None:
        return hidden
    return SparseProduct.apply(adjacency.sum_matrix, adjacency.sum_matrix, hidden)  # pyright: ignore


@dataclass(frozen=True)
class SparseFeatures:
    """A sparse feature matrix X (CSR) with its transpose, so that X @ W has a cheap backward."""

    matrix: Tensor
    transpose: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """(N, f)."""
        return self.matrix.shape[0], self.matrix.shape[1]

    def to_dense(self) -> Tensor:
        """X as a dense tensor."""
        return self.matrix.to_dense()


Features = Tensor | SparseFeatures | StoredFeatures


def sparse_features(matrix: Tensor) -> SparseFeatures:
    """Keep a CSR tensor together with its transpose, with int32 indices where they fit."""
    matrix = _compact_csr(matrix)
    return SparseFeatures(matrix, _compact_csr(matrix.to_sparse_coo().t().coalesce().to_sparse_csr()))


def _compact_csr(matrix: Tensor) -> Tensor:
    index = index_dtype(matrix.values().numel(), *matrix.shape)
    crow, col = matrix.crow_indices().to(index), matrix.col_indices().to(index)
    return _csr(crow, col, matrix.values(), (matrix.shape[0], matrix.shape[1]))


def times(features: Features, weight: Tensor) -> Tensor:
    """X @ W for dense, sparse or stored X."""
    if isinstance(features, SparseFeatures):
        return SparseProduct.apply(features.matrix, features.transpose, weight)  # pyright: ignore
    if isinstance(features, StoredFeatures):
        return StoredProduct.apply(features, weight)  # pyright: ignore
    return features @ weight
