"""CTGC, the label-free rival (Gao et al., "Contrastive graph condensation", KDD 2025, arXiv 2411.17063).

Two relay models look at the graph: a GCN at its features (semantic), an MLP at its spectrum (structural). The GCN is
pretrained to tell nodes from shuffled ones, and k-means on its embedding H gives K clusters. Then the two take turns:
each learns centroids C by contrast with its nodes (ℓ_contrast) and with each other (ℓ_repulsion), and hands its
clusters to the other. Inverting them gives A' and X' (:mod:`plgc.baselines.ctgc_inversion`). Downstream, a GNN on
(X', A') learns to find each node's centroid, and a linear head does the rest. Every minimisation keeps its last step.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data

from plgc.artifact import ALL, CondensedGraph
from plgc.baselines.ctgc_inversion import (
    Phases,
    SpectralMLP,
    match_loss,
    named,
    spectrum,
    start_normal,
    structure_loss,
    synthetic_edges,
    uniform_linear,
    waves,
)
from plgc.checkpoint import checkpoint_in
from plgc.condense import resolve_count
from plgc.encoder import GNN, GCNLayer
from plgc.errors import ArtifactError, GraphError, LabelError, SettingError
from plgc.graphs.catalog import normalised
from plgc.graphs.check import check_condensable
from plgc.graphs.load import load_graph, node_labels, num_classes, unlabelled
from plgc.inputs import SCALINGS, Inputs, fingerprint, prepare, resolve_scaling
from plgc.progress import Progress, silent
from plgc.propagate import Adjacency, build_adjacency, propagate, times
from plgc.protocol import Case
from plgc.tasks.node import score_nodes

METHOD = "ctgc"
MATCHES = ("mse", "contrast")
ROWS_AT_ONCE = 65_536  # rows whose distances to all centres are held at a time


@dataclass(frozen=True)
class CTGCSettings:
    """How CTGC condenses and is rebuilt; the public code's values for Cora.

    Attributes:
        scaling: of the features' rows; the public code takes bags of words as they are.
        width: of hidden layers, embeddings and centroids.
        dropout: of the GCN, while inverting too.
        weight_decay: in every minimisation.
        feature_drop: share of the feature columns hidden at every pretraining step.
        pretrain_epochs: of node discrimination.
        pretrain_rate: its learning rate.
        kmeans_steps: Lloyd's iterations on the pretrained embedding.
        rounds: turns of the two relay models.
        round_epochs: steps of each model in a turn.
        semantic_rate: learning rate of the GCN in a turn.
        structural_rate: and of the MLP.
        temperature: τ, of both contrasts.
        negatives: random (node, centroid) pairs to contrast with, per node.
        repulsion: weight α of the mean ℓ_repulsion beside the *sum* of ℓ_contrast over nodes.
        low_share: share of the eigenpairs from the low end of the spectrum.
        periods: octaves of sines and cosines of the eigenvalues.
        inversion_steps: for U' and for X' each.
        inversion_rate: their learning rate.
        match: what U' and X' minimise, ``mse`` or ``contrast``.
        rebuild_epochs: of the downstream GNN.
        rebuild_rate: its learning rate, a tenth of it in the second half.
    """

    scaling: str = "none"
    width: int = 256
    dropout: float = 0.5
    weight_decay: float = 5e-4
    feature_drop: float = 0.2
    pretrain_epochs: int = 200
    pretrain_rate: float = 1e-3
    kmeans_steps: int = 25
    rounds: int = 5
    round_epochs: int = 20
    semantic_rate: float = 1e-4
    structural_rate: float = 1e-3
    temperature: float = 0.3
    negatives: int = 3
    repulsion: float = 1000.0
    low_share: float = 0.9
    periods: int = 20
    inversion_steps: int = 600
    inversion_rate: float = 1e-3
    match: str = "mse"
    rebuild_epochs: int = 600
    rebuild_rate: float = 0.01

    def __post_init__(self) -> None:
        if self.scaling not in SCALINGS:
            raise SettingError(f"scaling is {self.scaling!r}: choose one of {', '.join(SCALINGS)}")
        if self.match not in MATCHES:
            raise SettingError(f"match is {self.match!r}: choose one of {', '.join(MATCHES)}")
        for name, value in asdict(self).items():
            if name in ("weight_decay", "repulsion"):
                if not value >= 0:
                    raise SettingError(f"{name} is {value}: it must be at least 0")
            elif name in ("dropout", "feature_drop"):
                if not 0 <= value < 1:
                    raise SettingError(f"{name} is {value}: it must be at least 0 and below 1")
            elif name == "low_share":
                if not 0 < value <= 1:
                    raise SettingError(f"low_share is {value}: it must lie above 0 and be at most 1")
            elif not isinstance(value, str) and not value > 0:
                raise SettingError(f"{name} is {value}: it must be above 0")


PUBLISHED: dict[str, dict[str, Any]] = {
    "citeseer": {"rounds": 3, "rebuild_epochs": 800},
    "ogbn-arxiv": {"rounds": 3, "round_epochs": 50, "structural_rate": 0.1, "match": "contrast"},
    "reddit": {
        "pretrain_epochs": 20,
        "pretrain_rate": 1e-4,
        "rounds": 3,
        "round_epochs": 40,
        "semantic_rate": 1e-3,
        "structural_rate": 0.1,
        "repulsion": 10_000.0,
        "match": "contrast",
    },
}


def published_settings(name: str) -> CTGCSettings:
    """The public code's settings for a graph of the catalogue; those of Cora for any other."""
    return CTGCSettings(**PUBLISHED.get(normalised(name), {}))


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
    seen = graph._store.get("seen", ALL)
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
        seen=dict(seen),
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


