from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import plgc
from plgc.graphs import (
    TrainingLabels,
    citation_graph,
    load_graph,
    training_edges,
    training_labels,
    training_subgraph,
)
from plgc.graphs.views.inductive import training_digest
from plgc.rivals import condensers
from plgc.rivals.condensers import class_output, condense_by_choice, condense_by_coarsening
from plgc.runtime.errors import LabelError, SettingError
from plgc.sparse.inputs import prepare

NODES, KEPT = 150, 30
CHOICES = [("random", False), ("random", True), ("herding", False), ("herding", True), ("kcenter", True)]


@pytest.fixture(scope="module")
def graph() -> Data:
    """150 nodes with features that tell them apart and weights on the edges; shared, so no test may change it."""
    made = load_graph(citation_graph(nodes=NODES, classes=3, features=40))
    x = made["x"].to_dense()
    made.x = (x + 0.01 * torch.arange(1, NODES + 1)[:, None] * (torch.arange(40) == 0)).to_sparse_csr()
    row, column = made["edge_index"]
    made.edge_weight = 1 + 0.01 * torch.minimum(row, column) + 0.001 * torch.maximum(row, column)
    return made


@pytest.fixture(scope="module")
def labels(graph: Data) -> TrainingLabels:
    return training_labels(graph)


def scaled(graph: Data) -> Tensor:
    x = graph["x"].to_dense()
    return x / x.sum(1, keepdim=True)


def chosen_nodes(condensed: plgc.CondensedGraph, graph: Data) -> list[int]:
    """Which nodes of the graph they are, found by their features."""
    distance = torch.cdist(condensed.features, scaled(graph), compute_mode="donot_use_mm_for_euclid_dist")
    assert float(distance.min(1).values.max()) < 1e-6
    found = distance.argmin(1).tolist()
    assert len(set(found)) == len(found)
    return found


@pytest.mark.parametrize(("rule", "labelfree"), CHOICES)
def test_a_choice_keeps_training_nodes_their_labels_and_their_edges(
    rule: str, labelfree: bool, graph: Data, labels: TrainingLabels
) -> None:
    condensed = condense_by_choice(graph, labels, nodes=KEPT, seed=0, rule=rule, labelfree=labelfree, device="cpu")
    found = chosen_nodes(condensed, graph)
    assert len(found) == KEPT
    assert bool(graph["train_mask"][found].all())
    assert condensed.labels is not None
    assert condensed.labels.tolist() == graph["y"][found].tolist()
    assert condensed.counts.tolist() == [1] * KEPT
    weight = dict(zip(map(tuple, graph["edge_index"].T.tolist()), graph["edge_weight"].tolist(), strict=True))
    expected = {pair: w for pair, w in weight.items() if {*pair} <= {*found}}
    assert len(expected) > 2
    assert condensed.edge_index is not None
    assert condensed.edge_weight is not None
    edges = [(found[a], found[b]) for a, b in condensed.edge_index.T.tolist()]
    assert dict(zip(edges, condensed.edge_weight.tolist(), strict=True)) == expected
    assert condensed.method == (f"{rule}-labelfree" if labelfree else rule)
    assert condensed.settings == {"method": condensed.method, "training_labels": 52, "label_noise": 0.0}
    if not labelfree:
        counts = torch.bincount(graph["y"][labels.train])
        share = torch.bincount(graph["y"][found]) / counts
        assert float(share.max() - share.min()) < 0.1  # in proportion to the training labels


def test_random_choices_differ_by_seed(graph: Data, labels: TrainingLabels) -> None:
    first, second = (
        condense_by_choice(graph, labels, nodes=KEPT, seed=seed, rule="random", device="cpu") for seed in (0, 1)
    )
    assert chosen_nodes(first, graph) != chosen_nodes(second, graph)


def test_no_more_nodes_are_kept_than_have_labels(graph: Data, labels: TrainingLabels) -> None:
    few = training_labels(graph, train=labels.train[:7], validate=False)
    condensed = condense_by_choice(graph, few, nodes=KEPT, seed=0, rule="random", device="cpu")
    assert sorted(chosen_nodes(condensed, graph)) == labels.train[:7].tolist()
    assert (condensed.num_nodes, condensed.nodes_requested) == (7, KEPT)


def test_dense_features_without_weights(graph: Data, labels: TrainingLabels) -> None:
    plain = graph.clone()
    plain.x = graph["x"].to_dense()
    del plain.edge_weight
    condensed = condense_by_choice(plain, labels, nodes=KEPT, seed=0, rule="random", device="cpu")
    assert condensed.edge_weight is None
    with_weights = condense_by_choice(graph, labels, nodes=KEPT, seed=0, rule="random", device="cpu")
    assert torch.allclose(condensed.features, with_weights.features)
    assert torch.equal(condensed.edge_index, with_weights.edge_index)


