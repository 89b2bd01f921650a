"""The frame that rivals share: what a run is given, what its file says, and the old way to make such a file."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.downstream.tasks.classifier import ClassifierSettings
from plgc.graphs import TrainingLabels, training_edges, training_labels, training_subgraph, unlabelled
from plgc.graphs.bare import bare_graph
from plgc.graphs.views.inductive import training_digest
from plgc.rivals.frame import RivalRun, labelled_artifact
from plgc.runtime.errors import GraphError
from quick_rivals import CLASSES, KEPT, NODES, QUICK, condense


def start(graph: Data, labels: TrainingLabels | None, **change: object) -> RivalRun:
    return replace(RivalRun("mine", bare_graph(graph), labels, KEPT, 0, "l1"), **change)  # pyright: ignore


@pytest.mark.parametrize("name", ["random", "coarsening"])
def test_the_file_says_whose_labels_it_has(name: str, graph: Data, labels: TrainingLabels) -> None:
    numbered = graph.clone()
    numbered.split_index, numbered.split_seed = 2, 7
    split = {"training_nodes": training_digest(graph), "split": 2, "split_seed": 7}
    assert condense(name, numbered, labels).seen.to_dict() == {"nodes": "all", "edges": "all", **split}
    edges = training_edges(numbered, 4)
    found = condense(name, edges, training_labels(edges)).seen.to_dict()
    assert found == {"nodes": "all", "edges": "train", "edge_seed": 4, **split}
    cut = training_subgraph(numbered)
    assert condense(name, cut, training_labels(cut)).seen.to_dict() == {"nodes": "train", "edges": "all", **split}
    bare = Data(x=graph.x, edge_index=graph.edge_index, num_nodes=NODES)
    assert condense(name, bare, labels).seen.to_dict() == {"nodes": "all", "edges": "all"}


def test_without_labels_the_split_is_not_recorded(graph: Data) -> None:
    settings = replace(QUICK["ctgc"], inversion_steps=5)
    assert condense("ctgc", training_edges(graph, 0), settings=settings).seen.to_dict() == {
        "nodes": "all",
        "edges": "train",
        "edge_seed": 0,
    }


def test_settings_are_recorded_as_they_were(graph: Data, labels: TrainingLabels) -> None:
    settings = replace(QUICK["gcond-x"], epochs=1)
    made = condense("gcond-x", graph, labels, settings=settings)
    recorded = asdict(settings)
    assert {name: made.settings[name] for name in recorded} == {**recorded, "evaluate": []}
    noisy = condense("random", graph, training_labels(graph, noise=0.5))
    assert noisy.settings == {"method": "random", "training_labels": len(labels.train), "label_noise": 0.5}


def test_settings_may_name_the_scaling(graph: Data) -> None:
    run = start(graph, None)
    assert run.using(QUICK["gecc"]).scaling == "l1"
    assert run.using(QUICK["ctgc"]).scaling == "none"
    assert run.using(replace(QUICK["ctgc"], scaling="auto")).scaling == "l1"
    assert float(run.x.sum()) == pytest.approx(NODES, rel=1e-5)


def test_an_edgeless_graph_is_for_methods_with_labels(graph: Data, labels: TrainingLabels) -> None:
    alone = graph.clone()
    alone.edge_index = torch.empty(2, 0, dtype=torch.int64)
    assert condense("random", alone, labels).num_nodes == KEPT
    with pytest.raises(GraphError, match="no edges"):
        condense("ctgc", alone)


def test_a_checkpoint_depends_on_everything_in_the_run(graph: Data, labels: TrainingLabels) -> None:
    run, other = start(graph, labels), graph.clone()
    other.x = graph["x"].to_dense() * 2
    runs = [
        run,
        start(graph, None),
        start(other, labels),
        start(graph, replace(labels, train=labels.train[1:])),
        *(replace(run, **change) for change in ({"nodes": 5}, {"seed": 1}, {"device": "cuda"}, {"method": "other"})),
        run.using(QUICK["gecc"]),
    ]
    keys = [one.checkpoint().key for one in runs]
    keys.append(run.checkpoint(part="second").key)
    assert len(set(keys)) == len(keys)
    assert start(graph, labels).checkpoint().key == keys[0]


def test_the_accuracy_is_that_of_a_gcn_trained_on_the_nodes(graph: Data, labels: TrainingLabels) -> None:
    run, settings = start(graph, labels), ClassifierSettings(epochs=60)
    x, y = run.x[labels.train], labels.y[labels.train]
    right, wrong = (run.accuracy(x, target, settings) for target in (y, (y + 1) % CLASSES))
    assert right > 0.7 > 0.5 > wrong
    few = replace(labels, y=torch.where(torch.isin(torch.arange(NODES), labels.val), 0, labels.y))
    assert replace(run, given=few).accuracy(x, y, settings) < right
    unvalidated = replace(run, given=replace(few, val=labels.val[:0]))
    assert unvalidated.accuracy(x, y, settings) > 0.8  # of the training labels


def test_the_old_function_makes_the_same_file(graph: Data, labels: TrainingLabels) -> None:
    made = condense("gecc", graph, labels)
    old = labelled_artifact(
        graph,
        plgc.load_graph(unlabelled(graph)),
        labels,
        method="gecc",
        features=made.features,
        node_labels=made.labels,  # pyright: ignore
        counts=made.counts,
        scaling=made.scaling,
        seed=0,
        requested=KEPT,
        settings=asdict(QUICK["gecc"]),
        chosen=made.chosen,
    )
    assert old.to_bytes() == made.to_bytes()
