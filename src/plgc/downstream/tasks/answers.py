"""Predicted probabilities of nodes whose classes are known: scores, scores by class, confusion and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.downstream.tasks.metrics import accuracy, auroc, macro_f1
from plgc.graphs.attributes import attribute
from plgc.graphs.load import node_labels
from plgc.runtime.errors import LabelError, SettingError

PARTS = ("train", "val", "test")
BINS = 10  # of the predicted probability


@dataclass(frozen=True)
class Answers:
    """Predictions for some nodes.

    Attributes:
        nodes: their numbers, [n].
        truth: their classes, [n].
        probability: of every class, [n, C].
    """

    nodes: Tensor
    truth: Tensor
    probability: Tensor

    @property
    def predicted(self) -> Tensor:
        """The most likely class of every node, [n]."""
        return self.probability.argmax(dim=1)

    @property
    def right(self) -> Tensor:
        """Which answers are right, bool [n]."""
        return self.predicted == self.truth

    def metrics(self) -> dict[str, float]:
        """Accuracy and macro-F1 (0–100) and, for two classes, AUROC (0–1)."""
        found = {"accuracy": accuracy(self.predicted, self.truth), "macro_f1": macro_f1(self.predicted, self.truth)}
        if self.probability.shape[1] == 2:
            found["auroc"] = auroc(self.probability[:, 1], self.truth == 1)
        return found


def answers_on(probability: Tensor, graph: Data, on: str) -> Answers:
    """The answers for one part of a graph's split."""
    if on not in PARTS:
        raise SettingError(f"on is {on!r}: choose {', '.join(PARTS[:-1])} or {PARTS[-1]}")
    y = node_labels(graph)
    nodes = (graph[f"{on}_mask"] & (y >= 0)).nonzero().flatten()
    if nodes.numel() == 0:
        raise LabelError(f"the graph has no labelled {on} nodes to evaluate on")
    return Answers(nodes, y[nodes], probability[nodes])


def joined(parts: Sequence[Answers]) -> Answers:
    """The answers of several folds, or seeds, one after the other."""
    columns = zip(*((one.nodes, one.truth, one.probability) for one in parts), strict=True)
    return Answers(*map(torch.cat, columns))


def describe_answers(seeds: Sequence[Answers], graph: Data) -> dict[str, Any]:
    """What scores rest on and what they hide, as plain values: nodes, every class, confusion and calibration.

    Answers of all seeds are counted together; ``nodes`` counts a node once.
    """
    answers, names = joined(seeds), attribute(graph, "class_names")
    width = answers.probability.shape[1]
    counts = torch.bincount(answers.truth * width + answers.predicted, minlength=width * width).view(width, width)
    return {
        "nodes": len(answers.nodes.unique()),
        "classes": [
            {
                "class": place if names is None else names[place],
                "nodes": len(answers.nodes[answers.truth == place].unique()),
                **_class_scores(counts, place),
            }
            for place in range(width)
        ],
        "confusion": counts.tolist(),
        "calibration": calibration(answers),
    }


def _class_scores(counts: Tensor, place: int) -> dict[str, float | None]:
    """Precision, recall and F1 of a class, 0–100, from counts [truth, prediction]; None where nothing is counted."""
    right, given, there = (int(value) for value in (counts[place, place], counts[:, place].sum(), counts[place].sum()))
    shares = {"precision": given, "recall": there, "f1": (given + there) / 2}
    return {name: 100 * right / total if total else None for name, total in shares.items()}


def calibration(answers: Answers) -> dict[str, Any]:
    """The expected calibration error, 0–100: Σ_b n_b / n · |accuracy_b − confidence_b| over ten equal bins.

    Confidence is the probability of the predicted class (Guo et al., 2017). Bins without answers are left out.
    """
    confidence, right = answers.probability.max(dim=1).values.double(), answers.right.double()
    place = (confidence * BINS).ceil().long().clamp(1, BINS) - 1  # the upper end belongs to a bin
    bins = []
    for number in place.unique().tolist():
        own = place == number
        means = {"confidence": 100 * float(confidence[own].mean()), "accuracy": 100 * float(right[own].mean())}
        bins.append({**means, "answers": int(own.sum())})
    gaps = [one["answers"] * abs(one["accuracy"] - one["confidence"]) for one in bins]
    return {"ece": sum(gaps) / len(right), "bins": bins}
