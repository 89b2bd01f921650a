"""Node classification: fine-tune a head on a frozen backbone with a few clean labels, evaluate, predict, save."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor
from torch_geometric.data import Data

from plgc._version import __version__
from plgc.artifact import read_safetensors
from plgc.backbone import Backbone, BackboneSettings
from plgc.errors import ArtifactError, LabelError, PLGCError, SettingError
from plgc.files import write_atomically
from plgc.graphs.load import node_labels, num_classes
from plgc.graphs.splits import draw_labels, draw_shots
from plgc.inputs import Inputs
from plgc.tasks.head import Head, HeadSettings, fit_head
from plgc.tasks.metrics import accuracy, auroc, macro_f1

FORMAT = "plgc-node-model"
SCHEMA = 1


@dataclass(frozen=True)
class NodeModel:
    """A frozen backbone with a trained head."""

    backbone: Backbone
    head: Head

    def predict_proba(self, graph: Data) -> Tensor:
        """Class probabilities of every node, [N, C]."""
        inputs = self.backbone.prepare(graph)
        return self.head.probabilities(self.backbone.embed(inputs), inputs.adjacency).cpu()

    def predict(self, graph: Data) -> Tensor:
        """The most likely class of every node, [N]."""
        return self.predict_proba(graph).argmax(dim=1)

    def evaluate(self, graph: Data, on: str = "test") -> dict[str, float]:
        """Accuracy and macro-F1 (0–100) and, for two classes, AUROC (0–1) on ``test``, ``val`` or ``train`` nodes."""
        return score_nodes(self.predict_proba(graph), graph, on)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model as one safetensors file, whole or not at all."""
        header = {
            "format": FORMAT,
            "schema": SCHEMA,
            "version": __version__,
            "backbone": asdict(self.backbone.settings),
            "num_features": self.backbone.num_features,
            "blocks": list(self.backbone.blocks),
            "scaling": self.backbone.scaling,
            "seed": self.backbone.seed,
            "head": asdict(self.head.settings),
        }
        tensors = {f"backbone.{name}": value for name, value in self.backbone.state_dict().items()}
        tensors |= {"head.weight": self.head.weight, "head.bias": self.head.bias, "head.mean": self.head.mean}
        tensors = {name: value.cpu().contiguous() for name, value in tensors.items()}
        return write_atomically(path, save(tensors, {"plgc": json.dumps(header, sort_keys=True)}))


def load_model(path: str | os.PathLike[str]) -> NodeModel:
    """Open a model made by :meth:`NodeModel.save`; anything else is refused with the reason."""
    tensors, header = read_safetensors(path, FORMAT, SCHEMA)
    try:
        return _model_from(tensors, header)
    except (KeyError, TypeError, ValueError, RuntimeError, PLGCError) as error:
        raise ArtifactError(f"{path} is damaged: {error}") from error


def _model_from(tensors: dict[str, Tensor], header: dict[str, Any]) -> NodeModel:
    settings = BackboneSettings(**header["backbone"])
    blocks = tuple(int(width) for width in header["blocks"])
    backbone = Backbone(settings, int(header["num_features"]), blocks, str(header["scaling"]), int(header["seed"]))
    prefix = "backbone."
    backbone.load_state_dict({k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)})
    weight, bias, mean = (tensors[f"head.{name}"] for name in ("weight", "bias", "mean"))
    width = sum(backbone.parts)
    if weight.shape != (width, bias.numel()) or mean.shape != (width,):
        raise ValueError(f"the head has shape {tuple(weight.shape)}, the backbone gives {width} columns")
    if not all(torch.isfinite(tensor).all() for tensor in tensors.values()):
        raise ValueError("it holds NaN or infinite values")
    head = Head(weight, bias, mean, backbone.parts, HeadSettings(**header["head"]))
    return NodeModel(backbone.requires_grad_(False).eval(), head)


def finetune(
    backbone: Backbone,
    graph: Data,
    *,
    task: str = "node",
    shots: int | None = None,
    labels: int | None = None,
    seed: int = 0,
    settings: HeadSettings | None = None,
) -> NodeModel:
    """Train a light head on a frozen backbone (section 3.2 b).

    Args:
        backbone: from :func:`plgc.reconstruct`.
        graph: a labelled graph with masks; only labels of training nodes are used (and of validation nodes, to keep
            the best epoch, when all training labels are used).
        task: ``node``.
        shots: use this many labels per class, drawn from the training nodes; no validation labels.
        labels: use this many labels in all, class-balanced, at least one per class; no validation labels.
        seed: of the draw.
        settings: how the head is trained.
    """
    if task != "node":
        raise SettingError(f"unknown task {task!r}: choose node")
    inputs = backbone.prepare(graph)
    head = fit_labels(
        backbone.embed(inputs), backbone.parts, inputs, graph, shots=shots, labels=labels, seed=seed, settings=settings
    )
    return NodeModel(backbone, head)


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

    def score(head: Head) -> float:
        predicted = head.probabilities(embedding, inputs.adjacency).argmax(1)
        return float((predicted[val] == y[val]).float().mean())

    rows = labelled.to(embedding.device)
    return fit_head(embedding, parts, rows, y, num_classes(graph), settings, score if validate else None)


def choose_labels(graph: Data, shots: int | None, labels: int | None, seed: int) -> tuple[Tensor, bool]:
    """Which nodes' labels to train on, and whether validation labels may be used (full labels only)."""
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
