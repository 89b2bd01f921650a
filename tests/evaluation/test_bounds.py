"""Lemmas 1 and 2: they hold where they are said to, and the checks fail where a constant or an assumption is wrong."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from noise import NOISE
from plgc.evaluation import bounds, theory

DRAWS, WIDTH, SIGMA, DELTA = 3000, 4, 2.0, 0.05
SIZES = torch.tensor([5, 20, 60])
MEMBERS = torch.repeat_interleave(torch.arange(3), SIZES)
DIRECTION = F.normalize(torch.tensor([1.0, -2.0, 3.0, 0.5], dtype=torch.float64), dim=0)


def unit_vectors(count: int, width: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(count, width, generator=generator, dtype=torch.float64), dim=1)


@cache
def points(noise: str) -> Tensor:
    """σ-sub-Gaussian points around the centre 0, [draws, n, d]."""
    return SIGMA * NOISE[noise]((DRAWS, len(MEMBERS), WIDTH), torch.Generator().manual_seed(len(noise)))


@cache
def means(noise: str) -> Tensor:
    """ȳ_k − μ_k of three clusters, [draws, 3, d]."""
    return torch.stack([theory.cluster_means(z, MEMBERS, 3) for z in points(noise)])


def share_beyond(differences: Tensor, t: float | Tensor) -> Tensor:
    """How often |uᵀ(ȳ_k − μ_k)| is t or more, for every cluster."""
    return ((differences @ DIRECTION).abs() >= t).double().mean(0)


# Lemma 1


@pytest.mark.parametrize("width", [1, 2, 3, 9])
def test_balls_of_a_quarter_around_the_net_fit_into_a_ball_of_five_quarters(width: int) -> None:
    assert math.exp(bounds.log_net_size(width)) == pytest.approx((1.25 / 0.25) ** width)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_the_greedy_net_is_a_net_within_the_lemmas_size(width: int) -> None:
    candidates = unit_vectors(6000, width, seed=0)
    net = bounds.greedy_net(candidates)
    assert len(net) <= math.exp(bounds.log_net_size(width))
    assert bounds.covering(net, candidates) <= 0.5
    assert bounds.covering(net, unit_vectors(2000, width, seed=1)) < 0.6  # candidates are dense, not the whole sphere
    if width > 1:
        assert float(torch.pdist(net).min()) > 0.5
        assert bounds.covering(net, candidates) > 0.4  # it is no finer than asked for
    # every member is needed: it is further than ½ from all the others
    assert all(bounds.covering(torch.cat([net[:i], net[i + 1 :]]), net[i : i + 1]) > 0.5 for i in range(len(net)))


def test_the_size_of_a_net_is_loose_but_not_by_much_in_two_dimensions() -> None:
    """Neighbours on a circle are 2 asin(¼) apart or more: 12 fit, more than 3² and fewer than the lemma's 5²."""
    angles = torch.linspace(0, 2 * math.pi, 50_001, dtype=torch.float64)[:-1]
    net = bounds.greedy_net(torch.stack([angles.cos(), angles.sin()], 1))
    assert len(net) == 12 == math.floor(2 * math.pi / (2 * math.asin(0.25)))
    assert len(bounds.greedy_net(torch.tensor([[1.0], [-1.0], [1.0]]))) == 2


