"""Label shift: training labels with a long tail, test nodes balanced over the classes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.load import node_labels
from plgc.graphs.views.splits import labels_present
from plgc.runtime.errors import LabelError, SettingError

LARGEST = 100  # training labels of the most frequent class


def long_tailed(graph: Data, imbalance: float, seed: int, largest: int = LARGEST) -> Data:
    """Return the graph with other masks: long-tailed training labels, no validation, a balanced test set.

    The classes are put in random order; the r-th of C gets ``largest`` · imbalance^(−r / (C − 1)) training labels,
    drawn from all nodes that are not test nodes. Of the test nodes, as many of every class are kept as its rarest
    class has, so that a method cannot score by knowing which class is frequent.

    Args:
        graph: a labelled graph with masks.
        imbalance: how many times more labels the largest class has than the smallest; 1 is balanced.
        seed: of the order of the classes and of the draws.
        largest: training labels of the largest class; a class with fewer nodes gives all it has.
    """
    if not imbalance >= 1:
        raise SettingError(f"imbalance is {imbalance}: it must be at least 1")
    y, test = node_labels(graph), graph["test_mask"]
    classes = labels_present(y)
    generator = torch.Generator().manual_seed(seed)
    ranks = torch.randperm(len(classes), generator=generator).tolist()
    rarest = min(int(((y == label) & test).sum()) for label in classes)
    if rarest == 0:
        missing = next(label for label in classes if not bool(((y == label) & test).any()))
        raise LabelError(f"class {missing} has no test nodes: the test set cannot be balanced")
    train, balanced = torch.zeros_like(test), torch.zeros_like(test)
    for label, rank in zip(classes, ranks, strict=True):
        count = round(largest * imbalance ** (-rank / max(1, len(classes) - 1)))
        train[_shuffled((y == label) & ~test, generator)[: max(1, count)]] = True
        balanced[_shuffled((y == label) & test, generator)[:rarest]] = True
        if not bool((train & (y == label)).any()):
            raise LabelError(f"class {label} has no nodes outside the test set: nothing to train on")
    shifted = graph.clone()
    shifted.train_mask, shifted.test_mask, shifted.val_mask = train, balanced, torch.zeros_like(test)
    shifted.split_origin = f"long-tailed labels, imbalance {imbalance:g}, seed {seed}"
    return shifted


def _shuffled(mask: Tensor, generator: torch.Generator) -> Tensor:
    members = mask.nonzero().flatten()
    return members[torch.randperm(members.numel(), generator=generator)]
