"""How many features a graph's nodes have, and the one check that two things have as many."""

from __future__ import annotations

from torch_geometric.data import Data

from plgc.runtime.errors import GraphError

SAME_GRAPH = "use the graph that was condensed, or one with the same features"
SAME_FEATURES = "only graphs with the same features can be combined"


def feature_width(graph: Data) -> int:
    """f, the number of features per node; 0 for a graph without features."""
    return 0 if graph.x is None else graph.x.shape[1]


def check_width(name: str, width: int, other: str, found: int, advice: str = SAME_GRAPH) -> None:
    """Raise :class:`GraphError` unless two things have the same number of features per node.

    Args:
        name: of the first, such as "this condensed graph".
        width: its number of features.
        other: name of the second.
        found: its number of features.
        advice: what to do about it.
    """
    if width != found:
        raise GraphError(f"{name} has {width} features per node, {other} has {found}: {advice}")
