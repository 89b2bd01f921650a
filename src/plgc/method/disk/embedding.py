"""Z of all nodes of a graph on disk: hidden layers go to scratch files, and Z is made from the last, block by block.

What the encoders with edges propagate side by side is one array of N rows in a file. Features are propagated before the
first layer unless they are wider than it, since ÂX and Â²X are needed for X' anyway; other layers are multiplied in the
order that moves less.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from plgc.method.disk.blocks import Report, Rows, feature_rows, node_blocks, propagated, written
from plgc.method.disk.inputs import StoredInputs
from plgc.method.encoder import EDGE_FREE, GNN, Linear
from plgc.method.losses import TINY
from plgc.method.settings import Branch
from plgc.method.stage_one import StageOne, unit_blocks
from plgc.runtime.mapped import release
from plgc.runtime.scratch import Scratch


@dataclass(frozen=True)
class Embedding:
    """All nodes as the encoders see them.

    Attributes:
        hidden: H, what every encoder gives, by rows.
        propagated: Â²X in a file, [N, f]; None without a channel of edges.
        blocks: widths of H.
        moments: number, mean and sum of squared deviations of every column of H, over all nodes, for each encoder; None
            where embeddings are not standardised.
    """

    hidden: tuple[Rows, ...]
    propagated: Tensor | None
    blocks: tuple[int, ...]
    moments: tuple[Moments, ...] | None

    def rows(self, which: slice | Tensor) -> Tensor:
        """Z of some nodes, [n, Σd]."""
        parts = [hidden(which) for hidden in self.hidden]
        if self.moments is not None:
            parts = [
                (part - own.mean.to(part.dtype)).mul_(own.variance.clamp(min=TINY).rsqrt().to(part.dtype))
                for part, own in zip(parts, self.moments, strict=True)
            ]
        return unit_blocks(torch.cat(parts, dim=1), self.blocks)


@dataclass(frozen=True)
class Moments:
    """Mean and spread of columns over the rows that have been added, in float64."""

    count: int
    mean: Tensor
    deviation: Tensor  # Σ (h − mean)², of every column

    @property
    def variance(self) -> Tensor:
        """Of the rows themselves."""
        return self.deviation / self.count

    def plus(self, rows: Tensor) -> Moments:
        """With further rows (Chan, Golub and LeVeque, 1983)."""
        rows = rows.double()
        mean, count = rows.mean(0), self.count + len(rows)
        apart = mean - self.mean
        inside = (rows - mean).square_().sum(0)
        deviation = self.deviation + inside + apart.square() * (self.count * len(rows) / count)
        return Moments(count, self.mean + apart * (len(rows) / count), deviation)


@torch.no_grad()
def embed_on_disk(stage: StageOne, inputs: StoredInputs, scratch: Scratch, report: Report) -> Embedding:
    """Go over the graph once for each product with Â, and once more for the moments."""
    encoders: list[GNN] = list(stage.encoders)  # pyright: ignore[reportAssignmentType]
    with_edges = {number: encoder for number, encoder in enumerate(encoders) if encoder.kind != EDGE_FREE}
    hidden: dict[int, Rows] = {}
    twice = None
    if with_edges:
        once, twice = _propagated_features(inputs, scratch, report)
        hidden = _hidden(inputs, with_edges, once, scratch, report)
        del once
    hidden |= {n: _plain(encoder, inputs) for n, encoder in enumerate(encoders) if encoder.kind == EDGE_FREE}
    parts = tuple(hidden[number] for number in range(len(encoders)))
    moments = _moments(parts, stage.blocks, inputs.num_nodes, report) if stage.standardized else None
    return Embedding(parts, twice, stage.blocks, moments)


def scratch_bytes(inputs: StoredInputs, branches: tuple[Branch, ...]) -> int:
    """Bytes of disk that :func:`embed_on_disk` takes at most: two arrays of features, and two of hidden columns."""
    widths = [max(branch.hidden, branch.width) for branch in branches if branch.kind != EDGE_FREE]
    return 4 * inputs.num_nodes * 2 * (inputs.num_features + sum(widths)) if widths else 0


def _propagated_features(inputs: StoredInputs, scratch: Scratch, report: Report) -> tuple[Tensor, Tensor]:
    """ÂX and Â²X."""
    own = written(inputs, feature_rows(inputs.x), inputs.num_features, scratch, report, "features")
    once = propagated(inputs, own, scratch.empty(*own.shape), report, "Â X")
    return once, propagated(inputs, once, own, report, "Â² X")


def _hidden(
    inputs: StoredInputs, encoders: dict[int, GNN], once: Tensor, scratch: Scratch, report: Report
) -> dict[int, Rows]:
    """H of the encoders with edges, one layer of all of them after the other."""
    hidden: dict[int, Rows] = dict.fromkeys(encoders, feature_rows(inputs.x))
    for depth in range(max(len(encoder.layers) for encoder in encoders.values())):
        layers = _layers(encoders, depth)
        grows = {n: layer.weight.shape[0] <= layer.weight.shape[1] for n, layer in layers.items()}
        through = {
            n: hidden.pop(n) if grows[n] else _product(hidden.pop(n), layer)
            for n, layer in layers.items()
            if depth > 0 or not grows[n]
        }
        spread = {n: _columns(once, 0, once.shape[1]) for n in layers if n not in through}
        if through:
            widths = [min(layers[n].weight.shape) for n in through]
            joint = written(inputs, _joined(list(through.values())), sum(widths), scratch, report, f"layer {depth + 1}")
            through = dict.fromkeys(through)  # gives back the files of the layer before
            joint = propagated(inputs, joint, scratch.empty(*joint.shape), report, f"Â H, layer {depth + 1}")
            for n, width, end in zip(through, widths, itertools.accumulate(widths), strict=True):
                spread[n] = _columns(joint, end - width, end)
        for n, layer in layers.items():
            hidden[n] = _outcome(spread[n], layer, not grows[n], depth + 1 == len(encoders[n].layers))
    return hidden


def _layers(encoders: dict[int, GNN], depth: int) -> dict[int, Linear]:
    """The layers at this depth of the encoders that are as deep."""
    return {n: encoder.layers[depth] for n, encoder in encoders.items() if depth < len(encoder.layers)}  # pyright: ignore


def _plain(encoder: GNN, inputs: StoredInputs) -> Rows:
    x = feature_rows(inputs.x)
    return lambda which: encoder(x(which), None)


def _product(rows: Rows, layer: Linear) -> Rows:
    return lambda which: rows(which) @ layer.weight


def _joined(parts: list[Rows]) -> Rows:
    return lambda which: torch.cat([part(which) for part in parts], dim=1)


def _columns(array: Tensor, start: int, end: int) -> Rows:
    def rows(which: slice | Tensor) -> Tensor:
        found = array[which, start:end].clone()
        release(array)
        return found

    return rows


def _outcome(spread: Rows, layer: Linear, multiplied: bool, last: bool) -> Rows:
    """A layer's output from what has been propagated for it."""

    def rows(which: slice | Tensor) -> Tensor:
        found = spread(which)
        found = (found if multiplied else found @ layer.weight) + layer.bias
        return found if last else found.relu_()

    return rows


def _moments(parts: tuple[Rows, ...], blocks: tuple[int, ...], nodes: int, report: Report) -> tuple[Moments, ...]:
    """Mean and spread of what every encoder gives, over all nodes."""
    none = [torch.zeros(width, dtype=torch.float64) for width in blocks]
    moments = [Moments(0, zero, zero) for zero in none]
    for block in node_blocks(nodes, 6 * sum(blocks), report, "moments"):
        moments = [own.plus(part(block)) for own, part in zip(moments, parts, strict=True)]
    return tuple(moments)
