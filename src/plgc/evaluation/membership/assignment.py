"""Assignment fit: one unknown per node instead of one per node and synthetic row.

The attacker guesses the assignment: the rebuilt backbone embeds every candidate, and the pseudo-labels nearby say to
which x'_k it would contribute as a member. With v_nk for that, x'_k ≈ Σ_n m_n v_nk x_n is linear in the memberships m.
Where a release leaves few numbers (a projection of the features), these N unknowns are found when the N · K of the
linear inversion are not.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from plgc.artifact.condensed import CondensedGraph
from plgc.evaluation.membership.candidates import Combinations, dense_rows
from plgc.sparse.adjacency import propagate
from plgc.sparse.inputs import Inputs

TEMPERATURE = 0.06  # of the guessed assignment, and
RIDGE = 1.0  # of the fit, in mean diagonals: settled on one file of Cora in 64 random dimensions
STEPS = 60
TOLERANCE = 1e-6


@torch.no_grad()
def assignment_scores(condensed: CondensedGraph, inputs: Inputs, embedding: Tensor) -> Tensor:
    """(m_n − share) · ‖v_n‖ ‖x_n‖ of every node, [N]: its fitted membership beyond the share of members.

    Args:
        condensed: a file with pseudo-labels.
        inputs: the candidates in the space of the file.
        embedding: of the candidates by the rebuilt backbone, as Ỹ is, [N, d].
    """
    assert condensed.pseudo_labels is not None
    rows = Combinations(inputs)
    target = condensed.features.to(inputs.device, torch.float32)
    share = min(1.0, int(condensed.counts.sum()) / inputs.num_nodes)
    reach = guessed_reach(condensed, inputs, embedding, share)

    def normal(members: Tensor) -> Tensor:
        """((V Vᵀ) ∘ (X Xᵀ)) m, without either product."""
        return (rows.correlate(rows.combine(reach * members[:, None])) * reach).sum(1)

    diagonal = reach.square().sum(1) * dense_rows(inputs.x).square().sum(1)
    left = (rows.correlate(target) * reach).sum(1) - normal(torch.full_like(diagonal, share))
    penalty = RIDGE * float(diagonal.mean())
    found = conjugate_gradients(lambda m: normal(m) + penalty * m, left)
    return (found * diagonal.sqrt()).double().cpu()


def guessed_reach(condensed: CondensedGraph, inputs: Inputs, embedding: Tensor, share: float) -> Tensor:
    """V, [N, K]: what every candidate would contribute to each x'_k (:func:`plgc.method.stage_two.reach`)."""
    assert condensed.pseudo_labels is not None
    similar = embedding @ condensed.pseudo_labels.to(embedding).t()
    assigned = torch.softmax(similar / TEMPERATURE, dim=1)
    weights = assigned / (share * assigned.sum(0)).clamp(min=1e-6)
    if "edges" not in condensed.channels:
        return weights
    propagated = propagate(inputs.adjacency, weights, 2)
    return (propagated + weights) / 2 if "plain" in condensed.channels else propagated


def conjugate_gradients(
    product: Callable[[Tensor], Tensor], target: Tensor, steps: int = STEPS, tolerance: float = TOLERANCE
) -> Tensor:
    """x with A x = target, for a symmetric positive definite A that is given as a product."""
    found = torch.zeros_like(target)
    rest = direction = target
    size = first = float(rest @ rest)
    for _ in range(steps):
        if size <= tolerance**2 * first:
            break
        moved = product(direction)
        length = size / float(direction @ moved)
        found = found + length * direction
        rest = rest - length * moved
        size, before = float(rest @ rest), size
        direction = rest + size / before * direction
    return found
