"""CTGC, the label-free rival (Gao et al., "Contrastive graph condensation", KDD 2025, arXiv 2411.17063).

Two relay models look at the graph: a GCN at its features (semantic), an MLP at its spectrum (structural). The GCN is
pretrained to tell nodes from shuffled ones, and k-means on its embedding H gives K clusters. Then the two take turns:
each learns centroids C by contrast with its nodes (ℓ_contrast) and with each other (ℓ_repulsion), and hands its
clusters to the other. Inverting them gives A' and X' (:mod:`plgc.rivals.ctgc.inversion`). What is
learned from them downstream is in :mod:`plgc.rivals.ctgc.rebuild`. Every minimisation keeps its last step.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.graphs.check import check_condensable
from plgc.graphs.load import load_graph, unlabelled
from plgc.graphs.seen import seen_of
from plgc.method.condense import resolve_count
from plgc.method.encoder import GNN
from plgc.rivals.clustering import kmeans, means, nearest
from plgc.rivals.ctgc.inversion import (
    Phases,
    SpectralMLP,
    named,
    spectrum,
    start_normal,
    structure_loss,
    synthetic_edges,
    uniform_linear,
    waves,
)
from plgc.rivals.ctgc.losses import column_mask, discrimination_loss, match_loss, relay_loss
from plgc.rivals.ctgc.settings import CTGCSettings, published_settings
from plgc.runtime.checkpoint import checkpoint_in
from plgc.runtime.progress import Progress, silent
from plgc.sparse.adjacency import build_adjacency
from plgc.sparse.inputs import Inputs, fingerprint, prepare, resolve_scaling

METHOD = "ctgc"


def condense_ctgc(
    graph: Data,
    *,
    nodes: int,
    seed: int,
    device: str = "cpu",
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    settings: CTGCSettings | None = None,
) -> CondensedGraph:
    """Condense a graph to (X', A') with centroids as pseudo-labels. Labels and masks are never read.

    Args:
        graph: features and edges.
        nodes: K.
        seed: drives every random choice.
        device: where to compute.
        progress: called with a message, the steps done and those in all.
        checkpoint: a folder to keep the run's state in, so that a stopped run goes on where it was.
        settings: by default those published for this graph.
    """
    chosen = settings or published_settings(str(graph._store.get("name") or ""))
    seen = seen_of(graph)
    bare = load_graph(unlabelled(graph))
    check_condensable(bare)
    assert bare.x is not None
    assert bare.edge_index is not None
    assert bare.num_nodes is not None
    count = resolve_count(bare.num_nodes, None, nodes)
    scaling = resolve_scaling(bare.x, chosen.scaling)
    kept = checkpoint_in(
        checkpoint,
        method=METHOD,
        graph=fingerprint(bare),
        nodes=count,
        seed=seed,
        settings=asdict(chosen),
        threads=torch.get_num_threads(),
        device=device,
    )
    steps = chosen.pretrain_epochs + 2 * chosen.rounds * chosen.round_epochs + 2 * chosen.inversion_steps
    phases = Phases(kept, seed, device, steps, progress or silent)
    inputs, generator = prepare(bare, scaling, device), torch.Generator().manual_seed(seed)
    relays = _train_relays(bare, inputs, count, chosen, phases, generator)
    features, edge_index, edge_weight = _invert(relays, inputs.num_features, chosen, phases, generator)
    kept.discard()
    centroids = F.normalize(relays.semantic_centroids, dim=1)
    closest = nearest(unit_rows(lambda: relays.semantic(inputs.x, inputs.adjacency)), centroids)
    return CondensedGraph(
        features=features.cpu(),
        pseudo_labels=centroids.cpu(),
        counts=torch.bincount(closest, minlength=count).cpu(),
        blocks=(chosen.width,),
        scaling=scaling,
        seed=seed,
        threads=torch.get_num_threads(),
        settings={"method": METHOD, **asdict(chosen)},
        nodes_requested=count,
        curves=phases.curves,
        source={"nodes": bare.num_nodes, "edges": bare.edge_index.shape[1], "features": bare.x.shape[1]},
        fingerprint=fingerprint(bare),
        method=METHOD,
        seen=seen,
        edge_index=edge_index,
        edge_weight=edge_weight,
    )


@dataclass(frozen=True)
class Relays:
    """The trained relay models, frozen, with their centroids C [K, d] and what the structural one reads."""

    semantic: GNN
    structural: SpectralMLP
    semantic_centroids: Tensor
    structural_centroids: Tensor
    values: Tensor
    basis: Tensor


def _train_relays(
    bare: Data, inputs: Inputs, count: int, settings: CTGCSettings, phases: Phases, generator: torch.Generator
) -> Relays:
    """Pretrain the semantic model, cluster its embedding, and let the two models take turns."""
    device, width, decay = phases.device, settings.width, settings.weight_decay
    phases.reporting("eigenvectors of the graph")
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
    start = torch.Generator().manual_seed(phases.seed)  # of its own: a run that goes on does not draw from it
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
