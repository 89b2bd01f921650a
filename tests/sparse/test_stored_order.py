from __future__ import annotations

import pytest
import torch
from torch import Tensor

from plgc.graphs import citation_graph
from plgc.graphs.views import stream
from plgc.graphs.views.stream import row_starts
from plgc.sparse import stored_order as module
from plgc.sparse.locality import local_order
from plgc.sparse.stored_order import stored_order


@pytest.fixture(scope="module")
def edges() -> tuple[Tensor, int]:
    graph = citation_graph(nodes=4000, classes=6, features=8, seed=1)
    return graph["edge_index"].contiguous(), 4000


def inside(edges: Tensor, order: Tensor, size: int) -> float:
    """The share of edges within slices of the order."""
    place = torch.empty(len(order), dtype=torch.long)
    place[order] = torch.arange(len(order)) // size
    return float((place[edges[0]] == place[edges[1]]).float().mean())


def test_neighbours_are_as_close_as_in_the_order_in_memory(edges: tuple[Tensor, int]) -> None:
    edge_index, nodes = edges
    order = stored_order(edge_index, row_starts(edge_index, nodes), nodes)
    assert torch.equal(order.sort().values, torch.arange(nodes))
    for size in (64, 256):
        ours, memory = inside(edge_index, order, size), inside(edge_index, local_order(edge_index, nodes), size)
        assert ours > 0.9 * memory > 0.9 * 2 * inside(edge_index, torch.arange(nodes), size)


def test_blocks_do_not_matter_and_few_edges_do_for_the_upper_levels(
    edges: tuple[Tensor, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    edge_index, nodes = edges
    starts = row_starts(edge_index, nodes)
    order = stored_order(edge_index, starts, nodes)
    monkeypatch.setattr(stream, "BLOCK_ENTRIES", 50)
    assert torch.equal(stored_order(edge_index, starts, nodes), order)
    monkeypatch.setattr(module, "SAMPLED", edge_index.shape[1] // 4)
    sampled = stored_order(edge_index, starts, nodes)
    assert inside(edge_index, sampled, 64) > 0.7 * inside(edge_index, order, 64)


def test_nodes_without_edges_have_a_place_too() -> None:
    edge_index = torch.tensor([[1, 3], [3, 1]])
    order = stored_order(edge_index, row_starts(edge_index, 6), 6)
    assert torch.equal(order.sort().values, torch.arange(6))
    place = order.argsort()
    assert abs(int(place[1] - place[3])) == 1
