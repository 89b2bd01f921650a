"""Stage I: learn encoders GNN_θ' and prototypes Ỹ without labels (section 3.1.1 of the paper).

Every epoch draws two views of the graph, embeds both, and takes one step on the losses (:mod:`plgc.method.losses`).
Several encoders (branches) can be trained side by side: a node's embedding is the concatenation of one unit vector per
branch, and the prototypes live in that joint space. Branches that pass messages are the channel ``edges``, those that
see every node by itself the channel ``plain``; a prototype, and so a synthetic node, serves both. Pseudo-labels are
read from the balanced assignment of the embeddings: they are its means (Lemma 3).

On a GPU the work between the draw of the views and the optimiser's step, a thousand small kernels, is recorded once and
replayed (:mod:`plgc.runtime.replay`): its shapes are the same in every epoch on the same graph, but not in batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plgc.method.augment import draw_view, view_of
from plgc.method.encoder import EDGE_FREE, GNN
from plgc.method.losses import decorrelation_loss, known_loss, standardize, swapped_prediction_loss
from plgc.method.settings import Branch, PseudoLabelSettings
from plgc.method.sinkhorn import sinkhorn
from plgc.runtime.replay import Replayed
from plgc.sparse.adjacency import Adjacency
from plgc.sparse.features import StoredFeatures
from plgc.sparse.inputs import Inputs

QUANTA = 1 << 28  # of a squared distance: 2^31 of them, at most 4 each, still add up within 64 bits
SAMPLE = 32_768  # nodes that the losses see in an epoch: more cost time and teach little
SMALL = 1_024  # nodes that they see at least, where a graph has as many
EMPTY = 1e-6  # nodes: a prototype with less than this is nearest to none, and stays where it is
DRAWN_ON_CPU = 1 << 18  # edges up to which views are drawn on the CPU even for a GPU, so that both see the same


@dataclass(frozen=True)
class KnownRows:
    """Rows of a condensed graph that the encoders know.

    Attributes:
        features: X', [K, f].
        targets: Ỹ, a block of unit vectors for each encoder, [K, d] each.
        share: of each row in all nodes that they stand for, [K, 1].
        weight: of the loss that keeps them.
    """

    features: Tensor
    targets: tuple[Tensor, ...]
    share: Tensor
    weight: float


@dataclass
class StageOne:
    """The state of stage I from one epoch to the next."""

    settings: PseudoLabelSettings
    branches: tuple[Branch, ...]
    encoders: nn.ModuleList
    prototypes: nn.Parameter
    optimizer: torch.optim.Optimizer
    generator: torch.Generator
    draws: torch.Generator  # of the views: ``generator``, or a generator on the GPU for a large graph
    potentials: list[Tensor | None]  # Sinkhorn's column potentials of both views
    in_batches: bool = False
    known: KnownRows | None = None
    recording: tuple[Inputs, Replayed] | None = None  # of an epoch on a GPU, and the graph it was made on

    @property
    def blocks(self) -> tuple[int, ...]:
        """Width of each branch's part of the embedding."""
        return tuple(branch.width for branch in self.branches)

    @property
    def channels(self) -> tuple[str, ...]:
        """The channel of each branch: ``edges``, or ``plain`` where it sees no edges."""
        return tuple("plain" if branch.kind == EDGE_FREE else "edges" for branch in self.branches)

    @property
    def standardized(self) -> bool:
        """Whether embeddings are standardised before they are normalised: they are where they are decorrelated."""
        return self.settings.decorrelation > 0

    @property
    def trained(self) -> list[Tensor]:
        """The parameters that an epoch changes."""
        return [*self.encoders.parameters(), *([self.prototypes] if self.settings.swap > 0 else [])]


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
    if inputs.device.type != "cpu" and inputs.adjacency.num_pairs > DRAWN_ON_CPU:
        draws = torch.Generator(inputs.device).manual_seed(seed)
    stage = StageOne(settings, branches, encoders, prototypes, optimizer, generator, draws, [None, None])
    with torch.no_grad():
        # Drawn apart from the views: without ℓ_swap the encoders then do not depend on K.
        prototypes.copy_(spread_rows(embed(stage, inputs), count, torch.Generator().manual_seed(seed)))
    return stage


def train_epoch(stage: StageOne, inputs: Inputs) -> float:
    """One step on ℒ_pseudo (eq. 6) with decorrelation; returns the loss.

    The encoders see all nodes. The losses see every n-th node, starting at a random one.
    """
    drawn = [
        tensor
        for branch in stage.branches
        for _ in range(2)
        for tensor in draw_view(
            inputs.adjacency, inputs.num_features, branch.edge_drop, branch.feature_mask, stage.draws
        )
    ]
    rows = _loss_rows(stage, inputs)
    found = _replay(stage, inputs, drawn, rows) or _gradients(stage, inputs, drawn, rows, stage.potentials)
    (loss, *gradients), stage.potentials = found
    for parameter, gradient in zip(stage.trained, gradients, strict=True):
        parameter.grad = gradient
    stage.optimizer.step()
    return float(loss)


