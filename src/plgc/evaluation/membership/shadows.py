"""Shadows: other random sets of members, condensed in the same way, whose members the attacker knows.

They tell what the evidence of members looks like, and what is usual for a node whether it is a member or not. A
classifier over all nodes and a likelihood ratio for every node by itself use them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.graphs.check import node_count
from plgc.graphs.views.inductive import induced_subgraph

Condenser = Callable[[Data, int], CondensedGraph]
PENALTY = 1e-3  # on the squared weights of the shadow classifier
SHRINKAGE = 4.0  # shadows that the common effect of membership counts as, beside a node's own
RIDGE = 0.05  # of the variances, on the diagonal of the covariance


@dataclass(frozen=True)
class Evidence:
    """What the attacker computes for every node.

    Attributes:
        scores: by the attack's name, [N] each; larger for likelier members.
        columns: the input of attacks that learn from shadows, standardised over the nodes, [N, F].
    """

    scores: dict[str, Tensor]
    columns: Tensor


def draw_members(nodes: int, count: int, generator: torch.Generator) -> Tensor:
    """Mark ``count`` random nodes, bool [N]."""
    members = torch.zeros(nodes, dtype=torch.bool)
    members[torch.randperm(nodes, generator=generator)[:count]] = True
    return members


def condense_shadows(
    graph: Data, condenser: Condenser, size: int, shadows: int, seed: int
) -> list[tuple[CondensedGraph, Tensor]]:
    """Condense other random sets of members of the same size; with the members of each.

    Every second set is what the one before left out, where both have the same size: then each node is a member of one
    of the two.
    """
    drawn, nodes, inside = [], node_count(graph), torch.empty(0, dtype=torch.bool)
    for index in range(shadows):
        own = 1_000_003 * (seed + 1) + index  # differs from every target's seed
        if index % 2 and abs(nodes - 2 * size) <= 1:
            inside = ~inside
        else:
            inside = draw_members(nodes, size, torch.Generator().manual_seed(own))
        drawn.append((condenser(induced_subgraph(graph, inside), own), inside))
    return drawn


def classifier_scores(target: Evidence, shadows: Sequence[Evidence], members: Sequence[Tensor]) -> Tensor:
    """Scores of the target, [N], by a logistic regression that was trained on the shadows and their members.

    Its input is a node's evidence, and its difference to the same node's evidence in the (other) shadows: some nodes
    are close to everything, members or not.
    """
    rows = [_with_excess(shadow, [other for other in shadows if other is not shadow]) for shadow in shadows]
    weight, bias = fit_logistic(torch.cat(rows), torch.cat(list(members)))
    return _with_excess(target, shadows) @ weight + bias


def likelihood_ratios(target: Evidence, shadows: Sequence[Evidence], members: Sequence[Tensor]) -> Tensor:
    """log p(evidence | member) − log p(evidence | not) of every node, [N], after Carlini et al. (2022).

    Evidence is Gaussian around two means of the node's own, with one covariance. Few shadows hold a node, so its means
    are pulled towards a common effect: those of all shadows, and what membership adds on average.
    """
    values, inside = torch.stack([shadow.columns for shadow in shadows]), torch.stack(list(members))[..., None]
    share = inside.double().mean(0)
    centred, apart = values - values.mean(0), inside.double() - share
    effect = (centred * apart).sum((0, 1)) / apart.square().sum().clamp(min=1e-12)
    usual = values.mean(0) - share * effect
    means = [
        (SHRINKAGE * (usual + flag * effect) + (values * (inside == flag)).sum(0))
        / (SHRINKAGE + (inside == flag).sum(0))
        for flag in (False, True)
    ]
    rest = (centred - apart * effect).reshape(-1, values.shape[-1])
    free = max(1, len(rest) - values.shape[1])  # a mean of every node was estimated
    covariance = rest.t() @ rest / free
    covariance += torch.diag(RIDGE * covariance.diagonal() + 1e-9)
    out, member = (_squared(target.columns - mean, covariance) for mean in means)
    return (out - member) / 2


def _squared(rows: Tensor, covariance: Tensor) -> Tensor:
    """rowᵀ Σ⁻¹ row of every row, [N]."""
    return (rows * torch.linalg.solve(covariance, rows.t()).t()).sum(1)


def fit_logistic(rows: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and bias of a logistic regression with a small penalty, to convergence: [F] and []."""
    weight = torch.zeros(rows.shape[1], dtype=rows.dtype, requires_grad=True)
    bias = torch.zeros((), dtype=rows.dtype, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=200, line_search_fn="strong_wolfe")
    target = truth.to(rows.dtype)

    def closure() -> float:
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(rows @ weight + bias, target) + PENALTY * weight.square().sum()
        loss.backward()
        return float(loss.detach())

    optimizer.step(closure)
    return weight.detach(), bias.detach()


def standardised(columns: Tensor) -> Tensor:
    """Columns with mean 0 and deviation 1 over the nodes; constant ones are 0."""
    spread = columns.std(0)
    return (columns - columns.mean(0)) / torch.where(spread > 0, spread, 1.0)


def normal_scores(values: Tensor) -> Tensor:
    """The normal quantiles of the ranks of values, equal ones alike, [N]: weights have a few very large values."""
    _, inverse, count = torch.unique(values, return_inverse=True, return_counts=True)
    rank = count.cumsum(0) - (count - 1) / 2
    return torch.special.ndtri((rank[inverse].double() - 0.5) / len(values))


def _with_excess(evidence: Evidence, others: Sequence[Evidence]) -> Tensor:
    if not others:
        return torch.cat([evidence.columns, torch.zeros_like(evidence.columns)], dim=1)
    usual = torch.stack([other.columns for other in others]).mean(0)
    return torch.cat([evidence.columns, evidence.columns - usual], dim=1)
