"""Condensation by gradient matching: GCond, GCond-X and DC-Graph (Jin et al., 2022, "Graph condensation for graph
neural networks"; DC: Zhao et al., 2021).

    min_{X', Φ}  E_θ0 Σ_t Σ_c coefficient_c D(∇_θ ℓ_c(Â^L X, θ_t), ∇_θ ℓ_c(Â'^L X', θ_t)),   A' = g_Φ(X')

An epoch draws a model θ_0. Every outer step moves X' (or Φ) so that, class by class, the condensed graph gives the
model the gradient that the training nodes give it; between outer steps the model learns from the condensed graph for
some inner steps. The three methods are one loop: GCond learns A', GCond-X has A' = I, DC-Graph has A' = I and matches
on the training nodes' own features, without a look at the graph.

The models propagate first and transform afterwards, so Â^L X is computed once. For SGC, the published choice on
citation networks and Reddit, that is the same thing; for the published MLP-SGC (ogbn-arxiv, Flickr) it exchanges
Â² MLP(X) for MLP(Â² X). Neighbourhoods are taken whole, where the published code samples 10 and 5 neighbours.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.backbone import propagated_features
from plgc.downstream.tasks.classifier import ON_CONDENSED, Classifier, train_classifier
from plgc.graphs.labels import TrainingLabels
from plgc.graphs.load import load_graph, unlabelled
from plgc.rivals.gradient.loop import Matching, State, adam
from plgc.rivals.gradient.matching import MatchingTask, PairAdjacency, pose_task
from plgc.rivals.gradient.settings import GradientSettings, published_settings
from plgc.rivals.result import labelled_artifact
from plgc.runtime.checkpoint import checkpoint_in
from plgc.runtime.errors import SettingError
from plgc.runtime.progress import Progress
from plgc.sparse.adjacency import build_adjacency
from plgc.sparse.inputs import Inputs, fingerprint, prepare, resolve_scaling

METHODS = ("dc-graph", "gcond", "gcond-x")
SAVE_EVERY = 20  # epochs between two checkpoints


def condense_by_gradients(
    graph: Data,
    labels: TrainingLabels,
    *,
    nodes: int,
    seed: int,
    method: str = "gcond-x",
    device: str = "cpu",
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    settings: GradientSettings | None = None,
) -> CondensedGraph:
    """Condense a graph so that models get the same gradients from it, class by class.

    Args:
        graph: features and edges.
        labels: the training labels; at most as many nodes are made as have one. Validation labels choose the epoch;
            where there are none, the last epoch counts that still tells the training labels apart best.
        nodes: K.
        seed: of the first features, of the models and of the draws of training nodes.
        method: ``gcond``, ``gcond-x`` or ``dc-graph``.
        device: where to compute.
        progress: called with a message, the epochs done and the epochs in all.
        checkpoint: a folder to keep the state of the run in, and to go on from.
        settings: by default :func:`published_settings`.
    """
    if method not in METHODS:
        raise SettingError(f"unknown method {method!r}: choose {', '.join(METHODS)}")
    bare = load_graph(unlabelled(graph))
    assert bare.x is not None
    scaling = resolve_scaling(bare.x, "auto")
    settings = settings or published_settings(method, str(graph._store.get("name") or ""), scaling)
    inputs = prepare(bare, scaling, device)
    generator = torch.Generator().manual_seed(seed)
    task = pose_task(
        inputs,
        labels,
        nodes,
        hops=0 if method == "dc-graph" else settings.hops,
        hidden=[settings.hidden] * (settings.transforms - 1),
        batch=settings.batch,
        generator=generator,
    )
    state = _start(task, inputs, method, settings, generator)
    kept = checkpoint_in(
        checkpoint,
        task="gradient matching",
        method=method,
        settings=asdict(settings),
        graph=fingerprint(bare),
        labels=labels.digest(),
        nodes=nodes,
        seed=seed,
        device=device,
        threads=torch.get_num_threads(),
    )
    state.restore(kept, generator)
    matching = Matching(task, state, settings)
    for epoch in range(state.epoch + 1, settings.epochs + 1):
        state.curve.append(float(matching.epoch(generator)))
        state.epoch = epoch
        if epoch == settings.epochs or epoch in settings.evaluate:
            result = state.result(settings.threshold)
            accuracy = _accuracy(inputs, labels, scaling, seed, task, result)
            state.keep_best(result, accuracy, validated=labels.val.numel() > 0)
        if epoch % SAVE_EVERY == 0:
            state.save(kept, generator)
        if progress is not None:
            progress(f"{method}: matching gradients, epoch {epoch}", epoch, settings.epochs)
    best = {name: part.cpu() for name, part in state.best.items()}
    condensed = labelled_artifact(
        graph,
        bare,
        labels,
        method=method,
        features=best["features"],
        node_labels=task.labels,
        counts=task.counts,
        edge_index=best.get("edge_index"),
        edge_weight=best.get("edge_weight"),
        scaling=scaling,
        seed=seed,
        requested=nodes,
        settings=asdict(settings),
        curves={"matching": state.curve},
        chosen=state.choice,
    )
    kept.discard()
    return condensed


def _start(
    task: MatchingTask, inputs: Inputs, method: str, settings: GradientSettings, generator: torch.Generator
) -> State:
    features = propagated_features(inputs, 0)[task.start].clone().requires_grad_()
    optimizers = {"features": adam([features], settings.feature_rate)}
    adjacency = None
    if method == "gcond":
        adjacency = PairAdjacency(features.shape[1], settings.adjacency_hidden, generator).to(features.device)
        optimizers["adjacency"] = adam(list(adjacency.parameters()), settings.adjacency_rate)
    return State(features, adjacency, optimizers)


def _accuracy(
    inputs: Inputs,
    labels: TrainingLabels,
    scaling: str,
    seed: int,
    task: MatchingTask,
    result: Mapping[str, Tensor],
) -> float:
    """How well a GCN that learns from the condensed graph does on the validation labels, or else on the given ones."""
    validated, device = labels.val.numel() > 0, inputs.device
    judged = (labels.val if validated else labels.train).to(device)
    y = labels.y.to(device)[judged]

    def accuracy(model: Classifier) -> float:
        return float((model.probabilities(inputs)[judged].argmax(1) == y).float().mean())

    x = result["features"]
    adjacency = None
    if "edge_index" in result:
        adjacency = build_adjacency(result["edge_index"], len(x), result["edge_weight"])
    everyone, target = torch.arange(len(x), device=device), task.labels.to(device)
    model = train_classifier(
        x,
        adjacency,
        everyone,
        target,
        labels.classes,
        scaling=scaling,
        seed=seed,
        settings=ON_CONDENSED,
        score=accuracy if validated else None,
    )
    return accuracy(model)
