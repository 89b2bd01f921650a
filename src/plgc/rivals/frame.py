"""What all rivals share: the graph without labels, its inputs, checkpoints, and the file that a run ends with.

A rival is a function of a :class:`RivalRun`. It takes from the run what it needs, computes, and returns
:meth:`RivalRun.finish`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.backbone import propagated_features
from plgc.downstream.tasks.classifier import Classifier, ClassifierSettings, train_classifier
from plgc.downstream.tasks.labelled_rows import validation_rows
from plgc.graphs.attributes import Seen, attribute, seen_of
from plgc.graphs.bare import BareGraph, bare_graph
from plgc.graphs.labels import TrainingLabels
from plgc.graphs.views.inductive import training_split
from plgc.runtime.checkpoint import Checkpoint, checkpoint_in
from plgc.runtime.options import Compute, check_device, cpu_threads
from plgc.runtime.progress import Progress, silent
from plgc.sparse.adjacency import Adjacency
from plgc.sparse.inputs import Inputs, fingerprint, prepare, resolve_scaling


@dataclass(frozen=True, eq=False)
class RivalRun:
    """One run of a rival.

    Attributes:
        method: the rival's name.
        graph: features and edges, no labels.
        given: the training labels; None for a rival that works without.
        nodes: K, as requested.
        seed: drives every random choice.
        scaling: of the rows of X.
        device: where to compute.
        report: progress, called with a message, the work done and the work in all.
        folder: where checkpoints go; None keeps none.
        settings: a dataclass of the caller's own settings; None for the published ones.
        split: of the graph that the labels come from.
        chosen: what was chosen before the rival began, as plain values.
        files: the checkpoints of the run.
    """

    method: str
    graph: BareGraph
    given: TrainingLabels | None
    nodes: int
    seed: int
    scaling: str
    device: str = "cpu"
    report: Progress = silent
    folder: str | os.PathLike[str] | None = None
    settings: Any = None
    split: Mapping[str, Any] = field(default_factory=dict)
    chosen: Mapping[str, Any] = field(default_factory=dict)
    files: list[Checkpoint] = field(default_factory=list)

    def using(self, settings: Any) -> RivalRun:
        """The same run with these settings, which go into its checkpoints and its file."""
        scaling = getattr(settings, "scaling", None)
        return replace(
            self,
            settings=settings,
            scaling=self.scaling if scaling is None else resolve_scaling(self.graph.x, scaling),
        )

    @property
    def labels(self) -> TrainingLabels:
        """The training labels, in a rival that has them."""
        assert self.given is not None
        return self.given

    @cached_property
    def inputs(self) -> Inputs:
        """Scaled features and Â on the device."""
        return prepare(self.graph, self.scaling, self.device)

    @cached_property
    def x(self) -> Tensor:
        """The scaled features as a dense matrix."""
        return propagated_features(self.inputs, 0)

    @cached_property
    def fingerprint(self) -> str:
        """Of the graph."""
        return fingerprint(self.graph)

    def checkpoint(self, **parts: Any) -> Checkpoint:
        """A checkpoint of this run, or of a part of it: everything it depends on is in its key, with ``parts``."""
        key = {
            "rival": self.method,
            "graph": self.fingerprint,
            "labels": None if self.given is None else self.given.digest(),
            "nodes": self.nodes,
            "seed": self.seed,
            "settings": _plain(self.settings),
            "device": self.device,
            "threads": torch.get_num_threads(),
        }
        file = checkpoint_in(self.folder, **(key | parts))
        self.files.append(file)
        return file

    def accuracy(
        self, features: Tensor, labels: Tensor, settings: ClassifierSettings, adjacency: Adjacency | None = None
    ) -> float:
        """Train a GCN on condensed nodes: its accuracy on validation labels or, where there are none, training labels.

        With validation labels it is the accuracy of the best epoch.
        """
        validated = self.labels.val.numel() > 0
        score = accuracy_on(self.inputs, self.labels.val if validated else self.labels.train, self.labels.y)
        model = train_classifier(
            features,
            adjacency,
            torch.arange(len(features), device=features.device),
            labels.to(features.device),
            self.labels.classes,
            scaling=self.scaling,
            seed=self.seed,
            settings=settings,
            score=score if validated else None,
        )
        return score(model)

    def finish(
        self,
        features: Tensor,
        counts: Tensor,
        *,
        labels: Tensor | None = None,
        pseudo_labels: Tensor | None = None,
        edge_index: Tensor | None = None,
        edge_weight: Tensor | None = None,
        curves: Mapping[str, list[float]] | None = None,
        chosen: Mapping[str, Any] | None = None,
    ) -> CondensedGraph:
        """The condensed graph; the run's checkpoints are removed.

        Args:
            features: X', row-scaled as the graph's were, [K, f].
            counts: how many original nodes each node represents, [K].
            labels: classes [K] (−1: none) or soft labels [K, C], of a supervised rival.
            pseudo_labels: unit vectors [K, d], of one that works without labels.
            edge_index: A', both directions; None for A' = I.
            edge_weight: of the edges.
            curves: losses by name.
            chosen: what was chosen on the way, as plain values.
        """
        bare, given = self.graph, self.given
        about = {} if given is None else {"training_labels": given.train.numel(), "label_noise": given.noise}
        condensed = CondensedGraph(
            features=features.detach().cpu(),
            pseudo_labels=None if pseudo_labels is None else pseudo_labels.cpu(),
            counts=counts.cpu(),
            blocks=() if pseudo_labels is None else (pseudo_labels.shape[1],),
            scaling=self.scaling,
            seed=self.seed,
            threads=torch.get_num_threads(),
            settings={"method": self.method, **about, **_plain(self.settings)},
            nodes_requested=self.nodes,
            source={"nodes": bare.num_nodes, "edges": bare.edge_index.shape[1], "features": bare.x.shape[1]},
            chosen={**self.chosen, **(chosen or {})},
            curves={name: list(values) for name, values in (curves or {}).items()},
            fingerprint=self.fingerprint,
            method=self.method,
            seen=Seen.from_dict({**self.split, **bare.seen.to_dict()}),
            labels=None if labels is None else labels.detach().cpu(),
            num_classes=None if given is None else given.classes,
            edge_index=edge_index,
            edge_weight=edge_weight,
        )
        for file in self.files:
            file.discard()
        return condensed


def condense_in_frame(
    method: str,
    loop: Callable[[RivalRun], CondensedGraph],
    graph: Data,
    *,
    labels: TrainingLabels | None = None,
    nodes: int,
    seed: int,
    compute: Compute,
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    settings: Any = None,
) -> CondensedGraph:
    """Condense with a rival's loop; :func:`plgc.rivals.methods.condense_with` explains the arguments."""
    check_device(compute.device)
    with cpu_threads(compute.threads):
        bare = bare_graph(graph, condensable=labels is None)
        # Labels are part of the file: it may only be scored on the split that they come from.
        split = {} if labels is None or attribute(graph, "train_mask") is None else training_split(graph)
        scaling = resolve_scaling(bare.x, "auto")
        device, report = compute.device, progress or silent
        return loop(RivalRun(method, bare, labels, nodes, seed, scaling, device, report, checkpoint, settings, split))


