from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from torch import Tensor
from torch_geometric.utils import erdos_renyi_graph, to_dense_adj

from plgc.downstream.head import Head, HeadSettings, describe_head
from plgc.downstream.smoothing import smooth
from plgc.runtime.errors import PLGCError
from plgc.sparse.adjacency import Adjacency, build_adjacency

NODES, CLASSES = 120, 4
PARTS = {"learned": 6, "x": 10}


def embedding() -> Tensor:
    """Two parts of unlike scale and a mean that is not zero."""
    rows = torch.randn(NODES, 16, generator=torch.Generator().manual_seed(0))
    return rows * torch.tensor([5.0] * 6 + [0.2] * 10) + 3


def adjacency(seed: int = 0, nodes: int = NODES) -> tuple[Adjacency, np.ndarray]:
    """A random graph with a node without neighbours, and its Â as a dense matrix."""
    torch.manual_seed(seed)
    edge_index = erdos_renyi_graph(nodes - 1, 3 / nodes)
    closed = to_dense_adj(edge_index, max_num_nodes=nodes)[0].double().numpy() + np.eye(nodes)
    scale = closed.sum(1) ** -0.5
    return build_adjacency(edge_index, nodes), scale[:, None] * closed * scale


def unit_rows(rows: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Centre and scale each part to unit length, in NumPy."""
    pieces = np.split(rows - mean, [6], axis=1)
    return np.concatenate([piece / np.linalg.norm(piece, axis=1, keepdims=True) for piece in pieces], axis=1)


def a_head(sigma: float, **settings: Any) -> Head:
    generator = torch.Generator().manual_seed(1)
    weight, bias = torch.randn(16, CLASSES, generator=generator), torch.randn(CLASSES, generator=generator)
    settled = {"smoothing": sigma, "weight_of_edges": 0.4}
    return Head(weight, bias, embedding().mean(0), PARTS, sigma, HeadSettings(**settings), settled)


def spread_slowly(start: np.ndarray, spread: np.ndarray, steps: int, restart: float) -> np.ndarray:
    current = start
    for _ in range(steps):
        current = (1 - restart) * spread @ current + restart * start
    return current / current.sum(1, keepdims=True)


@pytest.mark.parametrize("sigma", [0.0, 0.3, 1.0])
def test_probabilities_are_the_formula(sigma: float) -> None:
    rows, head = embedding(), a_head(sigma, smoothing_steps=3, restart=0.2)
    graph, spread = adjacency()
    inputs = unit_rows(rows.double().numpy(), rows.double().numpy().mean(0))
    own = softmax(inputs @ head.weight.double().numpy() + head.bias.double().numpy(), axis=1)
    mixed = (1 - sigma) * np.log(own) + sigma * np.log(spread_slowly(own, spread, 3, 0.2))
    np.testing.assert_allclose(head.probabilities(rows, graph).log().numpy(), log_softmax(mixed, axis=1), atol=1e-4)
    np.testing.assert_allclose(head.probabilities(rows, None).numpy(), own, atol=1e-5)
    assert head.num_classes == CLASSES


def test_a_head_is_centred_on_the_graph_it_was_trained_on() -> None:
    rows, head = embedding(), a_head(0.0)
    torch.testing.assert_close(head.probabilities(rows[:1], None), head.probabilities(rows, None)[:1])


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
    several = smooth(
        torch.stack([start, start.flip(1)], 1), graph, HeadSettings(smoothing_steps=steps, restart=restart)
    )
    torch.testing.assert_close(several[:, 0], found)
    torch.testing.assert_close(several[:, 1], found.flip(1))


def test_smoothing_without_a_graph_changes_nothing() -> None:
    start = torch.softmax(torch.randn(7, 3, generator=torch.Generator().manual_seed(0)), dim=1)
    torch.testing.assert_close(smooth(start, None, HeadSettings()), start)


def test_smoothing_pulls_a_lone_answer_towards_its_neighbours() -> None:
    star = torch.tensor([[0] * 6 + list(range(1, 7)), list(range(1, 7)) + [0] * 6])
    start = torch.tensor([[0.9, 0.1]] + [[0.1, 0.9]] * 6)
    found = smooth(start, build_adjacency(star, 7), HeadSettings(smoothing_steps=10, restart=0.1))
    assert found.argmax(1).tolist() == [1] * 7


# Files


def tensors_of(head: Head) -> dict[str, Tensor]:
    return {"weight": head.weight, "bias": head.bias, "mean": head.mean}


def test_what_is_written_is_read() -> None:
    head = a_head(0.25, penalty=0.1, self_training=False)
    again = Head.from_file(tensors_of(head), head.header(), PARTS)
    assert again.header() == head.header()
    assert (again.settings, again.sigma, again.settled) == (head.settings, 0.25, head.settled)
    graph, _ = adjacency()
    assert torch.equal(again.probabilities(embedding(), graph), head.probabilities(embedding(), graph))


def test_heads_of_older_files_answer_as_they_did() -> None:
    """They were trained on parts scaled by 1 / √parts, and their predictions were always smoothed."""
    old = {"epochs": 200, "learning_rate": 0.05, "penalty": 0.04, "smoothing_steps": 4, "restart": 0.2}
    head, rows = a_head(0.0), embedding()
    found = Head.from_file(tensors_of(head), old, PARTS)
    graph, spread = adjacency()
    inputs = unit_rows(rows.double().numpy(), rows.double().numpy().mean(0)) / np.sqrt(2)
    own = softmax(inputs @ head.weight.double().numpy() + head.bias.double().numpy(), axis=1)
    expected = spread_slowly(own, spread, 4, 0.2)
    np.testing.assert_allclose(found.probabilities(rows, graph).numpy(), expected, atol=1e-5)
    assert describe_head(found.settled) == ""


@pytest.mark.parametrize(
    ("tensors", "header", "reason"),
    [
        ({"weight": torch.zeros(3, CLASSES)}, {}, "the backbone gives 16 columns"),
        ({"mean": torch.zeros(3)}, {}, "the backbone gives 16 columns"),
        ({}, {"sigma": 1.5}, "sigma is 1.5"),
        ({}, {"sigma": float("nan")}, "sigma is nan"),
        ({}, {"penalty": -1}, "penalty"),
    ],
)
def test_a_head_that_does_not_fit_is_refused(tensors: dict[str, Tensor], header: dict[str, Any], reason: str) -> None:
    head = a_head(0.5)
    with pytest.raises((ValueError, PLGCError), match=reason):
        Head.from_file(tensors_of(head) | tensors, head.header() | header, PARTS)


# Words


def test_what_was_settled_is_said_in_words() -> None:
    said = describe_head({"smoothing": 0.01, "weight_of_edges": 0.08})
    assert said == (
        "the edges do not help here: 8% of the weight is on parts that use them, and predictions are not smoothed"
    )
    said = describe_head({"smoothing": 0.97, "weight_of_edges": 0.9, "self_training": 0.8, "edge_agreement": 0.3})
    assert said.startswith("the edges help here: 90% of the weight")
    assert said.endswith("smoothed over them with weight 97%; unlabelled nodes help with strength 80%")
    assert describe_head({"self_training": 0.5}) == ""
