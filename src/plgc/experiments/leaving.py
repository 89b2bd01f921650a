"""Cells of the experiment ``forgetting``: the file of a graph that some nodes have left, made in several ways."""

from __future__ import annotations

from torch_geometric.data import Data

from plgc.evaluation.forgetting import Forgetting
from plgc.experiments.descent import ForgetCall
from plgc.experiments.grid import Cell
from plgc.experiments.store import Condensation, CondenseCall, Once
from plgc.graphs.check import node_count


def remaining_file(cell: Cell, drawn: Forgetting, once: Once) -> Condensation:
    """The file of what remains: condensed anew, by forgetting, or the old file as it was."""

    def condensed(graph: Data, nodes: int) -> Condensation:
        return once(CondenseCall(cell.method, graph, None, nodes, cell.seed, cell.preset, private=cell.private))

    assert cell.nodes is not None
    nodes = max(2, round(cell.nodes * node_count(drawn.rest) / node_count(drawn.first)))
    if cell.history == "anew":
        return condensed(drawn.rest, nodes)
    old = condensed(drawn.first, cell.nodes)
    if cell.history == "old":
        return old
    return once(ForgetCall(old, drawn.first, drawn.gone, nodes, cell.seed))
