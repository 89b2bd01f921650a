"""Condensation by gradient matching: GCond, GCond-X and DC-Graph (Jin et al., 2022, "Graph condensation for graph
neural networks"; DC: Zhao et al., 2021).

    min_{X', Φ}  E_θ0 Σ_t Σ_c coefficient_c D(∇_θ ℓ_c(Â^L X, θ_t), ∇_θ ℓ_c(Â'^L X', θ_t)),   A' = g_Φ(X')

An epoch draws a model θ_0. Every outer step moves X' (or Φ) so that, class by class, the condensed graph gives the
model the gradient that the training nodes give it; between outer steps the model learns from the condensed graph for
some inner steps. The three methods are one loop: GCond learns A', GCond-X has A' = I, DC-Graph has A' = I and matches
on the training nodes' own features, without the graph's edges.

The models propagate first and transform afterwards, so Â^L X is computed once. For SGC, the published choice on
citation networks and Reddit, that is the same thing; for the published MLP-SGC (ogbn-arxiv, Flickr) it exchanges
Â² MLP(X) for MLP(Â² X). Neighbourhoods are taken whole, where the published code samples 10 and 5 neighbours.
"""

from __future__ import annotations

import torch

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.tasks.classifier import ON_CONDENSED
from plgc.graphs.catalog import normalised
from plgc.rivals.frame import RivalRun
from plgc.rivals.gradient import settings as config
from plgc.rivals.gradient.loop import Matching, State, adam
from plgc.rivals.gradient.matching import MatchingTask, PairAdjacency, pose_task
from plgc.rivals.gradient.settings import GradientSettings
from plgc.rivals.scaling import with_chosen_scaling
from plgc.sparse.adjacency import build_adjacency

SAVE_EVERY = 20  # epochs between two checkpoints


def condense_by_gradients(run: RivalRun) -> CondensedGraph:
    """Condense so that models get the same gradients from the result: ``gcond``, ``gcond-x`` or ``dc-graph``.

    At most as many nodes are made as have a training label. Validation labels choose the epoch; where there are none,
    it is the last of the epochs that classify the training nodes best. The seed draws the first features, the models
    and the training nodes of a step.
    """
    if normalised(run.graph.name) not in config.PUBLISHED:
        run = with_chosen_scaling(run)
    run = run.using(run.settings or config.published_settings(run.method, run.graph.name, run.scaling))
    settings: GradientSettings = run.settings
    generator = torch.Generator().manual_seed(run.seed)
    task = pose_task(
        run.inputs,
        run.labels,
        run.nodes,
        hops=0 if run.method == "dc-graph" else settings.hops,
        hidden=[settings.hidden] * (settings.transforms - 1),
        batch=settings.batch,
        generator=generator,
    )
    state = start(run, task, generator)
    file = run.checkpoint()
    state.restore(file, generator)
    matching = Matching(task, state, settings)
    for epoch in range(state.epoch + 1, settings.epochs + 1):
        state.curve.append(float(matching.epoch(generator)))
        state.epoch = epoch
        if epoch == settings.epochs or epoch in settings.evaluate:
            result, adjacency = state.result(settings.threshold), None
            if "edge_index" in result:
                adjacency = build_adjacency(result["edge_index"], len(result["features"]), result["edge_weight"])
            accuracy = run.accuracy(result["features"], task.labels, ON_CONDENSED, adjacency)
            state.keep_best(result, accuracy, validated=run.labels.val.numel() > 0)
        if epoch % SAVE_EVERY == 0:
            state.save(file, generator)
        run.report(f"{run.method}: matching gradients, epoch {epoch}", epoch, settings.epochs)
    best = {name: part.cpu() for name, part in state.best.items()}
    curves = {"matching": state.curve}
    return run.finish(counts=task.counts, labels=task.labels, curves=curves, chosen=state.choice, **best)


def start(run: RivalRun, task: MatchingTask, generator: torch.Generator) -> State:
    """X' at some training nodes and, for GCond, a random Φ."""
    features = run.x[task.start].clone().requires_grad_()
    optimizers = {"features": adam([features], run.settings.feature_rate)}
    adjacency = None
    if run.method == "gcond":
        adjacency = PairAdjacency(features.shape[1], run.settings.adjacency_hidden, generator).to(features.device)
        optimizers["adjacency"] = adam(list(adjacency.parameters()), run.settings.adjacency_rate)
    return State(features, adjacency, optimizers)
