"""Every method by name: those that condense, and those that our tables measure them against.

A condenser is called as :func:`condense_with` and returns a :class:`~plgc.CondensedGraph`. Supervised ones need the
training labels as an argument of their own, so that no label-free call can reach them by accident.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.graphs.labels import TrainingLabels
from plgc.method.condense import condense
from plgc.rivals.condensers import condense_by_choice, condense_by_coarsening
from plgc.rivals.ctgc.condense import condense_ctgc
from plgc.rivals.distribution import condense_by_distribution
from plgc.rivals.gradient.condense import condense_by_gradients
from plgc.rivals.partition import condense_by_partition
from plgc.rivals.trajectory.condense import condense_by_trajectories
from plgc.runtime.compute import cpu_threads
from plgc.runtime.errors import LabelError, SettingError
from plgc.runtime.progress import Progress


@dataclass(frozen=True)
class Method:
    """What a method is.

    Attributes:
        about: one line for tables and help.
        condenses: whether it makes a condensed graph; the others are references.
        supervised: whether it reads training labels before the head, or instead of one.
        sized: whether its result depends on the number of synthetic nodes.
        presets: whether it comes in our two presets.
        long: whether it may take minutes or more, and so keeps checkpoints.
    """

    about: str
    condenses: bool = True
    supervised: bool = False
    sized: bool = True
    presets: bool = False
    long: bool = False


METHODS: dict[str, Method] = {
    "plgc": Method("pseudo-labelled graph condensation, without labels", presets=True),
    "ctgc": Method("contrastive condensation with a learned graph, without labels (Gao et al.)", long=True),
    "random": Method("random training nodes", supervised=True),
    "herding": Method("training nodes that keep each class's mean, by a GCN trained on labels", supervised=True),
    "herding-labelfree": Method("training nodes that keep the mean of propagated features", supervised=True),
    "kcenter": Method("training nodes far from each other, by a GCN trained on labels", supervised=True),
    "kcenter-labelfree": Method("training nodes far from each other in propagated features", supervised=True),
    "coarsening": Method("heavy edges contracted, labels by majority", supervised=True),
    "gecc": Method("class-wise clusters of propagated features (GECC)", supervised=True),
    "cgc-x": Method("training-free class partition (CGC-X)", supervised=True),
    "gcdm-x": Method("class means matched under random GNNs (GCDM-X)", supervised=True, long=True),
    "dc-graph": Method("gradients matched, the graph ignored (DC-Graph)", supervised=True, long=True),
    "gcond-x": Method("gradients matched, no edges (GCond-X)", supervised=True, long=True),
    "gcond": Method("gradients matched, edges learned (GCond)", supervised=True, long=True),
    "sfgc": Method("training trajectories matched (SFGC)", supervised=True, long=True),
    "geom": Method("trajectories matched, easy ones first, soft labels (GEOM)", supervised=True, long=True),
    "whole": Method("a GCN trained on the whole graph", condenses=False, supervised=True, sized=False),
    "ssl": Method("the frozen encoder of stage I, before condensation", condenses=False, presets=True),
    "propagated_features": Method("control: the features, propagated twice", condenses=False, sized=False),
    "random_encoder": Method("control: a GNN with random weights", condenses=False, sized=False),
}
CONDENSERS = tuple(name for name, method in METHODS.items() if method.condenses)


def method_named(name: str) -> Method:
    """The method of this name, or an error that lists the names."""
    if name not in METHODS:
        raise SettingError(f"unknown method {name!r}: choose one of {', '.join(METHODS)}")
    return METHODS[name]


def condense_with(
    name: str,
    graph: Data,
    *,
    nodes: int,
    seed: int = 0,
    labels: TrainingLabels | None = None,
    preset: str = "default",
    device: str = "cpu",
    threads: int | None = None,
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    min_cluster: int | None = None,
) -> CondensedGraph:
    """Condense a graph with any method that can.

    Args:
        name: one of :data:`CONDENSERS`.
        graph: the graph; its own labels are never read.
        nodes: K.
        seed: drives every random choice.
        labels: the training labels, for supervised methods, which refuse to work without; the others must not get any.
        preset: of ours.
        device: where to compute.
        threads: CPU threads to use.
        progress: called with a message, the work done and the work in all.
        checkpoint: a folder in which our method and long ones keep where they stand; the same call then goes on from
            there (:func:`plgc.runtime.checkpoint.checkpoint_folder` for one that is used by runs of over a minute alone).
        min_cluster: of ours, see :func:`plgc.condense`.
    """
    method = method_named(name)
    if not method.condenses:
        raise SettingError(f"{name} does not condense ({method.about}): choose one of {', '.join(CONDENSERS)}")
    if method.supervised and labels is None:
        raise LabelError(f"{name} needs training labels: pass labels=plgc.graphs.training_labels(graph)")
    if not method.supervised and labels is not None:
        raise SettingError(f"{name} works without labels: leave them out")
    if name == "plgc":
        return condense(
            graph,
            nodes=nodes,
            seed=seed,
            preset=preset,
            device=device,
            threads=threads,
            progress=progress,
            min_cluster=min_cluster,
            checkpoint=checkpoint,
        )
    if min_cluster is not None:
        raise SettingError(f"{name} knows no minimum cluster: leave min_cluster out")
    with cpu_threads(threads):
        if name == "ctgc":
            return condense_ctgc(graph, nodes=nodes, seed=seed, device=device, progress=progress, checkpoint=checkpoint)
        assert labels is not None
        return _condense_supervised(name, graph, labels, nodes, seed, device, progress, checkpoint)


def _condense_supervised(
    name: str,
    graph: Data,
    labels: TrainingLabels,
    nodes: int,
    seed: int,
    device: str,
    progress: Progress | None,
    checkpoint: str | os.PathLike[str] | None,
) -> CondensedGraph:
    match name:
        case "coarsening":
            return condense_by_coarsening(graph, labels, nodes=nodes, seed=seed)
        case "gecc" | "cgc-x":
            return condense_by_partition(
                graph, labels, nodes=nodes, seed=seed, method=name, device=device, progress=progress
            )
    if not METHODS[name].long:
        rule, _, variant = name.partition("-")
        return condense_by_choice(
            graph, labels, nodes=nodes, seed=seed, rule=rule, labelfree=variant == "labelfree", device=device
        )
    where: dict[str, Any] = {"device": device, "progress": progress, "checkpoint": checkpoint}
    if name == "gcdm-x":
        return condense_by_distribution(graph, labels, nodes=nodes, seed=seed, **where)
    match_by = condense_by_trajectories if name in ("sfgc", "geom") else condense_by_gradients
    return match_by(graph, labels, nodes=nodes, seed=seed, method=name, **where)
