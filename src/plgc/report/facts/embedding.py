"""Nodes and synthetic nodes in one embedding, by the model that is rebuilt from the files.

Every node belongs to its nearest synthetic node: by pseudo-label where there are pseudo-labels (as in
:mod:`plgc.evaluation.theory`), else by embedding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.combine import put_together
from plgc.downstream.embedder import Embedder
from plgc.downstream.tasks.classifier import condensed_adjacency, train_on_condensed
from plgc.evaluation.theory import nearest
from plgc.report.facts.files import gives_backbone
from plgc.report.facts.rebuilt import Rebuilt
from plgc.rivals.methods import METHODS, load

ROWS = 16_384  # nodes compared with all synthetic nodes at a time


@dataclass(frozen=True)
class Embedding:
    """Nodes and synthetic nodes in one space, and the synthetic node that each node belongs to; on the CPU."""

    nodes: Tensor
    synthetic: Tensor
    cluster: Tensor


def embed(condensed: Sequence[CondensedGraph], rebuilt: Rebuilt) -> Embedding | None:
    """Embed with the model rebuilt from the files; None where no model is rebuilt from all of them together."""
    assert rebuilt.graph is not None
    graph, seed, device = rebuilt.graph.data, rebuilt.options.seed, rebuilt.options.device
    first, made_by = condensed[0], METHODS.get(condensed[0].method)
    own = None if made_by is None or len(condensed) > 1 else made_by.rebuild
    if own is not None and first.pseudo_labels is not None:
        model = load(own)(first, seed=seed, device=device)
        return _by_gnn(model, model.gnn, first, graph, F.normalize(first.pseudo_labels, dim=1))
    if all(map(gives_backbone, condensed)):
        return _by_backbone(condensed, rebuilt)
    if all(part.labels is not None for part in condensed):
        whole = put_together(condensed)
        model = train_on_condensed(whole, seed=seed, device=device)
        return _by_gnn(model, model.gnn.body, whole, graph)
    return None


@torch.no_grad()
def _by_gnn(
    model: Embedder, gnn: Callable[..., Any], condensed: CondensedGraph, graph: Data, centres: Tensor | None = None
) -> Embedding:
    """By a GNN trained on (X', A'), at unit length; nodes go to the nearest centre, or synthetic node."""
    adjacency = condensed_adjacency(condensed, str(model.device))
    nodes = F.normalize(model.embed(model.prepare(graph)).cpu(), dim=1)
    synthetic = F.normalize(gnn(condensed.features.to(model.device), adjacency).cpu(), dim=1)
    return Embedding(nodes, synthetic, assign(nodes, synthetic if centres is None else centres))


def _by_backbone(condensed: Sequence[CondensedGraph], rebuilt: Rebuilt) -> Embedding:
    backbone, nodes = rebuilt.backbone(condensed), rebuilt.nodes(condensed)
    synthetic = torch.cat([backbone.embed_condensed(part).cpu() for part in condensed])
    centres = condensed[0].pseudo_labels if len(condensed) == 1 else None
    return Embedding(nodes, synthetic, assign(nodes, synthetic if centres is None else centres))


def assign(nodes: Tensor, centres: Tensor) -> Tensor:
    """The nearest centre of every node, some rows at a time: all distances at once would not fit for large graphs."""
    return torch.cat([nearest(rows.double(), centres.double()) for rows in nodes.split(ROWS)])
