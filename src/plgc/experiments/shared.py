"""What the cells of one graph and seed share: the loaded graph, its X and Â, and the last embedding.

Cells come graph by graph and method by method, so that one of each is kept: a graph is loaded and prepared once for all
methods, and an embedding that no label can change is computed once for all label draws.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np
from torch_geometric.data import Data

from plgc.evaluation.kept import Ways
from plgc.graphs.catalog import get_graph
from plgc.graphs.load import load_graph
from plgc.sparse.prepared import PreparedGraphs


@dataclass
class SharedGraph:
    """A graph as loaded with a seed, and what was made of it so far."""

    graph: Data
    prepared: PreparedGraphs = field(default_factory=PreparedGraphs)
    _embeddings: dict[Hashable, Ways] = field(default_factory=dict)  # at most one

    def keep_only(self, key: Hashable) -> None:
        """Forget an embedding with another key: it would take memory from what comes next."""
        self._embeddings = {own: kept for own, kept in self._embeddings.items() if own == key}

    def embeddings(self, key: Hashable, make: Callable[[], Ways]) -> Ways:
        """The result of ``make``, which is called unless the last request had this key."""
        self.keep_only(key)
        if key not in self._embeddings:
            self._embeddings[key] = make()
        return self._embeddings[key]


_kept: dict[Hashable, SharedGraph] = {}  # at most one


def shared_graph(name: str, seed: int, time: str | None = None) -> SharedGraph:
    """A named graph, with the split of this number where it has several; loaded unless the last call was for the same.

    A file that has changed since is loaded again. ``time`` is what says when its nodes came, where that is needed.
    """
    path = get_graph(name)
    state = path.stat()
    key = path, state.st_mtime_ns, state.st_size, seed, time
    if key not in _kept:
        _kept.clear()
        split = seed % _fixed_splits(name)
        _kept[key] = SharedGraph(load_graph(name, seed=seed, split=split, time=time, notice=False))
    return _kept[key]


def _fixed_splits(name: str) -> int:
    """How many fixed splits a graph has; 1 for a graph without masks."""
    try:
        with np.load(get_graph(name), allow_pickle=False) as file:
            shape = file["train_mask"].shape
    except Exception:  # no masks, or no archive: loading the graph will say what is wrong with it
        return 1
    return min(shape) if len(shape) == 2 else 1
