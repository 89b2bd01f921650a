"""Link prediction: a light pair head f_φ on a frozen embedder, and a whole-graph GNN to compare with.

Messages pass over training edges alone (:func:`plgc.graphs.views.edges.training_edges`). The head scores a pair by a weighted
cosine and by how many training edges its nodes have,

    s(u, v) = Σ_j (α_part(j) + δ_j) z_uj z_vj + γ (p_u + p_v) + b,   p = log(1 + degree):

a free weight for every part of the embedding, a small deviation for every coordinate, one weight for popularity. An
edge that carries messages pulls its own ends together, which no edge to be predicted does. So the head learns from
views in which half of the training edges are hidden, and its examples are the hidden ones. Validation edges choose when
to stop: at once where they prefer the plain cosine. Every method and every control in our tables gets this same head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from plgc.downstream.backbone import unit_parts
from plgc.downstream.tasks.metrics import auroc
from plgc.graphs.check import node_count
from plgc.graphs.views.edges import EdgeSplit, keep_edges, non_edges
from plgc.method.encoder import GNN
from plgc.runtime.errors import SettingError
from plgc.sparse.adjacency import Adjacency, drop_edges
from plgc.sparse.inputs import prepare, resolve_scaling

STREAMS = {"train": 0, "val": 1, "test": 2}  # every part of a split draws its non-edges from a generator of its own
SLOPE, THRESHOLD = 10.0, 1 / 3  # a cosine above the threshold counts as an edge, before any training
HIDDEN, WIDTH, DROPOUT, LEARNING_RATE, EDGES_HIDDEN = 256, 128, 0.5, 0.003, 0.5  # chosen on validation edges


@dataclass(frozen=True)
class LinkSettings:
    """How a pair head is trained.

    Attributes:
        epochs: steps of Adam, from the cosine.
        learning_rate: of those steps.
        penalty: c in mean cross-entropy + (c / pairs) · ‖δ‖².
        scale: the slope of the cosine that training starts from, α of every part.
        views: how many halves of the training edges are hidden, one after the other.
        most_edges: learn from at most this many edges a view, to bound memory.
    """

    epochs: int = 200
    learning_rate: float = 0.5
    penalty: float = 1e-3
    scale: float = SLOPE
    views: int = 3
    most_edges: int = 50_000

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("penalty", 0), ("views", 1), ("most_edges", 1)):
            if not getattr(self, name) >= least:
                raise SettingError(f"{name} is {getattr(self, name)}: it must be at least {least}")
        for name in ("learning_rate", "scale"):
            if not getattr(self, name) > 0:
                raise SettingError(f"{name} is {getattr(self, name)}: it must be above 0")


@dataclass(frozen=True)
class View:
    """What pairs are scored by: an embedding of every node, its centred unit rows, and popularity p."""

    rows: Tensor
    popularity: Tensor


@dataclass(frozen=True)
class LinkHead:
    """φ.

    Attributes:
        weight: α_part(j) + δ_j, [Σ parts]; the same for every coordinate where the plain cosine was kept.
        popularity: γ; 0 where the plain cosine was kept.
        bias: b; it changes no ranking.
        epoch: how long the head was trained; 0 where validation edges preferred the plain cosine.
        validation: AUROC on validation edges of the ``cosine`` and of what was ``kept``.
    """

    weight: Tensor
    popularity: Tensor
    bias: Tensor
    epoch: int
    validation: dict[str, float]

    def scores(self, view: View, pairs: Tensor) -> Tensor:
        """The score of every pair of nodes, [E]; the same whichever way a pair is written."""
        return _pair_scores(view, pairs.to(view.rows.device), self.weight, self.popularity, self.bias)


def look(embed: Callable[[Data], Tensor], parts: tuple[int, ...], graph: Data) -> View:
    """See a graph as the head does; messages pass over its edges."""
    embedding = embed(graph)
    return View(unit_parts(embedding, embedding.mean(0), parts), _popularity(graph).to(embedding.device))


def fit_link(
    embed: Callable[[Data], Tensor],
    parts: tuple[int, ...],
    split: EdgeSplit,
    graph: Data,
    seed: int,
    settings: LinkSettings | None = None,
) -> tuple[LinkHead, View]:
    """Train a pair head on training edges and as many non-edges; validation edges choose the epoch.

    The plain cosine (epoch 0) is kept unless a head of one of every tenth epochs, or the last, does better on
    validation edges and as many non-edges.

    Args:
        embed: a frozen embedder: from a graph, messages passing over its edges, to [N, Σ parts].
        parts: widths of the embedding's parts.
        split: from :func:`plgc.graphs.views.edges.split_edges`; its test edges are not read.
        graph: the whole graph: non-edges must be no edge of it.
        seed: of the views and the non-edges.
        settings: how the head is trained.

    Returns:
        The head, and the graph of training edges as it sees it, to score pairs on.
    """
    settings = settings or LinkSettings()
    whole = look(embed, parts, keep_edges(graph, split.train))
    device = whole.rows.device
    val, truth = _labelled_pairs(split, graph, seed, "val", device)
    examples = _hidden_halves(embed, parts, split, graph, seed, settings)
    part = torch.repeat_interleave(torch.arange(len(parts)), torch.tensor(parts)).to(device)
    alpha = torch.full((len(parts),), settings.scale, device=device, requires_grad=True)
    delta = torch.zeros(len(part), device=device, requires_grad=True)
    gamma = torch.zeros((), device=device, requires_grad=True)
    bias = torch.tensor(-settings.scale * THRESHOLD, device=device).requires_grad_()
    optimizer = torch.optim.Adam([alpha, delta, gamma, bias], lr=settings.learning_rate, fused=True)

    def current() -> tuple[Tensor, Tensor, Tensor]:
        return (alpha[part] + delta).detach(), gamma.detach().clone(), bias.detach().clone()

    kept, kept_epoch = current(), 0
    cosine = best = auroc(_pair_scores(whole, val, *kept), truth)
    for epoch in range(1, settings.epochs + 1):
        view, pairs, target = examples[epoch % len(examples)]
        logits = _pair_scores(view, pairs, alpha[part] + delta, gamma, bias)
        penalty = settings.penalty / len(target) * delta.pow(2).sum()
        loss = F.binary_cross_entropy_with_logits(logits, target) + penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 10 == 0 or epoch == settings.epochs:
            value = auroc(_pair_scores(whole, val, *current()), truth)
            if value > best:
                best, kept, kept_epoch = value, current(), epoch
    return LinkHead(*kept, kept_epoch, {"cosine": cosine, "kept": best}), whole


def _hidden_halves(
    embed: Callable[[Data], Tensor],
    parts: tuple[int, ...],
    split: EdgeSplit,
    graph: Data,
    seed: int,
    settings: LinkSettings,
) -> list[tuple[View, Tensor, Tensor]]:
    """Views with half of the training edges hidden; the hidden ones, followed by as many non-edges; which are edges."""
    generator = torch.Generator().manual_seed(len(STREAMS) * seed + STREAMS["train"])
    count = split.train.shape[1]
    examples = []
    for _ in range(settings.views):
        order = torch.randperm(count, generator=generator)
        shown = split.train[:, order[: count // 2].sort().values]
        hidden = split.train[:, order[count // 2 :][: settings.most_edges]]
        view = look(embed, parts, keep_edges(graph, shown))
        pairs = torch.cat([hidden, non_edges(graph, hidden.shape[1], generator)], dim=1)
        target = (torch.arange(pairs.shape[1]) < hidden.shape[1]).float()
        examples.append((view, pairs.to(view.rows.device), target.to(view.rows.device)))
    return examples


def score_links(
    head: LinkHead, view: View, split: EdgeSplit, graph: Data, seed: int, on: str = "test"
) -> dict[str, float]:
    """AUROC and average precision (0–1) on one part's edges and as many non-edges of the whole graph."""
    pairs, target = _labelled_pairs(split, graph, seed, on, view.rows.device)
    score = head.scores(view, pairs)
    return {"auroc": auroc(score, target), "ap": average_precision(score, target)}


