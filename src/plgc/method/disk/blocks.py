"""Passes over all nodes of a graph on disk: a block of rows at a time, from files and into files."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from plgc.method.disk.inputs import StoredInputs
from plgc.runtime.mapped import release
from plgc.runtime.scratch import Scratch
from plgc.sparse.features import StoredFeatures
from plgc.sparse.on_disk import stream_product

BLOCK = 64 << 20  # bytes that the rows of a block take, with what is made of them
FEWEST, MOST = 64, 16_384  # rows of a block

Rows = Callable[[slice | Tensor], Tensor]  # some rows of an array of N
Report = Callable[[str], None]


def ignored(_: str) -> None:
    """A report that no one wants."""


def rows_a_block(width: int) -> int:
    """How many rows are looked at at a time, where each takes so many numbers."""
    return max(FEWEST, min(MOST, BLOCK // (4 * max(1, width))))


def node_blocks(nodes: int, width: int, report: Report, what: str) -> Iterator[slice]:
    """Consecutive nodes, as slices, with a report of how far the pass is."""
    step = rows_a_block(width)
    for start in range(0, nodes, step):
        report(f"all nodes, {what}: {start / nodes:.0%}")
        yield slice(start, min(start + step, nodes))


def feature_rows(x: StoredFeatures) -> Rows:
    """X by rows, scaled."""

    def rows(which: slice | Tensor) -> Tensor:
        if isinstance(which, Tensor):
            return x.rows(which)
        found = x.matrix[which].to(torch.float32)
        release(x.matrix)
        return found if x.norm is None else found / x.norm[which, None]

    return rows


def written(inputs: StoredInputs, rows: Rows, width: int, scratch: Scratch, report: Report, what: str) -> Tensor:
    """An array of N rows in a file."""
    result = scratch.empty(inputs.num_nodes, width)
    for block in node_blocks(inputs.num_nodes, 4 * width, report, what):
        result[block] = rows(block)
        release(result)
    return result


def propagated(inputs: StoredInputs, dense: Tensor, result: Tensor, report: Report, what: str) -> Tensor:
    """Â H into a file."""
    for start, rows in stream_product(inputs.adjacency, dense, rows=rows_a_block(dense.shape[1])):
        report(f"all nodes, {what}: {start / inputs.num_nodes:.0%}")
        result[start : start + len(rows)] = rows
        release(result)
    return result
