"""Every method by name: those that condense, and those that our tables measure them against.

A condenser is called as :func:`condense_with` and returns a :class:`~plgc.CondensedGraph`. Supervised ones need the
training labels as an argument of their own, so that no label-free call can reach them by accident.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_geometric.data import Data

from plgc.artifact import CondensedGraph
from plgc.baselines.condensers import condense_by_choice, condense_by_coarsening
from plgc.condense import condense, cpu_threads
from plgc.errors import LabelError, SettingError
from plgc.graphs.labels import TrainingLabels
from plgc.progress import Progress


@dataclass(frozen=True)
class Method:
    """What a method is.

    Attributes:
        about: one line for tables and help.
        condenses: whether it makes a condensed graph; the others are references.
        supervised: whether it reads training labels before the head, or instead of one.
        sized: whether its result depends on the number of synthetic nodes.
        presets: whether it comes in our two presets.
    """

    about: str
    condenses: bool = True
    supervised: bool = False
    sized: bool = True
    presets: bool = False


METHODS: dict[str, Method] = {
    "plgc": Method("pseudo-labelled graph condensation, without labels", presets=True),
    "random": Method("random training nodes", supervised=True),
    "herding": Method("training nodes that keep each class's mean, by a GCN trained on labels", supervised=True),
    "herding-labelfree": Method("training nodes that keep the mean of propagated features", supervised=True),
    "kcenter": Method("training nodes far from each other, by a GCN trained on labels", supervised=True),
    "kcenter-labelfree": Method("training nodes far from each other in propagated features", supervised=True),
    "coarsening": Method("heavy edges contracted, labels by majority", supervised=True),
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
    """
    method = method_named(name)
    if not method.condenses:
        raise SettingError(f"{name} does not condense ({method.about}): choose one of {', '.join(CONDENSERS)}")
    if method.supervised and labels is None:
        raise LabelError(f"{name} needs training labels: pass labels=plgc.graphs.training_labels(graph)")
    if not method.supervised:
        if labels is not None:
            raise SettingError(f"{name} works without labels: leave them out")
        return condense(graph, nodes=nodes, seed=seed, preset=preset, device=device, threads=threads, progress=progress)
    assert labels is not None
    with cpu_threads(threads):
        if name == "coarsening":
            return condense_by_coarsening(graph, labels, nodes=nodes, seed=seed)
        rule, _, variant = name.partition("-")
        return condense_by_choice(
            graph, labels, nodes=nodes, seed=seed, rule=rule, labelfree=variant == "labelfree", device=device
        )
