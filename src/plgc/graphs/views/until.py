"""A growing graph as it was at some time, and what has come since another: nodes, and the edges among them."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.attributes import attribute
from plgc.graphs.check import MASKS, node_count
from plgc.graphs.standard import node_mask
from plgc.graphs.views.edges import within_hops
from plgc.graphs.views.inductive import induced_subgraph
from plgc.runtime.errors import GraphError, SettingError

HALO = 2  # hops of older nodes around those that have come since: as far as our encoders see
KEPT = ("notes", "doubts", "seen", "split_index", "split_seed", "split_generated", "split_origin")


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
    time = _times(graph, until, "until")
    kept, unknown = time <= until, int(torch.isnan(time).sum())
    if not bool(kept.any()):
        known = time[~torch.isnan(time)]
        span = f"times are from {known.min():g} to {known.max():g}" if known.numel() else "no node has a time"
        raise GraphError(f"{graph.name} has no node up to {until:g}: {span}")
    missing = f"; {unknown:,} without a time are left out" if unknown else ""
    return _cut(graph, kept, f"{int(kept.sum()):,} of {kept.numel():,} nodes, those up to {until:g}{missing}")


def since_time(graph: Data, since: float) -> Data:
    """What has come after a time, with two hops of older nodes around it, which ``core_mask`` marks as a halo.

    Arguments and errors are those of :func:`until_time`. :func:`plgc.update` takes it with ``only_new=True``.
    """
    came = _times(graph, since, "since") > since
    came &= attribute(graph, "core_mask", torch.ones_like(came))
    if not bool(came.any()):
        raise GraphError(f"{graph.name} has no node of its own that came after {since:g}: nothing is new")
    assert graph.edge_index is not None
    kept = within_hops(graph.edge_index, came, HALO)
    words = f"{int(came.sum()):,} nodes that came after {since:g}, and {int((kept & ~came).sum()):,} older around them"
    cut = _cut(graph, kept, words)
    cut.core_mask = came[kept]
    return cut


def check_time(value: Any, name: str) -> None:
    """Raise :class:`SettingError` unless this is a time; ``name`` is that of the argument."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value):
        raise SettingError(f"{name} is {value!r}: a number is needed, of the kind that the times are, such as a year")


def _times(graph: Data, value: float, name: str) -> Tensor:
    check_time(value, name)
    if (time := attribute(graph, "time")) is None:
        raise SettingError(f"{graph.name} has no time: load it with {name}=, or with time= and the name of its time")
    return time


def _cut(graph: Data, kept: Tensor, words: str) -> Data:
    """The subgraph of some nodes with all that is theirs, and a note."""
    whole = copy.copy(graph)
    for key in MASKS:
        if key in graph and graph[key].dim() > 1:  # several splits, in either direction
            whole[key] = node_mask(graph[key], key, node_count(graph), graph.name)
    cut = induced_subgraph(whole, kept)
    for key in KEPT:
        cut[key] = attribute(graph, key)
    if "node_ids" not in graph:
        cut.node_ids = [str(node) for node in kept.nonzero().flatten().tolist()]
    cut.notes = [*attribute(graph, "notes", ()), f"{graph.name}: {words}"]
    return cut
