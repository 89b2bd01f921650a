"""A node model as one plain module of dense tensors and a list of edges, which other runtimes can take over.

It computes what :meth:`plgc.NodeModel.predict_proba` does, without sparse matrices and without checks. Sums over
neighbours are ``scatter_add``, which becomes ONNX's ScatterElements. ``index_add`` would become ScatterND, whose sums
onnxruntime adds up on several threads at once: rows that occur twice are then lost at times.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plgc.downstream.backbone import BESIDE
from plgc.downstream.models import NodeModel
from plgc.downstream.smoothing import TINY
from plgc.downstream.unit_rows import SHORTEST
from plgc.method.encoder import GNN, GATLayer, GCNLayer, GINLayer, SAGELayer, SGCLayer
from plgc.method.stage_one import unit_blocks
from plgc.sparse.inputs import NORMS


class Edges:
    """A + I of a graph: its edges in both directions [2, E], their weights [E] or None, and one self-loop a node."""

    def __init__(self, edge_index: Tensor, weight: Tensor | None, x: Tensor) -> None:
        self.row, self.col, self.weight = edge_index[0], edge_index[1], weight
        self.degree = self.total(torch.ones_like(x[:, :1]))  # [N, 1], the self-loop included

    def gather(self, hidden: Tensor) -> Tensor:
        """What every edge brings, [E, d]."""
        found = hidden.index_select(0, self.col)
        return found if self.weight is None else found * self.weight[:, None]

    def add_to(self, start: Tensor, messages: Tensor) -> Tensor:
        """Rows [N, d] plus the messages [E, d] that reach them."""
        return start.scatter_add(0, self.row[:, None].expand_as(messages), messages)

    def total(self, hidden: Tensor) -> Tensor:
        """(A + I) H."""
        return self.add_to(hidden, self.gather(hidden))

    def mean(self, hidden: Tensor, steps: int = 1) -> Tensor:
        """Â^steps H, with Â = D^-1/2 (A + I) D^-1/2."""
        scale = self.degree.rsqrt()
        for _ in range(steps):
            hidden = scale * self.total(scale * hidden)
        return hidden


class PortableModel(nn.Module):
    """Class probabilities [N, C] from raw features [N, f], edges in both directions [2, E] and, if any, their weights.

    Args:
        model: what it is made from; weights are copied.
    """

    def __init__(self, model: NodeModel) -> None:
        super().__init__()
        backbone, head = model.backbone, model.head
        self.networks = copy.deepcopy(backbone.networks)
        self.blocks, self.scaling = backbone.blocks, backbone.scaling
        self.hops = sorted(BESIDE[name] for name in backbone.parts if name in BESIDE)
        self.learned_widths = [width for name, width in backbone.parts.items() if name not in BESIDE]
        self.widths, self.sigma, self.settings = list(backbone.parts.values()), head.sigma, head.settings
        for name in ("weight", "bias", "mean"):
            self.register_buffer(name, getattr(head, name).clone())
        self.requires_grad_(False).eval().cpu()

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Scale the features, embed every node, apply the head, and smooth what it predicts."""
        x = scaled(x, self.scaling)
        edges = Edges(edge_index, edge_weight, x)
        return self._smoothed(self._logits(self._pieces(x, edges)), edges)

    def _pieces(self, x: Tensor, edges: Edges) -> list[Tensor]:
        """The parts of the embedding: what each network gives, then those of X, ÂX and Â²X that the model has."""
        output = torch.cat([run(network, x, edges) for network in self.networks.values()], 1)  # pyright: ignore
        pieces, done = list(unit_blocks(output, self.blocks).split(self.learned_widths, dim=1)), 0
        for hop in self.hops:
            x, done = edges.mean(x, hop - done), hop
            pieces.append(x)
        return pieces

    def _logits(self, pieces: list[Tensor]) -> Tensor:
        """Σ_parts z W + b of centred parts with rows of unit length."""
        logits = self.get_buffer("bias")
        means, weights = self.get_buffer("mean").split(self.widths), self.get_buffer("weight").split(self.widths)
        for piece, mean, weight in zip(pieces, means, weights, strict=True):
            logits = logits + F.normalize(piece - mean, dim=1, eps=SHORTEST) @ weight
        return logits

    def _smoothed(self, logits: Tensor, edges: Edges) -> Tensor:
        """p with log p = (1 − σ) log P + σ log S, as :func:`plgc.downstream.everywhere.Everywhere.mixed` has it."""
        plain, restart = logits.log_softmax(1), self.settings.restart
        if self.sigma == 0:
            return plain.exp()
        start = spread = plain.exp()
        for _ in range(self.settings.smoothing_steps):
            spread = (1 - restart) * edges.mean(spread) + restart * start
        spread = (spread / spread.sum(1, keepdim=True)).clamp(min=TINY).log()
        return ((1 - self.sigma) * plain + self.sigma * spread).softmax(1)


