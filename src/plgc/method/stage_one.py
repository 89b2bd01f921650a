"""Stage I: learn encoders GNN_θ', prototypes and the balanced assignment Q_T, without labels (section 3.1.1).

An epoch (:mod:`plgc.method.epoch`) asks each of two views to predict the other's balanced assignment (ℓ_swap). Decorrelation
of standardised embeddings, as in CCA-SSG, keeps them from collapsing where Sinkhorn alone does not. Several encoders
(branches) stand side by side: a node's embedding is the concatenation of one unit vector per branch, and the prototypes
live in that joint space.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plgc.method.encoder import GNN
from plgc.method.settings import Branch, PseudoLabelSettings
from plgc.method.sinkhorn import Assignment, sinkhorn
from plgc.runtime.replay import Replayed
from plgc.sparse.adjacency import Adjacency
from plgc.sparse.inputs import Inputs

TINY = 1e-12  # keeps constant columns and empty rows from dividing by zero
SAMPLE = 32_768  # nodes that the losses see at a time: more cost time and teach little
DRAWN_HERE = 1 << 18  # edges of a graph whose views are drawn on the CPU even for a GPU, in no time: both see the same
QUANTA = 1 << 28  # of a squared distance: 2^31 of them, at most 4 each, still add up within 64 bits


@dataclass
class StageOne:
    """What stage I carries from one epoch to the next."""

    settings: PseudoLabelSettings
    branches: tuple[Branch, ...]
    encoders: nn.ModuleList
    prototypes: nn.Parameter
    optimizer: torch.optim.Optimizer
    generator: torch.Generator
    draws: torch.Generator  # of the views; the same as ``generator``, or a GPU's own where that would take too long
    potentials: list[Tensor | None]
    streamed: bool = False  # whether epochs see batches: the balance then is one over the last few of them
    recording: tuple[Inputs, Replayed] | None = None  # of an epoch on a GPU, and the graph it belongs to

    @property
    def blocks(self) -> tuple[int, ...]:
        """Width of each branch's part of the embedding."""
        return tuple(branch.width for branch in self.branches)

    @property
    def standardized(self) -> bool:
        """Whether embeddings are standardised before they are normalised (they are wherever they are decorrelated)."""
        return self.settings.decorrelation > 0


@dataclass(frozen=True)
class PseudoLabels:
    """Pseudo-labels Ỹ with the assignment they are the means of.

    Attributes:
        vectors: Ỹ, one unit vector per block, [K, d].
        weights: how much of each pseudo-label every node carries, columns summing to one, [N, K].
        counts: nodes per pseudo-label after rounding, s_k, [K].
        explained: share of the embeddings' variance that the pseudo-labels explain: the label-free score.
        mass: nodes per pseudo-label before rounding, Σ_n q_nk, [K].
    """

    vectors: Tensor
    weights: Tensor
    counts: Tensor
    explained: float
    mass: Tensor


def unit_blocks(embedding: Tensor, blocks: tuple[int, ...]) -> Tensor:
    """Scale every block of columns to unit length, and the whole to unit length too: [N, Σd]."""
    parts = [F.normalize(part, dim=1) for part in embedding.split(list(blocks), dim=1)]
    return torch.cat(parts, dim=1) / math.sqrt(len(blocks))


def start_stage_one(
    inputs: Inputs, count: int, branches: tuple[Branch, ...], settings: PseudoLabelSettings, seed: int
) -> StageOne:
    """Initialise encoders from the seed, and K prototypes on well-spread nodes of the first embedding."""
    generator = torch.Generator().manual_seed(seed)
    encoders = nn.ModuleList(
        GNN(b.kind, inputs.num_features, b.hidden, b.width, layers=b.layers, generator=generator) for b in branches
    ).to(inputs.device)
    width = sum(branch.width for branch in branches)
    prototypes = nn.Parameter(torch.empty(count, width, device=inputs.device))
    optimizer = torch.optim.Adam([*encoders.parameters(), prototypes], lr=settings.learning_rate, fused=True)
    draws = generator
    if inputs.device.type != "cpu" and inputs.adjacency.num_pairs > DRAWN_HERE:
        draws = torch.Generator(inputs.device).manual_seed(seed)
    stage = StageOne(settings, branches, encoders, prototypes, optimizer, generator, draws, [None, None])
    with torch.no_grad():
        prototypes.copy_(spread_rows(embed(stage, inputs), count, generator))
    return stage


@torch.no_grad()
def embed(stage: StageOne, inputs: Inputs) -> Tensor:
    """Z: the embedding of every node of the whole graph, [N, Σd]."""
    hidden = [encode(stage, encoder, inputs, inputs.adjacency) for encoder in stage.encoders]
    return _unit(stage, hidden)


