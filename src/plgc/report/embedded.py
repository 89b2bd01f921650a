"""Nodes and synthetic nodes in one space, by the model that is rebuilt from the files.

Every node belongs to the synthetic node it is nearest to: by pseudo-label where there are pseudo-labels (as in
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
from plgc.rivals.methods import METHODS, load
from plgc.sparse.adjacency import build_adjacency

ROWS = 16_384  # nodes compared with all synthetic nodes at a time


@dataclass(frozen=True)
class Embedded:
    """Nodes and synthetic nodes in one space, and which synthetic node each node belongs to."""

    nodes: Tensor
    synthetic: Tensor
    cluster: Tensor


@torch.no_grad()
def embed_all(condensed: Sequence[CondensedGraph], graph: Data, seed: int = 0, device: str = "cpu") -> Embedded | None:
    """Embed with what is rebuilt from the files: a backbone, the method's own model, or a classifier for labels.

    Only that is computed on the device: what comes back is on the CPU.
    """
    made_by = METHODS.get(condensed[0].method)
    rebuild = None if made_by is None or len(condensed) > 1 else made_by.rebuild
    if rebuild is not None and condensed[0].pseudo_labels is not None:
        with torch.enable_grad():
            rebuilt = load(rebuild)(condensed[0], seed=seed, device=device)
        nodes = F.normalize(rebuilt.embed(rebuilt.prepare(graph)).cpu(), dim=1)
        synthetic = F.normalize(rebuilt.embed_condensed(condensed[0]).cpu(), dim=1)
        return Embedded(nodes, synthetic, assign(nodes, F.normalize(condensed[0].pseudo_labels, dim=1)))
    if all(part.pseudo_labels is not None and part.edge_index is None for part in condensed):
        settings, how = BackboneSettings(skip=False), "heads" if len(condensed) > 1 else None
        with torch.enable_grad():
            backbone = reconstruct(condensed, seed=seed, device=device, settings=settings, combine=how)
        nodes = backbone.embed(graph).cpu()
        synthetic = torch.cat([backbone.embed_condensed(part).cpu() for part in condensed])
        centres = condensed[0].pseudo_labels if len(condensed) == 1 else None
        return Embedded(nodes, synthetic, assign(nodes, synthetic if centres is None else centres))
    if not all(part.labels is not None for part in condensed):
        return None
    whole = condensed[0] if len(condensed) == 1 else put_together(condensed)
    with torch.enable_grad():
        model = train_on_condensed(whole, seed=seed, device=device)
    adjacency = None
    if whole.edge_index is not None:
        weight = None if whole.edge_weight is None else whole.edge_weight.to(device)
        adjacency = build_adjacency(whole.edge_index.to(device), whole.num_nodes, weight)
    hidden = model.gnn.body(whole.features.to(device), adjacency)
    assert isinstance(hidden, Tensor)
    nodes = F.normalize(model.embed(model.prepare(graph)).cpu(), dim=1)
    synthetic = F.normalize(hidden.cpu(), dim=1)
    return Embedded(nodes, synthetic, assign(nodes, synthetic))


def assign(nodes: Tensor, centres: Tensor) -> Tensor:
    """The nearest centre of every node, some rows at a time: all distances at once would not fit for large graphs."""
    return torch.cat([nearest(rows.double(), centres.double()) for rows in nodes.split(ROWS)])
