"""Link prediction: a light pair head f_φ on frozen embeddings, and a whole-graph GNN to compare with.

Embeddings come from message passing over training edges alone (:func:`plgc.graphs.edges.training_edges`). The head is
a weighted cosine, s(u, v) = Σ_j w_j z_uj z_vj + b with w_j = α_part(j) + δ_j: a free weight for every part of the
embedding, and a small deviation for every coordinate. It starts as the plain cosine, learns from training edges
against as many non-edges, and validation edges choose when to stop: at once where they prefer the cosine. Every method
and every control in our tables gets this same head.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from plgc.backbone import unit_parts
from plgc.encoder import GNN
from plgc.errors import SettingError
from plgc.graphs.edges import EdgeSplit, keep_edges, non_edges
from plgc.inputs import prepare, resolve_scaling
from plgc.propagate import drop_edges
from plgc.tasks.metrics import auroc

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
        most_edges: train on a random draw of this many training edges where there are more, to bound memory.
    """

    epochs: int = 200
    learning_rate: float = 0.3
    penalty: float = 1e-3
    scale: float = SLOPE
    most_edges: int = 50_000

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("penalty", 0), ("most_edges", 1)):
            if not getattr(self, name) >= least:
                raise SettingError(f"{name} is {getattr(self, name)}: it must be at least {least}")
        for name in ("learning_rate", "scale"):
            if not getattr(self, name) > 0:
                raise SettingError(f"{name} is {getattr(self, name)}: it must be above 0")


@dataclass(frozen=True)
class LinkHead:
    """φ: a weight per coordinate, with the mean and the parts of the embeddings it was trained on.

    Attributes:
        weight: w, [Σ parts]; the same for every coordinate where the plain cosine was kept.
        bias: b, a number; it changes no ranking.
        mean: of the embeddings, [Σ parts].
        parts: widths of the embedding's parts.
        epoch: how long the head was trained; 0 where validation edges preferred the plain cosine.
        validation: AUROC on validation edges of the ``cosine`` and of what was ``kept``.
    """

    weight: Tensor
    bias: Tensor
    mean: Tensor
    parts: tuple[int, ...]
    epoch: int
    validation: dict[str, float]

    def scores(self, embedding: Tensor, pairs: Tensor) -> Tensor:
        """The score of every pair of nodes, [E]; the same whichever way a pair is written."""
        rows = unit_parts(embedding, self.mean, self.parts)
        return _pair_scores(rows, pairs.to(rows.device), self.weight, self.bias)


def fit_link(
    embedding: Tensor,
    parts: tuple[int, ...],
    split: EdgeSplit,
    graph: Data,
    seed: int,
    settings: LinkSettings | None = None,
) -> LinkHead:
    """Train a pair head on training edges and as many non-edges; validation edges choose the epoch.

    The plain cosine (epoch 0) is kept unless a head of one of every tenth epochs, or the last, does better on
    validation edges and as many non-edges.

    Args:
        embedding: frozen embeddings of every node, [N, Σ parts], from message passing over training edges.
        parts: widths of the embedding's parts.
        split: from :func:`plgc.graphs.edges.split_edges`; its test edges are not read.
        graph: the whole graph: non-edges must be no edge of it.
        seed: of the non-edges.
        settings: how the head is trained.
    """
    settings = settings or LinkSettings()
    mean = embedding.mean(0)
    rows = unit_parts(embedding, mean, parts)
    device = rows.device
    pairs, target = _labelled_pairs(split, graph, seed, "train", device, settings.most_edges)
    val, truth = _labelled_pairs(split, graph, seed, "val", device)
    products = rows[pairs[0]] * rows[pairs[1]]
    part = torch.repeat_interleave(torch.arange(len(parts)), torch.tensor(parts)).to(device)
    alpha = torch.full((len(parts),), settings.scale, device=device, requires_grad=True)
    delta = torch.zeros(len(part), device=device, requires_grad=True)
    bias = torch.tensor(-settings.scale * THRESHOLD, device=device).requires_grad_()
    optimizer = torch.optim.Adam([alpha, delta, bias], lr=settings.learning_rate, fused=True)
    weight = (alpha[part] + delta).detach()
    cosine = best = auroc(_pair_scores(rows, val, weight, bias.detach()), truth)
    kept = (weight, bias.detach().clone(), 0)
    for epoch in range(1, settings.epochs + 1):
        logits = products @ (alpha[part] + delta) + bias
        penalty = settings.penalty / len(target) * delta.pow(2).sum()
        loss = F.binary_cross_entropy_with_logits(logits, target.float()) + penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 10 == 0 or epoch == settings.epochs:
            weight = (alpha[part] + delta).detach()
            value = auroc(_pair_scores(rows, val, weight, bias.detach()), truth)
            if value > best:
                best, kept = value, (weight, bias.detach().clone(), epoch)
    weight, bias, epoch = kept
    return LinkHead(weight, bias, mean, parts, epoch, {"cosine": cosine, "kept": best})


