"""Labels end at the bare graph: it has features and edges, and no field for anything else."""

from __future__ import annotations

from dataclasses import fields

import pytest
import torch
from torch_geometric.data import Data

from plgc.graphs import load_graph
from plgc.graphs.bare import BareGraph, bare_graph, strip_labels
from plgc.runtime.errors import GraphError


def test_it_has_no_field_for_labels_or_masks() -> None:
    assert {item.name for item in fields(BareGraph)} == {
        *("x", "edge_index", "num_nodes", "edge_weight", "core_mask", "seen", "name")
    }


def test_a_loaded_graph_is_stripped_to_what_any_graph_is_brought_to(demo_graph: Data) -> None:
    graph = load_graph(demo_graph)
    stripped, brought = strip_labels(graph), bare_graph(demo_graph)
    assert torch.equal(stripped.edge_index, brought.edge_index)
    assert torch.equal(stripped.x.to_dense(), brought.x.to_dense())
    assert stripped.counts == brought.counts == {"nodes": 600, "edges": graph.num_edges, "features": 200}
    assert bare_graph(stripped) is stripped


def test_a_halo_does_not_count(demo_graph: Data) -> None:
    graph = load_graph(demo_graph)
    graph.core_mask = torch.arange(600) < 500
    bare = strip_labels(graph)
    assert (bare.num_nodes, bare.num_own, bare.counts["nodes"], bare.counts["halo"]) == (600, 500, 500, 100)


def test_a_graph_that_cannot_be_condensed_is_refused(demo_graph: Data) -> None:
    graph = Data(x=torch.ones(4, 2), edge_index=torch.tensor([[0, 1], [1, 2]]))
    with pytest.raises(GraphError, match="the features are constant"):
        bare_graph(graph)
    with pytest.raises(GraphError, match="no node features"):
        strip_labels(load_graph(Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)))
