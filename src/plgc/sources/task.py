"""The task that condenses one source: what is requested, the options that all sources share, and the work itself.

A task reads its graph from a file and writes its result to a file, in every engine: so all of them give the same bytes,
and only paths are sent to workers.
"""

from __future__ import annotations

import io
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from plgc.graphs.attributes import attribute
from plgc.graphs.formats.npz import save_npz
from plgc.graphs.load import load_graph, unlabelled
from plgc.method import settings as config
from plgc.method.condense import condense
from plgc.method.release import Release, privatise
from plgc.method.settings import CondenseSettings
from plgc.runtime.checkpoint import CheckpointFolder, checkpoint_folder
from plgc.runtime.compute import Compute, check_precision
from plgc.runtime.errors import SettingError
from plgc.runtime.files import write_atomically
from plgc.runtime.provenance import peak_memory, reset_peak_memory
from plgc.sources.engine import Placement


@dataclass(frozen=True)
class SourceOptions:
    """How the sources of a call are condensed, the same for all."""

    settings: CondenseSettings
    release: Release
    compute: Compute

    @property
    def recorded(self) -> dict[str, Any]:
        """The settings as a condensed file records them."""
        release = self.release
        noisy = {} if release.clip is None else {"clip": release.clip, "noise": float(release.noise)}
        return {**self.settings.to_dict(), **noisy}

    @property
    def published(self) -> dict[str, Any]:
        """The settings that the manifest names; all others are in the files."""
        return {
            "preset": self.settings.preset,
            "min_cluster": self.settings.min_cluster,
            "max_share": self.settings.max_share,
            "clip": self.release.clip,
            "noise": float(self.release.noise),
            "fingerprint": self.release.fingerprint,
            "threads": self.compute.threads,
        }


def source_options(
    preset: str, settings: CondenseSettings | None, release: Release, compute: Compute, placement: Placement
) -> SourceOptions:
    """Put the options together and check them, before any work begins."""
    if compute.threads is not None:
        raise SettingError(f"threads is {compute.threads}: for several sources give cpus, the threads of each")
    if release.fingerprint and release.clip is not None:
        raise SettingError("clipped and noisy files carry no fingerprint of the graph: leave one of the two out")
    chosen = settings if settings is not None else config.preset(preset)
    chosen = config.adapted(chosen, release.min_cluster, release.max_share, compute.precision)
    check_precision(chosen.pseudo_labels.precision, compute.device)
    return SourceOptions(chosen, release, replace(compute, threads=placement.cpus))


@dataclass(frozen=True)
class SourceRequest:
    """A source to be made: its name, its graph, and its size.

    ``graph`` is a path, a graph, or a function that makes the graph when it is needed; None where the graph is not at
    hand, and the file that is in the folder already is to be kept.
    """

    name: str
    graph: Path | Data | Callable[[], Data] | None
    nodes: int | None
    ratio: float | None

    def read(self) -> Path | Data | None:
        """The graph in our form, without labels, under the name of the source; or its path."""
        if self.graph is None or isinstance(self.graph, Path):
            return self.graph
        graph = self.graph if isinstance(self.graph, Data) else self.graph()  # a Data can be called, too
        bare = unlabelled(graph)
        bare.name = self.name  # for error messages
        bare = load_graph(bare)
        bare.seen = attribute(graph, "seen")
        return bare


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
    seen: dict[str, Any] | None = None


def source_task(
    request: SourceRequest, graph: Path | Data, folder: Path, seed: int, options: SourceOptions
) -> SourceTask:
    """The task of a source; a graph that is no file is written to the private folder, its core mask beside it."""
    core = seen = None
    if isinstance(graph, Path):
        path = graph
    else:
        path, seen = save_npz(unlabelled(graph), folder / f"{request.name}.npz"), attribute(graph, "seen")
        if (mask := attribute(graph, "core_mask")) is not None:
            content = io.BytesIO()
            np.save(content, mask.numpy())
            core = str(write_atomically(folder / f"{request.name}.core.npy", content.getvalue()))
    return SourceTask(
        request.name, str(path), str(folder), request.nodes, request.ratio, seed, options, core=core, seen=seen
    )


def condense_source(task: SourceTask) -> tuple[str, float, int | None]:
    """Condense one source; the file's path, in the private folder, the seconds and the peak memory in bytes.

    The file has a name that no other attempt uses.
    """
    start, options = time.perf_counter(), task.options
    device, release = options.compute.device, options.release
    reset_peak_memory(device)
    condensed = condense(
        _read_graph(task),
        nodes=task.nodes,
        ratio=task.ratio,
        seed=task.seed,
        settings=options.settings,
        device=device,
        fingerprint=release.fingerprint,
        checkpoint=source_checkpoints(Path(task.folder).parent, task.name),
        memory=options.compute.memory,
    )
    if release.clip is not None:
        condensed = privatise(condensed, clip=release.clip, noise=float(release.noise))
    path = condensed.save(os.path.join(task.folder, f"{task.name}-{uuid.uuid4().hex}.made"))
    return str(path), time.perf_counter() - start, peak_memory(device)


def source_checkpoints(folder: Path, name: str) -> CheckpointFolder:
    """Where a source that takes over a minute keeps checkpoints until it is finished: ``OUT/NAME.checkpoint``."""
    return checkpoint_folder(None, folder / name)


def _read_graph(task: SourceTask) -> Data:
    graph = unlabelled(load_graph(Path(task.graph)))
    if task.core is not None:
        graph.core_mask = torch.from_numpy(np.load(task.core, allow_pickle=False))
    if task.seen is not None:
        graph.seen = task.seen
    return graph
