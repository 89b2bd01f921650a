from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from plgc.graphs.views.edges import keep_edges, split_edges
from plgc.runtime.errors import GraphError
from plgc.sparse.features import SparseFeatures
from plgc.sparse.inputs import Inputs, prepare
from plgc.sparse.prepared import PreparedGraphs


def same(one: Inputs, other: Inputs) -> bool:
    assert isinstance(one.x, SparseFeatures)
    assert isinstance(other.x, SparseFeatures)
    return torch.equal(one.x.to_dense(), other.x.to_dense()) and torch.equal(
        one.adjacency.matrix.to_dense(), other.adjacency.matrix.to_dense()
    )


def test_a_graph_is_prepared_once_per_scaling(demo_graph: Data) -> None:
    prepared = PreparedGraphs()
    first = prepared.inputs(demo_graph, "l1")
    assert prepared.inputs(demo_graph, "l1", torch.device("cpu")) is first
    assert same(first, prepare(demo_graph, "l1"))
    unscaled = prepared.inputs(demo_graph, "none")
    assert unscaled is not first
    assert same(unscaled, prepare(demo_graph, "none"))


def test_graphs_with_the_same_features_share_them_and_have_their_own_edges(demo_graph: Data) -> None:
    prepared, fewer = PreparedGraphs(), keep_edges(demo_graph, split_edges(demo_graph, 0).train)
    whole, part = prepared.inputs(demo_graph, "l1"), prepared.inputs(fewer, "l1")
    assert part.x is whole.x
    assert same(part, prepare(fewer, "l1"))
    other = demo_graph.clone()
    assert prepared.inputs(other, "l1").x is not whole.x


def test_a_value_is_made_once_per_key() -> None:
    prepared, made = PreparedGraphs(), []
    assert [prepared.once(key, lambda: made.append(1) or len(made)) for key in ("a", "b", "a", "b")] == [1, 2, 1, 2]


def test_a_graph_without_features_is_refused() -> None:
    with pytest.raises(GraphError, match="no node features"):
        PreparedGraphs().inputs(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2), "l1")
