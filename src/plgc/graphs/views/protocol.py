"""Protocols: what a method is given and what it is scored on; a case is one draw of it, the same for all methods.

Validation labels are used with full labels only. With few, wrong or shifted labels there are none: heads train for a
fixed number of epochs and the last one counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.labels import TrainingLabels, check_classes, choose_labels, training_labels
from plgc.graphs.views.edges import EdgeSplit, split_edges, training_edges
from plgc.graphs.views.inductive import training_subgraph, unseen_subgraph
from plgc.graphs.views.shift import long_tailed
from plgc.runtime.errors import SettingError

TASKS = ("node", "link", "cluster", "membership", "growing", "forgetting")


@dataclass(frozen=True)
class Protocol:
    """One row of an experiment, apart from graph, method, size and seed.

    Attributes:
        task: ``node``, ``link``, ``cluster``, or one of experiments alone that make their own draws: ``membership``,
            ``growing``, ``forgetting``.
        shots: clean labels per class; None for all.
        labels: clean labels in all, class-balanced; None for all.
        noise: share of wrong labels in what supervised methods are given; None where there is no second, clean set.
            With noise (also 0), every method is given all training labels, noisy, and fine-tunes on the clean ones.
        imbalance: long-tailed training labels and a balanced test set; None for the graph's own split.
        inductive: condensation is given the training nodes alone.
    """

    task: str = "node"
    shots: int | None = None
    labels: int | None = None
    noise: float | None = None
    imbalance: float | None = None
    inductive: bool = False

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise SettingError(f"unknown task {self.task!r}: choose {', '.join(TASKS)}")


@dataclass(frozen=True)
class Case:
    """One draw of a protocol on one graph.

    Attributes:
        graph: what is scored: labels, masks and, for links, every edge.
        visible: the graph that a trained model is applied to: the same nodes, for links training edges only.
        seen: the graph of condensation and training; methods are given its features and edges.
        given: the labels that supervised methods get, by the nodes of ``seen``; None where the graph has no labels.
        clean: nodes of ``graph`` whose labels a head is trained on; None where there is no node task.
        validate: whether validation labels may choose the best epoch.
        finetune: whether supervised methods fine-tune their last layer on the clean labels.
        split: the edge split of a link task.
    """

    graph: Data
    visible: Data
    seen: Data
    given: TrainingLabels | None
    clean: Tensor | None
    validate: bool
    finetune: bool
    split: EdgeSplit | None


def draw_case(graph: Data, protocol: Protocol, seed: int, edge_seed: int | None = None) -> Case:
    """Draw what is random in a protocol: labels, flips, long tails, edges.

    Args:
        graph: as :func:`plgc.load_graph` returns it.
        protocol: what to draw.
        seed: of labels and flips.
        edge_seed: of the edge split; by default the seed.
    """
    if protocol.imbalance is not None:
        graph = long_tailed(graph, protocol.imbalance, seed)
    clean, validate = None, False
    if "y" in graph and bool((graph["y"] >= 0).any()):
        clean, validate = choose_labels(graph, protocol.shots, protocol.labels, seed)
        validate = validate and protocol.noise is None
        if protocol.task == "node":
            check_classes(graph["y"][clean], graph)
    given = None if clean is None else _given(graph, protocol, clean, validate, seed)
    whole, split, visible = graph, None, graph
    if protocol.task == "link":
        whole = unseen_subgraph(graph) if protocol.inductive else graph
        edge_seed = seed if edge_seed is None else edge_seed
        split, visible = split_edges(whole, edge_seed), training_edges(whole, edge_seed)
    seen = training_subgraph(graph) if protocol.inductive else visible
    clean = clean if protocol.task == "node" else None
    return Case(whole, visible, seen, given, clean, validate, protocol.noise is not None, split)


def _given(graph: Data, protocol: Protocol, clean: Tensor, validate: bool, seed: int) -> TrainingLabels:
    """Labels for supervised methods: the clean ones themselves, or, under noise, all training labels with flips."""
    noisy = protocol.noise is not None
    given = training_labels(
        graph, train=None if noisy else clean, validate=validate or noisy, noise=protocol.noise or 0.0, seed=seed
    )
    if not protocol.inductive:
        return given
    kept = graph["train_mask"].nonzero().flatten()
    number = torch.full((graph["train_mask"].numel(),), -1)
    number[kept] = torch.arange(kept.numel())
    return TrainingLabels(given.y[kept], number[given.train], given.val.new_empty(0), given.classes, given.noise)
