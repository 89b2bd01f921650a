"""Lemmas 1 and 2 and the bounds of Theorem 1 as formulas (docs/theory.md).

Lemma 2 bounds how far the mean of s_k points lies from its centre μ_k along one fixed direction. Lemma 1 says how many
directions stand for all: those of a ½-net of the unit sphere. Both together bound the distance ‖ȳ_k − μ_k‖, which is
part (i) of the theorem.

Symbols: σ (``sigma``), d (``width``), K (``clusters``), s_k (``sizes``), δ (``delta``), Δ (``gap``), β (``beta``).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from plgc.evaluation.diagnosis import Promise

RADIUS = 0.5  # of the net
ALONG = 1 - RADIUS**2 / 2  # uᵀv of two unit vectors that are RADIUS apart: 7/8


def log_net_size(width: int) -> float:
    """ln 5^d: a ½-net of the unit sphere in d dimensions needs no more than 5^d members (Lemma 1)."""
    return width * math.log(1 + 2 / RADIUS)


def greedy_net(candidates: Tensor) -> Tensor:
    """The net of Lemma 1's proof: of unit vectors [n, d], in their order, keep those more than ½ from all kept before.

    None can be added, so every candidate is within ½ of a member: a ½-net of the candidates, and with enough of them,
    nearly one of the sphere.
    """
    kept, left = [], candidates
    while len(left) > 0:
        kept.append(left[0])
        left = left[(left - left[0]).norm(dim=1) > RADIUS]
    return torch.stack(kept)


def covering(net: Tensor, points: Tensor) -> float:
    """The largest distance from a point to the nearest member: at most ½ where ``net`` is a ½-net of the points."""
    return float(torch.cdist(points, net, compute_mode="donot_use_mm_for_euclid_dist").amin(1).max())


def directional_tail(t: float, sigma: float, sizes: Tensor) -> Tensor:
    """2 exp(−s_k t² / 2σ²): the most that Pr(|uᵀ(ȳ_k − μ_k)| ≥ t) can be, for one fixed unit vector u (Lemma 2)."""
    return 2 * torch.exp(-sizes.double() * t**2 / (2 * sigma**2))


def directional_deviation(sigma: float, sizes: Tensor, delta: float) -> Tensor:
    """t_k = σ √(2 ln(2/δ) / s_k), at which :func:`directional_tail` is δ; it does not depend on the dimension."""
    return sigma * (2 * math.log(2 / delta) / sizes.double()).sqrt()


def net_deviation(sigma: float, width: int, clusters: int, sizes: Tensor, delta: float) -> Tensor:
    """(8/7) σ √(2 (d ln 5 + ln(2K/δ)) / s_k): the bound on ‖ȳ_k − μ_k‖ that Lemmas 1 and 2 give; always below ε_k.

    Lemma 2 holds for all 5^d members v of a net and all K clusters at once with t = σ √(2 (d ln 5 + ln(2K/δ)) / s_k).
    The member nearest to the direction of ȳ_k − μ_k has vᵀ(ȳ_k − μ_k) ≥ (7/8) ‖ȳ_k − μ_k‖; the paper has ½ for 7/8.
    """
    exponent = log_net_size(width) + math.log(2 * clusters / delta)
    return sigma * (2 * exponent / sizes.double()).sqrt() / ALONG


def deviation(sigma: float, width: int, clusters: int, sizes: Tensor, delta: float) -> Tensor:
    """ε_k = 4σ √((d + ln(2K/δ)) / s_k) for every cluster size s_k; infinite for an empty cluster."""
    return 4 * sigma * ((width + math.log(2 * clusters / delta)) / sizes.double()).sqrt()


def sufficient_size(sigma: float, gap: float, width: int, clusters: int, delta: float, beta: float) -> float:
    """The s_k that makes ε_k = Δ/β: 16 σ²β²/Δ² · (d + ln(2K/δ)). Infinite where two centres coincide (Δ = 0)."""
    if gap == 0:
        return math.inf
    return 16 * (sigma * beta / gap) ** 2 * (width + math.log(2 * clusters / delta))


def promise(epsilon: Tensor, gap: float, span: float) -> Promise:
    """What the theorem promises for deviations ε_k, centres Δ = ``gap`` apart, and points at most ``span`` apart."""
    largest = float(epsilon.max())
    radius = gap / 2 - largest
    sound = radius > 0
    return Promise(largest, int((epsilon >= span).sum()), radius if sound else None, 2 * radius if sound else None)
