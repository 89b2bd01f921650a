"""A source that is to be made, and what its file would say of its graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.graphs.check import node_count
from plgc.graphs.load import load_graph, unlabelled
from plgc.graphs.seen import ALL, Seen, seen_of
from plgc.method.condense import resolve_count


@dataclass(frozen=True)
class Wanted:
    """A source to be made: its name, where its graph comes from, and its size.

    ``graph`` is a path, a graph, or a function that makes the graph when its turn comes; None where the graph is not at
    hand, and the file that is in the folder already has to do.
    """

    name: str
    graph: Path | Data | Callable[[], Data] | None
    nodes: int | None
    ratio: float | None

    def get(self) -> Path | Data | None:
        """The graph or its path."""
        if self.graph is None or isinstance(self.graph, Path | Data):  # a Data could be called, too
            return self.graph
        return self.graph()


@dataclass(frozen=True)
class Expected:
    """What a file made of a graph would say of it."""

    nodes: int
    features: int
    seen: Seen
    source: dict[str, int]


def expected_of(found: CondensedGraph, wanted: Wanted, graph: Path | Data | None) -> Expected:
    """What the file should say; where the graph is not at hand, what it says is believed."""
    if graph is None:
        return Expected(wanted.nodes or found.nodes_requested, found.num_features, found.seen, found.source)
    bare = load_graph(graph) if isinstance(graph, Path) else checked(graph, wanted.name)
    core, total = bare._store.get("core_mask"), node_count(bare)
    own = total if core is None else int(core.sum())
    width = 0 if bare.x is None else bare.x.shape[1]
    edges = 0 if bare.edge_index is None else bare.edge_index.shape[1]
    halo = {} if core is None else {"halo": total - own}
    seen = ALL if isinstance(graph, Path) else seen_of(graph)
    source = {"nodes": own, "edges": edges, "features": width, **halo}
    return Expected(resolve_count(own, wanted.ratio, wanted.nodes), width, seen, source)


def checked(graph: Data, name: str) -> Data:
    """Features, edges and core of a graph, brought to our form; what is wrong with them is said of its name."""
    bare = unlabelled(graph)
    bare.name = name
    return load_graph(bare)
