"""Theorem 1 in numbers: its bounds for a condensed graph, beside what is measured on the graph (docs/theory.md).

The theorem is about K latent clusters of embeddings z_i with centres μ_k, at least Δ apart, and σ-sub-Gaussian noise:
with probability 1 − δ every mean ȳ_k of s_k points is within ε_k of μ_k, so that (ii) points well inside a cluster stay
nearest to their own ȳ_k, and (iii) the ȳ_k stay apart. True centres are unknown on a real graph. There, each cluster is
cut into random halves: the mean of one is used as μ_k, the mean of the other as the pseudo-label ỹ_k. If both are
within their bounds, they differ by at most ε_A + ε_B, each with its own half's size, and (ii) and (iii) follow with
that sum as ε.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.backbone import BackboneSettings, reconstruct
from plgc.method.stage_one import unit_blocks
from plgc.runtime.errors import ArtifactError, GraphError, SettingError


def deviation(sigma: float, width: int, clusters: int, sizes: Tensor, delta: float) -> Tensor:
    """ε_k = 4σ √((d + ln(2K/δ)) / s_k) for every cluster size s_k; infinite for an empty cluster."""
    return 4 * sigma * ((width + math.log(2 * clusters / delta)) / sizes.double()).sqrt()


def sufficient_size(sigma: float, gap: float, width: int, clusters: int, delta: float, beta: float) -> float:
    """The s_k that makes ε_k = Δ/β: 16 σ²β²/Δ² · (d + ln(2K/δ)). Infinite where two centres coincide (Δ = 0)."""
    if gap == 0:
        return math.inf
    return 16 * (sigma * beta / gap) ** 2 * (width + math.log(2 * clusters / delta))


def cluster_means(points: Tensor, assignment: Tensor, clusters: int) -> Tensor:
    """ȳ_k = Σ_i q_ik z_i / s_k, the raw means, [K, d]; zero for an empty cluster."""
    sums = points.new_zeros(clusters, points.shape[1]).index_add_(0, assignment, points)
    return sums / torch.bincount(assignment, minlength=clusters).clamp(min=1)[:, None]


def estimate_sigma(points: Tensor, assignment: Tensor, means: Tensor) -> float:
    """σ̂: root of the largest eigenvalue of the pooled covariance within clusters.

    A sub-Gaussian variable's variance is at most σ², so this estimates σ from below: bounds that use it are optimistic.
    """
    residual = points - means[assignment]
    freedom = max(1, points.shape[0] - means.shape[0])
    return math.sqrt(max(0.0, float(torch.linalg.eigvalsh(residual.t() @ residual / freedom)[-1])))


def separation(centres: Tensor) -> float:
    """Smallest distance between two rows: Δ for the centres μ_k, the separation of (iii) for the pseudo-labels ỹ_k."""
    return float(torch.pdist(centres).min())


def nearest(points: Tensor, centres: Tensor) -> Tensor:
    """The centre closest to every point, [N]."""
    return (points @ centres.t() - centres.square().sum(1) / 2).argmax(1)


def interior(points: Tensor, assignment: Tensor, centres: Tensor, radius: float) -> Tensor:
    """Which points are interior: ‖z_i − μ_k‖ < radius for their own k. The theorem's radius is Δ/2 − ε_max."""
    return (points - centres[assignment]).norm(dim=1) < radius


