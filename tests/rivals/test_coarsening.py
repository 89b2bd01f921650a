from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs import training_labels
from plgc.rivals.coarsening import coarse_edges, coarse_features, coarse_labels, coarsen
from plgc.runtime.errors import LabelError, SettingError
from plgc.sparse.inputs import scale_rows
from quick_rivals import NODES, condense


def edges(pairs: list[tuple[int, int]]) -> Tensor:
    """Both directions of every pair."""
    one_way = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).t()
    return torch.cat([one_way, one_way.flip(0)], dim=1)


def components(edge_index: Tensor, nodes: int, among: Tensor | None = None) -> int:
    """The number of connected components of a graph, or of the part induced by a mask of nodes."""
    row, column = edge_index.numpy()
    matrix = sp.csr_matrix((np.ones(len(row)), (row, column)), shape=(nodes, nodes))
    if among is not None:
        matrix = matrix[among.numpy()][:, among.numpy()]
    return connected_components(matrix, directed=False, return_labels=False)


def check_partition(assignment: Tensor, edge_index: Tensor, nodes: int, count: int) -> None:
    """All supernodes used, numbered by their smallest member, and connected where that is possible."""
    assert assignment.dtype == torch.int64
    assert assignment.shape == (nodes,)
    assert list(dict.fromkeys(assignment.tolist())) == list(range(count))
    if components(edge_index, nodes) <= count:
        assert all(components(edge_index, nodes, assignment == part) == 1 for part in range(count))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Tensor, int, Tensor]:
    """Random graphs: isolated nodes, hubs, several components; symmetric weights, some of them equal."""
    nodes = draw(st.integers(1, 40))
    node = st.integers(0, nodes - 1)
    pairs = draw(st.sets(st.tuples(node, node).filter(lambda pair: pair[0] < pair[1]), max_size=80))
    pairs |= {(0, v) for v in draw(st.sets(st.integers(1, nodes - 1), max_size=30))} if nodes > 1 else set()
    weight = draw(st.lists(st.sampled_from([0.1, 1.0, 2.0, 7.5]), min_size=len(pairs), max_size=len(pairs)))
    return edges(sorted(pairs)), nodes, torch.tensor(weight).repeat(2)


@settings(max_examples=150, deadline=None)
@given(graphs(), st.booleans(), st.booleans(), st.data())
def test_any_graph_is_cut_into_exactly_count_parts(graph, weighted: bool, with_x: bool, data: st.DataObject) -> None:
    edge_index, nodes, weight = graph
    count = data.draw(st.integers(1, nodes))
    x = torch.randn(nodes, 3, generator=torch.Generator().manual_seed(0)) if with_x else None
    options = {"edge_weight": weight if weighted else None, "features": x}
    assignment = coarsen(edge_index, nodes, count, **options)
    check_partition(assignment, edge_index, nodes, count)
    shuffled = torch.randperm(edge_index.shape[1], generator=torch.Generator().manual_seed(1))
    options["edge_weight"] = weight[shuffled] if weighted else None
    assert torch.equal(assignment, coarsen(edge_index[:, shuffled], nodes, count, **options))


@pytest.mark.parametrize("count", [1, 2, 7, 50, 99, 100])
@pytest.mark.parametrize("shape", ["star", "path", "two stars", "pairs", "nothing"])
def test_shapes_that_make_matching_stall(shape: str, count: int) -> None:
    pairs = {
        "star": [(0, v) for v in range(1, 100)],
        "path": [(v, v + 1) for v in range(99)],
        "two stars": [(0, v) for v in range(2, 51)] + [(1, v) for v in range(51, 100)] + [(0, 1)],
        "pairs": [(v, v + 1) for v in range(0, 100, 2)],
        "nothing": [],
    }[shape]
    assignment = coarsen(edges(pairs), 100, count)
    check_partition(assignment, edges(pairs), 100, count)
    sizes = torch.bincount(assignment)
    if shape in ("path", "pairs", "nothing"):  # nothing in these stands in the way of balance
        assert int(sizes.max()) <= 2 * max(2, 100 / count)


def test_count_n_changes_nothing_and_count_1_takes_all() -> None:
    edge_index = edges([(0, 3), (1, 2)])
    assert coarsen(edge_index, 5, 5).tolist() == [0, 1, 2, 3, 4]
    assert coarsen(edge_index, 5, 1).tolist() == [0] * 5


