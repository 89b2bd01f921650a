"""How sources are condensed: what is the same for all, what each gets of the nodes and which seed, and the work itself.

A task reads its graph from a file and leaves its result in a file, in every engine: so all of them give the same bytes,
and nothing but paths travels.
"""

from __future__ import annotations

import io
import math
import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from plgc.graphs.formats.npz import save_npz
from plgc.graphs.load import load_graph, unlabelled
from plgc.method.condense import choose_settings, condense
from plgc.method.release import Release, privatise
from plgc.method.settings import CondenseSettings
from plgc.runtime.checkpoint import CheckpointFolder, checkpoint_folder
from plgc.runtime.compute import Compute, parse_memory
from plgc.runtime.errors import SettingError
from plgc.runtime.files import write_atomically
from plgc.runtime.provenance import peak_memory, reset_peak_memory

LEAST_NODES = 2  # of a source: what condensation needs
SEED_STEP = 1000


@dataclass(frozen=True)
class Recipe:
    """What all sources of a call have in common."""

    settings: CondenseSettings
    clip: float | None = None
    noise: float = 0.0
    fingerprint: bool = False
    device: str = "cpu"
    cpus: int = 1
    memory: int | None = None

    @property
    def recorded(self) -> dict[str, Any]:
        """The settings as the files say them."""
        noisy = {} if self.clip is None else {"clip": self.clip, "noise": self.noise}
        return {**self.settings.to_dict(), **noisy}

    @property
    def published(self) -> dict[str, Any]:
        """What a manifest says of them; everything else is in the files."""
        return {
            "preset": self.settings.preset,
            "min_cluster": self.settings.min_cluster,
            "max_share": self.settings.max_share,
            "clip": self.clip,
            "noise": self.noise,
            "fingerprint": self.fingerprint,
            "threads": self.cpus,
        }


@dataclass(frozen=True)
class Work:
    """One source for one task: where its graph lies, where the result belongs, how large and from which seed."""

    name: str
    graph: str
    folder: str
    nodes: int | None
    ratio: float | None
    seed: int
    core: str | None = None
    seen: dict[str, Any] | None = None


@dataclass(frozen=True)
class Made:
    """What a task leaves: a file in the work folder, and what it took."""

    path: str
    seconds: float
    peak_memory_bytes: int | None


def make_recipe(
    preset: str,
    settings: CondenseSettings | None,
    min_cluster: int | None,
    max_share: float | None,
    clip: float | None,
    noise: float,
    fingerprint: bool,
    device: str,
    cpus: int,
    memory: int | str | None = None,
    precision: str | None = None,
) -> Recipe:
    """Put the settings together and check them, before any work begins."""
    chosen = choose_settings(preset, settings, Compute(device, precision=precision), Release(min_cluster, max_share))
    check_noise(clip, noise)
    if fingerprint and clip is not None:
        raise SettingError("clipped and noisy files carry no fingerprint of the graph: leave one of the two out")
    return Recipe(
        chosen, clip, float(noise), fingerprint, device, cpus, None if memory is None else parse_memory(memory)
    )


def check_noise(clip: float | None, noise: float) -> None:
    """Raise unless :func:`plgc.method.release.privatise` would take these, or nothing is asked of it."""
    if noise and clip is None:
        raise SettingError(f"noise is {noise}, but clip is not given: it is measured by the norm that rows are cut to")
    if clip is not None and not 0 < clip < math.inf:
        raise SettingError(f"clip is {clip}: it must be a number above 0")
    if not 0 <= noise < math.inf:
        raise SettingError(f"noise is {noise}: it must be a number, at least 0")


def source_seed(seed: int, place: int) -> int:
    """The seed of the source at a place, counted from 0: 1000 · (place + 1) + seed."""
    return SEED_STEP * (place + 1) + seed


def share_nodes(total: int, sizes: Sequence[int], least: int = LEAST_NODES) -> list[int]:
    """Divide ``total`` synthetic nodes by size: largest remainders, at least ``least`` each."""
    if total < least * len(sizes):
        raise SettingError(
            f"nodes is {total} for {len(sizes)} parts: each needs at least {least}, so ask for {least * len(sizes)} "
            "or more, or for fewer parts"
        )
    exact = [total * size / sum(sizes) for size in sizes]
    shares = [max(least, math.floor(share)) for share in exact]
    while sum(shares) < total:
        shares[max(range(len(sizes)), key=lambda i: exact[i] - shares[i])] += 1
    while sum(shares) > total:
        richer = [i for i in range(len(sizes)) if shares[i] > least]
        shares[min(richer, key=lambda i: exact[i] - shares[i])] -= 1
    return shares


def write_work(graph: Data, name: str, folder: Path) -> tuple[str, str | None]:
    """Write features and edges of a graph for a task, without labels and masks; the core apart. Paths of both."""
    path = save_npz(unlabelled(graph), folder / f"{name}.npz")
    if graph._store.get("core_mask") is None:
        return str(path), None
    content = io.BytesIO()
    np.save(content, graph["core_mask"].numpy())
    return str(path), str(write_atomically(folder / f"{name}.core.npy", content.getvalue()))


def read_work(work: Work) -> Data:
    """The graph of a task."""
    graph = unlabelled(load_graph(Path(work.graph)))
    if work.core is not None:
        graph.core_mask = torch.from_numpy(np.load(work.core, allow_pickle=False))
    if work.seen is not None:
        graph.seen = work.seen
    return graph


def checkpoints_of(folder: Path, name: str) -> CheckpointFolder:
    """Where a source that takes over a minute keeps how far it is: ``OUT/NAME.checkpoint``, until it is finished."""
    return checkpoint_folder(None, folder / name)


def condense_source(work: Work, recipe: Recipe) -> Made:
    """The task: condense one source and leave the file in the work folder, under a name that no other attempt has."""
    start = time.perf_counter()
    reset_peak_memory(recipe.device)
    condensed = condense(
        read_work(work),
        nodes=work.nodes,
        ratio=work.ratio,
        seed=work.seed,
        settings=recipe.settings,
        device=recipe.device,
        fingerprint=recipe.fingerprint,
        checkpoint=checkpoints_of(Path(work.folder).parent, work.name),
        memory=recipe.memory,
    )
    if recipe.clip is not None:
        condensed = privatise(condensed, clip=recipe.clip, noise=recipe.noise)
    path = condensed.save(os.path.join(work.folder, f"{work.name}-{uuid.uuid4().hex}.made"))
    return Made(str(path), time.perf_counter() - start, peak_memory(recipe.device))
