"""Z of all nodes of a graph on disk: products with Â are kept in scratch files, all else is computed block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from plgc.method.disk.layers import network_rows
from plgc.method.encoder import EDGE_FREE
from plgc.method.losses import TINY
from plgc.method.settings import Branch
from plgc.method.stage_one import StageOne, unit_blocks
from plgc.sparse.rows import Rows
from plgc.sparse.stored_inputs import SLICE_BYTES, StoredInputs

FLOAT = 4  # bytes


@dataclass(frozen=True)
class Moments:
    """Mean and spread of columns over the rows that have been added, in float64.

    Attributes:
        count: of the rows.
        mean: of every column.
        deviation: Σ (h − mean)² of every column.
    """

    count: int
    mean: Tensor
    deviation: Tensor

    def plus(self, rows: Tensor) -> Moments:
        """With further rows (Chan, Golub and LeVeque, 1983)."""
        rows = rows.double()
        mean, count = rows.mean(0), self.count + len(rows)
        apart = mean - self.mean
        inside = (rows - mean).square_().sum(0)
        deviation = self.deviation + inside + apart.square() * (self.count * len(rows) / count)
        return Moments(count, self.mean + apart * (len(rows) / count), deviation)


@dataclass(frozen=True)
class Embedding:
    """All nodes as the encoders see them.

    Attributes:
        hidden: H, what every encoder gives.
        blocks: widths of H.
        moments: of every column of H over all nodes, for each encoder; None where embeddings are not standardised.
    """

    hidden: Sequence[Rows]
    blocks: tuple[int, ...]
    moments: Sequence[Moments] | None

    @property
    def wide(self) -> int:
        """How many numbers a row of Z takes while it is computed."""
        return 2 * sum(self.blocks) + sum(rows.wide for rows in self.hidden)

    def block(self, first: int, last: int) -> Tensor:
        """Z from one node to before another, [n, Σd]."""
        return self._unit([rows.block(first, last) for rows in self.hidden])

    def take(self, nodes: Tensor) -> Tensor:
        """Z of some nodes."""
        return self._unit([rows.take(nodes) for rows in self.hidden])

    def _unit(self, parts: list[Tensor]) -> Tensor:
        if self.moments is not None:
            scales = [(own.deviation / own.count).clamp(min=TINY).rsqrt().float() for own in self.moments]
            means = [own.mean.float() for own in self.moments]
            parts = [(part - mean).mul_(scale) for part, mean, scale in zip(parts, means, scales, strict=True)]
        return unit_blocks(torch.cat(parts, dim=1), self.blocks)


@torch.no_grad()
def embed_on_disk(stage: StageOne, inputs: StoredInputs) -> Embedding:
    """Pass over the edges for every product with Â, and over all nodes for the moments."""
    hidden = [network_rows(encoder, inputs) for encoder in stage.encoders]  # pyright: ignore[reportArgumentType]
    moments = _moments(hidden, inputs) if stage.standardized else None
    return Embedding(hidden, stage.blocks, moments)


def _moments(hidden: Sequence[Rows], inputs: StoredInputs) -> list[Moments]:
    """Mean and spread of what every encoder gives, over all nodes."""
    none = [torch.zeros(rows.width, dtype=torch.float64) for rows in hidden]
    moments = [Moments(0, zero, zero) for zero in none]
    for first, last in inputs.ranges(sum(rows.wide + 4 * rows.width for rows in hidden)):
        moments = [own.plus(rows.block(first, last)) for own, rows in zip(moments, hidden, strict=True)]
        inputs.progress("moments of the embedding", last, inputs.num_nodes)
    return moments


def scratch_bytes(nodes: int, features: int, branches: Sequence[Branch]) -> int:
    """Bytes of disk that the last pass takes: ÂX, Â²X, a product for every later layer, and the columns of one."""
    edged = [branch for branch in branches if branch.kind != EDGE_FREE]
    layers = [branch.layers if branch.kind == "sgc" else branch.layers - 1 for branch in edged]
    kept = 2 * features + sum(b.hidden * count for b, count in zip(edged, layers, strict=True))
    return FLOAT * nodes * kept + max(SLICE_BYTES, FLOAT * nodes * 16) if edged else 0
