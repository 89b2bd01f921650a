"""A growing graph as it was at some time: the nodes that had come by then, and the edges among them."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch_geometric.data import Data

from plgc.graphs.attributes import attribute
from plgc.graphs.check import MASKS, node_count
from plgc.graphs.standard import node_mask
from plgc.graphs.views.inductive import induced_subgraph
from plgc.runtime.errors import GraphError, SettingError

KEPT = ("notes", "doubts", "seen", "split_index", "split_seed", "split_generated")


def until_time(graph: Data, until: float) -> Data:
    """The subgraph of the nodes whose ``time`` is at most ``until``; labels, masks and ids follow.

    Nodes keep their ids; where they have none, their numbers in the whole graph become their ids. A node whose time is
    not known is left out, and the ``notes`` say so.

    Args:
        graph: as :func:`plgc.load_graph` returns it, with a ``time``.
        until: a number, of the same kind as the times.

    Raises:
        SettingError: the graph has no time, or ``until`` is no number.
        GraphError: no node is as old as that.
    """
    check_until(until)
    time = attribute(graph, "time")
    if time is None:
        raise SettingError(f"{graph.name} has no time: load it with until=, or with time= and the name of its time")
    kept, unknown = time <= until, int(torch.isnan(time).sum())
    if not bool(kept.any()):
        known = time[~torch.isnan(time)]
        span = f"times are from {known.min():g} to {known.max():g}" if known.numel() else "no node has a time"
        raise GraphError(f"{graph.name} has no node up to {until:g}: {span}")
    whole = copy.copy(graph)
    for key in MASKS:
        if key in graph and graph[key].dim() > 1:  # several splits, in either direction
            whole[key] = node_mask(graph[key], key, node_count(graph), graph.name)
    cut = induced_subgraph(whole, kept)
    for key in KEPT:
        cut[key] = attribute(graph, key)
    cut.split_origin = attribute(graph, "split_origin")
    if "node_ids" not in graph:
        cut.node_ids = [str(node) for node in kept.nonzero().flatten().tolist()]
    missing = f"; {unknown:,} without a time are left out" if unknown else ""
    note = f"{graph.name}: {int(kept.sum()):,} of {kept.numel():,} nodes, those up to {until:g}{missing}"
    cut.notes = [*attribute(graph, "notes", ()), note]
    return cut


def check_until(until: Any) -> None:
    """Raise :class:`SettingError` unless this is a time."""
    number = isinstance(until, int | float) and not isinstance(until, bool)
    if not number or not math.isfinite(until):
        raise SettingError(f"until is {until!r}: a number is needed, of the kind that the times are, such as a year")
