"""The embedding of a graph on disk: its parts as rows that are read or computed when they are needed.

Kept on disk are ÂX, Â²X and what networks give: every pass over the nodes, of which a head makes several, would compute
them again. X is read from its own file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from plgc.downstream.unit_rows import UnitRows, unit_rows
from plgc.method.disk.layers import network_rows
from plgc.method.encoder import GNN
from plgc.method.stage_one import unit_blocks
from plgc.runtime.errors import ArtifactError
from plgc.sparse.rows import ComputedRows, Rows
from plgc.sparse.stored_inputs import StoredInputs

STEPS = {"x": 0, "propagated_1": 1, "propagated_2": 2}  # parts that need no training: how often X is propagated


@dataclass(frozen=True, eq=False)
class StoredEmbedding:
    """Frozen embeddings of every node, in parts.

    Attributes:
        inputs: the graph.
        parts: by name, in the order of the embedding's columns.
        means: of the columns of each part, once they are known.
    """

    inputs: StoredInputs
    parts: Mapping[str, Rows]
    means: dict[str, Tensor] = field(default_factory=dict)

    @property
    def mean(self) -> Tensor:
        """The mean of every column, [Σ parts].

        Raises:
            ArtifactError: it is not finite.
        """
        if not all(name in self.means for name in self.parts):
            self.means.update(zip(self.parts, self._mean().split(self.widths), strict=True))
        return torch.cat([self.means[name] for name in self.parts])

    @property
    def widths(self) -> list[int]:
        """Columns of every part."""
        return [rows.width for rows in self.parts.values()]

    def _mean(self) -> Tensor:
        sums = torch.zeros(sum(self.widths), dtype=torch.float64)
        for _, _, blocks in self.blocks("averaging the embedding"):
            sums += torch.cat([rows.sum(0, dtype=torch.float64) for rows in blocks.values()])
        mean = (sums / self.inputs.num_nodes).float()
        if not bool(torch.isfinite(mean).all()):
            raise ArtifactError(
                "what was rebuilt from the condensed graph gives NaN or infinite values: its features are out of "
                "range. Condense the graph again, or ask its owner for another file"
            )
        return mean

    def only(self, names: Mapping[str, int]) -> StoredEmbedding:
        """Some of the parts."""
        return StoredEmbedding(self.inputs, {name: self.parts[name] for name in names}, self.means)

    def blocks(self, message: str) -> Iterator[tuple[int, int, dict[str, Tensor]]]:
        """All rows, some at a time: the first, the one after the last, and the rows by part."""
        nodes = self.inputs.num_nodes
        for first, last in self.inputs.ranges(sum(rows.wide for rows in self.parts.values())):
            yield first, last, {name: rows.block(first, last) for name, rows in self.parts.items()}
            self.inputs.progress(message, last, nodes)

    def unit_rows(self, mean: Tensor | None = None) -> dict[str, StoredUnitRows]:
        """The parts as heads see them; ``mean`` is that of the embedding itself, unless one is given."""
        pieces = (self.mean if mean is None else mean).split(self.widths)
        return {name: StoredUnitRows(rows, own) for (name, rows), own in zip(self.parts.items(), pieces, strict=True)}


@dataclass(frozen=True, eq=False)
class StoredUnitRows:
    """One part, centred and every row of unit length, as :class:`plgc.downstream.unit_rows.UnitRows` is in memory."""

    rows: Rows
    mean: Tensor

    def block(self, first: int, last: int) -> UnitRows:
        """Some consecutive rows."""
        return self._unit(self.rows.block(first, last))

    def take(self, nodes: Tensor) -> Tensor:
        """The rows of some nodes, [n, D]."""
        rows = self.rows.take(nodes)
        return self._unit(rows).take(torch.arange(len(rows)))

    def _unit(self, rows: Tensor) -> UnitRows:
        return unit_rows(rows, {"": rows.shape[1]}, self.mean)[""]


@torch.no_grad()
def stored_embedding(
    inputs: StoredInputs,
    parts: Mapping[str, int],
    networks: Mapping[str, GNN] | None = None,
    blocks: Mapping[str, tuple[int, ...]] | None = None,
) -> StoredEmbedding:
    """Embed a graph on disk, layer by layer.

    Args:
        inputs: the graph.
        parts: their names, among them those of the networks.
        networks: by the name of their part.
        blocks: by part, widths of a network's independent outputs, each of which is scaled to unit length; None where
            outputs are taken as they are.
    """
    found: dict[str, Rows] = {}
    for name in parts:
        network = (networks or {}).get(name)
        if network is None:
            found[name] = inputs.propagated(STEPS[name])
            continue
        rows = network_rows(network, inputs)
        rows = rows if blocks is None else _unit(rows, blocks[name], sum(map(len, blocks.values())))
        # of a large graph computing an output again costs no more than reading it, and much less of the disk
        found[name] = inputs.keep(rows) if rows.cost and not inputs.half else rows
    return StoredEmbedding(inputs, found)


def _unit(rows: Rows, blocks: tuple[int, ...], every: int) -> Rows:
    """Every block of columns of unit length, and the whole of all networks' blocks too."""
    scale = (len(blocks) / every) ** 0.5
    return ComputedRows(rows.width, lambda output: unit_blocks(output, blocks) * scale, rows)
