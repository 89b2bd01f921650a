"""Arrays on disk: appended to a file block by block, then mapped for reading.

Files are written, never mapped for writing: a disk that is full is then an error and does not end the process.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from plgc.graphs.formats.values import Pieces

_numbers = itertools.count()


class Spill(Pieces):
    """Arrays of one type that come one after another, in a file."""

    def __init__(self, folder: Path) -> None:
        self.path, self.rows = folder / f"{next(_numbers)}.spill", 0
        self.dtype: np.dtype | None = None
        self.shape: tuple[int, ...] = ()

    def append(self, array: np.ndarray) -> None:
        """Add the next one; all have the type and width of the first."""
        if self.dtype is None:
            self.dtype, self.shape = array.dtype, array.shape[1:]
        assert array.shape[1:] == self.shape
        with open(self.path, "ab") as file:  # a table may have more columns than a process may have open files
            file.write(raw(np.ascontiguousarray(array, dtype=self.dtype)))
        self.rows += len(array)

    def joined(self, dtype: type = np.float64) -> np.ndarray:
        """All of them as one, mapped."""
        if self.dtype is None or not self.rows:
            return np.zeros((0, *self.shape), self.dtype or dtype)
        return map_file(self.path, self.dtype, (self.rows, *self.shape))

    def clear(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)


def spills(folder: Path) -> Callable[[], Spill]:
    """A function that makes a new :class:`Spill` in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return lambda: Spill(folder)


def raw(array: np.ndarray) -> memoryview:
    """The bytes of an array without gaps, whatever its type."""
    return array.reshape(-1).view(np.uint8).data


def map_file(path: Path, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Map a file of ours that holds nothing but these values. No file stays open, as with ``numpy.memmap``."""
    size = math.prod(shape) * dtype.itemsize
    assert size == os.path.getsize(path), path
    return torch.from_file(str(path), shared=True, size=size, dtype=torch.uint8).numpy().view(dtype).reshape(shape)
