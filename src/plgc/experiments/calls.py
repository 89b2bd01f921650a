"""The condensations of a cell: of one graph, of the parts it is cut into, or of the graphs of its family."""

from __future__ import annotations

from plgc.experiments.grid import Cell
from plgc.experiments.store import CondenseCall
from plgc.experiments.variants import VARIANTS
from plgc.graphs.check import node_count
from plgc.graphs.labels import training_labels
from plgc.graphs.load import load_graph
from plgc.graphs.views.partition import cut_edges, cut_parts, partition_nodes
from plgc.graphs.views.protocol import Case
from plgc.rivals.methods import method_named
from plgc.runtime.errors import SettingError
from plgc.sources import share_nodes, source_seed

MIN_CLUSTER = 5  # of several sources; the paper has no minimum


def condense_calls(cell: Cell, case: Case) -> tuple[list[CondenseCall], float | None]:
    """Every condensation of a cell, and the share of edges that the cut removes, in per cent; None without parts.

    Args:
        cell: what to condense.
        case: the cell's protocol, drawn on its graph.
    """
    assert cell.nodes is not None
    given = case.given if method_named(cell.method).supervised else None
    minimum = MIN_CLUSTER if cell.method == "plgc" and cell.preset != "paper" else None
    if cell.sources is not None:
        if given is not None:
            raise SettingError(f"{cell.method} needs labels of every source: only label-free methods share sources")
        family = (cell.family or cell.graph).split("+")
        kept = {"own": {cell.graph}, "others": set(family) - {cell.graph}}.get(cell.sources, set(family))
        return [
            CondenseCall(
                cell.method,
                load_graph(name, seed=cell.seed, notice=False),
                None,
                cell.nodes,
                _seed(cell, i),
                cell.preset,
                minimum,
            )
            for i, name in enumerate(family)
            if name in kept
        ], None
    if cell.parts is None or cell.partition == "none":
        minimum = minimum if cell.parts else None
        own = None if cell.variant is None else VARIANTS[cell.variant].settings
        return [CondenseCall(cell.method, case.seen, given, cell.nodes, cell.seed, cell.preset, minimum, own)], None
    if given is not None and cell.noise is None:
        raise SettingError("several sources with labels are compared under a rate of wrong ones: name a noise level")
    how, _, alpha = (cell.partition or "random").partition("-")
    part = partition_nodes(case.seen, cell.parts, how, seed=cell.seed, alpha=float(alpha or 1))
    graphs = cut_parts(case.seen, part)
    calls = []
    for place, nodes in enumerate(share_nodes(cell.nodes, [node_count(graph) for graph in graphs])):
        graph, seed = graphs[place], _seed(cell, place)
        # Labels of each part are flipped by themselves.
        labels = None if given is None else training_labels(graph, noise=cell.noise or 0.0, seed=seed)
        calls.append(CondenseCall(cell.method, graph, labels, nodes, seed, cell.preset, minimum))
    assert case.seen.edge_index is not None
    return calls, 200 * cut_edges(case.seen.edge_index, part) / case.seen.edge_index.shape[1]


def _seed(cell: Cell, place: int) -> int:
    """A seed of its own for every source, unless all are to start from the same weights."""
    return cell.seed if cell.combine == "shared-seed" else source_seed(cell.seed, place)
