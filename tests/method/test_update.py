"""Update and forget: a condensed graph of a changed graph, from that of the graph before."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.graphs.views.inductive import induced_subgraph
from quick import PLAIN, quick

SMALL = quick(24, hidden=24, rounds=2, epochs=10, plain=PLAIN)


@pytest.fixture(scope="module")
def before(demo_graph: Data) -> plgc.CondensedGraph:
    """Of the first 480 nodes."""
    first = torch.arange(600) < 480
    return plgc.condense(induced_subgraph(demo_graph, first), nodes=16, seed=3, settings=SMALL)


def test_it_grows_with_the_graph(before: plgc.CondensedGraph, demo_graph: Data) -> None:
    after = plgc.update(before, demo_graph)
    assert (after.num_nodes, after.seed, after.source["nodes"]) == (20, 3, 600)
    assert int(after.counts.sum()) == 600
    assert after.settings == before.settings
    assert [step.how for step in after.ancestry] == ["update"]
    parent = after.ancestry[0].parents[0]
    assert (parent.checksum, parent.rows, parent.nodes) == (before.as_parent().checksum, 16, 480)
    assert 0 < after.chosen["kept"] <= 1
    assert plgc.update(before, demo_graph).to_bytes() == after.to_bytes()


def test_only_new(before: plgc.CondensedGraph, demo_graph: Data) -> None:
    new = torch.arange(600) >= 480
    source, target = demo_graph.edge_index
    around = new.clone()
    around[source[new[target]]] = True
    part = induced_subgraph(demo_graph, around)
    part.core_mask = new[around]
    after = plgc.update(before, part, only_new=True)
    assert int(after.counts.sum()) == 600
    assert after.num_nodes == 20
    assert after.source["nodes"] == 600
    assert after.source["edges"] == demo_graph.edge_index.shape[1]
    assert after.fingerprint is None
    assert after.ancestry[0].how == "update-only-new"
