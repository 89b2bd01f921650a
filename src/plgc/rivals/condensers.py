"""The simple rivals as condensers: real nodes chosen by one rule or another, or a coarsened graph, with their labels.

Each takes a graph without labels and, apart from it, the training labels it may use. Features are scaled row by row as
ours are, edges are those among the chosen nodes.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.backbone import propagated_features
from plgc.downstream.tasks.classifier import Classifier, train_classifier
from plgc.graphs.labels import TrainingLabels
from plgc.graphs.load import load_graph, unlabelled
from plgc.graphs.views.inductive import induced_subgraph
from plgc.rivals.coarsening import coarse_edges, coarse_features, coarse_labels, coarsen
from plgc.rivals.coreset import herding_nodes, kcenter_nodes, random_nodes
from plgc.rivals.result import labelled_artifact
from plgc.runtime.errors import SettingError
from plgc.sparse.inputs import Inputs, prepare, resolve_scaling, scale_rows

RULES = ("random", "herding", "kcenter")


def condense_by_choice(
    graph: Data, labels: TrainingLabels, *, nodes: int, seed: int, rule: str, labelfree: bool = False, device: str
) -> CondensedGraph:
    """Keep some of the training nodes, and the edges among them.

    Args:
        graph: features and edges.
        labels: the training labels; at most as many nodes are kept as have one.
        nodes: how many to keep.
        seed: of the random choice, or of the GCN whose output herding and k-center look at.
        rule: ``random``, ``herding`` or ``kcenter``.
        labelfree: choose among all training nodes alike, by propagated features; labels are only attached afterwards.
            Without it, every class gets its share, and herding and k-center look at the log-probabilities of a GCN
            trained on these labels, as the condensation papers' own code does.
        device: where to compute.
    """
    if rule not in RULES:
        raise SettingError(f"unknown rule {rule!r}: choose {', '.join(RULES)}")
    bare = load_graph(unlabelled(graph))
    assert bare.x is not None
    scaling = resolve_scaling(bare.x, "auto")
    y = None if labelfree else labels.y
    if rule == "random":
        chosen = random_nodes(labels.train, y, nodes, torch.Generator().manual_seed(seed))
    else:
        inputs = prepare(bare, scaling, device)
        seen = propagated_features(inputs) if labelfree else class_output(inputs, labels, scaling, seed)
        chosen = (herding_nodes if rule == "herding" else kcenter_nodes)(seen.cpu(), labels.train, y, nodes)
    mask = torch.zeros(labels.y.numel(), dtype=torch.bool)
    mask[chosen] = True
    kept = induced_subgraph(bare, mask)
    assert kept.x is not None
    assert kept.edge_index is not None
    features = scale_rows(kept.x.to(torch.float32), scaling)
    return labelled_artifact(
        graph,
        bare,
        labels,
        method=f"{rule}-labelfree" if labelfree else rule,
        features=features.to_dense() if features.layout == torch.sparse_csr else features,
        node_labels=labels.y[mask],
        counts=torch.ones(int(mask.sum()), dtype=torch.int64),
        edge_index=kept.edge_index,
        edge_weight=kept._store.get("edge_weight"),
        scaling=scaling,
        seed=seed,
        requested=nodes,
    )


def condense_by_coarsening(graph: Data, labels: TrainingLabels, *, nodes: int, seed: int) -> CondensedGraph:
    """Contract heavy edges until ``nodes`` supernodes are left; nothing in it is random, the seed is only recorded."""
    bare = load_graph(unlabelled(graph))
    assert bare.x is not None
    assert bare.edge_index is not None
    assert bare.num_nodes is not None
    scaling = resolve_scaling(bare.x, "auto")
    x = scale_rows(bare.x.to(torch.float32), scaling)
    weight = bare._store.get("edge_weight")
    group = coarsen(bare.edge_index, bare.num_nodes, nodes, edge_weight=weight, features=x)
    edge_index, edge_weight = coarse_edges(bare.edge_index, weight, group, nodes)
    return labelled_artifact(
        graph,
        bare,
        labels,
        method="coarsening",
        features=coarse_features(x, group, nodes),
        node_labels=coarse_labels(labels.y, labels.train, group, nodes, labels.classes),
        counts=torch.bincount(group, minlength=nodes),
        edge_index=edge_index,
        edge_weight=edge_weight,
        scaling=scaling,
        seed=seed,
        requested=nodes,
    )


def class_output(inputs: Inputs, labels: TrainingLabels, scaling: str, seed: int) -> Tensor:
    """Log-probabilities of every node from a GCN trained on these labels, the best epoch by validation if given."""
    device = inputs.device
    y, val = labels.y.to(device), labels.val.to(device)

    def score(model: Classifier) -> float:
        return float((model.probabilities(inputs).argmax(1)[val] == y[val]).float().mean())

    train = labels.train.to(device)
    model = train_classifier(
        inputs.x,
        inputs.adjacency,
        train,
        y[train],
        labels.classes,
        scaling=scaling,
        seed=seed,
        score=score if val.numel() else None,
    )
    return model.probabilities(inputs).clamp(min=1e-12).log()
