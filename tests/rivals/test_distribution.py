from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.graphs import TrainingLabels
from plgc.method.encoder import GNN
from plgc.rivals import distribution
from plgc.rivals.coreset import class_counts, class_shares
from plgc.rivals.distribution import (
    DistributionSettings,
    class_means,
    match,
    mean_distance,
    published_settings,
)
from plgc.rivals.frame import RivalRun
from plgc.runtime.errors import LabelError, SettingError
from plgc.sparse.adjacency import propagate
from plgc.sparse.inputs import prepare
from quick_rivals import CLASSES, KEPT, NODES, QUICK
from quick_rivals import condense as quick


def condense(graph: Data, labels: TrainingLabels, seed: int = 0, **settings: Any) -> CondensedGraph:
    return quick("gcdm-x", graph, labels, seed=seed, settings=replace(QUICK["gcdm-x"], **settings))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def network(width: int, hidden: int) -> Tensor:
    return torch.randn(width, hidden, generator=generator(1))


# The loss


def test_the_loss_is_zero_where_means_are_equal() -> None:
    weight = network(6, 5)
    real = torch.rand(4, 6, generator=generator())
    y, y_condensed = torch.tensor([0, 0, 1, 1]), torch.tensor([1, 1, 0, 0, 0, 0])
    means, condensed = class_means(y, 2), class_means(y_condensed, 2)
    target = means @ torch.relu(real @ weight)
    same = real[[2, 3, 0, 1, 1, 0]]  # every class's rows, each as often as the others
    assert float(mean_distance(same, weight, condensed, target)) < 1e-12
    assert float(mean_distance(same + 0.1, weight, condensed, target)) > 1e-4


def test_the_loss_and_its_gradient_are_those_of_a_gcn_on_the_dense_graph(graph: Data, labels: TrainingLabels) -> None:
    """A two-layer GCN's hidden layer, written out with dense matrices and loops over classes."""
    inputs = prepare(graph, "l1")
    gnn = GNN("gcn", 40, 16, CLASSES, generator=generator())
    y_condensed = torch.arange(9) % CLASSES
    features = torch.rand(9, 40, generator=generator(2)).requires_grad_(True)
    real = propagate(inputs.adjacency, graph["x"].to_dense() / graph["x"].to_dense().sum(1, keepdim=True))
    means = class_means(labels.y[labels.train], CLASSES)
    weight = gnn.layers[0].weight.detach()  # pyright: ignore
    target = means @ torch.relu(real[labels.train] @ weight)
    loss = mean_distance(features, weight, class_means(y_condensed, CLASSES), target)
    (gradient,) = torch.autograd.grad(loss, features)

    a = torch.eye(NODES)
    a[tuple(graph["edge_index"])] = 1.0
    scale = a.sum(1).rsqrt()
    hidden = gnn.body(inputs.x, inputs.adjacency)
    assert isinstance(hidden, Tensor)
    x = graph["x"].to_dense()
    dense = torch.relu((scale[:, None] * a * scale) @ (x / x.sum(1, keepdim=True)) @ weight)
    torch.testing.assert_close(hidden.detach(), dense)
    other = features.detach().clone().requires_grad_(True)
    expected = torch.zeros(())
    for label in range(CLASSES):
        own = labels.train[labels.y[labels.train] == label]
        embedded = torch.relu(other[y_condensed == label] @ weight)
        expected = expected + ((embedded.mean(0) - dense[own].mean(0)) ** 2).mean()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, other)[0])


def test_class_means_and_counts() -> None:
    y = torch.tensor([0, 2, 2, 0, 2])
    rows = torch.tensor([[1.0], [2.0], [4.0], [5.0], [9.0]])
    assert (class_means(y, 4) @ rows).flatten().tolist() == [3.0, 0.0, 5.0, 0.0]
    assert class_counts(y, torch.tensor([2, 0, 2])).tolist() == [2, 2, 1]


