"""The downstream model of CTGC (:mod:`plgc.rivals.ctgc.condense`): a GNN on (X', A') that learns to find each node's
centroid. A linear head on its output does the rest, the authors' own (:mod:`plgc.rivals.ctgc.probe`) or ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.embedder import Embedder, OwnHead
from plgc.downstream.tasks.classifier import condensed_adjacency
from plgc.method.encoder import GNN
from plgc.rivals.ctgc.losses import match_loss
from plgc.rivals.ctgc.probe import linear_probe
from plgc.rivals.ctgc.settings import CTGCSettings
from plgc.runtime.errors import ArtifactError
from plgc.sparse.inputs import Inputs


@dataclass(frozen=True)
class RebuiltCTGC(Embedder):
    """A frozen GNN that has learned to find the centroids of a condensed graph; its output is the embedding."""

    gnn: GNN
    num_features: int
    scaling: str
    parts: Mapping[str, int]
    own_head: OwnHead | None

    @torch.no_grad()
    def embed(self, graph: Inputs) -> Tensor:
        """The GNN's output for every node, [N, d]."""
        return self.gnn(graph.x, graph.adjacency)


def rebuild_ctgc(condensed: CondensedGraph, kind: str = "gcn", seed: int = 0, device: str = "cpu") -> RebuiltCTGC:
    """Train a GNN on (X', A') to tell every node's centroid from the others, and freeze it."""
    if condensed.method != "ctgc" or condensed.pseudo_labels is None or condensed.edge_index is None:
        raise ArtifactError(
            f"this condensed graph was made by {condensed.method}: only one made by ctgc can be rebuilt so"
        )
    known = {name: value for name, value in condensed.settings.items() if name in CTGCSettings.__dataclass_fields__}
    settings = CTGCSettings(**known)
    features, centroids = condensed.features.to(device), condensed.pseudo_labels.to(device)
    adjacency = condensed_adjacency(condensed, device)
    generator = torch.Generator().manual_seed(seed)
    width = centroids.shape[1]
    gnn = GNN(kind, condensed.num_features, settings.width, width, dropout=settings.dropout, generator=generator)
    gnn = gnn.to(device).train()
    optimizer = torch.optim.Adam(
        gnn.parameters(), lr=settings.rebuild_rate, weight_decay=settings.weight_decay, fused=True
    )
    with torch.random.fork_rng(devices=[device] if torch.device(device).type == "cuda" else []):
        torch.manual_seed(seed)  # dropout draws from torch's own generator
        for epoch in range(settings.rebuild_epochs):
            if epoch == settings.rebuild_epochs // 2:
                optimizer.param_groups[0]["lr"] *= 0.1
            loss = match_loss(gnn(features, adjacency), centroids, "contrast")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    gnn.eval().requires_grad_(False)
    head = partial(linear_probe, seed=seed)
    return RebuiltCTGC(gnn, condensed.num_features, condensed.scaling, {"learned": width}, head)
