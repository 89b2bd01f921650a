"""Link prediction: a light pair head f_φ on frozen embeddings.

Messages pass over training edges only (:func:`plgc.graphs.views.edges.training_edges`). The head scores a pair of nodes
by a weighted cosine and by how many training edges they have,

    s(u, v) = Σ_j w_j z_uj z_vj + γ · π(u, v) + b,   w_j = α_part(j) + β_part(j) δ_j,

with a weight α for the cosine of every part of the embedding, a deviation δ for every coordinate, and a weight β for
the deviations of a part. It is fitted in two steps, both with the ranking loss of
:mod:`plgc.downstream.tasks.ranking`:

1. δ of every part by itself. A training edge makes the embeddings of its own two nodes similar; an edge to be predicted
   does not. So δ is trained on graphs in which half of the training edges are hidden, and its examples are those.
2. α, β and γ on validation edges. Condensation has seen the training edges, also those that are hidden in step 1: what
   was learned looks better on them than it is. It has not seen validation edges, so these can tell which part misleads.
   With few of them the head stays near the plain cosine of all parts.

Every method and every control is scored with this head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from plgc.downstream.embedder import unit_parts
from plgc.downstream.tasks.metrics import auroc, rank_scores
from plgc.downstream.tasks.ranking import rank_deviations, rank_weights
from plgc.graphs.check import node_count
from plgc.graphs.views.edges import EdgeSplit, keep_edges, non_edges
from plgc.runtime.errors import SettingError
from plgc.runtime.options import check_ranges
from plgc.runtime.schema import Count, named_tensors, read

STREAMS = {"train": 0, "val": 1, "test": 2}  # every part of a split draws its non-edges from its own generator
SLOPE, THRESHOLD = 10.0, 1 / 3  # before any training, a cosine above the threshold counts as an edge
POPULARITY = 3  # numbers that tell how popular a pair is
CHUNK = 2**25  # numbers z_uj z_vj that are held at once


@dataclass(frozen=True)
class LinkSettings:
    """How a pair head is trained.

    Attributes:
        epochs: steps of Adam for δ, from the cosine.
        learning_rate: of those steps.
        penalty: c in mean ranking loss + (c / edges) · ‖δ‖².
        scale: α of every part without evidence, the slope of the cosine.
        shrinkage: how strongly α, β and γ stay with the cosine, see :func:`rank_weights`.
        views: how many graphs to train δ on, each with another half of the training edges hidden.
        most_edges: the largest number of edges to learn from in each graph.
        most_products: the largest number of products z_uj z_vj of a part to learn from in each graph, to bound memory.
    """

    epochs: int = 60
    learning_rate: float = 0.5
    penalty: float = 2e-3
    scale: float = SLOPE
    shrinkage: float = 3.0
    views: int = 3
    most_edges: int = 50_000
    most_products: int = 20_000_000

    def __post_init__(self) -> None:
        rules = {
            "epochs views most_edges most_products": "[1, inf)",
            "penalty": "[0, inf)",
            "learning_rate scale shrinkage": "(0, inf)",
        }
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


def pair_popularity(inputs: LinkInputs, pairs: Tensor) -> Tensor:
    """π(u, v) = (p_u + p_v, |p_u − p_v|, how many of the two nodes have no edge at all), [E, 3]."""
    u, v = inputs.popularity[pairs]
    return torch.stack([u + v, (u - v).abs(), (u == 0).float() + (v == 0).float()], dim=1)


def pair_products(inputs: LinkInputs, pairs: Tensor, directions: Tensor) -> Tensor:
    """Σ_j z_uj z_vj D_j for every pair of nodes; D is [Σ parts, d] or [Σ parts]."""
    rows = inputs.rows
    chunks = pairs.split(max(1, CHUNK // rows.shape[1]), dim=1)
    return torch.cat([(rows[u] * rows[v]) @ directions for u, v in chunks])


@dataclass(frozen=True)
class LinkRecord:
    """A pair head as a model file describes it; earlier versions had the best ``epoch``, and no ``shares``."""

    validation: dict[str, float]
    shares: dict[str, float] = field(default_factory=dict)
    epoch: Count = 0


@dataclass(frozen=True)
class LinkHead:
    """φ.

    Attributes:
        weight: w, [Σ parts].
        popularity: γ, [3].
        bias: b; it changes no ranking.
        shares: how much each part, and ``popularity``, moves the score: the standard deviation of its term over
            validation pairs, as a share of the sum. Empty in model files of earlier versions.
        validation: AUROC on validation edges of the ``cosine``, and of what was ``kept``: each half of them is scored
            by weights fitted on the other half.
    """

    weight: Tensor
    popularity: Tensor
    bias: Tensor
    shares: dict[str, float]
    validation: dict[str, float]

    num_classes = None  # it has none

    def scores(self, inputs: LinkInputs, pairs: Tensor) -> Tensor:
        """The score of every pair of nodes, [E]; the order of the two nodes does not matter."""
        pairs = pairs.to(inputs.rows.device)
        return pair_products(inputs, pairs, self.weight) + pair_popularity(inputs, pairs) @ self.popularity + self.bias

    def header(self) -> dict[str, Any]:
        """What a model file describes beside the tensors."""
        return {"shares": self.shares, "validation": self.validation}

    @staticmethod
    def from_file(tensors: dict[str, Tensor], header: dict[str, Any], parts: Mapping[str, int]) -> LinkHead:
        """The head of a model file; raises ValueError where it does not fit the embedding's parts."""
        weight, popularity, bias = named_tensors(tensors, "weight", "popularity", "bias")
        columns = sum(parts.values())
        if popularity.shape == ():  # earlier versions had p_u + p_v alone
            popularity = F.pad(popularity.reshape(1), (0, POPULARITY - 1))
        if weight.shape != (columns,) or popularity.shape != (POPULARITY,) or bias.shape not in ((), (1,)):
            raise ValueError(f"the head has shape {tuple(weight.shape)}, the backbone gives {columns} columns")
        found = read(LinkRecord, header, where="head")
        return LinkHead(weight, popularity, bias, found.shares, found.validation)


