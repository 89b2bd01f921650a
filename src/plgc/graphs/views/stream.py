"""Cut a graph into parts in a few passes over its edges, with a few numbers per node in memory and never the edges.

Nodes are grouped by label propagation with a bound on the size of a group (Meyerhenke, Sanders and Schulz, 2014): a
node moves to the group that most of its neighbours are in, if there is room. The groups, with the number of edges
between them, are a small weighted graph, which METIS cuts. At last nodes move once more, between the parts.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from plgc.runtime.errors import MissingExtraError
from plgc.runtime.mapped import release

GROUPS_A_PART = 32  # at least: a group is no larger than this fraction of a part
GROUPING, REFINING = 8, 3  # passes over the edges
SLACK = 1.03  # a part may exceed its share by so much, as METIS allows
BLOCK_NODES, BLOCK_ENTRIES = 1 << 16, 1 << 21  # that move at a time; a node with more neighbours moves alone
STEPS = 64  # blocks that a pass has at least: nodes of one block do not see each other move
MAX_LINKS = 1 << 21  # between groups that are kept: the heaviest


def stream_partition(edge_index: Tensor, nodes: int, parts: int, seed: int) -> Tensor:
    """The part of every node, int64 [N]; some part may be empty.

    Args:
        edge_index: both directions of every edge, sorted by row, as :func:`plgc.load_graph` leaves them; [2, E].
        nodes: N.
        parts: how many.
        seed: of METIS, and of ties between groups.
    """
    try:
        import pymetis
    except ImportError as error:
        raise MissingExtraError("streamed partitions need pymetis: pip install 'plgc[metis]'") from error
    starts = row_starts(edge_index, nodes)
    kind = np.int32 if nodes < 2**31 else np.int64
    group, sizes = np.arange(nodes, dtype=kind), np.ones(nodes, dtype=kind)
    largest = max(1, nodes // (parts * GROUPS_A_PART))
    for turn in range(GROUPING):
        if not move_nodes(edge_index, starts, group, sizes, largest, seed + turn):
            break
    sizes = renumber(group, sizes)
    count = len(sizes)
    (first, second), weights = link_groups(edge_index, starts, group, count)
    adjacency = pymetis.CSRAdjacency(np.searchsorted(first, np.arange(count + 1)), second)
    options = pymetis.Options(seed=seed % 2**31)
    found = pymetis.part_graph(
        parts, adjacency, vweights=sizes, eweights=np.minimum(weights, 2**31 - 1), options=options
    )
    del first, second, weights, adjacency
    part = np.asarray(found.vertex_part, dtype=np.int32)[group]
    del group
    sizes, most = np.bincount(part, minlength=parts), int(np.ceil(SLACK * nodes / parts))
    for turn in range(REFINING):
        if not move_nodes(edge_index, starts, part, sizes, most, seed + GROUPING + turn):
            break
    return torch.from_numpy(part.astype(np.int64))


def renumber(group: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Number groups from 0, in their order, without gaps, in place; returns the sizes of those that there are.

    ``sizes`` are those of every number that a group may have.
    """
    number = np.cumsum(sizes > 0, dtype=group.dtype) - 1
    for begin in range(0, len(group), BLOCK_ENTRIES):
        group[begin : begin + BLOCK_ENTRIES] = number[group[begin : begin + BLOCK_ENTRIES]]
    return sizes[sizes > 0]


def row_starts(edge_index: Tensor, nodes: int) -> np.ndarray:
    """Where the entries of every node begin, int64 [N + 1]."""
    starts = np.zeros(nodes + 1, dtype=np.int64)
    for begin in range(0, edge_index.shape[1], BLOCK_ENTRIES):
        row = edge_index[0, begin : begin + BLOCK_ENTRIES].numpy()
        counts = np.bincount(row - row[0])  # sorted: the block is of neighbouring rows
        starts[row[0] + 1 : row[0] + 1 + len(counts)] += counts
        release(edge_index)
    return np.cumsum(starts, out=starts)


