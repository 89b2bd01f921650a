"""The parts of an embedding as heads see them: centred, every row of unit length; and products with them.

The scaled rows are never stored: ((z − μ) / ‖z − μ‖) W is (z W − μ W) / ‖z − μ‖, so that an embedding is held once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

SHORTEST = 1e-12  # rows of zeros stay zeros
ROWS = 4096  # rows whose lengths are measured at a time


@dataclass(frozen=True)
class UnitRows:
    """One part: values z as they are [N, D], their mean μ [D], and 1 / ‖z − μ‖ of every row [N, 1]."""

    values: Tensor
    mean: Tensor
    scale: Tensor

    @property
    def width(self) -> int:
        """D."""
        return self.values.shape[1]

    def times(self, weight: Tensor) -> Tensor:
        """The product of all rows with a matrix [D, k]: [N, k]."""
        return (self.values @ weight).sub_(self.mean @ weight).mul_(self.scale)

    def take(self, nodes: Tensor) -> Tensor:
        """The rows of some nodes, [n, D]."""
        return (self.values.index_select(0, nodes) - self.mean).mul_(self.scale.index_select(0, nodes))


def unit_rows(embedding: Tensor, parts: Mapping[str, int], mean: Tensor | None = None) -> dict[str, UnitRows]:
    """The parts of an embedding by name; ``mean`` is that of the embedding itself, unless one is given."""
    mean = embedding.mean(0) if mean is None else mean
    widths = list(parts.values())
    pieces = zip(parts, embedding.split(widths, dim=1), mean.split(widths), strict=True)
    return {name: UnitRows(values, own, _scale(values, own)) for name, values, own in pieces}


def _scale(values: Tensor, mean: Tensor) -> Tensor:
    lengths = [torch.linalg.vector_norm(rows - mean, dim=1) for rows in values.split(ROWS)]
    return torch.cat(lengths).clamp(min=SHORTEST).reciprocal()[:, None]