def fit_link(
    embed: Callable[[Data], Tensor], parts: Mapping[str, int], examples: LinkExamples
) -> tuple[LinkHead, LinkInputs]:
    """Train a pair head: δ on hidden training edges, α, β and γ on validation edges.

    Args:
        embed: a frozen embedder: from a graph, with messages over its edges, to [N, Σ parts].
        parts: widths of the embedding's parts, by name.
        examples: from :func:`link_examples`.

    Returns:
        The head, and what it is given of every node of the graph of training edges, to score pairs with.
    """
    settings, names = examples.settings, list(parts)
    visible = link_inputs(embed, parts, examples.visible)
    pairs, joined = (tensor.to(visible.rows.device) for tensor in _at_most(settings.most_edges, *examples.val))
    # One column for the cosine of every part, then one for its deviations.
    cosines = torch.block_diag(*(torch.ones(width, 1) for width in parts.values())).to(visible.rows)
    directions = torch.cat([cosines, cosines * _deviations(embed, parts, examples)[:, None]], dim=1)
    features = torch.cat([pair_products(visible, pairs, directions), pair_popularity(visible, pairs)], dim=1).double()
    start = features.new_zeros(features.shape[1])
    start[: len(names)] = settings.scale

    weights = rank_weights(features, joined, start, settings.shrinkage)
    weight = (directions.double() @ weights[: 2 * len(names)]).float()
    bias = -(features @ weights).median().float()  # half of the pairs are edges
    shares = _shares(names, features * weights)
    kept = _held_out(features, joined, start, settings.shrinkage)
    validation = {"cosine": auroc(features @ start, joined), "kept": kept}
    return LinkHead(weight, weights[-POPULARITY:].float(), bias, shares, validation), visible


def _shares(names: list[str], terms: Tensor) -> dict[str, float]:
    """See :class:`LinkHead`; ``terms`` are the summands of every score, [E, 2 · parts + 3]."""
    cosines, deviations, popularity = terms.split([len(names), len(names), POPULARITY], dim=1)
    spread = torch.cat([cosines + deviations, popularity.sum(1, keepdim=True)], dim=1).std(0, correction=0)
    return dict(zip([*names, "popularity"], (spread / spread.sum().clamp(min=1e-12)).tolist(), strict=True))


def _held_out(features: Tensor, joined: Tensor, start: Tensor, shrinkage: float) -> float:
    """AUROC of each half of the pairs with weights that were fitted on the other half, the mean of both."""
    first = torch.arange(len(joined), device=joined.device) % (len(joined) // 2) % 2 == 0
    folds = [(first, ~first), (~first, first)] if len(joined) > 2 else [(first, first)]  # a single edge has no halves
    scored = [
        auroc(features[held] @ rank_weights(features[used], joined[used], start, shrinkage), joined[held])
        for used, held in folds
    ]
    return sum(scored) / len(scored)


def _at_most(edges: int, pairs: Tensor, joined: Tensor) -> Pairs:
    """Edges and as many non-edges, evenly spaced where there are more than asked for."""
    count = len(joined) // 2
    place = torch.arange(count)[:: -(-count // edges)]
    kept = torch.cat([place, place + count])
    return pairs[:, kept], joined[kept]


def _deviations(embed: Callable[[Data], Tensor], parts: Mapping[str, int], examples: LinkExamples) -> Tensor:
    """δ of every coordinate, [Σ parts]; that of a part does not depend on the other parts."""
    settings, widths = examples.settings, list(parts.values())
    seen: list[list[tuple[Tensor, Tensor]]] = [[] for _ in parts]
    for graph, hidden in examples.halves:
        inputs = link_inputs(embed, parts, graph)
        for own, rows in zip(seen, inputs.rows.split(widths, dim=1), strict=True):
            edges = min(settings.most_edges, max(1, settings.most_products // (2 * rows.shape[1])))
            pairs = _at_most(edges, *hidden)[0].to(rows.device)
            popularity = pair_popularity(inputs, pairs)[:, 0]
            own.append((rows[pairs[0]] * rows[pairs[1]] * len(parts), popularity))  # they sum to the cosine of the part
    how = (settings.scale, settings.epochs, settings.learning_rate, settings.penalty)
    return torch.cat([rank_deviations(own, *how) for own in seen])


def score_links(
    head: LinkHead, visible: LinkInputs, split: EdgeSplit, graph: Data, seed: int, on: str = "test"
) -> dict[str, float]:
    """AUROC and average precision (0–1) on one part's edges and as many non-edges of the whole graph.

    A few weights of the head were fitted on validation edges: on ``val`` its scores are a little too good.
    """
    pairs, joined = labelled_pairs(split, graph, seed, on)
    return rank_scores(head.scores(visible, pairs), joined.to(visible.rows.device))
