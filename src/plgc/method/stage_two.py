"""Stage II: synthetic features X' whose embeddings are the pseudo-labels Ỹ (section 3.1.2).

The paper minimises ‖ỹ_k − z_k‖² over X' and leaves the start open. We start on the data's manifold: x'_k is the
assignment mean of what the encoders see, which they already map close to ỹ_k: of the propagated features Â²X, or, where
there is a channel without edges too, of X and Â²X in equal shares. Steps from there have to be small: large ones leave
the manifold, and the rebuilt backbone gets worse while the loss here falls.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from plgc.method.settings import SynthesisSettings
from plgc.method.stage_one import PseudoLabels, StageOne, unit_blocks
from plgc.sparse.adjacency import propagate
from plgc.sparse.features import mean_rows
from plgc.sparse.inputs import Inputs

PROPAGATION_STEPS = 2


def synthesise(
    features: Tensor | None,
    stage: StageOne,
    inputs: Inputs,
    labels: PseudoLabels,
    settings: SynthesisSettings,
    allowed: Tensor | None = None,
) -> tuple[Tensor, list[float]]:
    """X' [K, f] for these pseudo-labels, and the distance ‖ỹ_k − z_k‖² after every step.

    Args:
        features: X' of the round before, to go on from; None to start.
        stage: encoders θ'.
        inputs: the graph.
        labels: Ỹ and the assignment.
        settings: of stage II.
        allowed: which values may be published, bool [K, f]; the others are 0. None: all.
    """
    if features is None:
        features = start_features(inputs, labels, settings, stage)
    features = features if allowed is None else features * allowed
    features, losses = refine_features(features, stage, inputs, labels, settings)
    return features if allowed is None else features * allowed, losses


def start_features(inputs: Inputs, labels: PseudoLabels, settings: SynthesisSettings, stage: StageOne) -> Tensor:
    """The start of X': assignment means, or the features of random nodes."""
    if settings.start == "nodes":
        assigned = labels.weights.sum(1).nonzero().flatten()  # all but a halo
        chosen = assigned[torch.randperm(len(assigned), generator=stage.generator)[: labels.vectors.shape[0]]]
        weights = torch.zeros_like(labels.weights)
        weights[chosen, torch.arange(len(chosen))] = 1.0
        return mean_rows(inputs.x, weights)
    return mean_rows(inputs.x, reach(inputs, labels, stage.channels))


def reach(inputs: Inputs, labels: PseudoLabels, channels: tuple[str, ...]) -> Tensor:
    """How much of each x'_k comes from every node, [N, K], where X' starts from means.

    That is Â²Q with edges, Q without, and half of each where there are both channels. Propagating the K columns of the
    weights Q is cheaper than the f columns of X, and keeps X sparse.
    """
    if "edges" not in channels:
        return labels.weights
    propagated = propagate(inputs.adjacency, labels.weights, PROPAGATION_STEPS)
    return (propagated + labels.weights) / 2 if "plain" in channels else propagated


def refine_features(
    features: Tensor, stage: StageOne, inputs: Inputs, labels: PseudoLabels, settings: SynthesisSettings
) -> tuple[Tensor, list[float]]:
    """Move X' down the distance ‖ỹ_k − z_k‖² of its embeddings; returns X' and the distance after every step."""
    return descend(features, stage, labels.vectors, lambda: _moments(stage, inputs), settings)


def descend(
    features: Tensor,
    stage: StageOne,
    vectors: Tensor,
    moments: Callable[[], list[tuple[Tensor, Tensor]]],
    settings: SynthesisSettings,
) -> tuple[Tensor, list[float]]:
    """The same, with Ỹ and the moments of the whole graph's embedding, which are asked for where steps are taken."""
    if settings.steps == 0:
        return features, []
    features = features.clone().requires_grad_(True)
    scale = float(features.detach().pow(2).mean().sqrt())
    optimizer = torch.optim.Adam([features], lr=settings.learning_rate * scale)
    whole, curve = moments(), []
    for _ in range(settings.steps):
        loss = (embed_condensed(features, stage, whole) - vectors).pow(2).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.append(float(loss.detach()))
    return features.detach(), curve


def embed_condensed(features: Tensor, stage: StageOne, moments: list[tuple[Tensor, Tensor]]) -> Tensor:
    """GNN_θ'(X', A' = I), standardised with the whole graph's moments: [K, Σd]."""
    hidden = [encoder(features, None) for encoder in stage.encoders]
    hidden = [(part - mean) / scale for part, (mean, scale) in zip(hidden, moments, strict=True)]
    return unit_blocks(torch.cat(hidden, dim=1), stage.blocks)


@torch.no_grad()
def _moments(stage: StageOne, inputs: Inputs) -> list[tuple[Tensor, Tensor]]:
    """Mean and scale of every embedding column over the whole graph; (0, 1) where embeddings stay as they are."""
    if not stage.standardized:
        device = inputs.device
        return [(torch.zeros(w, device=device), torch.ones(w, device=device)) for w in stage.blocks]
    hidden = [encoder(inputs.x, inputs.adjacency) for encoder in stage.encoders]
    return [(part.mean(0), part.std(0) + 1e-6) for part in hidden]
