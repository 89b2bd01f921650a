from __future__ import annotations

import numpy as np
import pytest
import torch

from community_graphs import CommunityGraph, community_graph
from plgc.sparse import locality
from plgc.sparse.locality import local_order


@pytest.fixture(scope="module")
def edges() -> torch.Tensor:
    spec = CommunityGraph(nodes=4000, entries=80_000, features=1, communities=20, homophily=0.9)
    edge_index = community_graph(spec).edge_index
    assert edge_index is not None
    return edge_index


def distance(edge_index: torch.Tensor, order: torch.Tensor) -> float:
    """The median distance of neighbours in an order."""
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    return float((place[edge_index[0]] - place[edge_index[1]]).abs().double().median())


def test_neighbours_come_close(edges: torch.Tensor) -> None:
    order = local_order(edges, 4000)
    assert torch.equal(order.sort().values, torch.arange(4000))
    assert distance(edges, order) < 0.25 * distance(edges, torch.arange(4000))


def test_it_is_the_same_every_time(edges: torch.Tensor) -> None:
    order = local_order(edges, 4000)
    assert torch.equal(local_order(edges.clone(), 4000), order)
    assert torch.equal(local_order(edges.to(torch.int32), 4000), order)


def test_of_a_dense_graph_some_edges_are_enough(edges: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locality, "ENTRIES_A_NODE", 5)
    assert edges.shape[1] // (5 * 4000) >= 3
    order = local_order(edges, 4000)
    assert torch.equal(order.sort().values, torch.arange(4000))
    assert distance(edges, order) < 0.5 * distance(edges, torch.arange(4000))


@pytest.mark.parametrize("nodes", [1, 2, 7])
def test_nodes_without_edges_have_a_place(nodes: int) -> None:
    order = local_order(torch.empty(2, 0, dtype=torch.int64), nodes)
    np.testing.assert_array_equal(np.sort(order.numpy()), np.arange(nodes))
    order = local_order(torch.tensor([[0, 5], [5, 0]]), 9)
    np.testing.assert_array_equal(np.sort(order.numpy()), np.arange(9))
    assert abs(order.tolist().index(0) - order.tolist().index(5)) == 1
