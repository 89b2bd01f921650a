"""Tensors mapped from a file: read a block at a time, and released again.

A mapped tensor is used like any other, but it is read-only: changing it in place ends the process, so clone it first.
Pages that were read stay in memory until :func:`release`. Reading a whole tensor with :func:`blocks`, or rows of it
with :func:`gather`, takes at most :data:`HELD` bytes at any time.
"""

from __future__ import annotations

import mmap
import warnings
from collections.abc import Iterator
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

MAPPED_FROM = 64 << 20  # bytes; smaller arrays are simply read, and small float16 features become float32
BLOCK = 16 << 20  # bytes that are looked at at a time
ROWS = 1024  # rows that are gathered at a time: each may bring in 64 KiB of its surroundings
HELD = 128 << 20  # bytes that going over a mapped tensor takes at most: pages of the file, and a block made of them

_mappings: WeakValueDictionary[int, mmap.mmap] = WeakValueDictionary()  # by address, for as long as they are mapped


def map_array(path: Path, dtype: np.dtype, shape: tuple[int, ...], offset: int) -> Tensor:
    """Map an array of a file that has been found to hold all of it, rows after one another."""
    array = np.memmap(path, dtype=dtype, mode="r", shape=shape, offset=offset)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        tensor = torch.from_numpy(array)
    mapping = array._mmap  # pyright: ignore[reportAttributeAccessIssue]
    _mappings[tensor.untyped_storage().data_ptr()] = mapping
    return tensor


def map_writable(path: Path, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    """Map a file of this size for reading and writing: what is written goes into it."""
    array = np.memmap(path, dtype=torch.empty(0, dtype=dtype).numpy().dtype, mode="r+", shape=shape)
    tensor = torch.from_numpy(array)
    _mappings[tensor.untyped_storage().data_ptr()] = array._mmap  # pyright: ignore[reportAttributeAccessIssue]
    return tensor


def is_mapped(tensor: Tensor) -> bool:
    """Whether a tensor, or what it is a view of, lies in a file."""
    return _mapping(tensor) is not None


def release(tensor: Tensor) -> None:
    """Let go of the pages of a mapped tensor; they come back when they are next looked at."""
    mapping = _mapping(tensor)
    if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)


def blocks(tensor: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Consecutive rows of a dense tensor, :data:`BLOCK` bytes at a time, with the number of the first of them."""
    rows = rows_a_block(tensor)
    for start in range(0, tensor.shape[0], rows):
        yield start, tensor[start : start + rows]
        release(tensor)


def rows_a_block(tensor: Tensor) -> int:
    """How many rows :func:`blocks` gives at a time; a row counts as float32 at least, since that is what it becomes."""
    width = tensor[:1].numel() * max(4, tensor.element_size())
    return max(1, BLOCK // max(1, width))


def gather(tensor: Tensor, rows: Tensor) -> Tensor:
    """``tensor[rows]`` in memory, for rows in any order."""
    if not is_mapped(tensor):
        return tensor[rows]
    result = torch.empty(len(rows), *tensor.shape[1:], dtype=tensor.dtype)
    for start in range(0, len(rows), ROWS):
        part = rows[start : start + ROWS]
        torch.index_select(tensor, 0, part, out=result[start : start + len(part)])
        release(tensor)
    return result


def _mapping(tensor: Tensor) -> mmap.mmap | None:
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        return None
    return _mappings.get(tensor.untyped_storage().data_ptr())
