"""Theorem 1 in numbers: its bounds for a condensed graph, beside what is measured on the graph (docs/theory.md).

The theorem is about K latent clusters of embeddings z_i with centres μ_k, at least Δ apart, and σ-sub-Gaussian noise:
with probability 1 − δ every mean ȳ_k of s_k points is within ε_k of μ_k, so that (ii) points well inside a cluster stay
nearest to their own ȳ_k, and (iii) the ȳ_k stay apart. True centres are unknown on a real graph. There, each cluster is
cut into random halves: the mean of one is used as μ_k, the mean of the other as the pseudo-label ỹ_k. If both are
within their bounds, they differ by at most ε_A + ε_B, each with its own half's size, and (ii) and (iii) follow with
that sum as ε. The formulas are in :mod:`plgc.evaluation.bounds`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.backbone import BackboneSettings, reconstruct
from plgc.evaluation.bounds import deviation, directional_deviation, net_deviation, promise, sufficient_size
from plgc.evaluation.diagnosis import Diagnosis, Directions, Observation
from plgc.method.stage_one import unit_blocks
from plgc.runtime.errors import ArtifactError, GraphError, SettingError


def cluster_means(points: Tensor, assignment: Tensor, clusters: int) -> Tensor:
    """ȳ_k = Σ_i q_ik z_i / s_k, the raw means, [K, d]; zero for an empty cluster."""
    sums = points.new_zeros(clusters, points.shape[1]).index_add_(0, assignment, points)
    return sums / torch.bincount(assignment, minlength=clusters).clamp(min=1)[:, None]


def estimate_sigma(points: Tensor, assignment: Tensor, means: Tensor) -> float:
    """σ̂: root of the largest eigenvalue of the pooled covariance within clusters.

    A sub-Gaussian variable's variance is at most σ², so this estimates σ from below: bounds that use it are optimistic.
    """
    return widest_direction(points, assignment, means)[0]


def widest_direction(points: Tensor, assignment: Tensor, means: Tensor) -> tuple[float, Tensor]:
    """σ̂ and the unit vector [d] along which points scatter that much around the means of their clusters."""
    residual = points - means[assignment]
    freedom = max(1, points.shape[0] - means.shape[0])
    values, vectors = torch.linalg.eigh(residual.t() @ residual / freedom)
    return math.sqrt(max(0.0, float(values[-1]))), vectors[:, -1]


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
    return diagnose_embedding(condensed, backbone.embed(graph), seed=seed, delta=delta, beta=beta)


def diagnose_embedding(
    condensed: CondensedGraph, embedding: Tensor, *, seed: int = 0, delta: float = 0.05, beta: float = 4.0
) -> Diagnosis:
    """The same for an embedding Z [N, d] that a backbone rebuilt from the file has given."""
    assert condensed.pseudo_labels is not None
    points, labels = embedding.cpu().double(), condensed.pseudo_labels.double()
    assignment = nearest(points, labels)
    return measure(points, assignment, len(labels), condensed.blocks, seed=seed, delta=delta, beta=beta)


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
    (sigma, widest), gap = widest_direction(z, own, means), separation(means)
    epsilon = deviation(sigma, width, clusters, sizes, delta)
    enough = sufficient_size(sigma, gap, width, clusters, delta, beta)

    first = split_halves(own, count, torch.Generator().manual_seed(seed))
    centres, raw = (cluster_means(z[half], own[half], count) for half in (first, ~first))
    parts = torch.stack([torch.bincount(own[half], minlength=count) for half in (first, ~first)])
    bound = deviation(sigma, width, 2 * clusters, parts, delta).sum(0)  # 2K means
    pairs = parts.prod(0) / parts.sum(0)  # ȳ_A − ȳ_B scatters by σ² (1/s_A + 1/s_B)
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
        epsilon=_finite(epsilon),
        net_epsilon=_finite(net_deviation(sigma, width, clusters, sizes, delta)),
        sufficient_size=math.ceil(enough) if math.isfinite(enough) else None,
        sufficient_clusters=int((sizes[compared] >= enough).sum()),
        promised=promise(epsilon[compared], gap, span),
        promised_halves=promised,
        points=len(z),
        interior=int(inner.sum()),
        core=int(core.sum()),
        directions=_along(raw - centres, means, widest, directional_deviation(sigma, pairs, delta)),
        raw=_observe(raw, centres, bound, z, own, inner, core),
        normalized=_observe(unit_blocks(raw, blocks), centres, bound, z, own, inner, core),
    )


def _along(difference: Tensor, means: Tensor, widest: Tensor, t: Tensor) -> Directions:
    """|uᵀ(ȳ_A − ȳ_B)| against t_k, in directions u that do not depend on how the clusters were cut into halves."""
    product = difference @ means.t()
    towards = (product.diagonal()[:, None] - product).abs() <= t[:, None] * torch.cdist(means, means)
    count = len(means)
    return Directions(
        t_max=float(t.max()),
        widest=int(((difference @ widest).abs() <= t).sum()),
        pairs=count * (count - 1),
        between=int(towards.sum()) - int(towards.diagonal().sum()),
    )


def _finite(values: Tensor) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]


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
