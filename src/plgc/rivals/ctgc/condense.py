"""CTGC, the label-free rival (Gao et al., "Contrastive graph condensation", KDD 2025, arXiv 2411.17063).

There are two relay models of the graph: a GCN on its features (semantic), an MLP on its spectrum (structural). The
GCN is pretrained to tell nodes from shuffled ones, and k-means on its embedding H gives K clusters. Then the two take
turns: each learns centroids C by contrast with its nodes (ℓ_contrast) and with each other (ℓ_repulsion), and hands its
clusters to the other. Inverting them gives A' and X' (:mod:`plgc.rivals.ctgc.inversion`). The downstream model is in
:mod:`plgc.rivals.ctgc.rebuild`. Every minimisation keeps its last step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plgc.artifact.condensed import CondensedGraph
from plgc.method.condense import resolve_count
from plgc.method.encoder import GNN
from plgc.rivals.clustering import kmeans, means, nearest
from plgc.rivals.ctgc import settings as config
from plgc.rivals.ctgc.inversion import (
    SpectralMLP,
    spectrum,
    start_normal,
    structure_loss,
    synthetic_edges,
    uniform_linear,
    waves,
)
from plgc.rivals.ctgc.losses import column_mask, discrimination_loss, match_loss, relay_loss
from plgc.rivals.ctgc.phases import Phases, named
from plgc.rivals.ctgc.settings import CTGCSettings
from plgc.rivals.frame import RivalRun
from plgc.sparse.adjacency import build_adjacency


def condense_ctgc(run: RivalRun) -> CondensedGraph:
    """Condense a graph to (X', A') with centroids as pseudo-labels, without labels."""
    run = run.using(run.settings or config.published_settings(run.graph.name))
    settings: CTGCSettings = run.settings
    count = resolve_count(run.graph.num_nodes, None, run.nodes)
    steps = settings.pretrain_epochs + 2 * settings.rounds * settings.round_epochs + 2 * settings.inversion_steps
    phases = Phases(run.checkpoint(), run.seed, run.device, steps, run.report)
    generator = torch.Generator().manual_seed(run.seed)
    relays = _train_relays(run, phases, generator)
    features, edge_index, edge_weight = _invert(relays, run.inputs.num_features, settings, phases, generator)
    centroids = F.normalize(relays.semantic_centroids, dim=1)
    closest = nearest(unit_rows(lambda: relays.semantic(run.inputs.x, run.inputs.adjacency)), centroids)
    return run.finish(
        features,
        torch.bincount(closest, minlength=count),
        pseudo_labels=centroids,
        edge_index=edge_index,
        edge_weight=edge_weight,
        curves=phases.curves,
    )


@dataclass(frozen=True)
class Relays:
    """The trained relay models, frozen, with their centroids C [K, d] and the structural one's inputs."""

    semantic: GNN
    structural: SpectralMLP
    semantic_centroids: Tensor
    structural_centroids: Tensor
    values: Tensor
    basis: Tensor


def _train_relays(run: RivalRun, phases: Phases, generator: torch.Generator) -> Relays:
    """Pretrain the semantic model, cluster its embedding, and let the two models take turns."""
    settings, inputs, bare, count = run.settings, run.inputs, run.graph, run.nodes
    device, width, decay = phases.device, settings.width, settings.weight_decay
    phases.report("eigenvectors of the graph")
    values, vectors = phases.once(("values", "vectors"), lambda: spectrum(bare, count, settings.low_share, phases.seed))
    basis = waves(values.cpu(), settings.periods).to(device)
    semantic = GNN("gcn", inputs.num_features, width, width, dropout=settings.dropout, generator=generator).to(device)
    head = uniform_linear(width, width, generator).to(device)
    structural = SpectralMLP(settings.periods, width, generator).to(device)

    def discriminate(draws: torch.Generator) -> Tensor:
        mask = column_mask(inputs.num_features, settings.feature_drop, draws).to(device)
        order = torch.randperm(inputs.num_nodes, generator=draws).to(device)
        return discrimination_loss(semantic, head, inputs, mask, order)

    trained = {**named("semantic", semantic), **named("head", head)}
    phases.minimise(
        "pretraining", trained, discriminate, settings.pretrain_epochs, settings.pretrain_rate, decay, semantic
    )
    turns: list[tuple[str, nn.Module, Callable[[], Tensor], float]] = [
        ("semantic", semantic, lambda: semantic(inputs.x, inputs.adjacency), settings.semantic_rate),
        ("structural", structural, lambda: structural(vectors, basis), settings.structural_rate),
    ]
    start = torch.Generator().manual_seed(phases.seed)  # its own: a resumed run does not draw from it
    rows = unit_rows(turns[0][2])
    (cluster,) = phases.once(("clusters",), lambda: (kmeans(rows, count, settings.kmeans_steps, start),))
    centroids = {name: nn.Parameter(means(unit_rows(embed), cluster, count)) for name, _, embed, _ in turns}
    for _ in range(settings.rounds):
        for name, model, embed, rate in turns:
            own = centroids[name]
            contrast = partial(_contrast, embed, own, cluster, settings)
            trained = {**named(name, model), f"{name} centroids": own}
            phases.minimise(f"{name} relay model", trained, contrast, settings.round_epochs, rate, decay, model)
            cluster = nearest(unit_rows(embed), F.normalize(own.detach(), dim=1))
    semantic.requires_grad_(False)
    structural.requires_grad_(False)
    found = centroids["semantic"].detach(), centroids["structural"].detach()
    return Relays(semantic, structural, *found, values, basis)


def _contrast(
    embed: Callable[[], Tensor], centroids: Tensor, cluster: Tensor, settings: CTGCSettings, draws: torch.Generator
) -> Tensor:
    return relay_loss(embed(), centroids, cluster, settings, draws)


def _invert(
    relays: Relays, num_features: int, settings: CTGCSettings, phases: Phases, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """X' and the edges and weights of A': first U' for A', then X' on it."""
    device, count, rule = phases.device, len(relays.semantic_centroids), settings.match
    steps, rate, decay = settings.inversion_steps, settings.inversion_rate, settings.weight_decay
    vectors = start_normal(count, count, generator).to(device).requires_grad_()

    def distance(_: torch.Generator) -> Tensor:
        return structure_loss(relays.structural, relays.basis, vectors, relays.structural_centroids, rule)

    phases.minimise("adjacency", {"vectors'": vectors}, distance, steps, rate, decay, relays.structural)
    edge_index, edge_weight = synthetic_edges(relays.values, vectors.detach())
    adjacency = build_adjacency(edge_index.to(device), count, edge_weight.to(device))
    features = start_normal(count, num_features, generator).to(device).requires_grad_()

    def mismatch(_: torch.Generator) -> Tensor:
        return match_loss(relays.semantic(features, adjacency), relays.semantic_centroids, rule)

    phases.minimise("features", {"features": features}, mismatch, steps, rate, decay, relays.semantic)
    return features.detach(), edge_index, edge_weight


@torch.no_grad()
def unit_rows(embed: Callable[[], Tensor]) -> Tensor:
    """An embedding scaled to unit rows, without gradients."""
    return F.normalize(embed(), dim=1)
