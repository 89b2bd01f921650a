from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor

from plgc.sparse.adjacency import Adjacency, build_adjacency, drop_edges, neighbor_sum, propagate, propagate_rows
from plgc.sparse.features import sparse_features, times

WEIGHTS = st.one_of(st.just(0.0), st.floats(0.125, 8, width=32))


@st.composite
def graphs(draw: st.DrawFn, weighted: bool | None = None) -> tuple[np.ndarray, bool]:
    """A symmetric matrix without a diagonal; many draws leave nodes without any neighbour."""
    weighted = draw(st.booleans()) if weighted is None else weighted
    nodes = draw(st.integers(1, 9))
    values = draw(hnp.arrays(np.float32, (nodes, nodes), elements=WEIGHTS if weighted else st.sampled_from([0.0, 1.0])))
    upper = np.triu(values, 1)
    return upper + upper.T, weighted


def adjacency_of(dense: np.ndarray, weighted: bool, order_seed: int = 0) -> Adjacency:
    """What :func:`build_adjacency` makes of a dense matrix's entries, handed over in random order."""
    row, col = dense.nonzero()
    order = np.random.default_rng(order_seed).permutation(row.size)
    edges = torch.from_numpy(np.stack([row[order], col[order]]).astype(np.int64))
    weight = torch.from_numpy(dense[row, col][order]) if weighted else None
    return build_adjacency(edges, len(dense), weight)


def normalised(dense: np.ndarray) -> np.ndarray:
    """D^-1/2 (A + I) D^-1/2, in double precision."""
    closed = dense.astype(np.float64) + np.eye(len(dense))
    scale = 1 / np.sqrt(closed.sum(1))
    return scale[:, None] * closed * scale[None, :]


def random_graph(nodes: int = 40, density: float = 0.15, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((nodes, nodes)) < density, 1) * rng.uniform(0.5, 2, (nodes, nodes))
    upper[:, 0] = upper[0] = 0  # node 0 has no neighbour
    return (upper + upper.T).astype(np.float32)


def assert_sorted_csr(adjacency: Adjacency) -> None:
    crow, row, col = adjacency.crow.numpy(), adjacency.row.numpy(), adjacency.col.numpy()
    assert crow[0] == 0
    assert crow[-1] == row.size == col.size == adjacency.pair.numel()
    np.testing.assert_array_equal(np.diff(crow), np.bincount(row, minlength=adjacency.num_nodes))
    key = row.astype(np.int64) * adjacency.num_nodes + col
    assert (np.diff(key) > 0).all()


# Â


