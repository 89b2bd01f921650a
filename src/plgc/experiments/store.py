"""Condensed graphs kept between cells and between experiments: what has been condensed once is not condensed again.

A key names everything a condensation depends on. A label-free method's key has no labels in it, because they cannot
matter; a supervised method's has the fingerprint of those it was given.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from plgc._version import __version__
from plgc.artifact.condensed import CondensedGraph
from plgc.graphs.labels import TrainingLabels
from plgc.graphs.load import load_graph, unlabelled
from plgc.graphs.seen import seen_of
from plgc.method import settings as config
from plgc.rivals.methods import condense_with, method_named
from plgc.runtime.errors import ArtifactError
from plgc.runtime.files import write_atomically
from plgc.runtime.progress import Progress
from plgc.runtime.provenance import peak_memory, reset_peak_memory
from plgc.sparse.inputs import fingerprint
from plgc.sparse.product import warm_up


@dataclass(frozen=True)
class Condensation:
    """A condensed graph with what it cost when it was made."""

    condensed: CondensedGraph
    seconds: float
    peak_memory_bytes: int | None
    sha256: str
    reused: bool


def condense_once(
    store: Path | None,
    method: str,
    graph: Data,
    labels: TrainingLabels | None,
    *,
    nodes: int,
    seed: int,
    preset: str | None,
    device: str,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
    min_cluster: int | None = None,
) -> Condensation:
    """Open the condensed graph if the store has it; else condense, and keep it. Without a store, always condense."""
    labels = labels if method_named(method).supervised else None
    key = _key(method, graph, labels, nodes, seed, preset, device, min_cluster)
    path = None if store is None else store / f"{key}.safetensors"
    if path is not None and (kept := _open(path)) is not None:
        return kept
    warm_up(device)
    reset_peak_memory(device)
    start = time.perf_counter()
    condensed = condense_with(
        method,
        graph,
        nodes=nodes,
        seed=seed,
        labels=labels,
        preset=preset or "default",
        device=device,
        progress=progress,
        checkpoint=checkpoint,
        min_cluster=min_cluster,
    )
    content = condensed.to_bytes()
    cost: dict[str, Any] = {
        "seconds": time.perf_counter() - start,
        "peak_memory_bytes": peak_memory(device),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    if path is not None:
        write_atomically(path.with_suffix(".json"), json.dumps(cost).encode())
        write_atomically(path, content)
    return Condensation(condensed, reused=False, **cost)


def _open(path: Path) -> Condensation | None:
    """A condensed graph that was kept, with its cost; None if either is missing or damaged: it is made again then."""
    try:
        cost = json.loads(path.with_suffix(".json").read_bytes())
        if hashlib.sha256(path.read_bytes()).hexdigest() != cost["sha256"]:
            return None
        return Condensation(CondensedGraph.load(path), reused=True, **cost)
    except (OSError, ValueError, TypeError, KeyError, ArtifactError):
        return None


def _key(
    method: str,
    graph: Data,
    labels: TrainingLabels | None,
    nodes: int,
    seed: int,
    preset: str | None,
    device: str,
    min_cluster: int | None,
) -> str:
    parts = {
        "method": method,
        "graph": fingerprint(load_graph(unlabelled(graph))),
        "seen": seen_of(graph).to_dict() if "seen" in graph else None,
        "labels": None if labels is None else labels.digest(),
        "nodes": nodes,
        "seed": seed,
        "settings": None if preset is None else config.preset(preset).to_dict(),
        "threads": torch.get_num_threads(),
        "min_cluster": min_cluster,
        "device": device.split(":")[0],
        "version": __version__,
        "torch": torch.__version__,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
