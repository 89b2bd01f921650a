"""The order of :mod:`plgc.sparse.locality` for edges that lie in a file: a few passes over them, some bytes a node.

The communities of the first level, the small ones, are found with all edges, a block of nodes at a time. The levels
above need less: they are found in memory on edges between communities, of which a bounded sample is looked at.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from plgc.graphs.views.stream import node_blocks
from plgc.runtime.mapped import release
from plgc.sparse.locality import LEVELS, ROUNDS, community_keys

SAMPLED = 1 << 22  # edges that the levels above the first are found with
MEMORY = 64  # bytes a node that finding the order takes


def stored_order(edge_index: Tensor, starts: np.ndarray, num_nodes: int) -> Tensor:
    """Node numbers [N] in an order in which neighbours are close.

    Args:
        edge_index: both directions of every edge, sorted by row, mapped or in memory, [2, E].
        starts: where the edges of every node begin, [N + 1].
        num_nodes: N.
    """
    label = np.arange(num_nodes, dtype=np.int32)
    for _ in range(ROUNDS):
        label = _spread_labels(edge_index, starts, label)
    row, col = _sampled_edges(edge_index)
    count = int(label.max()) + 1
    ones = np.ones(len(row), dtype=np.float32)
    matrix = sp.csr_array((ones, (label[row], label[col])), shape=(count, count))
    matrix.setdiag(0.5)
    keys = [label, *community_keys(matrix, label, LEVELS - 1)]
    return torch.from_numpy(np.lexsort([key.astype(np.int32) for key in keys]))


def _spread_labels(edge_index: Tensor, starts: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Labels 0, 1, … once every node has taken the label most common around it, itself included; of several the last.

    All nodes see the labels of the round before, so that blocks do not matter.
    """
    chosen = np.empty_like(label)
    for first, last, neighbours in node_blocks(edge_index, starts):
        begins, own = starts[first : last + 1] - starts[first], label[first:last]
        ones = np.ones(len(neighbours), dtype=np.float32)
        votes = sp.csr_array((ones, label[neighbours], begins), shape=(last - first, len(label)))
        votes.sum_duplicates()  # sorts them, too
        row = np.repeat(np.arange(last - first), np.diff(votes.indptr))
        for_own = np.ones(last - first, dtype=np.float32)
        mine = np.flatnonzero(votes.indices == own[row])
        for_own[row[mine]] += votes.data[mine]
        most, wanted, some = np.zeros_like(for_own), own.copy(), np.flatnonzero(np.diff(votes.indptr))
        if len(some):
            most[some] = np.maximum.reduceat(votes.data, votes.indptr[some])
        winning = np.flatnonzero(votes.data == most[row])
        wanted[row[winning]] = votes.indices[winning]  # of several, the last one written stays
        stays = (for_own > most) | ((for_own == most) & (own > wanted))
        chosen[first:last] = np.where(stays, own, wanted)
    used = np.zeros(len(label), dtype=bool)
    used[chosen] = True
    return (np.cumsum(used, dtype=np.int32) - 1)[chosen]


def _sampled_edges(edge_index: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Evenly spaced edges, at most :data:`SAMPLED`."""
    step = max(1, -(-edge_index.shape[1] // SAMPLED))
    row, col = (np.ascontiguousarray(part[::step].numpy()).astype(np.int32) for part in edge_index)
    release(edge_index)
    return row, col
