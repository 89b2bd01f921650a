"""The losses of stage I on two views of a graph: swapped prediction (the paper's eqs. 3 to 6) and decorrelation.

Every function takes a view as a list of embeddings, one [N, d] for each encoder. ℒ_pseudo = ℓ_swap + decorrelation; the
paper's own loss is ℓ_swap alone.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.method.settings import PseudoLabelSettings
from plgc.method.sinkhorn import sinkhorn, sinkhorn_without_checks

TINY = 1e-12  # keeps constant columns from dividing by zero
BATCH_STEP = 0.3  # how far a batch moves the balance: its own mix of clusters must not count as that of the graph


def decorrelation_loss(first: Tensor, second: Tensor, weight: float) -> Tensor:
    """Correlation between two standardised views, column by column, against the correlations within each (CCA-SSG).

    Minimises −Σ_i corr(first_i, second_i) + weight · Σ_views ‖I − correlation matrix‖². It keeps embeddings from
    collapsing where Sinkhorn alone does not.
    """
    nodes, width = first.shape
    identity = torch.eye(width, device=first.device)
    spread = [(identity - view.t() @ view / nodes).square().sum() for view in (first, second)]
    return weight * (spread[0] + spread[1]) - torch.dot(first.flatten(), second.flatten()) / nodes


def swapped_prediction_loss(
    first: list[Tensor],
    second: list[Tensor],
    prototypes: Tensor,
    settings: PseudoLabelSettings,
    potentials: list[Tensor | None],
    *,
    in_batches: bool = False,
    fixed_iterations: bool = False,
) -> tuple[Tensor, list[Tensor | None]]:
    """ℓ_swap: each view predicts the other view's assignment (eqs. 4 and 5), balanced by default.

    Args:
        first: one view.
        second: the other.
        prototypes: Ỹ, [K, Σd].
        settings: temperature, ε and Sinkhorn's stopping rule.
        potentials: Sinkhorn's column potentials of both views in the last epoch; None at the start.
        in_batches: the views are of a mini-batch. The balance is then a running one, over the last few batches.
        fixed_iterations: let Sinkhorn run without its stopping rule
            (:func:`plgc.method.sinkhorn.sinkhorn_without_checks`).

    Returns:
        The loss, and the potentials of this epoch.
    """
    logits = [prototype_scores(view, prototypes, 1 / settings.temperature) for view in (first, second)]
    targets, after = [], []
    for part, before in zip(logits, potentials, strict=True):
        target, potential = _target(part.detach(), before, settings, in_batches, fixed_iterations)
        targets.append(target)
        after.append(potential)
    # One dot product over all entries: the matrix of products is never stored.
    cross = [
        torch.dot(target.flatten(), F.log_softmax(other, dim=1).flatten())
        for target, other in zip(targets, reversed(logits), strict=True)
    ]
    return -(cross[0] + cross[1]) / len(logits[0]), after


def prototype_scores(view: list[Tensor], prototypes: Tensor, scale: float = 1.0) -> Tensor:
    """z_nᵀ ỹ_k, [N, K]: the mean over encoders of the cosine to that encoder's part of the prototype."""
    embedding = torch.cat([F.normalize(part, dim=1) for part in view], dim=1)
    parts = prototypes.split([part.shape[1] for part in view], dim=1)
    vectors = torch.cat([F.normalize(part, dim=1) for part in parts], dim=1)
    return embedding @ (vectors * (scale / len(view))).t()


def _target(
    logits: Tensor,
    before: Tensor | None,
    settings: PseudoLabelSettings,
    in_batches: bool,
    fixed_iterations: bool,
) -> tuple[Tensor, Tensor]:
    """q, the assignment of a view with these logits, and its potential."""
    rules = settings.sinkhorn_rules(settings.temperature)
    if fixed_iterations:
        assert before is not None
        plan, potential = sinkhorn_without_checks(logits, **rules, potential=before)
    else:
        assignment = sinkhorn(logits, **rules, potential=before)
        plan, potential = assignment.plan, assignment.potential
    if in_batches and before is not None:
        potential = torch.lerp(before, potential, BATCH_STEP)
        plan = torch.softmax(logits * (settings.temperature / settings.epsilon) + potential, dim=1)
    if settings.hard_targets:
        plan = F.one_hot(plan.argmax(dim=1), plan.shape[1]).to(plan.dtype)
    return plan, potential


def known_loss(hidden: Tensor, target: Tensor, share: Tensor, standardized: bool) -> Tensor:
    """Σ_k s_k ‖ỹ_k − z_k‖² / Σ_k s_k: how far one encoder's output for X' is from its block of Ỹ.

    Where embeddings are standardised over the graph before they are normalised, they are here over X', of which a row
    stands for s_k nodes.

    Args:
        hidden: the encoder's output for X', [K, d].
        target: its block of Ỹ, of unit length, [K, d].
        share: s_k / Σ s_k, [K, 1].
        standardized: whether embeddings are standardised.
    """
    if standardized:
        hidden = hidden - (share * hidden).sum(0)
        hidden = hidden * (share * hidden.square()).sum(0).clamp(min=TINY).rsqrt()
    return (share * (F.normalize(hidden, dim=1) - target).square()).sum()


def standardize(hidden: Tensor) -> Tensor:
    """Centre every column and scale it to unit variance."""
    return _Standardized.apply(hidden)  # pyright: ignore


class _Standardized(torch.autograd.Function):
    """Z = (H − μ) / σ by columns. Its backward is written out: autograd's own takes several times the passes over H."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor) -> Tensor:
        """Z, which is kept with 1 / σ."""
        centred = hidden - column_means(hidden)
        inverse = column_means(centred.square()).clamp(min=TINY).rsqrt()
        result = centred.mul_(inverse)
        ctx.save_for_backward(result, inverse)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        """(G − mean(G) − Z mean(G Z)) / σ."""
        (grad,), (result, inverse) = grads, ctx.saved_tensors
        along = column_means(grad * result)
        return torch.addcmul((grad - column_means(grad)).mul_(inverse), result, along * inverse, value=-1)


def column_means(values: Tensor) -> Tensor:
    """The mean of every column; on a GPU as a product, which takes a fifth of the time of a sum over rows."""
    if not values.is_cuda:
        return values.mean(0)
    return torch.mv(values.t(), values.new_full((len(values),), 1 / len(values)))
