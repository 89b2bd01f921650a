"""Features from edges alone: against a dense reference, and what may and may not change them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from plgc.graphs import load_graph
from plgc.graphs.derive import DEGREE_POWER, WEIGHTS, _sparse_rows, derive_features, fastrp, parse_features
from plgc.runtime.errors import SettingError


def edges(pairs: list[tuple[int, int]]) -> torch.Tensor:
    both = pairs + [(b, a) for a, b in pairs]
    return torch.tensor(sorted(both)).t()


@pytest.mark.parametrize("weighted", [False, True])
def test_fastrp_is_what_it_says(weighted: bool) -> None:
    edge_index = edges([(0, 1), (1, 2), (2, 3), (3, 0), (1, 3)])  # node 4 has no edge
    weight = (edge_index.sum(0) + 1).float() if weighted else None
    dense = np.zeros((5, 5))
    dense[edge_index[0], edge_index[1]] = 1 if weight is None else weight.numpy()
    degree = dense.sum(1)
    walk = np.divide(dense, degree[:, None], out=np.zeros_like(dense), where=degree[:, None] > 0)
    current = np.maximum(degree / degree.sum(), 1e-12)[:, None] ** DEGREE_POWER * _sparse_rows(5, 16, 3).numpy()
    expected = np.zeros((5, 16))
    for share in WEIGHTS:
        current = walk @ current
        length = np.linalg.norm(current, axis=1, keepdims=True)
        expected += share * np.divide(current, length, out=np.zeros_like(current), where=length > 0)
    found = fastrp(edge_index, 5, 16, 3, weight)
    np.testing.assert_allclose(found.numpy(), expected / sum(WEIGHTS), atol=1e-5)
    assert not found[4].any()


def test_random_rows_are_sparse_and_keep_lengths() -> None:
    rows = _sparse_rows(2000, 64, 0)
    assert (rows != 0).float().mean() == pytest.approx(1 / 3, abs=0.01)
    assert rows.square().sum(1).mean() == pytest.approx(64, rel=0.02)
    assert rows.mean() == pytest.approx(0, abs=0.01)


def test_features_depend_on_edges_and_seed_alone() -> None:
    graph = load_graph("demo")
    features = derive_features(graph, "fastrp:32", 1)
    assert features.shape == (graph.num_nodes, 32)
    assert torch.equal(
        features, derive_features(Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes), "fastrp:32", 1)
    )
    assert not torch.equal(features, derive_features(graph, "fastrp:32", 2))


def test_neighbours_get_alike_features() -> None:
    graph = load_graph("demo")
    assert graph.edge_index is not None
    features = torch.nn.functional.normalize(derive_features(graph, "fastrp:64"), dim=1)
    row, col = graph.edge_index
    shuffled = torch.randperm(len(col), generator=torch.Generator().manual_seed(0))
    near, far = (features[row] * features[col]).sum(1).mean(), (features[row] * features[col[shuffled]]).sum(1).mean()
    assert near > far + 0.2


@pytest.mark.parametrize("spec", ["fastrp", "fastrp:", "fastrp:1", "fastrp:x", "node2vec:64", "fastrp:99999999"])
def test_other_words_are_refused(spec: str) -> None:
    with pytest.raises(SettingError, match=f"features is '{spec}'"):
        parse_features(spec)
