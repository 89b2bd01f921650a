from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch_geometric.utils import erdos_renyi_graph, to_dense_adj

from plgc.downstream.head import Head, HeadSettings, fit_head, smooth
from plgc.sparse.adjacency import Adjacency, build_adjacency

NODES, CLASSES, PARTS = 120, 4, (6, 10)
LONG = HeadSettings(epochs=700, learning_rate=0.05, smoothing_steps=0)


def embedding() -> Tensor:
    """Two parts of unlike scale and a mean that is not zero."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(CLASSES, sum(PARTS), generator=generator)
    rows = centres[labels()] + 1.2 * torch.randn(NODES, sum(PARTS), generator=generator)
    return rows * torch.tensor([5.0] * PARTS[0] + [0.2] * PARTS[1]) + 3


def labels() -> Tensor:
    return torch.arange(NODES) % CLASSES


def adjacency(seed: int = 0, nodes: int = NODES) -> tuple[Adjacency, np.ndarray]:
    """A random graph with a node without neighbours, and its Â as a dense matrix."""
    torch.manual_seed(seed)
    edge_index = erdos_renyi_graph(nodes - 1, 3 / nodes)
    closed = to_dense_adj(edge_index, max_num_nodes=nodes)[0].double().numpy() + np.eye(nodes)
    scale = closed.sum(1) ** -0.5
    return build_adjacency(edge_index, nodes), scale[:, None] * closed * scale


def unit_rows(rows: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Centre, scale each part to unit length, then the whole: the head's input, in NumPy."""
    centred = rows - mean
    first, second = np.split(centred, [PARTS[0]], axis=1)
    parts = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in (first, second)]
    return np.concatenate(parts, axis=1) / np.sqrt(2)


# The optimum


@pytest.mark.parametrize(("penalty", "count"), [(0.04, 20), (0.04, 80), (0.5, 80)])
def test_the_head_is_the_logistic_regression_of_scikit_learn(penalty: float, count: int) -> None:
    """Mean loss + (c/L)‖W‖² times L/2c is scikit-learn's C · Σ loss + ½‖W‖² with C = 1/2c; its bias is free too."""
    rows, y, labelled = embedding(), labels(), torch.arange(count)
    head = fit_head(rows, PARTS, labelled, y, CLASSES, replace(LONG, penalty=penalty))
    inputs = unit_rows(rows.double().numpy(), rows.double().numpy().mean(0))
    reference = LogisticRegression(C=1 / (2 * penalty), tol=1e-8, max_iter=5000).fit(inputs[:count], y[:count])
    np.testing.assert_allclose(head.probabilities(rows, None).numpy(), reference.predict_proba(inputs), atol=5e-3)
    np.testing.assert_allclose(head.weight.numpy(), reference.coef_.T, atol=0.02 * np.abs(reference.coef_).max())


def test_the_settings_that_ship_come_close_to_the_optimum() -> None:
    rows, y, labelled = embedding(), labels(), torch.arange(40)
    settings = replace(HeadSettings(), smoothing_steps=0)
    head = fit_head(rows, PARTS, labelled, y, CLASSES, settings)
    inputs = unit_rows(rows.double().numpy(), rows.double().numpy().mean(0))
    reference = LogisticRegression(C=1 / (2 * settings.penalty), tol=1e-8, max_iter=5000).fit(inputs[:40], y[:40])
    found, expected = head.probabilities(rows, None).numpy(), reference.predict_proba(inputs)
    assert np.abs(found - expected).mean() < 0.05
    assert (found.argmax(1) == expected.argmax(1)).mean() > 0.9


def test_probabilities_are_the_softmax_of_the_scaled_embedding_smoothed() -> None:
    rows = embedding()
    graph, spread = adjacency()
    settings = HeadSettings(epochs=20, smoothing_steps=3, restart=0.2)
    head = fit_head(rows, PARTS, torch.arange(30), labels(), CLASSES, settings)
    inputs = unit_rows(rows.double().numpy(), rows.double().numpy().mean(0))
    start = softmax(inputs @ head.weight.double().numpy() + head.bias.double().numpy(), axis=1)
    current = start
    for _ in range(3):
        current = 0.8 * spread @ current + 0.2 * start
    expected = current / current.sum(1, keepdims=True)
    np.testing.assert_allclose(head.probabilities(rows, graph).numpy(), expected, atol=1e-5)
    assert head.num_classes == CLASSES


def test_a_head_is_centred_on_the_graph_it_was_trained_on() -> None:
    rows = embedding()
    head = fit_head(rows, PARTS, torch.arange(30), labels(), CLASSES, HeadSettings(epochs=20, smoothing_steps=0))
    torch.testing.assert_close(head.mean, rows.mean(0))
    one = head.probabilities(rows[:1], None)
    torch.testing.assert_close(one, head.probabilities(rows, None)[:1])


# Smoothing


