from __future__ import annotations

import numpy as np
import ot
import pytest
import torch
from torch import Tensor

from plgc.method.regroup import regroup, spread_start
from plgc.method.settings import PseudoLabelSettings
from plgc.method.sinkhorn import sinkhorn
from plgc.method.stage_one import read_pseudo_labels, unit_blocks

BLOCKS = (4, 3)
TIGHT = PseudoLabelSettings(tolerance=1e-8, max_iterations=20_000, refinements=4)


def weighted_points(count: int = 40, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Points of two unit blocks, and how many nodes each stands for."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(count, sum(BLOCKS), generator=generator, dtype=torch.float64)
    return unit_blocks(rows, BLOCKS).to(dtype), torch.randint(1, 30, (count,), generator=generator)


@pytest.mark.parametrize("epsilon", [0.005, 0.05, 0.5])  # the first needs logarithms
def test_the_plan_with_masses_is_the_one_pot_finds(epsilon: float) -> None:
    points, masses = weighted_points()
    scores, share = points @ points[:6].t(), masses.double() / masses.sum()
    result = sinkhorn(scores, epsilon=epsilon, tolerance=1e-10, max_iterations=100_000, masses=masses.double())
    cost, even = -scores.numpy(), np.full(6, 1 / 6)
    wanted = ot.sinkhorn(share.numpy(), even, cost, epsilon, method="sinkhorn_log", stopThr=1e-12, numItermax=100_000)
    assert result.converged
    np.testing.assert_allclose((share[:, None] * result.plan).numpy(), np.asarray(wanted), rtol=1e-5, atol=1e-9)


def test_groups_are_those_of_as_many_copies_of_each_point() -> None:
    """A point of mass m is m nodes at one place: the oracle is the unweighted reading of all the nodes."""
    points, masses = weighted_points()
    start = points[:5]
    found = regroup(points, masses, start, BLOCKS, TIGHT)
    nodes = points.repeat_interleave(masses, dim=0)
    wanted = read_pseudo_labels(nodes, start.clone(), BLOCKS, TIGHT)
    torch.testing.assert_close(found.vectors, wanted.vectors)
    torch.testing.assert_close(found.mass, wanted.mass)
    torch.testing.assert_close(found.counts, wanted.counts)
    assert found.explained == pytest.approx(wanted.explained)
    summed = torch.zeros_like(found.weights).index_add(
        0, torch.arange(len(points)).repeat_interleave(masses), wanted.weights
    )
    torch.testing.assert_close(found.weights, summed)


@pytest.mark.parametrize("mass", [1, 7])
def test_with_equal_masses_it_is_the_reading_of_pseudo_labels(mass: int) -> None:
    points, _ = weighted_points(dtype=torch.float32)
    found = regroup(points, torch.full((40,), mass), points[:5], BLOCKS)
    wanted = read_pseudo_labels(points, points[:5].clone(), BLOCKS, PseudoLabelSettings())
    torch.testing.assert_close(found.vectors, wanted.vectors)
    torch.testing.assert_close(found.weights, wanted.weights)
    assert torch.equal(found.counts, mass * wanted.counts)


@pytest.mark.parametrize("minimum", [1, 60])
def test_no_node_is_lost_and_no_group_is_too_small(minimum: int) -> None:
    points, masses = weighted_points(dtype=torch.float32)
    found = regroup(points, masses, spread_start(points, masses, 30, seed=0), BLOCKS, minimum=minimum)
    assert int(found.counts.sum()) == int(masses.sum())
    assert int(found.counts.min()) >= minimum
    torch.testing.assert_close(found.weights.sum(0), torch.ones(len(found.counts)))


def test_the_start_draws_points_by_their_nodes() -> None:
    points, masses = weighted_points(dtype=torch.float32)
    masses = torch.where(torch.arange(40) == 7, masses, 0)
    drawn = spread_start(points, masses, 2, seed=0)
    assert any(torch.equal(row, points[7]) for row in drawn)
