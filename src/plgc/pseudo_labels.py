"""Stage I: learn encoders GNN_θ', prototypes and the balanced assignment Q_T, without labels (section 3.1.1).

Each epoch draws two views per encoder, assigns the nodes of each view to the prototypes with Sinkhorn, and asks each
view to predict the other's assignment (ℓ_swap). A decorrelation term on standardised embeddings, as in CCA-SSG,
keeps them from collapsing where Sinkhorn alone does not. Several encoders (branches) stand side by side: a node's
embedding is the concatenation of one unit vector per branch, and the prototypes live in that joint space.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plgc.augment import augment
from plgc.config import Branch, PseudoLabelSettings
from plgc.encoder import GNN
from plgc.inputs import Inputs
from plgc.sinkhorn import Assignment, sinkhorn

TINY = 1e-12  # keeps constant columns and empty rows from dividing by zero
STREAM_STEP = 0.3  # how far a batch moves the balance: its own mix of clusters must not count as that of the graph


@dataclass
class StageOne:
    """What stage I carries from one epoch to the next."""

    settings: PseudoLabelSettings
    branches: tuple[Branch, ...]
    encoders: nn.ModuleList
    prototypes: nn.Parameter
    optimizer: torch.optim.Optimizer
    generator: torch.Generator
    potentials: list[Tensor | None]
    streamed: bool = False  # whether epochs see batches: the balance then is one over the last few of them

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
    stage = StageOne(settings, branches, encoders, prototypes, optimizer, generator, [None, None])
    with torch.no_grad():
        prototypes.copy_(spread_rows(embed(stage, inputs), count, generator))
    return stage


@torch.no_grad()
def embed(stage: StageOne, inputs: Inputs) -> Tensor:
    """Z: the embedding of every node of the whole graph, [N, Σd]."""
    hidden = [encoder(inputs.x, inputs.adjacency) for encoder in stage.encoders]
    return _unit(stage, hidden)


def _unit(stage: StageOne, hidden: list[Tensor]) -> Tensor:
    if stage.standardized:
        hidden = [standardize(part) for part in hidden]
    return unit_blocks(torch.cat(hidden, dim=1), stage.blocks)


def column_moments(hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of every column."""
    variance, mean = torch.var_mean(hidden, dim=0, correction=0)
    return mean, variance.clamp(min=TINY).sqrt()


def standardize(hidden: Tensor) -> Tensor:
    """Centre every column and scale it to unit variance."""
    mean, deviation = column_moments(hidden)
    return (hidden - mean) / deviation


def train_epoch(stage: StageOne, inputs: Inputs) -> float:
    """One step of ℒ_pseudo (eq. 6) with decorrelation; returns the loss."""
    settings = stage.settings
    views: list[list[Tensor]] = [[], []]
    for branch, encoder in zip(stage.branches, stage.encoders, strict=True):
        for view in views:
            drawn = augment(
                inputs.adjacency, inputs.num_features, branch.edge_drop, branch.feature_mask, stage.generator
            )
            view.append(encoder(inputs.x, drawn.adjacency, drawn.feature_mask))
    loss = torch.zeros((), device=inputs.device)
    if settings.decorrelation > 0:
        for first, second in zip(*views, strict=True):
            loss = loss + decorrelation_loss(first, second, settings.decorrelation)
    if settings.swap > 0:
        loss = loss + settings.swap * swapped_prediction_loss(stage, views[0], views[1])
    stage.optimizer.zero_grad()
    loss.backward()
    stage.optimizer.step()
    return float(loss.detach())


def decorrelation_loss(first: Tensor, second: Tensor, weight: float) -> Tensor:
    """Correlation between two views, column by column, against the correlations within each (CCA-SSG).

    Minimises −Σ_i corr(first_i, second_i) + weight · Σ_views ‖I − correlation matrix‖². Everything comes from second
    moments, so no standardised copy of the embeddings is ever made.
    """
    nodes, width = first.shape
    identity = torch.eye(width, device=first.device)
    moments = [(view.mean(0), view.t() @ view / nodes) for view in (first, second)]
    deviations, spread = [], torch.zeros((), device=first.device)
    for mean, second_moment in moments:
        covariance = second_moment - torch.outer(mean, mean)
        deviation = covariance.diagonal().clamp(min=TINY).sqrt()
        deviations.append(deviation)
        spread = spread + (identity - covariance / torch.outer(deviation, deviation)).pow(2).sum()
    agreement = ((first * second).mean(0) - moments[0][0] * moments[1][0]) / (deviations[0] * deviations[1])
    return -agreement.sum() + weight * spread


