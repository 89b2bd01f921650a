"""Write the parts of a graph on disk as graphs on disk, in a few passes over it for all of them together.

What a node belongs to is a set of parts: its own, and those whose halo it is in. Sets of up to 64 parts are the bits of
one number per node. A pass over the edges per hop of the halo grows the sets, a pass over the features writes the rows
of every part, and a pass over the edges writes those of every part with the numbers of the whole graph; they are
renumbered part by part. No step holds features or edges in memory.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.attributes import attribute
from plgc.graphs.check import BLOCK_EDGES, node_count
from plgc.graphs.formats.npy import write_header
from plgc.graphs.formats.stored import flush_folder
from plgc.graphs.views.edges import edges_of
from plgc.graphs.views.stream import node_blocks, row_starts
from plgc.runtime.errors import SettingError
from plgc.runtime.files import WriteError
from plgc.runtime.mapped import blocks, is_mapped, release
from plgc.runtime.progress import Progress

AT_ONCE = 64  # parts: bits of a number
CORE, NODES = "core_mask.npy", "node_index.npy"  # beside the files of the graph itself


def can_be_cut_on_disk(graph: Data) -> bool:
    """Whether a graph is one on disk, with dense features, whose edges are in order."""
    x, edges = graph.x, graph.edge_index
    return x is not None and edges is not None and x.layout == torch.strided and is_mapped(edges)


def write_parts(
    graph: Data, part: np.ndarray, wanted: Sequence[int], folder: Path, *, halo: int, progress: Progress
) -> None:
    """Write the parts ``wanted`` of a partition, with their halo, as :func:`part_folder` of each, whole or not at all.

    A folder has the nodes, renumbered in order, with ``core_mask`` (False for the halo) and ``node_index``, as
    :func:`plgc.graphs.views.partition.cut_part` gives them, and the edges among them; no labels.

    Args:
        graph: as :func:`plgc.load_graph` gives one on disk; see :func:`can_be_cut_on_disk`.
        part: the part of every node, integers [N].
        wanted: numbers of parts, from 0.
        folder: where they are written.
        halo: hops around a part.
        progress: is told what is done.

    Raises:
        SettingError: the disk has too little room.
        WriteError: it could not be written; no half part is left.
    """
    starts = row_starts(edges_of(graph), node_count(graph))
    for first in range(0, len(wanted), AT_ONCE):
        numbers = list(wanted[first : first + AT_ONCE])
        progress(f"cutting {len(numbers)} parts", first, len(wanted))
        work = folder / "cutting"
        shutil.rmtree(work, ignore_errors=True)
        try:
            work.mkdir(parents=True)
            _write_together(graph, _Sets(part, numbers), starts, halo, work)
            for place, number in enumerate(numbers):
                done = work / str(place)
                flush_folder(done)
                os.rename(done, part_folder(folder, number))
        except OSError as error:
            if isinstance(error, WriteError):
                raise
            raise WriteError(
                f"cannot write the parts of the graph into {folder}: {error.strerror or error}; nothing is left of "
                "those that were not finished. Make room, and do the same again"
            ) from error
        finally:
            shutil.rmtree(work, ignore_errors=True)


def part_folder(folder: Path, number: int) -> Path:
    """Where a part is, counted from 1 as in its name."""
    return folder / f"part{number + 1}"


class _Sets:
    """Which of some parts every node belongs to: bits of one number per node."""

    def __init__(self, part: np.ndarray, numbers: Sequence[int]) -> None:
        kind = next(np.dtype(f"u{size}") for size in (1, 2, 4, 8) if 8 * size >= len(numbers))
        self.part, self.numbers = part, numbers
        bit = np.zeros(int(part.max()) + 1, dtype=kind)
        bit[numbers] = [1 << place for place in range(len(numbers))]
        self.bits = bit[part]

    def grow(self, edge_index: Tensor, starts: np.ndarray) -> None:
        """Add the neighbours of every part to it."""
        grown = self.bits.copy()
        for first, last, neighbours in node_blocks(edge_index, starts):
            begins = starts[first:last] - starts[first]
            some = np.flatnonzero(np.diff(starts[first : last + 1]))
            if len(some):
                grown[first + some] |= np.bitwise_or.reduceat(self.bits[neighbours], begins[some])
        self.bits = grown

    def members(self, bits: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """For every part, by its place, where the bits of it are set."""
        present = np.bitwise_or.reduce(bits) if len(bits) else 0
        for place in range(len(self.numbers)):
            if int(present) >> place & 1:
                yield place, np.flatnonzero((bits & bits.dtype.type(1 << place)) != 0)

    def sizes(self) -> np.ndarray:
        """Nodes of every part, with its halo."""
        sizes = np.zeros(len(self.numbers), dtype=np.int64)
        for begin in range(0, len(self.bits), BLOCK_EDGES):
            for place, found in self.members(self.bits[begin : begin + BLOCK_EDGES]):
                sizes[place] += len(found)
        return sizes


@dataclass(frozen=True)
class _Raw:
    """The files that the edges of one part are written to with the numbers of the whole graph."""

    folder: Path

    @property
    def ends(self) -> tuple[Path, Path]:
        return self.folder / "row.raw", self.folder / "column.raw"

    @property
    def weight(self) -> Path:
        return self.folder / "weight.raw"


def _write_together(graph: Data, sets: _Sets, starts: np.ndarray, halo: int, work: Path) -> None:
    edge_index, x, weight = edges_of(graph), graph.x, attribute(graph, "edge_weight")
    assert x is not None
    for _ in range(halo):
        sets.grow(edge_index, starts)
    sizes = sets.sizes()
    width = x.shape[1] * (2 if x.dtype == torch.float16 else 4) + 9
    _check_room(work, int(sizes.sum()) * width)
    raws = [_Raw(work / str(place)) for place in range(len(sizes))]
    for raw in raws:
        raw.folder.mkdir()
    _write_nodes(x, sets, sizes, work)
    entries = _spill_edges(edge_index, weight, sets, raws)
    number = np.zeros(len(sets.bits), dtype=np.int32)
    for place, raw in enumerate(raws):
        members = np.load(raw.folder / NODES, mmap_mode="r", allow_pickle=False)
        number[members] = np.arange(len(members), dtype=np.int32)
        _join_edges(raw, number, int(entries[place]), weight is not None)


def _check_room(folder: Path, needed: int) -> None:
    if (free := shutil.disk_usage(folder).free) < needed:
        raise SettingError(
            f"the parts of the graph take at least {needed:,} bytes of disk, {free:,} are free in {folder.parent}: "
            "make room, choose another place, or ask for a smaller halo, and do the same again"
        )


def _write_nodes(x: Tensor, sets: _Sets, sizes: np.ndarray, work: Path) -> None:
    """One pass over the features: rows, core mask and numbers of every part."""
    kind = np.dtype(np.float16 if x.dtype == torch.float16 else np.float32)
    with ExitStack() as stack:
        files = {}
        for place, size in enumerate(sizes.tolist()):
            shapes = {"x.npy": (kind, (size, x.shape[1])), CORE: (np.dtype(bool), (size,)), NODES: ("<i8", (size,))}
            for name, (dtype, shape) in shapes.items():
                file = files[place, name] = stack.enter_context(open(work / str(place) / name, "wb"))
                write_header(file, np.dtype(dtype), shape)
        for begin, block in blocks(x):
            rows = block.numpy()
            bits, part = sets.bits[begin : begin + len(rows)], sets.part[begin : begin + len(rows)]
            for place, found in sets.members(bits):
                files[place, "x.npy"].write(np.ascontiguousarray(rows[found], dtype=kind).data)
                files[place, CORE].write((part[found] == sets.numbers[place]).data)
                files[place, NODES].write((begin + found).astype("<i8").data)


def _spill_edges(edge_index: Tensor, weight: Tensor | None, sets: _Sets, raws: Sequence[_Raw]) -> np.ndarray:
    """One pass over the edges: those of every part, in order; returns how many each has."""
    entries, total = np.zeros(len(raws), dtype=np.int64), edge_index.shape[1]
    with ExitStack() as stack:
        files = [[stack.enter_context(open(path, "wb")) for path in raw.ends] for raw in raws]
        weights = [] if weight is None else [stack.enter_context(open(raw.weight, "wb")) for raw in raws]
        for begin in range(0, total, BLOCK_EDGES):
            edges = edge_index[:, begin : begin + BLOCK_EDGES].numpy()
            both = sets.bits[edges[0]] & sets.bits[edges[1]]
            for place, found in sets.members(both):
                for file, end in zip(files[place], edges, strict=True):
                    file.write(end[found].astype(np.int32).data)
                if weight is not None:
                    weights[place].write(weight[begin : begin + BLOCK_EDGES].numpy()[found].astype(np.float32).data)
                entries[place] += len(found)
            release(edge_index)
    return entries


def _join_edges(raw: _Raw, number: np.ndarray, entries: int, weighted: bool) -> None:
    """``edge_index.npy`` of a part from its raw ends, renumbered; the raw files are removed."""
    with open(raw.folder / "edge_index.npy", "wb") as file:
        write_header(file, np.dtype(np.int32), (2, entries))
        for path in raw.ends:
            with open(path, "rb") as ends:
                while chunk := ends.read(4 * BLOCK_EDGES):
                    file.write(number[np.frombuffer(chunk, dtype=np.int32)].data)
            path.unlink()
    if weighted:
        with open(raw.folder / "edge_weight.npy", "wb") as file, open(raw.weight, "rb") as values:
            write_header(file, np.dtype(np.float32), (entries,))
            shutil.copyfileobj(values, file)
        raw.weight.unlink()
