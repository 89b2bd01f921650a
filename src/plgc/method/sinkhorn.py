"""Balanced assignment of nodes to prototypes: entropy-regularised optimal transport, in the log domain.

Solves eq. (5) of the paper: maximise Tr(Qᵀ S) + ε H(Q) over plans Q whose rows carry 1/N each and whose columns
carry 1/K each. Rows that stand for several nodes carry their share of all nodes instead. Plain exponentials are used
only where they are exact: each row is scaled by its largest entry, and the range that is left must fit a float with
room to spare. Elsewhere (small ε) the work is done on logarithms, since exponentials would overflow or silently miss
the marginals. Iteration stops at a tolerance, and what was reached is returned rather than hidden.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

KERNEL_RANGE = 50.0  # e^-50 times the smallest scale is still far above float32's smallest number, e^-87
SCALE_RANGE = 20.0
CHECK_EVERY = 4  # iterations between two checks of the error on a GPU: each check makes the CPU wait for it


@dataclass(frozen=True)
class Assignment:
    """The outcome of :func:`sinkhorn`.

    Attributes:
        plan: Q scaled so that every row sums to one, [N, K].
        potential: the column potential, to warm-start the next solve, [K].
        iterations: how many were done.
        error: largest deviation of a column's mass from its share, relative to the share.
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
    masses: Tensor | None = None,
) -> Assignment:
    """Assign N nodes to K prototypes in equal shares.

    Args:
        scores: similarity of every node to every prototype, z_nᵀ ỹ_k, [N, K].
        epsilon: ε, weight of the entropy; smaller is closer to one-hot.
        tolerance: stop when no column's mass is off by more than this fraction of 1/K.
        max_iterations: cap on the iterations.
        potential: column potential of an earlier, similar problem to start from.
        masses: how many nodes each row stands for, [N]; by default one. Prototypes then have equal shares of the sum.
    """
    share = (scores.shape[0] if masses is None else float(masses.sum())) / scores.shape[1]
    column = scores.new_zeros(scores.shape[1]) if potential is None else potential
    kernel, span = _kernel(scores, epsilon, column)
    if float(span) <= KERNEL_RANGE:
        found = _scale_kernel(kernel, column, share, tolerance, max_iterations, masses)
        if found is not None:
            return found
    del kernel
    return _scale_logs(scores / epsilon, column, math.log(share), tolerance, max_iterations, masses)


@torch.no_grad()
def sinkhorn_without_checks(
    scores: Tensor, *, epsilon: float, tolerance: float, max_iterations: int, potential: Tensor
) -> tuple[Tensor, Tensor]:
    """Plan and potential of :func:`sinkhorn` without reading a number back from the device: for recorded GPU work.

    All iterations are run; they change nothing once the tolerance is reached. Where plain exponentials would not be
    exact, both results are NaN, and :func:`sinkhorn` has to be used instead.
    """
    share = scores.shape[0] / scores.shape[1]
    kernel, span = _kernel(scores, epsilon, potential)
    scale = torch.ones_like(potential)
    for _ in range(max_iterations):
        _, column_mass, off = _masses(kernel, scale, share)
        scale = _next_scale(scale, column_mass, off, share, tolerance)
    exact = (span <= KERNEL_RANGE) & (scale.log().abs().max() <= SCALE_RANGE)
    scale = torch.where(exact, scale, torch.nan)
    row = kernel @ scale
    return kernel.mul_(scale).div_(row[:, None]), potential + scale.log()


def _kernel(scores: Tensor, epsilon: float, column: Tensor) -> tuple[Tensor, Tensor]:
    """exp(scores / ε + column), its rows scaled to a largest entry of 1, and the widest range of a row's logarithms."""
    tilted = torch.add(column, scores, alpha=1 / epsilon)
    highest = tilted.amax(dim=1, keepdim=True)
    span = (highest - tilted.amin(dim=1, keepdim=True)).max()
    return tilted.sub_(highest).exp_(), span


def _scale_kernel(
    kernel: Tensor, column: Tensor, share: float, tolerance: float, max_iterations: int, masses: Tensor | None
) -> Assignment | None:
    """Iterate with two matrix-vector products on exp(logits), a pass over memory each; None where scales run away.

    ``kernel`` has a largest entry of 1 in every row, and becomes the plan.
    """
    step = CHECK_EVERY if kernel.is_cuda else 1
    scale, iterations = torch.ones_like(column), 0
    while True:
        row, column_mass, off = _masses(kernel, scale, share, masses)
        last = iterations >= max_iterations
        if last or iterations % step == 0:
            error, reach = torch.stack([off, scale.log().abs().max()]).tolist()
            if not reach <= SCALE_RANGE:  # not a number is out of range too
                return None
            if last or error <= tolerance:
                break
        scale = _next_scale(scale, column_mass, off, share, tolerance)
        iterations += 1
    plan = kernel.mul_(scale).div_(row[:, None])
    return Assignment(plan, column + scale.log(), iterations, error, error <= tolerance)


def _masses(kernel: Tensor, scale: Tensor, share: float, masses: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Of the rows; of the columns once the rows have theirs; and how far the worst column is off its share."""
    row = kernel @ scale
    column_mass = scale * (kernel.t() @ (row.reciprocal() if masses is None else masses / row))
    return row, column_mass, (column_mass / share - 1).abs().max()


def _next_scale(scale: Tensor, column_mass: Tensor, off: Tensor, share: float, tolerance: float) -> Tensor:
    return torch.where(off <= tolerance, scale, scale * (share / column_mass))


def _scale_logs(
    logits: Tensor, column: Tensor, log_share: float, tolerance: float, max_iterations: int, masses: Tensor | None
) -> Assignment:
    """The same iterations on logarithms: several passes each, and right however small ε is."""
    iterations, log_masses = 0, None if masses is None else masses.log()[:, None]
    while True:
        # Rows first: after this every row sums to one exactly, and only the columns can be off.
        log_plan = torch.log_softmax(logits + column, dim=1)
        column_mass = torch.logsumexp(log_plan if log_masses is None else log_plan + log_masses, dim=0)
        error = float((column_mass - log_share).expm1().abs().max())
        if error <= tolerance or iterations >= max_iterations:
            break
        column = column + (log_share - column_mass)
        iterations += 1
    return Assignment(log_plan.exp(), column, iterations, error, error <= tolerance)
