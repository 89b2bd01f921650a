"""Propagation over a graph: Â as a sorted CSR matrix, one sparse product with its own backward, and masked views.

Â = D^-1/2 (A + I) D^-1/2 is symmetric, so the backward of ``Â @ H`` is ``Â @ grad``: the same matrix serves both
directions and nothing is ever transposed. Edges are dropped symmetrically for the same reason. The condensed graph
has A' = I; it is written as ``None``, and every product with it is the identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

INT32_LIMIT = 2**31 - 1


class _SparseProduct(torch.autograd.Function):
    """``matrix @ dense`` whose backward multiplies by a transpose that is already there."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transpose: Tensor, dense: Tensor) -> Tensor:
        ctx.transpose = transpose
        return matrix @ dense

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, Tensor]:
        return None, None, ctx.transpose @ grads[0].contiguous()


@dataclass(frozen=True)
class Adjacency:
    """A graph's normalised adjacency Â with what its masked views need.

    Stored entries are those of A + I sorted by row, then column. ``pair[e]`` is the undirected edge an entry belongs
    to (-1 for self-loops), so one random draw per pair drops both directions.
    """

    crow: Tensor
    row: Tensor
    col: Tensor
    weight: Tensor | None
    pair: Tensor
    num_pairs: int

    @property
    def num_nodes(self) -> int:
        """N, the number of nodes."""
        return self.crow.numel() - 1

    @cached_property
    def degree(self) -> Tensor:
        """Weighted degree of every node, its self-loop included."""
        if self.weight is None:
            return (self.crow[1:] - self.crow[:-1]).to(torch.float32)
        return torch.zeros(self.num_nodes, device=self.row.device).index_add_(0, self.row, self.weight)

    @cached_property
    def matrix(self) -> Tensor:
        """Â = D^-1/2 (A + I) D^-1/2."""
        scale = self.degree.rsqrt()
        value = scale[self.row] * scale[self.col]
        return self._csr(value if self.weight is None else value * self.weight)

    @cached_property
    def sum_matrix(self) -> Tensor:
        """A + I, for the aggregators that are not GCN's."""
        return self._csr(torch.ones_like(self.row, dtype=torch.float32) if self.weight is None else self.weight)

    def _csr(self, value: Tensor) -> Tensor:
        shape = (self.num_nodes, self.num_nodes)
        return torch.sparse_csr_tensor(self.crow, self.col, value, shape, check_invariants=False)


def build_adjacency(edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None = None) -> Adjacency:
    """Build Â's structure from symmetric edges without self-loops (as :func:`plgc.load_graph` returns them)."""
    device = edge_index.device
    loops = torch.arange(num_nodes, device=device)
    row, col = torch.cat([edge_index, loops.expand(2, -1)], dim=1)
    weight = None if edge_weight is None else torch.cat([edge_weight.float(), torch.ones(num_nodes, device=device)])
    order = torch.argsort(row * num_nodes + col)
    row, col = row[order], col[order]
    lower, upper = torch.minimum(row, col), torch.maximum(row, col)
    pair = torch.full_like(row, -1)
    off_diagonal = lower != upper
    unique, inverse = torch.unique((lower * num_nodes + upper)[off_diagonal], return_inverse=True)
    pair[off_diagonal] = inverse
    crow = torch.zeros(num_nodes + 1, dtype=torch.int64, device=device)
    crow[1:] = torch.cumsum(torch.bincount(row, minlength=num_nodes), 0)
    index = torch.int32 if max(row.numel(), num_nodes) <= INT32_LIMIT else torch.int64
    return Adjacency(
        crow=crow.to(index),
        row=row.to(index),
        col=col.to(index),
        weight=None if weight is None else weight[order],
        pair=pair,
        num_pairs=unique.numel(),
    )


def drop_edges(adjacency: Adjacency, rate: float, generator: torch.Generator) -> Adjacency:
    """Drop each undirected edge with probability ``rate``; self-loops stay, rows stay sorted, nothing is re-sorted."""
    if rate == 0.0:
        return adjacency
    keep_pair = torch.rand(adjacency.num_pairs + 1, generator=generator, device=generator.device) >= rate
    keep_pair[-1] = True  # pair -1: self-loops
    keep = keep_pair.to(adjacency.pair.device)[adjacency.pair]
    running = torch.zeros(keep.numel() + 1, dtype=adjacency.crow.dtype, device=keep.device)
    torch.cumsum(keep, 0, out=running[1:])
    return Adjacency(
        crow=running[adjacency.crow],
        row=adjacency.row[keep],
        col=adjacency.col[keep],
        weight=None if adjacency.weight is None else adjacency.weight[keep],
        pair=adjacency.pair[keep],
        num_pairs=adjacency.num_pairs,
    )


def propagate(adjacency: Adjacency | None, hidden: Tensor, steps: int = 1) -> Tensor:
    """Multiply ``hidden`` by Â ``steps`` times; with A' = I (``None``) return it unchanged."""
    if adjacency is not None:
        for _ in range(steps):
            hidden = _SparseProduct.apply(adjacency.matrix, adjacency.matrix, hidden)  # pyright: ignore
    return hidden


def neighbor_sum(adjacency: Adjacency | None, hidden: Tensor) -> Tensor:
    """(A + I) @ hidden: the sum over a node and its neighbours; with A' = I the node itself."""
    if adjacency is None:
        return hidden
    return _SparseProduct.apply(adjacency.sum_matrix, adjacency.sum_matrix, hidden)  # pyright: ignore


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


Features = Tensor | SparseFeatures


def sparse_features(matrix: Tensor) -> SparseFeatures:
    """Keep a CSR tensor together with its transpose, with int32 indices where they fit."""
    matrix = _compact_csr(matrix)
    return SparseFeatures(matrix, _compact_csr(matrix.to_sparse_coo().t().coalesce().to_sparse_csr()))


def _compact_csr(matrix: Tensor) -> Tensor:
    index = torch.int32 if max(matrix.values().numel(), *matrix.shape) <= INT32_LIMIT else torch.int64
    crow, col = matrix.crow_indices().to(index), matrix.col_indices().to(index)
    return torch.sparse_csr_tensor(crow, col, matrix.values(), matrix.shape, check_invariants=False)


def times(features: Features, weight: Tensor) -> Tensor:
    """X @ W for dense or sparse X."""
    if isinstance(features, SparseFeatures):
        return _SparseProduct.apply(features.matrix, features.transpose, weight)  # pyright: ignore
    return features @ weight