def test_a_net_bounds_the_length_of_a_vector() -> None:
    candidates = unit_vectors(4000, 3, seed=2)
    net = bounds.greedy_net(candidates)
    lengths = 5 * torch.rand(4000, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    along = (candidates * lengths @ net.t()).amax(1)
    assert bool((along >= bounds.ALONG * lengths[:, 0]).all())
    assert bool((along < 0.9 * lengths[:, 0]).any())  # and not by much more
    # with a quarter of its members it is no net any more, and not even the paper's ½ holds
    assert bool(((candidates @ net[::4].t()).amax(1) < 0.5).any())


def test_seven_eighths_is_reached() -> None:
    """Two unit vectors ½ apart. The paper's step, |uᵀx| ≤ |vᵀx| + ½‖x‖, leaves ½ where 7/8 is true and sharp."""
    angle = 2 * math.asin(0.25)
    u, v = torch.tensor([1.0, 0.0]), torch.tensor([math.cos(angle), math.sin(angle)])
    assert float((u - v).norm()) == pytest.approx(0.5)
    assert float(u @ v) == pytest.approx(bounds.ALONG) == pytest.approx(7 / 8)


# Lemma 2


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("scaled", [1.3, 2.0, 2.5])
def test_means_concentrate_along_a_direction_as_stated(noise: str, scaled: float) -> None:
    for k, size in enumerate(SIZES.tolist()):
        t = scaled * SIGMA / math.sqrt(size)
        tail = bounds.directional_tail(t, SIGMA, SIZES)[k]
        assert float(tail) < 1
        assert share_beyond(means(noise), t)[k] <= tail


@pytest.mark.parametrize("noise", NOISE)
def test_the_check_can_fail(noise: str) -> None:
    t = bounds.directional_deviation(SIGMA, SIZES, DELTA)
    assert bool((share_beyond(means(noise), t) <= DELTA).all())
    assert bool((share_beyond(means(noise), t / 2) > DELTA).all())  # half of t_k
    assert share_beyond(means(noise), t[2])[0] > DELTA  # t of the largest cluster for the smallest: it is about s_k


@pytest.mark.parametrize("scaled", [0.5, 1.0, 2.0, 4.0, 6.0])
def test_the_tail_is_that_of_a_gaussian_but_for_a_factor(scaled: float) -> None:
    """Exact: Pr(|g| ≥ z) = erfc(z/√2), at least √(2/π) z/(1 + z²) exp(−z²/2)."""
    t = scaled * SIGMA / math.sqrt(20)
    tail = float(bounds.directional_tail(t, SIGMA, torch.tensor(20)))
    exact = math.erfc(scaled / math.sqrt(2))
    assert exact <= tail <= exact * math.sqrt(2 * math.pi) * (1 + scaled**2) / scaled * (1 + 1e-12)


def test_the_two_in_front_is_needed() -> None:
    """A single sign, ±σ: |x| ≥ σ is certain, and exp(−½) is not."""
    tail = float(bounds.directional_tail(SIGMA, SIGMA, torch.tensor(1)))
    assert tail == pytest.approx(2 * math.exp(-0.5))
    assert tail / 2 < 1 < tail


def test_deviation_along_a_direction_is_where_the_tail_is_delta() -> None:
    for delta in (0.5, 0.01):
        for size, t in zip(SIZES, bounds.directional_deviation(0.3, SIZES, delta).tolist(), strict=True):
            assert float(bounds.directional_tail(t, 0.3, size)) == pytest.approx(delta)


def test_soft_assignments_keep_the_bound() -> None:
    """q in [0, 1] has Σ q² ≤ Σ q: the proof's step holds for more than zeros and ones."""
    weights = torch.rand(len(MEMBERS), generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    soft = torch.einsum("n,bnd->bd", weights, points("signs")) / weights.sum()
    for scaled in (1.3, 2.0):
        t = scaled * SIGMA / math.sqrt(float(weights.sum()))
        assert share_beyond(soft, t) <= bounds.directional_tail(t, SIGMA, weights.sum())


def test_assignments_fitted_to_the_noise_break_it() -> None:
    """The lemma does not say that q must not depend on z; where it does, as here, t is passed every time."""
    z = points("gaussian")[:200]
    chosen = (z @ DIRECTION).topk(40, dim=1).indices  # about half, the furthest along u
    fitted = torch.stack([draw[own].mean(0) for draw, own in zip(z, chosen, strict=True)])
    t = float(bounds.directional_deviation(SIGMA, torch.tensor(40), DELTA))
    assert share_beyond(fitted, t) == 1


def test_dependent_points_break_it() -> None:
    """Points that share a part of their noise do not average it away."""
    shared = math.sqrt(0.5) * (points("gaussian") + points("gaussian")[:, :1])  # still σ-sub-Gaussian, each
    average = shared[:, 1:].mean(1)
    t = float(bounds.directional_deviation(SIGMA, torch.tensor(shared.shape[1] - 1), DELTA))
    assert share_beyond(average, t) > 0.5


def test_a_variance_is_not_enough() -> None:
    """±10 once in a hundred and else 0 has variance 1, and tails far beyond those of a Gaussian."""
    generator = torch.Generator().manual_seed(0)
    jumps = 10.0 * (torch.rand(20_000, generator=generator) < 0.01) * torch.randn(20_000, generator=generator).sign()
    assert float(jumps.square().mean()) == pytest.approx(1, abs=0.2)
    assert float((jumps.abs() >= 5).double().mean()) > 1000 * float(bounds.directional_tail(5, 1.0, torch.tensor(1)))


# Both


@pytest.mark.parametrize("noise", NOISE)
def test_lemmas_together_bound_the_distance(noise: str) -> None:
    distance = means(noise).norm(dim=2)
    bound = bounds.net_deviation(SIGMA, WIDTH, 3, SIZES, DELTA)
    assert float((distance <= bound).all(1).double().mean()) >= 1 - DELTA
    assert float((distance <= bound / 4).all(1).double().mean()) < 0.5
    # one direction is not all: most means are beyond t_k somewhere
    assert bool((distance > bounds.directional_deviation(SIGMA, SIZES, 0.5)).any(1).double().mean() > 0.5)


@pytest.mark.parametrize(("width", "clusters", "delta"), [(1, 2, 0.5), (4, 3, 0.05), (256, 20, 0.05), (40, 9000, 1e-6)])
def test_the_union_over_the_net_and_the_clusters_fails_with_delta(width: int, clusters: int, delta: float) -> None:
    found = bounds.net_deviation(0.7, width, clusters, SIZES, delta)
    for size, value in zip(SIZES.tolist(), found.tolist(), strict=True):
        t = 7 / 8 * value
        logarithm = math.log(2) + width * math.log(5) - size * t**2 / (2 * 0.7**2) + math.log(clusters)
        assert logarithm == pytest.approx(math.log(delta))
    assert bool((found < bounds.deviation(0.7, width, clusters, SIZES, delta)).all())
