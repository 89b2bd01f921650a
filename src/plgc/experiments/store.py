"""Condensed graphs on disk, by a key of everything they depend on: one that was condensed once is not condensed again.

The key of a label-free method has no labels in it, because they cannot matter; that of a supervised method has the
fingerprint of those it was given. Files that are made from other files have calls of their own
(:mod:`plgc.experiments.descent`).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch_geometric.data import Data

from plgc._version import __version__
from plgc.artifact.condensed import CondensedGraph
from plgc.graphs.attributes import attribute, seen_of
from plgc.graphs.bare import bare_graph
from plgc.graphs.labels import TrainingLabels
from plgc.method import settings as config
from plgc.rivals.methods import condense_with, method_named
from plgc.runtime.errors import ArtifactError
from plgc.runtime.files import write_atomically
from plgc.runtime.provenance import peak_memory, reset_peak_memory
from plgc.sparse.inputs import fingerprint
from plgc.sparse.product import warm_up


class Call(Protocol):
    """A file to be made: its key, and how it is made."""

    def key(self, device: str) -> str:
        """A digest of everything that the result depends on."""
        ...

    def open(self) -> None:
        """Read what is needed, before the clock starts."""
        ...

    def make(self, device: str, checkpoint: Path | None) -> CondensedGraph:
        """Make it."""
        ...


@dataclass(frozen=True)
class CondenseCall:
    """One condensation: the method, the graph, the labels that a supervised method is given, size, seed and options."""

    method: str
    graph: Data
    labels: TrainingLabels | None
    nodes: int
    seed: int
    preset: str | None = None
    min_cluster: int | None = None
    settings: config.CondenseSettings | None = None  # instead of a preset
    private: bool | None = None

    def key(self, device: str) -> str:
        """A digest of everything that the result depends on."""
        labels = self.labels if method_named(self.method).supervised else None
        own = self.settings or (None if self.preset is None else config.preset(self.preset))
        parts = {
            "method": self.method,
            "graph": fingerprint(bare_graph(self.graph)),
            "seen": None if attribute(self.graph, "seen") is None else seen_of(self.graph).to_dict(),
            "labels": None if labels is None else labels.digest(),
            "nodes": self.nodes,
            "seed": self.seed,
            "settings": None if own is None else own.to_dict(),
            "min_cluster": self.min_cluster,
            **({"private": True} if self.private else {}),
        }
        return digest(parts, device)

    def open(self) -> None:
        """The graph is here."""

    def make(self, device: str, checkpoint: Path | None) -> CondensedGraph:
        """Condense."""
        return condense_with(
            self.method,
            self.graph,
            nodes=self.nodes,
            seed=self.seed,
            labels=self.labels if method_named(self.method).supervised else None,
            preset=self.preset or "default",
            device=device,
            checkpoint=checkpoint,
            min_cluster=self.min_cluster,
            settings=self.settings,
            private=self.private,
        )


def digest(parts: dict[str, Any], device: str) -> str:
    """A key from what a call says, and from what it is computed with."""
    where = {"threads": torch.get_num_threads(), "device": device.split(":")[0]}
    made = {**parts, **where, "version": __version__, "torch": torch.__version__}
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Condensation:
    """A condensed graph with what it cost when it was made.

    ``cpu_seconds`` is the time of this process on all its threads.
    """

    condensed: CondensedGraph
    seconds: float
    cpu_seconds: float
    peak_memory_bytes: int | None
    sha256: str
    reused: bool


Once = Callable[[Call], Condensation]  # :func:`condense_once` with a store and a device


def condense_once(store: Path | None, call: Call, device: str = "cpu", checkpoint: Path | None = None) -> Condensation:
    """Open the condensed graph if the store has it; else condense, and keep it. Without a store, always condense."""
    path = None if store is None else store / f"{call.key(device)}.safetensors"
    if path is not None and (kept := _open(path)) is not None:
        return kept
    call.open()
    warm_up(device)
    reset_peak_memory(device)
    start, used = time.perf_counter(), time.process_time()
    condensed = call.make(device, checkpoint)
    content = condensed.to_bytes()
    cost: dict[str, Any] = {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - used,
        "peak_memory_bytes": peak_memory(device),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    if path is not None:
        write_atomically(path.with_suffix(".json"), json.dumps(cost).encode())
        write_atomically(path, content)
    return Condensation(condensed, reused=False, **cost)


def _open(path: Path) -> Condensation | None:
    """A stored graph with its cost; None if either is missing or damaged: it is made again then."""
    try:
        cost = json.loads(path.with_suffix(".json").read_bytes())
        if hashlib.sha256(path.read_bytes()).hexdigest() != cost["sha256"]:
            return None
        return Condensation(CondensedGraph.load(path), reused=True, **cost)
    except (OSError, ValueError, TypeError, KeyError, ArtifactError):
        return None
