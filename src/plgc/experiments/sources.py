"""The sources of a cell: one graph, the parts it is cut into, or the graphs of its family; each condensed by itself."""

from __future__ import annotations

from dataclasses import dataclass

from torch_geometric.data import Data

from plgc.experiments.grid import Cell
from plgc.graphs.check import node_count
from plgc.graphs.labels import TrainingLabels, training_labels
from plgc.graphs.load import load_graph
from plgc.graphs.views.partition import cut_edges, cut_parts, partition_nodes
from plgc.graphs.views.protocol import Case
from plgc.rivals.methods import method_named
from plgc.runtime.errors import SettingError
from plgc.sources import share_nodes, source_seed

MIN_CLUSTER = 5  # of several sources; by the letter of the paper there is no minimum


@dataclass(frozen=True)
class Source:
    """What one owner condenses: the graph, the labels a supervised method gets, K, the seed, the least cluster."""

    graph: Data
    labels: TrainingLabels | None
    nodes: int
    seed: int
    min_cluster: int | None = None


@dataclass(frozen=True)
class Sources:
    """All sources of a cell, and the share of the edges that lie between them, in per cent; None without parts."""

    members: list[Source]
    edges_cut: float | None = None


def sources_of(cell: Cell, case: Case) -> Sources:
    """Who condenses what in a cell, whose case was drawn on its own graph."""
    assert cell.nodes is not None
    given = case.given if method_named(cell.method).supervised else None
    minimum = MIN_CLUSTER if cell.method == "plgc" and cell.preset != "paper" else None
    if cell.sources is not None:
        if given is not None:
            raise SettingError(f"{cell.method} needs labels of every source: only label-free methods share sources")
        taken = {"own": lambda name: name == cell.graph, "others": lambda name: name != cell.graph}
        family = list(enumerate((cell.family or cell.graph).split("+")))
        chosen = [(i, name) for i, name in family if taken.get(cell.sources, lambda _: True)(name)]
        return Sources(
            [Source(load_graph(n, seed=cell.seed), None, cell.nodes, _seed(cell, i), minimum) for i, n in chosen]
        )
    if cell.parts is None or cell.partition == "none":
        return Sources([Source(case.seen, given, cell.nodes, cell.seed, minimum if cell.parts else None)])
    how, _, alpha = (cell.partition or "random").partition("-")
    part = partition_nodes(case.seen, cell.parts, how, seed=cell.seed, alpha=float(alpha or 1))
    graphs = cut_parts(case.seen, part)
    shares = share_nodes(cell.nodes, [node_count(graph) for graph in graphs])
    members = []
    for place, (graph, nodes) in enumerate(zip(graphs, shares, strict=True)):
        seed = _seed(cell, place)
        labels = None if given is None else _labels(graph, cell, seed)
        members.append(Source(graph, labels, nodes, seed, minimum))
    assert case.seen.edge_index is not None
    return Sources(members, 200 * cut_edges(case.seen.edge_index, part) / case.seen.edge_index.shape[1])


def _seed(cell: Cell, place: int) -> int:
    """A seed of its own for every source, unless all are to start from the same weights."""
    return cell.seed if cell.combine == "shared-seed" else source_seed(cell.seed, place)


def _labels(graph: Data, cell: Cell, seed: int) -> TrainingLabels:
    """A part's own labels: every owner's are flipped by themselves."""
    if cell.noise is None:
        raise SettingError("several sources with labels are compared under a rate of wrong ones: name a noise level")
    return training_labels(graph, noise=cell.noise, seed=seed)
