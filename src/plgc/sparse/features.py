"""Features X in three forms: dense, sparse, or as they are stored (in a file, or as float16); and products with them.

No gradient ever goes through X, only through W. Rows of stored features become float32 when they are needed: X W and
its backward, Xᵀ grad, are computed a block of rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from plgc.graphs.features import take_rows
from plgc.runtime import mapped
from plgc.runtime.errors import GraphError
from plgc.sparse.adjacency import csr
from plgc.sparse.product import SparseProduct, index_dtype, multiply


def row_norms(x: Tensor, order: float) -> Tensor:
    """What the rows of a dense X are divided by, [N]: their norms, 1 for rows of zeros."""
    norms = [torch.linalg.vector_norm(rows.to(torch.float32), ord=order, dim=1) for _, rows in mapped.blocks(x)]
    return divisors(torch.cat(norms))


def divisors(norm: Tensor) -> Tensor:
    """What rows are divided by, given their norms, [N]: 1 for rows of zeros.

    Raises:
        GraphError: a norm is beyond the range of float32.
    """
    if not bool(torch.isfinite(norm).all()):
        row = int((~torch.isfinite(norm)).nonzero()[0, 0])
        raise GraphError(
            f"row {row} of x has a norm beyond {torch.finfo(norm.dtype).max:.1e}, so that it cannot be scaled: divide "
            "the features by a constant"
        )
    return torch.where(norm > 0, norm, torch.ones_like(norm))


def _total(parts: Iterator[Tensor]) -> Tensor:
    total = next(parts)
    for part in parts:
        total += part
    return total


@dataclass(frozen=True)
class StoredFeatures:
    """X as it is stored, and how a stored row becomes a row of X.

    Attributes:
        matrix: the rows as they are stored, float32 or float16, on the CPU.
        norm: what each of them is divided by, [N]; None where they are not scaled.
        order: which of them each row of X is, [N]; None where that is their own order.
    """

    matrix: Tensor
    norm: Tensor | None = None
    order: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(N, f)."""
        return self.matrix.shape[0], self.matrix.shape[1]

    @property
    def memory(self) -> int:
        """Bytes that X takes in memory while it is used."""
        held = 0 if mapped.is_mapped(self.matrix) else self.matrix.numel() * self.matrix.element_size()
        return held + mapped.HELD

    def rows(self, index: Tensor) -> Tensor:
        """Some rows of X, dense, in the order they are named."""
        place = index if self.order is None else self.order[index]
        rows = mapped.gather(self.matrix, place).to(torch.float32)
        return rows if self.norm is None else rows.div_(self.norm[place, None])

    def blocks(self) -> Iterator[tuple[int, Tensor]]:
        """All rows of X, some megabytes at a time, with the first one's number. They must not be kept or changed."""
        if self.order is not None:
            for index in torch.arange(len(self.order)).split(mapped.rows_a_block(self.matrix)):
                yield int(index[0]), self.rows(index)
            return
        for start, block in mapped.blocks(self.matrix):
            rows = block.to(torch.float32)
            yield start, rows if self.norm is None else rows / self.norm[start : start + len(rows), None]

    def to_dense(self, device: torch.device | str = "cpu") -> Tensor:
        """X as a dense tensor."""
        dense = torch.empty(self.shape, device=device)
        for start, rows in self.blocks():
            dense[start : start + len(rows)] = rows
        return dense

    def transposed_times(self, other: Tensor) -> Tensor:
        """Xᵀ @ other for other [N, k]."""
        return _total(rows.t() @ other[start : start + len(rows)] for start, rows in self.blocks())

    def weighted_sums(self, weights: Tensor) -> Tensor:
        """weightsᵀ @ X for weights [N, k]."""
        return _total(weights[start : start + len(rows)].t() @ rows for start, rows in self.blocks())


class StoredProduct(torch.autograd.Function):
    """X @ W for stored X, some rows at a time; the backward goes over X once more, and keeps nothing of it."""

    @staticmethod
    def forward(ctx: Any, features: StoredFeatures, weight: Tensor) -> Tensor:
        """The product."""
        ctx.features = features
        product = weight.new_empty(features.shape[0], weight.shape[1])
        for start, rows in features.blocks():
            torch.mm(rows, weight, out=product[start : start + len(rows)])
        return product

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        """Xᵀ @ grad."""
        return None, ctx.features.transposed_times(grads[0].contiguous())


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
    return csr(crow, col, matrix.values(), (matrix.shape[0], matrix.shape[1]))


def times(features: Features, weight: Tensor) -> Tensor:
    """X @ W for dense, sparse or stored X."""
    if isinstance(features, SparseFeatures):
        return SparseProduct.apply(features.matrix, features.transpose, weight)  # pyright: ignore
    if isinstance(features, StoredFeatures):
        return StoredProduct.apply(features, weight)  # pyright: ignore
    return features @ weight


def mean_rows(x: Features, weights: Tensor) -> Tensor:
    """Weighted means of X's rows, ``weightsᵀ X`` for weights [N, K], without making a sparse or stored X dense."""
    if isinstance(x, SparseFeatures):
        return multiply(x.transpose, weights).t().contiguous()
    if isinstance(x, StoredFeatures):
        return x.weighted_sums(weights)
    return weights.t() @ x


def squared_sums(x: Features, weights: Tensor) -> Tensor:
    """``weightsᵀ X²``, X squared element by element, for weights [N, K], without making a sparse or stored X dense."""
    if isinstance(x, SparseFeatures):
        turned = x.transpose
        squares = csr(turned.crow_indices(), turned.col_indices(), turned.values().square(), (x.shape[1], x.shape[0]))
        return multiply(squares, weights).t().contiguous()
    if isinstance(x, StoredFeatures):
        return _total(weights[start : start + len(rows)].t() @ rows.square() for start, rows in x.blocks())
    return weights.t() @ x.square()


def feature_rows(x: Features, nodes: Tensor) -> Features:
    """Rows of X, as sparse as it is."""
    if isinstance(x, SparseFeatures):
        return sparse_features(take_rows(x.matrix, nodes))
    return x.rows(nodes) if isinstance(x, StoredFeatures) else x[nodes]
