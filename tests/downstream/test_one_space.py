from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import orthogonal_procrustes

import plgc
from plgc.downstream.one_space import principal_rows, turn


def gram_of(rows: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A Gram matrix of a rank, and masses."""
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(rows, rank, generator=generator) * torch.logspace(0, -2, rank)
    return vectors @ vectors.t(), torch.randint(1, 9, (rows,), generator=generator).double()


def test_nothing_is_lost_where_there_are_as_many_columns_as_rows() -> None:
    gram, masses = gram_of(12, 12)
    found = principal_rows(gram, masses, 16, seed=0)
    assert found.shape == (12, 16)
    torch.testing.assert_close(found @ found.t(), gram, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [30, 90])  # the second by subspace iteration
def test_fewer_columns_are_the_best_approximation(rows: int) -> None:
    """The oracle is NumPy's truncated eigendecomposition of the weighted Gram matrix."""
    gram, masses = gram_of(rows, 20)
    root = masses.sqrt().numpy()
    values, vectors = np.linalg.eigh(root[:, None] * gram.double().numpy() * root)
    best = (vectors[:, -5:] * values[-5:]) @ vectors[:, -5:].T / root[:, None] / root
    found = principal_rows(gram, masses, 5, seed=0).double().numpy()
    np.testing.assert_allclose(found @ found.T, best, atol=2e-3 * np.abs(best).max())


def test_pseudo_labels_are_turned_block_by_block(sources: list[plgc.CondensedGraph]) -> None:
    wide, narrow = sources[0], sources[1]  # blocks (24, 16), and one of 20
    assert wide.pseudo_labels is not None
    assert narrow.pseudo_labels is not None
    outputs = torch.randn(wide.num_nodes, 40, generator=torch.Generator().manual_seed(0))
    found = turn(wide, wide, outputs)
    for columns in (slice(0, 24), slice(24, 40)):
        own = wide.pseudo_labels[:, columns]
        rotation, _ = orthogonal_procrustes(own.double().numpy(), outputs[:, columns].double().numpy())
        np.testing.assert_allclose(found[:, columns].numpy(), own.numpy() @ rotation, atol=1e-4)
    assert turn(narrow, wide, torch.randn(narrow.num_nodes, 40)).shape == (narrow.num_nodes, 40)
