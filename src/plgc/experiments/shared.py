"""What the cells of one graph and seed share: the loaded graph, its X and Â, and the last embedding.

Cells come graph by graph and method by method, so that one of each is kept: a graph is loaded and prepared once for all
methods, and an embedding that no label can change is computed once for all label draws.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.downstream.backbone import BESIDE
from plgc.downstream.embedder import Embedder
from plgc.graphs.catalog import get_graph
from plgc.graphs.load import load_graph
from plgc.sparse.inputs import Inputs
from plgc.sparse.prepared import PreparedGraphs


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


@dataclass
class SharedGraph:
    """A graph as loaded with a seed, and what was made of it so far."""

    graph: Data
    prepared: PreparedGraphs = field(default_factory=PreparedGraphs)
    _embeddings: dict[Hashable, Kept] = field(default_factory=dict)  # at most one

    def keep_only(self, key: Hashable) -> None:
        """Forget an embedding with another key: it would take memory from what comes next."""
        self._embeddings = {own: kept for own, kept in self._embeddings.items() if own == key}

    def embeddings(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """The result of ``make``, which is called unless the last request had this key."""
        self.keep_only(key)
        if key not in self._embeddings:
            self._embeddings[key] = make()
        return self._embeddings[key]


_kept: dict[Hashable, SharedGraph] = {}  # at most one


def shared_graph(name: str, seed: int) -> SharedGraph:
    """A named graph, with the split of this number where it has several; loaded unless the last call was for the same.

    A file that has changed since is loaded again.
    """
    path = get_graph(name)
    state = path.stat()
    key = path, state.st_mtime_ns, state.st_size, seed
    if key not in _kept:
        _kept.clear()
        _kept[key] = SharedGraph(load_graph(name, seed=seed, split=seed % _fixed_splits(name)))
    return _kept[key]


def _fixed_splits(name: str) -> int:
    """How many fixed splits a graph has; 1 for a graph without masks."""
    try:
        with np.load(get_graph(name), allow_pickle=False) as file:
            shape = file["train_mask"].shape
    except Exception:  # no masks, or no archive: loading the graph will say what is wrong with it
        return 1
    return min(shape) if len(shape) == 2 else 1
