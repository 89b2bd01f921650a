from __future__ import annotations

from dataclasses import fields

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.check import MASKS, node_count
from plgc.graphs.load import load_graph
from plgc.graphs.views.edges import EdgeSplit, keep_edges, non_edges, split_edges, training_edges, undirected_edges
from plgc.runtime.errors import GraphError

SEEDS = st.integers(0, 2**31)


@st.composite
def graphs(draw: st.DrawFn, least: int = 4) -> Data:
    """Small graphs, from sparse to complete, with edge weights; at least ``least`` undirected edges."""
    nodes = draw(st.integers(5, 14))
    every = [(a, b) for a in range(nodes) for b in range(a)]
    edges = draw(st.lists(st.sampled_from(every), min_size=least, max_size=len(every), unique=True))
    weight = torch.arange(1.0, len(edges) + 1)
    return load_graph(
        Data(edge_index=torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T, edge_weight=weight, num_nodes=nodes)
    )


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def as_set(pairs: Tensor) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in pairs.T}


def weights(graph: Data) -> dict[tuple[int, int], float]:
    return {(int(a), int(b)): float(w) for (a, b), w in zip(graph["edge_index"].T, graph["edge_weight"], strict=True)}


# The split


@settings(deadline=None)
@given(graphs(), SEEDS)
def test_the_parts_are_disjoint_and_together_everything(graph: Data, seed: int) -> None:
    split = split_edges(graph, seed)
    parts = [as_set(getattr(split, field.name)) for field in fields(EdgeSplit)]
    assert parts[0] | parts[1] | parts[2] == as_set(undirected_edges(graph))
    sizes = [split.train.shape[1], split.val.shape[1], split.test.shape[1]]
    assert [len(part) for part in parts] == sizes  # each edge once
    assert sum(sizes) * 2 == graph["edge_index"].shape[1]
    for size, share in zip(sizes, (1 / 4, 1 / 4, 1 / 2), strict=True):
        assert size >= 1
        assert abs(size - share * sum(sizes)) <= 1
    for part in (split.train, split.val, split.test):
        assert bool((part[0] < part[1]).all())


def test_sizes_are_one_to_one_to_two(demo_graph: Data) -> None:
    count = demo_graph["edge_index"].shape[1] // 2
    split = split_edges(demo_graph, 0)
    assert split.train.shape[1] == split.val.shape[1] == (count + 1) // 4
    assert split.test.shape[1] == count - 2 * ((count + 1) // 4)


def test_every_edge_is_as_likely_in_every_part() -> None:
    ring = load_graph(Data(edge_index=torch.stack([torch.arange(12), (torch.arange(12) + 1) % 12]), num_nodes=12))
    counts = torch.zeros(12)
    edges = undirected_edges(ring)
    for seed in range(400):
        train = as_set(split_edges(ring, seed).train)
        counts += torch.tensor([pair in train for pair in map(tuple, edges.T.tolist())])
    assert float(((counts - 100) ** 2 / 75).sum()) < 35  # χ² with 11 degrees of freedom: exceeded once in 5,000


def test_the_split_depends_on_the_seed_alone(demo_graph: Data) -> None:
    before = torch.get_rng_state()
    first = split_edges(demo_graph, 3)
    assert torch.equal(torch.get_rng_state(), before)
    again, other = split_edges(demo_graph, 3), split_edges(demo_graph, 4)
    assert torch.equal(first.train, again.train)
    assert torch.equal(first.test, again.test)
    assert as_set(first.train) != as_set(other.train)


@pytest.mark.parametrize("count", [0, 3])
def test_too_few_edges_are_refused(count: int) -> None:
    graph = load_graph(Data(edge_index=torch.stack([torch.arange(count), torch.arange(count) + 1]), num_nodes=9))
    with pytest.raises(GraphError, match=f"{count} undirected edge.* at least 4"):
        split_edges(graph, 0)


def test_four_edges_are_enough() -> None:
    graph = load_graph(Data(edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]), num_nodes=5))
    split = split_edges(graph, 0)
    assert [part.shape[1] for part in (split.train, split.val, split.test)] == [1, 1, 2]


# What may be seen


