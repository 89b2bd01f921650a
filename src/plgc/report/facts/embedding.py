"""Nodes and synthetic nodes in one embedding, by the model that is rebuilt from the files.

Every node belongs to its nearest synthetic node: by pseudo-label where there are pseudo-labels (as in
:mod:`plgc.evaluation.theory`), else by embedding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.backbone import BackboneSettings, reconstruct
from plgc.downstream.combine import put_together
from plgc.downstream.tasks.classifier import train_on_condensed
from plgc.evaluation.theory import nearest
from plgc.report.facts.files import gives_backbone
from plgc.rivals.ctgc.condense import METHOD as CTGC
from plgc.rivals.ctgc.rebuild import condensed_adjacency, rebuild_ctgc
from plgc.sparse.adjacency import build_adjacency

ROWS = 16_384  # nodes compared with all synthetic nodes at a time


@dataclass(frozen=True)
class Embedding:
    """Nodes and synthetic nodes in one space, and the synthetic node that each node belongs to; on the CPU."""

    nodes: Tensor
    synthetic: Tensor
    cluster: Tensor


def embed(condensed: Sequence[CondensedGraph], graph: Data, seed: int = 0, device: str = "cpu") -> Embedding | None:
    """Embed with the model rebuilt from the files; None where no model is rebuilt from all of them together."""
    if len(condensed) == 1 and condensed[0].method == CTGC and condensed[0].pseudo_labels is not None:
        return _by_ctgc(condensed[0], condensed[0].pseudo_labels, graph, seed, device)
    if all(map(gives_backbone, condensed)):
        return _by_backbone(condensed, graph, seed, device)
    if all(part.labels is not None for part in condensed):
        return _by_classifier(condensed[0] if len(condensed) == 1 else put_together(condensed), graph, seed, device)
    return None


def _by_backbone(condensed: Sequence[CondensedGraph], graph: Data, seed: int, device: str) -> Embedding:
    settings, combine = BackboneSettings(skip=False), "heads" if len(condensed) > 1 else None
    backbone = reconstruct(condensed, seed=seed, device=device, settings=settings, combine=combine)
    with torch.no_grad():
        nodes = backbone.embed(graph).cpu()
        synthetic = torch.cat([backbone.embed_condensed(part).cpu() for part in condensed])
    centres = condensed[0].pseudo_labels if len(condensed) == 1 else None
    return Embedding(nodes, synthetic, assign(nodes, synthetic if centres is None else centres))


def _by_ctgc(condensed: CondensedGraph, centres: Tensor, graph: Data, seed: int, device: str) -> Embedding:
    rebuilt = rebuild_ctgc(condensed, seed=seed, device=device)
    with torch.no_grad():
        nodes = F.normalize(rebuilt.embed(rebuilt.prepare(graph)).cpu(), dim=1)
        hidden = rebuilt.gnn(condensed.features.to(device), condensed_adjacency(condensed, device))
    return Embedding(nodes, F.normalize(hidden.cpu(), dim=1), assign(nodes, F.normalize(centres, dim=1)))


def _by_classifier(condensed: CondensedGraph, graph: Data, seed: int, device: str) -> Embedding:
    model = train_on_condensed(condensed, seed=seed, device=device)
    adjacency = None
    if condensed.edge_index is not None:
        weight = None if condensed.edge_weight is None else condensed.edge_weight.to(device)
        adjacency = build_adjacency(condensed.edge_index.to(device), condensed.num_nodes, weight)
    with torch.no_grad():
        hidden = model.gnn.body(condensed.features.to(device), adjacency)
        assert isinstance(hidden, Tensor)
        nodes = F.normalize(model.embed(model.prepare(graph)).cpu(), dim=1)
    synthetic = F.normalize(hidden.cpu(), dim=1)
    return Embedding(nodes, synthetic, assign(nodes, synthetic))


def assign(nodes: Tensor, centres: Tensor) -> Tensor:
    """The nearest centre of every node, some rows at a time: all distances at once would not fit for large graphs."""
    return torch.cat([nearest(rows.double(), centres.double()) for rows in nodes.split(ROWS)])
