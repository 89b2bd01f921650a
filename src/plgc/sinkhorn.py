"""Balanced assignment of nodes to prototypes: entropy-regularised optimal transport, in the log domain.

Solves eq. (5) of the paper: maximise Tr(Qᵀ S) + ε H(Q) over plans Q whose rows carry 1/N each and whose columns
carry 1/K each. Working with log-potentials keeps small ε exact, where plain exponentials overflow or silently miss
the marginals; iteration stops at a tolerance, and what was reached is returned rather than hidden.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Assignment:
    """The outcome of :func:`sinkhorn`.

    Attributes:
        plan: Q scaled so that every row sums to one, [N, K].
        potential: the column potential, to warm-start the next solve, [K].
        iterations: how many were done.
        error: largest deviation of a column's mass from 1/K, relative to 1/K.
        converged: whether ``error`` is within the tolerance.
    """

    plan: Tensor
    potential: Tensor
    iterations: int
    error: float
    converged: bool

    @property
    def hard(self) -> Tensor:
        """Each node's most likely prototype, [N]."""
        return self.plan.argmax(dim=1)


@torch.no_grad()
def sinkhorn(
    scores: Tensor,
    *,
    epsilon: float = 0.05,
    tolerance: float = 1e-2,
    max_iterations: int = 100,
    potential: Tensor | None = None,
) -> Assignment:
    """Assign N nodes to K prototypes in equal shares.

    Args:
        scores: similarity of every node to every prototype, z_nᵀ ỹ_k, [N, K].
        epsilon: ε, weight of the entropy; smaller is closer to one-hot.
        tolerance: stop when no column's mass is off by more than this fraction of 1/K.
        max_iterations: cap on the iterations.
        potential: column potential of an earlier, similar problem to start from.
    """
    nodes, prototypes = scores.shape
    logits = scores / epsilon
    column = torch.zeros(prototypes, dtype=logits.dtype, device=logits.device) if potential is None else potential
    log_share = math.log(nodes / prototypes)
    iterations, error = 0, math.inf
    while True:
        # Rows first: after this every row sums to one exactly, and only the columns can be off.
        log_plan = torch.log_softmax(logits + column, dim=1)
        column_mass = torch.logsumexp(log_plan, dim=0)
        error = float((column_mass - log_share).expm1().abs().max())
        if error <= tolerance or iterations >= max_iterations:
            break
        column = column + (log_share - column_mass)
        iterations += 1
    return Assignment(log_plan.exp(), column, iterations, error, error <= tolerance)
