from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression
from torch_geometric.data import Data

from plgc.graphs import check_condensable, load_graph
from plgc.graphs.features import to_scipy
from plgc.graphs.synthetic import citation_graph
from plgc.runtime.errors import SettingError


@pytest.fixture(scope="module")
def graph() -> Data:
    return citation_graph()


def probe(features: sp.csr_matrix, graph: Data) -> float:
    """Test accuracy of logistic regression on the training nodes."""
    train, test, y = graph.train_mask.numpy(), graph.test_mask.numpy(), graph.y.numpy()
    return LogisticRegression(max_iter=300).fit(features[train], y[train]).score(features[test], y[test])


def test_the_same_seed_gives_the_same_graph_whatever_the_global_state() -> None:
    np.random.seed(1)
    torch.manual_seed(1)
    first = citation_graph(nodes=300, classes=3, features=100, seed=4)
    np.random.seed(2)
    torch.manual_seed(2)
    second, other = (citation_graph(nodes=300, classes=3, features=100, seed=seed) for seed in (4, 5))
    assert torch.equal(first.x.to_dense(), second.x.to_dense())
    for key in ("edge_index", "y", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(first[key], second[key]), key
    assert not torch.equal(first.edge_index, other.edge_index)


def test_it_is_already_in_loaded_form(graph: Data) -> None:
    check_condensable(graph)
    loaded = load_graph(graph)
    assert torch.equal(loaded.edge_index, graph.edge_index)
    assert torch.equal(loaded.x.to_dense(), graph.x.to_dense())
    assert (
        loaded.split_origin == graph.split_origin == "generated split, seed 0 (20 per class, 500 validation, 1000 test)"
    )


def test_sizes_are_those_asked_for(graph: Data) -> None:
    assert graph.num_nodes == 3000
    assert graph.x.shape == (3000, 1000)
    assert graph.edge_index.size(1) == 3000 * 4.5
    sizes = torch.bincount(graph.y)
    assert sizes.numel() == 7
    assert 2 <= int(sizes.max()) / int(sizes.min()) <= 4
    assert torch.bincount(graph.y[graph.train_mask]).tolist() == [20] * 7
    assert (int(graph.val_mask.sum()), int(graph.test_mask.sum())) == (500, 1000)


@pytest.mark.parametrize("homophily", [0.3, 0.8])
def test_homophily_is_about_what_was_asked_for(homophily: float) -> None:
    graph = citation_graph(homophily=homophily)
    row, column = graph.edge_index
    assert float((graph.y[row] == graph.y[column]).float().mean()) == pytest.approx(homophily, abs=0.03)


def test_degrees_have_hubs_and_isolated_nodes(graph: Data) -> None:
    degree = torch.bincount(graph.edge_index[0], minlength=3000)
    assert int(degree.max()) > 40
    assert 0 < int((degree == 0).sum()) < 300


def test_features_are_sparse_binary_bags(graph: Data) -> None:
    assert graph.x.layout == torch.sparse_csr
    assert bool((graph.x.values() == 1).all())
    per_node = graph.x.crow_indices().diff()
    assert int(per_node.min()) >= 1
    assert 15 < float(per_node.float().mean()) <= 20


@pytest.mark.parametrize("seed", [0, 1])
def test_it_is_about_as_hard_as_cora(seed: int) -> None:
    """Features alone do badly, two steps of propagation (a linear GCN) do well, neither is trivial."""
    graph = citation_graph(seed=seed)
    x = to_scipy(graph.x)
    loops = sp.csr_matrix((np.ones(graph.num_edges), graph.edge_index.numpy()), shape=(3000, 3000)) + sp.eye(3000)
    scale = sp.diags(np.asarray(loops.sum(1)).ravel() ** -0.5)
    spread = scale @ loops @ scale
    alone, propagated = probe(x, graph), probe(10 * (spread @ (spread @ x)), graph)
    assert 0.5 <= alone <= 0.65
    assert 0.72 <= propagated <= 0.88


def test_node_numbers_do_not_give_the_class_away(graph: Data) -> None:
    first, last = graph.y[:1000], graph.y[-1000:]
    assert (torch.bincount(first) - torch.bincount(last)).abs().max() < 80


@pytest.mark.parametrize(
    ("settings", "value"),
    [
        ({"nodes": 10, "classes": 7}, "nodes=10"),
        ({"classes": 1}, "classes=1"),
        ({"features": 0}, "features=0"),
        ({"words": 0}, "words=0"),
        ({"mean_degree": 0}, "mean_degree=0"),
        ({"nodes": 40, "mean_degree": 11}, "mean_degree=11"),
        ({"homophily": 1.2}, "homophily=1.2"),
    ],
)
def test_impossible_settings_are_named(settings: dict, value: str) -> None:
    with pytest.raises(SettingError, match=value):
        citation_graph(**settings)


def test_small_graphs_work() -> None:
    graph = citation_graph(nodes=12, classes=4, features=5, mean_degree=2, seed=3)
    assert graph.y.unique().tolist() == [0, 1, 2, 3]
    assert int((graph.train_mask | graph.val_mask | graph.test_mask).sum()) == 12
    assert load_graph(graph).edge_index.equal(graph.edge_index)
