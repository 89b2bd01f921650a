"""Edges of a graph: the 1:1:2 edge split of link prediction, the graph of training edges, and non-edges.

An undirected edge is written once, as a pair (row, column) with row < column, and compared by its key row · N + column.
Every draw has its own generator, so it neither reads nor changes torch's global random state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.attributes import Seen, attribute, seen_of
from plgc.graphs.check import BLOCK_EDGES, MASKS, node_count
from plgc.graphs.derive import derived_of
from plgc.runtime.errors import GraphError, SettingError
from plgc.runtime.mapped import is_mapped, release

LEAST_EDGES = 4  # one to train on, one to validate, two to test
NODE_LEVEL = ("y", "y_multi", *MASKS, "name", "split_origin", "split_index", "split_seed", "split_generated")


@dataclass(frozen=True)
class EdgeSplit:
    """Three disjoint sets of undirected edges, each [2, E] with row < column, sorted."""

    train: Tensor
    val: Tensor
    test: Tensor


def split_edges(graph: Data, seed: int) -> EdgeSplit:
    """Split a graph's undirected edges at random 1:1:2 into train, validation and test.

    Raises:
        GraphError: the graph has fewer than four edges.
    """
    pairs = undirected_edges(graph)
    count = pairs.shape[1]
    if count < LEAST_EDGES:
        raise GraphError(
            f"the graph has {count} undirected edge(s): an edge split needs at least {LEAST_EDGES}, one to train on, "
            "one to validate and two to test"
        )
    quarter = (count + 1) // 4
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    parts = order.split([quarter, quarter, count - 2 * quarter])
    train, val, test = (pairs[:, part.sort().values] for part in parts)
    return EdgeSplit(train, val, test)


def training_edges(graph: Data, seed: int) -> Data:
    """The graph with its training edges alone: all that condensation and message passing are given.

    ``seen`` of the result records that, and :func:`plgc.condense` writes it into its file.

    Raises:
        SettingError: its features are derived from all edges, also from those that are to be predicted.
    """
    if derived_of(graph) is not None:
        raise SettingError(
            "the features are derived from all edges, those that are to be predicted among them: use a graph with "
            "features of its own"
        )
    cut = keep_edges(graph, split_edges(graph, seed).train)
    cut.seen = Seen(edges="train", edge_seed=seed, preprocessing=seen_of(graph).preprocessing)
    return cut


def keep_edges(graph: Data, pairs: Tensor) -> Data:
    """Return a new ``Data`` with every node of ``graph`` and, of its edges, only ``pairs`` (in both directions).

    Features, labels and masks are shared, edge weights follow their edge; nothing else of the graph is carried over.

    Raises:
        GraphError: one of the pairs is no edge of the graph.
    """
    edge_index, nodes = edges_of(graph), node_count(graph)
    keys = pair_keys(pairs, nodes).unique()
    kept = torch.isin(pair_keys(edge_index, nodes), keys)
    if int(kept.sum()) != 2 * keys.numel():
        raise GraphError(
            f"{keys.numel()} edges are to be kept, the graph has {int(kept.sum()) // 2} of them in both directions: "
            "give the graph that the edges were taken from"
        )
    cut = Data(x=graph.x, edge_index=edge_index[:, kept], num_nodes=nodes)
    if "edge_weight" in graph:
        cut.edge_weight = graph["edge_weight"][kept]
    for key in NODE_LEVEL:
        cut[key] = attribute(graph, key)
    return cut


def non_edges(graph: Data, count: int, generator: torch.Generator) -> Tensor:
    """Draw ``count`` distinct node pairs, row < column, that no edge of the whole graph joins; [2, count].

    Every such pair is equally likely. Pairs are drawn at random and edges rejected; where edges and ``count`` fill a
    quarter of all pairs, the pairs are listed instead, so that a dense graph costs no more.

    Raises:
        GraphError: the graph is so dense that it has fewer non-edges than asked for.
    """
    nodes = node_count(graph)
    edges = pair_keys(undirected_edges(graph), nodes)
    pairs = nodes * (nodes - 1) // 2
    free = pairs - edges.numel()
    if count > free:
        raise GraphError(
            f"{count} non-edges were asked for, the graph has {free} ({nodes} nodes, {edges.numel()} of {pairs} "
            "possible edges): it is too dense, ask for fewer"
        )
    if pairs <= 4 * (edges.numel() + count):
        found = _without(pair_keys(torch.triu_indices(nodes, nodes, 1), nodes), edges)
    else:
        found = edges.new_empty(0)
        while found.numel() < count:
            draws = torch.randint(nodes, (2, 2 * (count - found.numel()) + 16), generator=generator)
            draws = pair_keys(draws[:, draws[0] != draws[1]], nodes)
            found = torch.cat([found, _without(draws, edges)]).unique()
    chosen = found[torch.randperm(found.numel(), generator=generator)[:count]]
    return torch.stack([chosen // nodes, chosen % nodes])


def edges_of(graph: Data) -> Tensor:
    """The ``edge_index`` of a graph, [2, E]; it must have one."""
    if graph.edge_index is None:
        raise GraphError("the graph has no edge_index: load it with plgc.load_graph, which makes one")
    return graph.edge_index


def edge_blocks(edge_index: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Consecutive edges, with their places: a block at a time of a graph on disk, else all at once."""
    count = edge_index.shape[1]
    step = BLOCK_EDGES if is_mapped(edge_index) else max(1, count)
    for start in range(0, count, step):
        place = slice(start, min(start + step, count))
        yield place, edge_index[:, place]
        release(edge_index)


def undirected_edges(graph: Data) -> Tensor:
    """Every undirected edge of a graph once, [2, E] with row < column, sorted."""
    edge_index = edges_of(graph)
    return edge_index[:, edge_index[0] < edge_index[1]]


def pair_keys(pairs: Tensor, nodes: int) -> Tensor:
    """row · N + column with row < column: one number for an undirected pair, whichever way it is written."""
    return pairs.amin(0).to(torch.int64) * nodes + pairs.amax(0)  # mapped edges may be int32


def _without(keys: Tensor, taken: Tensor) -> Tensor:
    """The keys that are not in ``taken``, which is sorted."""
    if taken.numel() == 0:
        return keys
    place = torch.searchsorted(taken, keys).clamp(max=taken.numel() - 1)
    return keys[taken[place] != keys]


def within_hops(edge_index: Tensor, start: Tensor, hops: int) -> Tensor:
    """The nodes at most ``hops`` edges away from a mask, as a mask."""
    reached = start.clone()
    for _ in range(hops):
        before = reached.clone()
        for _, (row, column) in edge_blocks(edge_index):
            reached[column[before[row]]] = True
            reached[row[before[column]]] = True
    return reached
