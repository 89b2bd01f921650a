"""The graph that stage I trains on, where it lies on disk: mini-batches, and at last all nodes, are read from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from plgc.method.batches import draw_batch
from plgc.method.disk.labels import StreamedLabels, label_on_disk
from plgc.method.settings import SynthesisSettings
from plgc.method.stage_one import PseudoLabels, StageOne, embed, read_pseudo_labels
from plgc.method.stage_two import descend
from plgc.runtime.heap import trim
from plgc.sparse.inputs import Inputs
from plgc.sparse.stored_inputs import StoredInputs
from plgc.sparse.stored_order import stored_order


@dataclass(frozen=True)
class GraphOnDisk:
    """What :class:`plgc.method.batches.TrainingGraph` is for a graph in memory.

    Attributes:
        inputs: the whole graph.
        core: which nodes are assigned, bool [N]; the others are a halo. None: all.
        batch_nodes: size of a mini-batch.
    """

    inputs: StoredInputs
    core: Tensor | None
    batch_nodes: int

    sampled = True

    @cached_property
    def order(self) -> Tensor:
        """The nodes in an order in which neighbours are close."""
        adjacency = self.inputs.adjacency
        order = stored_order(adjacency.edge_index, adjacency.starts.numpy(), self.inputs.num_nodes)
        trim()
        return order

    def next_batch(self, generator: torch.Generator) -> Inputs:
        """The graph of the next epoch."""
        return draw_batch(self.inputs, self.order, self.batch_nodes, generator)

    def reporting(self, report: Callable[[str], None]) -> GraphOnDisk:
        """The same, which tells how far passes over all nodes are."""

        def progress(message: str, done: int, total: int) -> None:
            report(f"all nodes, {message}: {done / total:.0%}")

        return replace(self, inputs=replace(self.inputs, progress=progress))

    @cached_property
    def reference(self) -> Inputs:
        """The batch that a round's pseudo-labels are read from, always the same."""
        return self.next_batch(torch.Generator().manual_seed(0))

    def round_labels(self, stage: StageOne) -> PseudoLabels:
        """The pseudo-labels after a round, of a sample."""
        return read_pseudo_labels(embed(stage, self.reference), stage.prototypes, stage.blocks, stage.settings)

    def all_labels(self, stage: StageOne) -> StreamedLabels:
        """The pseudo-labels of the whole graph, and the start of X'."""
        return label_on_disk(stage, replace(self.inputs, kept={}, _propagated=[]), self.core)


def synthesise_on_disk(
    features: Tensor | None,
    stage: StageOne,
    graph: GraphOnDisk,
    labels: StreamedLabels,
    settings: SynthesisSettings,
) -> tuple[Tensor, list[float]]:
    """The same as :func:`plgc.method.stage_two.synthesise`."""
    if features is None and settings.start == "nodes":
        own = torch.arange(graph.inputs.num_nodes) if graph.core is None else graph.core.nonzero().flatten()
        chosen = torch.randperm(len(own), generator=stage.generator)[: len(labels.vectors)]
        features = graph.inputs.x.take(own[chosen])
    features = labels.features if features is None else features
    return descend(features, stage, labels.vectors, lambda: labels.moments, settings)
