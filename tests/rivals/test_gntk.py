from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from plgc.graphs import citation_graph, load_graph
from plgc.rivals.trajectory import gntk
from plgc.rivals.trajectory.gntk import centred, kernel_nodes, regression, tangent_kernel
from plgc.sparse.inputs import Inputs, prepare

VAL = torch.tensor([3, 50, 7, 21, 34, 8, 90, 41, 5, 66])


@pytest.fixture(scope="module")
def graph() -> Data:
    return load_graph(citation_graph(nodes=100, classes=3, features=30, mean_degree=12))


@pytest.fixture(scope="module")
def inputs(graph: Data) -> Inputs:
    return prepare(graph, "l1")


def slow_kernel(x1: np.ndarray, hood1: list[list[int]], x2: np.ndarray, hood2: list[list[int]]) -> np.ndarray:
    """The kernel from its definition, one pair of nodes at a time, over the pairs of both graphs together."""
    x, hood = np.concatenate([x1, x2]), [*hood1, *([len(x1) + v for v in near] for near in hood2)]
    size = len(x)
    sigma = np.array([[x[u] @ x[v] for v in range(size)] for u in range(size)])

    def averaged(kernel: np.ndarray) -> np.ndarray:
        return np.array(
            [[np.mean([[kernel[a, b] for b in hood[v]] for a in hood[u]]) for v in range(size)] for u in range(size)]
        )

    sigma = averaged(sigma)
    theta = sigma.copy()
    for block in range(2):
        if block == 1:
            sigma, theta = averaged(sigma), averaged(theta)
        for _ in range(2):
            after, slope = np.empty_like(sigma), np.empty_like(sigma)
            for u in range(size):
                for v in range(size):
                    # E[relu(a) relu(b)] and E[relu'(a) relu'(b)] of normal a, b, times two
                    length = math.sqrt(sigma[u, u] * sigma[v, v])
                    angle = math.acos(max(-1.0, min(1.0, sigma[u, v] / length)))
                    after[u, v] = length * (math.sin(angle) + (math.pi - angle) * math.cos(angle)) / math.pi
                    slope[u, v] = (math.pi - angle) / math.pi
            theta = theta * slope + after
            sigma = after
    return theta[: len(x1), len(x1) :]


def neighbourhoods(graph: Data, nodes: list[int]) -> list[list[int]]:
    edges = set(map(tuple, graph["edge_index"].T.tolist()))
    return [[b for b, other in enumerate(nodes) if (node, other) in edges or node == other] for node in nodes]


def test_the_kernel_equals_its_definition(graph: Data, inputs: Inputs) -> None:
    hood = neighbourhoods(graph, VAL.tolist())
    assert sum(map(len, hood)) > len(VAL) + 3  # there are edges to average over
    dense = inputs.x.to_dense().double()
    label = graph["y"][VAL]
    seen = regression(inputs, VAL, label, 3, 1.0)
    source = dense[60:66]
    alone = [[v] for v in range(6)]
    free = kernel_nodes(source, None)
    expected = slow_kernel(dense[VAL].numpy(), hood, source.numpy(), alone)
    np.testing.assert_allclose(tangent_kernel(seen.nodes, free).numpy(), expected, rtol=1e-6)
    expected_own = slow_kernel(source.numpy(), alone, source.numpy(), alone)
    own = tangent_kernel(free, free).numpy()
    np.testing.assert_allclose(own, expected_own, rtol=1e-6)
    # ridge regression on top of it
    y_source = graph["y"][60:66]
    target = np.eye(3)[y_source] - 1 / 3
    ridge = np.trace(own) / 6 * np.eye(6)
    predicted = expected @ np.linalg.inv(own + ridge) @ target
    np.testing.assert_allclose(seen.predict(source, y_source).numpy(), predicted, rtol=1e-5)
    error = 0.5 * np.mean((predicted - (np.eye(3)[label] - 1 / 3)) ** 2)
    assert float(seen.error(source, y_source)) == pytest.approx(error, rel=1e-5)


def test_the_kernel_is_that_of_a_wide_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """One layer: Θ is the product of gradients of √2 Σ a_i relu(w_i·x) / √width, here drawn and not integrated."""
    monkeypatch.setattr(gntk, "BLOCKS", 1)
    monkeypatch.setattr(gntk, "LAYERS", 1)
    x = torch.tensor([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.3]], dtype=torch.float64)
    weight = torch.randn(2, 400_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    hidden, slope = torch.relu(x @ weight), (x @ weight > 0).double()
    by_last, by_first = (2 * part @ part.t() / weight.shape[1] for part in (hidden, slope))
    nodes = kernel_nodes(x, None)
    torch.testing.assert_close(tangent_kernel(nodes, nodes), by_last + by_first * (x @ x.t()), atol=0.02, rtol=0)


def test_ridge_regression_separates_what_can_be_separated(inputs: Inputs) -> None:
    generator = torch.Generator().manual_seed(0)
    centre = torch.eye(3, 30, dtype=torch.float32) * 3
    label = torch.arange(3).repeat(4)
    source = centre[label] + 0.1 * torch.randn(12, 30, generator=generator)
    own = kernel_nodes(centre[[2, 0, 1]], None)
    target = centred(torch.tensor([2, 0, 1]), 3)
    seen = regression(inputs, VAL, torch.zeros(10, dtype=torch.int64), 3, 1e-3)
    toy = type(seen)(own, target, 1e-3)
    assert toy.predict(source, label).argmax(1).tolist() == [2, 0, 1]
    assert float(toy.error(source, label)) < 0.01
    assert float(toy.error(source, (label + 1) % 3)) > 0.2


def test_nodes_without_features_give_no_nan(inputs: Inputs) -> None:
    nodes = kernel_nodes(torch.zeros(2, 30), None)
    assert bool(torch.isfinite(tangent_kernel(nodes, nodes)).all())
