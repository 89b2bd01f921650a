from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from plgc.downstream.regression import LinearMaps, beside, fit_experts, fit_in_span, mix
from plgc.downstream.unit_rows import unit_rows

CLASSES, NODES = 4, 120
PARTS = {"learned": 6, "x": 10}
BOTH = ("learned", "x")


def embedding() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(CLASSES, 16, generator=generator)
    return centres[labels()] + 1.2 * torch.randn(NODES, 16, generator=generator)


def labels() -> Tensor:
    return torch.arange(NODES) % CLASSES


def rows_of(nodes: Tensor) -> dict[str, Tensor]:
    return {name: part.take(nodes) for name, part in unit_rows(embedding(), PARTS).items()}


@pytest.mark.parametrize(("penalty", "count", "steps"), [(0.04, 12, 2000), (0.04, 80, 2000), (0.5, 80, 2000)])
def test_an_expert_is_the_logistic_regression_of_scikit_learn(penalty: float, count: int, steps: int) -> None:
    """Mean loss + (c/n)‖W‖² times n/2c is scikit-learn's C · Σ loss + ½‖W‖² with C = 1/2c; in the span or with all
    columns.
    """
    nodes = torch.arange(count)
    target = F.one_hot(labels()[:count], CLASSES).float()
    (expert,) = fit_experts(rows_of(nodes), [BOTH], target, torch.ones(1, count), penalty, steps)
    inputs = {name: part.numpy() for name, part in rows_of(torch.arange(NODES)).items()}
    columns = np.concatenate([inputs[name] for name in BOTH], 1) / np.sqrt(2)
    reference = LogisticRegression(C=1 / (2 * penalty), tol=1e-8, max_iter=5000).fit(columns[:count], labels()[:count])
    found = expert.maps.logits(unit_rows(embedding(), PARTS))[:, 0].softmax(1)
    np.testing.assert_allclose(found.numpy(), reference.predict_proba(columns), atol=5e-3)
    torch.testing.assert_close(found[:count], expert.logits[:, 0].softmax(1), atol=1e-4, rtol=1e-3)


def test_labels_of_no_weight_are_as_good_as_left_out() -> None:
    target = F.one_hot(labels()[:24], CLASSES).float()
    weighting = torch.ones(2, 24)
    weighting[1, 16:] = 0
    both = fit_experts(rows_of(torch.arange(24)), [BOTH, ("x",)], target, weighting, 0.04, 800)
    fewer = fit_experts(rows_of(torch.arange(16)), [BOTH, ("x",)], target[:16], torch.ones(1, 16), 0.04, 800)
    rows = unit_rows(embedding(), PARTS)
    for one, other in zip(both, fewer, strict=True):
        found, expected = one.maps.logits(rows)[:, 1], other.maps.logits(rows)[:, 0]
        torch.testing.assert_close(found.softmax(1), expected.softmax(1), atol=0.02, rtol=0)


def test_many_labels_and_few_are_solved_alike() -> None:
    """Twice the same labels at half the weight: the first solve is in the span, the second has all columns."""
    nodes = torch.arange(10)
    target = F.one_hot(labels()[:10], CLASSES).float()
    few = fit_in_span(rows_of(nodes), rows_of(nodes), [BOTH], target, torch.ones(1, 10), 0.04, 1500)[0]
    twice = nodes.repeat(40)
    many = fit_experts(rows_of(twice), [BOTH], target.repeat(40, 1), torch.full((1, 400), 1 / 40), 0.04, 1500)[0]
    rows = unit_rows(embedding(), PARTS)
    torch.testing.assert_close(few.maps.logits(rows), many.maps.logits(rows), atol=0.05, rtol=0.02)


def test_a_pool_of_experts_is_one_linear_map() -> None:
    target = F.one_hot(labels()[:20], CLASSES).float()
    experts = fit_experts(rows_of(torch.arange(20)), [("learned",), ("x",), BOTH], target, torch.ones(1, 20), 0.04, 50)
    rows, shares = unit_rows(embedding(), PARTS), torch.tensor([0.2, 0.5, 0.3])
    pooled = mix([expert.maps for expert in experts], shares).logits(rows)[:, 0].log_softmax(1)
    each = [expert.maps.logits(rows)[:, 0].log_softmax(1) for expert in experts]
    expected = sum(share * one for share, one in zip(shares, each, strict=True)).log_softmax(1)
    torch.testing.assert_close(pooled, expected, atol=1e-5, rtol=1e-4)


def test_maps_side_by_side_answer_as_each_alone() -> None:
    one = LinearMaps({"x": torch.randn(10, 1, 3)}, torch.randn(1, 3))
    other = LinearMaps({"x": torch.randn(10, 1, 3)}, torch.randn(1, 3))
    rows = unit_rows(embedding()[:, 6:], {"x": 10})
    both = beside(one, other)
    torch.testing.assert_close(both.logits(rows)[:, 1:], other.logits(rows))
    torch.testing.assert_close(both.only(0).logits(rows), one.logits(rows))
