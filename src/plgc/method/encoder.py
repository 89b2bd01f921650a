"""The GNNs: encoder (θ') while condensing, backbone (θ) when rebuilding. One small module per kind.

Every layer is written so that it also works on the condensed graph, where A' = I (adjacency ``None``): a node then
is its own and only neighbour. That is what lets an artifact made with one kind train another.
"""

from __future__ import annotations

import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plgc.runtime.errors import SettingError
from plgc.sparse.adjacency import Adjacency, neighbor_sum, propagate, propagate_rows
from plgc.sparse.features import Features, times


def glorot(rows: int, columns: int, generator: torch.Generator) -> nn.Parameter:
    """A Glorot-uniform weight matrix drawn from an explicit generator."""
    bound = math.sqrt(6.0 / (rows + columns))
    return nn.Parameter((torch.rand(rows, columns, generator=generator) * 2 - 1) * bound)


def _masked(weight: Tensor, feature_mask: Tensor | None) -> Tensor:
    return weight if feature_mask is None else weight * feature_mask[:, None]


def _propagated(x: Features, weight: Tensor, adjacency: Adjacency | None, steps: int = 1) -> Tensor:
    """Â^steps X W, as (ÂX)W or Â(XW), whichever gathers fewer columns; a gradient through Â gathers as many again."""
    if isinstance(x, Tensor):
        grad = torch.is_grad_enabled()
        before = x.shape[1] * (1 + (grad and x.requires_grad))
        after = weight.shape[1] * (1 + (grad and (x.requires_grad or weight.requires_grad)))
        if before < after:
            return propagate(adjacency, x, steps) @ weight
    return propagate(adjacency, times(x, weight), steps)


class Linear(nn.Module):
    """H W + b: every node by itself, without the graph."""

    def __init__(self, width_in: int, width_out: int, generator: torch.Generator):
        super().__init__()
        self.weight = glorot(width_in, width_out, generator)
        self.bias = nn.Parameter(torch.zeros(width_out))

    def forward(self, x: Features, adjacency: Adjacency | None, feature_mask: Tensor | None = None) -> Tensor:
        """Transform every node by itself."""
        return times(x, _masked(self.weight, feature_mask)) + self.bias


class GCNLayer(Linear):
    """Â H W + b (Kipf & Welling, 2017), multiplied in whichever order moves less memory."""

    def forward(self, x: Features, adjacency: Adjacency | None, feature_mask: Tensor | None = None) -> Tensor:
        """Transform, then average over the neighbourhood (or the other way round where that is cheaper)."""
        return _propagated(x, _masked(self.weight, feature_mask), adjacency) + self.bias

    def of_rows(self, x: Tensor, adjacency: Adjacency, rows: Tensor, feature_mask: Tensor | None = None) -> Tensor:
        """What comes out for some nodes alone: others are neither gathered for nor transformed."""
        return propagate_rows(adjacency, x, rows) @ _masked(self.weight, feature_mask) + self.bias


class SGCLayer(Linear):
    """Â^L X W + b (Wu et al., 2019): L steps of propagation around one linear map."""

    def __init__(self, width_in: int, width_out: int, steps: int, generator: torch.Generator):
        super().__init__(width_in, width_out, generator)
        self.steps = steps

    def forward(self, x: Features, adjacency: Adjacency | None, feature_mask: Tensor | None = None) -> Tensor:
        """Transform and propagate L steps."""
        return _propagated(x, _masked(self.weight, feature_mask), adjacency, self.steps) + self.bias


class SAGELayer(nn.Module):
    """H W_self + mean(neighbours) W_neigh + b (Hamilton et al., 2017); a node without neighbours is its own."""

    def __init__(self, width_in: int, width_out: int, generator: torch.Generator):
        super().__init__()
        self.own = Linear(width_in, width_out, generator)
        self.neighbors = glorot(width_in, width_out, generator)

    def forward(self, x: Features, adjacency: Adjacency | None, feature_mask: Tensor | None = None) -> Tensor:
        """Add a node's own transform to the mean of its neighbours'."""
        message = times(x, _masked(self.neighbors, feature_mask))
        if adjacency is not None:
            count = adjacency.degree[:, None] - 1
            mean = (neighbor_sum(adjacency, message) - message) / torch.where(count > 0, count, 1.0)
            message = torch.where(count > 0, mean, message)
        return self.own(x, adjacency, feature_mask) + message


class GINLayer(nn.Module):
    """MLP(h + Σ neighbours) (Xu et al., 2019). No biases: a node's degree then scales its output, not its direction."""

    def __init__(self, width_in: int, width_out: int, generator: torch.Generator):
        super().__init__()
        self.first = glorot(width_in, width_out, generator)
        self.second = glorot(width_out, width_out, generator)

    def forward(self, x: Features, adjacency: Adjacency | None, feature_mask: Tensor | None = None) -> Tensor:
        """Sum over the closed neighbourhood, then two linear maps with a ReLU between."""
        return torch.relu(neighbor_sum(adjacency, times(x, _masked(self.first, feature_mask)))) @ self.second