@pytest.mark.parametrize("size", [2, 3, 5, 6, 8, 13])
def test_two_cliques_joined_by_a_weak_edge_are_told_apart(size: int) -> None:
    clique = [(a, b) for a in range(size) for b in range(a + 1, size)]
    pairs = [*clique, *((a + size, b + size) for a, b in clique), (size - 1, size)]
    weight = torch.ones(len(pairs))
    weight[-1] = 0.1
    assignment = coarsen(edges(pairs), 2 * size, 2, edge_weight=weight.repeat(2))
    assert assignment.tolist() == [0] * size + [1] * size


def test_the_heaviest_edge_relative_to_degree_goes_first() -> None:
    # 0 -5- 1 -4- 2 -1- 3: scores 5/9, 4/9, 1/5. The last merge allowed is along the heaviest.
    weight = torch.tensor([5.0, 4.0, 1.0]).repeat(2)
    edge_index = edges([(0, 1), (1, 2), (2, 3)])
    assert coarsen(edge_index, 4, 3, edge_weight=weight).tolist() == [0, 0, 1, 2]
    # An absolutely heavier edge at a hub loses to one that is all a node has: 3/9 against 2/2.
    hub = edges([(0, 1), (0, 2), (0, 3), (4, 5)])
    assert coarsen(hub, 6, 5, edge_weight=torch.tensor([3.0, 3.0, 3.0, 2.0]).repeat(2)).tolist() == [0, 1, 2, 3, 4, 4]
    # All equal: the smaller node numbers.
    assert coarsen(edges([(2, 3), (0, 1), (4, 5)]), 6, 5).tolist() == [0, 0, 1, 2, 3, 4]


def test_weight_zero_is_no_edge_and_self_loops_are_ignored() -> None:
    edge_index = torch.cat([edges([(0, 1), (2, 3)]), torch.tensor([[0], [0]])], dim=1)
    weight = torch.tensor([0.0, 1.0, 0.0, 1.0, 9.0])
    assert coarsen(edge_index, 4, 3, edge_weight=weight).tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize("sparse", [False, True])
def test_parts_without_edges_join_the_nearest_by_features(sparse: bool) -> None:
    # Two pairs and four single nodes, each close to one of the pairs.
    x = torch.tensor([[0.0, 1], [0, 1], [9, 1], [9, 1], [1, 1], [8, 1], [2, 1], [7, 1]])
    edge_index = edges([(0, 1), (2, 3)])
    assignment = coarsen(edge_index, 8, 2, features=x.to_sparse_csr() if sparse else x)
    assert assignment.tolist() == [0, 0, 1, 1, 0, 1, 0, 1]


def test_a_giant_component_is_not_one_supernode_when_there_are_many_small_ones() -> None:
    ring = [(v, (v + 1) % 60) for v in range(60)]
    assignment = coarsen(edges(ring), 100, 10)  # 41 components
    assert int(torch.bincount(assignment).max()) <= 16


@settings(max_examples=50, deadline=None)
@given(graphs(), st.booleans(), st.data())
def test_coarse_edges_are_the_off_diagonal_of_the_projected_matrix(graph, weighted: bool, data: st.DataObject) -> None:
    edge_index, nodes, weight = graph
    count = data.draw(st.integers(1, nodes))
    assignment = coarsen(edge_index, nodes, count)
    matrix = torch.zeros(nodes, nodes, dtype=torch.float64)
    matrix[edge_index[0], edge_index[1]] = weight.double() if weighted else 1.0
    member = torch.nn.functional.one_hot(assignment, count).double()
    expected = (member.t() @ matrix @ member).fill_diagonal_(0.0)
    coarse, total = coarse_edges(edge_index, weight if weighted else None, assignment, count)
    assert torch.equal(coarse, expected.nonzero().t())  # sorted, once each, no self-loops
    assert torch.allclose(total.double(), expected[coarse[0], coarse[1]], rtol=1e-6)
    dense = torch.zeros(count, count).index_put((coarse[0], coarse[1]), total)
    assert torch.equal(dense, dense.t())


