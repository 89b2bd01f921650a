"""Labels that may be used: by a supervised condensation, perhaps with noise, and by a head that is trained.

Label-free methods never get :class:`TrainingLabels`. Supervised ones get labels in no other way: the graph that they
are given has none.
"""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.attributes import attribute
from plgc.graphs.check import MASKS
from plgc.graphs.load import node_labels, num_classes
from plgc.graphs.views.noise import flip_labels
from plgc.graphs.views.splits import draw_labels, draw_shots, generated_split, label_folds, labels_present
from plgc.runtime.errors import LabelError, SettingError

MANY = 2000  # labels: from so many on, one fold of a repetition is enough
NOTHING_HELD_OUT = (
    "no label can be held out, so accuracy cannot be estimated: that takes two labels of a class, and more labels than "
    "are drawn"
)


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


def has_own_split(graph: Data) -> bool:
    """Whether the masks are the graph's own, and not those that loading it has generated from its labels."""
    if not attribute(graph, "split_generated", False):
        return True
    generated = generated_split(node_labels(graph), attribute(graph, "split_seed", 0))
    return any(not torch.equal(graph[key], mask) for key, mask in zip(MASKS, generated, strict=True))


def with_every_label(graph: Data) -> Data:
    """A graph without a split of its own, with every labelled node for training; another graph as it is."""
    if has_own_split(graph):
        return graph
    known = node_labels(graph) >= 0
    return _with_masks(graph, known, torch.zeros_like(known), f"no split of its own: {labels_text(graph, known)}")


def cross_validation(graph: Data, shots: int | None, labels: int | None, seed: int) -> list[Data]:
    """Graphs with masks for one repetition of cross-validation over every label: train, and test what was held out.

    With ``shots`` or ``labels`` there is one: so many labels are drawn, and the others are held out. Of very many
    labels, one fold is enough. The list is empty where nothing can be held out: no class has two labels, or all are
    drawn.
    """
    whole = with_every_label(graph)
    y, known = node_labels(whole), whole["train_mask"] & (node_labels(whole) >= 0)
    if shots is not None or labels is not None:
        learned = torch.zeros_like(known)
        learned[choose_labels(whole, shots, labels, seed)[0]] = True
        held_out = [(known & ~learned).nonzero().flatten()]
    else:
        folds = label_folds(torch.where(known, y, -1), seed)
        held_out = folds[:1] if int(known.sum()) >= MANY else folds
    found = []
    for nodes in held_out:
        test = torch.zeros_like(known)
        test[nodes] = True
        found.append(_with_masks(graph, known & ~test, test, "cross-validation"))
    return [one for one in found if bool(one["test_mask"].any())]


def labels_text(graph: Data, nodes: Tensor) -> str:
    """How many labels these nodes (a mask, or numbers) have: "all 12 labels, 3 classes", or "9 of 12 labels, …"."""
    y = node_labels(graph)
    own, every = y[nodes], int((y >= 0).sum())
    count, classes = int((own >= 0).sum()), len(labels_present(own))
    share = f"all {every}" if count == every else f"{count} of {every}"
    return f"{share} labels, {classes} {'class' if classes == 1 else 'classes'}"


def check_classes(y: Tensor, graph: Data) -> None:
    """Raise where labels to learn from are of one class."""
    if len(present := labels_present(y)) == 1:
        names = attribute(graph, "class_names")
        raise one_class(int((y >= 0).sum()), present[0] if names is None else names[present[0]])


def one_class(count: int, which: object) -> LabelError:
    """The error on labels that are all the same."""
    return LabelError(
        f"all {count} labels to learn from are of one class ({which}): there is nothing to tell apart, give labels of "
        "two classes or more"
    )


def choose_labels(graph: Data, shots: int | None, labels: int | None, seed: int) -> tuple[Tensor, bool]:
    """Which nodes' labels to train a head on, and whether validation labels may be used (full labels only)."""
    if shots is not None and labels is not None:
        raise SettingError(f"give shots or labels, not both (got shots={shots}, labels={labels})")
    y = node_labels(graph)
    if "train_mask" not in graph:
        raise LabelError("the graph has no training mask: load it with plgc.load_graph, which makes one")
    try:
        if shots is not None:
            return draw_shots(y, graph["train_mask"], shots, seed, attribute(graph, "class_names")), False
        if labels is not None:
            return draw_labels(y, graph["train_mask"], labels, seed), False
    except LabelError as error:
        if not attribute(graph, "split_generated", False):
            raise
        kept = "the generated split keeps labels back to validate and test; a model from 'plgc train' uses every label"
        raise LabelError(f"{error} ({kept})") from error
    labelled = ((y >= 0) & graph["train_mask"]).nonzero().flatten()
    if len(labelled) == 0:
        raise LabelError("none of the graph's training nodes has a label")
    return labelled, bool((graph["val_mask"] & (y >= 0)).any())


def _with_masks(graph: Data, train: Tensor, test: Tensor, origin: str) -> Data:
    """The graph with other masks and no validation nodes, sharing all other tensors."""
    data = copy.copy(graph)
    data.train_mask, data.val_mask, data.test_mask = train, torch.zeros_like(train), test
    data.split_origin, data.split_generated = origin, None
    return data
