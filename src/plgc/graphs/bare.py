"""Features and edges of a graph without labels: all that condensation is given. Labels end here."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.attributes import ALL, Seen, attribute, seen_of
from plgc.graphs.check import check_content
from plgc.graphs.load import unlabelled
from plgc.graphs.standard import standard_form


@dataclass(frozen=True, eq=False)
class BareGraph:
    """A graph in our form (:func:`plgc.load_graph`) with features and edges alone. It has no field for labels or masks.

    Attributes:
        x: X, the features [N, f].
        edge_index: [2, E], both directions of every edge.
        num_nodes: N, with a halo where there is one.
        edge_weight: [E], or None.
        core_mask: which nodes are the graph's own, bool [N]; the others are a halo. None: all.
        seen: what it is of a larger graph.
        name: for messages, and for rivals whose published settings go by the name of the graph.
    """

    x: Tensor
    edge_index: Tensor
    num_nodes: int
    edge_weight: Tensor | None = None
    core_mask: Tensor | None = None
    seen: Seen = ALL
    name: str = "graph"

    @property
    def num_own(self) -> int:
        """The number of nodes of its own, without the halo."""
        return self.num_nodes if self.core_mask is None else int(self.core_mask.sum())

    @property
    def counts(self) -> dict[str, int]:
        """Its sizes, as a condensed graph records them."""
        halo = {} if self.core_mask is None else {"halo": self.num_nodes - self.num_own}
        return {"nodes": self.num_own, "edges": self.edge_index.shape[1], "features": self.x.shape[1], **halo}


def bare_graph(graph: Data | BareGraph, *, condensable: bool = True) -> BareGraph:
    """Features and edges of any graph, brought to our form and found fit to be condensed.

    Args:
        graph: any graph; a bare one is returned as it is.
        condensable: refuse a graph without edges, or without variation in its features. Methods that learn from labels
            can do without both.

    Raises:
        GraphError: the graph is not sound, or has no features, no edges or no variation in its features.
    """
    if isinstance(graph, BareGraph):
        return graph
    raw = unlabelled(graph)
    raw.name = attribute(graph, "name", "graph")
    return _checked(standard_form(raw), seen_of(graph), condensable)


def strip_labels(graph: Data) -> BareGraph:
    """The same of a graph that :func:`plgc.load_graph` has just returned, which is in our form already."""
    return _checked(graph, seen_of(graph))


def _checked(graph: Data, seen: Seen, condensable: bool = True) -> BareGraph:
    if condensable:
        check_content(graph)
    assert graph.x is not None
    assert graph.edge_index is not None
    assert graph.num_nodes is not None
    optional = {name: attribute(graph, name) for name in ("edge_weight", "core_mask")}
    return BareGraph(graph.x, graph.edge_index, graph.num_nodes, seen=seen, name=str(graph["name"]), **optional)
