"""What the parts of an embedding count, and how far predictions are smoothed over the graph: settled by evidence.

Experts are logistic regressions on groups of parts: those that use the edges, those that do not, and all. They are
pooled log-linearly, Σ_e w_e log p_e. With few labels, w_e is proportional to exp(β · L_e + prior): L_e is the expert's
log-likelihood of labels that it was not trained on, and the prior leans towards the edges as far as the predictions of
a head on X alone, which has seen no edge, agree over edges (:func:`edge_agreement`). With validation labels the weights
are those that predict them best. σ, the weight of smoothed predictions, is settled in the same two ways.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.downstream.embedder import PARTS
from plgc.downstream.regression import LinearMaps
from plgc.sparse.adjacency import Adjacency, neighbor_sum

# Chosen on validation nodes of 17 graphs, 3 labels per class.
BETA = 0.2  # of held-out log-likelihoods: below 1, since few labels say little
STEEPNESS, MIDDLE, LIMIT = 40.0, 0.035, 2.0  # of the prior, as a function of the agreement over edges
LEAN = {"edges": 1.0, "plain": -1.0, "both": 0.0}
LOWEST = -8.0  # a log-likelihood: one label that was thought impossible does not decide alone
TEMPERATURES = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
FOLDS, MANY = 3, 1000  # from so many labels on, one fold says enough
PULL, STACK_STEPS, STACK_RATE = 10.0, 150, 0.05  # of the weights that predict validation labels


def expert_groups(parts: Sequence[str], *, validated: bool = False) -> dict[str, tuple[str, ...]]:
    """The groups of parts that experts are trained on; ``propagated`` only where validation labels can weigh it."""
    edges = tuple(name for name in parts if PARTS[name])
    plain = tuple(name for name in parts if not PARTS[name])
    groups = {"edges": edges, "plain": plain, "both": (*edges, *plain) if edges and plain else ()}
    if validated and "learned" in edges:
        groups["propagated"] = tuple(name for name in edges if name != "learned")
    return {name: group for name, group in groups.items() if group}


def share_of_edges(maps: LinearMaps, rows: Mapping[str, Tensor]) -> float:
    """How much of a map's answers comes from parts that use the edges, 0 to 1: by the spread of each part's logits.

    Args:
        maps: one map.
        rows: by part, unit rows of some nodes, [n, D].
    """
    spread = {}
    for name, weight in maps.weights.items():
        logits = rows[name] @ weight[:, 0]
        spread[name] = float((logits - logits.mean(1, keepdim=True)).norm())
    total = sum(spread.values())
    return sum(value for name, value in spread.items() if PARTS[name]) / total if total > 0 else 0.0


# Few labels, none to validate


def fold_weighting(target: Tensor) -> Tensor:
    """Weights of the labels, [1 + folds, n]: first all count, then each fold leaves out every third of each class."""
    classes = target.unique()
    place = torch.zeros_like(target)
    for c in classes:
        own = target == c
        place[own] = torch.arange(int(own.sum()), device=target.device)
    folds = min(FOLDS, int(place.max()) + 1)
    used = 0 if folds < 2 else 1 if len(target) > MANY else folds
    rows = [torch.ones(len(target), device=target.device), *((place % folds != fold).float() for fold in range(used))]
    return torch.stack(rows)


def held_out(values: Tensor, weighting: Tensor) -> Tensor:
    """Of values [n, 1 + folds, …], each label's from the fold that left it out; labels that no fold left out are not
    among them.
    """
    return values[:, 1:][(weighting[1:] == 0).t()]


def left_out(weighting: Tensor) -> Tensor:
    """Which labels some fold left out, bool [n]."""
    return (weighting[1:] == 0).any(0)


def likelihood(log_probability: Tensor, target: Tensor) -> Tensor:
    """Log-likelihood of labels [n] under log-probabilities [n, C]."""
    return log_probability.gather(1, target[:, None]).clamp(min=LOWEST).sum()


def calibrated_likelihood(log_probability: Tensor, target: Tensor) -> Tensor:
    """The same at the best temperature: smoothed predictions are flatter, which is no evidence against them."""
    found = [likelihood((t * log_probability).log_softmax(1), target) for t in TEMPERATURES]
    return torch.stack(found).max()


def edge_agreement(probability: Tensor, adjacency: Adjacency) -> float:
    """r = Σ_edges ⟨p_u, p_v⟩ / ½ Σ_edges (‖p_u‖² + ‖p_v‖²) of centred predictions [N, C]; 0 without edges."""
    centred = probability - probability.mean(0)
    over_edges = (centred * (neighbor_sum(adjacency, centred) - centred)).sum()
    own = ((adjacency.degree - 1) * centred.pow(2).sum(1)).sum()
    return float(over_edges / own) if float(own) > 0 else 0.0


def prior(agreement: float) -> float:
    """How far to lean towards the edges before any label speaks, in nats."""
    return max(-LIMIT, min(LIMIT, STEEPNESS * (agreement - MIDDLE)))


def weigh_experts(names: Sequence[str], likelihoods: Tensor, lean: float) -> Tensor:
    """w_e by the experts' held-out log-likelihoods and the prior, [E], summing to one."""
    towards = torch.tensor([LEAN[name] for name in names], device=likelihoods.device)
    return torch.softmax(BETA * likelihoods + lean * towards, 0)


def weigh_smoothing(plain: Tensor, smoothed: Tensor, target: Tensor, lean: float) -> float:
    """σ by held-out log-probabilities of the pool, as they are and smoothed, [n, C]; by the prior alone if n is 0."""
    gain = calibrated_likelihood(smoothed, target) - calibrated_likelihood(plain, target)
    return float(torch.sigmoid(gain + lean))


def better_than_chance(log_probability: Tensor, target: Tensor) -> float:
    """1 − exp(−G / 2), 0 to 1: G is by how many nats held-out labels are predicted better than by chance."""
    gain = float(likelihood(log_probability, target)) + len(target) * math.log(log_probability.shape[1])
    return 1 - math.exp(-max(0.0, gain) / 2)


# Validation labels


def stack(answers: Tensor, target: Tensor) -> Tensor:
    """Weights w ≥ 0 that predict labels best: min CE(Σ_a w_a log p_a) + (10 / n) · ‖w − 1/A‖².

    Args:
        answers: log-probabilities of the labelled nodes, [A, n, C].
        target: their labels, [n].
    """
    even = 1 / len(answers)
    raw = torch.full((len(answers),), math.log(math.expm1(even)), device=answers.device, requires_grad=True)
    optimizer = torch.optim.Adam([raw], lr=STACK_RATE)
    for _ in range(STACK_STEPS):
        weights = F.softplus(raw)
        loss = F.cross_entropy(torch.tensordot(weights, answers, 1), target)
        loss = loss + PULL / len(target) * (weights - even).pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return F.softplus(raw.detach())
