"""Forget: the condensed graph without some nodes, from that of the graph with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.graphs import unlabelled
from plgc.graphs.bare import bare_graph
from plgc.graphs.preprocessing import ColumnRule, Preprocessing
from plgc.graphs.views.inductive import induced_subgraph
from plgc.method.forget import listed_columns, without
from plgc.runtime.errors import ArtifactError, GraphError, SettingError
from quick import PLAIN, quick

SMALL = quick(24, hidden=24, rounds=2, epochs=10, plain=PLAIN)
GONE = torch.arange(600) % 10 == 3


@pytest.fixture(scope="module")
def whole(demo_graph: Data) -> plgc.CondensedGraph:
    return plgc.condense(demo_graph, nodes=20, seed=3, settings=SMALL)


def test_exact_is_condensing_what_remains(whole: plgc.CondensedGraph, demo_graph: Data) -> None:
    remaining = induced_subgraph(demo_graph, ~GONE)
    expected = plgc.condense(remaining, nodes=18, seed=3, settings=SMALL)
    assert plgc.forget(whole, demo_graph, GONE, exact=True).to_bytes() == expected.to_bytes()


@pytest.mark.parametrize("form", [torch.Tensor.numpy, torch.Tensor.tolist, lambda mask: mask.nonzero().flatten()])
def test_what_is_forgotten_is_not_told(
    whole: plgc.CondensedGraph, demo_graph: Data, form: Callable[[torch.Tensor], Any]
) -> None:
    less = plgc.forget(whole, demo_graph, form(GONE))
    assert (less.num_nodes, less.source["nodes"], int(less.counts.sum())) == (18, 540, 540)
    assert [(step.how, step.parents) for step in less.ancestry] == [("forget", ())]
    assert "kept" not in less.chosen
    earlier = plgc.update(whole, demo_graph)
    assert plgc.forget(earlier, demo_graph, GONE).ancestry == less.ancestry


def test_the_same_bytes_whoever_has_left(whole: plgc.CondensedGraph, demo_graph: Data) -> None:
    other = demo_graph.clone()
    x = demo_graph.x.to_dense().clone()
    x[GONE] = x[GONE].roll(1, dims=0).flip(1)
    other.x = x.to_sparse_csr() if demo_graph.x.layout == torch.sparse_csr else x
    source, target = demo_graph.edge_index
    other.edge_index = demo_graph.edge_index[:, ~(GONE[source] ^ GONE[target])]
    known = plgc.condense(other, nodes=20, seed=3, settings=SMALL)
    assert known.to_bytes() != whole.to_bytes()
    less = plgc.forget(whole, demo_graph, GONE)
    assert plgc.forget(known, other, GONE).to_bytes() == less.to_bytes()
    assert less.settings == whole.settings
    assert len(less.curves["pseudo_label_loss"]) == 5  # of 20 that condensing takes


def test_a_word_of_removed_nodes_alone_is_gone(demo_graph: Data) -> None:
    x = demo_graph.x.to_dense().clone()
    x[:, 7] = GONE.float()
    graph = Data(x=x, edge_index=demo_graph.edge_index)
    known = plgc.condense(graph, nodes=20, settings=SMALL)
    assert float(known.features[:, 7].sum()) > 0
    assert float(plgc.forget(known, graph, GONE).features[:, 7].abs().sum()) == 0


def test_labels_cannot_reach_the_artifact(whole: plgc.CondensedGraph, demo_graph: Data) -> None:
    bare = unlabelled(demo_graph)
    assert plgc.forget(whole, demo_graph, GONE).to_bytes() == plgc.forget(whole, bare, GONE).to_bytes()


def test_words_of_a_table_lose_their_column() -> None:
    rules = (
        ColumnRule("size", "number", fill=(0.0,)),
        ColumnRule("town", "words", words=("Bern", "Genf")),
        ColumnRule("owner", "words", words=("Ada",)),
    )
    table = Preprocessing(rules)
    before = torch.tensor([[0.0, 1, 0, 0], [0, 1, 0, 0], [2, 0, 1, 1]])
    columns = listed_columns(table, before, before[:2])
    assert columns is not None
    assert columns.tolist() == [True, True, False, False]
    assert table.keep(columns.tolist()).features == ["size", "town=Bern"]
    assert listed_columns(table, before, before[1:]) is None
    assert listed_columns(replace(table, rare=2), before, before[1:]).tolist() == [True, False, True, True]


def test_derived_features_are_derived_again(demo_graph: Data) -> None:
    graph = plgc.load_graph(
        Data(edge_index=demo_graph.edge_index, num_nodes=600), features="fastrp:16", features_seed=2, notice=False
    )
    remaining = without(bare_graph(graph), GONE)
    expected = plgc.load_graph(
        Data(edge_index=remaining.edge_index, num_nodes=540), features="fastrp:16", features_seed=2, notice=False
    )
    assert torch.equal(remaining.x, expected.x)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([], "name no node"),
        ([5, 600], "no node 600: nodes are numbered from 0 to 599"),
        ([-1], "no node -1"),
        (np.array([1.5]), "float64 values"),
        (["a"], r"ids are \['a'\]"),
        (torch.ones(10, dtype=torch.bool), "10 booleans, the graph has 600 nodes"),
        (torch.arange(600) > 0, "599 nodes would leave and 1 remain"),
    ],
)
def test_ids_that_cannot_be_forgotten(whole: plgc.CondensedGraph, demo_graph: Data, ids: Any, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        plgc.forget(whole, demo_graph, ids)


def test_what_remains_must_have_edges(whole: plgc.CondensedGraph, demo_graph: Data) -> None:
    kept = torch.zeros(600, dtype=torch.bool)
    kept[0] = True
    source, target = demo_graph.edge_index
    joined = kept.clone()
    joined[target[source == 0]] = True
    apart = int((~joined).nonzero()[0])
    with pytest.raises(GraphError, match=r"598 nodes would leave.*no edges"):
        plgc.forget(whole, demo_graph, [node for node in range(600) if node not in (0, apart)])


def test_files_of_another_graph_are_refused(whole: plgc.CondensedGraph, demo_graph: Data) -> None:
    other = demo_graph.clone()
    other.edge_index = demo_graph.edge_index[:, (demo_graph.edge_index != 9).all(0)]
    with pytest.raises(ArtifactError, match="its fingerprint is another"):
        plgc.forget(whole, other, [5])
    unknown = replace(whole, fingerprint=None)
    with pytest.raises(ArtifactError, match="has no fingerprint"):
        plgc.forget(unknown, demo_graph, [5])
    with pytest.raises(ArtifactError, match=rf"with {demo_graph.num_edges} edges, this one has {other.num_edges}"):
        plgc.forget(unknown, other, [5], unchecked=True)
    assert plgc.forget(unknown, demo_graph, [5], unchecked=True).source["nodes"] == 599