def _gradients(
    stage: StageOne,
    inputs: Inputs,
    drawn: list[Tensor],
    rows: Tensor | None,
    potentials: list[Tensor | None],
    fixed_iterations: bool = False,
) -> tuple[list[Tensor], list[Tensor | None]]:
    """The loss followed by its gradients, and Sinkhorn's potentials."""
    settings = stage.settings
    hidden = []
    for number, encoder in enumerate(encoder for encoder in stage.encoders for _ in range(2)):
        view = view_of(inputs.adjacency, *drawn[2 * number : 2 * number + 2])
        hidden.append(_encode(stage, encoder, inputs, view.adjacency, view.feature_mask, rows))
    if stage.standardized:
        hidden = [standardize(part) for part in hidden]
    first, second = hidden[::2], hidden[1::2]
    loss = torch.zeros((), device=inputs.device)
    if settings.decorrelation > 0:
        for one, other in zip(first, second, strict=True):
            loss = loss + decorrelation_loss(one, other, settings.decorrelation)
    if settings.swap > 0:
        swapped, potentials = swapped_prediction_loss(
            first,
            second,
            stage.prototypes,
            settings,
            potentials,
            in_batches=stage.in_batches,
            fixed_iterations=fixed_iterations,
        )
        loss = loss + settings.swap * swapped
    if stage.known is not None:
        for encoder, target in zip(stage.encoders, stage.known.targets, strict=True):
            # On the scale of the other losses: decorrelation is a sum over the columns, ℓ_swap is not.
            scale = stage.known.weight * (target.shape[1] if stage.standardized else 1)
            found = encoder(stage.known.features, None)
            loss = loss + scale * known_loss(found, target, stage.known.share, stage.standardized)
    return [loss.detach(), *torch.autograd.grad(loss, stage.trained)], potentials


def _replay(
    stage: StageOne, inputs: Inputs, drawn: list[Tensor], rows: Tensor | None
) -> tuple[list[Tensor], list[Tensor | None]] | None:
    """The result of :func:`_gradients` from a recording of it; None on a CPU, in batches, or if it is not finite."""
    in_batches = inputs.loss_rows is not None  # each batch has its own shapes
    if inputs.device.type != "cuda" or in_batches or isinstance(inputs.x, StoredFeatures):
        return None
    before = [stage.prototypes.new_zeros(len(stage.prototypes)) if p is None else p for p in stage.potentials]
    if stage.recording is None or stage.recording[0] is not inputs:
        same, count = replace(stage, recording=None), len(drawn)  # no reference cycle: GPU memory is freed at once

        def work(*given: Tensor) -> tuple[Tensor, ...]:
            views, (first, second, *rest) = list(given[:count]), given[count:]
            values, after = _gradients(
                same, inputs, views, rest[0] if rest else None, [first, second], fixed_iterations=True
            )
            return *(potential for potential in after if potential is not None), *values

        stage.recording = inputs, Replayed(work)
    found = list(stage.recording[1](*drawn, *before, *([] if rows is None else [rows])))
    potentials, values = found[: len(before)], found[len(before) :]
    finite = torch.stack([values[0], *(potential.sum() for potential in potentials)]).isfinite().all()
    return (values, [*potentials]) if bool(finite) else None