# Losses


def column_mask(columns: int, rate: float, generator: torch.Generator) -> Tensor:
    """1 for kept feature columns, 0 for exactly ⌊rate · columns⌋ of them."""
    mask = torch.ones(columns)
    mask[torch.randperm(columns, generator=generator)[: int(rate * columns)]] = 0
    return mask


def discrimination_loss(encoder: GNN, head: nn.Linear, inputs: Inputs, mask: Tensor, order: Tensor) -> Tensor:
    """Node discrimination: tell the graph's nodes from those of the same graph with the rows of X shuffled.

    A node's score is the sum of the head's outputs, Σ_j (h W + b)_j, so that the GCN's last layer and the head act as
    one vector, and the second propagation has one column.

    Args:
        encoder: a two-layer GCN.
        head: on top of its embedding.
        inputs: the graph.
        mask: of feature columns, 1 or 0, for both kinds of node.
        order: which row of X every shuffled node gets.
    """
    first, last = encoder.layers
    assert isinstance(first, GCNLayer)
    assert isinstance(last, GCNLayer)
    message = times(inputs.x, first.weight * mask[:, None])
    direction = head.weight.sum(0)
    scores = []
    for rows in (message, message[order]):
        hidden = torch.relu(propagate(inputs.adjacency, rows) + first.bias)
        hidden = F.dropout(hidden, encoder.dropout, encoder.training)
        scores.append(propagate(inputs.adjacency, (hidden @ (last.weight @ direction))[:, None])[:, 0])
    score = torch.cat(scores) + last.bias @ direction + head.bias.sum()
    real = torch.arange(len(score), device=score.device) < inputs.num_nodes
    return F.binary_cross_entropy_with_logits(score, real.to(score))


def relay_loss(
    embedding: Tensor, centroids: Tensor, cluster: Tensor, settings: CTGCSettings, generator: torch.Generator
) -> Tensor:
    """ℓ_contrast + α ℓ_repulsion, with negative pairs drawn anew."""
    rows, centres = F.normalize(embedding, dim=1), F.normalize(centroids, dim=1)
    pairs = torch.randint(len(rows) * len(centres), (settings.negatives * len(rows),), generator=generator)
    contrast = contrast_loss(rows, centres, cluster, pairs.to(rows.device), settings.temperature)
    return contrast + settings.repulsion * repulsion_loss(centres, settings.temperature)