def scaled(x: Tensor, scaling: str) -> Tensor:
    """Rows of X divided by their norm; rows of zeros stay."""
    if scaling == "none":
        return x
    norm = torch.linalg.vector_norm(x, ord=NORMS[scaling], dim=1, keepdim=True)
    return x / torch.where(norm > 0, norm, torch.ones_like(norm))


def run(network: GNN, x: Tensor, edges: Edges) -> Tensor:
    """The output of a network, [N, d]: its layers with ReLU between them."""
    first, *others = network.layers
    hidden = apply(first, x, edges)
    for layer in others:
        hidden = apply(layer, torch.relu(hidden), edges)
    return hidden


def apply(layer: nn.Module, hidden: Tensor, edges: Edges) -> Tensor:
    """One layer of :mod:`plgc.method.encoder` over a list of edges."""
    if isinstance(layer, GCNLayer | SGCLayer):
        steps = layer.steps if isinstance(layer, SGCLayer) else 1
        if layer.weight.shape[0] < layer.weight.shape[1]:  # fewer columns to gather
            return edges.mean(hidden, steps) @ layer.weight + layer.bias
        return edges.mean(hidden @ layer.weight, steps) + layer.bias
    if isinstance(layer, GINLayer):
        return torch.relu(edges.total(hidden @ layer.first)) @ layer.second
    if isinstance(layer, SAGELayer):
        message, count = hidden @ layer.neighbors, edges.degree - 1
        mean = (edges.total(message) - message) / torch.where(count > 0, count, torch.ones_like(count))
        return layer.own(hidden, None) + torch.where(count > 0, mean, message)
    if isinstance(layer, GATLayer):
        return attend(layer, hidden @ layer.weight, edges) + layer.bias
    return layer(hidden, None)  # every node by itself


def attend(layer: GATLayer, message: Tensor, edges: Edges) -> Tensor:
    """Messages [N, d] of the closed neighbourhood, head by head weighed by a softmax over it."""
    split = message.unflatten(1, (layer.heads, -1))  # [N, heads, d / heads]
    source, target = (split * layer.source).sum(-1), (split * layer.target).sum(-1)
    own = F.leaky_relu(source + target, 0.2)  # of the self-loops, [N, heads]
    score = F.leaky_relu(source.index_select(0, edges.col) + target.index_select(0, edges.row), 0.2)
    if edges.weight is not None:  # an edge of no weight is none
        score = score.masked_fill(edges.weight[:, None] == 0, -torch.inf)
    highest = own.scatter_reduce(0, edges.row[:, None].expand_as(score), score, "amax")
    own, share = (own - highest).exp(), (score - highest.index_select(0, edges.row)).exp()
    if edges.weight is not None:
        share = share * edges.weight[:, None]
    mixed = (share[..., None] * split.index_select(0, edges.col)).flatten(1)
    mixed = edges.add_to((own[..., None] * split).flatten(1), mixed).unflatten(1, (layer.heads, -1))
    return (mixed / edges.add_to(own, share)[..., None]).flatten(1)
