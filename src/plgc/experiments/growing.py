"""Cells of the experiment ``growing``: the files of a graph that grows year by year, made in several ways.

A file of every year from the first on: condensed anew; updated from last year's; updated from what arrived alone; the
first year's file, never updated; condensed from what arrived alone.
"""

from __future__ import annotations

from functools import partial

from torch_geometric.data import Data

from plgc.evaluation.growth import Growth, draw_growth
from plgc.experiments.descent import UpdateCall
from plgc.experiments.grid import Cell
from plgc.experiments.shared import SharedGraph
from plgc.experiments.store import Condensation, CondenseCall, Once
from plgc.graphs.bare import bare_graph
from plgc.graphs.check import node_count
from plgc.graphs.views.until import since_time, until_time
from plgc.sparse.inputs import fingerprint

FIRST = 2010  # the year of the first file


def growth_of(cell: Cell, graph: Data) -> Growth:
    """The graph of the cell's year with the head's labels, and the next year's."""
    assert cell.year is not None
    return draw_growth(graph, cell.year, FIRST, cell.seed)


def grown_file(cell: Cell, shared: SharedGraph, once: Once) -> Condensation:
    """The file of the cell's year, made as its ``history`` says; ``once`` finds those of earlier years."""
    whole, last = shared.graph, cell.year
    assert last is not None

    def condensed(graph: Data, year: int) -> Condensation:
        nodes = size(cell, whole, year)
        return once(CondenseCall(cell.method, graph, None, nodes, cell.seed, cell.preset, private=cell.private))

    if cell.history == "anew":
        return condensed(until_time(whole, last), last)
    if cell.history == "new-part":
        return condensed(arrived(whole, last), last)
    made = condensed(until_time(whole, FIRST), FIRST)
    if cell.history == "never":
        return made
    only_new = cell.history == "only-new"
    content = shared.prepared.once("fingerprint", lambda: fingerprint(bare_graph(whole)))
    for year in range(FIRST + 1, last + 1):
        view = partial(arrived if only_new else until_time, whole, year)
        made = once(UpdateCall(made, view, f"{content} {year}", size(cell, whole, year), cell.seed, only_new))
    return made


def size(cell: Cell, whole: Data, year: int) -> int:
    """K of a year: the cell's size is of the whole graph, and every year has the same share of its nodes."""
    assert cell.nodes is not None
    return max(2, round(cell.nodes * int((whole["time"] <= year).sum()) / node_count(whole)))


def arrived(whole: Data, year: int) -> Data:
    """The nodes that came in a year with a halo of older ones around them, marked by ``core_mask``."""
    return since_time(until_time(whole, year), year - 1)