def contrast_loss(rows: Tensor, centres: Tensor, cluster: Tensor, pairs: Tensor, temperature: float) -> Tensor:
    """InfoNCE of nodes and centroids, summed over nodes: Σ_i −log(exp(s_i) / (Σ_j exp(s_j) + Σ_pairs exp(s))).

    All nodes share one denominator: every node's similarity to its own centroid, and those of the negative pairs.

    Args:
        rows: unit embeddings [N, d].
        centres: unit centroids [K, d].
        cluster: the centroid of every node.
        pairs: negatives, node · K + centroid; those that are somebody's own are left out.
        temperature: τ.
    """
    similarity = rows @ centres.T / temperature
    positive = similarity.gather(1, cluster[:, None])[:, 0]
    node, centroid = pairs // len(centres), pairs % len(centres)
    negative = similarity.flatten()[pairs].masked_fill(cluster[node] == centroid, -torch.inf)
    return len(rows) * torch.logsumexp(torch.cat([positive, negative]), 0) - positive.sum()


def repulsion_loss(centres: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of telling every centroid from the others by similarity: the less alike, the smaller."""
    return F.cross_entropy(centres @ centres.T / temperature, torch.arange(len(centres), device=centres.device))


# Clusters


@torch.no_grad()
def kmeans(rows: Tensor, count: int, steps: int, generator: torch.Generator) -> Tensor:
    """Lloyd's algorithm from random rows; an empty cluster gets the row that is farthest from its own centre."""
    start = torch.randperm(len(rows), generator=generator)[:count].to(rows.device)
    centres, cluster = rows[start], start
    for step in range(steps):
        cluster, distance = _assign(rows, centres)
        size = torch.bincount(cluster, minlength=count)
        for empty in (size == 0).nonzero().flatten():
            farthest = torch.where(size[cluster] > 1, distance, -torch.inf).argmax()
            size[cluster[farthest]] -= 1
            cluster[farthest], size[empty] = empty, 1
        if step < steps - 1:
            centres = means(rows, cluster, count)
    return cluster


def _assign(rows: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    found = [torch.cdist(part, centres).min(1) for part in rows.split(ROWS_AT_ONCE)]
    return torch.cat([best.indices for best in found]), torch.cat([best.values for best in found])


@torch.no_grad()
def means(rows: Tensor, cluster: Tensor, count: int) -> Tensor:
    """The mean row of every cluster."""
    total = torch.zeros(count, rows.shape[1], device=rows.device).index_add_(0, cluster, rows)
    return total / torch.bincount(cluster, minlength=count).clamp(min=1)[:, None]


@torch.no_grad()
def nearest(rows: Tensor, centres: Tensor) -> Tensor:
    """The centroid of largest cosine for every row; both are unit vectors."""
    return torch.cat([(part @ centres.T).argmax(1) for part in rows.split(ROWS_AT_ONCE)])


@torch.no_grad()
def unit_rows(embed: Callable[[], Tensor]) -> Tensor:
    """An embedding scaled to unit rows, without gradients."""
    return F.normalize(embed(), dim=1)


# Downstream


@dataclass(frozen=True)
class RebuiltCTGC:
    """A frozen GNN that has learned to find the centroids of a condensed graph; its output is the embedding."""

    gnn: GNN
    num_features: int
    width: int
    scaling: str

    @property
    def parts(self) -> tuple[int, ...]:
        """One part: what was learned."""
        return (self.width,)

    def prepare(self, graph: Data) -> Inputs:
        """Scale a graph's features as the condensed graph's were, and build Â; refuses another feature width."""
        width = 0 if graph.x is None else graph.x.shape[1]
        if width != self.num_features:
            raise GraphError(
                f"this model was rebuilt from {self.num_features} features per node, the graph has {width}: "
                "use the graph that was condensed, or one with the same features"
            )
        return prepare(graph, self.scaling, next(self.gnn.parameters()).device)

    @torch.no_grad()
    def embed(self, graph: Inputs) -> Tensor:
        """The GNN's output for every node, [N, d]."""
        return self.gnn(graph.x, graph.adjacency)


def rebuild_ctgc(condensed: CondensedGraph, kind: str = "gcn", seed: int = 0, device: str = "cpu") -> RebuiltCTGC:
    """Train a GNN on (X', A') to tell every node's centroid from the others, and freeze it."""
    if condensed.method != METHOD or condensed.pseudo_labels is None or condensed.edge_index is None:
        raise ArtifactError(
            f"this condensed graph was made by {condensed.method}: only one made by ctgc can be rebuilt so"
        )
    known = {name: value for name, value in condensed.settings.items() if name in CTGCSettings.__dataclass_fields__}
    settings = CTGCSettings(**known)
    features, centroids = condensed.features.to(device), condensed.pseudo_labels.to(device)
    adjacency = condensed_adjacency(condensed, device)
    generator = torch.Generator().manual_seed(seed)
    width = centroids.shape[1]
    gnn = GNN(kind, condensed.num_features, settings.width, width, dropout=settings.dropout, generator=generator)
    gnn = gnn.to(device).train()
    optimizer = torch.optim.Adam(
        gnn.parameters(), lr=settings.rebuild_rate, weight_decay=settings.weight_decay, fused=True
    )
    with torch.random.fork_rng(devices=[device] if torch.device(device).type == "cuda" else []):
        torch.manual_seed(seed)  # dropout draws from torch's own generator
        for epoch in range(settings.rebuild_epochs):
            if epoch == settings.rebuild_epochs // 2:
                optimizer.param_groups[0]["lr"] *= 0.1
            loss = match_loss(gnn(features, adjacency), centroids, "contrast")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    gnn.eval().requires_grad_(False)
    return RebuiltCTGC(gnn, condensed.num_features, width, condensed.scaling)


def condensed_adjacency(condensed: CondensedGraph, device: str) -> Adjacency:
    """A' of a condensed graph, normalised."""
    assert condensed.edge_index is not None
    assert condensed.edge_weight is not None
    return build_adjacency(condensed.edge_index.to(device), condensed.num_nodes, condensed.edge_weight.to(device))


def score_as_published(learned: RebuiltCTGC, case: Case, *, seed: int = 0, on: str = "test") -> dict[str, float]:
    """Node classification by CTGC's own head, for its published protocol: see :func:`linear_probe`.

    Our tables' head differs: it centres embeddings and scales them to unit length, penalises its weights per label and
    smooths its answers over the graph.
    """
    if case.clean is None:
        raise LabelError("the graph has no labels: nodes cannot be classified")
    embedding = learned.embed(learned.prepare(case.visible))
    labelled, y = case.clean.to(embedding.device), node_labels(case.graph).to(embedding.device)
    logits = linear_probe(embedding, labelled, y[labelled], num_classes(case.graph), seed)
    return score_nodes(torch.softmax(logits, dim=1).cpu(), case.graph, on)


def linear_probe(embedding: Tensor, labelled: Tensor, target: Tensor, classes: int, seed: int) -> Tensor:
    """Logits of a logistic regression on raw embeddings: 200 epochs of Adam, .01 and then .001, weight decay 5e-4."""
    width = embedding.shape[1]
    bound = (6 / (width + classes)) ** 0.5
    weight = torch.empty(width, classes).uniform_(-bound, bound, generator=torch.Generator().manual_seed(seed))
    weight = weight.to(embedding.device).requires_grad_()
    bias = torch.zeros(classes, device=embedding.device, requires_grad=True)
    optimizer = torch.optim.Adam([weight, bias], lr=0.01, weight_decay=5e-4, fused=True)
    rows = embedding[labelled]
    for epoch in range(200):
        if epoch == 100:
            optimizer.param_groups[0]["lr"] = 0.001
        loss = F.cross_entropy(rows @ weight + bias, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (embedding @ weight + bias).detach()
