from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from plgc.sparse.product import SparseProduct, index_dtype, multiply


def random_csr(
    rows: int, columns: int, density: float, index: torch.dtype = torch.int32
) -> tuple[sp.csr_matrix, Tensor]:
    matrix = sp.random(rows, columns, density, format="csr", dtype=np.float32, random_state=1)
    crow, col = torch.from_numpy(matrix.indptr).to(index), torch.from_numpy(matrix.indices).to(index)
    tensor = torch.sparse_csr_tensor(crow, col, torch.from_numpy(matrix.data), matrix.shape, check_invariants=False)
    return matrix, tensor


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("width", [1, 3, 16, 130])
def test_it_is_scipys_product(width: int, index: torch.dtype) -> None:
    reference, matrix = random_csr(70, 40, 0.03, index)  # with empty rows
    assert (np.diff(reference.indptr) == 0).any()
    dense = torch.randn(40, width, generator=torch.Generator().manual_seed(0))
    result = multiply(matrix, dense)
    assert result.dtype == torch.float32
    np.testing.assert_allclose(result.numpy(), reference @ dense.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(5, 4, 0.0, 3), (5, 4, 0.5, 0), (0, 4, 0.0, 3)])
def test_nothing_to_add_gives_zeros(shape: tuple[int, int, float, int]) -> None:
    rows, columns, density, width = shape
    _, matrix = random_csr(rows, columns, density)
    result = multiply(matrix, torch.ones(columns, width))
    assert result.shape == (rows, width)
    assert not bool(result.any())


def test_columns_of_a_wider_matrix_and_doubles_are_taken_too() -> None:
    reference, matrix = random_csr(30, 20, 0.3)
    wide = torch.randn(20, 9, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(multiply(matrix, wide[:, ::2]), reference @ wide[:, ::2].numpy(), rtol=1e-5, atol=1e-6)
    double = multiply(matrix.to(torch.float64), wide.double())
    np.testing.assert_allclose(double, reference.astype(np.float64) @ wide.double().numpy(), rtol=1e-12)


def test_the_gradient_is_the_transposes_product() -> None:
    reference, matrix = random_csr(30, 20, 0.3)
    transpose = matrix.to_dense().t().to_sparse_csr()
    dense = torch.randn(20, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    upstream = torch.randn(30, 4, generator=torch.Generator().manual_seed(1))
    SparseProduct.apply(matrix, transpose, dense).backward(upstream)
    np.testing.assert_allclose(dense.grad, reference.T @ upstream.numpy(), rtol=1e-5, atol=1e-6)


def test_threads_do_not_change_a_bit(threads: None) -> None:
    _, matrix = random_csr(5000, 5000, 0.01)
    dense = torch.randn(5000, 32, generator=torch.Generator().manual_seed(0))
    results = []
    for count in (1, 2):
        torch.set_num_threads(count)
        results.append(multiply(matrix, dense))
    assert torch.equal(*results)


def test_indices_are_as_narrow_as_their_sizes_allow() -> None:
    assert index_dtype(3, 2**31 - 1) == torch.int32
    assert index_dtype(3, 2**31) == torch.int64
