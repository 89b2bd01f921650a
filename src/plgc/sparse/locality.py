"""An order of the nodes in which neighbours lie close together, so that what a product gathers is still in the cache.

Communities are found by label propagation: every node takes the label most common around it, a few times over. The
communities are then nodes of a smaller graph that is treated alike, and so on; nodes are sorted by their community at
the coarsest level first. The order depends on the edges alone and is the same every time.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

ROUNDS = 3  # of label propagation at each level
LEVELS = 6
ENTRIES_A_NODE = 8  # of a denser graph, evenly spaced edges are looked at, so many a node on average


def local_order(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Node numbers [N] in an order in which neighbours are close; nothing about the graph changes but the order."""
    step = max(1, edge_index.shape[1] // (ENTRIES_A_NODE * max(1, num_nodes)))
    row, col = (part[::step].cpu().numpy() for part in edge_index)
    ones = np.ones(len(row), dtype=np.float32)
    matrix = sp.csr_array((ones, (row, col)), shape=(num_nodes, num_nodes))
    matrix = sp.csr_array(matrix + sp.diags_array(np.ones(num_nodes, dtype=np.float32)))
    return torch.from_numpy(np.lexsort(community_keys(matrix, np.arange(num_nodes), LEVELS)))


def community_keys(matrix: sp.csr_array, place: np.ndarray, levels: int) -> list[np.ndarray]:
    """The community of every node at every level, the finest first; ``place`` says which row of the matrix it is."""
    keys: list[np.ndarray] = []
    for _ in range(levels):
        label = _spread_labels(matrix)
        place = label[place]
        keys.append(place)
        members = _membership(label)
        matrix = sp.csr_array(members.T @ matrix @ members)
        matrix.setdiag(0.5)  # a community's own edges would outvote all others: it is to join one
    return keys


def _spread_labels(matrix: sp.csr_array) -> np.ndarray:
    """Labels 0, 1, … after a few rounds in which each node takes the heaviest label among its neighbours."""
    label = np.arange(len(matrix.indptr) - 1)
    for _ in range(ROUNDS):
        votes = sp.csr_array(matrix @ _membership(label))
        most = np.maximum.reduceat(votes.data, votes.indptr[:-1])
        row = np.repeat(np.arange(len(label)), np.diff(votes.indptr))
        winning = np.flatnonzero(votes.data == most[row])[::-1]
        label[row[winning]] = votes.indices[winning]  # of several, the last one written stays
        label = np.unique(label, return_inverse=True)[1]
    return label


def _membership(label: np.ndarray) -> sp.csr_array:
    """[nodes, labels]: a one in each row."""
    nodes = len(label)
    return sp.csr_array(
        (np.ones(nodes, dtype=np.float32), label, np.arange(nodes + 1)), shape=(nodes, int(label.max()) + 1)
    )
