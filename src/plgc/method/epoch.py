"""One epoch of stage I: two views for every encoder, ℒ_pseudo (eqs. 3 to 6) with decorrelation, one step.

Each view is assigned to the prototypes with Sinkhorn, and predicts the other's assignment (ℓ_swap). On a GPU the work
between the draw of the views and the step of the optimiser, a thousand small kernels, is recorded once and played again
(:mod:`plgc.runtime.replay`): its shapes are the same in every epoch on the same graph, if not in batches.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.method.augment import draw_view, view_of
from plgc.method.sinkhorn import sinkhorn_unwatched
from plgc.method.stage_one import SAMPLE, StageOne, assign, encode, standardize
from plgc.runtime.replay import Replayed
from plgc.sparse.inputs import Inputs
from plgc.sparse.stored_features import StoredFeatures

STREAM_STEP = 0.3  # how far a batch moves the balance: its own mix of clusters must not count as that of the graph


def train_epoch(stage: StageOne, inputs: Inputs) -> float:
    """One step of ℒ_pseudo (eq. 6) with decorrelation; returns the loss.

    The encoders see all nodes; of a large graph the losses see every so many-th one, from a random one on.
    """
    branches = [branch for branch in stage.branches for _ in range(2)]
    drawn = [
        tensor
        for branch in branches
        for tensor in draw_view(
            inputs.adjacency, inputs.num_features, branch.edge_drop, branch.feature_mask, stage.draws
        )
    ]
    rows = _counted_rows(stage, inputs)
    found = _played(stage, inputs, drawn, rows) or _slopes(stage, inputs, drawn, rows, stage.potentials)
    (loss, *slopes), stage.potentials = found
    for parameter, slope in zip(_trained(stage), slopes, strict=True):
        parameter.grad = slope
    stage.optimizer.step()
    return float(loss)


def _counted_rows(stage: StageOne, inputs: Inputs) -> Tensor | None:
    """Which nodes the losses see; None for all."""
    step = -(-inputs.num_nodes // SAMPLE)
    if inputs.counted is not None or step == 1:
        return inputs.counted
    start = int(torch.randint(step, (1,), generator=stage.generator))
    return torch.arange(start, start + inputs.num_nodes // step * step, step, device=inputs.device)


def _trained(stage: StageOne) -> list[Tensor]:
    """What an epoch changes."""
    return [*stage.encoders.parameters(), *([stage.prototypes] if stage.settings.swap > 0 else [])]


def _slopes(
    stage: StageOne,
    inputs: Inputs,
    drawn: list[Tensor],
    rows: Tensor | None,
    potentials: list[Tensor | None],
    watched: bool = True,
) -> tuple[list[Tensor], list[Tensor | None]]:
    """The loss and its gradients, and Sinkhorn's potentials; ``watched`` as in :func:`swapped_prediction_loss`."""
    settings = stage.settings
    hidden = []
    for number, encoder in enumerate(encoder for encoder in stage.encoders for _ in range(2)):
        view = view_of(inputs.adjacency, *drawn[2 * number : 2 * number + 2])
        hidden.append(encode(stage, encoder, inputs, view.adjacency, view.feature_mask, rows))
    if stage.standardized:
        hidden = [standardize(part) for part in hidden]
    first, second = hidden[::2], hidden[1::2]
    loss = torch.zeros((), device=inputs.device)
    if settings.decorrelation > 0:
        for one, other in zip(first, second, strict=True):
            loss = loss + decorrelation_loss(one, other, settings.decorrelation)
    if settings.swap > 0:
        swapped, potentials = swapped_prediction_loss(stage, first, second, potentials, watched)
        loss = loss + settings.swap * swapped
    return [loss.detach(), *torch.autograd.grad(loss, _trained(stage))], potentials


