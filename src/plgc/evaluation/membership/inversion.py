"""Linear inversion: non-negative least squares of a file's rows on candidate rows.

X' of a default file is VᵀX with V = (Â²Q + Q)/2 ≥ 0, whose rows are zero for nodes that were not in the graph. The
attacker solves min_W ‖X' − WᵀC‖² with W ≥ 0 for candidate rows C and takes nodes with large weights for members. It
needs neither edges nor shadow files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from plgc.evaluation.membership.candidates import Combinations

STEPS = 300
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Inversion:
    """The solution of min_W ‖X' − WᵀC‖², W ≥ 0.

    Attributes:
        weights: W, [rows of C, K].
        residual: ‖X' − WᵀC‖ / ‖X'‖: 0 where the candidates explain the file, 1 where they explain nothing.
        steps: how many were taken.
        converged: whether the last step changed less than the tolerance.
    """

    weights: Tensor
    residual: float
    steps: int
    converged: bool


@torch.no_grad()
def invert(
    features: Tensor, candidates: Combinations, *, steps: int = STEPS, tolerance: float = TOLERANCE
) -> Inversion:
    """Solve min_W ‖X' − WᵀC‖² with W ≥ 0, by accelerated projected gradients with restarts.

    Args:
        features: X', [K, f].
        candidates: C.
        steps: the most that are taken.
        tolerance: stop where a step changes W by less than this share of its norm.
    """
    target = features.to(candidates.inputs.device, torch.float32)
    size = float(target.norm()) or 1.0
    start = candidates.correlate(target)
    pace = 1.0 / _largest_eigenvalue(candidates, start)
    weights = ahead = torch.zeros_like(start)
    momentum, done, converged = 1.0, 0, not bool((start > 0).any())
    while done < steps and not converged:
        done += 1
        moved = (ahead - pace * (candidates.correlate(candidates.combine(ahead)) - start)).clamp_(min=0)
        change = moved - weights
        if float(((ahead - moved) * change).sum()) > 0:  # the momentum points uphill: start over without it
            momentum, ahead = 1.0, moved
        else:
            following = (1.0 + math.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
            ahead = moved + (momentum - 1.0) / following * change
            momentum = following
        converged = float(change.norm()) <= tolerance * float(moved.norm())
        weights = moved
    residual = float((target - candidates.combine(weights)).norm()) / size
    return Inversion(weights, residual, done, converged)


def _largest_eigenvalue(candidates: Combinations, start: Tensor, rounds: int = 30) -> float:
    """The largest eigenvalue of CCᵀ, by the power method, and a little more: steps of its inverse never diverge."""
    vector = start.abs().sum(1, keepdim=True) + 1e-3 * float(start.abs().mean() or 1.0)
    value = 0.0
    for _ in range(rounds):
        vector = vector / vector.norm()
        vector = candidates.correlate(candidates.combine(vector))
        value = float(vector.norm())
    return 1.05 * value or 1.0


def inversion_scores(inversion: Inversion, candidates: Combinations, counts: Tensor) -> dict[str, Tensor]:
    """Two scores of every node, [N] each.

    ``largest``: its largest weight in any x'_k. ``mass``: Σ_k c_k w_nk, how many of the nodes that the file counts it
    stands for: about 1 for a member, 0 for others.
    """
    weights = inversion.weights
    mass = weights @ counts.to(weights)[:, None]
    return {
        "largest": candidates.by_node(weights.amax(1)).double().cpu(),
        "mass": candidates.by_node(mass.flatten()).double().cpu(),
    }
