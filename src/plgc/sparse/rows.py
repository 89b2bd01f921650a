"""Matrices with a row for every node that are never whole in memory: each gives some of its rows when they are needed.

They lie in a file (features, or results that are kept, :class:`KeptRows`), or are computed from the same rows of
others (:class:`ComputedRows`). A product with Â needs rows of other nodes: its result is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from plgc.graphs.features import take_rows
from plgc.runtime import mapped
from plgc.runtime.scratch import Scratch
from plgc.sparse.features import SparseFeatures, StoredFeatures

LEAST = 1e-30  # what rows of float16 are divided by at least


class Rows(Protocol):
    """A matrix [N, width], float32.

    Attributes:
        width: columns.
        wide: how many numbers a row takes while it is computed.
        cost: multiplications that a row takes.
    """

    width: int
    wide: int
    cost: int

    def block(self, first: int, last: int) -> Tensor:
        """Rows from ``first`` to before ``last``; they must not be changed."""
        ...

    def take(self, nodes: Tensor) -> Tensor:
        """The rows of some nodes."""
        ...


class FeatureRows:
    """X. The last block is kept, since several parts of an embedding are made of it."""

    def __init__(self, x: Tensor | SparseFeatures | StoredFeatures) -> None:
        self.x, self.width, self.wide, self.cost = x, x.shape[1], 2 * x.shape[1], 0
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

    def __init__(self, width: int, function: Callable[..., Tensor], *sources: Rows, cost: int = 0) -> None:
        self.width, self.function, self.sources = width, function, sources
        self.wide = width + sum(source.wide for source in sources)
        self.cost = cost + sum(source.cost for source in sources)

    @torch.no_grad()
    def block(self, first: int, last: int) -> Tensor:
        """Rows from ``first`` to before ``last``."""
        return self.function(*(source.block(first, last) for source in self.sources))

    @torch.no_grad()
    def take(self, nodes: Tensor) -> Tensor:
        """The rows of some nodes."""
        return self.function(*(source.take(nodes) for source in self.sources))


class KeptRows:
    """Rows in scratch files, as float32; or as float16, each divided by its largest value, to three decimal digits.

    Columns lie in slices, each in a file of its own that is made with its first rows. A product gathers from one of
    them at a time.

    Attributes:
        slices: [N, together] each, the last one maybe narrower.
        factors: what rows of each are multiplied with where they are float16, [N, 1].
        together: columns of a slice.
    """

    cost = 0

    def __init__(self, room: Scratch, nodes: int, width: int, *, half: bool = False, together: int | None = None):
        self.width, self.wide, self.together = width, 2 * width, together or width
        self._room, self._nodes, self._kind = room, nodes, torch.float16 if half else torch.float32
        count = -(-width // self.together)
        self.slices = [torch.empty(0)] * count
        self.factors = [torch.empty(0)] * count if half else None

    def write(self, first: int, rows: Tensor, number: int) -> None:
        """Write rows from ``first`` on into one of the slices."""
        if self.slices[number].numel() == 0:
            self.slices[number] = self._room.empty(self._nodes, rows.shape[1], dtype=self._kind)
            if self.factors is not None:
                self.factors[number] = self._room.empty(self._nodes, 1)
        place = slice(first, first + len(rows))
        if self.factors is not None:
            most = rows.abs().amax(1, keepdim=True).clamp_(min=LEAST)
            self.factors[number][place] = most
            rows = rows / most
        self.slices[number][place] = rows.to(self.slices[number].dtype)

    def write_all(self, first: int, rows: Tensor) -> None:
        """Write whole rows from ``first`` on."""
        for number, part in enumerate(rows.split(self.together, dim=1)):
            self.write(first, part, number)

    def drop(self, number: int) -> None:
        """Let go of one of the slices: its file goes with its last use."""
        self.slices[number] = torch.empty(0)

    def block(self, first: int, last: int) -> Tensor:
        """Rows from ``first`` to before ``last``."""
        return self._joined([self.part(number, first, last) for number in range(len(self.slices))])

    def part(self, number: int, first: int, last: int) -> Tensor:
        """The same of one of the slices."""
        factor = None if self.factors is None else self.factors[number][first:last]
        return _times_factor(self.slices[number][first:last], factor)

    def take(self, nodes: Tensor) -> Tensor:
        """The rows of some nodes."""
        factors = [None] * len(self.slices) if self.factors is None else [own[nodes] for own in self.factors]
        parts = (mapped.gather(own, nodes) for own in self.slices)
        return self._joined([_times_factor(*pair) for pair in zip(parts, factors, strict=True)])

    def release(self) -> None:
        """Let go of the pages of the files."""
        for part in (*self.slices, *(self.factors or ())):
            mapped.release(part)

    @staticmethod
    def _joined(parts: list[Tensor]) -> Tensor:
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


def _times_factor(rows: Tensor, factor: Tensor | None) -> Tensor:
    return rows if factor is None else rows.to(torch.float32).mul_(factor)
