"""Is it healthy: what can be said of one condensed graph by itself and, where the graph is at hand, on the graph."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.backbone import reconstruct
from plgc.evaluation.over_seeds import graph_for
from plgc.evaluation.theory import Diagnosis, diagnose, separation
from plgc.graphs.load import load_graph, unlabelled
from plgc.graphs.views.edges import training_edges
from plgc.graphs.views.inductive import training_subgraph
from plgc.report.opened import OpenGraph
from plgc.runtime.errors import GraphError
from plgc.sources import OpenSource
from plgc.sparse.inputs import fingerprint


@dataclass(frozen=True)
class Balance:
    """How evenly the original nodes, or the classes, are shared out."""

    sizes: list[int]

    @property
    def empty(self) -> int:
        """How many stand for nothing."""
        return sum(value == 0 for value in self.sizes)

    @property
    def median(self) -> float:
        """The middle size."""
        return statistics.median(self.sizes)

    @property
    def effective(self) -> float:
        """exp of the entropy: as many equal shares would be as uneven as these; from 1 to their number."""
        total = sum(self.sizes)
        shares = [value / total for value in self.sizes if value > 0]
        return math.exp(-math.fsum(share * math.log(share) for share in shares)) if shares else 0.0


@dataclass(frozen=True)
class Study:
    """One condensed graph and what was found out about it.

    Attributes:
        name: of the file or source.
        condensed: itself.
        bytes, sha256: of the file.
        counts: original nodes per synthetic node.
        classes: synthetic nodes per class; None with pseudo-labels.
        gap: smallest distance between two pseudo-labels.
        losses: of the reconstruction, step by step; empty where no backbone is rebuilt from the file.
        reconstructed: share of the pseudo-labels' variance that the rebuilt backbone gives back.
        theory: Theorem 1 beside what is seen; None without a graph or pseudo-labels.
        theory_note: why there is none.
        same: whether the graph is the one that was condensed; None where that cannot be told.
    """

    name: str
    condensed: CondensedGraph
    bytes: int
    sha256: str
    counts: Balance
    classes: Balance | None = None
    gap: float | None = None
    losses: Sequence[float] = ()
    reconstructed: float | None = None
    theory: Diagnosis | None = None
    theory_note: str | None = None
    same: bool | None = None


def study(source: OpenSource, graph: OpenGraph | None, seed: int = 0, device: str = "cpu") -> Study:
    """Look at one condensed graph."""
    condensed, content = source.condensed, source.path.read_bytes()
    ours = condensed.pseudo_labels is not None and condensed.edge_index is None
    theory, note = _theory(condensed, graph, seed, device) if ours else (None, None)
    losses = reconstruct(condensed, seed=seed, device=device).losses if ours else []
    return Study(
        name=source.name,
        condensed=condensed,
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        counts=Balance(condensed.counts.tolist()),
        classes=_classes(condensed),
        gap=_gap(condensed),
        losses=losses,
        reconstructed=_reconstructed(condensed, losses),
        theory=theory,
        theory_note=note,
        same=None if graph is None else _same_graph(condensed, graph),
    )


def classes_of(condensed: CondensedGraph) -> torch.Tensor | None:
    """The class of every synthetic node, −1 for none; None with pseudo-labels."""
    labels = condensed.labels
    return None if labels is None else labels if labels.ndim == 1 else labels.argmax(1)


def _gap(condensed: CondensedGraph) -> float | None:
    labels = condensed.pseudo_labels
    return None if labels is None or len(labels) < 2 else separation(labels.double())


def _classes(condensed: CondensedGraph) -> Balance | None:
    labels = classes_of(condensed)
    if labels is None or condensed.num_classes is None:
        return None
    return Balance(torch.bincount(labels[labels >= 0], minlength=condensed.num_classes).tolist())


def _reconstructed(condensed: CondensedGraph, losses: Sequence[float]) -> float | None:
    """1 − mean_k ‖ỹ_k − z_k‖² / mean_k ‖ỹ_k − ȳ‖²."""
    if not losses or condensed.pseudo_labels is None:
        return None
    labels = condensed.pseudo_labels.double()
    variance = float((labels - labels.mean(0)).square().sum(1).mean())
    return 1 - losses[-1] / variance if variance > 0 else None


def _theory(
    condensed: CondensedGraph, graph: OpenGraph | None, seed: int, device: str
) -> tuple[Diagnosis | None, str | None]:
    if graph is None:
        return None, "The bounds are about a graph's embedding: give the report --graph to see them."
    try:
        return diagnose(condensed, graph.data, seed=seed, device=device), None
    except GraphError as error:
        return None, str(error)


def _same_graph(condensed: CondensedGraph, graph: OpenGraph) -> bool | None:
    """Whether the graph has the fingerprint in the file; None where the file has none."""
    if condensed.fingerprint is None:
        return None
    seen = condensed.seen
    try:
        data = graph_for(graph.source, seen, 0, 0)
    except GraphError:
        return False
    if seen["nodes"] == "train":
        data = training_subgraph(data)
    elif seen["edges"] == "train":
        data = training_edges(data, seen["edge_seed"])
    return fingerprint(load_graph(unlabelled(data))) == condensed.fingerprint
