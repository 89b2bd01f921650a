"""The pieces of gradient matching: gradients by class in closed form, their distance, and an adjacency that is learned.

The models that are matched on are θ = (W_1, b_1, …, W_L, b_L), an MLP with ReLU on features H that have been
propagated beforehand; with L = 1 that is SGC. The gradient of its cross-entropy is written out, for every class at
once: no graph is kept for the weights, and matching, a derivative of a gradient, takes one backward pass.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plgc.downstream.backbone import propagated_features
from plgc.graphs.labels import TrainingLabels
from plgc.rivals.coreset import class_counts, class_shares
from plgc.sparse.inputs import Inputs

TINY = 1e-6  # keeps the cosine of a vanishing gradient defined
EPSILON = 1e-5  # under the variance in batch normalisation


def uniform(shape: Sequence[int], fan_in: int, generator: torch.Generator) -> Tensor:
    """Initial weights between ±1/√fan_in, as the published models draw weights and biases alike."""
    return (torch.rand(*shape, generator=generator) * 2 - 1) / math.sqrt(fan_in)


def draw_model(
    widths: Sequence[int], generator: torch.Generator, device: torch.device | str = "cpu"
) -> tuple[list[Tensor], list[Tensor]]:
    """Fresh weights [out, in] and biases [out] of an MLP with these widths, from features to classes."""
    weights, biases = [], []
    for before, after in itertools.pairwise(widths):
        weights.append(uniform((after, before), before, generator).to(device))
        biases.append(uniform((after,), before, generator).to(device))
    return weights, biases


def loss_gradients(
    x: Tensor, target: Tensor, share: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Gradients of Σ_i share_i · cross-entropy(MLP(x_i), target_i) with respect to weights and biases.

    Leading dimensions are a batch: [C, n, f] gives one gradient per class. Differentiable in ``x``.

    Args:
        x: propagated features H, [..., n, f].
        target: one-hot classes, [..., n, C] or anything that broadcasts to it.
        share: weight of every node in the mean, [..., n]; 0 leaves a node out.
        weights: W_1 … W_L, [out, in]: narrow products are several times faster this way round.
        biases: b_1 … b_L.
    """
    inputs, last = [x], len(weights) - 1
    for weight, bias in zip(weights[:last], biases[:last], strict=True):
        inputs.append(torch.relu(_linear(inputs[-1], weight, bias)))
    error = (torch.softmax(_linear(inputs[-1], weights[last], biases[last]), dim=-1) - target) * share[..., None]
    by_weight, by_bias = [], []
    for layer in range(last, -1, -1):
        by_weight.append(error.mT @ inputs[layer])
        by_bias.append(error.sum(dim=-2))
        if layer:
            error = (error @ weights[layer]) * (inputs[layer] > 0)
    return by_weight[::-1], by_bias[::-1]


def _linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return (weight @ x.flatten(0, -2).t()).t().view(*x.shape[:-1], len(weight)) + bias


def gradient_distance(real: Sequence[Tensor], synthetic: Sequence[Tensor], coefficient: Tensor) -> Tensor:
    """D = Σ_c coefficient_c Σ_layers Σ_j (1 − cos(G_j, G'_j)), over the outputs j of every layer.

    G_j is the gradient of the weights into output j (a column in the paper, which writes weights [in, out]). Biases
    have no part in it.

    Args:
        real: a gradient [C, out, in] for every layer, of the original graph.
        synthetic: the same of the condensed graph.
        coefficient: weight of every class, [C].
    """
    total = torch.zeros_like(coefficient)
    for ours, theirs in zip(real, synthetic, strict=True):
        norms = torch.linalg.vector_norm(ours, dim=-1) * torch.linalg.vector_norm(theirs, dim=-1)
        total = total + (1 - (ours * theirs).sum(dim=-1) / (norms + TINY)).sum(dim=-1)
    return (coefficient * total).sum()


def by_class(sizes: Tensor, limit: int) -> tuple[Tensor, Tensor]:
    """Lay out nodes that are sorted by class as a table with a row per class, at most ``limit`` of each.

    Args:
        sizes: nodes of every class, [C], none of them 0.
        limit: length of the longest row.

    Returns:
        places [C, n] of the nodes, and their shares in the mean over their class [C, n]; shorter rows are filled up
        with their first node, whose further copies have share 0.
    """
    taken = sizes.clamp(max=limit)
    start = sizes.cumsum(0) - sizes
    place = torch.arange(int(taken.max()), device=sizes.device)
    valid = place < taken[:, None]
    return start[:, None] + place * valid, valid / taken[:, None]


def normalised_dense(adjacency: Tensor) -> Tensor:
    """Â = D^-1/2 (A + I) D^-1/2 of a dense A."""
    looped = adjacency + torch.eye(len(adjacency), device=adjacency.device)
    scale = looped.sum(dim=1).rsqrt()
    return scale[:, None] * looped * scale