@pytest.mark.parametrize(("steps", "restart"), [(0, 0.1), (1, 0.1), (4, 0.5), (10, 0.0), (10, 1.0)])
def test_smoothing_is_the_dense_formula(steps: int, restart: float) -> None:
    graph, spread = adjacency(1)
    start = torch.softmax(torch.randn(NODES, CLASSES, generator=torch.Generator().manual_seed(2)), dim=1)
    found = smooth(start, graph, HeadSettings(smoothing_steps=steps, restart=restart))
    power = np.linalg.matrix_power
    kept = 1 - restart
    # The recursion written out: ((1-r)Â)^T P + r Σ_t ((1-r)Â)^t P.
    closed_form = power(kept * spread, steps) + restart * sum(power(kept * spread, t) for t in range(steps))
    expected = closed_form @ start.double().numpy()
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.sum(1).numpy(), 1, rtol=1e-5)


def test_smoothing_without_a_graph_changes_nothing() -> None:
    start = torch.softmax(torch.randn(7, 3, generator=torch.Generator().manual_seed(0)), dim=1)
    torch.testing.assert_close(smooth(start, None, HeadSettings()), start)


def test_smoothing_pulls_a_lone_answer_towards_its_neighbours() -> None:
    star = torch.tensor([[0] * 6 + list(range(1, 7)), list(range(1, 7)) + [0] * 6])
    start = torch.tensor([[0.9, 0.1]] + [[0.1, 0.9]] * 6)
    found = smooth(start, build_adjacency(star, 7), HeadSettings(smoothing_steps=10, restart=0.1))
    assert found.argmax(1).tolist() == [1] * 7


# What the head may see


def test_only_the_labelled_rows_of_y_are_read() -> None:
    rows, labelled = embedding(), torch.tensor([3, 17, 42, 58, 61, 76, 99, 110])
    settings = HeadSettings(epochs=30)
    garbage = torch.full((NODES,), -(10**6))
    garbage[labelled] = labels()[labelled]
    heads = [fit_head(rows, PARTS, labelled, y, CLASSES, settings) for y in (labels(), garbage)]
    assert torch.equal(heads[0].weight, heads[1].weight)
    assert torch.equal(heads[0].bias, heads[1].bias)
    changed = labels()
    changed[labelled[0]] = (changed[labelled[0]] + 1) % CLASSES
    assert not torch.equal(fit_head(rows, PARTS, labelled, changed, CLASSES, settings).weight, heads[0].weight)


def test_training_is_free_of_chance() -> None:
    rows, labelled = embedding(), torch.arange(20)
    torch.manual_seed(1)
    one = fit_head(rows, PARTS, labelled, labels(), CLASSES, HeadSettings(epochs=15))
    torch.manual_seed(2)
    other = fit_head(rows, PARTS, labelled, labels(), CLASSES, HeadSettings(epochs=15))
    assert torch.equal(one.weight, other.weight)


def test_a_class_without_labels_is_kept() -> None:
    labelled = (labels() != 2).nonzero().flatten()[:30]
    head = fit_head(embedding(), PARTS, labelled, labels(), CLASSES, HeadSettings(epochs=100, smoothing_steps=0))
    probabilities = head.probabilities(embedding(), None)
    assert probabilities.shape == (NODES, CLASSES)
    assert not bool((probabilities.argmax(1) == 2).any())


# Keeping the best


def fit(epochs: int, score=None) -> Head:
    return fit_head(embedding(), PARTS, torch.arange(30), labels(), CLASSES, HeadSettings(epochs=epochs), score)


@pytest.mark.parametrize(
    ("scores", "kept"), [([3, 1, 2, 0], 10), ([1, 3, 2, 0], 20), ([1, 2, 3, 9], 35), ([2, 5, 5, 1], 30)]
)
def test_the_head_with_the_best_score_is_kept(scores: list[float], kept: int) -> None:
    """Asked after epochs 10, 20, 30 and 35, the last; among equals the longest trained. Compared to stopping there."""
    asked: list[Head] = []

    def score(head: Head) -> float:
        asked.append(head)
        return scores[len(asked) - 1]

    best = fit(35, score)
    assert len(asked) == 4
    expected = fit(kept)
    assert torch.equal(best.weight, expected.weight)
    assert torch.equal(best.bias, expected.bias)
    # Each head was frozen when it was scored: training on did not change it.
    for head, epochs in zip(asked, (10, 20, 30, 35), strict=True):
        assert torch.equal(head.weight, fit(epochs).weight)


def test_without_a_score_the_last_head_is_kept() -> None:
    assert torch.equal(fit(37).weight, fit(37, score=lambda head: 0.0).weight)
    assert not torch.equal(fit(37).weight, fit(30).weight)


def test_nothing_of_the_head_needs_gradients() -> None:
    head = fit(5)
    assert not any(tensor.requires_grad for tensor in (head.weight, head.bias, head.mean))
