"""A graph on disk as stage I computes with it, and which graphs are condensed in this way."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from plgc.graphs.bare import BareGraph
from plgc.method.encoder import EDGE_FREE
from plgc.method.settings import CondenseSettings
from plgc.runtime.mapped import is_mapped
from plgc.runtime.options import Compute
from plgc.sparse.features import StoredFeatures, row_norms
from plgc.sparse.inputs import NORMS, check_magnitude
from plgc.sparse.on_disk import StoredAdjacency, stored_adjacency

ENCODERS = ("gcn", EDGE_FREE)  # kinds that embed all nodes layer by layer


@dataclass(frozen=True)
class StoredInputs:
    """Features and Â of a graph on disk, its nodes in their own order; read as they are needed."""

    x: StoredFeatures
    adjacency: StoredAdjacency

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.adjacency.num_nodes

    @property
    def num_entries(self) -> int:
        """Entries of A + I."""
        return self.adjacency.num_entries

    @property
    def num_features(self) -> int:
        """f."""
        return self.x.shape[1]

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return torch.device("cpu")


def why_in_memory(graph: BareGraph, settings: CondenseSettings, compute: Compute, stands_in: bool) -> str | None:
    """Why a graph with mapped edges takes them into memory, for messages; "" where its edges are not mapped.

    None: it is condensed from disk. That is so for every graph with mapped edges and a memory limit, on a CPU, unless
    what is asked for needs the weights of all nodes at once.
    """
    if not is_mapped(graph.edge_index) or compute.budget is None or torch.device(compute.device).type != "cpu":
        return ""
    kinds = sorted({branch.kind for branch in settings.branches} - set(ENCODERS))
    reasons = {
        "private (--private)": settings.private,
        "max_share (--max-share)": settings.max_share < 1,
        "only_new (--only-new)": stands_in,
        f"an encoder of kind {', '.join(kinds)}": bool(kinds),
        "sparse features": graph.x.layout != torch.strided,
    }
    return ", ".join(name for name, found in reasons.items() if found) or None


def stored_inputs(graph: BareGraph, scaling: str) -> StoredInputs:
    """Scale the features, where that is asked for, and find where the edges of every node are: a pass over each."""
    if scaling == "none":
        check_magnitude(graph.x)
    norm: Tensor | None = None if scaling == "none" else row_norms(graph.x, NORMS[scaling])
    adjacency = stored_adjacency(graph.edge_index, graph.num_nodes, graph.edge_weight)
    return StoredInputs(StoredFeatures(graph.x, norm), adjacency)
