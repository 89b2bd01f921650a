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

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.downstream.regression import LinearMaps, beside, fit_in_span, mix
from plgc.downstream.unit_rows import UnitRows
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
        rows: the parts of all nodes.
        groups: the experts' parts.
        weights: of the experts, [E].
        labelled: nodes with a label, [n].
        target: their classes, one-hot, [n, C].
        penalty: of every logistic regression.
        answer: from logits of every node to log p, [N, …, C].
    """

    rows: Mapping[str, UnitRows]
    groups: list[tuple[str, ...]]
    weights: Tensor
    labelled: Tensor
    target: Tensor
    penalty: float
    answer: Callable[[Tensor], Tensor]


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
    answers = torch.stack([start, start], 1)
    for count in CONFIDENT:
        confident = refit(teaching, *confident_nodes(answers[:, 0], teaching.labelled, count))
        soft = refit(teaching, drawn, (SHARPNESS * answers[drawn, 1]).softmax(1), worth)
        answers = teaching.answer(beside(confident, soft).logits(teaching.rows))
    told = torch.cat([start[:, None], answers], 1)[teaching.labelled].clamp(min=LOWEST)  # [n, 3, C]
    weights = torch.softmax(EVIDENCE * (told * teaching.target[:, None]).sum((0, 2)), 0) * strength
    weights[0] += 1 - strength
    return mix([base, confident, soft], weights)


def confident_nodes(answer: Tensor, labelled: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The most confident unlabelled nodes of every predicted class: the nodes, their classes one-hot, weights of 1."""
    nodes, classes = answer.shape
    certain, predicted = answer.exp().max(1)
    certain = certain.index_fill(0, labelled, 0.0)
    count = min(count, max(5, MOST // classes), nodes)
    of_class = certain[:, None] * F.one_hot(predicted, classes)
    top = of_class.topk(count, dim=0)
    picked = top.values > 0
    chosen, mark = top.indices[picked], picked.nonzero()[:, 1]
    return chosen, F.one_hot(mark, classes).to(answer.dtype), torch.ones(len(chosen), device=answer.device)


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
        rows[name] = teaching.rows[name].take(both)
        own, new = rows[name].split([len(teaching.labelled), len(nodes)])
        directions[name] = torch.cat([own, mass.t() @ new])
    weighting = torch.cat([torch.ones(len(teaching.labelled), device=weight.device), weight])[None]
    wanted = torch.cat([teaching.target, target])
    experts = fit_in_span(rows, directions, groups, wanted, weighting, teaching.penalty, STEPS)
    return mix([expert.maps for expert in experts], shares)
