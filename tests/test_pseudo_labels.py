from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from plgc.config import Branch, PseudoLabelSettings
from plgc.inputs import Inputs, prepare
from plgc.pseudo_labels import (
    StageOne,
    decorrelation_loss,
    embed,
    prototype_scores,
    read_pseudo_labels,
    spread_rows,
    standardize,
    start_stage_one,
    swapped_prediction_loss,
    train_epoch,
    twin_agreement,
    unit_blocks,
)

BRANCHES = (Branch(hidden=16, width=12), Branch(hidden=16, width=8))


@pytest.fixture(scope="module")
def inputs(demo_graph: Data) -> Inputs:
    return prepare(demo_graph, "l1")


def begin(inputs: Inputs, **settings: object) -> StageOne:
    return start_stage_one(inputs, 10, BRANCHES, PseudoLabelSettings(**settings), seed=0)  # type: ignore[arg-type]


def test_decorrelation_equals_the_standardised_formula() -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.rand(50, 6, generator=generator, dtype=torch.float64) * 3 + 2 for _ in range(2))
    a, b = ((view - view.mean(0)) / view.std(0, correction=0) for view in (first, second))
    identity = torch.eye(6, dtype=torch.float64)
    expected = -(a * b).sum() / 50 + 0.3 * sum((identity - v.T @ v / 50).pow(2).sum() for v in (a, b))
    found = decorrelation_loss(standardize(first), standardize(second), 0.3)
    assert torch.allclose(found, expected.to(torch.float64), atol=1e-5)


def test_standardising_has_the_gradient_of_its_formula() -> None:
    hidden = torch.randn(9, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 3 + 2
    hidden.requires_grad_()
    assert torch.allclose(standardize(hidden), (hidden - hidden.mean(0)) / hidden.std(0, correction=0))
    assert torch.autograd.gradcheck(standardize, hidden)


def test_a_constant_column_standardises_to_zeros() -> None:
    hidden = torch.rand(20, 3, generator=torch.Generator().manual_seed(0))
    hidden[:, 1] = 0.7
    hidden.requires_grad_()
    result = standardize(hidden)
    result.square().sum().backward()
    assert float(result[:, 1].detach().abs().max()) < 0.1
    assert hidden.grad is not None
    assert bool(torch.isfinite(hidden.grad).all())


def test_decorrelation_is_least_for_equal_uncorrelated_views() -> None:
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(40, 5, generator=generator) - 0.0)[0]
    basis = torch.linalg.qr(basis - basis.mean(0))[0]
    assert float(decorrelation_loss(standardize(basis), standardize(basis), 1.0)) == pytest.approx(-5.0, abs=1e-3)


@pytest.mark.parametrize("decorrelation", [0.0, 1e-3])
def test_prototype_scores_are_the_inner_products_of_unit_vectors(inputs: Inputs, decorrelation: float) -> None:
    stage = begin(inputs, decorrelation=decorrelation)
    hidden = [encoder(inputs.x, inputs.adjacency).detach() for encoder in stage.encoders]
    parts = [standardize(part) for part in hidden] if decorrelation else hidden
    expected = unit_blocks(torch.cat(parts, 1), stage.blocks) @ unit_blocks(stage.prototypes, stage.blocks).t()
    assert torch.allclose(prototype_scores(stage, parts), expected, atol=1e-4)
    assert torch.allclose(embed(stage, inputs), unit_blocks(torch.cat(parts, 1), stage.blocks), atol=1e-5)


def test_unit_blocks_scale_every_block_and_the_whole() -> None:
    z = unit_blocks(torch.randn(7, 5), (2, 3))
    assert torch.allclose(z[:, :2].norm(dim=1), torch.full((7,), 0.5**0.5))
    assert torch.allclose(z.norm(dim=1), torch.ones(7))


def swap_reference(scores: list[Tensor], targets: list[Tensor], temperature: float) -> Tensor:
    total = torch.zeros(())
    for score, target in zip(scores, reversed(targets), strict=True):
        for row, weight in zip(score, target, strict=True):
            exponent = torch.exp(row.double() / temperature)
            total = total - (weight * torch.log(exponent / exponent.sum())).sum() / len(score)
    return total