def score_links(
    head: LinkHead, embedding: Tensor, split: EdgeSplit, graph: Data, seed: int, on: str = "test"
) -> dict[str, float]:
    """AUROC and average precision (0–1) on one part's edges and as many non-edges of the whole graph."""
    pairs, target = _labelled_pairs(split, graph, seed, on, embedding.device)
    score = head.scores(embedding, pairs)
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
    model learns to find the very edges it was shown. A pair's score is the dot product of its unit embeddings, the
    plain cosine that heads start from; unscaled dot products do far worse. Every epoch draws as many fresh non-edges as
    there are edges.
    """
    if epochs < 1:
        raise SettingError(f"epochs is {epochs}: at least 1 is needed")
    seen = keep_edges(graph, split.train)
    assert seen.x is not None
    inputs = prepare(seen, resolve_scaling(seen.x, "auto"), device)
    generator = torch.Generator().manual_seed(seed)
    model = GNN("gcn", inputs.num_features, HIDDEN, WIDTH, dropout=DROPOUT, generator=generator).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=True)
    val, truth = _labelled_pairs(split, graph, seed, "val", inputs.device)
    scored, answers = _labelled_pairs(split, graph, seed, on, inputs.device)
    edges = split.train.shape[1]
    target = (torch.arange(2 * edges, device=device) < edges).float()
    best, kept = -1.0, torch.empty(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # dropout draws from torch's own generator
        for _ in range(epochs):
            pairs = torch.cat([split.train, non_edges(graph, edges, generator)], dim=1).to(device)
            embedding = model.train()(inputs.x, drop_edges(inputs.adjacency, EDGES_HIDDEN, generator))
            logits = SLOPE * (_cosines(embedding, pairs) - THRESHOLD)
            loss = F.binary_cross_entropy_with_logits(logits, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                embedding = model.eval()(inputs.x, inputs.adjacency)
            value = auroc(_cosines(embedding, val), truth)
            if value > best:
                best, kept = value, _cosines(embedding, scored)
    return {"auroc": auroc(kept, answers), "ap": average_precision(kept, answers)}


def _labelled_pairs(
    split: EdgeSplit, graph: Data, seed: int, part: str, device: torch.device, most: int | None = None
) -> tuple[Tensor, Tensor]:
    """One part's edges (at most ``most``) followed by as many non-edges, [2, 2E], and which are edges, bool [2E]."""
    if part not in STREAMS:
        raise SettingError(f"on is {part!r}: choose train, val or test")
    edges: Tensor = getattr(split, part)
    generator = torch.Generator().manual_seed(len(STREAMS) * seed + STREAMS[part])
    if most is not None and edges.shape[1] > most:
        edges = edges[:, torch.randperm(edges.shape[1], generator=generator)[:most]]
    pairs = torch.cat([edges, non_edges(graph, edges.shape[1], generator)], dim=1)
    return pairs.to(device), (torch.arange(pairs.shape[1]) < edges.shape[1]).to(device)


def _pair_scores(rows: Tensor, pairs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.cat([(rows[u] * rows[v]) @ weight + bias for u, v in pairs.split(65536, dim=1)])


def _cosines(embedding: Tensor, pairs: Tensor) -> Tensor:
    unit = F.normalize(embedding, dim=1)
    return (unit[pairs[0]] * unit[pairs[1]]).sum(1)
