"""What a head computes for all nodes at once: in memory, or block by block where the graph stays on disk.

Predictions of all nodes are *tables* [N, …]. In memory they are tensors that are computed whole; of a graph on disk
they lie in scratch files, and are computed some rows at a time. Few of them are there at once: they are the most that
a large graph with many classes takes of the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import torch
from torch import Tensor

from plgc.downstream.embedder import Embedding
from plgc.downstream.regression import LinearMaps
from plgc.downstream.smoothing import TINY, HeadSettings, smooth
from plgc.downstream.stored_embedding import StoredEmbedding, StoredUnitRows
from plgc.downstream.unit_rows import UnitRows, unit_rows
from plgc.downstream.weighing import edge_agreement
from plgc.runtime.mapped import release
from plgc.sparse.adjacency import Adjacency
from plgc.sparse.on_disk import StoredAdjacency, stream_sums
from plgc.sparse.rows import KeptRows


class TakenRows(Protocol):
    """One part of an embedding: the unit rows of some nodes, [n, D]."""

    def take(self, nodes: Tensor) -> Tensor:
        """The rows of some nodes."""
        ...


class Everywhere(Protocol):
    """All nodes of a graph: the parts of their embedding, and what is computed of all of them."""

    @property
    def rows(self) -> Mapping[str, TakenRows]:
        """The parts by name."""
        ...

    @property
    def has_edges(self) -> bool:
        """Whether Â is at hand."""
        ...

    def log_probabilities(self, maps: LinearMaps, plain: TakenRows | None = None) -> Tensor:
        """Of every map, log p of every node, [N, V, C]; ``plain`` is X where it is none of the parts."""
        ...

    def each(self, function: Callable[..., Tensor], *tables: Tensor) -> Tensor:
        """A table that is a function of the same rows of others."""
        ...

    def pieces(self, table: Tensor) -> Iterator[tuple[int, Tensor]]:
        """A table some rows at a time, with the first one's number."""
        ...

    def smoothed_at(self, log_p: Tensor, nodes: Tensor, settings: HeadSettings) -> Tensor:
        """log S of some nodes, where S are predictions spread over the graph, [n, …, C]; see
        :func:`plgc.downstream.smoothing.smooth`.
        """
        ...

    def mixed(self, log_p: Tensor, sigma: float, settings: HeadSettings) -> Tensor:
        """(1 − σ) log p + σ log S of predictions [N, …, C], scaled to sum to one."""
        ...

    def edge_agreement(self, log_p: Tensor) -> float:
        """How far predictions [N, C] agree over edges, see :func:`plgc.downstream.weighing.edge_agreement`."""
        ...


class InMemory:
    """All nodes of a graph in memory, or on a GPU."""

    def __init__(self, embedding: Tensor, parts: Mapping[str, int], adjacency: Adjacency | None, mean: Tensor) -> None:
        self.rows, self.adjacency = unit_rows(embedding, parts, mean), adjacency

    @property
    def has_edges(self) -> bool:
        """Whether Â is at hand."""
        return self.adjacency is not None

    def log_probabilities(self, maps: LinearMaps, plain: UnitRows | None = None) -> Tensor:
        """Of every map, log p of every node, [N, V, C]."""
        return maps.logits(self.rows if plain is None else {**self.rows, "x": plain}).log_softmax(2)

    def each(self, function: Callable[..., Tensor], *tables: Tensor) -> Tensor:
        """A function of whole tables."""
        return function(*tables)

    def pieces(self, table: Tensor) -> Iterator[tuple[int, Tensor]]:
        """The whole table."""
        yield 0, table

    def smoothed_at(self, log_p: Tensor, nodes: Tensor, settings: HeadSettings) -> Tensor:
        """log S of some nodes, [n, …, C]."""
        return smooth(log_p.exp(), self.adjacency, settings)[nodes].clamp(min=TINY).log()

    def mixed(self, log_p: Tensor, sigma: float, settings: HeadSettings) -> Tensor:
        """(1 − σ) log p + σ log S, scaled to sum to one."""
        if not self.has_edges or sigma == 0:
            return log_p
        return _mixed(log_p, smooth(log_p.exp(), self.adjacency, settings), sigma)

    def edge_agreement(self, log_p: Tensor) -> float:
        """How far predictions agree over edges."""
        assert self.adjacency is not None
        return edge_agreement(log_p.exp(), self.adjacency)