def test_a_step_lowers_the_loss_and_networks_are_drawn_afresh() -> None:
    real = torch.rand(20, 8, generator=generator(3))
    means = class_means(torch.arange(20) % 2, 2)
    condensed = class_means(torch.arange(6) % 2, 2)
    settings = DistributionSettings(steps=1, hidden=12, feature_rate=1e-3)

    def after(steps: int, seed: int = 0) -> tuple[float, Tensor]:
        features = torch.rand(6, 8, generator=generator(4)).requires_grad_(True)
        optimizer = torch.optim.Adam([features], lr=1e-3)
        loss = match(features, optimizer, real, means, condensed, replace(settings, steps=steps), generator(seed))
        return float(loss), features.detach()

    losses = [after(steps)[0] for steps in (1, 2, 3, 20)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.9 * losses[0]
    assert not torch.equal(after(1)[1], after(1, seed=1)[1])


# The whole


def test_what_is_left(graph: Data, labels: TrainingLabels) -> None:
    seen: list[tuple[int, int]] = []
    condensed = quick("gcdm-x", graph, labels, progress=lambda message, done, total: seen.append((done, total)))
    assert seen == [(3, 12), (6, 12), (9, 12), (12, 12)]
    assert condensed.settings["networks"] == 12
    assert condensed.edge_index is None
    assert condensed.features.shape == (KEPT, 40)
    assert condensed.labels is not None
    assert dict(enumerate(torch.bincount(condensed.labels).tolist())) == class_shares(labels.y, labels.train, KEPT)
    assert int(condensed.counts.sum()) == labels.train.numel()
    assert len(condensed.curves["matching"]) == len(condensed.curves["validation"]) == 4


def test_features_approach_the_real_means_under_networks_not_seen(graph: Data, labels: TrainingLabels) -> None:
    inputs = prepare(graph, "l1")
    x = graph["x"].to_dense()
    x = x / x.sum(1, keepdim=True)
    real = propagate(inputs.adjacency, x)[labels.train]
    weight = network(40, 100)
    target = class_means(labels.y[labels.train], CLASSES) @ torch.relu(real @ weight)
    alone = replace(labels, val=labels.val[:0])
    losses = []
    for networks in (1, 80):
        condensed = condense(graph, alone, networks=networks, steps=5, feature_rate=1e-3, checks=1)
        assert condensed.labels is not None
        means = class_means(condensed.labels, CLASSES)
        losses.append(float(mean_distance(condensed.features, weight, means, target)))
        assert condensed.curves["validation"] == []
    assert losses[1] < 0.3 * losses[0]


def test_validation_chooses_the_best_and_without_it_the_last_counts(
    graph: Data, labels: TrainingLabels, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Tensor] = []
    values = iter([0.5, 0.8, 0.8, 0.3])

    def accuracy(run: RivalRun, features: Tensor, *_: Any) -> float:
        seen.append(features.clone())
        return next(values)

    monkeypatch.setattr(RivalRun, "accuracy", accuracy)
    chosen = condense(graph, labels)
    assert torch.equal(chosen.features, seen[1])
    assert chosen.curves["validation"] == [0.5, 0.8, 0.8, 0.3]
    last = condense(graph, replace(labels, val=labels.val[:0]))
    assert torch.equal(last.features, seen[3])


def test_validation_accuracy_is_that_of_a_gcn_trained_on_the_features(graph: Data, labels: TrainingLabels) -> None:
    accuracies = condense(graph, labels, networks=2, checks=1, check_epochs=60).curves["validation"]
    assert 0.5 < accuracies[0] <= 1.0


@pytest.mark.parametrize("stop", [3, 9])
def test_a_stopped_run_ends_in_the_same_bytes(stop: int, graph: Data, labels: TrainingLabels, tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    done_before: list[int] = []

    def stopping(message: str, done: int, total: int) -> None:
        if done == stop:
            raise Stop

    def run(progress) -> CondensedGraph:
        return quick("gcdm-x", graph, labels, progress=progress, checkpoint=tmp_path)

    with pytest.raises(Stop):
        run(stopping)
    assert len(list(tmp_path.iterdir())) == 1
    resumed = run(lambda message, done, total: done_before.append(done))
    assert done_before == list(range(stop + 3, 13, 3))
    assert list(tmp_path.iterdir()) == []
    assert resumed.to_bytes() == condense(graph, labels).to_bytes()


# Refusals


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("networks", 0),
        ("steps", 0),
        ("hidden", 0),
        ("checks", 0),
        ("check_epochs", 0),
        ("feature_rate", 0.0),
        ("feature_rate", float("inf")),
    ],
)
def test_refused_settings(setting: str, value: float) -> None:
    with pytest.raises(SettingError, match=f"{setting} is {value}"):
        replace(QUICK["gcdm-x"], **{setting: value})


def test_the_graphs_name_finds_its_settings(graph: Data, labels: TrainingLabels, monkeypatch) -> None:
    assert published_settings("Cora").networks == 600
    assert published_settings("elsewhere") == published_settings("citeseer") == DistributionSettings()
    monkeypatch.setitem(distribution.PUBLISHED, "cora", replace(QUICK["gcdm-x"], networks=7))
    named = graph.clone()
    named.name = "Cora"
    assert quick("gcdm-x", named, labels, settings=None).settings["networks"] == 7


def test_refusals(graph: Data, labels: TrainingLabels) -> None:
    with pytest.raises(LabelError, match="3 classes"):
        quick("gcdm-x", graph, labels, nodes=2)
