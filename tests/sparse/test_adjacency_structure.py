from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plgc.runtime.errors import GraphError
from plgc.sparse.adjacency import build_adjacency


def symmetric(nodes: int, density: float, seed: int) -> sp.csr_matrix:
    """A random symmetric matrix without a diagonal; sparse ones leave nodes without neighbours."""
    rng = np.random.default_rng(seed)
    upper = np.triu((rng.random((nodes, nodes)) < density) * rng.uniform(0.5, 2, (nodes, nodes)), 1)
    return sp.csr_matrix((upper + upper.T).astype(np.float32))


def entries(matrix: sp.csr_matrix) -> tuple[torch.Tensor, torch.Tensor]:
    coo = matrix.tocoo()
    return torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64)), torch.from_numpy(coo.data)


@settings(deadline=None, max_examples=60)
@given(
    nodes=st.integers(1, 30),
    density=st.sampled_from([0.0, 0.05, 0.3, 1.0]),
    seed=st.integers(0, 1000),
    shuffled=st.booleans(),
    dtype=st.sampled_from([torch.int64, torch.int32]),
)
def test_it_is_scipys_matrix_with_a_diagonal(
    nodes: int, density: float, seed: int, shuffled: bool, dtype: torch.dtype
) -> None:
    matrix = symmetric(nodes, density, seed)
    edges, weight = entries(matrix)
    if shuffled:
        order = torch.randperm(edges.shape[1], generator=torch.Generator().manual_seed(seed))
        edges, weight = edges[:, order], weight[order]
    built = build_adjacency(edges.to(dtype), nodes, weight)
    expected = sp.csr_matrix(matrix + sp.identity(nodes, dtype=np.float32, format="csr")).sorted_indices()
    np.testing.assert_array_equal(built.crow, expected.indptr)
    np.testing.assert_array_equal(built.col, expected.indices)
    np.testing.assert_array_equal(built.weight, expected.data)
    # Pairs are numbered in the order of the upper triangle; both directions share the number.
    numbers = {pair: place for place, pair in enumerate(zip(*sp.triu(matrix, 1, format="csr").nonzero(), strict=True))}
    assert built.num_pairs == len(numbers)
    row = np.repeat(np.arange(nodes), np.diff(expected.indptr))
    ends = zip(np.minimum(row, built.col.numpy()), np.maximum(row, built.col.numpy()), strict=True)
    assert built.pair.tolist() == [numbers.get(pair, len(numbers)) for pair in ends]
    assert {built.crow.dtype, built.col.dtype, built.pair.dtype} == {torch.int32}


def test_without_weights_there_are_none() -> None:
    edges, _ = entries(symmetric(8, 0.4, 0))
    assert build_adjacency(edges, 8).weight is None


@pytest.mark.parametrize(
    "edges",
    [
        [[0], [1]],  # one direction
        [[0, 1], [1, 2]],
        [[0, 2], [1, 1]],  # as many up as down, but not mirror images
    ],
)
def test_edges_in_one_direction_are_refused(edges: list[list[int]]) -> None:
    with pytest.raises(GraphError, match="either direction"):
        build_adjacency(torch.tensor(edges), 3)


def test_repeated_edges_are_refused() -> None:
    with pytest.raises(GraphError):
        build_adjacency(torch.tensor([[1, 0, 1, 0], [0, 1, 0, 1]]), 2)
