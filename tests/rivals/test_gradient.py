from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from plgc.downstream.tasks.classifier import train_on_condensed
from plgc.graphs import TrainingLabels
from plgc.graphs.bare import bare_graph
from plgc.rivals.frame import RivalRun
from plgc.rivals.gradient import condense as gradient
from plgc.rivals.gradient.loop import Matching, train_model
from plgc.rivals.gradient.matching import (
    TINY,
    MatchingTask,
    PairAdjacency,
    by_class,
    draw_model,
    gradient_distance,
    loss_gradients,
    normalised_dense,
    pose_task,
    strong_edges,
)
from plgc.rivals.gradient.settings import DENSE, GradientSettings, published_settings
from plgc.runtime.errors import LabelError, SettingError
from plgc.sparse.adjacency import build_adjacency
from plgc.sparse.inputs import Inputs, prepare
from quick_rivals import GRADIENT, condense

METHODS = ("dc-graph", "gcond", "gcond-x")


@pytest.fixture(scope="module")
def inputs(graph: Data) -> Inputs:
    return prepare(graph, "l1")


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def unvalidated(labels: TrainingLabels) -> TrainingLabels:
    return replace(labels, val=labels.val[:0])


def posed(inputs: Inputs, labels: TrainingLabels, **change: Any) -> MatchingTask:
    choice: dict[str, Any] = {"hops": 2, "hidden": [], "batch": 256, "generator": seeded(), **change}
    return pose_task(inputs, labels, choice.pop("nodes", 9), **choice)


def network(x: Tensor, weights: list[Tensor], biases: list[Tensor]) -> Tensor:
    """The model as anyone would write it."""
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        x = torch.relu(F.linear(x, weight, bias))
    return F.linear(x, weights[-1], biases[-1])


def dense_adjacency(inputs: Inputs) -> Tensor:
    return inputs.adjacency.matrix.to_dense()


