"""An embedding that is computed once and scored several times: by itself, and what of it was learned."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from plgc.downstream.backbone import BESIDE
from plgc.downstream.embedder import Embedder
from plgc.sparse.inputs import Inputs


class KeptEmbedding(Embedder):
    """An embedder that keeps its embedding of the last graph; ``names`` are the parts it has, by default all."""

    def __init__(self, embedder: Embedder, names: Collection[str] | None = None) -> None:
        self.embedder, self.uses_edges = embedder, embedder.uses_edges
        self.num_features, self.scaling = embedder.num_features, embedder.scaling
        self.parts = {name: width for name, width in embedder.parts.items() if names is None or name in names}
        self._last: tuple[Inputs, Tensor] | None = None

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.embedder.device

    def embed(self, graph: Inputs) -> Tensor:
        """The embedding of every node, or these parts of it, [N, Σ parts]."""
        if self._last is None or self._last[0] is not graph:
            self._last = graph, self._columns(self.embedder.embed(graph))
        return self._last[1]

    def _columns(self, embedding: Tensor) -> Tensor:
        pieces = embedding.split(list(self.embedder.parts.values()), dim=1)
        kept = [piece for name, piece in zip(self.embedder.parts, pieces, strict=True) if name in self.parts]
        return embedding if len(kept) == len(pieces) else torch.cat(kept, dim=1)


Kept = tuple[KeptEmbedding, KeptEmbedding | None]


def with_learned_part(embedder: Embedder) -> Kept:
    """An embedding, and what of it was learned, without X, ÂX and Â²X beside it; None where that is all, or nothing."""
    whole = KeptEmbedding(embedder)
    learned = [name for name in whole.parts if name not in BESIDE]
    return whole, KeptEmbedding(whole, learned) if 0 < len(learned) < len(whole.parts) else None