def average_precision(score: Tensor, positive: Tensor) -> float:
    """Mean over the positives of the precision at their score, ties sharing one precision; NaN without positives."""
    score, positive = score.double(), positive.bool()
    if not bool(positive.any()):
        return float("nan")
    _, level, count = torch.unique(-score, return_inverse=True, return_counts=True)
    hits = torch.zeros_like(count).index_add_(0, level, positive.long())
    precision = hits.cumsum(0).double() / count.cumsum(0)
    return float((precision * hits).sum() / hits.sum())


def train_whole_link(
    graph: Data, split: EdgeSplit, seed: int, epochs: int = 200, device: str = "cpu", on: str = "test"
) -> dict[str, float]:
    """Train a two-layer GCN end to end on the training edges and score it: the best epoch by validation AUROC.

    Messages pass over training edges alone, and while training over a fresh half of them at every epoch: else the
    model learns to find the very edges it was shown. A pair's score is that of the heads, the cosine of its embeddings
    and their popularity; unscaled dot products do far worse. Every epoch draws as many fresh non-edges as edges.
    """
    if epochs < 1:
        raise SettingError(f"epochs is {epochs}: at least 1 is needed")
    seen = keep_edges(graph, split.train)
    assert seen.x is not None
    inputs = prepare(seen, resolve_scaling(seen.x, "auto"), device)
    generator = torch.Generator().manual_seed(seed)
    model = GNN("gcn", inputs.num_features, HIDDEN, WIDTH, dropout=DROPOUT, generator=generator).to(device)
    gamma = torch.zeros((), device=device, requires_grad=True)
    slopes = {"params": [gamma], "lr": 10 * LEARNING_RATE}
    optimizer = torch.optim.Adam([{"params": model.parameters()}, slopes], lr=LEARNING_RATE, fused=True)
    val, truth = _labelled_pairs(split, graph, seed, "val", inputs.device)
    scored, answers = _labelled_pairs(split, graph, seed, on, inputs.device)
    edges = split.train.shape[1]
    target = (torch.arange(2 * edges, device=device) < edges).float()

    def score(adjacency: Adjacency, pairs: Tensor) -> Tensor:
        rows = F.normalize(model(inputs.x, adjacency), dim=1)
        popularity = torch.log(adjacency.degree)  # the degree counts the self-loop
        cosine = (rows[pairs[0]] * rows[pairs[1]]).sum(1)
        return SLOPE * (cosine - THRESHOLD) + gamma * (popularity[pairs[0]] + popularity[pairs[1]])

    best, kept = -1.0, torch.empty(0)
    with torch.random.fork_rng(devices=[inputs.device] if inputs.device.type == "cuda" else []):
        torch.manual_seed(seed)  # dropout draws from torch's own generator
        for _ in range(epochs):
            model.train()
            pairs = torch.cat([split.train, non_edges(graph, edges, generator)], dim=1).to(device)
            logits = score(drop_edges(inputs.adjacency, EDGES_HIDDEN, generator), pairs)
            loss = F.binary_cross_entropy_with_logits(logits, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                value = auroc(score(inputs.adjacency, val), truth)
                if value > best:
                    best, kept = value, score(inputs.adjacency, scored)
    return {"auroc": auroc(kept, answers), "ap": average_precision(kept, answers)}


def _labelled_pairs(split: EdgeSplit, graph: Data, seed: int, part: str, device: torch.device) -> tuple[Tensor, Tensor]:
    """One part's edges followed by as many non-edges, [2, 2E], and which are edges, bool [2E]."""
    if part not in STREAMS:
        raise SettingError(f"on is {part!r}: choose train, val or test")
    edges: Tensor = getattr(split, part)
    generator = torch.Generator().manual_seed(len(STREAMS) * seed + STREAMS[part])
    pairs = torch.cat([edges, non_edges(graph, edges.shape[1], generator)], dim=1)
    return pairs.to(device), (torch.arange(pairs.shape[1]) < edges.shape[1]).to(device)


def _popularity(graph: Data) -> Tensor:
    """p = log(1 + degree) of every node."""
    assert graph.edge_index is not None
    return torch.log1p(torch.bincount(graph.edge_index[0], minlength=node_count(graph)).float())


def _pair_scores(view: View, pairs: Tensor, weight: Tensor, popularity: Tensor, bias: Tensor) -> Tensor:
    rows, known = view.rows, view.popularity
    chunks = [
        (rows[u] * rows[v]) @ weight + popularity * (known[u] + known[v]) + bias for u, v in pairs.split(65536, dim=1)
    ]
    return torch.cat(chunks)