@pytest.mark.parametrize("widths", [(5, 3), (5, 4, 3), (5, 4, 6, 3)])
def test_gradients_in_closed_form_are_those_of_autograd(widths: tuple[int, ...]) -> None:
    generator = seeded()
    weights, biases = draw_model(widths, generator)
    x, y = torch.randn(7, 5, generator=generator), torch.randint(3, (7,), generator=generator)
    share = torch.rand(7, generator=generator)
    for parameter in [*weights, *biases]:
        parameter.requires_grad_()
    loss = (share * F.cross_entropy(network(x, weights, biases), y, reduction="none")).sum()
    expected = torch.autograd.grad(loss, [*weights, *biases])
    with torch.no_grad():
        by_weight, by_bias = loss_gradients(x, torch.eye(3)[y], share, weights, biases)
    for ours, theirs in zip([*by_weight, *by_bias], expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("hops", [0, 2])
@pytest.mark.parametrize("hidden", [[], [6]])
def test_gradients_by_class_are_those_of_the_mean_loss_over_its_training_nodes(
    hidden: list[int], hops: int, graph: Data, labels: TrainingLabels, inputs: Inputs
) -> None:
    task = posed(inputs, labels, hidden=hidden, hops=hops)
    weights, biases = draw_model(task.widths, seeded(1))
    found, _ = loss_gradients(task.real_rows(seeded()), task.classes, task.real_share, weights, biases)
    x = graph["x"].to_dense()
    x = torch.linalg.matrix_power(dense_adjacency(inputs), hops) @ (x / x.sum(1, keepdim=True))
    for parameter in weights:
        parameter.requires_grad_()
    sizes = []
    for label in range(3):
        nodes = labels.train[labels.y[labels.train] == label]
        sizes.append(len(nodes))
        loss = F.cross_entropy(network(x[nodes], weights, biases), labels.y[nodes])
        for layer, expected in enumerate(torch.autograd.grad(loss, weights)):
            torch.testing.assert_close(found[layer][label], expected, rtol=1e-4, atol=1e-7)
    assert len(set(sizes)) > 1  # rows of several lengths: some are filled up


def test_the_distance_is_one_minus_the_cosine_of_the_weights_into_every_output() -> None:
    generator = seeded()
    real = [torch.randn(2, 4, 5, generator=generator), torch.randn(2, 3, 4, generator=generator)]
    other = [torch.randn(2, 4, 5, generator=generator), torch.randn(2, 3, 4, generator=generator)]
    coefficient = torch.tensor([1.0, 0.25])
    expected = 0.0
    for mine, theirs in zip(real, other, strict=True):
        for label in range(2):
            for row, column in zip(mine[label], theirs[label], strict=True):
                expected += float(coefficient[label] * (1 - F.cosine_similarity(row, column, dim=0)))
    assert float(gradient_distance(real, other, coefficient)) == pytest.approx(expected, rel=1e-4)
    assert float(gradient_distance(real, [3 * part for part in real], coefficient)) == pytest.approx(0.0, abs=1e-4)
    assert float(gradient_distance(real, [-part for part in real], coefficient)) == pytest.approx(2 * 7 * 1.25, 1e-4)


def test_a_gradient_that_vanishes_counts_as_unlike_and_stays_finite() -> None:
    still = torch.zeros(1, 2, 3, requires_grad=True)
    distance = gradient_distance([torch.ones(1, 2, 3)], [still], torch.ones(1))
    assert distance.item() == 2.0
    (grad,) = torch.autograd.grad(distance, still)
    assert bool(torch.isfinite(grad).all())


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("hidden", [[], [6]])
def test_the_gradient_of_the_distance_is_that_of_a_double_backward(
    hidden: list[int], learned: bool, inputs: Inputs, labels: TrainingLabels
) -> None:
    task = posed(inputs, labels, hidden=hidden)
    weights, biases = draw_model(task.widths, seeded(1))
    x = torch.rand(9, 40, generator=seeded(2), requires_grad=True)
    adjacency = PairAdjacency(40, 5, seeded(3)) if learned else None
    real, _ = loss_gradients(task.real_rows(seeded()), task.classes, task.real_share, weights, biases)
    moved = [x, *(adjacency.parameters() if adjacency is not None else [])]
    synthetic, _ = loss_gradients(task.rows(task.propagate(x, adjacency)), task.classes, task.share, weights, biases)
    found = torch.autograd.grad(gradient_distance(real, synthetic, task.coefficient), moved)

    for parameter in weights:
        parameter.requires_grad_()
    step = torch.eye(9) if adjacency is None else normalised_dense(adjacency(x))
    output = network(step @ (step @ x), weights, biases)
    distance = torch.zeros(())
    for label in range(3):
        mine = task.labels == label
        loss = F.cross_entropy(output[mine], task.labels[mine])
        for layer, part in enumerate(torch.autograd.grad(loss, weights, create_graph=True)):
            theirs = real[layer][label]
            cosine = (part * theirs).sum(1) / (part.norm(dim=1) * theirs.norm(dim=1) + TINY)
            distance = distance + task.coefficient[label] * (1 - cosine).sum()
    for ours, theirs in zip(found, torch.autograd.grad(distance, moved), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=float(theirs.abs().max()) * 1e-4)


def test_classes_are_rows_filled_up_with_shares_of_zero() -> None:
    place, share = by_class(torch.tensor([2, 4, 1]), 3)
    assert place.tolist() == [[0, 1, 0], [2, 3, 4], [6, 6, 6]]
    assert torch.equal(share, torch.tensor([[0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3], [1, 0, 0]]))


def test_large_classes_are_drawn_from_anew_without_repetition(inputs: Inputs, labels: TrainingLabels) -> None:
    task = posed(inputs, labels, batch=5)
    generator = seeded()
    first, second = task.real_rows(generator), task.real_rows(generator)
    assert first.shape == (3, 5, 40)
    assert not torch.equal(first, second)
    for label in range(3):
        own = task.real[task.number == label]
        distance = torch.cdist(first[label], own, compute_mode="donot_use_mm_for_euclid_dist")
        assert float(distance.min(1).values.max()) == 0.0
    assert torch.equal(task.real_share, torch.full((3, 5), 0.2))
    seen = {tuple(row.tolist()) for _ in range(40) for row in task.real_rows(generator)[0]}
    assert seen == {tuple(row.tolist()) for row in task.real[task.number == 0]}


def test_condensed_nodes_start_from_training_nodes_of_their_class(inputs: Inputs, labels: TrainingLabels) -> None:
    task = posed(inputs, labels, nodes=11)
    assert len(task.start.unique()) == 11
    assert set(task.start.tolist()) <= set(labels.train.tolist())
    assert torch.equal(labels.y[task.start], task.labels)
    assert int(task.counts.sum()) == len(labels.train)
    made, sizes = task.labels.bincount(), labels.y[labels.train].bincount()
    assert torch.equal(torch.stack([task.counts[task.labels == c].sum() for c in range(3)]), sizes)
    torch.testing.assert_close(task.coefficient, made / made.max())


def test_a_class_without_training_nodes_is_left_out(inputs: Inputs, labels: TrainingLabels) -> None:
    without = replace(labels, train=labels.train[labels.y[labels.train] != 1])
    task = posed(inputs, without, nodes=6)
    assert task.labels.unique().tolist() == [0, 2]
    assert torch.equal(task.classes[:, 0], torch.eye(3)[[0, 2]])
    assert task.widths == (40, 3)


def test_a_learned_adjacency_is_the_mean_of_both_orders_normalised_over_all_pairs() -> None:
    x = torch.randn(6, 4, generator=seeded())
    module = PairAdjacency(4, 5, seeded(1))
    with torch.no_grad():
        module.scale.copy_(torch.rand(2, 5, generator=seeded(2)) + 0.5)
        module.shift.copy_(torch.randn(2, 5, generator=seeded(3)))
    found = module(x)
    torch.testing.assert_close(found, found.t(), rtol=1e-6, atol=0)
    assert found.min().item() >= 0.0
    assert found.max().item() < 1.0
    assert bool((found.diagonal() == 0).all())
    pairs = torch.stack([torch.cat([x[i], x[j]]) for i in range(6) for j in range(6)])
    first = torch.cat([module.first[:, :5], module.first[:, 5:]])  # [2f, hidden]: x_i's half above x_j's
    hidden = pairs
    for layer, weight in enumerate([first, module.second]):
        norm = torch.nn.BatchNorm1d(5)
        norm.load_state_dict({**norm.state_dict(), "weight": module.scale[layer], "bias": module.shift[layer]})
        hidden = torch.relu(norm(hidden @ weight))
    score = (hidden @ module.last + module.last_bias).view(6, 6)
    expected = torch.sigmoid((score + score.t()) / 2)
    expected = expected - torch.diag(expected.diagonal())
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_weak_edges_are_cut_and_the_rest_normalised_as_any_graph_is() -> None:
    adjacency = torch.tensor([[0.0, 0.9, 0.04], [0.9, 0.0, 0.05], [0.04, 0.05, 0.0]])
    edge_index, weight = strong_edges(adjacency, 0.05)
    assert edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    torch.testing.assert_close(weight, torch.tensor([0.9, 0.9, 0.05, 0.05]))
    assert strong_edges(adjacency, 0.0)[0].shape == (2, 6)  # no self-loops
    one_sided = adjacency - torch.tensor([[0, 0, 0], [0, 0, 0], [0, 0.01, 0]])
    assert strong_edges(one_sided, 0.05)[0].tolist() == edge_index.tolist()  # cut in both directions or in none
    kept = torch.where(adjacency >= 0.05, adjacency, 0.0)
    torch.testing.assert_close(normalised_dense(kept), build_adjacency(edge_index, 3, weight).matrix.to_dense())


def test_the_model_learns_by_adam_on_the_mean_loss() -> None:
    x, y = torch.randn(8, 5, generator=seeded()), torch.arange(8) % 3
    weights, biases = draw_model((5, 4, 3), seeded(1))
    twins = [part.clone().requires_grad_() for part in [*weights, *biases]]
    optimizer = torch.optim.Adam([*weights, *biases], lr=0.01, fused=True)
    train_model(optimizer, weights, biases, x, torch.eye(3)[y], 5)
    reference = torch.optim.Adam(twins, lr=0.01)
    for _ in range(5):
        reference.zero_grad()
        F.cross_entropy(network(x, twins[:2], twins[2:]), y).backward()
        reference.step()
    for ours, theirs in zip([*weights, *biases], twins, strict=True):
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_steps_lower_the_distance(method: str, graph: Data, inputs: Inputs, labels: TrainingLabels) -> None:
    settings = replace(GRADIENT, outer_steps=60, inner_steps=0, feature_rate=1e-3, adjacency_rate=1e-2)
    task = posed(inputs, labels, hops=0 if method == "dc-graph" else 2)
    run = RivalRun(method, bare_graph(graph), labels, 9, 0, "l1", settings=settings)
    state = gradient.start(run, task, seeded())

    def distance() -> float:
        weights, biases = draw_model(task.widths, seeded(5))
        real, _ = loss_gradients(task.real_rows(seeded()), task.classes, task.real_share, weights, biases)
        x = task.rows(task.propagate(state.features, state.adjacency))
        ours, _ = loss_gradients(x, task.classes, task.share, weights, biases)
        return gradient_distance(real, ours, task.coefficient).item()

    before, features = distance(), state.features.detach().clone()
    Matching(task, state, settings).epoch(seeded(5))
    middle = distance()
    assert middle < before * (0.99 if method == "gcond" else 0.7)
    # GCond's first epochs move the adjacency, the others the features.
    assert torch.equal(features, state.features) == (method == "gcond")
    state.epoch = settings.adjacency_epochs
    Matching(task, state, settings).epoch(seeded(5))
    assert distance() < middle
    assert not torch.equal(features, state.features)


@pytest.mark.parametrize("method", METHODS)
def test_a_result_says_what_it_is(method: str, graph: Data, labels: TrainingLabels) -> None:
    condensed = condense(method, graph, unvalidated(labels), nodes=9)
    assert condensed.labels is not None
    assert sorted(set(condensed.labels.tolist())) == [0, 1, 2]
    assert int(condensed.counts.sum()) == len(labels.train)
    assert condensed.settings["outer_steps"] == 4
    assert condensed.chosen["epoch"] == 3
    assert 0 < condensed.chosen["training_accuracy"] <= 1
    assert len(condensed.curves["matching"]) == 3
    if method != "gcond":
        assert condensed.edge_index is None
        return
    assert condensed.edge_index is not None
    assert condensed.edge_weight is not None
    assert bool((condensed.edge_index[0] != condensed.edge_index[1]).all())
    assert bool((condensed.edge_weight >= GRADIENT.threshold).all())
    dense = torch.zeros(9, 9).index_put((condensed.edge_index[0], condensed.edge_index[1]), condensed.edge_weight)
    assert torch.equal(dense, dense.t())


@pytest.mark.parametrize("method", METHODS)
def test_a_run_that_is_stopped_and_resumed_ends_byte_identical(
    method: str, graph: Data, labels: TrainingLabels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gradient, "SAVE_EVERY", 3)
    settings = replace(GRADIENT, epochs=8, evaluate=(2,), adjacency_period=4, adjacency_epochs=2, batch=5)
    done: list[int] = []

    def stop_once(message: str, epoch: int, total: int) -> None:
        done.append(epoch)
        if done in ([1, 2, 3, 4], [1, 2, 3, 4, 4, 5, 6, 7]):
            raise KeyboardInterrupt

    def run(**extra: Any) -> bytes:
        return condense(method, graph, labels, nodes=9, settings=settings, **extra).to_bytes()

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run(checkpoint=tmp_path, progress=stop_once)
    assert run(checkpoint=tmp_path, progress=stop_once) == run()
    assert done == [1, 2, 3, 4, 4, 5, 6, 7, 7, 8]
    assert list(tmp_path.iterdir()) == []


def test_validation_labels_choose_the_epoch_and_without_them_the_training_labels_do(
    graph: Data, labels: TrainingLabels, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([0.5, 0.75, 0.75, 1.0, 1.0, 0.75])
    monkeypatch.setattr(RivalRun, "accuracy", lambda *_: next(scores))
    settings = replace(GRADIENT, epochs=3, evaluate=(1, 2))
    named = graph.clone()
    named.name = "cora"  # whose scaling is the published one
    chosen = condense("gcond-x", named, labels, nodes=9, settings=settings)
    assert chosen.chosen == {"epoch": 2, "validation_accuracy": 0.75}  # the first of the best
    second = condense("gcond-x", named, unvalidated(labels), nodes=9, settings=settings)
    assert second.chosen == {"epoch": 2, "training_accuracy": 1.0}  # the last of the best
    assert torch.equal(chosen.features, second.features)


def test_a_condensed_graph_teaches_the_classes(graph: Data, labels: TrainingLabels) -> None:
    settings = replace(GRADIENT, epochs=30, outer_steps=5, inner_steps=5, evaluate=())
    condensed = condense("gcond-x", graph, unvalidated(labels), nodes=6, settings=settings)
    model = train_on_condensed(condensed)
    found = model.probabilities(model.prepare(graph)).argmax(1)
    assert float((found == graph["y"]).float().mean()) > 0.6


def test_published_settings_follow_the_graph() -> None:
    assert published_settings("gcond", "Cora", "l1") == GradientSettings()
    assert published_settings("gcond", "ogbn_arxiv", "none") == DENSE
    assert published_settings("gcond-x", "reddit", "none").feature_rate == 0.1
    assert published_settings("gcond-x", "elsewhere", "l1") == GradientSettings()
    assert published_settings("gcond-x", "elsewhere", "none") == DENSE
    assert published_settings("dc-graph", "cora", "l1") == GradientSettings(transforms=2)


@pytest.mark.parametrize(
    "change",
    [{"epochs": 0}, {"inner_steps": -1}, {"feature_rate": 0.0}, {"model_rate": -1.0}, {"threshold": 1.0}, {"batch": 0}],
)
def test_settings_out_of_range_are_refused(change: dict[str, Any]) -> None:
    (name,) = change
    with pytest.raises(SettingError, match=f"{name} is {change[name]}"):
        GradientSettings(**change)


def test_every_class_needs_a_node(graph: Data, labels: TrainingLabels) -> None:
    with pytest.raises(LabelError, match="2 node"):
        condense("gcond-x", graph, labels, nodes=2)
