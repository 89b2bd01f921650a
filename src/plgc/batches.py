"""Stage I on a piece of the graph at a time, for graphs whose activations would not fit into memory.

Nodes are cut into small parts, slices of an order in which neighbours are close (:mod:`plgc.locality`). Every step
draws some of the parts anew and trains on the subgraph that they induce together: edges within a part are always there,
edges between parts whenever both are drawn. The draw comes from the stage's own generator, so that there is nothing
else to remember. In the end the encoders see the whole graph once, without gradients, and the assignment of all nodes
is computed some rows at a time, with the balance found on a sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from plgc.config import Branch, CondenseSettings
from plgc.errors import SettingError
from plgc.inputs import Inputs, take_rows
from plgc.propagate import SparseFeatures, build_adjacency, sparse_features
from plgc.pseudo_labels import PseudoLabels, StageOne, balance, embed, read_pseudo_labels, unit_blocks

PART = 256  # nodes
LARGEST = 16_384  # nodes a step: more cost time and teach little
SMALLEST = 1_024
SAMPLE = 32_768  # nodes that the balance is found on
ROWS = 16_384  # that are assigned at a time
PROGRAM = 400 << 20  # bytes that are taken before a graph comes
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def parse_memory(text: str | int) -> int:
    """Bytes from a number of them or a text such as ``4GiB``."""
    if isinstance(text, int):
        text = f"{text}B"
    for unit, size in sorted(UNITS.items(), key=lambda pair: -len(pair[0])):
        number = text.removesuffix(unit).strip()
        if text.endswith(unit) and number.replace(".", "", 1).isdecimal() and float(number) > 0:
            return int(float(number) * size)
    raise SettingError(f"memory is {text!r}: give a number and a unit ({', '.join(UNITS)}), as in 4GiB")


def batch_size(inputs: Inputs, count: int, settings: CondenseSettings, memory: int) -> int | None:
    """How many nodes a step may take so that condensing stays within ``memory`` bytes; None: all of them fit.

    Raises:
        SettingError: not even the smallest batch fits.
    """
    nodes, ladder = inputs.num_nodes, [rung.branches for rung in settings.ladder]
    step = max(_step_bytes(branches, inputs.num_features, count, settings) for branches in ladder)
    graph = PROGRAM + _graph_bytes(inputs)
    if graph + nodes * step <= memory:
        return None
    width = max(sum(branch.width for branch in branches) for branches in ladder)
    hidden = max(branch.hidden for branches in ladder for branch in branches)
    ending = graph + 4 * nodes * (2 * count + width + 2 * hidden)  # the assignment of all nodes, and their embedding
    fits = (memory - graph) // step // PART * PART
    if ending > memory or fits < SMALLEST:
        least = max(ending, graph + SMALLEST * step)
        raise SettingError(
            f"memory is {memory / UNITS['GiB']:.2f} GiB: this graph needs at least {least / UNITS['GiB']:.2f} GiB, "
            f"even in batches of {SMALLEST} nodes: allow that much, ask for fewer nodes, or condense it in parts"
        )
    return int(min(fits, LARGEST))


def _step_bytes(branches: tuple[Branch, ...], features: int, count: int, settings: CondenseSettings) -> int:
    """Bytes a node costs while a step is taken: activations of two views with their gradients, and the assignment."""
    views = sum(2 * (branch.hidden + branch.width) for branch in branches)
    assignment = 10 * count if settings.pseudo_labels.swap > 0 else 0
    return 4 * (4 * views + assignment + features)


def _graph_bytes(inputs: Inputs) -> int:
    x = inputs.x
    features = 16 * x.matrix.values().numel() if isinstance(x, SparseFeatures) else 4 * x.numel()
    return features + 24 * inputs.adjacency.col.numel()  # Â, and a masked view of it


@dataclass(frozen=True)
class Supply:
    """What stage I trains on and looks at: the whole graph, or batches of ``size`` nodes."""

    inputs: Inputs
    size: int | None = None

    def step(self, generator: torch.Generator) -> Inputs:
        """The graph for the next step."""
        return self.inputs if self.size is None else draw_batch(self.inputs, self.size, generator)

    @cached_property
    def look(self) -> Inputs:
        """The graph that the pseudo-labels of a round are read from; with batches one of them, always the same."""
        if self.size is None:
            return self.inputs
        return draw_batch(self.inputs, 2 * self.size, torch.Generator().manual_seed(0))


def draw_batch(inputs: Inputs, size: int, generator: torch.Generator) -> Inputs:
    """The subgraph of randomly drawn parts with about ``size`` nodes together."""
    nodes = inputs.num_nodes
    parts = -(-nodes // PART)
    drawn = torch.randperm(parts, generator=generator)[: max(1, size // PART)].sort().values
    chosen = (drawn[:, None] * PART + torch.arange(PART)).flatten()
    return take_nodes(inputs, chosen[chosen < nodes].to(inputs.device))


def take_nodes(inputs: Inputs, nodes: Tensor) -> Inputs:
    """The subgraph that ``nodes`` (ascending) induce, with Â of its own."""
    adjacency = inputs.adjacency
    place = torch.full((inputs.num_nodes,), -1, dtype=adjacency.col.dtype, device=inputs.device)
    place[nodes] = torch.arange(len(nodes), dtype=place.dtype, device=inputs.device)
    start, count = adjacency.crow[:-1][nodes].long(), adjacency.crow.diff()[nodes].long()
    begin = torch.cumsum(count, 0) - count
    entry = torch.arange(int(count.sum()), device=inputs.device) + (start - begin).repeat_interleave(count)
    row = torch.arange(len(nodes), dtype=place.dtype, device=inputs.device).repeat_interleave(count)
    col = place[adjacency.col[entry]]
    inside = (col >= 0) & (col != row)
    weight = None if adjacency.weight is None else adjacency.weight[entry][inside]
    x = inputs.x
    features = sparse_features(take_rows(x.matrix, nodes)) if isinstance(x, SparseFeatures) else x[nodes]
    return Inputs(features, build_adjacency(torch.stack([row[inside], col[inside]]), len(nodes), weight))


@torch.no_grad()
def read_everyone(stage: StageOne, inputs: Inputs, core: Tensor | None = None) -> PseudoLabels:
    """Pseudo-labels of the whole graph: found on a sample of its nodes, then all are assigned, some rows at a time.

    Args:
        stage: where stage I stands.
        inputs: the whole graph.
        core: which nodes are assigned, bool [N]; the others carry no weight. By default all.
    """
    embedding = embed(stage, inputs)
    assigned = torch.arange(len(embedding), device=inputs.device) if core is None else core.nonzero().flatten()
    drawn = torch.randperm(len(assigned), generator=torch.Generator().manual_seed(0))[:SAMPLE].sort().values
    sample = embedding[assigned[drawn.to(inputs.device)]]
    found = read_pseudo_labels(stage, sample)
    potential = balance(stage, sample, found.vectors)
    weights = torch.zeros(len(embedding), len(found.vectors), device=inputs.device)
    counts, residual = torch.zeros_like(found.counts), torch.zeros((), device=inputs.device)
    for rows in assigned.split(ROWS):
        logits = embedding[rows] @ found.vectors.t() / stage.settings.epsilon + potential
        plan = torch.softmax(logits, dim=1)
        hard = plan.argmax(dim=1)
        counts += torch.bincount(hard, minlength=len(counts))
        residual += (embedding[rows] - found.vectors[hard]).pow(2).sum()
        weights[rows] = plan
    mass = weights.sum(0)
    weights /= mass
    vectors = unit_blocks(weights.t() @ embedding, stage.blocks)
    centred = len(assigned) - len(assigned) * embedding[assigned].mean(0).pow(2).sum()  # rows have unit length
    return replace(
        found, vectors=vectors, weights=weights, counts=counts, mass=mass, explained=1 - float(residual / centred)
    )
