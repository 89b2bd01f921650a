"""Prototypes and pseudo-labels: the balanced assignment of embeddings, and its means (Lemma 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.method.settings import PseudoLabelSettings
from plgc.method.sinkhorn import sinkhorn

QUANTA = 1 << 28  # of a squared distance: 2^31 of them, at most 4 each, still add up within 64 bits


@dataclass(frozen=True)
class PseudoLabels:
    """Pseudo-labels Ỹ with the assignment they are the means of.

    Attributes:
        vectors: Ỹ, one unit vector per block, [K, d].
        weights: how much of each pseudo-label every node carries, columns summing to one, [N, K].
        counts: nodes per pseudo-label after rounding, s_k, [K].
        explained: share of the embeddings' variance that the pseudo-labels explain: the label-free score.
        mass: nodes per pseudo-label before rounding, Σ_n q_nk, [K].
    """

    vectors: Tensor
    weights: Tensor
    counts: Tensor
    explained: float
    mass: Tensor


def unit_blocks(embedding: Tensor, blocks: tuple[int, ...]) -> Tensor:
    """Scale every block of columns to unit length, and the whole to unit length too: [N, Σd]."""
    parts = [F.normalize(part, dim=1) for part in embedding.split(list(blocks), dim=1)]
    return torch.cat(parts, dim=1) / math.sqrt(len(blocks))


@torch.no_grad()
def read_pseudo_labels(
    embedding: Tensor,
    prototypes: Tensor,
    blocks: tuple[int, ...],
    settings: PseudoLabelSettings,
    core: Tensor | None = None,
) -> PseudoLabels:
    """Pseudo-labels of an embedding: alternate the balanced assignment and its means.

    Args:
        embedding: Z, [N, d].
        prototypes: where to start, [K, d]. They take the result, so that the next round of training starts from it.
        blocks: width of each encoder's part of the embedding.
        settings: of stage I.
        core: which nodes are assigned, bool [N]; the others get no weight. By default all.
    """
    if core is not None:
        own = read_pseudo_labels(embedding[core], prototypes, blocks, settings)
        weights = own.weights.new_zeros(len(core), own.weights.shape[1])
        weights[core] = own.weights
        return replace(own, weights=weights)
    rules = settings.sinkhorn_rules()
    vectors = unit_blocks(prototypes, blocks)
    assignment = sinkhorn(embedding @ vectors.t(), **rules)
    for repeat in range(settings.refinements):
        if repeat > 0:
            assignment = sinkhorn(embedding @ vectors.t(), **rules, potential=assignment.potential)
        vectors = unit_blocks(assignment.plan.t() @ embedding, blocks)
    prototypes.copy_(vectors)
    mass = assignment.plan.sum(0)
    hard = assignment.hard
    counts = torch.bincount(hard, minlength=vectors.shape[0])
    residual = (embedding - vectors[hard]).pow(2).sum()
    explained = 1.0 - float(residual / (embedding - embedding.mean(0)).pow(2).sum())
    return PseudoLabels(vectors, assignment.plan.div_(mass), counts, explained, mass)


@torch.no_grad()
def spread_rows(rows: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Pick ``count`` unit rows far from each other (the seeding of k-means++), without waiting for the device."""
    picks = [torch.randint(rows.shape[0], (1,), generator=generator).to(rows.device)]
    draws = torch.rand(count - 1, generator=generator, dtype=torch.float64).to(rows.device)
    nearest = torch.full((rows.shape[0],), torch.inf, device=rows.device)
    for draw in draws:
        distance = (2 - 2 * (rows @ rows.index_select(0, picks[-1])[0])).clamp(min=0)
        nearest = torch.minimum(nearest, distance)
        share = torch.cumsum((nearest * QUANTA).long(), 0)  # whole numbers add up to the same everywhere
        picks.append(torch.searchsorted(share, (draw * share[-1:]).long() + 1).clamp(max=rows.shape[0] - 1))
    return rows.index_select(0, torch.cat(picks))