def _loss_rows(stage: StageOne, inputs: Inputs) -> Tensor | None:
    """Which nodes the losses see; None for all."""
    nodes, stride = inputs.num_nodes, stage.settings.loss_stride
    step = max(-(-nodes // SAMPLE), stride if nodes >= stride * SMALL else 1)
    if inputs.loss_rows is not None or step == 1:
        return inputs.loss_rows
    start = int(torch.randint(step, (1,), generator=stage.generator))
    return torch.arange(start, start + nodes // step * step, step, device=inputs.device)


@torch.no_grad()
def embed(stage: StageOne, inputs: Inputs) -> Tensor:
    """Z: the embedding of every node of a graph, [N, Σd]; one encoder after the other, so that few copies are alive."""
    result = torch.empty(inputs.num_nodes, sum(stage.blocks), device=inputs.device)
    for encoder, columns in zip(stage.encoders, result.split(list(stage.blocks), dim=1), strict=True):
        hidden = _encode(stage, encoder, inputs, inputs.adjacency)
        if stage.standardized:
            hidden = standardize(hidden)
        F.normalize(hidden, dim=1, out=columns).div_(math.sqrt(len(stage.blocks)))
    return result


def _encode(
    stage: StageOne,
    encoder: nn.Module,
    inputs: Inputs,
    adjacency: Adjacency,
    feature_mask: Tensor | None = None,
    rows: Tensor | None = None,
) -> Tensor:
    """H = GNN_θ'(X, A) of all nodes or some, computed in the chosen precision, returned as float32."""
    lower = stage.settings.precision == "bfloat16"
    # No cached copies of weights: a recording would keep those of the epoch it was made in.
    with torch.autocast(inputs.device.type, torch.bfloat16, enabled=lower, cache_enabled=False):
        return encoder(inputs.x, adjacency, feature_mask, rows).float()


@dataclass(frozen=True)
class PseudoLabels:
    """Pseudo-labels Ỹ with the assignment they are the means of.

    Attributes:
        vectors: Ỹ, one unit vector per block, [K, d].
        weights: how much of each pseudo-label every node carries, columns summing to one, [N, K]; without balance, a
            column may be 0.
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


@torch.no_grad()
def read_pseudo_labels(
    embedding: Tensor,
    prototypes: Tensor,
    blocks: tuple[int, ...],
    settings: PseudoLabelSettings,
    core: Tensor | None = None,
    masses: Tensor | None = None,
) -> PseudoLabels:
    """Pseudo-labels of an embedding: alternate the assignment, balanced by default, and its means.

    Args:
        embedding: Z, [N, d].
        prototypes: where to start, [K, d]. They take the result, so that the next round of training starts from it.
        blocks: width of each encoder's part of the embedding.
        settings: of stage I.
        core: which nodes are assigned, bool [N]; the others get no weight. By default all.
        masses: how many nodes each row of Z stands for, [N]; by default one (:mod:`plgc.method.regroup`).
    """
    if core is not None:
        own = read_pseudo_labels(
            embedding[core], prototypes, blocks, settings, masses=None if masses is None else masses[core]
        )
        weights = own.weights.new_zeros(len(core), own.weights.shape[1])
        weights[core] = own.weights
        return replace(own, weights=weights)
    rules = {**settings.sinkhorn_rules(), "masses": masses}
    vectors = unit_blocks(prototypes, blocks)
    assignment = sinkhorn(embedding @ vectors.t(), **rules)
    weighted = embedding if masses is None else embedding * masses[:, None]
    for repeat in range(settings.refinements):
        if repeat > 0:
            assignment = sinkhorn(embedding @ vectors.t(), **rules, potential=assignment.potential)
        means = unit_blocks(assignment.plan.t() @ weighted, blocks)
        vectors = torch.where(_mass(assignment.plan, masses)[:, None] > EMPTY, means, vectors)
    prototypes.copy_(vectors)
    mass = _mass(assignment.plan, masses)
    hard = assignment.hard
    whole = None if masses is None else masses.double()
    counts = torch.bincount(hard, whole, minlength=vectors.shape[0]).round().long()
    explained = _explained(embedding, vectors[hard], masses)
    plan = assignment.plan if masses is None else assignment.plan.mul_(masses[:, None])
    return PseudoLabels(vectors, plan.div_(mass.clamp(min=EMPTY)), counts, explained, mass)


def _mass(plan: Tensor, masses: Tensor | None) -> Tensor:
    """Nodes per pseudo-label, [K]."""
    return plan.sum(0) if masses is None else masses @ plan


def _explained(embedding: Tensor, nearest: Tensor, masses: Tensor | None) -> float:
    """1 − Σ_n m_n ‖z_n − ỹ‖² / Σ_n m_n ‖z_n − z̄‖², for each node's own ỹ; 0 where all are embedded alike."""
    if masses is None:
        residual, mean = (embedding - nearest).pow(2).sum(), embedding.mean(0)
        variance = (embedding - mean).pow(2).sum()
    else:
        residual, mean = masses @ (embedding - nearest).pow(2).sum(1), masses @ embedding / masses.sum()
        variance = masses @ (embedding - mean).pow(2).sum(1)
    return 1.0 - float(residual / variance) if variance > 0 else 0.0


@torch.no_grad()
def spread_rows(rows: Tensor, count: int, generator: torch.Generator, masses: Tensor | None = None) -> Tensor:
    """Pick ``count`` unit rows far from each other (the seeding of k-means++), without waiting for the device.

    ``masses`` [N] is how many nodes each row stands for: k-means++ then draws rows by their nodes.
    """
    picks = [torch.randint(rows.shape[0], (1,), generator=generator).to(rows.device)]
    draws = torch.rand(count - 1, generator=generator, dtype=torch.float64).to(rows.device)
    nearest = torch.full((rows.shape[0],), torch.inf, device=rows.device)
    for draw in draws:
        distance = (2 - 2 * (rows @ rows.index_select(0, picks[-1])[0])).clamp(min=0)
        nearest = torch.minimum(nearest, distance)
        weight = nearest if masses is None else nearest * masses
        share = torch.cumsum((weight * QUANTA).long(), 0)  # whole numbers add up to the same everywhere
        picks.append(torch.searchsorted(share, (draw * share[-1:]).long() + 1).clamp(max=rows.shape[0] - 1))
    return rows.index_select(0, torch.cat(picks))