def split_halves(assignment: Tensor, clusters: int, generator: torch.Generator) -> Tensor:
    """Split every cluster in two at random; True marks the first half, the smaller one of an odd cluster."""
    sizes = torch.bincount(assignment, minlength=clusters)
    order = torch.randperm(len(assignment), generator=generator)
    order = order[torch.argsort(assignment[order], stable=True)]
    own = assignment[order]
    rank = torch.arange(len(order)) - (sizes.cumsum(0) - sizes)[own]
    first = torch.zeros(len(order), dtype=torch.bool)
    first[order] = rank < (sizes // 2)[own]
    return first


def diagnose(
    condensed: CondensedGraph,
    graph: Data,
    *,
    kind: str = "gcn",
    seed: int = 0,
    device: str = "cpu",
    delta: float = 0.05,
    beta: float = 4.0,
) -> Diagnosis:
    """Embed a graph with the rebuilt backbone, assign every node to the nearest ỹ_k of the file, and measure.

    Args:
        condensed: the condensed graph; it must have pseudo-labels.
        graph: the graph it was made from, or another with the same features. Labels are not read.
        kind: the backbone's kind, as in :func:`plgc.reconstruct`.
        seed: of the backbone's initial weights and of the halves.
        device: where to rebuild and to embed; what follows is computed on the CPU.
        delta: δ, the probability with which the bound may fail.
        beta: β, the margin of (iii): ε_max ≤ Δ/β.
    """
    if condensed.pseudo_labels is None:
        raise ArtifactError(
            "this condensed graph has no pseudo-labels, and the theory is about pseudo-labels: "
            "use a file made by the method plgc"
        )
    _check(delta, beta)
    settings = BackboneSettings(kind=kind, skip=False)  # without Â²X: the theorem is about z only
    backbone = reconstruct(condensed, seed=seed, device=device, settings=settings)
    embedding = backbone.embed(graph).cpu().double()
    labels = condensed.pseudo_labels.double()
    assignment = nearest(embedding, labels)
    return measure(embedding, assignment, len(labels), condensed.blocks, seed=seed, delta=delta, beta=beta)


def measure(
    points: Tensor,
    assignment: Tensor,
    clusters: int,
    blocks: tuple[int, ...],
    *,
    seed: int = 0,
    delta: float = 0.05,
    beta: float = 4.0,
) -> Diagnosis:
    """The bound and the observation for points [N, d] in ``clusters`` given clusters, see :class:`Diagnosis`."""
    _check(delta, beta)
    sizes = torch.bincount(assignment, minlength=clusters)
    compared = sizes >= 2
    count = int(compared.sum())
    if count < 2:
        raise GraphError(
            f"{count} of {clusters} pseudo-labels have two or more of the {len(points)} nodes assigned, and the theory "
            "compares at least two of them: use the graph that was condensed"
        )
    kept = compared[assignment]
    z, own = points[kept], (compared.cumsum(0) - 1)[assignment[kept]]
    means = cluster_means(z, own, count)
    width, span = points.shape[1], 2 * float(points.norm(dim=1).max())
    sigma, gap = estimate_sigma(z, own, means), separation(means)
    epsilon = deviation(sigma, width, clusters, sizes, delta)
    enough = sufficient_size(sigma, gap, width, clusters, delta, beta)

    first = split_halves(own, count, torch.Generator().manual_seed(seed))
    centres, raw = (cluster_means(z[half], own[half], count) for half in (first, ~first))
    parts = (torch.bincount(own[half], minlength=count) for half in (first, ~first))
    bound = torch.stack([deviation(sigma, width, 2 * clusters, part, delta) for part in parts]).sum(0)  # 2K means
    promised = promise(bound, separation(centres), span)
    z, own = z[~first], own[~first]
    inner = interior(z, own, centres, promised.interior_radius or 0.0)
    core = interior(z, own, centres, separation(centres) / 2)
    return Diagnosis(
        nodes=len(points),
        width=width,
        clusters=clusters,
        compared=count,
        empty=int((sizes == 0).sum()),
        single=int((sizes == 1).sum()),
        delta=delta,
        beta=beta,
        sizes=sizes.tolist(),
        sigma=sigma,
        gap=gap,
        span=span,
        epsilon=[value if math.isfinite(value) else None for value in epsilon.tolist()],
        sufficient_size=math.ceil(enough) if math.isfinite(enough) else None,
        sufficient_clusters=int((sizes[compared] >= enough).sum()),
        promised=promise(epsilon[compared], gap, span),
        promised_halves=promised,
        points=len(z),
        interior=int(inner.sum()),
        core=int(core.sum()),
        raw=_observe(raw, centres, bound, z, own, inner, core),
        normalized=_observe(unit_blocks(raw, blocks), centres, bound, z, own, inner, core),
    )


def promise(epsilon: Tensor, gap: float, span: float) -> Promise:
    """What the theorem promises for deviations ε_k, centres Δ = ``gap`` apart, and points at most ``span`` apart."""
    largest = float(epsilon.max())
    radius = gap / 2 - largest
    sound = radius > 0
    return Promise(largest, int((epsilon >= span).sum()), radius if sound else None, 2 * radius if sound else None)


def _observe(
    labels: Tensor, centres: Tensor, bound: Tensor, points: Tensor, own: Tensor, inner: Tensor, core: Tensor
) -> Observation:
    distance = (labels - centres).norm(dim=1)
    right = nearest(points, labels) == own
    return Observation(
        distance_median=float(distance.median()),
        distance_max=float(distance.max()),
        within_bound=int((distance <= bound).sum()),
        interior_recovered=int(right[inner].sum()),
        core_recovered=int(right[core].sum()),
        recovered=int(right.sum()),
        separation=separation(labels),
    )


def _check(delta: float, beta: float) -> None:
    if not 0 < delta < 1:
        raise SettingError(f"delta is {delta}: it is a probability of failure, above 0 and below 1")
    if not 2 < beta < math.inf:
        raise SettingError(f"beta is {beta}: it must be above 2, or (1 − 2/β)Δ is no separation at all")


@dataclass(frozen=True)
class Promise:
    """What the theorem promises; None where the bound is vacuous."""

    epsilon_max: float  # ε_max
    vacuous: int  # clusters whose ε_k is at least the largest possible distance
    interior_radius: float | None  # Δ/2 − ε_max
    separation: float | None  # Δ − 2ε_max, at least (1 − 2/β)Δ where every cluster has the sufficient size


@dataclass(frozen=True)
class Observation:
    """What is measured with the second halves' means, raw or normalised, as pseudo-labels ỹ_k."""

    distance_median: float  # of ‖ỹ_k − μ_k‖
    distance_max: float
    within_bound: int  # clusters where it is at most ε_A + ε_B
    interior_recovered: int  # interior points that are nearest to their own ỹ_k
    core_recovered: int  # the same of points within Δ/2 of their centre
    recovered: int  # the same of all points
    separation: float  # min ‖ỹ_k − ỹ_ℓ‖


@dataclass(frozen=True)
class Diagnosis:
    """The bound and the observation, as plain values."""

    nodes: int  # N, embedded and assigned
    width: int  # d
    clusters: int  # K
    compared: int  # clusters of two nodes or more; the others appear in sizes and epsilon only
    empty: int
    single: int
    delta: float  # δ
    beta: float  # β
    sizes: list[int]  # s_k
    sigma: float  # σ̂, from below
    gap: float  # Δ̂, the smallest distance between two means
    span: float  # the largest possible distance between two points, or means of points
    epsilon: list[float | None]  # ε_k; None for an empty cluster
    sufficient_size: int | None  # the s_k that gives ε_k ≤ Δ/β; None where Δ = 0
    sufficient_clusters: int  # compared clusters that have it
    promised: Promise  # for the whole clusters
    promised_halves: Promise  # for their halves: ε_A + ε_B in place of ε_k, Δ between the first halves' means
    points: int  # in the second halves
    interior: int  # how many of them are interior
    core: int  # how many of them are within Δ/2 of their centre: the interior if ε were 0
    raw: Observation  # with the raw mean for ỹ_k: what the proof is about
    normalized: Observation  # with one unit vector per block: what the theorem says, and what the file holds

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)
