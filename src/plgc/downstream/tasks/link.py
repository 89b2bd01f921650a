"""Link prediction: a light pair head f_φ on frozen embeddings.

Messages pass over training edges only (:func:`plgc.graphs.views.edges.training_edges`). The head scores a pair of nodes
by a weighted cosine and by how many training edges they have,

    s(u, v) = Σ_j (α_part(j) + δ_j) z_uj z_vj + γ (p_u + p_v) + b,   p = log(1 + degree):

one free weight for every part of the embedding, a small deviation for every coordinate, one weight for popularity. A
training edge makes the embeddings of its own two nodes similar; an edge to be predicted does not. So the head is
trained on graphs in which half of the training edges are hidden, and its positive examples are the hidden ones.
Validation edges choose the epoch, which is 0 where the plain cosine is best. Every method and every control is scored
with this head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from plgc.downstream.embedder import unit_parts
from plgc.downstream.tasks.metrics import auroc, rank_scores
from plgc.graphs.check import node_count
from plgc.graphs.views.edges import EdgeSplit, keep_edges, non_edges
from plgc.runtime.errors import SettingError
from plgc.runtime.options import check_ranges

STREAMS = {"train": 0, "val": 1, "test": 2}  # every part of a split draws its non-edges from its own generator
SLOPE, THRESHOLD = 10.0, 1 / 3  # before any training, a cosine above the threshold counts as an edge


@dataclass(frozen=True)
class LinkSettings:
    """How a pair head is trained.

    Attributes:
        epochs: steps of Adam, from the cosine.
        learning_rate: of those steps.
        penalty: c in mean cross-entropy + (c / pairs) · ‖δ‖².
        scale: α of every part when training starts, the slope of the cosine.
        views: how many graphs to train on, each with another half of the training edges hidden.
        most_edges: the largest number of hidden edges to learn from in each of them, to bound memory.
    """

    epochs: int = 200
    learning_rate: float = 0.5
    penalty: float = 1e-3
    scale: float = SLOPE
    views: int = 3
    most_edges: int = 50_000

    def __post_init__(self) -> None:
        rules = {"epochs views most_edges": "[1, inf)", "penalty": "[0, inf)", "learning_rate scale": "(0, inf)"}
        check_ranges(self, rules)


Pairs = tuple[Tensor, Tensor]  # edges followed by as many non-edges, node numbers [2, 2E]; which are edges, bool [2E]


def labelled_pairs(split: EdgeSplit, graph: Data, seed: int, part: str) -> Pairs:
    """The edges of one part of a split, and as many non-edges of the whole graph."""
    if part not in STREAMS:
        raise SettingError(f"on is {part!r}: choose train, val or test")
    return _with_non_edges(getattr(split, part), graph, _generator(seed, part))


def _generator(seed: int, part: str) -> torch.Generator:
    return torch.Generator().manual_seed(len(STREAMS) * seed + STREAMS[part])


def _with_non_edges(edges: Tensor, graph: Data, generator: torch.Generator) -> Pairs:
    pairs = torch.cat([edges, non_edges(graph, edges.shape[1], generator)], dim=1)
    return pairs, torch.arange(pairs.shape[1]) < edges.shape[1]


@dataclass(frozen=True)
class LinkExamples:
    """What a pair head learns from, the same for every embedder.

    Attributes:
        visible: the graph with all training edges and no other.
        val: validation edges and as many non-edges.
        halves: graphs in which half of the training edges are hidden, each with the hidden ones and non-edges.
        settings: how the head is trained.
    """

    visible: Data
    val: Pairs
    halves: list[tuple[Data, Pairs]]
    settings: LinkSettings


def link_examples(split: EdgeSplit, graph: Data, seed: int, settings: LinkSettings | None = None) -> LinkExamples:
    """Draw the examples of a pair head.

    Args:
        split: from :func:`plgc.graphs.views.edges.split_edges`; its test edges are not read.
        graph: the whole graph: a non-edge must be no edge of it.
        seed: of the hidden halves and the non-edges.
        settings: how the head is trained.
    """
    settings = settings or LinkSettings()
    generator, count, halves = _generator(seed, "train"), split.train.shape[1], []
    for _ in range(settings.views):
        order = torch.randperm(count, generator=generator)
        shown = keep_edges(graph, split.train[:, order[: count // 2].sort().values])
        hidden = split.train[:, order[count // 2 :][: settings.most_edges]]
        halves.append((shown, _with_non_edges(hidden, graph, generator)))
    return LinkExamples(keep_edges(graph, split.train), labelled_pairs(split, graph, seed, "val"), halves, settings)


@dataclass(frozen=True)
class LinkInputs:
    """What a pair head is given of every node: its centred unit row of the embedding, and its popularity p."""

    rows: Tensor
    popularity: Tensor


def link_inputs(embed: Callable[[Data], Tensor], parts: Mapping[str, int], graph: Data) -> LinkInputs:
    """Embed a graph, with messages over its edges, and count each node's edges: p = log(1 + degree)."""
    assert graph.edge_index is not None
    embedding = embed(graph)
    popularity = torch.log1p(torch.bincount(graph.edge_index[0], minlength=node_count(graph)).float())
    return LinkInputs(unit_parts(embedding, embedding.mean(0), parts), popularity.to(embedding.device))