class OnDisk:
    """All nodes of a graph on disk."""

    def __init__(self, embedding: StoredEmbedding, adjacency: StoredAdjacency | None, mean: Tensor) -> None:
        self.embedding, self.adjacency, self.inputs = embedding, adjacency, embedding.inputs
        self.rows = embedding.unit_rows(mean)

    @property
    def has_edges(self) -> bool:
        """Whether Â is at hand."""
        return self.adjacency is not None

    @torch.no_grad()
    def log_probabilities(self, maps: LinearMaps, plain: StoredUnitRows | None = None) -> Tensor:
        """Of every map, log p of every node, [N, V, C]: one pass over the embedding."""
        rows = self.rows if plain is None else {**self.rows, "x": plain}
        rows = {name: rows[name] for name in maps.weights}
        table = self.inputs.table(*maps.bias.shape)
        width = sum(2 * one.rows.wide for one in rows.values()) + 3 * maps.bias.numel()
        for first, last in self.inputs.ranges(width):
            block = {name: one.block(first, last) for name, one in rows.items()}
            table[first:last] = maps.logits(block).log_softmax(2)
            self.inputs.progress("applying linear maps", last, self.inputs.num_nodes)
        return table

    @torch.no_grad()
    def each(self, function: Callable[..., Tensor], *tables: Tensor) -> Tensor:
        """A function of the same rows of tables."""
        result: Tensor | None = None
        for first, last in self._ranges(*tables):
            rows = function(*(table[first:last] for table in tables))
            result = self.inputs.table(*rows.shape[1:]) if result is None else result
            result[first:last] = rows
        assert result is not None
        return result

    def pieces(self, table: Tensor) -> Iterator[tuple[int, Tensor]]:
        """A table some rows at a time, with the first one's number."""
        for first, last in self._ranges(table):
            yield first, table[first:last]

    @torch.no_grad()
    def smoothed_at(self, log_p: Tensor, nodes: Tensor, settings: HeadSettings) -> Tensor:
        """log S of some nodes, [n, …, C]."""
        found = torch.empty(len(nodes), *log_p.shape[1:])
        for view, own in zip(_views(log_p).unbind(1), _views(found).unbind(1), strict=True):
            own.copy_(self._spread(view, settings).take(nodes))
        return (found / found.sum(dim=-1, keepdim=True)).clamp_(min=TINY).log_()

    @torch.no_grad()
    def mixed(self, log_p: Tensor, sigma: float, settings: HeadSettings) -> Tensor:
        """(1 − σ) log p + σ log S, scaled to sum to one."""
        if not self.has_edges or sigma == 0:
            return log_p
        result = self.inputs.table(*log_p.shape[1:])
        for view, own in zip(_views(log_p).unbind(1), _views(result).unbind(1), strict=True):
            self._mix_into(own, view, sigma, settings)
        return result

    @torch.no_grad()
    def edge_agreement(self, log_p: Tensor) -> float:
        """How far predictions agree over edges."""
        assert self.adjacency is not None
        total = sum((rows.exp().sum(0, dtype=torch.float64) for _, rows in self.pieces(log_p)), torch.zeros(1))
        mean, over_edges, own = (total / len(log_p)).float(), 0.0, 0.0
        for centred in self._slices(log_p, lambda rows, _: rows.exp() - mean).slices:
            for first, rows in self._sums(centred, "comparing predictions over edges"):
                mine = centred[first : first + len(rows)]
                over_edges += float((mine * (rows - mine)).sum(dtype=torch.float64))
                degree = self.adjacency.degree[first : first + len(rows)] - 1
                own += float((degree * mine.pow(2).sum(1)).sum(dtype=torch.float64))
        return over_edges / own if own > 0 else 0.0

    def _mix_into(self, result: Tensor, log_p: Tensor, sigma: float, settings: HeadSettings) -> None:
        spread = self._spread(log_p, settings)  # its files go when this returns
        for first, last in self._ranges(log_p, log_p):
            rows = spread.block(first, last)
            result[first:last] = _mixed(log_p[first:last], rows / rows.sum(dim=-1, keepdim=True), sigma)

    def _spread(self, log_p: Tensor, settings: HeadSettings) -> KeptRows:
        """D^-½ p spread over the graph, [N, C]: in proportion to S in every row, and D^-½ Â D^½ = D^-1 (A + I).

        Slices of its columns go over the edges one after the other.
        """
        assert self.adjacency is not None
        scale = self.adjacency.scale
        kept = self._slices(log_p, lambda rows, first: rows.exp() * scale[first : first + len(rows), None])
        for number in range(len(kept.slices)):
            kept.slices[number] = self._steps(kept.slices[number], settings, f"{number + 1} of {len(kept.slices)}")
        return kept

    def _steps(self, start: Tensor, settings: HeadSettings, which: str) -> Tensor:
        assert self.adjacency is not None
        current, after, spare = start, self.inputs.table(start.shape[1]), self.inputs.table(start.shape[1])
        for step in range(settings.smoothing_steps):
            message = f"smoothing columns {which}, step {step + 1} of {settings.smoothing_steps}"
            for first, rows in self._sums(current, message):
                last = first + len(rows)
                rows.mul_((1 - settings.restart) / self.adjacency.degree[first:last, None])
                after[first:last] = rows.add_(start[first:last], alpha=settings.restart)
            current, after, spare = after, spare, after
            release(current)
        return current

    def _slices(self, table: Tensor, function: Callable[[Tensor, int], Tensor]) -> KeptRows:
        """A function of a table's rows [n, C] and the first one's number, in slices that are multiplied at a time."""
        kept = KeptRows(self.inputs.room, len(table), table.shape[1], together=self.inputs.together(table.shape[1]))
        for first, rows in self.pieces(table):
            kept.write_all(first, function(rows, first))
        kept.release()
        return kept

    def _sums(self, table: Tensor, message: str) -> Iterator[tuple[int, Tensor]]:
        assert self.adjacency is not None
        rows = next(self.inputs.ranges(table.shape[1]))[1]
        for first, block in stream_sums(self.adjacency, table, rows=rows):
            yield first, block
            self.inputs.progress(message, first + len(block), len(table))

    def _ranges(self, *tables: Tensor) -> Iterator[tuple[int, int]]:
        return self.inputs.ranges(sum(table[:1].numel() for table in tables))