def swapped_prediction_loss(stage: StageOne, first: list[Tensor], second: list[Tensor]) -> Tensor:
    """ℓ_swap: each view's embedding predicts the other view's balanced assignment (eqs. 4 and 5).

    Args:
        stage: holds the prototypes, the settings and Sinkhorn's potentials of the last epoch.
        first: one view's raw embeddings, one tensor per branch.
        second: the other's.
    """
    settings = stage.settings
    scores = [prototype_scores(stage, view) for view in (first, second)]
    targets = []
    for index, score in enumerate(scores):
        before = stage.potentials[index]
        assignment = _assign(score.detach(), settings, before)
        plan, potential = assignment.plan, assignment.potential
        if stage.streamed and before is not None:
            potential = torch.lerp(before, potential, STREAM_STEP)
            plan = torch.softmax(score.detach() / settings.epsilon + potential, dim=1)
        stage.potentials[index] = potential
        hard = F.one_hot(plan.argmax(dim=1), score.shape[1]).to(score.dtype)
        targets.append(hard if settings.hard_targets else plan)
    log_probability = [F.log_softmax(score / settings.temperature, dim=1) for score in scores]
    return -(targets[1] * log_probability[0]).sum(1).mean() - (targets[0] * log_probability[1]).sum(1).mean()


def prototype_scores(stage: StageOne, hidden: list[Tensor]) -> Tensor:
    """z_nᵀ ỹ_k for raw embeddings: the mean over branches of the cosine to that branch's part of the prototype.

    Standardisation and normalisation are folded into the products, so that no standardised copy is made.
    """
    prototypes = stage.prototypes.split(list(stage.blocks), dim=1)
    total = torch.zeros((), device=stage.prototypes.device)
    for part, vectors in zip(hidden, prototypes, strict=True):
        vectors = F.normalize(vectors, dim=1)
        if not stage.standardized:
            total = total + F.normalize(part, dim=1) @ vectors.t()
            continue
        mean, deviation = column_moments(part)
        inverse, shift = 1 / deviation, mean / deviation
        square = part.square() @ inverse.square() - 2 * (part @ (inverse * shift)) + shift.square().sum()
        cosine = part @ (vectors * inverse).t() - vectors @ shift
        total = total + cosine / square.clamp(min=TINY).sqrt()[:, None]
    return total / len(hidden)


def _assign(scores: Tensor, settings: PseudoLabelSettings, potential: Tensor | None) -> Assignment:
    return sinkhorn(
        scores,
        epsilon=settings.epsilon,
        tolerance=settings.tolerance,
        max_iterations=settings.max_iterations,
        potential=potential,
    )


@torch.no_grad()
def balance(stage: StageOne, embedding: Tensor, vectors: Tensor) -> Tensor:
    """The column potential [K] that balances these nodes over pseudo-labels; it serves others of their kind too."""
    return _assign(embedding @ vectors.t(), stage.settings, None).potential


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
    assignment = _assign(embedding @ vectors.t(), stage.settings, None)
    weights = assignment.plan / assignment.plan.sum(0)
    for repeat in range(stage.settings.refinements):
        if repeat > 0:
            assignment = _assign(embedding @ vectors.t(), stage.settings, assignment.potential)
            weights = assignment.plan / assignment.plan.sum(0)
        vectors = unit_blocks(weights.t() @ embedding, stage.blocks)
    stage.prototypes.copy_(vectors)
    hard = assignment.hard
    counts = torch.bincount(hard, minlength=vectors.shape[0])
    residual = (embedding - vectors[hard]).pow(2).sum()
    explained = 1.0 - float(residual / (embedding - embedding.mean(0)).pow(2).sum())
    return PseudoLabels(vectors, weights, counts, explained, assignment.plan.sum(0))


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
    """Pick ``count`` unit rows far from each other (the seeding of k-means++)."""
    first = int(torch.randint(rows.shape[0], (1,), generator=generator))
    chosen = [first]
    distance = (2 - 2 * (rows @ rows[first])).clamp(min=0)
    for _ in range(count - 1):
        share = torch.cumsum(distance.double().cpu(), 0)
        drawn = torch.rand(1, generator=generator, dtype=torch.float64) * share[-1]
        pick = min(int(torch.searchsorted(share, drawn)), rows.shape[0] - 1)
        chosen.append(pick)
        distance = torch.minimum(distance, (2 - 2 * (rows @ rows[pick])).clamp(min=0))
    return rows[chosen]
