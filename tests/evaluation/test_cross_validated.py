"""The cross-validated estimate is that of models fitted fold by fold, rests on every label, and is honest."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.evaluation import cross_validate
from plgc.evaluation.claims import wilson
from plgc.graphs import citation_graph
from plgc.graphs.labels import cross_validation
from plgc.runtime.errors import LabelError, SettingError


@cache
def made() -> tuple[Data, plgc.Backbone]:
    graph = citation_graph(nodes=240, classes=3, features=60)
    return graph, plgc.reconstruct(plgc.condense(graph, nodes=12))


def own_labels(per_class: int, *, shuffled: bool = False) -> Data:
    """The graph with so many labels per class, and no split."""
    graph, _ = made()
    known = torch.cat([(graph["y"] == label).nonzero().flatten()[:per_class] for label in range(3)])
    y = torch.full_like(graph["y"], -1)
    y[known] = graph["y"][
        known[torch.randperm(len(known), generator=torch.Generator().manual_seed(0))] if shuffled else known
    ]
    return plgc.load_graph(Data(x=graph.x, edge_index=graph.edge_index, y=y))


def test_folds_are_models_fitted_on_the_other_labels() -> None:
    graph, backbone = own_labels(4), made()[1]
    found = cross_validate(backbone, graph, repeats=1, seed=5)
    right = 0
    for fold in cross_validation(graph, None, None, 5):
        predicted = plgc.finetune(backbone, fold).predict(graph)
        right += int((predicted == graph["y"])[fold["test_mask"]].sum())
    assert found["accuracy"]["values"] == [pytest.approx(100 * right / 12)]
    assert (found["nodes"], found["folds"], found["repeats"], found["learned_from"]) == (12, 4, 1, 9)
    low, high = wilson(right / 12, 12)
    assert found["interval"] == pytest.approx([100 * low, 100 * high])
    assert found["accuracy"]["std"] is None


def test_labels_that_say_nothing_are_not_learned() -> None:
    found = cross_validate(made()[1], own_labels(30, shuffled=True), repeats=1)
    assert found["nodes"] == 90
    assert found["accuracy"]["mean"] < 50  # a third by chance
    assert cross_validate(made()[1], own_labels(30), repeats=1)["accuracy"]["mean"] > 70


def test_shots_are_drawn_and_the_others_tested() -> None:
    found = cross_validate(made()[1], own_labels(5), shots=3, repeats=3)
    assert (found["folds"], found["learned_from"], found["repeats"]) == (1, 9, 3)
    assert found["nodes"] > 6  # other draws test other nodes


def test_what_cannot_be_estimated() -> None:
    with pytest.raises(LabelError, match="no label can be held out"):
        cross_validate(made()[1], own_labels(1))
    with pytest.raises(LabelError, match="class 0 has 5"):
        cross_validate(made()[1], own_labels(5), shots=6)
    with pytest.raises(SettingError, match="repeats is 0"):
        cross_validate(made()[1], own_labels(5), repeats=0)


def test_a_model_of_every_label_has_nothing_left_to_score() -> None:
    graph, backbone = own_labels(4), made()[1]
    model = plgc.finetune(backbone, graph)
    assert model.learned_from == "all 12 labels, 3 classes"
    with pytest.raises(LabelError, match="no split of its own"):
        model.evaluate(graph)
    split = graph.clone()
    split.train_mask = (graph["y"] >= 0) & (torch.arange(240) % 2 == 0)
    split.test_mask, split.val_mask = (graph["y"] >= 0) & ~split.train_mask, torch.zeros(240, dtype=torch.bool)
    few = plgc.finetune(backbone, split)
    assert few.learned_from == f"{int(split.train_mask.sum())} of 12 labels, 3 classes"
    assert 0 <= few.evaluate(split)["accuracy"] <= 100