def accuracy_on(inputs: Inputs, nodes: Tensor, y: Tensor) -> Callable[[Classifier], float]:
    """A function that gives a classifier's accuracy on some nodes, whose labels are ``y[nodes]``."""
    nodes = nodes.to(inputs.device)
    target, outputs = y.to(inputs.device)[nodes], validation_rows(inputs.x, inputs.adjacency, nodes)

    def accuracy(model: Classifier) -> float:
        return float((outputs(model.gnn).argmax(1) == target).float().mean())

    return accuracy


def labelled_artifact(
    graph: Data,
    bare: Data,
    labels: TrainingLabels,
    *,
    method: str,
    features: Tensor,
    node_labels: Tensor,
    counts: Tensor,
    scaling: str,
    seed: int,
    requested: int,
    settings: Mapping[str, Any] | None = None,
    **result: Any,
) -> CondensedGraph:
    """The file of a supervised method that was run without the frame.

    ``graph`` is what the method was given, ``bare`` the same without labels; the others are those of :class:`RivalRun`
    (``requested``: its ``nodes``) and of :meth:`RivalRun.finish`.
    """
    shown = replace(bare_graph(bare, condensable=False), seen=seen_of(graph))
    split = {} if attribute(graph, "train_mask") is None else training_split(graph)
    run = RivalRun(method, shown, labels, requested, seed, scaling, settings=settings, split=split)
    return run.finish(features, counts, labels=node_labels, **result)


def _plain(settings: Any) -> dict[str, Any]:
    """Settings as plain values, as JSON has them."""
    values: Any = asdict(settings) if is_dataclass(settings) else dict(settings or {})  # pyright: ignore
    return json.loads(json.dumps(values))
