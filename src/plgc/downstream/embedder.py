"""What tasks and heads need of a frozen model: prepared inputs, embeddings, and the parts of an embedding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import overload

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from plgc.downstream.stored_embedding import StoredEmbedding
from plgc.graphs.width import check_width, feature_width
from plgc.method.encoder import GNN
from plgc.runtime.errors import SettingError
from plgc.sparse.inputs import Inputs
from plgc.sparse.prepared import PreparedGraphs
from plgc.sparse.stored_inputs import StoredGraphs, StoredInputs

# What an embedding can consist of, and whether it depends on the edges.
PARTS = {
    "learned": True,  # the output of a GNN
    "learned_plain": False,  # the output of a network that sees every node by itself
    "x": False,  # X
    "propagated_1": True,  # ÂX
    "propagated_2": True,  # Â²X
}

Embedding = Tensor | StoredEmbedding  # [N, Σ parts], in memory or on disk

# Class probabilities [N, C] from an embedding [N, d], labelled nodes [L], their classes [L], and C.
OwnHead = Callable[[Tensor, Tensor, Tensor, int], Tensor]


class Embedder:
    """A frozen model that embeds graphs: a rebuilt backbone, the hidden layer of a classifier, or a control.

    Attributes:
        num_features: f, the number of features per node of the graphs that it takes.
        scaling: row scaling that it applies to a graph's features.
        parts: the embedding's parts, which stand side by side in its columns: the width of each by its name, one of
            :data:`PARTS`. Every head centres an embedding and scales each part by itself (:func:`unit_parts`).
        gnn: the frozen GNN.
        uses_edges: False for an embedding of the features alone: the head is then given no Â either, and what it
            predicts does not depend on the edges.
        own_head: the head that the method's authors train; None where there is ours alone.
    """

    num_features: int
    scaling: str
    parts: Mapping[str, int]
    gnn: GNN
    uses_edges: bool = True
    own_head: OwnHead | None = None

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.gnn.parameters()).device

    @overload
    def prepare(self, graph: Data, prepared: PreparedGraphs | None = None) -> Inputs: ...

    @overload
    def prepare(self, graph: Data, prepared: StoredGraphs) -> StoredInputs: ...

    @overload
    def prepare(self, graph: Data, prepared: PreparedGraphs | StoredGraphs | None) -> Inputs | StoredInputs: ...

    def prepare(self, graph: Data, prepared: PreparedGraphs | StoredGraphs | None = None) -> Inputs | StoredInputs:
        """Scale a graph's features and build Â, or take both from a cache, which may be one of graphs on disk.

        Raises:
            GraphError: the graph has another number of features.
        """
        check_width("this model's input", self.num_features, "the graph", feature_width(graph))
        if isinstance(prepared, StoredGraphs):
            return prepared.inputs(graph, self.scaling)
        return (prepared or PreparedGraphs()).inputs(graph, self.scaling, self.device)

    def embed(self, graph: Inputs) -> Tensor:
        """The embedding of every node, [N, Σ parts]."""
        raise NotImplementedError

    def embed_stored(self, graph: StoredInputs) -> StoredEmbedding:
        """The embedding of every node of a graph on disk.

        Raises:
            SettingError: it cannot be computed from disk.
        """
        raise SettingError(
            f"a {type(self).__name__} is not computed from disk: leave the memory limit out, or use a backbone that "
            "was rebuilt from files of plgc"
        )

    def embed_either(self, graph: Inputs | StoredInputs) -> Embedding:
        """The embedding of every node of a graph in memory or on disk."""
        return self.embed_stored(graph) if isinstance(graph, StoredInputs) else self.embed(graph)


def unit_parts(embedding: Tensor, mean: Tensor, parts: Mapping[str, int]) -> Tensor:
    """Centre an embedding and scale every part of it, then the whole, to unit length: what heads are trained on."""
    pieces = (embedding - mean).split(list(parts.values()), dim=1)
    return torch.cat([F.normalize(piece, dim=1) for piece in pieces], dim=1) / len(parts) ** 0.5
