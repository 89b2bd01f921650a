"""Self-training: with few labels, unlabelled nodes help to place the head's linear map.

Two ways to train the pool of experts again: with the most confident nodes of every class as labels, more of them in
every round (``confident``); and with soft labels of a sample of nodes, as often (``soft``). Which is better depends on
the graph. The maps, and the pool as it was, are averaged, which averages their answers log-linearly, with weights by
how likely each finds the given labels: rounds that went astray find them less likely. The result counts by a strength
λ: how much better than by chance held-out labels are predicted. No other label is read.

The weights of a refit are sought in the span of the labelled rows and the means of the new classes, whatever the number
of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.downstream.everywhere import Everywhere
from plgc.downstream.regression import LinearMaps, beside, fit_in_span, mix
from plgc.downstream.weighing import LOWEST

# Chosen on validation nodes of Cora, Citeseer, Photo and others, 3 labels per class.
CONFIDENT = (20, 50, 100)  # nodes of every class, round by round
MOST = 1500  # of all classes together
SAMPLE = 500  # nodes that get soft labels
SHARPNESS = 2.0  # soft labels are p², scaled to sum to one
SOFT_SHARE = 3.0  # how much they count together, in given labels
EVIDENCE = 0.3  # of the given labels' log-likelihood, for the weights of the maps
STEPS = 30  # gradient steps of a refit
LEAST_WEIGHT = 0.05  # of an expert that is trained again
FEW = 500  # labels; of more, unlabelled nodes add nothing


@dataclass(frozen=True)
class Teaching:
    """What refits have in common.

    Attributes:
        nodes: all nodes.
        groups: the experts' parts.
        weights: of the experts, [E].
        labelled: nodes with a label, [n].
        target: their classes, one-hot, [n, C].
        penalty: of every logistic regression.
        answer: from maps to log p of every node, smoothed, [N, V, C].
    """

    nodes: Everywhere
    groups: list[tuple[str, ...]]
    weights: Tensor
    labelled: Tensor
    target: Tensor
    penalty: float
    answer: Callable[[LinearMaps], Tensor]


def self_train(base: LinearMaps, start: Tensor, teaching: Teaching, strength: float) -> LinearMaps:
    """(1 − λ) · base + λ · (w_1 · base + w_2 · confident + w_3 · soft), for λ = ``strength``.

    Args:
        base: the pool, one map.
        start: log p of the base, [N, C].
        teaching: what refits have in common.
        strength: λ.
    """
    drawn = torch.randperm(len(start), generator=torch.Generator().manual_seed(0))[:SAMPLE].to(start.device)
    worth = torch.full((len(drawn),), SOFT_SHARE * len(teaching.labelled) / len(drawn), device=start.device)
    confident = soft = base
    answers, given = start[:, None], teaching.labelled  # the first and the last column: of the one, and of the other
    for count in CONFIDENT:
        confident = refit(teaching, *confident_nodes(teaching.nodes.pieces(answers[:, 0]), given, count))
        soft = refit(teaching, drawn, (SHARPNESS * answers[drawn, -1]).softmax(1), worth)
        del answers  # of a graph on disk, a file: before the next is made
        answers = teaching.answer(beside(confident, soft))
    told = torch.cat([start[given][:, None], answers[given]], 1).clamp(min=LOWEST)  # [n, 3, C]
    weights = torch.softmax(EVIDENCE * (told * teaching.target[:, None]).sum((0, 2)), 0) * strength
    weights[0] += 1 - strength
    return mix([base, confident, soft], weights)


def confident_nodes(
    answer: Iterable[tuple[int, Tensor]], labelled: Tensor, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The most confident unlabelled nodes of every predicted class: the nodes, their classes one-hot, weights of 1.

    Args:
        answer: log p of all nodes, some of them at a time, each with the first one's number.
        labelled: nodes that are left out.
        count: how many of every class.
    """
    best: tuple[Tensor, Tensor] | None = None  # how certain, and which nodes, [count, C]
    for first, rows in answer:
        found = _most_certain(rows, labelled - first, count)
        found = found[0], found[1] + first
        best = found if best is None else _better(best, found, count)
    assert best is not None
    certain, chosen = best
    picked = certain > 0
    chosen, mark = chosen[picked], picked.nonzero()[:, 1]
    return chosen, F.one_hot(mark, certain.shape[1]).to(certain.dtype), torch.ones(len(chosen), device=certain.device)


def _most_certain(answer: Tensor, left_out: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The most certain of some rows for every class, best first: how certain, and their places, [count, C]."""
    nodes, classes = answer.shape
    certain, predicted = answer.exp().max(1)
    certain = certain.index_fill(0, left_out[(left_out >= 0) & (left_out < nodes)], 0.0)
    of_class = certain[:, None] * F.one_hot(predicted, classes)
    top = of_class.topk(min(_most(count, classes), nodes), dim=0)
    return top.values, top.indices


def _better(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor], count: int) -> tuple[Tensor, Tensor]:
    """The most certain of two choices."""
    certain, nodes = (torch.cat(pair) for pair in zip(one, other, strict=True))
    top = certain.topk(min(_most(count, certain.shape[1]), len(certain)), dim=0)
    return top.values, nodes.gather(0, top.indices)


def _most(count: int, classes: int) -> int:
    return min(count, max(5, MOST // classes))


def refit(teaching: Teaching, nodes: Tensor, target: Tensor, weight: Tensor) -> LinearMaps:
    """The pool of experts trained on the labels and on these nodes, with soft labels [m, C] of these weights [m]."""
    kept = [number for number, share in enumerate(teaching.weights.tolist()) if share >= LEAST_WEIGHT]
    groups = [teaching.groups[number] for number in kept]
    shares = teaching.weights[kept] / teaching.weights[kept].sum()
    mass = target * weight[:, None]
    mass = mass / mass.sum(0).clamp(min=1e-9)
    both = torch.cat([teaching.labelled, nodes])
    rows, directions = {}, {}
    for name in {name for group in groups for name in group}:
        rows[name] = teaching.nodes.rows[name].take(both)
        own, new = rows[name].split([len(teaching.labelled), len(nodes)])
        directions[name] = torch.cat([own, mass.t() @ new])
    weighting = torch.cat([torch.ones(len(teaching.labelled), device=weight.device), weight])[None]
    wanted = torch.cat([teaching.target, target])
    experts = fit_in_span(rows, directions, groups, wanted, weighting, teaching.penalty, STEPS)
    return mix([expert.maps for expert in experts], shares)
