from __future__ import annotations

import math

import numpy as np
import ot
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from plgc.method.sinkhorn import sinkhorn


def similarities(nodes: int = 60, prototypes: int = 6, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Cosines between random unit vectors and prototypes, the scores stage I hands over."""
    generator = torch.Generator().manual_seed(seed)
    rows, columns = (
        F.normalize(torch.randn(count, 8, generator=generator, dtype=torch.float64), dim=1)
        for count in (nodes, prototypes)
    )
    return (rows @ columns.T).to(dtype)


def plan_of_pot(scores: Tensor, epsilon: float) -> np.ndarray:
    """POT's plan for uniform marginals, scaled so that rows sum to one."""
    nodes, prototypes = scores.shape
    share = np.full(nodes, 1 / nodes), np.full(prototypes, 1 / prototypes)
    cost = -scores.double().numpy()
    return nodes * ot.sinkhorn(*share, cost, epsilon, method="sinkhorn_log", stopThr=1e-11, numItermax=50_000)


@settings(deadline=None, max_examples=40)
@given(
    nodes=st.integers(2, 40),
    prototypes=st.integers(2, 10),
    epsilon=st.sampled_from([0.05, 0.2, 1.0]),
    tolerance=st.sampled_from([1e-1, 1e-2, 1e-3]),
    seed=st.integers(0, 1000),
)
def test_rows_sum_to_one_and_columns_to_their_share(
    nodes: int, prototypes: int, epsilon: float, tolerance: float, seed: int
) -> None:
    scores = similarities(nodes, prototypes, seed)
    result = sinkhorn(scores, epsilon=epsilon, tolerance=tolerance, max_iterations=5000)
    share = nodes / prototypes
    assert result.plan.shape == (nodes, prototypes)
    assert bool((result.plan >= 0).all())
    torch.testing.assert_close(result.plan.sum(1), torch.ones(nodes, dtype=torch.float64))
    deviation = float((result.plan.sum(0) / share - 1).abs().max())
    assert result.converged
    assert deviation <= tolerance * (1 + 1e-9)
    assert result.error == pytest.approx(deviation, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.02, 0.05, 0.5])
@pytest.mark.parametrize("shape", [(60, 6), (7, 3), (4, 9)])
def test_the_plan_is_the_one_pot_finds(epsilon: float, shape: tuple[int, int]) -> None:
    scores = similarities(*shape, seed=1)
    result = sinkhorn(scores, epsilon=epsilon, tolerance=1e-10, max_iterations=50_000)
    assert result.converged
    np.testing.assert_allclose(result.plan.numpy(), plan_of_pot(scores, epsilon), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_small_epsilon_stays_finite_and_right(dtype: torch.dtype) -> None:
    """At ε = 0.005 exp(score / ε) reaches e^200, beyond float32; the plan must still be the true one."""
    epsilon = 0.005
    scores = similarities(300, 5, seed=1, dtype=dtype)
    assert dtype == torch.float64 or not bool(torch.isfinite((scores / epsilon).exp()).all())
    result = sinkhorn(scores, epsilon=epsilon, tolerance=1e-4, max_iterations=5000)
    assert result.converged
    assert result.plan.dtype == dtype
    np.testing.assert_allclose(result.plan.double().sum(0).numpy(), 60, rtol=2e-4)
    np.testing.assert_allclose(result.plan.numpy(), plan_of_pot(scores, epsilon), atol=2e-3)


@settings(deadline=None, max_examples=20)
@given(st.integers(2, 5), st.integers(1, 6), st.integers(0, 1000))
def test_the_total_score_is_within_the_entropy_of_the_best_balanced_matching(
    prototypes: int, share: int, seed: int
) -> None:
    """The best matching bounds the plan from above and, up to ε ln K per node, from below; columns are 0.1 % off."""
    epsilon, slack = 0.02, 2e-3
    scores = similarities(prototypes * share, prototypes, seed)
    result = sinkhorn(scores, epsilon=epsilon, tolerance=1e-3, max_iterations=20_000)
    assert result.converged
    repeated = np.repeat(scores.numpy(), share, axis=1)
    best = repeated[linear_sum_assignment(repeated, maximize=True)].mean()
    reached = float((result.plan * scores).sum(1).mean())
    assert best - epsilon * math.log(prototypes) - slack <= reached <= best + slack


def test_hard_is_the_balanced_matching_where_classes_are_clear() -> None:
    truth = torch.arange(4).repeat(5)
    scores = F.one_hot(truth, 4).double() + 0.1 * similarities(20, 4, seed=2)
    scores[:, 0] += 1  # an attractive prototype: unbalanced, it would take more than its share
    assert int((scores.argmax(1) == 0).sum()) > 5
    assert torch.equal(sinkhorn(scores, epsilon=0.02, max_iterations=5000).hard, truth)


def test_a_warm_start_saves_iterations_and_finds_the_same_plan() -> None:
    scores = similarities(200, 12, seed=3)
    options = {"epsilon": 0.05, "tolerance": 1e-4, "max_iterations": 5000}
    first = sinkhorn(scores, **options)
    moved = scores + 0.01 * torch.randn(scores.shape, generator=torch.Generator().manual_seed(1), dtype=scores.dtype)
    cold, warm = sinkhorn(moved, **options), sinkhorn(moved, **options, potential=first.potential)
    assert first.iterations > 3
    assert warm.converged
    assert warm.iterations < cold.iterations
    torch.testing.assert_close(warm.plan, cold.plan, rtol=0, atol=1e-3)
    assert sinkhorn(scores, **options, potential=first.potential).iterations == 0


def test_the_given_potential_is_not_changed() -> None:
    potential = torch.zeros(6, dtype=torch.float64)
    result = sinkhorn(similarities(), potential=potential)
    assert result.iterations > 0
    assert torch.equal(potential, torch.zeros(6, dtype=torch.float64))


@pytest.mark.parametrize("cap", [0, 1, 3])
def test_reaching_the_cap_is_reported(cap: int) -> None:
    result = sinkhorn(similarities(), epsilon=0.01, tolerance=1e-6, max_iterations=cap)
    assert not result.converged
    assert result.iterations == cap
    assert result.error > 1e-6
    # What was reached is still usable: rows are exact, and the error is the columns'.
    torch.testing.assert_close(result.plan.sum(1), torch.ones(60, dtype=torch.float64))
    assert result.error == pytest.approx(float((result.plan.sum(0) / 10 - 1).abs().max()))


def test_without_iterations_the_plan_is_the_softmax() -> None:
    scores = similarities()
    result = sinkhorn(scores, epsilon=0.1, max_iterations=0)
    torch.testing.assert_close(result.plan, torch.softmax(scores / 0.1, dim=1))
    assert torch.equal(result.hard, scores.argmax(1))


def test_no_gradient_passes_through() -> None:
    assert not sinkhorn(similarities().requires_grad_()).plan.requires_grad
