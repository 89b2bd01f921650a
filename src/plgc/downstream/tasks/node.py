"""Node classification: train a head on a frozen backbone with a few clean labels, score it, predict."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from plgc.downstream.backbone import Backbone, unit_parts
from plgc.downstream.head import Head, HeadSettings, fit_head
from plgc.downstream.model_file import save_model
from plgc.downstream.names import NAMELESS, Names
from plgc.downstream.tasks.metrics import accuracy, auroc, macro_f1
from plgc.graphs.labels import choose_labels
from plgc.graphs.load import node_labels, num_classes
from plgc.runtime.errors import LabelError, SettingError
from plgc.sparse.inputs import Inputs

FORMAT = "plgc-node-model"


@dataclass(frozen=True)
class NodeModel:
    """A frozen backbone with a trained head, and the names of what it learned."""

    backbone: Backbone
    head: Head
    names: Names = NAMELESS

    def predict_proba(self, graph: Data) -> Tensor:
        """Class probabilities of every node, [N, C].

        Raises:
            GraphError: the graph's feature columns are not those the model learned from.
        """
        self.names.check(graph)
        inputs = self.backbone.prepare(graph)
        return self.head.probabilities(self.backbone.embed(inputs), inputs.adjacency).cpu()

    def predict(self, graph: Data) -> Tensor:
        """The most likely class of every node, [N]."""
        return self.predict_proba(graph).argmax(dim=1)

    def evaluate(self, graph: Data, on: str = "test") -> dict[str, float]:
        """Accuracy and macro-F1 (0–100) and, for two classes, AUROC (0–1) on ``test``, ``val`` or ``train`` nodes."""
        self.names.check_classes(graph)
        return score_nodes(self.predict_proba(graph), graph, on)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model as one safetensors file, whole or not at all."""
        head = {"weight": self.head.weight, "bias": self.head.bias, "mean": self.head.mean}
        return save_model(path, FORMAT, self.backbone, head, asdict(self.head.settings), self.names)

    @staticmethod
    def from_file(backbone: Backbone, head: dict[str, Tensor], settings: dict[str, Any], names: Any) -> NodeModel:
        """Put together what :meth:`save` wrote; raises ValueError where the parts do not fit."""
        width = sum(backbone.parts)
        weight, bias, mean = (head[name] for name in ("weight", "bias", "mean"))
        if weight.shape != (width, bias.numel()) or mean.shape != (width,):
            raise ValueError(f"the head has shape {tuple(weight.shape)}, the backbone gives {width} columns")
        kept = Names.from_header(names, backbone.num_features, bias.numel())
        return NodeModel(backbone, Head(weight, bias, mean, backbone.parts, HeadSettings(**settings)), kept)


def fit_labels(
    embedding: Tensor,
    parts: tuple[int, ...],
    inputs: Inputs,
    graph: Data,
    *,
    shots: int | None = None,
    labels: int | None = None,
    seed: int = 0,
    settings: HeadSettings | None = None,
) -> Head:
    """Train the head on any embedding of a graph's nodes, with the labels that ``shots`` or ``labels`` allow."""
    labelled, validate = choose_labels(graph, shots, labels, seed)
    return fit_head_on(embedding, parts, inputs, graph, labelled, validate, settings)


def fit_head_on(
    embedding: Tensor,
    parts: tuple[int, ...],
    inputs: Inputs,
    graph: Data,
    labelled: Tensor,
    validate: bool,
    settings: HeadSettings | None = None,
) -> Head:
    """Train the head on the labels of these nodes; with ``validate`` keep the best epoch by validation labels."""
    y = node_labels(graph).to(embedding.device)
    val = graph["val_mask"].to(embedding.device) & (y >= 0)

    everyone = unit_parts(embedding, embedding.mean(0), parts) if validate else embedding

    def score(head: Head) -> float:
        predicted = head.answers(everyone, inputs.adjacency).argmax(1)
        return float((predicted[val] == y[val]).float().mean())

    rows = labelled.to(embedding.device)
    return fit_head(embedding, parts, rows, y, num_classes(graph), settings, score if validate else None)


def score_nodes(probability: Tensor, graph: Data, on: str) -> dict[str, float]:
    """Accuracy, macro-F1 and (two classes) AUROC of predicted probabilities on one part of a graph's split."""
    if on not in ("train", "val", "test"):
        raise SettingError(f"on is {on!r}: choose train, val or test")
    y = node_labels(graph)
    mask = graph[f"{on}_mask"] & (y >= 0)
    if not bool(mask.any()):
        raise LabelError(f"the graph has no labelled {on} nodes to evaluate on")
    predicted, truth = probability.argmax(dim=1)[mask], y[mask]
    result = {"accuracy": accuracy(predicted, truth), "macro_f1": macro_f1(predicted, truth)}
    if probability.shape[1] == 2:
        result["auroc"] = auroc(probability[mask, 1], truth == 1)
    return result
