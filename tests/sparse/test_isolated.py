from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from plgc.sparse.adjacency import build_adjacency
from plgc.sparse.features import StoredFeatures, mean_rows
from plgc.sparse.inputs import prepare
from plgc.sparse.isolated import beside, with_isolated


@pytest.mark.parametrize("weighted", [False, True])
def test_as_if_the_nodes_had_been_there(demo_graph: Data, weighted: bool) -> None:
    edges = demo_graph.edge_index
    weight = (edges.sum(0) % 5 + 1).float() if weighted else None
    found = with_isolated(build_adjacency(edges, 600, weight), 7)
    expected = build_adjacency(edges, 607, weight)
    assert torch.equal(found.matrix.to_dense(), expected.matrix.to_dense())
    assert torch.equal(found.pair, expected.pair)


@pytest.mark.parametrize("form", ["sparse", "dense", "stored"])
def test_rows_follow_those_of_the_graph(demo_graph: Data, form: str) -> None:
    graph, dense = demo_graph.clone(), demo_graph.x.to_dense()
    if form != "sparse":
        graph.x = dense.half() if form == "stored" else dense
    inputs = prepare(graph, "none", keep_stored=form == "stored")
    assert isinstance(inputs.x, StoredFeatures) == (form == "stored")
    rows = torch.rand(7, 200, generator=torch.Generator().manual_seed(0)) * (torch.arange(200) % 3 == 0)
    found = beside(inputs, rows)
    assert (found.num_nodes, found.x.shape) == (607, (607, 200))
    whole = mean_rows(found.x, torch.eye(607))
    assert np.allclose(whole, torch.cat([dense, rows]), atol=1e-3)


def test_the_order_of_nodes_goes_on(demo_graph: Data) -> None:
    inputs = prepare(demo_graph, "l1")
    order = torch.randperm(600, generator=torch.Generator().manual_seed(0))
    found = beside(type(inputs)(inputs.x, inputs.adjacency, order), torch.zeros(2, 200))
    assert found.order is not None
    assert found.order.tolist() == [*order.tolist(), 600, 601]
