"""The graphs that ``make bench`` measures on: OGB's arxiv structure where it is at hand, generated ones elsewhere."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache

from torch_geometric.data import Data

import plgc
from community_graphs import CommunityGraph, community_graph
from plgc.graphs.derive import derive_features
from plgc.runtime.errors import PLGCError

ARXIV = "ogbn_arxiv_structure"
ARXIV_SIZED = CommunityGraph(nodes=169_343, entries=2_315_598, features=128, communities=40)
SEED = 0


@cache
def bench_graph(name: str) -> Data:
    """A graph by name: ``arxiv``, ``generated:SHARE`` (of arxiv's size), a folder, or any that plgc knows.

    ``edges:SHARE`` is a generated graph with few features, for products with other matrices.
    """
    kind, _, share = name.partition(":")
    if kind in ("generated", "edges") and not os.path.exists(name):
        spec = ARXIV_SIZED.scaled(float(share))
        return community_graph(spec if kind == "generated" else replace(spec, features=8))
    graph = plgc.load_graph(ARXIV if name == "arxiv" else name)
    if graph.x is None:
        graph.x = derive_features(graph, "fastrp:128", SEED)
    return graph


def arxiv_or_generated() -> str:
    """``arxiv`` where its file is at hand; else a generated graph of its size, and the record says so."""
    try:
        plgc.load_graph(ARXIV)
    except PLGCError:
        return "generated:1.0"
    return "arxiv"
