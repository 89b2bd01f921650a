"""Theorem 1 by simulation, with true memberships and raw means, and the diagnostics that use it.

What the theorem does not prove, normalised means and assignments fitted to the points, is only reported, not asserted.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import plgc
from noise import NOISE
from plgc.artifact.condensed import CondensedGraph
from plgc.evaluation import bounds, theory
from plgc.graphs import citation_graph
from plgc.method.settings import Branch, PseudoLabelSettings
from plgc.method.stage_one import embed, start_stage_one, train_epoch, unit_blocks
from plgc.runtime.errors import ArtifactError, GraphError, SettingError
from plgc.sparse.inputs import prepare
from quick import quick
from stages import pseudo_labels

DRAWS, WIDTH, DELTA, BETA = 300, 4, 0.05, 3.0
SIZES = torch.tensor([8, 20, 60])
MEMBERS = torch.repeat_interleave(torch.arange(3), SIZES)
SIGMA = 2.0
EPSILON = theory.deviation(SIGMA, WIDTH, 3, SIZES, DELTA)
GAP = BETA * float(EPSILON.max())  # so that (iii) holds with ε_max = Δ/β, and (ii) has room: Δ/2 − ε_max = ε_max/2
CENTRES = torch.zeros(3, WIDTH, dtype=torch.float64)
CENTRES[1, 0], CENTRES[2, 1] = GAP, 2 * GAP


@cache
def draws(noise: str) -> tuple[Tensor, Tensor]:
    """Points [draws, n, d] around the true centres, and the raw means of the true clusters [draws, K, d]."""
    generator = torch.Generator().manual_seed(len(noise))
    points = CENTRES[MEMBERS] + SIGMA * NOISE[noise]((DRAWS, len(MEMBERS), WIDTH), generator)
    return points, torch.stack([theory.cluster_means(z, MEMBERS, 3) for z in points])


def kept(means: Tensor, epsilon: Tensor) -> Tensor:
    """In which draws every mean is within its ε_k of the true centre."""
    return ((means - CENTRES).norm(dim=2) <= epsilon).all(1)


@pytest.mark.parametrize("noise", NOISE)
def test_means_concentrate_as_stated(noise: str) -> None:
    _, means = draws(noise)
    assert float(kept(means, EPSILON).double().mean()) >= 1 - DELTA
    # the check can fail: a bound of an eighth is broken far more often than δ
    assert float(kept(means, EPSILON / 8).double().mean()) < 0.5
    # and it is about s_k: the smallest cluster does not keep the bound of the largest, even at a quarter of it
    assert float(kept(means, EPSILON[2].expand(3) / 4).double().mean()) < 0.5


@pytest.mark.parametrize("noise", NOISE)
def test_interior_points_are_recovered(noise: str) -> None:
    points, means = draws(noise)
    radius = GAP / 2 - float(EPSILON.max())
    assert radius > 0
    seen = 0
    for z, labels, premise in zip(points, means, kept(means, EPSILON), strict=True):
        inside = theory.interior(z, MEMBERS, CENTRES, radius) & premise
        assert torch.equal(theory.nearest(z, labels)[inside], MEMBERS[inside])
        seen += int(inside.sum())
    assert seen > 0.1 * points.shape[0] * points.shape[1]


@pytest.mark.parametrize("noise", NOISE)
def test_means_stay_apart(noise: str) -> None:
    _, means = draws(noise)
    assert float(EPSILON.max()) <= GAP / BETA * (1 + 1e-12)
    premise = kept(means, EPSILON)
    assert int(premise.sum()) >= (1 - DELTA) * DRAWS
    for labels in means[premise]:
        assert theory.separation(labels) >= (1 - 2 / BETA) * GAP


def test_interior_needs_the_largest_deviation() -> None:
    """With ε_k alone, as printed, a point of a large cluster is lost to a small one whose mean is off by its ε_ℓ."""
    gap, epsilon = 10.0, (0.5, 3.0)
    centres = torch.tensor([[0.0], [gap]])
    labels = torch.tensor([[0.0], [gap - epsilon[1]]])  # each within its own ε of its centre
    point, own = torch.tensor([[4.0]]), torch.tensor([0])
    assert theory.interior(point, own, centres, gap / 2 - epsilon[0]).item()
    assert theory.nearest(point, labels).item() == 1
    assert not theory.interior(point, own, centres, gap / 2 - max(epsilon)).item()


def test_normalised_means_keep_a_bias() -> None:
    """Why the unit-norm statement needs care: a mean of unit vectors is shorter than 1, however many there are."""
    angles = torch.linspace(-1, 1, 100_001, dtype=torch.float64)
    mean = torch.stack([angles.cos(), angles.sin()], 1).mean(0, keepdim=True)
    assert float((unit_blocks(mean, (2,)) - mean).norm()) == pytest.approx(1 - math.sin(1), abs=1e-4)


def test_deviation_and_sufficient_size_agree() -> None:
    enough = theory.sufficient_size(0.3, 1.7, 12, 5, 0.01, 4.0)
    epsilon = theory.deviation(0.3, 12, 5, torch.tensor([enough, 4 * enough]), 0.01)
    assert epsilon.tolist() == pytest.approx([1.7 / 4, 1.7 / 8])
    assert float(theory.deviation(2.0, 7, 3, torch.tensor(16), 0.5)) == pytest.approx(2 * math.sqrt(7 + math.log(12)))
    assert math.isinf(theory.sufficient_size(0.3, 0.0, 12, 5, 0.01, 4.0))


def test_sigma_is_that_of_the_widest_direction() -> None:
    generator = torch.Generator().manual_seed(0)
    scale = torch.tensor([0.2, 1.5, 0.7], dtype=torch.float64)
    own = torch.arange(6).repeat(2000)
    centres = 9 * torch.randn(6, 3, generator=generator, dtype=torch.float64)
    points = centres[own] + scale * torch.randn(len(own), 3, generator=generator, dtype=torch.float64)
    means = theory.cluster_means(points, own, 6)
    assert theory.estimate_sigma(points, own, means) == pytest.approx(1.5, rel=0.03)
    assert theory.estimate_sigma(points, own, points.new_zeros(6, 3)) > 5  # it is the spread within clusters
    turn = torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=torch.float64))[0]
    sigma, direction = theory.widest_direction(points @ turn, own, means @ turn)
    assert sigma == pytest.approx(theory.estimate_sigma(points, own, means))
    assert abs(float(direction @ turn[1])) > 0.999  # the second axis, turned
    distances = [float((a - b).norm()) for i, a in enumerate(centres) for b in centres[:i]]
    assert theory.separation(centres) == pytest.approx(min(distances))


def test_means_nearest_and_halves() -> None:
    own = torch.tensor([2, 0, 2, 2, 0, 2, 2])
    points = torch.arange(14, dtype=torch.float64).reshape(7, 2)
    means = theory.cluster_means(points, own, 4)
    assert torch.equal(means[0], points[own == 0].mean(0))
    assert torch.equal(means[1], torch.zeros(2, dtype=torch.float64))
    centres = torch.tensor([[0.0, 1.0], [30.0, 30.0], [9.0, 9.0]], dtype=torch.float64)
    assert torch.equal(theory.nearest(points, centres), torch.cdist(points, centres).argmin(1))
    firsts = [theory.split_halves(own, 4, torch.Generator().manual_seed(seed)) for seed in range(20)]
    for first in firsts:
        assert torch.bincount(own[first], minlength=4).tolist() == [1, 0, 2, 0]
    assert len({tuple(first.tolist()) for first in firsts}) > 5
    assert torch.stack(firsts).any(0).all()


def test_pseudo_labels_are_parallel_to_the_weighted_sums(demo_graph: Data) -> None:
    """Lemma 3, block by block."""
    inputs = prepare(demo_graph, "l1")
    stage = start_stage_one(
        inputs, 8, (Branch(hidden=16, width=12), Branch(hidden=16, width=8)), PseudoLabelSettings(), seed=0
    )
    train_epoch(stage, inputs)
    z = embed(stage, inputs)
    labels = pseudo_labels(stage, z)
    sums = labels.weights.t() @ z
    for own, total in zip(labels.vectors.split([12, 8], 1), sums.split([12, 8], 1), strict=True):
        assert torch.allclose(torch.cosine_similarity(own, total), torch.ones(8), atol=1e-5)


def test_the_opposite_of_a_mean_is_stationary_too() -> None:
    """Lemma 3 as printed has one stationary point of −Σ q zᵀỹ on the sphere; the other is its maximum."""
    z = torch.randn(30, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 1
    mean = unit_blocks(z.sum(0, keepdim=True), (4,))[0]
    values = []
    for sign in (1, -1):
        label = (sign * mean).requires_grad_()
        loss = -(z @ label).sum()
        [gradient] = torch.autograd.grad(loss, label)
        tangent = gradient - (gradient @ label) * label
        assert float(tangent.detach().norm()) < 1e-12 * float(gradient.norm())
        values.append(float(loss.detach()))
    assert values[0] < 0 < values[1]


def test_means_are_not_stationary_for_the_papers_own_loss() -> None:
    """Lemma 3 leaves out the softmax's denominator, which pushes prototypes away from points of other clusters."""
    z = unit_blocks(torch.randn(60, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64), (4,))
    own = torch.arange(60) % 3
    labels = unit_blocks(theory.cluster_means(z, own, 3), (4,)).requires_grad_()
    [gradient] = torch.autograd.grad(torch.nn.functional.cross_entropy(z @ labels.t(), own), labels)
    along = (gradient * labels.detach()).sum(1, keepdim=True)
    assert bool(((gradient - along * labels.detach()).norm(dim=1) > 0.05 * gradient.norm(dim=1)).all())


