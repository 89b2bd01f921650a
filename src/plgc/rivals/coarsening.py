"""Coarsening: contract heavy edges, level by level, until a given number of supernodes is left.

The multilevel heavy-edge scheme of Loukas (2019), as Huang et al. (2021) use it for GNNs: the graph is contracted
without labels, then every supernode takes the mean features and the majority training label of its members.

One level. The weight of an edge is w_ij / max(d_i, d_j), so that hubs are not contracted first. Every node points along
its heaviest edge (ties: the smaller node numbers), which makes a forest whose roots are locally heaviest edges. Cut at
every other depth, the forest falls into stars, and the heavier half of their edges is contracted. Several leaves may
join one hub, so a star-like graph needs as few levels as any other; all merges are along edges, so supernodes stay
connected.

Balance. No supernode may outgrow N / count, the average; only when nothing fits is that limit raised by a quarter.
(Left to the weights alone, one supernode takes nearly the whole graph.) A graph with more components than supernodes
has to join what no edge joins: then supernodes that have no edges left, smallest first, join the one nearest
by mean features among the largest that have room.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from plgc.artifact.condensed import CondensedGraph
from plgc.graphs.features import to_scipy
from plgc.rivals.frame import RivalRun
from plgc.rivals.scaling import with_chosen_scaling
from plgc.runtime.errors import LabelError, SettingError
from plgc.sparse.inputs import scale_rows

RAISE = 1.25  # of the size limit, when nothing fits
CHUNK = 1024  # rows of distances held at a time


def condense_by_coarsening(run: RivalRun) -> CondensedGraph:
    """Contract heavy edges until K supernodes are left. Nothing in it is random: the seed is only recorded."""
    run = with_chosen_scaling(run)
    bare, labels, count = run.graph, run.labels, run.nodes
    x = scale_rows(bare.x.to(torch.float32), run.scaling)
    group = coarsen(bare.edge_index, bare.num_nodes, count, edge_weight=bare.edge_weight, features=x)
    edge_index, edge_weight = coarse_edges(bare.edge_index, bare.edge_weight, group, count)
    return run.finish(
        coarse_features(x, group, count),
        torch.bincount(group, minlength=count),
        labels=coarse_labels(labels.y, labels.train, group, count, labels.classes),
        edge_index=edge_index,
        edge_weight=edge_weight,
    )


def coarsen(
    edge_index: Tensor, num_nodes: int, count: int, *, edge_weight: Tensor | None = None, features: Tensor | None = None
) -> Tensor:
    """Contract a graph to ``count`` supernodes by heavy edges (Loukas, 2019; Huang et al., 2021).

    Deterministic. Every supernode is connected when the graph has no more than ``count`` components.

    Args:
        edge_index: [2, E] edges as :func:`plgc.load_graph` returns them; self-loops are ignored.
        num_nodes: N.
        count: the number of supernodes, 1 to N.
        edge_weight: [E] not negative; an edge of weight 0 is none. All edges weigh 1 without it.
        features: [N, f] dense or CSR; used only to join parts that no edge joins (without them, the smallest parts
            are put together).

    Returns:
        [N] int64: the supernode of every node, 0 to ``count`` − 1, numbered by their smallest member.
    """
    if not 1 <= count <= num_nodes:
        raise SettingError(f"count={count} supernodes for a graph of {num_nodes} nodes: ask for 1 to {num_nodes}")
    level = _finest(edge_index, num_nodes, edge_weight)
    matrix = sp.coo_matrix((level.weight, (level.lo, level.hi)), shape=(num_nodes, num_nodes))
    scattered = connected_components(matrix, directed=False, return_labels=False) > count
    limit = max(2.0, num_nodes / count)
    while (surplus := len(level.size) - count) > 0:
        target = _contract(level, limit, surplus)
        if target is None and scattered:
            target = _gather(level, limit, count, features)
        if target is None:
            limit *= RAISE
        else:
            level = _merge(level, target)
    _, first, number = np.unique(level.assignment, return_index=True, return_inverse=True)
    return torch.from_numpy(np.argsort(np.argsort(first))[number])


def coarse_features(x: Tensor, assignment: Tensor, count: int) -> Tensor:
    """Mean features of every supernode, dense float32 [count, f] (Huang et al., 2021); x is dense or CSR."""
    return torch.from_numpy(_dense(_means(x, assignment.cpu().numpy(), count))).to(torch.float32)


def coarse_labels(y: Tensor, labelled: Tensor, assignment: Tensor, count: int, num_classes: int) -> Tensor:
    """The majority class of every supernode's training nodes, [count] int64 (Huang et al., 2021).

    Args:
        y: [N] classes; only ``y[labelled]`` is read.
        labelled: node numbers (or a mask) of the training nodes.
        assignment: the supernode of every node.
        count: number of supernodes.
        num_classes: number of classes.

    Returns:
        A class for every supernode, the smallest where several are most frequent; −1 where none of its members is a
        training node.
    """
    labels, place = y[labelled].cpu(), assignment[labelled].cpu()
    bad = ((labels < 0) | (labels >= num_classes)).nonzero().flatten()
    if bad.numel():
        raise LabelError(
            f"a training node has label {int(labels[bad[0]])}, expected 0 to {num_classes - 1}: leave nodes without a "
            "label out of labelled"
        )
    votes = torch.bincount(place * num_classes + labels, minlength=count * num_classes).view(count, num_classes)
    return torch.where(votes.sum(dim=1) > 0, votes.argmax(dim=1), -1)


def coarse_edges(
    edge_index: Tensor, edge_weight: Tensor | None, assignment: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """The edges between supernodes, Pᵀ A P without its diagonal (Loukas, 2019; Huang et al., 2021).

    Args:
        edge_index: [2, E] edges in both directions, as :func:`plgc.load_graph` returns them.
        edge_weight: [E], or None where all edges weigh 1.
        assignment: the supernode of every node.
        count: number of supernodes.

    Returns:
        Edges in both directions, sorted by row, then column, and their summed weights (float32).
    """
    a, b = assignment.cpu()[edge_index.cpu()].numpy()
    weight = np.ones(len(a)) if edge_weight is None else edge_weight.cpu().numpy().astype(np.float64)
    lo, hi, total = _sum_edges(a, b, weight, count)
    row, column = np.concatenate([lo, hi]), np.concatenate([hi, lo])
    order = np.lexsort((column, row))
    weights = np.tile(total / 2, 2)[order]  # both directions were summed into one
    return torch.from_numpy(np.stack([row, column])[:, order]), torch.from_numpy(weights).to(torch.float32)


@dataclass(frozen=True)
class _Level:
    """Supernodes on the way: which one each node is in, their sizes, and the edges left (lo < hi, sorted)."""

    assignment: np.ndarray
    size: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    weight: np.ndarray


def _finest(edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None) -> _Level:
    row, column = edge_index.cpu().numpy().astype(np.int64)
    weight = np.ones(len(row)) if edge_weight is None else edge_weight.detach().cpu().numpy().astype(np.float64)
    edges = _sum_edges(row[weight > 0], column[weight > 0], weight[weight > 0], num_nodes)
    return _Level(np.arange(num_nodes), np.ones(num_nodes, dtype=np.int64), *edges)


def _sum_edges(a: np.ndarray, b: np.ndarray, weight: np.ndarray, nodes: int) -> tuple[np.ndarray, ...]:
    """Edges lo < hi, sorted, each with the summed weight of all that join the same two nodes; no self-loops."""
    a, b = a.astype(np.int64, copy=False), b.astype(np.int64, copy=False)  # edges on disk may be int32
    apart = a != b
    key, place = np.unique((np.minimum(a, b) * nodes + np.maximum(a, b))[apart], return_inverse=True)
    return key // nodes, key % nodes, np.bincount(place, weights=weight[apart], minlength=len(key))


def _contract(level: _Level, limit: float, surplus: int) -> np.ndarray | None:
    """Which supernode each one becomes part of at this level (itself: unchanged); None where no edge fits."""
    lo, hi, itself = level.lo, level.hi, np.arange(len(level.size))
    degree = np.bincount(lo, level.weight, len(itself)) + np.bincount(hi, level.weight, len(itself))
    score = level.weight / np.maximum(degree[lo], degree[hi])
    fits = np.flatnonzero(level.size[lo] + level.size[hi] <= limit)
    if len(fits) == 0:
        return None
    order = fits[np.argsort(-score[fits], kind="stable")]  # ties: lo, then hi
    lo, hi = lo[order], hi[order]
    rank = np.full(len(itself), len(lo))  # of each node's heaviest edge
    np.minimum.at(rank, np.concatenate([lo, hi]), np.tile(np.arange(len(lo)), 2))
    pointing = np.flatnonzero(rank < len(lo))
    parent = itself.copy()
    parent[pointing] = (lo + hi)[rank[pointing]] - pointing
    roots = np.flatnonzero((parent[parent] == itself) & (itself < parent))
    parent[roots] = roots
    movers = _star_leaves(parent)
    movers = movers[np.argsort(rank[movers], kind="stable")]
    movers = movers[_within(parent[movers], level.size[movers], limit - level.size)]
    movers = movers[: min(surplus, max(1, len(movers) // 2))]
    itself[movers] = parent[movers]
    return itself


def _star_leaves(parent: np.ndarray) -> np.ndarray:
    """The nodes at odd, or else even, depth of their tree, whichever are more: none of them is another's parent."""
    root, odd = parent, parent != np.arange(len(parent))
    while not np.array_equal(above := root[root], root):
        root, odd = above, odd ^ odd[root]
    below = root != np.arange(len(root))
    balance = np.bincount(root, np.where(odd, 1, -1) * below, len(root))
    return np.flatnonzero(below & (odd == (balance[root] >= 0)))


