"""The product of a sparse and a dense matrix, with a backward that costs one more product and transposes nothing.

On a CPU a row of the product is a weighted sum of gathered rows, which is what ``torch.embedding_bag`` computes: its
kernel fetches rows ahead of their use, and takes well under half the time of torch's own CSR product (``make bench``).
Every row is summed in the order in which its entries are stored, so results do not depend on the number of threads. A
kernel of our own does the same on a GPU (:mod:`plgc.sparse.gpu_product`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from plgc.sparse import gpu_product

INT32_LIMIT = 2**31 - 1


def index_dtype(*sizes: int) -> torch.dtype:
    """int32 where all these sizes fit, which halves the memory of indices; else int64."""
    return torch.int32 if max(sizes) <= INT32_LIMIT else torch.int64


def multiply(matrix: Tensor, dense: Tensor) -> Tensor:
    """``matrix @ dense`` for a CSR matrix, without gradients."""
    if dense.is_cuda and gpu_product.can_multiply(matrix, dense):
        return gpu_product.gathered_product(matrix, dense)
    gathers = not dense.is_cuda and dense.dtype == torch.float32 == matrix.dtype
    if not gathers or dense.numel() == 0 or matrix.values().numel() == 0:
        return (matrix @ dense.to(matrix.dtype)).to(dense.dtype)
    return gathered_sums(dense.detach().contiguous(), matrix.col_indices(), matrix.crow_indices(), matrix.values())


def gathered_sums(dense: Tensor, col: Tensor, crow: Tensor, value: Tensor | None = None) -> Tensor:
    """Row i is the sum of the rows of ``dense`` named by ``col[crow[i] : crow[i + 1]]``, times ``value``; on a CPU."""
    if dense.numel() == 0 or col.numel() == 0:
        return dense.new_zeros(len(crow) - 1, dense.shape[1])
    sums, *_ = torch.embedding_bag(dense, col, crow, mode=0, per_sample_weights=value, include_last_offset=True)
    return sums


class SparseProduct(torch.autograd.Function):
    """``matrix @ dense`` whose backward multiplies by a transpose that is already there."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transpose: Tensor, dense: Tensor) -> Tensor:
        """The product, in the lower precision where autocast asks for one; nothing of ``dense`` is kept."""
        ctx.transpose = transpose
        kind = dense.device.type
        return multiply(matrix, dense.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else dense)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, Tensor]:
        """``transpose @ grad``."""
        return None, None, multiply(ctx.transpose, grads[0].contiguous())


@cache
def warm_up(device: str) -> None:
    """Start a GPU and its libraries, once a process, before anything on it is timed: that alone takes seconds."""
    if device.startswith("cuda"):
        x = torch.rand(64, 64, device=device, requires_grad=True)
        matrix = x.detach().to_sparse_csr()
        (matrix @ (x @ x).softmax(1)).sum().backward()
        parts = (matrix.crow_indices().int(), matrix.col_indices().int(), matrix.values())
        matrix = torch.sparse_csr_tensor(*parts, matrix.shape, check_invariants=False)
        for width in (1, 128, 129):  # one number, whole lines of memory, and others: kernels of their own
            for kind in (torch.float32, torch.bfloat16):
                multiply(matrix, torch.rand(64, width, device=device, dtype=kind))
        torch.cuda.synchronize(device)
