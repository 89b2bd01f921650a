"""The losses of stage I against their formulas, and an epoch that lowers them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.method.losses import (
    decorrelation_loss,
    known_loss,
    prototype_scores,
    standardize,
    swapped_prediction_loss,
)
from plgc.method.sinkhorn import sinkhorn
from plgc.method.stage_one import embed, train_epoch, unit_blocks
from plgc.sparse.inputs import Inputs
from stages import begin, pseudo_labels


def test_decorrelation_equals_the_standardised_formula() -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.rand(50, 6, generator=generator, dtype=torch.float64) * 3 + 2 for _ in range(2))
    a, b = ((view - view.mean(0)) / view.std(0, correction=0) for view in (first, second))
    identity = torch.eye(6, dtype=torch.float64)
    expected = -(a * b).sum() / 50 + 0.3 * sum((identity - v.T @ v / 50).pow(2).sum() for v in (a, b))
    found = decorrelation_loss(standardize(first), standardize(second), 0.3)
    assert torch.allclose(found, expected.to(torch.float64), atol=1e-5)


def test_decorrelation_is_least_for_equal_uncorrelated_views() -> None:
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(40, 5, generator=generator) - 0.0)[0]
    basis = torch.linalg.qr(basis - basis.mean(0))[0]
    assert float(decorrelation_loss(standardize(basis), standardize(basis), 1.0)) == pytest.approx(-5.0, abs=1e-3)


@pytest.mark.parametrize("decorrelation", [0.0, 1e-3])
def test_prototype_scores_are_the_inner_products_of_unit_vectors(demo_inputs: Inputs, decorrelation: float) -> None:
    stage = begin(demo_inputs, decorrelation=decorrelation)
    hidden = [encoder(demo_inputs.x, demo_inputs.adjacency).detach() for encoder in stage.encoders]
    parts = [standardize(part) for part in hidden] if decorrelation else hidden
    expected = unit_blocks(torch.cat(parts, 1), stage.blocks) @ unit_blocks(stage.prototypes, stage.blocks).t()
    assert torch.allclose(prototype_scores(parts, stage.prototypes), expected, atol=1e-4)
    assert torch.allclose(embed(stage, demo_inputs), unit_blocks(torch.cat(parts, 1), stage.blocks), atol=1e-5)


def swap_reference(scores: list[Tensor], targets: list[Tensor], temperature: float) -> Tensor:
    total = torch.zeros(())
    for score, target in zip(scores, reversed(targets), strict=True):
        for row, weight in zip(score, target, strict=True):
            exponent = torch.exp(row.double() / temperature)
            total = total - (weight * torch.log(exponent / exponent.sum())).sum() / len(score)
    return total


@pytest.mark.parametrize("hard", [True, False])
def test_swapped_prediction_equals_the_papers_formula(demo_inputs: Inputs, hard: bool) -> None:
    stage = begin(demo_inputs, hard_targets=hard, temperature=0.2)
    generator = torch.Generator().manual_seed(1)
    views = [[torch.randn(30, width, generator=generator) for width in stage.blocks] for _ in range(2)]
    scores = [prototype_scores(view, stage.prototypes).detach() for view in views]
    plans = [sinkhorn(s, epsilon=0.05, tolerance=0.05, max_iterations=20) for s in scores]
    targets = [F.one_hot(p.hard, 10).float() if hard else p.plan for p in plans]
    expected = swap_reference(scores, targets, 0.2)
    loss, potentials = swapped_prediction_loss(*views, stage.prototypes, stage.settings, [None, None])
    assert float(loss.detach()) == pytest.approx(float(expected), rel=1e-4)
    torch.testing.assert_close(potentials, [plan.potential for plan in plans])


@pytest.mark.parametrize("fixed", [True, False])
def test_without_balance_the_targets_are_the_softmax_of_the_scores(demo_inputs: Inputs, fixed: bool) -> None:
    stage = begin(demo_inputs, balanced=False, temperature=0.2, epsilon=0.07)
    generator = torch.Generator().manual_seed(1)
    views = [[torch.randn(30, width, generator=generator) for width in stage.blocks] for _ in range(2)]
    scores = [prototype_scores(view, stage.prototypes).detach() for view in views]
    targets = [torch.softmax(part / 0.07, dim=1) for part in scores]
    start: list[Tensor | None] = [torch.zeros(10), torch.zeros(10)]
    loss, potentials = swapped_prediction_loss(*views, stage.prototypes, stage.settings, start, fixed_iterations=fixed)
    assert float(loss.detach()) == pytest.approx(float(swap_reference(scores, targets, 0.2)), rel=1e-4)
    torch.testing.assert_close(potentials, start)
    balanced, _ = swapped_prediction_loss(*views, stage.prototypes, begin(demo_inputs).settings, start)
    assert abs(float((balanced - loss).detach())) > 1e-3


def test_training_lowers_the_loss_and_explains_more(demo_inputs: Inputs) -> None:
    stage = begin(demo_inputs)
    losses = [train_epoch(stage, demo_inputs) for _ in range(40)]
    assert sum(losses[-5:]) < sum(losses[:5])
    untrained = begin(demo_inputs)
    before = pseudo_labels(untrained, embed(untrained, demo_inputs)).explained
    after = pseudo_labels(stage, embed(stage, demo_inputs)).explained
    assert after > before


@pytest.mark.parametrize("hard", [True, False])
def test_sinkhorn_without_its_stopping_rule_gives_the_same_loss(demo_inputs: Inputs, hard: bool) -> None:
    stage = begin(demo_inputs, hard_targets=hard)
    generator = torch.Generator().manual_seed(1)
    views = [[torch.randn(60, width, generator=generator) for width in stage.blocks] for _ in range(2)]
    start: list[Tensor | None] = [torch.zeros(10), torch.zeros(10)]
    loss, potentials = swapped_prediction_loss(*views, stage.prototypes, stage.settings, start)
    fixed, same = swapped_prediction_loss(*views, stage.prototypes, stage.settings, start, fixed_iterations=True)
    torch.testing.assert_close(fixed, loss)
    torch.testing.assert_close(same, potentials)


@pytest.mark.parametrize("standardized", [False, True])
def test_known_loss_counts_a_row_as_many_times_as_it_has_nodes(standardized: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    hidden, target = (torch.randn(4, 6, generator=generator, dtype=torch.float64) for _ in range(2))
    target, counts = F.normalize(target, dim=1), torch.tensor([1, 5, 2, 3])
    repeated, goal = hidden.repeat_interleave(counts, 0), target.repeat_interleave(counts, 0)
    repeated = standardize(repeated) if standardized else repeated
    expected = (F.normalize(repeated, dim=1) - goal).square().sum(1).mean()
    assert torch.allclose(known_loss(hidden, target, (counts / counts.sum())[:, None], standardized), expected)
