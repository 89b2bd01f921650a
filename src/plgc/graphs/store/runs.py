"""Edges are sorted on disk: as much as fits into memory becomes a sorted run; the runs are then merged range by range.

An edge (row, column) is the key row · N + column. With weights, keys are doubled, and the last bit says whether the
edge list has the edge in this direction or the other: weights of duplicates are added first, in their order, then the
larger of the two directions counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from plgc.graphs.store.spill import map_file
from plgc.runtime.errors import GraphError

CHUNK = 1 << 18  # keys that are written at a time


class Runs:
    """Sorted runs in a folder, each of at most ``capacity`` keys."""

    def __init__(self, folder: Path, capacity: int, weighted: bool) -> None:
        self.folder, self.count, self.filled = folder, 0, 0
        self.keys = np.empty(capacity, np.int64)
        self.weights = np.empty(capacity if weighted else 0, np.float32)

    def add(self, keys: np.ndarray, weights: np.ndarray | None = None) -> None:
        """Add keys and, where edges have them, weights."""
        start = 0
        while start < len(keys):
            taken = min(len(keys) - start, len(self.keys) - self.filled)
            self.keys[self.filled : self.filled + taken] = keys[start : start + taken]
            if weights is not None:
                self.weights[self.filled : self.filled + taken] = weights[start : start + taken]
            self.filled, start = self.filled + taken, start + taken
            if self.filled == len(self.keys):
                self.flush()

    def flush(self) -> None:
        """Write what has been added since the last run as the next one."""
        if not self.filled:
            return
        keys = self.keys[: self.filled]
        with open(self.folder / f"{self.count}.keys", "wb") as file:
            if len(self.weights):
                order = np.argsort(keys, kind="stable")
                for start in range(0, len(order), CHUNK):
                    file.write(keys[order[start : start + CHUNK]].data)
                with open(self.folder / f"{self.count}.weights", "wb") as other:
                    for start in range(0, len(order), CHUNK):
                        other.write(self.weights[order[start : start + CHUNK]].data)
            else:
                keys.sort()
                for start in range(0, len(keys), CHUNK):
                    part = keys[start : start + CHUNK]
                    file.write(part[_first_of_each(part, keys[start - 1] if start else -1)].data)
        self.count, self.filled = self.count + 1, 0


def merged(folder: Path, count: int, capacity: int, weighted: bool) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """The keys of all runs in order, each once, about ``capacity`` at a time, and weights where there are any.

    Raises:
        GraphError: one edge occurs so often that its weights do not fit into memory.
    """
    runs = [_mapped(folder / f"{run}.keys", np.dtype(np.int64)) for run in range(count)]
    weights = [_mapped(folder / f"{run}.weights", np.dtype(np.float32)) for run in range(count)] if weighted else []
    starts = [0] * count
    for bound in _bounds(runs, capacity):
        bound |= int(weighted)  # both directions of an edge go together
        ends = [int(np.searchsorted(run, bound, side="right")) for run in runs]
        places = list(zip(range(count), starts, ends, strict=True))
        keys = np.concatenate([runs[run][start:end] for run, start, end in places])
        if len(keys) > 2 * capacity + count:
            raise GraphError(
                f"one edge, or few, make up {len(keys):,} rows of the edge list: add up the weights of duplicates first"
            )
        if weighted:
            parts = np.concatenate([weights[run][start:end] for run, start, end in places])
            yield _added(keys, parts)
        else:
            keys.sort()
            yield keys[_first_of_each(keys)], None
        starts = ends


def _bounds(runs: list[np.ndarray], capacity: int) -> Iterator[int]:
    """Keys up to which to merge next, the last one the largest of all: at most ``capacity`` keys lie between two.

    Every run is known at every ``step``-th key; between two of these there are fewer than ``step`` keys of each run.
    """
    if not runs:
        return
    step = max(1, capacity // (2 * len(runs)))
    sample = np.sort(np.concatenate([run[step - 1 :: step] for run in runs]))
    largest = max(int(run[-1]) for run in runs)
    last = -1
    for bound in sample[:: max(1, capacity // 2 // step)].tolist()[1:]:
        if last < bound < largest:
            yield bound
            last = bound
    yield largest


def _added(keys: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Doubled keys and weights as single keys, in order, with the larger sum of the two directions."""
    order = np.argsort(keys, kind="stable")
    keys, weights = keys[order], weights[order]
    new = _first_of_each(keys)
    total = np.zeros(int(new.sum()), np.float32)
    np.add.at(total, np.cumsum(new) - 1, weights)
    keys = keys[new] >> 1
    first = np.flatnonzero(_first_of_each(keys))
    return keys[first], np.maximum.reduceat(total, first) if len(first) else total


def _first_of_each(keys: np.ndarray, before: int = -1) -> np.ndarray:
    """Whether each of some sorted keys differs from the one before it."""
    new = np.empty(len(keys), bool)
    np.not_equal(keys[:1], before, out=new[:1])
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return new


def _mapped(path: Path, dtype: np.dtype) -> np.ndarray:
    return map_file(path, dtype, (path.stat().st_size // dtype.itemsize,))
