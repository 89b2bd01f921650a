"""The product of a sparse and a dense matrix on a GPU: rows are gathered, and always added up in the same order.

A program sums one row of the sparse matrix over some columns of the dense one, several entries at a time. Long rows, of
hubs and common words, would keep one program busy after all others are done: entries are numbered through, and a row of
more than ``BLOCK`` of them is cut where a multiple of ``BLOCK`` falls. Its pieces are summed by programs of their own,
and the pieces' sums in a second pass. No sum depends on which program comes first, as those by atomic additions do, so
results are the same every time. Sums are float32 whatever is gathered: bfloat16 halves the bytes and rounds each result
once. Triton, which compiles this, comes with torch for CUDA.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

BLOCK = 512  # entries
COLUMNS = 128  # of the dense matrix that one program sums: 512 bytes of a row
TOGETHER = 4  # entries that one program reads at a time


@cache
def available() -> bool:
    """Whether Triton is there to compile the product."""
    try:
        import triton  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        return False
    return True


def can_multiply(matrix: Tensor, dense: Tensor) -> bool:
    """Whether the product is one for these kernels: they count entries in 32 bits."""
    fits = matrix.values().numel() < 2**31 - BLOCK and matrix.dtype == torch.float32
    return fits and dense.dtype in (torch.float32, torch.bfloat16) and available()


def gathered_product(matrix: Tensor, dense: Tensor) -> Tensor:
    """``matrix @ dense`` for a float32 CSR matrix and a float32 or bfloat16 dense one, on a GPU."""
    dense = dense.detach().contiguous()
    crow, col, value = matrix.crow_indices(), matrix.col_indices(), matrix.values()
    (rows, _), width = matrix.shape, dense.shape[1]
    result = torch.empty(rows, width, dtype=dense.dtype, device=dense.device)
    if result.numel() == 0:
        return result
    blocks = -(-value.numel() // BLOCK)
    pieces = torch.empty(2 * blocks, width, device=dense.device)
    sizes = {"COLUMNS": min(COLUMNS, max(16, 1 << (width - 1).bit_length())), "BLOCK": BLOCK}
    across = -(-width // sizes["COLUMNS"])
    sums, joined = _kernels()
    with torch.cuda.device(dense.device):
        entries = (crow, rows, value.numel())
        grid = (rows + 2 * blocks, across)
        sums[grid](*entries, col, value, dense, result, pieces, width, **sizes, TOGETHER=TOGETHER, num_warps=1)
        if blocks > 1:
            joined[blocks, across](*entries, result, pieces, width, **sizes, num_warps=1)
    return result


@cache
def _kernels() -> tuple[Any, Any]:
    """The two passes, compiled when they are first called."""
    import triton  # pyright: ignore[reportMissingImports]
    import triton.language as tl  # pyright: ignore[reportMissingImports]

    @triton.jit
    def row_of(crow, rows, entry):
        """The row that an entry is stored in."""
        low, high = entry * 0, entry * 0 + rows
        while high - low > 1:
            middle = (low + high) // 2
            before = tl.load(crow + middle) <= entry
            low = tl.where(before, middle, low)
            high = tl.where(before, high, middle)
        return low

    compiled = triton.jit(do_not_specialize=["rows", "stored"])  # they change from view to view

    @compiled
    def sums(
        crow,
        rows,
        stored,
        col,
        value,
        dense,
        result,
        pieces,
        width,
        COLUMNS: tl.constexpr,
        BLOCK: tl.constexpr,
        TOGETHER: tl.constexpr,
    ):
        """Sums of short rows, into the result, and of pieces of long ones: two a block, at its start and its end."""
        program, blocks = tl.program_id(0), (stored + BLOCK - 1) // BLOCK
        column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        inside = column < width
        if program < 2 * blocks:
            block = program // 2
            first, last = block * BLOCK, tl.minimum(block * BLOCK + BLOCK, stored) - 1
            row = row_of(crow, rows, tl.where(program % 2 == 0, first, last))
            start, end = tl.load(crow + row).to(tl.int32), tl.load(crow + row + 1).to(tl.int32)
            ours = (end - start > BLOCK) & ((program % 2 == 0) | (start > first))  # else it is the piece at the start
            start = tl.maximum(start, first)
            end = tl.where(ours, tl.minimum(end, last + 1), start)
        else:
            row = program - 2 * blocks
            start, end = tl.load(crow + row).to(tl.int32), tl.load(crow + row + 1).to(tl.int32)
            ours = end - start <= BLOCK
            end = tl.where(ours, end, start)
        total = tl.zeros((TOGETHER, COLUMNS), tl.float32)
        for begin in range(start, end, TOGETHER):
            entry = begin + tl.arange(0, TOGETHER)
            there = entry < end
            source = tl.load(col + entry, mask=there, other=0).to(tl.int64)
            weight = tl.load(value + entry, mask=there, other=0.0)
            place = source[:, None] * width + column[None, :]
            gathered = (weight != 0)[:, None] & inside[None, :]  # of dropped edges nothing is read
            part = tl.load(dense + place, mask=gathered, other=0.0)
            total += part.to(tl.float32) * weight[:, None]
        summed = tl.sum(total, axis=0)
        if program < 2 * blocks:
            tl.store(pieces + program.to(tl.int64) * width + column, summed, mask=inside & ours)
        else:
            place = row.to(tl.int64) * width + column
            tl.store(result + place, summed.to(result.dtype.element_ty), mask=inside & ours)

    @compiled
    def joined(crow, rows, stored, result, pieces, width, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
        """The long row that starts in a block, if one does, from its pieces."""
        block = tl.program_id(0)
        column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        inside = column < width
        first, last = block * BLOCK, tl.minimum(block * BLOCK + BLOCK, stored) - 1
        row = row_of(crow, rows, last)
        start, end = tl.load(crow + row).to(tl.int32), tl.load(crow + row + 1).to(tl.int32)
        if (end - start > BLOCK) & (start >= first):
            at = 2 * block + tl.where(start > first, 1, 0)
            total = tl.load(pieces + at.to(tl.int64) * width + column, mask=inside, other=0.0)
            following = pieces + (2 * block + 2).to(tl.int64) * width + column
            for _ in range(block + 1, (end - 1) // BLOCK + 1):
                total += tl.load(following, mask=inside, other=0.0)
                following += 2 * width
            place = row.to(tl.int64) * width + column
            tl.store(result + place, total.to(result.dtype.element_ty), mask=inside)

    return sums, joined