@pytest.fixture(scope="module")
def small() -> Data:
    return citation_graph(nodes=300, classes=3, features=100)


@pytest.fixture(scope="module")
def condensed(small: Data) -> CondensedGraph:
    return plgc.condense(small, nodes=8, seed=1, settings=quick(32, 16, rounds=3, epochs=10))


def test_measure_on_clusters_that_fit_the_theorem() -> None:
    """Wide gaps, many points: nothing is vacuous, everything promised is seen, and the odd clusters are counted."""
    sizes = torch.tensor([400, 0, 700, 1, 501])
    own = torch.repeat_interleave(torch.arange(5), sizes)
    generator = torch.Generator().manual_seed(0)
    centres = 20 * torch.eye(5, 4, dtype=torch.float64) + 1
    points = centres[own] + torch.randn(len(own), 4, generator=generator, dtype=torch.float64)
    found = theory.measure(points, own, 5, (2, 2), delta=0.1, beta=4.0)
    assert (found.nodes, found.width, found.clusters, found.compared) == (1602, 4, 5, 3)
    assert (found.empty, found.single, found.sizes) == (1, 1, sizes.tolist())
    assert found.sigma == pytest.approx(1, rel=0.1)
    assert found.gap == pytest.approx(20, rel=0.02)
    expected = theory.deviation(found.sigma, 4, 5, sizes, 0.1)
    assert found.epsilon == [
        None if size == 0 else pytest.approx(float(e)) for size, e in zip(sizes, expected, strict=True)
    ]
    assert found.promised.epsilon_max == pytest.approx(float(expected[0]))  # not that of the single point
    tighter = bounds.net_deviation(found.sigma, 4, 5, sizes, 0.1)
    assert found.net_epsilon == [None if value.isinf() else pytest.approx(float(value)) for value in tighter]
    assert found.sufficient_size is not None
    assert found.sufficient_clusters == int((sizes >= found.sufficient_size).sum()) == 3
    assert found.points == 200 + 350 + 251
    assert found.promised.vacuous == found.promised_halves.vacuous == 0
    assert found.promised.interior_radius == pytest.approx(found.gap / 2 - found.promised.epsilon_max)
    assert found.promised.separation == pytest.approx(found.gap - 2 * found.promised.epsilon_max)
    halves = found.promised_halves
    shares = [theory.deviation(found.sigma, 4, 10, torch.tensor(size), 0.1) for size in (200, 200)]
    assert halves.epsilon_max == pytest.approx(float(sum(shares)))
    assert halves.interior_radius is not None
    assert halves.separation is not None
    assert 0.5 * found.points < found.interior <= found.core <= found.points
    assert found.raw.within_bound == 3
    assert found.raw.distance_median <= found.raw.distance_max <= halves.epsilon_max
    assert found.raw.interior_recovered == found.interior
    assert found.raw.core_recovered == found.core
    assert found.raw.recovered == found.points
    assert found.raw.separation >= halves.separation
    assert found.normalized.distance_max > 10  # unit vectors are far from centres of length 20