def _within(group: np.ndarray, size: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Which members fit into their group, taken in the order given: those whose running total is within its room."""
    order = np.argsort(group, kind="stable")
    total, starts = np.cumsum(size[order]), np.flatnonzero(np.diff(group[order], prepend=-1))
    before = np.repeat((total - size[order])[starts], np.diff(np.append(starts, len(group))))
    fits = np.empty(len(group), dtype=bool)
    fits[order] = total - before <= room[group[order]]
    return fits


def _gather(level: _Level, limit: float, count: int, features: Tensor | None) -> np.ndarray | None:
    """Let supernodes without edges, smallest first, join the nearest of the ``count`` largest; None: no room.

    Distances are between the mean features at the start; without features the smallest is the nearest.
    """
    order = np.argsort(-level.size, kind="stable")
    edgeless = np.bincount(np.concatenate([level.lo, level.hi]), minlength=len(order)) == 0
    kept, loose = np.sort(order[:count]), order[count:][edgeless[order[count:]]][::-1]
    means = None if features is None else _means(features, level.assignment, len(order))
    size, target = level.size[kept], np.arange(len(order))
    for start in range(0, len(loose), CHUNK):
        chunk = loose[start : start + CHUNK]
        cost = None if means is None else _distances(means, chunk, kept)
        for place, node in enumerate(chunk):
            room = size + level.size[node] <= limit
            if room.any():
                best = np.argmin(np.where(room, size if cost is None else cost[place], np.inf))
                size[best] += level.size[node]
                target[node] = kept[best]
    return None if np.array_equal(target, np.arange(len(order))) else target


def _distances(means: Any, rows: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Squared distances between mean features, less each row's own square, which changes nothing in its order."""
    center = _dense(means[centers])
    return np.square(center).sum(axis=1) - 2 * (means[rows] @ center.T)


def _merge(level: _Level, target: np.ndarray) -> _Level:
    """Make every supernode part of its target, and number what is left anew."""
    left, number = np.unique(target, return_inverse=True)
    size = np.bincount(number, weights=level.size).astype(np.int64)
    edges = _sum_edges(number[level.lo], number[level.hi], level.weight, len(left))
    return _Level(number[level.assignment], size, *edges)


def _means(x: Tensor, assignment: np.ndarray, count: int) -> Any:
    """Mean of X's rows in every supernode: dense or scipy CSR, as X is."""
    share = 1.0 / np.bincount(assignment, minlength=count)[assignment]
    member = sp.csr_matrix((share, (assignment, np.arange(len(assignment)))), shape=(count, len(assignment)))
    return member @ (to_scipy(x.detach().cpu()) if x.layout == torch.sparse_csr else x.detach().cpu().numpy())


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else matrix