def _played(
    stage: StageOne, inputs: Inputs, drawn: list[Tensor], rows: Tensor | None
) -> tuple[list[Tensor], list[Tensor | None]] | None:
    """What :func:`_slopes` finds, from a recording of it; None where there is none, or it met numbers it is not for."""
    in_batches = inputs.counted is not None  # each with shapes of its own
    if inputs.device.type != "cuda" or in_batches or isinstance(inputs.x, StoredFeatures):
        return None
    before = [stage.prototypes.new_zeros(len(stage.prototypes)) if p is None else p for p in stage.potentials]
    if stage.recording is None or stage.recording[0] is not inputs:
        same, count = replace(stage, recording=None), len(drawn)  # without a circle, that goes when the stage goes

        def work(*given: Tensor) -> tuple[Tensor, ...]:
            views, (first, second, *rest) = list(given[:count]), given[count:]
            values, after = _slopes(same, inputs, views, rest[0] if rest else None, [first, second], watched=False)
            return *(potential for potential in after if potential is not None), *values

        stage.recording = inputs, Replayed(work)
    found = list(stage.recording[1](*drawn, *before, *([] if rows is None else [rows])))
    potentials, values = found[: len(before)], found[len(before) :]
    numbers = torch.stack([values[0], *(potential.sum() for potential in potentials)])
    if not bool(numbers.isfinite().all()):
        return None
    return values, [*potentials]


def decorrelation_loss(first: Tensor, second: Tensor, weight: float) -> Tensor:
    """Correlation between two standardised views, column by column, against the correlations within each (CCA-SSG).

    Minimises −Σ_i corr(first_i, second_i) + weight · Σ_views ‖I − correlation matrix‖².
    """
    nodes, width = first.shape
    identity = torch.eye(width, device=first.device)
    spread = [(identity - view.t() @ view / nodes).square().sum() for view in (first, second)]
    return weight * (spread[0] + spread[1]) - torch.dot(first.flatten(), second.flatten()) / nodes


def swapped_prediction_loss(
    stage: StageOne,
    first: list[Tensor],
    second: list[Tensor],
    potentials: list[Tensor | None],
    watched: bool = True,
) -> tuple[Tensor, list[Tensor | None]]:
    """ℓ_swap: each view's embedding predicts the other view's balanced assignment (eqs. 4 and 5).

    Args:
        stage: holds the prototypes and the settings.
        first: one view's embeddings, one for each branch, standardised where the stage's are.
        second: the other's.
        potentials: Sinkhorn's, of both views in the last epoch.
        watched: whether Sinkhorn may look at numbers, to stop early; see :func:`plgc.method.sinkhorn.sinkhorn_unwatched`.

    Returns:
        The loss, and the potentials of this epoch.
    """
    logits = [prototype_scores(stage, view, 1 / stage.settings.temperature) for view in (first, second)]
    found = [_target(stage, part.detach(), before, watched) for part, before in zip(logits, potentials, strict=True)]
    # A dot product of everything with everything: the products themselves are never written down.
    cross = [
        torch.dot(target.flatten(), F.log_softmax(other, dim=1).flatten())
        for (target, _), other in zip(found, reversed(logits), strict=True)
    ]
    return -(cross[0] + cross[1]) / len(logits[0]), [potential for _, potential in found]


def _target(stage: StageOne, logits: Tensor, before: Tensor | None, watched: bool) -> tuple[Tensor, Tensor]:
    """q, the balanced assignment of a view with these logits, and its potential."""
    settings = stage.settings
    if watched:
        assignment = assign(logits, settings, before, settings.temperature)
        plan, potential = assignment.plan, assignment.potential
    else:
        assert before is not None
        plan, potential = sinkhorn_unwatched(
            logits,
            epsilon=settings.epsilon / settings.temperature,
            tolerance=settings.tolerance,
            max_iterations=settings.max_iterations,
            potential=before,
        )
    if stage.streamed and before is not None:
        potential = torch.lerp(before, potential, STREAM_STEP)
        plan = torch.softmax(logits * (settings.temperature / settings.epsilon) + potential, dim=1)
    return _rounded(plan) if settings.hard_targets else plan, potential


def _rounded(plan: Tensor) -> Tensor:
    """One-hot: every node in its most likely place."""
    return F.one_hot(plan.argmax(dim=1), plan.shape[1]).to(plan.dtype)


def prototype_scores(stage: StageOne, view: list[Tensor], scale: float = 1.0) -> Tensor:
    """z_nᵀ ỹ_k: the mean over branches of the cosine to that branch's part of the prototype, in one product.

    Args:
        stage: holds the prototypes.
        view: embeddings, one for each branch, standardised where the stage's are.
        scale: of the result.
    """
    embedding = torch.cat([F.normalize(part, dim=1) for part in view], dim=1)
    prototypes = [F.normalize(part, dim=1) for part in stage.prototypes.split(list(stage.blocks), dim=1)]
    return embedding @ (torch.cat(prototypes, dim=1) * (scale / len(view))).t()