@pytest.mark.parametrize("delta", [0.4, 0.9])
def test_measure_counts_the_directions_within_lemma_2(delta: float) -> None:
    """Against the formula, pair by pair."""
    own, seed = torch.cat([torch.arange(90) % 9, torch.arange(45) % 3]), 5
    generator = torch.Generator().manual_seed(1)
    points = 3 * torch.randn(9, 3, generator=generator, dtype=torch.float64)[own]
    points = points + torch.tensor([2.0, 1.0, 0.5]) * torch.randn(135, 3, generator=generator, dtype=torch.float64)
    found = theory.measure(points, own, 9, (3,), seed=seed, delta=delta).directions
    first = theory.split_halves(own, 9, torch.Generator().manual_seed(seed))
    means = torch.stack([points[own == k].mean(0) for k in range(9)])
    residual = points - means[own]
    values, vectors = torch.linalg.eigh(residual.t() @ residual / (135 - 9))
    widest, between, limits = 0, 0, []
    for k in range(9):
        halves = [points[(own == k) & (first == side)] for side in (True, False)]
        difference = halves[1].mean(0) - halves[0].mean(0)
        variance = float(values[-1]) * sum(1 / len(half) for half in halves)
        limits.append(math.sqrt(2 * math.log(2 / delta) * variance))
        widest += int(abs(float(difference @ vectors[:, -1])) <= limits[-1])
        for other in range(9):
            if other != k:
                direction = (means[other] - means[k]) / (means[other] - means[k]).norm()
                between += int(abs(float(difference @ direction)) <= limits[-1])
    assert (found.widest, found.between, found.pairs) == (widest, between, 72)
    assert found.t_max == pytest.approx(max(limits))
    assert widest >= (1 - delta) * 9
    assert between >= (1 - delta) * 72
    assert (between < 72) == (delta > 0.5)  # t_k is about σ there, and some differences are larger