def sample_rows(rows: Tensor) -> Tensor:
    """Every so many-th of them, so that at most ``SAMPLE`` are left."""
    return rows[:: -(-len(rows) // SAMPLE)]


def encode(
    stage: StageOne,
    encoder: nn.Module,
    inputs: Inputs,
    adjacency: Adjacency,
    feature_mask: Tensor | None = None,
    rows: Tensor | None = None,
) -> Tensor:
    """H = GNN_θ'(X, A), of all nodes or some, in the precision asked for; what comes out is float32."""
    lower = stage.settings.precision == "bfloat16"
    # Kept copies of weights would be those of the epoch that was recorded (plgc.method.epoch).
    with torch.autocast(inputs.device.type, torch.bfloat16, enabled=lower, cache_enabled=False):
        return encoder(inputs.x, adjacency, feature_mask, rows).float()


def _unit(stage: StageOne, hidden: list[Tensor]) -> Tensor:
    if stage.standardized:
        hidden = [standardize(part) for part in hidden]
    return unit_blocks(torch.cat(hidden, dim=1), stage.blocks)


def standardize(hidden: Tensor) -> Tensor:
    """Centre every column and scale it to unit variance."""
    return _Standardized.apply(hidden)  # pyright: ignore


class _Standardized(torch.autograd.Function):
    """Z = (H − μ) / σ by columns. Its backward is written out: autograd's own takes several times the passes over H."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor) -> Tensor:
        """Z, which is kept with 1 / σ."""
        centred = hidden - column_means(hidden)
        inverse = column_means(centred.square()).clamp(min=TINY).rsqrt()
        result = centred.mul_(inverse)
        ctx.save_for_backward(result, inverse)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        """(G − mean(G) − Z mean(G Z)) / σ."""
        (grad,), (result, inverse) = grads, ctx.saved_tensors
        along = column_means(grad * result)
        return torch.addcmul((grad - column_means(grad)).mul_(inverse), result, along * inverse, value=-1)


def column_means(values: Tensor) -> Tensor:
    """The mean of every column; on a GPU as a product, which takes a fifth of the time of a sum over rows."""
    if not values.is_cuda:
        return values.mean(0)
    return torch.mv(values.t(), values.new_full((len(values),), 1 / len(values)))


def assign(
    scores: Tensor, settings: PseudoLabelSettings, potential: Tensor | None, temperature: float = 1.0
) -> Assignment:
    """Q of scores that have been divided by a temperature."""
    return sinkhorn(
        scores,
        epsilon=settings.epsilon / temperature,
        tolerance=settings.tolerance,
        max_iterations=settings.max_iterations,
        potential=potential,
    )


@torch.no_grad()
def balance(stage: StageOne, embedding: Tensor, vectors: Tensor) -> Tensor:
    """The column potential [K] that balances these nodes over pseudo-labels; it serves others of their kind too."""
    return assign(embedding @ vectors.t(), stage.settings, None).potential


@torch.no_grad()
def read_pseudo_labels(stage: StageOne, embedding: Tensor, core: Tensor | None = None) -> PseudoLabels:
    """Pseudo-labels of the current embedding: alternate the balanced assignment and its means (Lemma 3).

    The prototypes take over the result, so that the next round of training starts from it.

    Args:
        stage: where stage I stands.
        embedding: Z, [N, d].
        core: which nodes are assigned, bool [N]; the others carry no weight. By default all.
    """
    if core is not None:
        own = read_pseudo_labels(stage, embedding[core])
        weights = own.weights.new_zeros(len(core), own.weights.shape[1])
        weights[core] = own.weights
        return replace(own, weights=weights)
    vectors = unit_blocks(stage.prototypes, stage.blocks)
    assignment = assign(embedding @ vectors.t(), stage.settings, None)
    for repeat in range(stage.settings.refinements):
        if repeat > 0:
            assignment = assign(embedding @ vectors.t(), stage.settings, assignment.potential)
        vectors = unit_blocks(assignment.plan.t() @ embedding, stage.blocks)
    stage.prototypes.copy_(vectors)
    mass = assignment.plan.sum(0)
    hard = assignment.hard
    counts = torch.bincount(hard, minlength=vectors.shape[0])
    residual = (embedding - vectors[hard]).pow(2).sum()
    explained = 1.0 - float(residual / (embedding - embedding.mean(0)).pow(2).sum())
    return PseudoLabels(vectors, assignment.plan.div_(mass), counts, explained, mass)


@torch.no_grad()
def twin_agreement(embedding: Tensor, blocks: tuple[int, ...]) -> float:
    """How alike the first two branches see the nodes: linear centred kernel alignment (CKA), 0 to 1."""
    first, second, *_ = embedding.split(list(blocks), dim=1)
    first, second = first - first.mean(0), second - second.mean(0)
    cross = (first.t() @ second).pow(2).sum()
    own = [torch.linalg.matrix_norm(part.t() @ part) for part in (first, second)]
    return float(cross / (own[0] * own[1]).clamp(min=TINY))


@torch.no_grad()
def spread_rows(rows: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Pick ``count`` unit rows far from each other (the seeding of k-means++), without waiting for the device."""
    picks = [torch.randint(rows.shape[0], (1,), generator=generator).to(rows.device)]
    draws = torch.rand(count - 1, generator=generator, dtype=torch.float64).to(rows.device)
    nearest = torch.full((rows.shape[0],), torch.inf, device=rows.device)
    for draw in draws:
        distance = (2 - 2 * (rows @ rows.index_select(0, picks[-1])[0])).clamp(min=0)
        nearest = torch.minimum(nearest, distance)
        share = torch.cumsum((nearest * QUANTA).long(), 0)  # whole numbers add up to the same everywhere
        picks.append(torch.searchsorted(share, (draw * share[-1:]).long() + 1).clamp(max=rows.shape[0] - 1))
    return rows.index_select(0, torch.cat(picks))
