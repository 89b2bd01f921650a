"""The downstream model of CTGC (:mod:`plgc.rivals.ctgc.condense`): a GNN on (X', A') that learns to find each node's
centroid. A linear head on its output does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.method.encoder import GNN
from plgc.rivals.ctgc.losses import match_loss
from plgc.rivals.ctgc.settings import CTGCSettings
from plgc.runtime.errors import ArtifactError, GraphError
from plgc.sparse.adjacency import Adjacency, build_adjacency
from plgc.sparse.inputs import Inputs, prepare


@dataclass(frozen=True)
class RebuiltCTGC:
    """A frozen GNN that has learned to find the centroids of a condensed graph; its output is the embedding."""

    gnn: GNN
    num_features: int
    width: int
    scaling: str

    @property
    def parts(self) -> tuple[int, ...]:
        """One part: what was learned."""
        return (self.width,)

    def prepare(self, graph: Data) -> Inputs:
        """Scale a graph's features as the condensed graph's were, and build Â; refuses another feature width."""
        width = 0 if graph.x is None else graph.x.shape[1]
        if width != self.num_features:
            raise GraphError(
                f"this model was rebuilt from {self.num_features} features per node, the graph has {width}: "
                "use the graph that was condensed, or one with the same features"
            )
        return prepare(graph, self.scaling, next(self.gnn.parameters()).device)

    @torch.no_grad()
    def embed(self, graph: Inputs) -> Tensor:
        """The GNN's output for every node, [N, d]."""
        return self.gnn(graph.x, graph.adjacency)

    @torch.no_grad()
    def embed_condensed(self, condensed: CondensedGraph) -> Tensor:
        """The GNN's output for every synthetic node, [K, d]."""
        device = next(self.gnn.parameters()).device
        return self.gnn(condensed.features.to(device), condensed_adjacency(condensed, device))


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
    return RebuiltCTGC(gnn, condensed.num_features, width, condensed.scaling)


def condensed_adjacency(condensed: CondensedGraph, device: str | torch.device) -> Adjacency:
    """A' of a condensed graph, normalised."""
    assert condensed.edge_index is not None
    assert condensed.edge_weight is not None
    return build_adjacency(condensed.edge_index.to(device), condensed.num_nodes, condensed.edge_weight.to(device))