def test_measure_says_where_the_bound_is_vacuous() -> None:
    generator = torch.Generator().manual_seed(0)
    points = unit_blocks(torch.randn(40, 30, generator=generator, dtype=torch.float64), (30,))
    found = theory.measure(points, torch.arange(40) % 8, 8, (30,))
    assert found.span == pytest.approx(2)
    assert found.promised.vacuous == found.promised_halves.vacuous == 8
    assert found.promised.interior_radius is found.promised.separation is None
    assert found.promised_halves.interior_radius is found.promised_halves.separation is None
    assert found.interior == found.raw.interior_recovered == 0
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False)) == found.to_dict()


def test_measure_without_noise_or_without_gap() -> None:
    own = torch.tensor([0, 0, 1, 1])
    exact = theory.measure(torch.eye(2, dtype=torch.float64)[own], own, 3, (2,))
    assert exact.sigma == exact.promised.epsilon_max == exact.raw.distance_max == 0
    assert exact.sufficient_size == 0
    assert exact.promised.interior_radius == pytest.approx(math.sqrt(2) / 2)
    assert exact.raw.interior_recovered == exact.interior == 2
    same = theory.measure(torch.eye(2, dtype=torch.float64)[[0, 1, 0, 1]], own, 2, (2,))
    assert (same.gap, same.sufficient_size, same.sufficient_clusters) == (0, None, 0)
    for result in (exact, same):
        json.dumps(result.to_dict(), allow_nan=False)


def test_diagnose_a_condensed_graph(small: Data, condensed: CondensedGraph) -> None:
    found = theory.diagnose(condensed, small, seed=2)
    values = found.to_dict()
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert found.clusters == len(found.sizes) == condensed.num_nodes
    assert sum(found.sizes) == found.nodes == 300
    assert found.width == sum(condensed.blocks)  # the learned part alone
    assert found.span == pytest.approx(2, abs=1e-5)
    assert 0 < found.sigma < 1
    assert 0 < found.gap < 2
    assert found.raw.distance_max < 2
    assert found.raw.recovered > found.points / found.compared  # better than chance
    assert theory.diagnose(condensed, small, seed=2) == found
    assert theory.diagnose(condensed, small, seed=3).raw != found.raw
    assert theory.diagnose(condensed, small, seed=2, kind="mlp").sigma != found.sigma


def test_diagnose_refuses_what_it_cannot_use(small: Data, condensed: CondensedGraph) -> None:
    with pytest.raises(ArtifactError, match="no pseudo-labels"):
        theory.diagnose(replace(condensed, pseudo_labels=None), small)
    for delta in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(SettingError, match=f"delta is {delta}"):
            theory.diagnose(condensed, small, delta=delta)
    for beta in (2.0, 0.0, math.inf, math.nan):
        with pytest.raises(SettingError, match=f"beta is {beta}"):
            theory.diagnose(condensed, small, beta=beta)
    with pytest.raises(GraphError, match="100 features per node, the graph has 90"):
        theory.diagnose(condensed, citation_graph(nodes=300, classes=3, features=90))
    with pytest.raises(GraphError, match="1 of 3 pseudo-labels have two or more of the 4 nodes"):
        theory.measure(torch.eye(4), torch.tensor([0, 0, 0, 1]), 3, (4,))
