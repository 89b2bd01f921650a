"""Labels that may be used: by a supervised condensation, perhaps with noise, and by a head that is trained.

Label-free methods never get :class:`TrainingLabels`. Supervised ones get labels in no other way: the graph that they
are given has none.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.load import node_labels, num_classes
from plgc.graphs.views.noise import flip_labels
from plgc.graphs.views.splits import draw_labels, draw_shots
from plgc.runtime.errors import LabelError, SettingError


@dataclass(frozen=True)
class TrainingLabels:
    """Labels by node, −1 where a label is withheld.

    Attributes:
        y: [N], −1 but for the nodes of ``train`` and ``val``.
        train: indices of the nodes to train on.
        val: indices of the nodes to validate on; empty where the protocol has no validation labels.
        classes: C.
        noise: share of wrong labels among them, 0 to 1.
    """

    y: Tensor
    train: Tensor
    val: Tensor
    classes: int
    noise: float = 0.0

    def digest(self) -> str:
        """A short fingerprint, to tell whether two runs were given the same labels."""
        content = b"".join(part.numpy().tobytes() for part in (self.y, self.train, self.val))
        return hashlib.sha256(content).hexdigest()[:16]


def training_labels(
    graph: Data, *, train: Tensor | None = None, validate: bool = True, noise: float = 0.0, seed: int = 0
) -> TrainingLabels:
    """Hide every label but those of training and validation nodes, and flip a share of what is left.

    Args:
        graph: a labelled graph with masks.
        train: indices of the training nodes; by default all that ``train_mask`` names.
        validate: whether validation labels are given too.
        noise: share of the labels to flip, in training and validation alike
            (:func:`plgc.graphs.views.noise.flip_labels`).
        seed: of the flips.
    """
    y, classes = node_labels(graph), num_classes(graph)
    chosen = ((y >= 0) & graph["train_mask"]).nonzero().flatten() if train is None else train
    if chosen.numel() == 0:
        raise LabelError("none of the graph's training nodes has a label: supervised methods cannot learn from it")
    val = ((y >= 0) & graph["val_mask"]).nonzero().flatten() if validate else chosen.new_empty(0)
    shown = torch.full_like(y, -1)
    shown[chosen] = flip_labels(y[chosen], noise, classes, seed)
    shown[val] = flip_labels(y[val], noise, classes, seed + 1)
    return TrainingLabels(shown, chosen, val, classes, noise)


def choose_labels(graph: Data, shots: int | None, labels: int | None, seed: int) -> tuple[Tensor, bool]:
    """Which nodes' labels to train a head on, and whether validation labels may be used (full labels only)."""
    if shots is not None and labels is not None:
        raise SettingError(f"give shots or labels, not both (got shots={shots}, labels={labels})")
    y = node_labels(graph)
    if "train_mask" not in graph:
        raise LabelError("the graph has no training mask: load it with plgc.load_graph, which makes one")
    if shots is not None:
        return draw_shots(y, graph["train_mask"], shots, seed), False
    if labels is not None:
        return draw_labels(y, graph["train_mask"], labels, seed), False
    labelled = ((y >= 0) & graph["train_mask"]).nonzero().flatten()
    if len(labelled) == 0:
        raise LabelError("none of the graph's training nodes has a label")
    return labelled, bool((graph["val_mask"] & (y >= 0)).any())
