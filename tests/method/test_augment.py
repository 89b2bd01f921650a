from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch_geometric.utils import erdos_renyi_graph

from plgc.method.augment import View, draw_view, view_of
from plgc.method.encoder import GNN, KINDS
from plgc.sparse.adjacency import Adjacency, build_adjacency
from plgc.sparse.features import sparse_features

NODES, FEATURES = 30, 20


@pytest.fixture
def adjacency() -> Adjacency:
    torch.manual_seed(0)
    return build_adjacency(erdos_renyi_graph(NODES, 0.2), NODES)


def bags(nodes: int = NODES, features: int = FEATURES) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    visible = torch.rand(nodes, features, generator=generator) < 0.3
    return visible * torch.randn(nodes, features, generator=generator)


def draw(adjacency: Adjacency, edge_drop: float, feature_mask: float, seed: int = 0, features: int = FEATURES) -> View:
    generator = torch.Generator().manual_seed(seed)
    return view_of(adjacency, *draw_view(adjacency, features, edge_drop, feature_mask, generator))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_columns_are_masked_at_the_rate_asked_for(adjacency: Adjacency, rate: float) -> None:
    mask = draw(adjacency, 0.0, rate, features=20_000).feature_mask
    assert mask is not None
    assert mask.shape == (20_000,)
    assert set(mask.tolist()) == {0.0, 1.0}
    hidden = float((mask == 0).float().mean())
    assert abs(hidden - rate) < 4 * math.sqrt(rate * (1 - rate) / 20_000)


def test_the_two_rates_are_independent(adjacency: Adjacency) -> None:
    only_edges, only_features = draw(adjacency, 0.5, 0.0), draw(adjacency, 0.0, 0.5)
    assert only_edges.feature_mask is None
    assert only_edges.adjacency.row.numel() < adjacency.row.numel()
    assert only_features.feature_mask is not None
    assert torch.equal(only_features.adjacency.matrix.to_dense(), adjacency.matrix.to_dense())
    nothing = draw(adjacency, 0.0, 0.0)
    assert nothing.feature_mask is None
    assert torch.equal(nothing.adjacency.matrix.to_dense(), adjacency.matrix.to_dense())


@pytest.mark.parametrize("rate", [0.2, 0.7])
def test_edges_are_dropped_at_the_rate_asked_for(rate: float) -> None:
    torch.manual_seed(1)
    large = build_adjacency(erdos_renyi_graph(200, 0.5), 200)
    pairs = large.num_pairs
    left = (draw(large, rate, 0.3).adjacency.row.numel() - 200) / 2
    assert abs(1 - left / pairs - rate) < 4 * math.sqrt(rate * (1 - rate) / pairs)


def test_views_depend_on_the_generator_alone(adjacency: Adjacency) -> None:
    def content(view: View) -> Tensor:
        assert view.feature_mask is not None
        return torch.cat([view.adjacency.matrix.to_dense().flatten(), view.feature_mask])

    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = content(draw(adjacency, 0.5, 0.5, seed=3))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(content(draw(adjacency, 0.5, 0.5, seed=3)), first)
    assert not torch.equal(content(draw(adjacency, 0.5, 0.5, seed=4)), first)


def test_two_views_from_one_generator_differ(adjacency: Adjacency) -> None:
    generator = torch.Generator().manual_seed(0)
    one, other = (view_of(adjacency, *draw_view(adjacency, FEATURES, 0.5, 0.5, generator)) for _ in range(2))
    assert not torch.equal(one.adjacency.matrix.to_dense(), other.adjacency.matrix.to_dense())
    assert one.feature_mask is not None
    assert other.feature_mask is not None
    assert not torch.equal(one.feature_mask, other.feature_mask)


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("kind", KINDS)
def test_masking_equals_zeroing_columns_of_a_copy(adjacency: Adjacency, kind: str, layout: str) -> None:
    x = bags()
    view = draw(adjacency, 0.3, 0.4)
    assert view.feature_mask is not None
    zeroed = x.clone()
    zeroed[:, view.feature_mask == 0] = 0
    gnn = GNN(kind, FEATURES, 24, 16, generator=torch.Generator().manual_seed(2))
    given = x if layout == "dense" else sparse_features(x.to_sparse_csr())
    for graph in (view.adjacency, None):
        masked, expected = gnn(given, graph, view.feature_mask), gnn(zeroed, graph)
        torch.testing.assert_close(masked, expected, rtol=1e-4, atol=1e-6)
        assert not torch.allclose(gnn(given, graph), expected, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("kind", KINDS)
def test_masking_gives_the_gradients_of_zeroed_columns(adjacency: Adjacency, kind: str, layout: str) -> None:
    x = bags()
    view = draw(adjacency, 0.3, 0.4)
    assert view.feature_mask is not None
    gnn = GNN(kind, FEATURES, 24, 16, generator=torch.Generator().manual_seed(2))
    weights = list(gnn.parameters())
    given = x if layout == "dense" else sparse_features(x.to_sparse_csr())
    masked = torch.autograd.grad(gnn(given, view.adjacency, view.feature_mask).square().sum(), weights)
    expected = torch.autograd.grad(gnn(x * view.feature_mask, view.adjacency).square().sum(), weights)
    assert any(bool(gradient.abs().sum() > 0) for gradient in expected)
    for found, wanted in zip(masked, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
