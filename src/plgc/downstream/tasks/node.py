"""Node classification: train a head on frozen embeddings with a few clean labels, and score predictions."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor
from torch_geometric.data import Data

from plgc.downstream.embedder import unit_parts
from plgc.downstream.head import Head, HeadSettings, fit_head
from plgc.downstream.tasks.metrics import accuracy, auroc, macro_f1
from plgc.graphs.load import node_labels, num_classes
from plgc.runtime.errors import LabelError, SettingError
from plgc.sparse.adjacency import Adjacency


def fit_head_on(
    embedding: Tensor,
    parts: Mapping[str, int],
    adjacency: Adjacency | None,
    graph: Data,
    labelled: Tensor,
    validate: bool,
    settings: HeadSettings | None = None,
) -> Head:
    """Train a head on the labels of the nodes ``labelled``; with ``validate`` keep the best epoch by validation labels.

    Both come from :func:`plgc.graphs.labels.choose_labels`. ``adjacency`` is the Â that smooths predictions; None for a
    head that sees no edges.
    """
    y = node_labels(graph).to(embedding.device)
    rows = unit_parts(embedding, embedding.mean(0), parts) if validate else embedding
    val = graph["val_mask"].to(embedding.device) & (y >= 0)

    def score(head: Head) -> float:
        predicted = head.of_rows(rows, adjacency).argmax(1)
        return float((predicted[val] == y[val]).float().mean())

    labelled = labelled.to(embedding.device)
    return fit_head(embedding, parts, labelled, y, num_classes(graph), settings, score if validate else None)


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
