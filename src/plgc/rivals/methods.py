"""The table of methods: those that condense a graph, and the references that they are measured against.

A record says what a method reads and where its functions are, as ``module:function``. They are imported when they are
used, so that reading the table costs nothing. :func:`condense_with` condenses with any method by its name.
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from plgc.runtime.errors import LabelError, SettingError

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from plgc.artifact.condensed import CondensedGraph
    from plgc.graphs.labels import TrainingLabels
    from plgc.runtime.progress import Progress

Function = str | Callable[..., Any]


@dataclass(frozen=True)
class Method:
    """What a method is. Functions are given as ``module:function``, or as themselves.

    Attributes:
        name: by which it is chosen, and which its files carry.
        about: one line for tables and help.
        loop: of a rival: ``loop(run)`` condenses within the frame that all rivals share (:mod:`plgc.rivals.frame`).
        condenser: of a method that has its own frame, as ours has: ``condenser(graph, nodes=…, seed=…, …)``.
        rebuild: ``rebuild(condensed, kind=…, seed=…, device=…)`` trains a model on one of its files. None for the usual
            way: a backbone where the file has pseudo-labels, a classifier where it has labels.
        evaluator: ``evaluator(method, graph, nodes)`` gives the settings of the classifier that its authors train on
            its files, for a graph's name and a number of nodes. None for those of most papers (``ON_CONDENSED``).
        reference: of a method that does not condense: ``reference(case, options)`` gives the model that is scored.
        supervised: whether it reads training labels before the head, or instead of one.
        sized: whether its result depends on the number of synthetic nodes.
        presets: whether it comes in our two presets, and takes the other options of :func:`plgc.condense`.
        long: whether it may take minutes or more, and so keeps checkpoints.
    """

    name: str
    about: str
    loop: Function | None = None
    condenser: Function | None = None
    rebuild: Function | None = None
    evaluator: Function | None = None
    reference: Function | None = None
    supervised: bool = False
    sized: bool = True
    presets: bool = False
    long: bool = False

    @property
    def condenses(self) -> bool:
        """Whether it makes a condensed graph; the others are references."""
        return self.loop is not None or self.condenser is not None

    @property
    def condense(self) -> Callable[..., CondensedGraph]:
        """The function that condenses: ``condense(graph, nodes=…, seed=…, compute=…, progress=…, checkpoint=…)``.

        With ``labels=…`` if the method is supervised, and ``preset=…, release=…`` if it has presets. Options are given
        as objects: the layer of :func:`plgc.condense` that takes plain keywords is left out.
        """
        if self.condenser is not None:
            return inspect.unwrap(load(self.condenser))
        if self.loop is None:
            raise SettingError(f"{self.name} does not condense ({self.about}): choose one of {', '.join(CONDENSERS)}")
        return partial(load("plgc.rivals.frame:condense_in_frame"), self.name, load(self.loop))


def load(function: Function) -> Callable[..., Any]:
    """A function of the table, imported now if it has not been."""
    if not isinstance(function, str):
        return function
    module, _, name = function.partition(":")
    return getattr(importlib.import_module(module), name)


supervised = partial(Method, supervised=True)
long_supervised = partial(Method, supervised=True, long=True)

CHOICE = "plgc.rivals.coreset:condense_by_choice"
PARTITION = "plgc.rivals.partition:condense_by_partition"
GRADIENTS = "plgc.rivals.gradient.condense:condense_by_gradients"
TRAJECTORIES = "plgc.rivals.trajectory.condense:condense_by_trajectories"
OWN_EVALUATOR = "plgc.rivals.trajectory.evaluator:published_evaluator"
CONTROLS = "plgc.rivals.controls"

TABLE = (
    Method(
        "plgc",
        "pseudo-labelled graph condensation, without labels",
        condenser="plgc.method.condense:condense",
        presets=True,
    ),
    Method(
        "ctgc",
        "contrastive condensation with a learned graph, without labels (Gao et al.)",
        "plgc.rivals.ctgc.condense:condense_ctgc",
        rebuild="plgc.rivals.ctgc.rebuild:rebuild_ctgc",
        long=True,
    ),
    supervised("random", "random training nodes", CHOICE),
    supervised("herding", "training nodes that keep each class's mean, by a GCN trained on labels", CHOICE),
    supervised("herding-labelfree", "training nodes that keep the mean of propagated features", CHOICE),
    supervised("kcenter", "training nodes far from each other, by a GCN trained on labels", CHOICE),
    supervised("kcenter-labelfree", "training nodes far from each other in propagated features", CHOICE),
    supervised(
        "coarsening", "heavy edges contracted, labels by majority", "plgc.rivals.coarsening:condense_by_coarsening"
    ),
    supervised("gecc", "class-wise clusters of propagated features (GECC)", PARTITION),
    supervised("cgc-x", "training-free class partition (CGC-X)", PARTITION),
    long_supervised(
        "gcdm-x", "class means matched under random GNNs (GCDM-X)", "plgc.rivals.distribution:condense_by_distribution"
    ),
    long_supervised("dc-graph", "gradients matched, the graph ignored (DC-Graph)", GRADIENTS),
    long_supervised("gcond-x", "gradients matched, no edges (GCond-X)", GRADIENTS),
    long_supervised("gcond", "gradients matched, edges learned (GCond)", GRADIENTS),
    long_supervised("sfgc", "training trajectories matched (SFGC)", TRAJECTORIES, evaluator=OWN_EVALUATOR),
    long_supervised(
        "geom", "trajectories matched, easy ones first, soft labels (GEOM)", TRAJECTORIES, evaluator=OWN_EVALUATOR
    ),
    supervised("whole", "a GCN trained on the whole graph", reference=f"{CONTROLS}:train_whole", sized=False),
    supervised(
        "whole_mlp",
        "a network without edges, trained on the whole graph",
        reference=f"{CONTROLS}:train_whole_mlp",
        sized=False,
    ),
    Method("ssl", "the frozen encoder of stage I, before condensation", reference=f"{CONTROLS}:ssl", presets=True),
    Method(
        "propagated_features",
        "control: the features, propagated twice",
        reference=f"{CONTROLS}:propagated",
        sized=False,
    ),
    Method("random_encoder", "control: a GNN with random weights", reference=f"{CONTROLS}:random_encoder", sized=False),
    Method("raw_features", "control: the features, without edges", reference=f"{CONTROLS}:raw_features", sized=False),
    Method(
        "plain_parts",
        "control: the features, plain and propagated once and twice, side by side",
        reference=f"{CONTROLS}:plain_parts",
        sized=False,
    ),
)
METHODS: dict[str, Method] = {method.name: method for method in TABLE}
CONDENSERS = tuple(method.name for method in TABLE if method.condenses)


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
    settings: Any = None,
    **options: Any,
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
        checkpoint: a folder in which our method and long ones keep their state; the same call then resumes from
            there (:func:`plgc.runtime.checkpoint.checkpoint_folder` for one that only runs of over a minute use).
        settings: settings of your own, instead of a preset or of the published ones.
        options: others of :func:`plgc.condense`, such as ``min_cluster``, for our method alone; None is not given.
    """
    method = method_named(name)
    condense = method.condense
    if method.supervised and labels is None:
        raise LabelError(f"{name} needs training labels: pass labels=plgc.graphs.training_labels(graph)")
    if not method.supervised and labels is not None:
        raise SettingError(f"{name} works without labels: leave them out")
    options = {option: value for option, value in options.items() if value is not None}
    if options and not method.presets:
        raise SettingError(f"{name} does not take {next(iter(options))}, which is for plgc: leave it out")
    from plgc.method.release import Release
    from plgc.runtime.options import Compute

    arguments: dict[str, Any] = {"nodes": nodes, "seed": seed, "progress": progress, "checkpoint": checkpoint}
    arguments["compute"] = Compute(device, threads, options.pop("memory", None), options.pop("precision", None))
    if method.presets:
        arguments |= {"preset": preset, "release": Release(**options)}
    arguments |= {"labels": labels} if method.supervised else {}
    arguments |= {} if settings is None else {"settings": settings}
    return condense(graph, **arguments)
