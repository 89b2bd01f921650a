"""Dense features X that stay where they are, in a file or in float16: rows become float32 when they are needed.

No gradient ever goes through X, only through W: X W and its backward, Xᵀ grad, go over X some rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from plgc.runtime import mapped


def row_norms(x: Tensor, order: float) -> Tensor:
    """What the rows of a dense X are divided by, [N]: their norms, 1 for rows of zeros."""
    norms = [torch.linalg.vector_norm(rows.to(torch.float32), ord=order, dim=1) for _, rows in mapped.blocks(x)]
    norm = torch.cat(norms)
    return torch.where(norm > 0, norm, torch.ones_like(norm))


def _total(parts: Iterator[Tensor]) -> Tensor:
    total = next(parts)
    for part in parts:
        total += part
    return total


@dataclass(frozen=True)
class StoredFeatures:
    """X as stored, with what turns a stored row into a row of X.

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
