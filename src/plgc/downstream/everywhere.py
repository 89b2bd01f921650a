"""What a head computes for all nodes at once: in memory, or block by block where the graph stays on disk.

Logits and probabilities of all nodes are *tables* [N, …]. In memory they are tensors that are computed whole; of a
graph on disk they lie in scratch files, and are computed some rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from plgc.sparse.on_disk import StoredAdjacency, stream_product


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

    def every_logits(self, maps: Sequence[LinearMaps], plain: TakenRows | None = None) -> list[Tensor]:
        """Of each of some maps, the logits of every node, [N, V, C]; ``plain`` is X where it is none of the parts."""
        ...

    def logits(self, maps: LinearMaps) -> Tensor:
        """Of one of them."""
        ...

    def each(self, function: Callable[..., Tensor], *tables: Tensor) -> Tensor:
        """A table that is a function of the same rows of others."""
        ...

    def pieces(self, table: Tensor) -> Iterator[tuple[int, Tensor]]:
        """A table some rows at a time, with the first one's number."""
        ...

    def smooth(self, probability: Tensor, settings: HeadSettings) -> Tensor:
        """Predictions spread over the graph, see :func:`plgc.downstream.smoothing.smooth`."""
        ...

    def edge_agreement(self, probability: Tensor) -> float:
        """How far predictions agree over edges, see :func:`plgc.downstream.weighing.edge_agreement`."""
        ...


class InMemory:
    """All nodes of a graph in memory, or on a GPU."""

    def __init__(self, embedding: Tensor, parts: Mapping[str, int], adjacency: Adjacency | None, mean: Tensor) -> None:
        self.rows, self.adjacency = unit_rows(embedding, parts, mean), adjacency

    @property
    def has_edges(self) -> bool:
        """Whether Â is at hand."""
        return self.adjacency is not None

    def every_logits(self, maps: Sequence[LinearMaps], plain: UnitRows | None = None) -> list[Tensor]:
        """Of each of some maps, the logits of every node, [N, V, C]."""
        rows = self.rows if plain is None else {**self.rows, "x": plain}
        return [one.logits(rows) for one in maps]

    def logits(self, maps: LinearMaps) -> Tensor:
        """Of one of them."""
        return maps.logits(self.rows)

    def each(self, function: Callable[..., Tensor], *tables: Tensor) -> Tensor:
        """A function of whole tables."""
        return function(*tables)

    def pieces(self, table: Tensor) -> Iterator[tuple[int, Tensor]]:
        """The whole table."""
        yield 0, table

    def smooth(self, probability: Tensor, settings: HeadSettings) -> Tensor:
        """Predictions spread over the graph."""
        return smooth(probability, self.adjacency, settings)

    def edge_agreement(self, probability: Tensor) -> float:
        """How far predictions agree over edges."""
        assert self.adjacency is not None
        return edge_agreement(probability, self.adjacency)


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
    def every_logits(self, maps: Sequence[LinearMaps], plain: StoredUnitRows | None = None) -> list[Tensor]:
        """Of each of some maps, the logits of every node, [N, V, C]: one pass over the embedding."""
        rows = self.rows if plain is None else {**self.rows, "x": plain}
        rows = {name: rows[name] for name in rows if any(name in one.weights for one in maps)}
        tables = [self.inputs.table(*one.bias.shape) for one in maps]
        width = sum(2 * one.rows.wide for one in rows.values()) + 3 * sum(one.bias.numel() for one in maps)
        for first, last in self.inputs.ranges(width):
            block = {name: one.block(first, last) for name, one in rows.items()}
            for table, one in zip(tables, maps, strict=True):
                table[first:last] = one.logits(block)
            self.inputs.progress("applying linear maps", last, self.inputs.num_nodes)
        return tables

    def logits(self, maps: LinearMaps) -> Tensor:
        """Of one of them."""
        return self.every_logits([maps])[0]

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
    def smooth(self, probability: Tensor, settings: HeadSettings) -> Tensor:
        """Predictions spread over the graph, one pass over its edges for every step."""
        restart, current = settings.restart, probability.flatten(1)
        start = current
        for step in range(settings.smoothing_steps if self.adjacency is not None else 0):
            after = self.inputs.table(start.shape[1])
            for first, rows in self._product(current, f"smoothing, step {step + 1} of {settings.smoothing_steps}"):
                own = restart * start[first : first + len(rows)]
                after[first : first + len(rows)] = rows.mul_(1 - restart).add_(own)
            current = after
            release(current)
        return self.each(lambda rows: rows / rows.sum(dim=-1, keepdim=True), current.view_as(probability))

    @torch.no_grad()
    def edge_agreement(self, probability: Tensor) -> float:
        """How far predictions agree over edges."""
        assert self.adjacency is not None
        total = sum((rows.sum(0, dtype=torch.float64) for _, rows in self.pieces(probability)), torch.zeros(1))
        mean = (total / len(probability)).float()
        centred, over_edges, own = self.each(lambda rows: rows - mean, probability), 0.0, 0.0
        for first, rows in self._product(centred, "comparing predictions over edges", normalised=False):
            mine = centred[first : first + len(rows)]
            over_edges += float((mine * (rows - mine)).sum(dtype=torch.float64))
            degree = self.adjacency.degree[first : first + len(rows)] - 1
            own += float((degree * mine.pow(2).sum(1)).sum(dtype=torch.float64))
        return over_edges / own if own > 0 else 0.0

    def _product(self, table: Tensor, message: str, *, normalised: bool = True) -> Iterator[tuple[int, Tensor]]:
        assert self.adjacency is not None
        rows = next(self.inputs.ranges(table.shape[1]))[1]
        for first, block in stream_product(self.adjacency, table, normalised=normalised, rows=rows):
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


def mix_smoothed(nodes: Everywhere, logits: Tensor, sigma: float, settings: HeadSettings) -> Tensor:
    """log p of logits [N, …, C]: their own log-probabilities with weight 1 − σ, the smoothed ones with weight σ."""
    plain = nodes.each(lambda rows: rows.log_softmax(-1), logits)
    if not nodes.has_edges or sigma == 0:
        return plain
    spread = nodes.smooth(nodes.each(Tensor.exp, plain), settings)
    return nodes.each(
        lambda own, over: ((1 - sigma) * own + sigma * over.clamp(min=TINY).log()).log_softmax(-1), plain, spread
    )
