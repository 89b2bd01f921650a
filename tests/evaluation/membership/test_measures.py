from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score, roc_curve

from plgc.evaluation.membership.measures import Measured, measure_auc, measure_tpr, over_seeds, true_positive_rate


def drawn(count: int, shift: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    members = torch.rand(count, generator=generator) < 0.5
    return torch.randn(count, generator=generator) + shift * members, members


def test_the_true_positive_rate_is_that_of_the_roc_curve() -> None:
    scores, members = drawn(3000, 1.5)
    wrong, right, _ = roc_curve(members.numpy(), scores.numpy(), drop_intermediate=False)
    assert true_positive_rate(scores, members) == pytest.approx(right[wrong <= 0.01].max(), abs=2e-3)
    assert true_positive_rate(torch.zeros(3000), members) == 0.0
    assert true_positive_rate(members.double(), members) == 1.0


def test_standard_errors_are_the_spread_of_repeated_draws() -> None:
    draws = [drawn(600, 1.0, seed) for seed in range(200)]
    found = [measure_auc(scores, members) for scores, members in draws]
    assert found[0].value == pytest.approx(roc_auc_score(draws[0][1].numpy(), draws[0][0].numpy()))
    assert np.mean([one.error for one in found]) == pytest.approx(np.std([one.value for one in found]), rel=0.15)
    rates = [measure_tpr(scores, members) for scores, members in draws[:40]]
    spread = np.std([true_positive_rate(scores, members) for scores, members in draws])
    assert np.mean([one.error for one in rates]) == pytest.approx(spread, rel=0.3)


def test_ties_have_an_auc_of_one_half_without_error() -> None:
    _, members = drawn(100, 0.0)
    assert measure_auc(torch.zeros(100), members) == Measured(0.5, 0.0)


def test_an_interval_is_that_over_seeds_or_over_nodes() -> None:
    alone = over_seeds([Measured(0.6, 0.01)])
    assert alone["mean"] == 0.6
    assert alone["interval"] == pytest.approx([0.6 - 0.0196, 0.6 + 0.0196], abs=1e-4)
    apart = over_seeds([Measured(0.5, 0.01), Measured(0.7, 0.01)])
    assert apart["interval"] == pytest.approx([0.6 - 1.96 * 0.1, 0.6 + 1.96 * 0.1], abs=1e-3)
    assert over_seeds([Measured(0.999, 0.01)])["interval"][1] == 1.0
