"""The graph that stage I trains on: the whole of it, or mini-batches where its activations would not fit into memory.

Nodes are cut into small blocks, slices of an order in which neighbours are close (:mod:`plgc.sparse.locality`). Every
step draws some of the blocks, adds as many neighbours, those with most edges into the blocks first, and trains on the
subgraph that all of these induce. The losses see the nodes of the blocks, which keep most of their edges; the
neighbours only pass messages. At the end the encoders embed the whole graph once, without gradients, and all nodes are
assigned in chunks of rows, with the balance found on a sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from plgc.graphs.features import row_entries
from plgc.method.settings import Branch, CondenseSettings
from plgc.method.sinkhorn import sinkhorn
from plgc.method.stage_one import EMPTY, SAMPLE, PseudoLabels, StageOne, embed, read_pseudo_labels, unit_blocks
from plgc.runtime.errors import SettingError
from plgc.runtime.options import UNITS
from plgc.sparse.adjacency import Adjacency, build_adjacency
from plgc.sparse.features import SparseFeatures, StoredFeatures, feature_rows
from plgc.sparse.inputs import Inputs
from plgc.sparse.locality import local_order
from plgc.sparse.on_disk import StoredAdjacency
from plgc.sparse.product import index_dtype
from plgc.sparse.stored_inputs import StoredInputs

BLOCK = 256  # nodes
LARGEST = 16_384  # nodes of a batch: more cost time and teach little
SMALLEST = 1_024
WHOLE = 32_768  # nodes up to which a graph is trained on whole, on a CPU with a memory limit
ROWS = 16_384  # rows that are assigned at a time
PROGRAM = 512 << 20  # bytes in use before a graph is loaded


@dataclass(frozen=True)
class TrainingGraph:
    """What stage I trains on and reads pseudo-labels from.

    Attributes:
        inputs: the whole graph.
        core: which nodes are assigned, bool [N]; the others are a halo. None: all.
        batch_nodes: size of a mini-batch; None to train on the whole graph.
        masses: how many nodes each row stands for, [N], where some stand for nodes that are no longer at hand. None:
            one each.
    """

    inputs: Inputs
    core: Tensor | None = None
    batch_nodes: int | None = None
    masses: Tensor | None = None

    @cached_property
    def order(self) -> Tensor:
        """The nodes in an order in which neighbours are close; large graphs have been put into it already."""
        adjacency, nodes = self.inputs.adjacency, self.inputs.num_nodes
        if self.inputs.order is not None:
            return torch.arange(nodes, device=self.inputs.device)
        return local_order(torch.stack([adjacency.row, adjacency.col]), nodes).to(self.inputs.device)

    @property
    def sampled(self) -> bool:
        """Whether a round's pseudo-labels are found on a sample of the nodes."""
        return self.batch_nodes is not None or self.inputs.num_nodes > SAMPLE

    def next_batch(self, generator: torch.Generator) -> Inputs:
        """The graph of the next epoch."""
        if self.batch_nodes is None:
            return self.inputs
        return draw_batch(self.inputs, self.order, self.batch_nodes, generator)

    @cached_property
    def reference(self) -> Inputs:
        """The graph that a round's pseudo-labels are read from: the whole graph, or always the same batch."""
        return self.next_batch(torch.Generator().manual_seed(0))

    def round_labels(self, stage: StageOne) -> PseudoLabels:
        """The pseudo-labels after a round: of the whole graph, or of a sample of a large one."""
        embedding = embed(stage, self.reference)
        core = self.core if self.batch_nodes is None else None
        if self.sampled:
            rows = embedding if core is None else embedding[core]
            embedding, core = rows[:: -(-len(rows) // SAMPLE)], None
        masses = None if self.sampled else self.masses
        return read_pseudo_labels(embedding, stage.prototypes, stage.blocks, stage.settings, core, masses)

    @torch.no_grad()
    def all_labels(self, stage: StageOne) -> PseudoLabels:
        """The pseudo-labels of the whole graph: found on a sample of its nodes, then all nodes are assigned."""
        embedding, device = embed(stage, self.inputs), self.inputs.device
        own = torch.arange(len(embedding), device=device) if self.core is None else self.core.nonzero().flatten()
        drawn, masses = self._draw(own)
        sample = embedding[drawn]
        found = read_pseudo_labels(sample, stage.prototypes, stage.blocks, stage.settings, masses=masses)
        rules = stage.settings.sinkhorn_rules()
        potential = sinkhorn(sample @ found.vectors.t(), **rules, masses=masses).potential
        weights = torch.zeros(len(embedding), len(found.vectors), device=device)
        counts = torch.zeros(len(found.counts), dtype=torch.float64, device=device)
        residual = torch.zeros((), device=device)
        for rows in own.split(ROWS):
            logits = embedding[rows] @ found.vectors.t() / stage.settings.epsilon + potential
            plan = torch.softmax(logits, dim=1)
            hard = plan.argmax(dim=1)
            off = (embedding[rows] - found.vectors[hard]).pow(2)
            if self.masses is not None:
                plan, off = plan * self.masses[rows, None], off * self.masses[rows, None]
            counts += torch.bincount(hard, self._mass(rows), minlength=len(counts))
            residual += off.sum()
            weights[rows] = plan
        mass = weights.sum(0)
        weights /= mass.clamp(min=EMPTY)
        means = unit_blocks(weights.t() @ embedding, stage.blocks)
        vectors = torch.where(mass[:, None] > EMPTY, means, found.vectors)
        if self.masses is None:
            total, centre = len(own), embedding[own].mean(0)
        else:
            total = float(self.masses[own].sum())
            centre = self.masses[own] @ embedding[own] / total
        centred = total - total * centre.pow(2).sum()  # rows have unit length
        return PseudoLabels(vectors, weights, counts.round().long(), 1 - float(residual / centred), mass)

    def _draw(self, own: Tensor) -> tuple[Tensor, Tensor | None]:
        """A sample of the rows that are assigned, and how many nodes each stands for; heavy rows are all in it."""
        generator = torch.Generator().manual_seed(0)
        if self.masses is None:
            drawn = torch.randperm(len(own), generator=generator)[:SAMPLE].sort().values
            return own[drawn.to(own.device)], None
        heavy = self.masses[own] > 1
        light = own[~heavy]
        drawn = torch.randperm(len(light), generator=generator)[:SAMPLE].sort().values.to(own.device)
        masses = torch.cat(
            [self.masses.new_full((len(drawn),), len(light) / max(1, len(drawn))), self.masses[own[heavy]]]
        )
        return torch.cat([light[drawn], own[heavy]]), masses

    def _mass(self, rows: Tensor) -> Tensor:
        return torch.ones(len(rows), device=rows.device) if self.masses is None else self.masses[rows]


def draw_batch(inputs: Inputs | StoredInputs, order: Tensor, size: int, generator: torch.Generator) -> Inputs:
    """A subgraph of about ``size`` nodes: half are randomly drawn blocks, slices of ``order``, half their neighbours.

    The losses see the blocks alone: the neighbours pass messages, but lack many of their own edges.
    """
    blocks = -(-inputs.num_nodes // BLOCK)
    drawn = torch.randperm(blocks, generator=generator)[: max(1, size // 2 // BLOCK)]
    chosen = (drawn[:, None] * BLOCK + torch.arange(BLOCK)).flatten()
    chosen = order[chosen[chosen < inputs.num_nodes].to(inputs.device)]
    nodes = torch.cat([chosen, neighbours(inputs, chosen, size - len(chosen))]).sort().values
    own = torch.zeros(inputs.num_nodes, dtype=torch.bool, device=inputs.device)
    own[chosen] = True
    return replace(take_nodes(inputs, nodes), loss_rows=own[nodes].nonzero().flatten())


def neighbours(inputs: Inputs | StoredInputs, nodes: Tensor, most: int) -> Tensor:
    """At most ``most`` neighbours of ``nodes``: those with most edges to them, divided by the root of their degree."""
    _, col, _ = _entries(inputs.adjacency, nodes)
    edges = torch.bincount(col, minlength=inputs.num_nodes)
    edges[nodes] = 0
    around = edges.nonzero().flatten()
    closeness = edges[around] / _sizes(inputs.adjacency)[around].sqrt()
    return around[torch.sort(closeness, descending=True, stable=True).indices[:most]]


def take_nodes(inputs: Inputs | StoredInputs, nodes: Tensor) -> Inputs:
    """The subgraph that ``nodes`` (ascending) induce, with Â of its own."""
    starts, col, weight = _entries(inputs.adjacency, nodes)
    kind = index_dtype(inputs.num_nodes)
    place = torch.full((inputs.num_nodes,), -1, dtype=kind, device=inputs.device)
    place[nodes] = torch.arange(len(nodes), dtype=kind, device=inputs.device)
    row = torch.arange(len(nodes), dtype=kind, device=inputs.device).repeat_interleave(starts.diff())
    col = place[col]
    inside = (col >= 0) & (col != row)
    weight = None if weight is None else weight[inside]
    x = inputs.x.take(nodes) if isinstance(inputs, StoredInputs) else feature_rows(inputs.x, nodes)
    return Inputs(x, build_adjacency(torch.stack([row[inside], col[inside]]), len(nodes), weight))


def _entries(adjacency: Adjacency | StoredAdjacency, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Where the entries of each of these nodes begin, their columns and weights; self-loops may be among them."""
    if isinstance(adjacency, StoredAdjacency):
        return adjacency.neighbours(nodes)
    starts, entry = row_entries(adjacency.crow, nodes)
    return starts, adjacency.col[entry], None if adjacency.weight is None else adjacency.weight[entry]


def _sizes(adjacency: Adjacency | StoredAdjacency) -> Tensor:
    """How many entries of A + I every node has, [N]."""
    return adjacency.starts.diff() + 1 if isinstance(adjacency, StoredAdjacency) else adjacency.crow.diff()


def batch_size(inputs: Inputs, count: int, settings: CondenseSettings, memory: int) -> int | None:
    """The largest batch with which condensing stays within ``memory`` bytes; None where the whole graph fits.

    On a CPU, where every node of a step costs time, a large graph is always trained on in batches.

    Raises:
        SettingError: not even the smallest batch fits.
    """
    sizes = inputs.num_nodes, inputs.num_features, _graph_bytes(inputs)
    return batch_for(*sizes, count, settings, memory, on_cpu=inputs.device.type == "cpu")


def batch_for(
    nodes: int,
    features: int,
    graph_bytes: int,
    count: int,
    settings: CondenseSettings,
    memory: int,
    *,
    on_cpu: bool = True,
) -> int | None:
    """The same for a graph of so many nodes and features, whose features and Â take so many bytes."""
    branches = settings.branches
    step = step_bytes(branches, features, count, settings)
    graph = PROGRAM + graph_bytes
    if graph + nodes * step <= memory and not (on_cpu and nodes > WHOLE):
        return None
    width, hidden = sum(branch.width for branch in branches), max(branch.hidden for branch in branches)
    ending = graph + 4 * nodes * (2 * count + width + 2 * hidden)  # assignment and embedding of all nodes
    step += 4 * (5 * count + width + 2 * hidden)  # reading pseudo-labels: this memory is not freed at once
    fits = (memory - graph) // step // BLOCK * BLOCK
    if ending > memory or fits < SMALLEST:
        raise too_little(memory, max(ending, graph + SMALLEST * step))
    return int(min(fits, LARGEST))


def too_little(memory: int, least: int) -> SettingError:
    """The error for a memory limit below the least that suffices."""
    return SettingError(
        f"memory is {memory / UNITS['GiB']:.2f} GiB: this graph needs at least {least / UNITS['GiB'] + 0.005:.2f} GiB, "
        f"even in batches of {SMALLEST} nodes: allow that much, ask for fewer nodes, or condense it in parts"
    )


def step_bytes(branches: tuple[Branch, ...], features: int, count: int, settings: CondenseSettings) -> int:
    """Bytes that a node takes in a step: activations of two views with their gradients, and the assignment."""
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
