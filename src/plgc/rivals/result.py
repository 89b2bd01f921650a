"""What a supervised method leaves behind: a condensed graph with labels, and edges where it has learned any."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.graphs.labels import TrainingLabels
from plgc.graphs.seen import Seen, seen_of
from plgc.graphs.views.inductive import training_split
from plgc.sparse.inputs import fingerprint


def labelled_artifact(
    graph: Data,
    bare: Data,
    labels: TrainingLabels,
    *,
    method: str,
    features: Tensor,
    node_labels: Tensor,
    counts: Tensor,
    scaling: str,
    seed: int,
    requested: int,
    edge_index: Tensor | None = None,
    edge_weight: Tensor | None = None,
    settings: Mapping[str, Any] | None = None,
    curves: Mapping[str, list[float]] | None = None,
    chosen: Mapping[str, Any] | None = None,
) -> CondensedGraph:
    """Put a supervised method's result into the file format that all methods share.

    Args:
        graph: what was handed to the method; what it shows (``seen``) and its split are recorded.
        bare: the same as features and edges alone, as :func:`plgc.load_graph` brings it to form.
        labels: the training labels the method was given.
        method: its name.
        features: X', row-scaled as the graph's were, [K, f].
        node_labels: classes [K] (−1: none) or soft labels [K, C].
        counts: how many original nodes each stands for, [K].
        scaling: the row scaling.
        seed: of the run.
        requested: how many nodes were asked for.
        edge_index: A', both directions; None for A' = I.
        edge_weight: of the edges.
        settings: the method's own settings, as plain values.
        curves: losses by name.
        chosen: what was chosen on the way, as plain values.
    """
    assert bare.x is not None
    assert bare.edge_index is not None
    assert bare.num_nodes is not None
    # These labels are part of the file: it may only be scored on the split that they come from.
    split = {} if graph._store.get("train_mask") is None else training_split(graph)
    return CondensedGraph(
        features=features.detach().cpu(),
        pseudo_labels=None,
        counts=counts.cpu(),
        blocks=(),
        scaling=scaling,
        seed=seed,
        threads=torch.get_num_threads(),
        settings={
            "method": method,
            "training_labels": labels.train.numel(),
            "label_noise": labels.noise,
            **json.loads(json.dumps(dict(settings or {}))),
        },
        nodes_requested=requested,
        source={"nodes": bare.num_nodes, "edges": bare.edge_index.shape[1], "features": bare.x.shape[1]},
        chosen=dict(chosen or {}),
        curves={name: list(values) for name, values in (curves or {}).items()},
        fingerprint=fingerprint(bare),
        method=method,
        seen=Seen.from_dict({**split, **seen_of(graph).to_dict()}),
        labels=node_labels.detach().cpu(),
        num_classes=labels.classes,
        edge_index=edge_index,
        edge_weight=edge_weight,
    )
