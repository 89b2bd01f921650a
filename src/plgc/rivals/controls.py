"""Embeddings that no condensation has touched: the two controls, and the encoder a condensation came from.

Each has what a rebuilt :class:`plgc.Backbone` has (``prepare``, ``embed``, ``parts``), so every task and head takes
them alike. The controls have learned nothing: a method has to beat both. ``ssl`` is stage I by itself, frozen before
anything is condensed: what condensation loses, or gains, is the difference to it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.downstream.backbone import propagated_features
from plgc.downstream.embedder import Embedder
from plgc.graphs.load import load_graph, unlabelled
from plgc.method import settings as config
from plgc.method.alternate import alternate
from plgc.method.batches import TrainingGraph
from plgc.method.condense import resolve_count
from plgc.method.encoder import GNN
from plgc.method.resume import Run
from plgc.method.stage_one import StageOne, embed
from plgc.runtime.progress import Progress, silent
from plgc.sparse.inputs import Inputs, prepare, resolve_scaling

CONTROL_WIDTH = 512


class _Reference(Embedder):
    """Features of so many columns, scaled row by row as a condensed graph's were."""

    def __init__(self, num_features: int, scaling: str, device: str):
        self.num_features, self.scaling, self._device = num_features, scaling, device

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return torch.device(self._device)


class PropagatedFeatures(_Reference):
    """The control ``propagated_features``: Â²X."""

    def __init__(self, num_features: int, scaling: str, device: str = "cpu"):
        super().__init__(num_features, scaling, device)
        self.parts = (num_features,)

    def embed(self, graph: Inputs) -> Tensor:
        """Â²X of every node."""
        return propagated_features(graph)


class RandomEncoder(_Reference):
    """The control ``random_encoder``: a GNN with random weights."""

    def __init__(self, num_features: int, scaling: str, kind: str = "gcn", seed: int = 0, device: str = "cpu"):
        super().__init__(num_features, scaling, device)
        generator = torch.Generator().manual_seed(seed)
        self.gnn = GNN(kind, self.num_features, CONTROL_WIDTH, CONTROL_WIDTH, generator=generator).to(device)
        self.parts = (CONTROL_WIDTH,)

    @torch.no_grad()
    def embed(self, graph: Inputs) -> Tensor:
        """What the untrained GNN makes of every node."""
        return self.gnn(graph.x, graph.adjacency)


class StageOneEncoder(_Reference):
    """The frozen encoder of stage I, with the same skip path as a backbone rebuilt from its condensed graph."""

    def __init__(self, num_features: int, scaling: str, stage: StageOne, skip: bool, device: str = "cpu"):
        super().__init__(num_features, scaling, device)
        self.stage, self.skip = stage, skip
        self.parts = (sum(stage.blocks), num_features) if skip else (sum(stage.blocks),)

    @torch.no_grad()
    def embed(self, graph: Inputs) -> Tensor:
        """Z of every node, beside Â²X."""
        learned = embed(self.stage, graph)
        return torch.cat([learned, propagated_features(graph)], dim=1) if self.skip else learned


def train_ssl(
    graph: Data,
    *,
    nodes: int,
    seed: int = 0,
    preset: str = "default",
    device: str = "cpu",
    progress: Progress | None = None,
) -> StageOneEncoder:
    """Train stage I as a condensation to ``nodes`` would, and keep its encoder. Labels are not read."""
    settings = config.preset(preset)
    bare = load_graph(unlabelled(graph))
    assert bare.x is not None
    assert bare.num_nodes is not None
    count = resolve_count(bare.num_nodes, None, nodes)
    scaling = resolve_scaling(bare.x, settings.scaling)
    inputs = prepare(bare, scaling, device)
    run = Run(settings.pseudo_labels.max_rounds, progress or silent)
    made = alternate(TrainingGraph(inputs), count, settings, seed, run, stage_two=False)
    return StageOneEncoder(inputs.num_features, scaling, made.stage, preset != "paper", device)