@settings(deadline=None)
@given(graphs(), SEEDS)
def test_only_training_edges_can_be_seen_and_weights_follow(graph: Data, seed: int) -> None:
    split, seen = split_edges(graph, seed), training_edges(graph, seed)
    train = as_set(split.train)
    assert as_set(seen["edge_index"]) == train | {(b, a) for a, b in train}
    hidden = as_set(split.val) | as_set(split.test)
    assert not as_set(seen["edge_index"]) & (hidden | {(b, a) for a, b in hidden})
    everything = weights(graph)
    assert weights(seen) == {pair: everything[pair] for pair in as_set(seen["edge_index"])}
    key = seen["edge_index"][0] * node_count(graph) + seen["edge_index"][1]
    assert torch.equal(key, key.sort().values)


def test_nodes_stay_and_nothing_else_of_the_edges_does(demo_graph: Data) -> None:
    graph = demo_graph.clone()
    graph.edge_attr = torch.ones(graph["edge_index"].shape[1], 2)
    edges = graph["edge_index"].clone()
    seen = training_edges(graph, 1)
    assert seen.num_nodes == graph.num_nodes
    assert seen.x is graph.x
    assert all(torch.equal(seen[key], graph[key]) for key in ("y", *MASKS))
    assert "edge_attr" not in seen
    assert "edge_weight" not in seen
    assert torch.equal(graph["edge_index"], edges)
    assert seen.name == graph.name


def test_edges_of_another_graph_cannot_be_kept(demo_graph: Data) -> None:
    strangers = non_edges(demo_graph, 3, generator())
    with pytest.raises(GraphError, match="3 edges are to be kept, the graph has 0"):
        keep_edges(demo_graph, strangers)
    with pytest.raises(GraphError, match="no edge_index"):
        keep_edges(Data(num_nodes=3), strangers)


# Non-edges


@settings(deadline=None)
@given(graphs(least=0), st.floats(0, 1), SEEDS)
def test_non_edges_are_distinct_and_never_edges(graph: Data, share: float, seed: int) -> None:
    nodes, edges = node_count(graph), as_set(undirected_edges(graph))
    free = nodes * (nodes - 1) // 2 - len(edges)
    count = round(share * free)
    drawn = non_edges(graph, count, generator(seed))
    assert drawn.shape == (2, count)
    assert len(as_set(drawn)) == count
    assert not as_set(drawn) & edges
    assert all(0 <= a < b < nodes for a, b in as_set(drawn))
    with pytest.raises(GraphError, match=f"{free + 1} non-edges were asked for, the graph has {free} .*too dense"):
        non_edges(graph, free + 1, generator(seed))


def test_non_edges_of_a_large_sparse_graph(demo_graph: Data) -> None:
    """Few pairs are edges here, so that they are drawn and rejected, not listed."""
    drawn = non_edges(demo_graph, 20_000, generator())
    assert len(as_set(drawn)) == 20_000
    assert not as_set(drawn) & as_set(undirected_edges(demo_graph))
    assert bool((drawn[0] < drawn[1]).all())


@pytest.mark.parametrize("count", [2, 60])
def test_every_non_edge_is_equally_likely(count: int) -> None:
    """Two of 185 pairs come from drawing and rejecting, 60 from a list of them all: both are uniform."""
    nodes, draws = 20, 6000 // count
    graph = load_graph(Data(edge_index=torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]), num_nodes=nodes))
    row, column = torch.cat([non_edges(graph, count, generator(seed)) for seed in range(draws)], dim=1)
    counts = torch.bincount(row * nodes + column)
    counts = counts[counts > 0].double()
    assert counts.numel() == 185
    expected = draws * count / 185
    assert float(((counts - expected) ** 2 / expected).sum()) < 260  # χ², 184 degrees of freedom: once in 5,000


def test_non_edges_depend_on_their_generator_alone(demo_graph: Data) -> None:
    before = torch.get_rng_state()
    first = non_edges(demo_graph, 50, generator(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, non_edges(demo_graph, 50, generator(2)))
    assert not torch.equal(first, non_edges(demo_graph, 50, generator(3)))
    source = generator(2)
    assert not torch.equal(non_edges(demo_graph, 50, source), non_edges(demo_graph, 50, source))
