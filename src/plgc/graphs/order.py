"""Whether edges already are as we want them: in both directions, once each, sorted, without self-loops.

One pass tells, in little memory. Sums of well-mixed 64-bit numbers, one for every edge, are equal for the two
directions where each edge has its mirror image; that they are equal by chance has a probability of about 2⁻⁶⁴, and
building Â compares the two directions one by one once more.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from plgc.runtime.mapped import release

EDGES = 1 << 20  # that are looked at at a time


def in_order(edge_index: Tensor, nodes: int, weight: Tensor | None = None) -> bool:
    """Whether edges within range are symmetric, strictly sorted by (row, column) and no self-loops; weights likewise.

    Args:
        edge_index: integers [2, E], all from 0 to ``nodes`` − 1.
        nodes: N, below 2³¹.
        weight: float32 [E]; those of an edge's two directions must be the same.
    """
    last, count, total = -1, 0, 0  # edges to larger nodes count plus, those to smaller nodes minus
    for start in range(0, edge_index.shape[1], EDGES):
        row, column = edge_index[:, start : start + EDGES].numpy().astype(np.int64)
        key = row * nodes + column
        if key[0] <= last or (key[1:] <= key[:-1]).any() or (row == column).any():
            return False
        last = int(key[-1])
        up = row < column
        mixed = _mix(np.where(up, key, column * nodes + row).view(np.uint64))
        if weight is not None:
            mixed = _mix(mixed ^ weight[start : start + EDGES].numpy().view(np.uint32))
        total += int(mixed[up].sum(dtype=np.uint64)) - int(mixed[~up].sum(dtype=np.uint64))
        count += 2 * int(up.sum()) - len(up)
        release(edge_index)
    return count == 0 and total % 2**64 == 0


def _mix(key: np.ndarray) -> np.ndarray:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, 2014): every bit of the key changes half of the result's."""
    key = key + np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))
