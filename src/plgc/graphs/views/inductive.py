"""Inductive subgraphs: condensation is given the training nodes alone, evaluation the other nodes too."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.attributes import Seen, attribute, seen_of
from plgc.graphs.derive import derived_of
from plgc.graphs.features import take_rows
from plgc.graphs.views.edges import edge_blocks
from plgc.runtime.errors import GraphError, SettingError

PER_NODE = ("y", "y_multi", "train_mask", "val_mask", "test_mask", "core_mask", "time")


def training_subgraph(graph: Data) -> Data:
    """Return the subgraph induced by the training nodes, for an inductive condensation.

    ``seen`` of the result records that, and :func:`plgc.condense` writes it into its file.

    Raises:
        GraphError: the graph has no training nodes.
        SettingError: its features are derived from all edges, also from those of other nodes.
    """
    if derived_of(graph) is not None:
        raise SettingError(
            "the features are derived from all edges, those of nodes that must not be seen among them: an inductive "
            "cut needs features of the nodes' own"
        )
    mask = _training_mask(graph)
    cut = induced_subgraph(graph, mask)
    cut.val_mask, cut.test_mask = torch.zeros_like(cut.train_mask), torch.zeros_like(cut.train_mask)
    cut.split_origin = f"{attribute(graph, 'split_origin', 'own masks')}, training nodes only"
    cut.seen = Seen(nodes="train", preprocessing=seen_of(graph).preprocessing, **training_split(graph))
    return cut


def unseen_subgraph(graph: Data) -> Data:
    """Return the subgraph induced by all nodes except the training nodes, which no inductive method is given."""
    rest = ~_training_mask(graph)
    if not bool(rest.any()):
        raise GraphError("every node of the graph is a training node: nothing is left unseen")
    return induced_subgraph(graph, rest)


def induced_subgraph(graph: Data, mask: Tensor) -> Data:
    """Return the nodes of a mask, renumbered in order, with the edges among them and all their attributes."""
    assert graph.edge_index is not None
    kept = mask.nonzero().flatten()
    number = torch.full((mask.numel(),), -1, dtype=torch.int64)
    number[kept] = torch.arange(kept.numel())
    ends, weights, weight = [], [], attribute(graph, "edge_weight")
    for place, edges in edge_blocks(graph.edge_index):
        renumbered = number[edges]
        inside = (renumbered >= 0).all(dim=0)
        ends.append(renumbered[:, inside])
        weights.append(None if weight is None else weight[place][inside])
    cut = Data(edge_index=torch.cat(ends, 1) if ends else number.new_empty(2, 0), num_nodes=kept.numel())
    cut.x = None if graph.x is None else take_rows(graph.x, kept)
    if weight is not None:
        cut.edge_weight = torch.cat(weights) if weights else weight
    for key in PER_NODE:
        if key in graph:
            cut[key] = graph[key][kept]
    for key in ("class_names", "feature_names"):
        if key in graph:
            cut[key] = list(graph[key])
    if "node_ids" in graph:
        cut.node_ids = [graph["node_ids"][node] for node in kept.tolist()]
    cut.name = attribute(graph, "name", "graph")
    cut.split_origin = attribute(graph, "split_origin", "own masks")
    return cut


def training_split(graph: Data) -> dict[str, Any]:
    """The split as a file records it: a fingerprint of the training nodes, and how :func:`plgc.load_graph` finds it."""
    return {
        "training_nodes": training_digest(graph),
        "split": attribute(graph, "split_index", 0),
        "split_seed": attribute(graph, "split_seed", 0),
    }


def training_digest(graph: Data) -> str:
    """A short fingerprint of the set of training nodes, to tell whether two splits are the same."""
    return hashlib.sha256(_training_mask(graph).to(torch.uint8).numpy().tobytes()).hexdigest()[:16]


def _training_mask(graph: Data) -> Tensor:
    mask = attribute(graph, "train_mask")
    if mask is None or graph.edge_index is None or not bool(mask.any()):
        raise GraphError("the graph has no training nodes (train_mask is missing or empty): set one, or use all nodes")
    return mask
