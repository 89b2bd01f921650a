"""Heads on graphs that stay on disk: what that takes of memory and disk, checked before the work, and a place for it.

The limit is on what the process itself takes (anonymous and shared memory). Pages of mapped files, scratch files among
them, belong to the system's cache, which gives them up when memory is needed. Where the scratch folder lies in memory
itself (tmpfs), it counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.downstream.self_training import MOST, SAMPLE
from plgc.downstream.weighing import MANY
from plgc.graphs.check import node_count
from plgc.runtime import mapped
from plgc.runtime.errors import SettingError
from plgc.runtime.files import cache_folder
from plgc.runtime.options import parse_memory
from plgc.runtime.progress import Progress, silent
from plgc.runtime.scratch import in_memory, scratch
from plgc.sparse.inputs import edge_weight
from plgc.sparse.on_disk import BLOCK_ENTRIES, BYTES_AN_ENTRY
from plgc.sparse.stored_inputs import HALF_FROM, LEAST_ROWS, StoredGraphs, columns_together, keeps_half

MIB = 1 << 20
BASE = 416 * MIB  # the interpreter and its libraries
A_NODE = 72  # bytes: labels and masks, and what choosing among them takes; where edges begin, degrees, norms
LEAST_BLOCK = 48 * MIB  # of rows, in all their forms
MOST_BLOCK = 512 * MIB  # larger ones are no quicker
LABEL_COPIES = 4  # of the rows with a label, while a head is trained on them
VIEWS = 4  # the labels as they are, and folds
FLOAT = 4  # bytes


@dataclass(frozen=True)
class Work:
    """How large the work on a graph is.

    Attributes:
        widths: of an embedding's parts, by name.
        classes: C.
        labels: that a head is trained on; 0 where one is only applied.
        models: how many embeddings are made.
    """

    widths: Mapping[str, int]
    classes: int
    labels: int = 0
    models: int = 1


def stays_on_disk(graph: Data, work: Work, memory: int | str | None) -> bool:
    """Whether a graph is left on disk: where memory is limited, and the graph is mapped or would not fit."""
    if memory is None:
        return False
    tensors = [tensor for tensor in _arrays(graph) if tensor.layout == torch.strided]
    columns, entries = sum(work.widths.values()), 0 if graph.edge_index is None else graph.edge_index.shape[1]
    whole = BASE + _held(graph) + 24 * entries + 2 * FLOAT * node_count(graph) * (columns + VIEWS * work.classes)
    return any(mapped.is_mapped(tensor) for tensor in tensors) or whole > parse_memory(memory)


@contextlib.contextmanager
def from_disk(
    graph: Data, work: Work, memory: int | str, folder: Path | str | None = None, progress: Progress = silent
) -> Iterator[StoredGraphs]:
    """A place for the work on a graph that stays on disk; tables that are made in it may outlive it.

    Args:
        graph: as :func:`plgc.load_graph` gives it.
        work: how large it is.
        memory: bytes to stay within, as a number or a text such as ``4GiB``.
        folder: for scratch files; by default the package's cache.
        progress: called while passes over all nodes go on.

    Raises:
        SettingError: memory or disk do not suffice.
    """
    limit, place = parse_memory(memory), Path(folder) if folder is not None else cache_folder()
    slice_bytes = max(limit // 3, MIB)
    disk = disk_bytes(graph, work, slice_bytes)
    with scratch(place, disk, "embedding this graph and its predictions") as room:
        needed = needed_memory(graph, work) + (disk if in_memory(place) else 0)
        check_limit(limit, needed, work, graph)
        graphs = StoredGraphs(room)
        widest = int(graphs.adjacency(graph).starts.diff().max()) * BYTES_AN_ENTRY
        check_limit(limit, needed := needed + max(0, widest - BYTES_AN_ENTRY * BLOCK_ENTRIES), work, graph)
        graphs.how = {
            "block_bytes": min(MOST_BLOCK, LEAST_BLOCK + (limit - needed) // 2),
            "slice_bytes": slice_bytes,
            "half_from": HALF_FROM,
            "progress": progress,
        }
        yield graphs


def needed_memory(graph: Data, work: Work) -> int:
    """The least memory in bytes with which a head is trained or applied."""
    columns = sum(work.widths.values())
    rows = (work.labels + MOST + SAMPLE) * (columns + VIEWS * work.classes) if work.labels else 0
    wide = FLOAT * LEAST_ROWS * 4 * (columns + VIEWS * work.classes)
    head = 8 * FLOAT * VIEWS * work.classes * columns
    block = max(LEAST_BLOCK, wide) + BYTES_AN_ENTRY * BLOCK_ENTRIES
    return BASE + _held(graph) + A_NODE * node_count(graph) + block + head + LABEL_COPIES * FLOAT * rows


def disk_bytes(graph: Data, work: Work, slice_bytes: int) -> int:
    """Bytes of scratch files at most at any time: what stays, and either products on the way or predictions.

    ``slice_bytes`` are those of the columns that are multiplied with Â at a time.
    """
    nodes, features = node_count(graph), 0 if graph.x is None else graph.x.shape[1]
    over_edges = work.widths.get("learned", 0)  # columns of the network with edges: the last product of its layers
    plain = sum(width for name, width in work.widths.items() if name.startswith("learned")) - over_edges
    together = columns_together(max(over_edges, features, 1), nodes, slice_bytes)
    half = keeps_half(nodes, features, HALF_FROM)  # then outputs without edges are computed again

    def taken(columns: int) -> int:
        return columns * FLOAT // 2 + FLOAT * -(-columns // together) if half else columns * FLOAT  # a factor a slice

    products = 2 * features + work.models * (features + over_edges + (0 if half else plain))  # of X again: sage, gin
    slices = 2 * columns_together(work.classes, nodes, slice_bytes)
    predictions = FLOAT * (_tables(work) * work.classes + slices)
    return nodes * (taken(products) + max(taken(over_edges) + FLOAT * together, predictions))


def _tables(work: Work) -> int:
    """How often predictions of all classes lie on disk at once: those of the labels' folds, smoothed ones, answers."""
    if not work.labels:
        return 3
    return 6 if work.labels <= MANY else 4


def check_limit(limit: int, needed: int, work: Work, graph: Data) -> None:
    """Raise :class:`SettingError` where a limit does not suffice."""
    if limit >= needed:
        return
    fewer = f", or learn from fewer than {work.labels:,} labels (--labels)" if work.labels > 2000 else ""
    raise SettingError(
        f"memory is {limit / MIB:,.0f} MiB: for a graph of {node_count(graph):,} nodes at least "
        f"{-(-needed // MIB):,} MiB are needed (--memory {-(-needed // MIB)}MiB){fewer}"
    )


def _arrays(graph: Data) -> list[Tensor]:
    found = (graph.x, graph.edge_index, edge_weight(graph))
    return [tensor for tensor in found if tensor is not None]


def _held(graph: Data) -> int:
    """Bytes of features and edges that are in memory already."""
    held = 0
    for tensor in _arrays(graph):
        if tensor.layout == torch.sparse_csr:
            held += 32 * tensor.values().numel()  # and their scaled form, and its transpose
        elif not mapped.is_mapped(tensor):
            held += 2 * tensor.numel() * tensor.element_size()
    return held
