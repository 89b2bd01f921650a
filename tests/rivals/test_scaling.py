"""The scaling of a rival's features: the one under which a GCN does best on the validation nodes of its labels."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from plgc.downstream.tasks.classifier import train_classifier
from plgc.graphs import TrainingLabels, load_graph
from plgc.graphs.bare import bare_graph
from plgc.graphs.views.partition import cut_parts, partition_nodes
from plgc.rivals import scaling as scaling_module
from plgc.rivals.frame import RivalRun, accuracy_on
from plgc.rivals.scaling import with_chosen_scaling
from plgc.sparse.inputs import prepare
from quick_rivals import KEPT, NODES, condense


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling_module, "_known", {})


def start(graph: Data, labels: TrainingLabels) -> RivalRun:
    return RivalRun("random", bare_graph(graph), labels, KEPT, 0, "l1")


@pytest.fixture(scope="module")
def loud(graph: Data) -> Data:
    """The classes differ in the length of their rows alone, which a scaling by rows removes."""
    other = graph.clone()
    other.x = torch.ones(NODES, 5) * (1.0 + 4.0 * graph["y"][:, None])
    return load_graph(other)


def test_the_best_on_validation_nodes_is_kept_and_said(loud: Data, labels: TrainingLabels) -> None:
    run = with_chosen_scaling(start(loud, labels))
    tried = {}
    for name in ("l1", "none"):
        inputs = prepare(loud, name)
        score = accuracy_on(inputs, labels.val, labels.y)
        how = {"scaling": name, "seed": 0, "score": score}
        y = labels.y[labels.train]
        tried[name] = score(train_classifier(inputs.x, inputs.adjacency, labels.train, y, labels.classes, **how))
    assert run.scaling == "none"
    assert run.chosen == {"scaling": "none", "scalings_on_validation": tried}
    made = condense("random", loud, labels)
    assert made.scaling == "none"
    assert made.chosen["scalings_on_validation"] == tried
    assert float(made.features.max()) > 1  # rows as they are


def test_validation_labels_choose_and_no_others_do(loud: Data, labels: TrainingLabels) -> None:
    first = with_chosen_scaling(start(loud, labels)).chosen
    assert with_chosen_scaling(start(loud, replace(labels, val=labels.val[:0]))).scaling == "l1"
    hidden = torch.ones(NODES, dtype=torch.bool)
    hidden[labels.train] = hidden[labels.val] = False
    assert with_chosen_scaling(start(loud, replace(labels, y=torch.where(hidden, 0, labels.y)))).chosen == first
    wrong = labels.y.clone()
    wrong[labels.val] = (wrong[labels.val] + 1) % labels.classes
    assert with_chosen_scaling(start(loud, replace(labels, y=wrong))).chosen != first


def test_parts_of_a_graph_are_scaled_alike(loud: Data, labels: TrainingLabels) -> None:
    part = cut_parts(loud, partition_nodes(loud, 2, "random"))[0]
    assert with_chosen_scaling(start(part, labels)).scaling == "l1"


def test_published_step_sizes_keep_their_scaling(loud: Data, labels: TrainingLabels) -> None:
    for name, expected in (("cora", "l1"), ("another", "none")):
        named = loud.clone()
        named.name = name
        for method in ("gcond-x", "gcdm-x", "sfgc"):
            assert condense(method, named, labels).scaling == expected, (method, name)


def test_values_that_cannot_be_computed_with_are_not_tried(graph: Data, labels: TrainingLabels) -> None:
    huge = graph.clone()
    huge.x = graph["x"].to_dense() * 1e30
    run = with_chosen_scaling(start(load_graph(huge), labels))
    assert list(run.chosen["scalings_on_validation"]) == ["l1"]


def test_rivals_that_ask_for_the_same_share_the_training(
    loud: Data, labels: TrainingLabels, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(loud, labels)
    first = with_chosen_scaling(run)
    monkeypatch.setattr(scaling_module, "train_classifier", None)
    assert with_chosen_scaling(replace(run, method="gecc", nodes=5)).chosen == first.chosen
    with pytest.raises(TypeError):
        with_chosen_scaling(replace(run, seed=1))
