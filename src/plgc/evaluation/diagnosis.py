"""What is known of a condensed graph's pseudo-labels: what theory promises for them, and what is measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Promise:
    """What the theorem promises; None where the bound is vacuous."""

    epsilon_max: float  # ε_max
    vacuous: int  # clusters whose ε_k is at least the largest possible distance
    interior_radius: float | None  # Δ/2 − ε_max
    separation: float | None  # Δ − 2ε_max, at least (1 − 2/β)Δ where every cluster has the sufficient size


@dataclass(frozen=True)
class Directions:
    """Lemma 2 on the halves' means ȳ_A and ȳ_B, one direction at a time: the differences that stay within t_k."""

    t_max: float  # of t_k = σ √(2 ln(2/δ) (1/s_A + 1/s_B))
    widest: int  # of the compared clusters, along the direction in which σ̂ is seen
    pairs: int  # a cluster and another, whose means give a direction
    between: int  # of those pairs


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
    net_epsilon: list[float | None]  # what Lemmas 1 and 2 give in place of ε_k
    sufficient_size: int | None  # the s_k that gives ε_k ≤ Δ/β; None where Δ = 0
    sufficient_clusters: int  # compared clusters that have it
    promised: Promise  # for the whole clusters
    promised_halves: Promise  # for their halves: ε_A + ε_B in place of ε_k, Δ between the first halves' means
    points: int  # in the second halves
    interior: int  # how many of them are interior
    core: int  # how many of them are within Δ/2 of their centre: the interior if ε were 0
    directions: Directions  # Lemma 2
    raw: Observation  # with the raw mean for ỹ_k: what the proof is about
    normalized: Observation  # with one unit vector per block: what the theorem says, and what the file holds

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)