@dataclass(frozen=True)
class LinkHead:
    """φ.

    Attributes:
        weight: α_part(j) + δ_j, [Σ parts]; the same for every coordinate where the plain cosine was kept.
        popularity: γ; 0 where the plain cosine was kept.
        bias: b; it changes no ranking.
        epoch: how long the head was trained; 0 where the plain cosine was best on validation edges.
        validation: AUROC on validation edges of the ``cosine`` and of what was ``kept``.
    """

    weight: Tensor
    popularity: Tensor
    bias: Tensor
    epoch: int
    validation: dict[str, float]

    num_classes = None  # it has none

    def scores(self, inputs: LinkInputs, pairs: Tensor) -> Tensor:
        """The score of every pair of nodes, [E]; the order of the two nodes does not matter."""
        rows, known = inputs.rows, inputs.popularity
        chunks = [
            (rows[u] * rows[v]) @ self.weight + self.popularity * (known[u] + known[v]) + self.bias
            for u, v in pairs.to(rows.device).split(65536, dim=1)
        ]
        return torch.cat(chunks)

    def header(self) -> dict[str, Any]:
        """What a model file describes beside the tensors."""
        return {"epoch": self.epoch, "validation": self.validation}

    @staticmethod
    def from_file(tensors: dict[str, Tensor], header: dict[str, Any], parts: Mapping[str, int]) -> LinkHead:
        """The head of a model file; raises ValueError where it does not fit the embedding's parts."""
        weight, popularity, bias = (tensors[name] for name in ("weight", "popularity", "bias"))
        columns = sum(parts.values())
        if weight.shape != (columns,) or popularity.numel() != 1 or bias.numel() != 1:
            raise ValueError(f"the head has shape {tuple(weight.shape)}, the backbone gives {columns} columns")
        validation = {str(name): float(value) for name, value in header["validation"].items()}
        return LinkHead(weight, popularity, bias, int(header["epoch"]), validation)


def fit_link(
    embed: Callable[[Data], Tensor], parts: Mapping[str, int], examples: LinkExamples
) -> tuple[LinkHead, LinkInputs]:
    """Train a pair head; the plain cosine (epoch 0) is kept unless validation edges prefer a later head.

    Heads of every tenth epoch and the last are compared by their AUROC.

    Args:
        embed: a frozen embedder: from a graph, with messages over its edges, to [N, Σ parts].
        parts: widths of the embedding's parts, by name.
        examples: from :func:`link_examples`.

    Returns:
        The head, and what it is given of every node of the graph of training edges, to score pairs with.
    """
    settings = examples.settings
    visible = link_inputs(embed, parts, examples.visible)
    device = visible.rows.device
    val, truth = (tensor.to(device) for tensor in examples.val)
    halves = [
        (link_inputs(embed, parts, graph), pairs.to(device), joined.float().to(device))
        for graph, (pairs, joined) in examples.halves
    ]
    part = torch.repeat_interleave(torch.arange(len(parts)), torch.tensor(list(parts.values()))).to(device)
    alpha = torch.full((len(parts),), settings.scale, device=device, requires_grad=True)
    delta = torch.zeros(len(part), device=device, requires_grad=True)
    gamma = torch.zeros((), device=device, requires_grad=True)
    bias = torch.tensor(-settings.scale * THRESHOLD, device=device).requires_grad_()
    optimizer = torch.optim.Adam([alpha, delta, gamma, bias], lr=settings.learning_rate, fused=True)

    def validated(epoch: int) -> tuple[float, LinkHead]:
        head = LinkHead((alpha[part] + delta).detach(), gamma.detach().clone(), bias.detach().clone(), epoch, {})
        return auroc(head.scores(visible, val), truth), head

    cosine, kept = validated(0)
    best = cosine
    for epoch in range(1, settings.epochs + 1):
        inputs, pairs, target = halves[epoch % len(halves)]
        logits = LinkHead(alpha[part] + delta, gamma, bias, epoch, {}).scores(inputs, pairs)
        penalty = settings.penalty / len(target) * delta.pow(2).sum()
        loss = F.binary_cross_entropy_with_logits(logits, target) + penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 10 == 0 or epoch == settings.epochs:
            value, head = validated(epoch)
            if value > best:
                best, kept = value, head
    return replace(kept, validation={"cosine": cosine, "kept": best}), visible


def score_links(
    head: LinkHead, visible: LinkInputs, split: EdgeSplit, graph: Data, seed: int, on: str = "test"
) -> dict[str, float]:
    """AUROC and average precision (0–1) on one part's edges and as many non-edges of the whole graph."""
    pairs, joined = labelled_pairs(split, graph, seed, on)
    return rank_scores(head.scores(visible, pairs), joined.to(visible.rows.device))