def everywhere(
    embedding: Embedding, parts: Mapping[str, int], adjacency: Adjacency | StoredAdjacency | None, mean: Tensor
) -> Everywhere:
    """All nodes of an embedded graph; ``adjacency`` is None where edges are not to be seen."""
    if isinstance(embedding, StoredEmbedding):
        assert not isinstance(adjacency, Adjacency)
        return OnDisk(embedding, adjacency, mean)  # pyright: ignore[reportReturnType]
    assert not isinstance(adjacency, StoredAdjacency)
    return InMemory(embedding, parts, adjacency, mean)  # pyright: ignore[reportReturnType]


def embedding_mean(embedding: Embedding) -> Tensor:
    """The mean of every column, [Σ parts]."""
    return embedding.mean if isinstance(embedding, StoredEmbedding) else embedding.mean(0)


def alone(embedding: Embedding) -> UnitRows | StoredUnitRows:
    """The unit rows of an embedding of one part, X."""
    if isinstance(embedding, StoredEmbedding):
        return embedding.unit_rows()["x"]
    return unit_rows(embedding, {"x": embedding.shape[1]})["x"]


def _mixed(log_p: Tensor, spread: Tensor, sigma: float) -> Tensor:
    return ((1 - sigma) * log_p + sigma * spread.clamp(min=TINY).log()).log_softmax(-1)


def _views(table: Tensor) -> Tensor:
    """A table [N, C] or [N, V, C] as [N, V, C]."""
    return table[:, None] if table.ndim == 2 else table