def node_blocks(edge_index: Tensor, starts: np.ndarray) -> Iterator[tuple[int, int, np.ndarray]]:
    """Consecutive nodes, as the first and the one after the last, with the neighbours of all of them."""
    nodes, first = len(starts) - 1, 0
    step = min(BLOCK_NODES, max(1, nodes // STEPS))
    while first < nodes:
        fitting = int(np.searchsorted(starts, starts[first] + BLOCK_ENTRIES, "right")) - 1
        last = max(first + 1, min(first + step, fitting))
        yield first, last, edge_index[1, int(starts[first]) : int(starts[last])].numpy()
        release(edge_index)
        first = last


def move_nodes(
    edge_index: Tensor, starts: np.ndarray, group: np.ndarray, sizes: np.ndarray, largest: int, seed: int
) -> bool:
    """Move every node to the group with most of its neighbours that has room. Returns whether any moved.

    ``group``, of every node, and ``sizes``, of every group, are changed in place. A node stays where no other group has
    more of its neighbours. Of several with as many, chance decides.
    """
    rng, count, moved = np.random.default_rng(seed % 2**63), len(sizes), False
    for first, last, neighbours in node_blocks(edge_index, starts):
        row = np.repeat(np.arange(last - first), np.diff(starts[first : last + 1]))
        key, weight = np.unique(row * count + group[neighbours], return_counts=True)
        row, wanted = key // count, key % count
        own = group[first + row]
        open_ = (sizes[wanted] < largest) | (wanted == own)
        row, wanted, own, weight = row[open_], wanted[open_], own[open_], weight[open_]
        score = 2.0 * weight + (wanted == own) + 0.5 * rng.random(len(row))  # of as many, its own comes first
        begins = np.flatnonzero(np.append(True, row[1:] != row[:-1])[: len(row)])
        top = np.maximum.reduceat(score, begins) if len(row) else score
        best = np.flatnonzero(score == np.repeat(top, np.diff(np.append(begins, len(row)))))
        best = best[wanted[best] != own[best]]
        best = best[np.argsort(wanted[best], kind="stable")]
        target = wanted[best]
        rank = np.arange(len(target)) - np.searchsorted(target, target)  # within those who want the same group
        best = best[rank < largest - sizes[target]]
        group[first + row[best]] = wanted[best]
        np.subtract.at(sizes, own[best], 1)
        np.add.at(sizes, wanted[best], 1)
        moved |= len(best) > 0
    return moved


def link_groups(edge_index: Tensor, starts: np.ndarray, group: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of groups with edges between them, both ways, sorted, [2, L]; and how many edges each has, [L]."""
    keys, weights = np.empty(0, np.int64), np.empty(0, np.int64)
    for first, last, neighbours in node_blocks(edge_index, starts):
        own = np.repeat(group[first:last].astype(np.int64), np.diff(starts[first : last + 1]))
        other = group[neighbours]
        found, times = np.unique((own * count + other)[own < other], return_counts=True)
        place = np.searchsorted(keys, found)
        new = np.append(keys, -1)[place] != found
        weights[place[~new]] += times[~new]
        keys, weights = np.insert(keys, place[new], found[new]), np.insert(weights, place[new], times[new])
        if len(keys) > 2 * MAX_LINKS:
            keys, weights = heaviest(keys, weights)
    keys, weights = heaviest(keys, weights)
    keys, weights = np.concatenate([keys, keys % count * count + keys // count]), np.tile(weights, 2)
    order = np.argsort(keys)
    return np.stack([keys[order] // count, keys[order] % count]), weights[order]


def heaviest(keys: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The :data:`MAX_LINKS` links of most edges, in the order they are in."""
    kept = np.sort(np.argsort(-weights, kind="stable")[:MAX_LINKS])
    return keys[kept], weights[kept]
