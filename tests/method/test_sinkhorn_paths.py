"""Sinkhorn has two ways to do the same: on exponentials where they are exact, and on logarithms."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.method import sinkhorn as module
from plgc.method.sinkhorn import sinkhorn, sinkhorn_without_checks


def cosines(nodes: int, prototypes: int, seed: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    rows, columns = (F.normalize(torch.randn(n, 6, generator=generator), dim=1) for n in (nodes, prototypes))
    return (rows @ columns.t()).to(dtype)


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("cap", [0, 4, 200])
def test_both_ways_agree(epsilon: float, dtype: torch.dtype, cap: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = cosines(500, 17, 3, dtype)
    start = 0.3 * torch.randn(17, generator=torch.Generator().manual_seed(1)).to(dtype)
    before = scores.clone()
    options = {"epsilon": epsilon, "tolerance": 1e-3, "max_iterations": cap, "potential": start}
    by_kernel = sinkhorn(scores, **options)
    monkeypatch.setattr(module, "_scale_kernel", None)  # must not be called
    monkeypatch.setattr(module, "KERNEL_RANGE", -1.0)
    by_logs = sinkhorn(scores, **options)
    assert by_kernel.iterations == by_logs.iterations
    assert by_kernel.converged == by_logs.converged
    assert by_kernel.error == pytest.approx(by_logs.error, abs=1e-5)
    torch.testing.assert_close(by_kernel.plan, by_logs.plan, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(by_kernel.potential, by_logs.potential, rtol=1e-4, atol=1e-5)
    assert torch.equal(scores, before)


def test_a_range_too_wide_for_exponentials_takes_the_other_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_scale_kernel", None)
    result = sinkhorn(cosines(200, 5, 0, torch.float32), epsilon=0.01, tolerance=1e-2, max_iterations=3000)
    assert result.converged
    torch.testing.assert_close(result.plan.sum(0), torch.full((5,), 40.0), rtol=1e-2, atol=0)


def test_scales_that_run_away_take_the_other_way(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = cosines(300, 8, 1, torch.float32)
    expected = sinkhorn(scores, epsilon=0.05, tolerance=1e-3, max_iterations=500)
    assert expected.iterations > 1
    monkeypatch.setattr(module, "SCALE_RANGE", 0.01)
    result = sinkhorn(scores, epsilon=0.05, tolerance=1e-3, max_iterations=500)
    assert result.iterations == expected.iterations
    torch.testing.assert_close(result.plan, expected.plan, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("cap", [0, 1, 7, 300])
@pytest.mark.parametrize("tolerance", [0.5, 1e-3])
def test_the_one_that_never_looks_finds_the_same(cap: int, tolerance: float) -> None:
    scores, start = cosines(400, 9, 2, torch.float32), 0.2 * torch.arange(9.0)
    expected = sinkhorn(scores, epsilon=0.05, tolerance=tolerance, max_iterations=cap, potential=start)
    plan, potential = sinkhorn_without_checks(
        scores, epsilon=0.05, tolerance=tolerance, max_iterations=cap, potential=start
    )
    torch.testing.assert_close(plan, expected.plan)
    torch.testing.assert_close(potential, expected.potential)


def test_the_one_that_never_looks_says_where_it_cannot_be_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, zeros = cosines(300, 8, 1, torch.float32), torch.zeros(8)
    plan, potential = sinkhorn_without_checks(scores, epsilon=0.01, tolerance=1e-2, max_iterations=20, potential=zeros)
    assert bool(plan.isnan().all())
    assert bool(potential.isnan().all())
    monkeypatch.setattr(module, "SCALE_RANGE", 0.01)
    _, potential = sinkhorn_without_checks(scores, epsilon=0.05, tolerance=1e-3, max_iterations=20, potential=zeros)
    assert bool(potential.isnan().all())
