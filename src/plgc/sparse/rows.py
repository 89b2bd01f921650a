"""Matrices with a row for every node that are never whole in memory: each gives some of its rows when they are needed.

They lie in a file (features, or the result of a product, :class:`KeptRows`), or are computed from the same rows of
others (:class:`ComputedRows`). A product with Â needs rows of other nodes: its result is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from plgc.graphs.features import take_rows
from plgc.runtime import mapped
from plgc.runtime.scratch import Scratch
from plgc.sparse.features import SparseFeatures, StoredFeatures

LEAST = 1e-30  # what rows of float16 are divided by at least


class Rows(Protocol):
    """A matrix [N, width], float32; ``wide`` is how many numbers a row takes while it is computed."""

    width: int
    wide: int

    def block(self, first: int, last: int) -> Tensor:
        """Rows from ``first`` to before ``last``; they must not be changed."""
        ...

    def take(self, nodes: Tensor) -> Tensor:
        """The rows of some nodes."""
        ...


class FeatureRows:
    """X. The last block is kept, since several parts of an embedding are made of it."""

    def __init__(self, x: Tensor | SparseFeatures | StoredFeatures) -> None:
        self.x, self.width, self.wide = x, x.shape[1], 2 * x.shape[1]
        self._last: tuple[int, int, Tensor] | None = None

    def block(self, first: int, last: int) -> Tensor:
        """Rows from ``first`` to before ``last``."""
        if self._last is None or self._last[:2] != (first, last):
            self._last = None  # let go of it before the next is made
            self._last = first, last, self._block(first, last)
        return self._last[2]

    def take(self, nodes: Tensor) -> Tensor:
        """The rows of some nodes."""
        if isinstance(self.x, StoredFeatures):
            return self.x.rows(nodes)
        return self.x[nodes] if isinstance(self.x, Tensor) else take_rows(self.x.matrix, nodes).to_dense()

    def _block(self, first: int, last: int) -> Tensor:
        if not isinstance(self.x, StoredFeatures):
            return self.take(torch.arange(first, last))
        rows = self.x.matrix[first:last].to(torch.float32, copy=True)
        mapped.release(self.x.matrix)
        return rows if self.x.norm is None else rows.div_(self.x.norm[first:last, None])


class ComputedRows:
    """Rows that are a function of the same rows of other matrices."""

    def __init__(self, width: int, function: Callable[..., Tensor], *sources: Rows) -> None:
        self.width, self.function, self.sources = width, function, sources
        self.wide = width + sum(source.wide for source in sources)

    @torch.no_grad()
    def block(self, first: int, last: int) -> Tensor:
        """Rows from ``first`` to before ``last``."""
        return self.function(*(source.block(first, last) for source in self.sources))

    @torch.no_grad()
    def take(self, nodes: Tensor) -> Tensor:
        """The rows of some nodes."""
        return self.function(*(source.take(nodes) for source in self.sources))


class KeptRows:
    """Rows in a scratch file, as float32; or as float16, each divided by its largest value, to three decimal digits.

    Attributes:
        values: [N, width].
        factor: what rows of float16 are multiplied with, [N, slices]; None for float32.
        slice: columns that are written, and divided, together.
    """

    def __init__(self, room: Scratch, nodes: int, width: int, *, half: bool = False, together: int | None = None):
        self.width, self.wide, self.slice = width, width, together or width
        self.values = room.empty(nodes, width, dtype=torch.float16 if half else torch.float32)
        self.factor = room.empty(nodes, -(-width // self.slice)) if half else None

    def write(self, first: int, rows: Tensor, column: int = 0) -> None:
        """Write rows from ``first`` on into the columns from ``column`` on, a slice of them."""
        place = slice(first, first + len(rows)), slice(column, column + rows.shape[1])
        if self.factor is not None:
            most = rows.abs().amax(1).clamp_(min=LEAST)
            self.factor[first : first + len(rows), column // self.slice] = most
            rows = rows / most[:, None]
        self.values[place] = rows.to(self.values.dtype)

    def block(self, first: int, last: int) -> Tensor:
        """Rows from ``first`` to before ``last``."""
        return self._whole(self.values[first:last], None if self.factor is None else self.factor[first:last])

    def take(self, nodes: Tensor) -> Tensor:
        """The rows of some nodes."""
        return self._whole(mapped.gather(self.values, nodes), None if self.factor is None else self.factor[nodes])

    def _whole(self, rows: Tensor, factor: Tensor | None) -> Tensor:
        if factor is None:
            return rows
        rows = rows.to(torch.float32)
        for column in range(0, self.width, self.slice):
            rows[:, column : column + self.slice].mul_(factor[:, column // self.slice, None])
        return rows


def joined(rows: Sequence[Rows]) -> Rows:
    """Matrices side by side."""
    if len(rows) == 1:
        return rows[0]
    return ComputedRows(sum(one.width for one in rows), lambda *blocks: torch.cat(blocks, 1), *rows)