def strong_edges(adjacency: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """Edges [2, E] of a dense A' and their weights, without those below the threshold δ and those of no weight."""
    upper = adjacency.triu(1)
    adjacency = upper + upper.t()  # both directions alike to the last bit, whatever the rounding of σ
    edge_index = ((adjacency >= threshold) & (adjacency > 0)).nonzero().t().contiguous()
    return edge_index, adjacency[edge_index[0], edge_index[1]]


class PairAdjacency(nn.Module):
    """A' = g_Φ(X'): σ of the mean of MLP([x_i; x_j]) and MLP([x_j; x_i]), with an empty diagonal.

    Three layers with batch normalisation over all pairs, always by the statistics of the pairs at hand. The first
    layer is cut in two, [x_i; x_j] W = x_i W_a + x_j W_b, so that it costs K products and not K². And as every i
    is paired with every j, mean and variance of a_i + b_j are the sums of those of a and b. Biases before a
    normalisation would cancel; there are none.

    Args:
        features: f.
        hidden: width of both hidden layers.
        generator: source of the initial weights.
    """

    def __init__(self, features: int, hidden: int, generator: torch.Generator):
        super().__init__()
        self.first = nn.Parameter(uniform((features, 2 * hidden), 2 * features, generator))
        self.second = nn.Parameter(uniform((hidden, hidden), hidden, generator))
        self.last = nn.Parameter(uniform((hidden,), hidden, generator))
        self.last_bias = nn.Parameter(uniform((1,), hidden, generator))
        self.scale = nn.Parameter(torch.ones(2, hidden))
        self.shift = nn.Parameter(torch.zeros(2, hidden))

    def forward(self, x: Tensor) -> Tensor:
        """A' of these features, [K, K]: symmetric, between 0 and 1."""
        halves = x @ self.first
        variance, mean = torch.var_mean(halves, dim=0, correction=0)
        halves = halves - mean
        width = len(self.second)
        factor = self.scale[0] * (variance[:width] + variance[width:] + EPSILON).rsqrt()
        source, target = halves[:, :width] * factor, halves[:, width:] * factor + self.shift[0]
        hidden = torch.relu(source[:, None] + target).flatten(0, 1) @ self.second
        hidden = F.batch_norm(hidden, None, None, self.scale[1], self.shift[1], training=True, eps=EPSILON)
        score = (torch.relu(hidden) @ self.last + self.last_bias).view(len(x), len(x))
        return torch.sigmoid((score + score.t()) / 2) * (1 - torch.eye(len(x), device=x.device))


@dataclass(frozen=True)
class MatchingTask:
    """What is to be matched, laid out with a row per class; C' classes have training nodes.

    Attributes:
        hops: L, of the propagation.
        widths: of the models.
        classes: one-hot, [C', 1, C].
        coefficient: weight of every class in the distance, its condensed nodes over the most that a class has.
        number: class of every training node, in ascending order.
        real: Â^L X of the training nodes.
        real_place: which of them are in the table [C', n].
        real_share: their shares in the mean over the class.
        drawn: whether a class has more training nodes than the table, which are then drawn anew every time.
        labels: classes of the condensed nodes, in ascending order.
        target: the same, one-hot [K, C].
        place: which of them are in their table [C', n'].
        share: their shares.
        start: nodes of the graph that X' starts from.
        counts: training nodes that every condensed node represents.
    """

    hops: int
    widths: tuple[int, ...]
    classes: Tensor
    coefficient: Tensor
    number: Tensor
    real: Tensor
    real_place: Tensor
    real_share: Tensor
    drawn: bool
    labels: Tensor
    target: Tensor
    place: Tensor
    share: Tensor
    start: Tensor
    counts: Tensor

    @cached_property
    def _fixed_rows(self) -> Tensor:
        return self.real[self.real_place]

    def real_rows(self, generator: torch.Generator) -> Tensor:
        """Â^L X of the training nodes by class, [C', n, f]; a random choice from classes with more than n."""
        if not self.drawn:
            return self._fixed_rows
        shuffle = torch.rand(len(self.number), generator=generator, dtype=torch.float64).to(self.number.device)
        order = (self.number + shuffle).argsort()  # shuffled within the classes
        return self.real[order[self.real_place]]

    def rows(self, x: Tensor) -> Tensor:
        """Condensed nodes by class, [C', n', f]."""
        return x.index_select(0, self.place.flatten()).view(*self.place.shape, -1)

    def propagate(self, features: Tensor, adjacency: PairAdjacency | None) -> Tensor:
        """Â'^L X'; X' itself where A' = I."""
        if adjacency is None:
            return features
        step = normalised_dense(adjacency(features))
        for _ in range(self.hops):
            features = step @ features
        return features


def pose_task(
    inputs: Inputs,
    labels: TrainingLabels,
    nodes: int,
    *,
    hops: int,
    hidden: Sequence[int],
    batch: int,
    generator: torch.Generator,
) -> MatchingTask:
    """Lay out training nodes and condensed nodes by class; the latter start from random training nodes of theirs."""
    device = inputs.device
    y = labels.y[labels.train]
    shares = class_shares(labels.y, labels.train, nodes)
    order = y.argsort(stable=True)
    train, (present, sizes) = labels.train[order], y.unique(return_counts=True)
    made = torch.tensor([shares[label] for label in present.tolist()])
    start = []
    for members, number in zip(train.split(sizes.tolist()), made.tolist(), strict=True):
        start.append(members[torch.randperm(len(members), generator=generator)[:number]])
    real_place, real_share = by_class(sizes.to(device), batch)
    place, share = by_class(made.to(device), nodes)
    one_hot = torch.eye(labels.classes, device=device)
    kinds = present.repeat_interleave(made)
    return MatchingTask(
        hops=hops,
        widths=(inputs.num_features, *hidden, labels.classes),
        classes=one_hot[present.to(device)][:, None],
        coefficient=(made / made.max()).to(device),
        number=y[order].to(device),
        real=propagated_features(inputs, hops)[train.to(device)],
        real_place=real_place,
        real_share=real_share,
        drawn=bool((sizes > batch).any()),
        labels=kinds,
        target=one_hot[kinds.to(device)],
        place=place,
        share=share,
        start=torch.cat(start).to(device),
        counts=class_counts(y, kinds),
    )
