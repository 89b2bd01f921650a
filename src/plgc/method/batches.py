"""Stage I on a piece of the graph at a time, for graphs whose activations would not fit into memory.

Nodes are cut into small parts, slices of an order in which neighbours are close (:mod:`plgc.sparse.locality`). Every step
draws some of the parts anew, adds as many nodes around them, those with most edges to them first, and trains on the
subgraph that all of these induce. The losses see the nodes of the parts, which keep most of their edges; those around
them pass messages. The draw comes from the stage's own generator, and there is nothing else to remember. In the end the
encoders see the whole graph once, without gradients, and the assignment of all nodes is computed some rows at a time,
with the balance found on a sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from plgc.method.settings import Branch, CondenseSettings
from plgc.method.stage_one import SAMPLE, PseudoLabels, StageOne, balance, embed, read_pseudo_labels, unit_blocks
from plgc.runtime.errors import SettingError
from plgc.sparse.adjacency import Features, SparseFeatures, build_adjacency, sparse_features
from plgc.sparse.inputs import Inputs, take_rows
from plgc.sparse.locality import local_order
from plgc.sparse.product import row_entries
from plgc.sparse.stored_features import StoredFeatures

PART = 256  # nodes
LARGEST = 16_384  # nodes a step: more cost time and teach little
SMALLEST = 1_024
WHOLE = 32_768  # nodes of a graph that a budget leaves whole where time counts: on a CPU, and for the model choice
ROWS = 16_384  # that are assigned at a time
PROGRAM = 512 << 20  # bytes that are taken before a graph comes
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

    On a CPU, where nodes in a step cost time, those of a large graph are always taken in batches.

    Raises:
        SettingError: not even the smallest batch fits.
    """
    nodes, ladder = inputs.num_nodes, [rung.branches for rung in settings.ladder]
    step = max(_step_bytes(branches, inputs.num_features, count, settings) for branches in ladder)
    graph = PROGRAM + _graph_bytes(inputs)
    in_batches = inputs.device.type == "cpu" and nodes > WHOLE
    if graph + nodes * step <= memory and not in_batches:
        return None
    width = max(sum(branch.width for branch in branches) for branches in ladder)
    hidden = max(branch.hidden for branches in ladder for branch in branches)
    ending = graph + 4 * nodes * (2 * count + width + 2 * hidden)  # the assignment of all nodes, and their embedding
    step += 4 * (5 * count + width + 2 * hidden)  # memory of the look at the pseudo-labels is not given back at once
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
    if isinstance(x, SparseFeatures):
        features = 16 * x.matrix.values().numel()
    else:
        features = x.memory if isinstance(x, StoredFeatures) else 4 * x.numel()
    return features + 24 * inputs.adjacency.col.numel()  # Â, and a masked view of it


@dataclass(frozen=True)
class Supply:
    """What stage I trains on and looks at: the whole graph, or batches of ``size`` nodes."""

    inputs: Inputs
    size: int | None = None

    @cached_property
    def order(self) -> Tensor:
        """The nodes in an order in which neighbours are close; large graphs have been put into it already."""
        adjacency, nodes = self.inputs.adjacency, self.inputs.num_nodes
        if self.inputs.order is not None:
            return torch.arange(nodes, device=self.inputs.device)
        return local_order(torch.stack([adjacency.row, adjacency.col]), nodes).to(self.inputs.device)

    @property
    def sampled(self) -> bool:
        """Whether pseudo-labels are found on some of the nodes, and only in the end on all."""
        return self.size is not None or self.inputs.num_nodes > SAMPLE

    @property
    def probe(self) -> Supply:
        """What the model choice is made on: the whole graph, unless it is large."""
        return Supply(self.inputs) if self.inputs.num_nodes <= WHOLE else self

    def step(self, generator: torch.Generator) -> Inputs:
        """The graph for the next step."""
        return self.inputs if self.size is None else draw_batch(self.inputs, self.order, self.size, generator)

    @cached_property
    def look(self) -> Inputs:
        """The graph that the pseudo-labels of a round are read from; with batches one of them, always the same."""
        if self.size is None:
            return self.inputs
        return draw_batch(self.inputs, self.order, self.size, torch.Generator().manual_seed(0))


def draw_batch(inputs: Inputs, order: Tensor, size: int, generator: torch.Generator) -> Inputs:
    """A subgraph of about ``size`` nodes: half are randomly drawn parts, slices of ``order``, half their neighbours.

    The losses see the former alone: neighbours pass messages, but lack many of their own.
    """
    parts = -(-inputs.num_nodes // PART)
    drawn = torch.randperm(parts, generator=generator)[: max(1, size // 2 // PART)]
    chosen = (drawn[:, None] * PART + torch.arange(PART)).flatten()
    chosen = order[chosen[chosen < inputs.num_nodes].to(inputs.device)]
    nodes = torch.cat([chosen, neighbours(inputs, chosen, size - len(chosen))]).sort().values
    own = torch.zeros(inputs.num_nodes, dtype=torch.bool, device=inputs.device)
    own[chosen] = True
    return replace(take_nodes(inputs, nodes), counted=own[nodes].nonzero().flatten())


def neighbours(inputs: Inputs, nodes: Tensor, most: int) -> Tensor:
    """At most so many nodes around ``nodes``: those with most edges to them, for their degree (its root)."""
    adjacency = inputs.adjacency
    _, entry = row_entries(adjacency.crow, nodes)
    edges = torch.bincount(adjacency.col[entry], minlength=inputs.num_nodes)
    edges[nodes] = 0
    around = edges.nonzero().flatten()
    closeness = edges[around] / adjacency.crow.diff()[around].sqrt()
    return around[torch.sort(closeness, descending=True, stable=True).indices[:most]]


def take_nodes(inputs: Inputs, nodes: Tensor) -> Inputs:
    """The subgraph that ``nodes`` (ascending) induce, with Â of its own."""
    adjacency = inputs.adjacency
    place = torch.full((inputs.num_nodes,), -1, dtype=adjacency.col.dtype, device=inputs.device)
    place[nodes] = torch.arange(len(nodes), dtype=place.dtype, device=inputs.device)
    starts, entry = row_entries(adjacency.crow, nodes)
    row = torch.arange(len(nodes), dtype=place.dtype, device=inputs.device).repeat_interleave(starts.diff())
    col = place[adjacency.col[entry]]
    inside = (col >= 0) & (col != row)
    weight = None if adjacency.weight is None else adjacency.weight[entry][inside]
    return Inputs(_rows(inputs.x, nodes), build_adjacency(torch.stack([row[inside], col[inside]]), len(nodes), weight))


def _rows(x: Features, nodes: Tensor) -> Features:
    if isinstance(x, SparseFeatures):
        return sparse_features(take_rows(x.matrix, nodes))
    return x.rows(nodes) if isinstance(x, StoredFeatures) else x[nodes]


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
