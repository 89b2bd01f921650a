"""Three ways to score what a method has learned; its embedding is computed once for all of them.

A record has the metrics of each way under its own prefix:

- none: as the method's authors evaluate it. Ours: as shipped, our head on the whole embedding. A classifier: its own
  last layer. CTGC: its own logistic regression. For links nobody has a way of their own: our pair head on what was
  learned.
- ``learned_``: our head on what was learned, alone: for ours that is the file alone, for a classifier the last hidden
  layer.
- ``parts_``: our head on what was learned, with X, ÂX and Â²X beside it, as ours is shipped.

A way that would repeat another is left out. Controls have learned nothing, and have the first way only.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from plgc.downstream.backbone import BESIDE, beside_input
from plgc.downstream.embedder import Embedder
from plgc.downstream.stored_embedding import StoredEmbedding, stored_embedding
from plgc.downstream.tasks.classifier import Classifier
from plgc.sparse.inputs import Inputs
from plgc.sparse.stored_inputs import StoredInputs

Ways = dict[str, Embedder]  # by prefix


class KeptEmbedding(Embedder):
    """An embedder that keeps its embedding of the last graph; ``names`` are the parts it has, by default all."""

    def __init__(self, embedder: Embedder, names: Collection[str] | None = None) -> None:
        self.embedder, self.uses_edges = embedder, embedder.uses_edges
        self.num_features, self.scaling = embedder.num_features, embedder.scaling
        self.parts = {name: width for name, width in embedder.parts.items() if names is None or name in names}
        self._last: tuple[Inputs, Tensor] | None = None
        self._stored: tuple[StoredInputs, StoredEmbedding] | None = None

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.embedder.device

    def embed(self, graph: Inputs) -> Tensor:
        """The embedding of every node, or these parts of it, [N, Σ parts]."""
        if self._last is None or self._last[0] is not graph:
            self._last = graph, self._made(graph, self.embedder.embed(graph))
        return self._last[1]

    def embed_stored(self, graph: StoredInputs) -> StoredEmbedding:
        """The same of a graph on disk."""
        if self._stored is None or self._stored[0] is not graph:
            self._stored = graph, self._made_stored(graph, self.embedder.embed_stored(graph))
        return self._stored[1]

    def _made_stored(self, graph: StoredInputs, embedding: StoredEmbedding) -> StoredEmbedding:
        return embedding if len(self.parts) == len(embedding.parts) else embedding.only(self.parts)

    def _made(self, graph: Inputs, embedding: Tensor) -> Tensor:
        pieces = embedding.split(list(self.embedder.parts.values()), dim=1)
        kept = [piece for name, piece in zip(self.embedder.parts, pieces, strict=True) if name in self.parts]
        return embedding if len(kept) == len(pieces) else torch.cat(kept, dim=1)


class WithPlainParts(KeptEmbedding):
    """An embedding with X, ÂX and Â²X beside it, kept for the last graph."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(embedder)
        self.parts = {**self.parts, **dict.fromkeys(BESIDE, embedder.num_features)}

    def _made(self, graph: Inputs, embedding: Tensor) -> Tensor:
        return beside_input(graph, embedding)

    def _made_stored(self, graph: StoredInputs, embedding: StoredEmbedding) -> StoredEmbedding:
        plain = stored_embedding(graph, dict.fromkeys(BESIDE, graph.num_features))
        return StoredEmbedding(graph, {**embedding.parts, **plain.parts})


def ways_of(model: Embedder, task: str = "node") -> Ways:
    """The ways to score a model in a task, by their prefix (see the module).

    The first way is the model itself where its authors have a head of their own, or where there is no other way.
    """
    shipped = any(name in BESIDE for name in model.parts)
    learned = [name for name in model.parts if name not in BESIDE]
    if task == "cluster" or not learned:
        return {"": KeptEmbedding(model)}
    full = KeptEmbedding(model) if shipped else WithPlainParts(model)
    alone = KeptEmbedding(full, learned)
    if shipped:
        return {"": full, "learned_": alone}
    if task == "node" and (isinstance(model, Classifier) or model.own_head is not None):
        return {"": model, "learned_": alone, "parts_": full}
    return {"": alone, "parts_": full}
