from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from plgc.downstream.tasks.ranking import rank_deviations, rank_weights, ranking_loss


def drawn(edges: int, width: int = 4, gap: float = 0.7) -> tuple[Tensor, Tensor]:
    """Features of edges, whose first column is larger by the gap, and then of non-edges."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(2 * edges, width, generator=generator) * torch.tensor([1.0, 5.0, 0.2, 1.0])[:width]
    features[:edges, 0] += gap
    return features, torch.arange(2 * edges) < edges


def test_the_loss_is_the_formula() -> None:
    edges, others = torch.tensor([1.0, -2.0]), torch.tensor([0.5, 0.5])
    expected = np.log1p(np.exp(-0.5)) + np.log1p(np.exp(2.5))
    assert float(ranking_loss(edges, others)) == pytest.approx(expected)


def test_weights_are_those_of_a_general_minimiser() -> None:
    features, joined = drawn(60)
    start = torch.tensor([0.5, 0.1, -1.0, 0.0])
    found = rank_weights(features, joined, start, penalty=3.0, rounds=2)
    values = features.double().numpy()
    edges, others = values[:60], values[60:]

    def loss(weight: np.ndarray) -> float:
        rounds = [np.log1p(np.exp(-(edges - np.roll(others, shift, 0)) @ weight)).sum() for shift in (0, 1)]
        return sum(rounds) / 2 + 1.5 * (values.var(0) * (weight - start.double().numpy()) ** 2).sum()

    expected = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-8}).x
    assert found.numpy() == pytest.approx(expected, abs=1e-5)


def test_without_evidence_the_start_is_kept() -> None:
    features, joined = drawn(50)
    start = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert torch.allclose(rank_weights(features, joined, start, penalty=1e7), start.double(), atol=1e-4)
    features[:, 3] = 7.0  # a feature that does not tell pairs apart
    assert rank_weights(features, joined, start, penalty=1.0)[3] == pytest.approx(4.0)


def test_weights_do_not_depend_on_the_scale_of_a_feature() -> None:
    features, joined = drawn(50)
    scale = torch.tensor([1.0, 10.0, 0.1, 3.0])
    first = rank_weights(features, joined, torch.zeros(4), 1.0)
    assert torch.allclose(rank_weights(features * scale, joined, torch.zeros(4), 1.0) * scale, first, atol=1e-4)


@pytest.mark.parametrize("edges", [1, 2, 200])
def test_weights_are_finite_where_edges_can_be_told_apart_exactly(edges: int) -> None:
    features, joined = drawn(edges, gap=100.0)
    weight = rank_weights(features, joined, torch.tensor([40.0, 0.0, 0.0, 0.0]), 1.0)
    scores = features.double() @ weight
    assert torch.isfinite(weight).all()
    assert scores[joined].min() > scores[~joined].max()


def test_deviations_are_larger_where_a_column_tells_edges() -> None:
    products, _ = drawn(200)
    delta = rank_deviations([(products, torch.zeros(400))], 1.0, epochs=60, learning_rate=0.1, penalty=1e-3)
    assert delta[0] > delta[1]
    held = rank_deviations([(products, torch.zeros(400))], 1.0, epochs=60, learning_rate=0.1, penalty=1e5)
    assert held.abs().max() < 0.1 * delta.abs().max()