@pytest.mark.parametrize("sparse", [False, True])
def test_coarse_features_are_means(sparse: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(50, 7, generator=generator) * (torch.rand(50, 7, generator=generator) < 0.3)
    assignment = coarsen(edges([(v, v + 1) for v in range(49)]), 50, 9)
    expected = torch.stack([x[assignment == part].double().mean(dim=0) for part in range(9)])
    result = coarse_features(x.to_sparse_csr() if sparse else x, assignment, 9)
    assert result.dtype == torch.float32
    assert result.layout == torch.strided
    assert torch.allclose(result.double(), expected, atol=1e-6)


def test_coarse_labels_are_the_majority_of_the_training_nodes() -> None:
    assignment = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 3])
    y = torch.tensor([2, 2, 1, 0, 2, 1, 1, 0, 2])
    labelled = torch.tensor([0, 1, 2, 4, 5, 8])
    assert coarse_labels(y, labelled, assignment, 4, 3).tolist() == [2, 1, -1, 2]
    mask = torch.zeros(9, dtype=torch.bool)
    mask[labelled] = True
    other = torch.where(mask, y, torch.tensor([9, 9, 9, 9, 9, 9, -1, -5, 9]))  # never read
    assert coarse_labels(other, mask, assignment, 4, 3).tolist() == [2, 1, -1, 2]
    with pytest.raises(LabelError, match="label -1, expected 0 to 2"):
        coarse_labels(torch.full((9,), -1), labelled, assignment, 4, 3)


def test_a_citation_graph_keeps_its_classes_together(demo_graph: Data) -> None:
    assert demo_graph.edge_index is not None
    assignment = coarsen(demo_graph.edge_index, 600, 60, features=demo_graph.x)
    everyone, shuffled = torch.arange(600), torch.randperm(600, generator=torch.Generator().manual_seed(0))
    assert isinstance(demo_graph.y, Tensor)

    def purity(parts: Tensor) -> float:
        majority = coarse_labels(demo_graph.y, everyone, parts, 60, 4)  # pyright: ignore
        return float((majority[parts] == demo_graph.y).float().mean())

    assert purity(assignment) > purity(assignment[shuffled]) + 0.2
    assert int(torch.bincount(assignment).max()) <= 30


def test_cora_and_its_many_components(cora: Data) -> None:
    assert cora.edge_index is not None
    assignment = coarsen(cora.edge_index, 2708, 70, features=cora.x)  # 78 components
    check_partition(assignment, cora.edge_index, 2708, 70)
    assert int(torch.bincount(assignment).max()) <= 2 * 2708 / 70


def test_errors_name_the_value_and_the_way_out() -> None:
    edge_index = edges([(0, 1)])
    for count in (0, 4):
        with pytest.raises(SettingError, match=f"count={count} supernodes for a graph of 3 nodes"):
            coarsen(edge_index, 3, count)


# As a condenser


def test_condensing(weighted: Data) -> None:
    kept, given_labels = 30, training_labels(weighted)
    condensed = condense("coarsening", weighted, given_labels, nodes=kept, seed=5)
    assert condensed.counts.sum() == NODES
    assert int(condensed.counts.min()) >= 1
    assert condensed.seed == 5
    # mean features, weighted by size, are the mean of the graph
    x = scale_rows(weighted["x"].to_dense(), condensed.scaling)
    mean = (condensed.features * condensed.counts[:, None]).sum(0) / NODES
    np.testing.assert_allclose(mean.numpy(), x.mean(0).numpy(), atol=1e-6)
    assert condensed.edge_index is not None
    assert condensed.edge_weight is not None
    assert float(condensed.edge_weight.sum()) < float(weighted["edge_weight"].sum())
    pairs = set(map(tuple, condensed.edge_index.T.tolist()))
    assert len(pairs) == condensed.edge_index.shape[1]
    assert all((b, a) in pairs and a != b for a, b in pairs)
    other = condense("coarsening", weighted, given_labels, nodes=kept, seed=6)
    assert torch.equal(other.features, condensed.features)  # nothing in it is random
    few = training_labels(weighted, train=given_labels.train[:3], validate=False)
    condensed = condense("coarsening", weighted, few, nodes=kept)
    assert condensed.labels is not None
    assert 1 <= int((condensed.labels >= 0).sum()) <= 3  # the others have no training node
    with pytest.raises(SettingError, match="count=151"):
        condense("coarsening", weighted, given_labels, nodes=NODES + 1)