@pytest.mark.parametrize("hard", [True, False])
def test_swapped_prediction_equals_the_papers_formula(inputs: Inputs, hard: bool) -> None:
    from plgc.sinkhorn import sinkhorn

    stage = begin(inputs, hard_targets=hard, temperature=0.2)
    generator = torch.Generator().manual_seed(1)
    views = [[torch.randn(30, width, generator=generator) for width in stage.blocks] for _ in range(2)]
    scores = [prototype_scores(stage, view).detach() for view in views]
    plans = [sinkhorn(s, epsilon=0.05, tolerance=0.05, max_iterations=20) for s in scores]
    targets = [F.one_hot(p.hard, 10).float() if hard else p.plan for p in plans]
    expected = swap_reference(scores, targets, 0.2)
    assert float(swapped_prediction_loss(stage, views[0], views[1]).detach()) == pytest.approx(
        float(expected), rel=1e-4
    )


def test_training_lowers_the_loss_and_explains_more(inputs: Inputs) -> None:
    stage = begin(inputs)
    losses = [train_epoch(stage, inputs) for _ in range(40)]
    assert sum(losses[-5:]) < sum(losses[:5])
    untrained = begin(inputs)
    before = read_pseudo_labels(untrained, embed(untrained, inputs)).explained
    after = read_pseudo_labels(stage, embed(stage, inputs)).explained
    assert after > before


def test_pseudo_labels_are_assignment_means(inputs: Inputs) -> None:
    """Lemma 3: at a stationary point ỹ_k is parallel to its assignment-weighted mean; here block by block."""
    stage = begin(inputs, refinements=60, tolerance=1e-4, max_iterations=500)
    embedding = embed(stage, inputs)
    labels = read_pseudo_labels(stage, embedding)
    means = unit_blocks(labels.weights.t() @ embedding, stage.blocks)
    assert torch.allclose(labels.vectors, means, atol=1e-5)
    assert torch.allclose(labels.weights.sum(0), torch.ones(10), atol=1e-5)
    assert int(labels.counts.sum()) == embedding.shape[0]
    assert torch.equal(stage.prototypes.detach(), labels.vectors)


def test_explained_is_one_minus_residual_over_total_variance(inputs: Inputs) -> None:
    stage = begin(inputs)
    embedding = embed(stage, inputs)
    labels = read_pseudo_labels(stage, embedding)
    nearest = labels.weights.argmax(1)
    # weights are the plan scaled per column; with balanced columns the row maximum is the same
    residual = (embedding - labels.vectors[nearest]).pow(2).sum()
    total = (embedding - embedding.mean(0)).pow(2).sum()
    assert labels.explained == pytest.approx(1 - float(residual / total), abs=0.02)


def test_learned_prototypes_are_kept_without_refinement(inputs: Inputs) -> None:
    stage = begin(inputs, refinements=0)
    before = stage.prototypes.detach().clone()
    labels = read_pseudo_labels(stage, embed(stage, inputs))
    assert torch.allclose(labels.vectors, unit_blocks(before, stage.blocks))


def test_twins_agree_with_themselves_up_to_rotation() -> None:
    generator = torch.Generator().manual_seed(0)
    one = torch.randn(200, 6, generator=generator)
    rotation = torch.linalg.qr(torch.randn(6, 6, generator=generator))[0]
    assert twin_agreement(torch.cat([one, 3 * one @ rotation], 1), (6, 6)) == pytest.approx(1.0, abs=1e-5)
    other = torch.randn(200, 6, generator=generator)
    assert twin_agreement(torch.cat([one, other], 1), (6, 6)) < 0.2


def test_spread_rows_are_distinct_rows_even_among_duplicates() -> None:
    distinct = F.normalize(torch.randn(5, 4, generator=torch.Generator().manual_seed(0)), dim=1)
    rows = distinct.repeat(20, 1)
    chosen = spread_rows(rows, 5, torch.Generator().manual_seed(1))
    assert torch.unique(chosen, dim=0).shape[0] == 5
