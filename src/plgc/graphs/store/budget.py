"""What a run takes of memory and disk: the formulas, and the checks before the work.

Memory is what the process itself takes (anonymous memory); pages of mapped files belong to the system's cache, which
gives them up when memory is needed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from plgc.runtime.errors import SettingError

MIB = 1 << 20
BASE = 352 * MIB  # the interpreter and its libraries
BLOCKS = 64 * MIB  # the rows that are looked at, in all forms they take
LEAST_SORT = 16 * MIB  # what edges are sorted in
A_NODE = 56  # bytes: labels, one column, copies of it while its quartiles are found; or ids, hashes and their order
A_FOUND_NODE = 24  # bytes while edges are read: sorted ids or their hashes, and the places of the nodes
A_KEY, A_WEIGHTED_KEY = 24, 56  # bytes that an edge takes in one direction while it is sorted

ROW, WEIGHTED_ROW = 32, 64  # bytes on disk for each row of the edge list: sorted runs, and what is made of them
CELL = 12  # bytes on disk for each cell of the node table: eight in a column, four as a feature


def needed_memory(nodes: int, more: int = 0) -> int:
    """The least memory in bytes with which a graph of so many nodes can be stored."""
    return BASE + BLOCKS + LEAST_SORT + A_NODE * nodes + more


def check_memory(memory: int, nodes: int, more: int = 0) -> None:
    """Raise :class:`SettingError` where memory does not suffice; ``more`` is what is read whole beside the nodes."""
    if memory < (needed := needed_memory(nodes, more)):
        raise SettingError(
            f"memory is {memory / MIB:,.0f} MiB: storing a graph of {nodes:,} nodes needs at least "
            f"{-(-needed // MIB):,} MiB (--memory {-(-needed // MIB)}MiB)"
        )


def sorted_keys(memory: int, nodes: int, weighted: bool) -> int:
    """How many edges, each in one direction, are sorted at a time."""
    left = memory - BASE - BLOCKS - A_FOUND_NODE * nodes
    return max(LEAST_SORT, left) // (A_WEIGHTED_KEY if weighted else A_KEY)


def edges_on_disk(rows: int, weighted: bool) -> int:
    """Bytes that the edges of so many rows take while they are sorted."""
    return rows * (WEIGHTED_ROW if weighted else ROW)


def check_disk(folder: Path, needed: int) -> None:
    """Raise :class:`SettingError` where the disk of a folder has fewer bytes free than what is still to be written."""
    if (free := shutil.disk_usage(folder).free) < needed:
        raise SettingError(
            f"storing this graph takes up to {needed:,} bytes of disk, {free:,} are free in {folder}: make room, or "
            "choose another place"
        )
