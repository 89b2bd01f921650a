"""The task that condenses one source: what is requested, and the work itself.

A task reads its graph from a file and writes its result to a file, in every engine: so all of them give the same bytes,
and only paths are sent to workers.
"""

from __future__ import annotations

import copy
import io
import os
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from plgc.graphs.attributes import Seen
from plgc.graphs.bare import BareGraph, bare_graph, strip_labels
from plgc.graphs.formats.npz import save_npz
from plgc.graphs.load import load_graph
from plgc.method.condense import condense, resolve_count
from plgc.runtime.checkpoint import CheckpointFolder, checkpoint_folder
from plgc.runtime.files import write_atomically
from plgc.runtime.memory import watched_memory
from plgc.runtime.provenance import peak_memory, reset_peak_memory
from plgc.sources.engine import Placement
from plgc.sources.options import SourceOptions
from plgc.sources.origin import StoredPart, origin, part_origin


@dataclass(frozen=True)
class SourceRequest:
    """A source to be made: its name, its graph, and its size.

    ``graph`` is a path, a graph, or a function that makes the graph when it is needed; a part of a graph on disk, which
    is cut later; None where the graph is not at hand, and the file that is in the folder already is to be kept.
    """

    name: str
    graph: Path | Data | Callable[[], Data] | StoredPart | None
    nodes: int | None
    ratio: float | None

    def read(self) -> Path | BareGraph | StoredPart | None:
        """The graph without labels, under the name of the source; or where it is."""
        if self.graph is None or isinstance(self.graph, Path | StoredPart):
            return self.graph
        graph = copy.copy(self.graph if isinstance(self.graph, Data) else self.graph())  # a Data can be called, too
        graph.name = self.name  # for error messages
        return bare_graph(graph)


@dataclass(frozen=True)
class SourceTask:
    """What a worker needs to condense one source: paths, size, seed and options."""

    name: str
    graph: str
    folder: str
    nodes: int | None
    ratio: float | None
    seed: int
    options: SourceOptions
    core: str | None = None
    seen: Seen | None = None
    origin: str | None = None


def source_task(
    request: SourceRequest, graph: Path | BareGraph | StoredPart, folder: Path, seed: int, options: SourceOptions
) -> SourceTask:
    """The task of a source; a graph that is no file is written to the private folder, its core mask beside it."""
    size, name = (request.nodes, request.ratio), request.name
    if isinstance(graph, Path):
        return SourceTask(name, str(graph), str(folder), *size, seed, options)
    if isinstance(graph, StoredPart):
        made_from = part_origin(graph, resolve_count(graph.nodes, request.ratio, request.nodes), seed, options)
        return SourceTask(name, str(graph.path), str(folder), *size, seed, options, seen=graph.seen, origin=made_from)
    data = Data(x=graph.x, edge_index=graph.edge_index, edge_weight=graph.edge_weight, num_nodes=graph.num_nodes)
    path, core = save_npz(data, folder / f"{name}.npz"), None
    if graph.core_mask is not None:
        content = io.BytesIO()
        np.save(content, graph.core_mask.numpy())
        core = str(write_atomically(folder / f"{name}.core.npy", content.getvalue()))
    return SourceTask(name, str(path), str(folder), *size, seed, options, core, graph.seen)


def largest_first(tasks: Sequence[SourceTask], placement: Placement) -> list[SourceTask]:
    """The tasks by the size of their graphs, so that no large one is left at the end; one after the other as given."""
    if placement.engine == "serial":
        return list(tasks)
    return sorted(tasks, key=lambda task: -_size(Path(task.graph)))


def _size(path: Path) -> int:
    """Bytes of a file, or of the files in a folder; 0 where there is none."""
    try:
        return sum(one.stat().st_size for one in path.iterdir()) if path.is_dir() else path.stat().st_size
    except OSError:
        return 0


def read_graph(path: Path, core: str | None = None, seen: Seen | None = None) -> BareGraph:
    """The graph of a file without labels, with a core mask from another; ``seen`` is the file's own by default."""
    graph = strip_labels(load_graph(path, notice=False))
    graph = graph if seen is None else replace(graph, seen=seen)
    return graph if core is None else replace(graph, core_mask=torch.from_numpy(np.load(core, allow_pickle=False)))


@dataclass(frozen=True)
class MadeSource:
    """What a task leaves: the file, in the private folder, what it was made from, and what it took."""

    path: str
    origin: str
    seconds: float
    peak_memory_bytes: int | None


def condense_source(task: SourceTask) -> MadeSource:
    """Condense one source. The file has a name that no other attempt uses."""
    start, options = time.perf_counter(), task.options
    device = options.compute.device
    reset_peak_memory(device)
    with watched_memory(alone=True) as usage:
        graph = read_graph(Path(task.graph), task.core, task.seen)
        count = resolve_count(graph.num_own, task.ratio, task.nodes)
        condensed = condense(
            graph,
            nodes=count,
            seed=task.seed,
            settings=options.settings,
            compute=options.compute,
            release=options.release,
            progress=False,
            checkpoint=source_checkpoints(Path(task.folder).parent, task.name),
        )
        path = condensed.save(os.path.join(task.folder, f"{task.name}-{uuid.uuid4().hex}.made"))
    made_from = task.origin or origin(graph, count, task.seed, options)
    peak = peak_memory(device) if device.startswith("cuda") else usage.memory
    return MadeSource(str(path), made_from, time.perf_counter() - start, peak)


def source_checkpoints(folder: Path, name: str) -> CheckpointFolder:
    """Where a source that takes over a minute keeps checkpoints until it is finished: ``OUT/NAME.checkpoint``."""
    return checkpoint_folder(None, folder / name)
