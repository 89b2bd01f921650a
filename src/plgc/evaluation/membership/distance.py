"""Distances of candidates to what a file holds: closer means member."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.backbone import propagated_features
from plgc.sparse.inputs import Inputs

NEAREST = 5  # a shadow classifier is given the distances to so many synthetic nodes in every space


def distance_scores(
    condensed: CondensedGraph, inputs: Inputs, embedding: Tensor | None, synthetic: Tensor | None
) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Scores by name, [N] each, and the few smallest distances of every node in every space.

    ``features``: nearest x'_k to the node's own row; ``propagated``: to its row of Â²X; ``pseudo_labels``: nearest ỹ_k
    to its embedding z by the rebuilt backbone; ``embedded``: nearest embedding of an x'_k; ``reconstruction_loss``:
    ‖z − ỹ_k‖² for the x'_k nearest to its row of Â²X, which the backbone's training makes small for members.

    Args:
        condensed: the file.
        inputs: the candidates.
        embedding: of the candidates, [N, d]; None where the file has no pseudo-labels.
        synthetic: that of the synthetic nodes, [K, d].
    """
    features = condensed.features.to(inputs.device)
    steps = {"features": 0, "propagated": 2}
    spaces = {name: distances(propagated_features(inputs, count), features) for name, count in steps.items()}
    scores: dict[str, Tensor] = {}
    if embedding is not None and synthetic is not None and condensed.pseudo_labels is not None:
        spaces["pseudo_labels"] = distances(embedding, condensed.pseudo_labels.to(inputs.device))
        spaces["embedded"] = distances(embedding, synthetic)
        own = spaces["propagated"].argmin(1, keepdim=True)
        scores["reconstruction_loss"] = -spaces["pseudo_labels"].gather(1, own).flatten().square().cpu()
    nearest = {name: smallest(space) for name, space in spaces.items()}
    return scores | {name: -rows[:, 0] for name, rows in nearest.items()}, list(nearest.values())


def distances(points: Tensor, centres: Tensor) -> Tensor:
    """Euclidean distances, [N, K]; in double precision, since those of members may be tiny."""
    points, centres = points.double(), centres.double()
    square = points.square().sum(1)[:, None] + centres.square().sum(1) - 2 * points @ centres.t()
    return square.clamp(min=0).sqrt()


def smallest(space: Tensor) -> Tensor:
    """The few smallest distances of every node, in order, [N, NEAREST]; the last one repeated where K is smaller."""
    found = space.topk(min(NEAREST, space.shape[1]), dim=1, largest=False).values.cpu()
    return F.pad(found, (0, NEAREST - found.shape[1]), mode="replicate") if found.shape[1] < NEAREST else found