class GATLayer(nn.Module):
    """Attention over the closed neighbourhood (Veličković et al., 2018), heads side by side in the output."""

    def __init__(self, width_in: int, width_out: int, generator: torch.Generator):
        super().__init__()
        self.heads = heads = math.gcd(8, width_out)
        self.weight = glorot(width_in, width_out, generator)
        self.source = glorot(heads, width_out // heads, generator)
        self.target = glorot(heads, width_out // heads, generator)
        self.bias = nn.Parameter(torch.zeros(width_out))

    def forward(self, x: Features, adjacency: Adjacency | None, feature_mask: Tensor | None = None) -> Tensor:
        """Weigh every neighbour by a softmax over the node's neighbourhood."""
        message = times(x, _masked(self.weight, feature_mask))
        if adjacency is None:
            return message + self.bias
        nodes = message.shape[0]
        message = message.view(nodes, self.heads, -1)
        row, col = adjacency.row.long(), adjacency.col.long()
        score = (message * self.source).sum(-1)[col] + (message * self.target).sum(-1)[row]
        score = F.leaky_relu(score, 0.2)
        if adjacency.weight is not None:  # an edge of no weight is none
            score = score.masked_fill(adjacency.weight[:, None] == 0, -torch.inf)
        highest = torch.full((nodes, self.heads), -torch.inf, device=score.device)
        highest = highest.scatter_reduce(0, row[:, None].expand_as(score), score.detach(), "amax")
        share = (score - highest[row]).exp()
        if adjacency.weight is not None:
            share = share * adjacency.weight[:, None]
        total = torch.zeros(nodes, self.heads, device=share.device).index_add(0, row, share)
        mixed = torch.zeros_like(message).index_add(0, row, share[..., None] * message[col])
        return (mixed / total[..., None]).flatten(1) + self.bias


LAYERS: dict[str, type[nn.Module]] = {
    "gcn": GCNLayer,
    "sage": SAGELayer,
    "gat": GATLayer,
    "gin": GINLayer,
    "sgc": SGCLayer,
    "mlp": Linear,
}
KINDS = tuple(LAYERS)
EDGE_FREE = "mlp"  # the kind that sees every node by itself


class GNN(nn.Module):
    """A stack of layers of one kind with ReLU and dropout between them.

    Args:
        kind: one of :data:`KINDS`.
        width_in: f, the number of input features.
        hidden: width of the hidden layers.
        width_out: d, the width of the embedding.
        layers: L, how many layers (for ``sgc``, how many propagation steps).
        dropout: on the input of every layer but the first.
        generator: source of the initial weights.
    """

    def __init__(
        self,
        kind: str,
        width_in: int,
        hidden: int,
        width_out: int,
        *,
        layers: int = 2,
        dropout: float = 0.0,
        generator: torch.Generator,
    ):
        super().__init__()
        if kind not in LAYERS:
            raise SettingError(f"unknown GNN kind {kind!r}: choose one of {', '.join(KINDS)}")
        self.kind = kind
        self.dropout = dropout
        if kind == "sgc":
            self.layers = nn.ModuleList([SGCLayer(width_in, width_out, layers, generator)])
            return
        widths = [width_in] + [hidden] * (layers - 1) + [width_out]
        self.layers = nn.ModuleList(
            LAYERS[kind](before, after, generator) for before, after in itertools.pairwise(widths)
        )

    def forward(
        self,
        x: Features,
        adjacency: Adjacency | None,
        feature_mask: Tensor | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """Embed every node, or those in ``rows`` (ascending).

        ``feature_mask`` hides columns of ``x`` (see :mod:`plgc.method.augment`).
        """
        *body, last = self.layers
        hidden: Features = x
        for layer in body:
            hidden = self._between(layer(hidden, adjacency, feature_mask))
            feature_mask = None
        if rows is not None and adjacency is not None and isinstance(last, GCNLayer) and isinstance(hidden, Tensor):
            return last.of_rows(hidden, adjacency, rows, feature_mask)
        if rows is not None and type(last) is Linear and isinstance(hidden, Tensor):
            return last(hidden.index_select(0, rows), adjacency, feature_mask)
        result = last(hidden, adjacency, feature_mask)
        return result if rows is None else result.index_select(0, rows)

    def body(self, x: Features, adjacency: Adjacency | None) -> Features:
        """What the last layer is given: the last hidden layer, or ``x`` itself where there is but one layer."""
        hidden: Features = x
        for layer in list(self.layers)[:-1]:
            hidden = self._between(layer(hidden, adjacency))
        return hidden

    def _between(self, hidden: Tensor) -> Tensor:
        return F.dropout(torch.relu(hidden), self.dropout, self.training)