def test_noise_is_written_down_and_kept(graph: Data) -> None:
    noisy = training_labels(graph, noise=1.0, seed=3)
    condensed = condense_by_choice(graph, noisy, nodes=KEPT, seed=0, rule="random", device="cpu")
    found = chosen_nodes(condensed, graph)
    assert condensed.labels is not None
    assert bool((condensed.labels != graph["y"][found]).all())
    assert condensed.settings["label_noise"] == 1.0


def test_coarsening(graph: Data, labels: TrainingLabels) -> None:
    condensed = condense_by_coarsening(graph, labels, nodes=KEPT, seed=5)
    assert condensed.counts.sum() == NODES
    assert int(condensed.counts.min()) >= 1
    assert condensed.seed == 5
    # mean features, weighted by size, are the mean of the graph
    mean = (condensed.features * condensed.counts[:, None]).sum(0) / NODES
    np.testing.assert_allclose(mean.numpy(), scaled(graph).mean(0).numpy(), atol=1e-6)
    assert condensed.edge_index is not None
    assert condensed.edge_weight is not None
    assert float(condensed.edge_weight.sum()) < float(graph["edge_weight"].sum())
    both = Counter(map(tuple, condensed.edge_index.T.tolist()))
    assert all(both[(b, a)] == 1 and a != b for a, b in both)
    other = condense_by_coarsening(graph, labels, nodes=KEPT, seed=6)
    assert torch.equal(other.features, condensed.features)  # nothing in it is random


def test_supernodes_without_training_nodes_have_no_label(graph: Data, labels: TrainingLabels) -> None:
    few = training_labels(graph, train=labels.train[:3], validate=False)
    condensed = condense_by_coarsening(graph, few, nodes=40, seed=0)
    assert condensed.labels is not None
    assert 1 <= int((condensed.labels >= 0).sum()) <= 3


# What a file is told


@pytest.mark.parametrize("rule", ["random", "coarsening"])
def test_the_file_says_whose_labels_it_has(rule: str, graph: Data, labels: TrainingLabels) -> None:
    def make(source: Data, given: TrainingLabels) -> plgc.CondensedGraph:
        if rule == "coarsening":
            return condense_by_coarsening(source, given, nodes=KEPT, seed=0)
        return condense_by_choice(source, given, nodes=KEPT, seed=0, rule=rule, device="cpu")

    numbered = graph.clone()
    numbered.split_index, numbered.split_seed = 2, 7
    split = {"training_nodes": training_digest(graph), "split": 2, "split_seed": 7}
    assert make(numbered, labels).seen == {"nodes": "all", "edges": "all", **split}
    edges = training_edges(numbered, 4)
    assert make(edges, training_labels(edges)).seen == {"nodes": "all", "edges": "train", "edge_seed": 4, **split}
    cut = training_subgraph(numbered)
    assert make(cut, training_labels(cut)).seen == {"nodes": "train", "edges": "all", **split}
    bare = Data(x=graph.x, edge_index=graph.edge_index, num_nodes=NODES)
    assert make(bare, labels).seen == {"nodes": "all", "edges": "all"}


# The GCN that herding and k-center look at


def test_class_output_is_log_probabilities(graph: Data, labels: TrainingLabels) -> None:
    output = class_output(prepare(graph, "l1"), labels, "l1", 0)
    assert output.shape == (NODES, 3)
    assert torch.allclose(output.exp().sum(1), torch.ones(NODES), atol=1e-5)
    assert float((output.argmax(1) == graph["y"])[labels.train].float().mean()) > 0.8


def test_validation_labels_choose_the_epoch_where_there_are_any(
    graph: Data, labels: TrainingLabels, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = []
    train = condensers.train_classifier

    def spy(*arguments, score, **rest):
        scores.append(score)
        return train(*arguments, score=score, **rest)

    monkeypatch.setattr(condensers, "train_classifier", spy)
    inputs = prepare(graph, "l1")
    class_output(inputs, replace(labels, val=labels.val[:0]), "l1", 0)
    assert scores == [None]
    class_output(inputs, labels, "l1", 0)
    model = train(inputs.x, inputs.adjacency, labels.train, labels.y[labels.train], 3, scaling="l1")
    predicted = model.probabilities(inputs).argmax(1)
    expected = float((predicted == graph["y"])[labels.val].float().mean())
    assert scores[1](model) == pytest.approx(expected)


# Refusals


def test_refusals(graph: Data, labels: TrainingLabels) -> None:
    with pytest.raises(SettingError, match="unknown rule 'best': choose random, herding, kcenter"):
        condense_by_choice(graph, labels, nodes=KEPT, seed=0, rule="best", device="cpu")
    with pytest.raises(LabelError, match="3 classes"):
        condense_by_choice(graph, labels, nodes=2, seed=0, rule="random", device="cpu")
    with pytest.raises(SettingError, match="count=0"):
        condense_by_choice(graph, labels, nodes=0, seed=0, rule="random", device="cpu")
    with pytest.raises(SettingError, match="count=151"):
        condense_by_coarsening(graph, labels, nodes=NODES + 1, seed=0)
