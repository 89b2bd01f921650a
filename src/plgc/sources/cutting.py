"""The parts of a graph on disk: cut once, kept until the files made from them are finished.

They are in a private folder inside the output, named by a digest of the graph's content and of how it is cut. The same
command finds there what an earlier one has cut; parts whose file is finished are removed, and the folder at the end.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from plgc._version import __version__
from plgc.graphs.attributes import seen_of
from plgc.graphs.formats.npy import write_header
from plgc.graphs.views.edges import edges_of
from plgc.graphs.views.partition import check_halo, cut_edges, partition_nodes
from plgc.graphs.views.parts_on_disk import part_folder, write_parts
from plgc.runtime.checkpoint import run_key
from plgc.runtime.files import check_writable, folder_lock, private_folder, write_atomically
from plgc.runtime.progress import Progress
from plgc.sources.origin import StoredPart
from plgc.sparse.inputs import fingerprint

CUTS = ".plgc-parts-"
PARTITION, COUNTS = "partition.npy", "counts.json"


@dataclass(frozen=True)
class Cut:
    """A graph on disk and its partition.

    Attributes:
        graph: the whole graph.
        halo: hops around a part.
        folder: where the parts are, or will be.
        digest: of the graph and of how it is cut.
        sizes: nodes of every part.
        counts: ``edges`` and ``edges_cut``.
    """

    graph: Data
    halo: int
    folder: Path
    digest: str
    sizes: tuple[int, ...]
    counts: dict[str, int]

    def parts(self) -> list[StoredPart]:
        """Every part, cut or not."""
        seen = seen_of(self.graph)
        return [
            StoredPart(part_folder(self.folder, number), size, f"{self.digest} {number}", seen)
            for number, size in enumerate(self.sizes)
        ]

    def make(self, wanted: Sequence[StoredPart], progress: Progress) -> None:
        """Cut those parts that are not there."""
        paths = {part.path for part in wanted if not part.path.is_dir()}
        numbers = [number for number, part in enumerate(self.parts()) if part.path in paths]
        if numbers:
            partition = np.load(self.folder / PARTITION, allow_pickle=False)
            write_parts(self.graph, partition, numbers, self.folder, halo=self.halo, progress=progress)

    def clear(self) -> None:
        """Remove all of it."""
        shutil.rmtree(self.folder, ignore_errors=True)


def cut_on_disk(graph: Data, out: Path, parts: int, how: str, *, halo: int, seed: int, progress: Progress) -> Cut:
    """The partition of a graph on disk: the one that an earlier call of the same kind has left, else a new one.

    What other calls have left is removed.
    """
    check_halo(halo)
    how_cut = {"parts": parts, "how": how, "seed": seed, "plgc": __version__}
    progress("reading the graph", 0, 1)
    digest = run_key(graph=fingerprint(graph), **how_cut)
    folder = out.absolute() / f"{CUTS}{run_key(cut=digest, halo=halo)[:16]}"
    check_writable(out / COUNTS)
    with folder_lock(out):
        for other in out.glob(f"{CUTS}*"):
            if other.name != folder.name:
                shutil.rmtree(other, ignore_errors=True)
        found = _found(folder)
        if found is None:
            progress(f"cutting the graph into {parts} parts", 0, 1)
            found = _partition(graph, folder, parts, how, seed)
    sizes = tuple(found.pop("sizes"))
    return Cut(graph, halo, folder, run_key(cut=digest, halo=halo), sizes, found)


def _partition(graph: Data, folder: Path, parts: int, how: str, seed: int) -> dict[str, Any]:
    """Cut the graph, and keep where every node belongs, and how many edges are cut."""
    partition, edges = partition_nodes(graph, parts, how, seed=seed), edges_of(graph)
    found = {
        "sizes": torch.bincount(partition).tolist(),
        "edges": edges.shape[1] // 2,
        "edges_cut": cut_edges(edges, partition),
    }
    private_folder(folder)
    write_atomically(folder / PARTITION, _npy(partition.numpy().astype(np.int32)))
    write_atomically(folder / COUNTS, json.dumps(found).encode())
    return found


def _npy(array: np.ndarray) -> Iterator[bytes]:
    """A file of an array, in two pieces."""
    header = io.BytesIO()
    write_header(header, array.dtype, array.shape)
    yield header.getvalue()
    yield array.data.cast("B")  # pyright: ignore[reportReturnType]


def _found(folder: Path) -> dict[str, Any] | None:
    """What is known of a partition that is there; None where it is not, or damaged."""
    try:
        found = json.loads((folder / COUNTS).read_text())
        whole = np.load(folder / PARTITION, mmap_mode="r", allow_pickle=False).shape == (sum(found["sizes"]),)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if whole else None