@settings(deadline=None, max_examples=80)
@given(graphs())
def test_matrix_is_the_dense_definition(graph: tuple[np.ndarray, bool]) -> None:
    dense, weighted = graph
    adjacency = adjacency_of(dense, weighted)
    assert adjacency.num_nodes == len(dense)
    assert_sorted_csr(adjacency)
    np.testing.assert_allclose(adjacency.matrix.to_dense().numpy(), normalised(dense), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(adjacency.sum_matrix.to_dense().numpy(), dense + np.eye(len(dense)), rtol=1e-6)
    np.testing.assert_allclose(adjacency.degree.numpy(), dense.sum(1) + 1, rtol=1e-6)


@settings(deadline=None, max_examples=30)
@given(graphs(), st.integers(0, 100))
def test_the_order_of_the_edges_does_not_matter(graph: tuple[np.ndarray, bool], seed: int) -> None:
    one, other = adjacency_of(*graph, order_seed=seed), adjacency_of(*graph, order_seed=seed + 1)
    assert torch.equal(one.matrix.to_dense(), other.matrix.to_dense())
    assert torch.equal(one.pair, other.pair)


@settings(deadline=None, max_examples=40)
@given(graphs())
def test_both_directions_of_an_edge_share_a_pair(graph: tuple[np.ndarray, bool]) -> None:
    dense, weighted = graph
    adjacency = adjacency_of(dense, weighted)
    names: dict[frozenset[int], set[int]] = {}
    for row, col, pair in zip(adjacency.row.tolist(), adjacency.col.tolist(), adjacency.pair.tolist(), strict=True):
        names.setdefault(frozenset((row, col)), set()).add(pair)
    edges = [pairs for ends, pairs in names.items() if len(ends) == 2]
    assert all(pairs == {adjacency.num_pairs} for ends, pairs in names.items() if len(ends) == 1)
    assert all(len(pairs) == 1 for pairs in edges)
    assert set().union(*edges) == set(range(adjacency.num_pairs))
    assert len(edges) == adjacency.num_pairs == np.count_nonzero(dense) // 2


def test_indices_are_int32() -> None:
    adjacency = adjacency_of(random_graph(), weighted=True)
    view = drop_edges(adjacency, 0.5, torch.Generator().manual_seed(0))
    for each in (adjacency, view):
        assert {each.crow.dtype, each.row.dtype, each.col.dtype} == {torch.int32}
        for matrix in (each.matrix, each.sum_matrix):
            assert matrix.layout == torch.sparse_csr
            assert matrix.crow_indices().dtype == matrix.col_indices().dtype == torch.int32


# Products and their gradients


@settings(deadline=None, max_examples=60)
@given(graphs(), st.data(), st.integers(0, 1000))
def test_some_rows_and_their_gradient_are_the_dense_ones(
    graph: tuple[np.ndarray, bool], data: st.DataObject, seed: int
) -> None:
    dense, weighted = graph
    chosen = data.draw(st.sets(st.integers(0, len(dense) - 1), min_size=1))
    rows, adjacency = torch.tensor(sorted(chosen)), adjacency_of(dense, weighted)
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(len(dense), 3, generator=generator).requires_grad_()
    upstream = torch.randn(len(rows), 3, generator=generator)
    result = propagate_rows(adjacency, hidden, rows)
    result.backward(upstream)
    reference = hidden.detach().double().requires_grad_()
    expected = (torch.from_numpy(normalised(dense)) @ reference)[rows]
    expected.backward(upstream.double())
    torch.testing.assert_close(result.double(), expected, rtol=1e-4, atol=1e-5)
    assert hidden.grad is not None
    assert reference.grad is not None
    torch.testing.assert_close(hidden.grad.double(), reference.grad, rtol=1e-4, atol=1e-5)


@settings(deadline=None, max_examples=40)
@given(graphs(), st.integers(0, 3), st.integers(0, 1000))
def test_propagate_and_its_gradient_are_the_dense_ones(graph: tuple[np.ndarray, bool], steps: int, seed: int) -> None:
    dense, weighted = graph
    adjacency = adjacency_of(dense, weighted)
    generator = torch.Generator().manual_seed(seed)
    hidden, upstream = torch.randn(2, len(dense), 3, generator=generator)
    hidden.requires_grad_()
    result = propagate(adjacency, hidden, steps)
    result.backward(upstream)
    reference = hidden.detach().double().requires_grad_()
    expected = torch.from_numpy(np.linalg.matrix_power(normalised(dense), steps)) @ reference
    expected.backward(upstream.double())
    torch.testing.assert_close(result.double(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(hidden.grad.double(), reference.grad, rtol=1e-4, atol=1e-5)


@settings(deadline=None, max_examples=40)
@given(graphs(), st.integers(0, 1000))
def test_neighbor_sum_and_its_gradient_are_the_dense_ones(graph: tuple[np.ndarray, bool], seed: int) -> None:
    dense, weighted = graph
    generator = torch.Generator().manual_seed(seed)
    hidden, upstream = torch.randn(2, len(dense), 3, generator=generator)
    hidden.requires_grad_()
    result = neighbor_sum(adjacency_of(dense, weighted), hidden)
    result.backward(upstream)
    closed = torch.from_numpy(dense + np.eye(len(dense), dtype=np.float32))
    torch.testing.assert_close(result, closed @ hidden, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(hidden.grad, closed @ upstream, rtol=1e-4, atol=1e-5)


def test_a_gradient_that_is_not_contiguous_is_multiplied_right() -> None:
    dense = random_graph()
    hidden = torch.randn(40, 3, generator=torch.Generator().manual_seed(1), requires_grad=True)
    upstream = torch.randn(3, 40, generator=torch.Generator().manual_seed(2)).t()
    propagate(adjacency_of(dense, weighted=True), hidden).backward(upstream)
    expected = normalised(dense) @ upstream.numpy()
    np.testing.assert_allclose(hidden.grad.numpy(), expected, rtol=1e-4, atol=1e-6)


def test_without_an_adjacency_everything_is_the_identity() -> None:
    hidden = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    for result in (propagate(None, hidden, 4), neighbor_sum(None, hidden)):
        assert torch.equal(result, hidden)
        (grad,) = torch.autograd.grad(result.sum(), hidden)
        assert torch.equal(grad, torch.ones_like(hidden))


# Dropping edges


@settings(deadline=None, max_examples=80)
@given(graphs(), st.floats(0.05, 0.95), st.integers(0, 10_000))
def test_dropping_edges_keeps_a_valid_normalised_graph(graph: tuple[np.ndarray, bool], rate: float, seed: int) -> None:
    dense, weighted = graph
    view = drop_edges(adjacency_of(dense, weighted), rate, torch.Generator().manual_seed(seed))
    assert view.num_nodes == len(dense)
    assert_sorted_csr(view)
    kept = np.zeros_like(dense)
    kept[view.row.numpy(), view.col.numpy()] = 1
    np.testing.assert_array_equal(kept, kept.T)
    np.testing.assert_array_equal(np.diag(kept), 1)
    np.fill_diagonal(kept, 0)
    assert ((dense != 0) | (kept == 0)).all()
    # The degrees are those of the edges that stayed, and so is the normalisation.
    np.testing.assert_allclose(view.degree.numpy(), (dense * kept).sum(1) + 1, rtol=1e-6)
    np.testing.assert_allclose(view.matrix.to_dense().numpy(), normalised(dense * kept), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_edges_are_dropped_at_the_rate_asked_for(rate: float) -> None:
    dense = random_graph(nodes=200, density=0.5, seed=3)
    adjacency = adjacency_of(dense, weighted=False)
    view = drop_edges(adjacency, rate, torch.Generator().manual_seed(5))
    pairs = adjacency.num_pairs
    dropped = pairs - np.count_nonzero(np.triu(view.matrix.to_dense().numpy(), 1))
    assert abs(dropped / pairs - rate) < 4 * math.sqrt(rate * (1 - rate) / pairs)


def test_rate_zero_is_the_graph_itself() -> None:
    adjacency = adjacency_of(random_graph(), weighted=True)
    view = drop_edges(adjacency, 0.0, torch.Generator().manual_seed(0))
    assert torch.equal(view.matrix.to_dense(), adjacency.matrix.to_dense())


def test_a_view_can_be_thinned_again() -> None:
    dense = random_graph()
    generator = torch.Generator().manual_seed(2)
    once = drop_edges(adjacency_of(dense, weighted=True), 0.3, generator)
    twice = drop_edges(once, 0.3, generator)
    before, after = (set(zip(v.row.tolist(), v.col.tolist(), strict=True)) for v in (once, twice))
    assert after < before
    assert {(col, row) for row, col in after} == after
    assert_sorted_csr(twice)


def test_views_depend_on_the_generator_alone() -> None:
    adjacency = adjacency_of(random_graph(), weighted=False)

    def draw(seed: int) -> Tensor:
        return drop_edges(adjacency, 0.5, torch.Generator().manual_seed(seed)).matrix.to_dense()

    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = draw(7)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(draw(7), first)
    assert not torch.equal(draw(8), first)


def test_views_leave_the_graph_alone() -> None:
    adjacency = adjacency_of(random_graph(), weighted=True)
    before = adjacency.matrix.to_dense().clone()
    generator = torch.Generator().manual_seed(0)
    one, other = drop_edges(adjacency, 0.5, generator), drop_edges(adjacency, 0.5, generator)
    assert not torch.equal(one.matrix.to_dense(), other.matrix.to_dense())
    assert torch.equal(adjacency.matrix.to_dense(), before)


# Sparse features


@settings(deadline=None, max_examples=60)
@given(
    hnp.arrays(
        np.float32,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=7),
        elements=st.sampled_from([0.0, 0.0, -1.5, 2.0]),
    ),
    st.integers(0, 1000),
)
def test_sparse_features_multiply_like_dense_ones(values: np.ndarray, seed: int) -> None:
    x = torch.from_numpy(values)
    features = sparse_features(x.to_sparse_csr())
    assert features.shape == tuple(x.shape)
    assert torch.equal(features.to_dense(), x)
    weight = torch.randn(x.shape[1], 3, generator=torch.Generator().manual_seed(seed), requires_grad=True)
    upstream = torch.randn(x.shape[0], 3, generator=torch.Generator().manual_seed(seed + 1))
    for given_features in (features, x):
        result = times(given_features, weight)
        (grad,) = torch.autograd.grad(result, weight, upstream)
        np.testing.assert_allclose(result.detach().numpy(), values @ weight.detach().numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(grad.numpy(), values.T @ upstream.numpy(), rtol=1e-4, atol=1e-5)


def test_sparse_features_keep_a_sorted_int32_transpose() -> None:
    matrix = sp.random(30, 50, density=0.1, format="csr", dtype=np.float32, random_state=0)
    long = torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr).long(), torch.from_numpy(matrix.indices).long(), torch.from_numpy(matrix.data)
    )
    features = sparse_features(
        torch.sparse_csr_tensor(long.crow_indices(), long.col_indices(), long.values(), (30, 50))
    )
    expected = matrix.T.tocsr().sorted_indices()
    transpose = features.transpose
    for tensor in (features.matrix, transpose):
        assert tensor.crow_indices().dtype == tensor.col_indices().dtype == torch.int32
    np.testing.assert_array_equal(transpose.crow_indices().numpy(), expected.indptr)
    np.testing.assert_array_equal(transpose.col_indices().numpy(), expected.indices)
    np.testing.assert_array_equal(transpose.values().numpy(), expected.data)
