"""Facts about one condensed graph: by itself and, where the graph is given, on the graph."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from plgc.artifact.condensed import CHANNELS, CondensedGraph
from plgc.evaluation.runs import graph_for
from plgc.evaluation.theory import Diagnosis, diagnose_embedding, separation
from plgc.graphs.bare import bare_graph
from plgc.graphs.views.edges import training_edges
from plgc.graphs.views.inductive import training_subgraph
from plgc.report.facts.rebuilt import Rebuilt
from plgc.report.inputs import ReportGraph
from plgc.runtime.errors import GraphError
from plgc.sources import OpenSource
from plgc.sparse.inputs import fingerprint


@dataclass(frozen=True)
class Balance:
    """How evenly nodes are distributed over clusters or classes."""

    sizes: list[int]

    @property
    def empty(self) -> int:
        """How many have no node."""
        return sum(value == 0 for value in self.sizes)

    @property
    def median(self) -> float:
        """The median size."""
        return statistics.median(self.sizes)

    @property
    def effective(self) -> float:
        """exp of the entropy: the number of equal shares that would be as uneven; from 1 to the number of sizes."""
        total = sum(self.sizes)
        shares = [value / total for value in self.sizes if value > 0]
        return math.exp(-math.fsum(share * math.log(share) for share in shares)) if shares else 0.0


@dataclass(frozen=True)
class FileFacts:
    """One condensed graph and what was computed from it.

    Attributes:
        name: of the file or source.
        condensed: the condensed graph.
        bytes, sha256: of the file.
        losses: of the reconstruction, step by step; empty where no backbone is rebuilt from the file.
        theory: Theorem 1 beside measurements; None without a graph or pseudo-labels.
        theory_note: why there is none.
        same_graph: whether the graph is the one that was condensed; None where the file has no fingerprint.
    """

    name: str
    condensed: CondensedGraph
    bytes: int
    sha256: str
    losses: Sequence[float] = ()
    theory: Diagnosis | None = None
    theory_note: str | None = None
    same_graph: bool | None = None

    @property
    def counts(self) -> Balance:
        """Original nodes per synthetic node."""
        return Balance(self.condensed.counts.tolist())

    @property
    def classes(self) -> Balance | None:
        """Synthetic nodes per class; None with pseudo-labels."""
        labels, count = classes_of(self.condensed), self.condensed.num_classes
        if labels is None or count is None:
            return None
        return Balance(torch.bincount(labels[labels >= 0], minlength=count).tolist())

    @property
    def gap(self) -> float | None:
        """Smallest distance between two pseudo-labels."""
        labels = self.condensed.pseudo_labels
        return None if labels is None or len(labels) < 2 else separation(labels.double())

    @property
    def explained(self) -> float | None:
        """Share of the embeddings' variance that the pseudo-labels explain, after the last round."""
        curve = self.condensed.curves.get("explained")
        return curve[-1] if curve else None

    @property
    def reconstructed(self) -> float | None:
        """Share of the pseudo-labels' variance that the rebuilt backbone reproduces.

        1 − mean_k ‖ỹ_k − z_k‖² / mean_k ‖ỹ_k − ȳ‖², both summed over the channels.
        """
        channels = [self.condensed.targets_of(channel) for channel in CHANNELS]
        labels = [part.double() for part in channels if part is not None]
        if not self.losses or not labels:
            return None
        variance = sum(float((part - part.mean(0)).square().sum(1).mean()) for part in labels)
        return 1 - self.losses[-1] / variance if variance > 0 else None


def file_facts(source: OpenSource, rebuilt: Rebuilt) -> FileFacts:
    """Compute the facts about one condensed graph."""
    condensed, content, graph = source.condensed, source.path.read_bytes(), rebuilt.graph
    sha256 = hashlib.sha256(content).hexdigest()
    same = None if graph is None else _same_graph(condensed, graph)
    if not gives_backbone(condensed):
        return FileFacts(source.name, condensed, len(content), sha256, same_graph=same)
    theory, note = _theory(condensed, rebuilt)
    losses = rebuilt.backbone([condensed]).losses
    return FileFacts(source.name, condensed, len(content), sha256, losses, theory, note, same)


def gives_backbone(condensed: CondensedGraph) -> bool:
    """Whether a backbone is rebuilt from a file: it has pseudo-labels and no edges."""
    return condensed.pseudo_labels is not None and condensed.edge_index is None


def classes_of(condensed: CondensedGraph) -> torch.Tensor | None:
    """The class of every synthetic node, −1 for none; None with pseudo-labels."""
    labels = condensed.labels
    return None if labels is None else labels if labels.ndim == 1 else labels.argmax(1)


def _theory(condensed: CondensedGraph, rebuilt: Rebuilt) -> tuple[Diagnosis | None, str | None]:
    """The diagnosis, or the reason why there is none."""
    if rebuilt.graph is None:
        return None, "The bounds are about a graph's embedding: give the report --graph to see them."
    try:
        return diagnose_embedding(condensed, rebuilt.nodes([condensed]), seed=rebuilt.options.seed), None
    except GraphError as error:
        return None, str(error)


def _same_graph(condensed: CondensedGraph, graph: ReportGraph) -> bool | None:
    if condensed.fingerprint is None:
        return None
    seen = condensed.seen
    try:
        data = graph_for(graph.source, seen, 0, 0)
        if seen.nodes == "train":
            data = training_subgraph(data)
        elif seen.edges == "train":
            data = training_edges(data, seen.edge_seed or 0)
        return fingerprint(bare_graph(data)) == condensed.fingerprint
    except GraphError:
        return False
