from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from plgc.method.losses import standardize
from plgc.method.settings import PseudoLabelSettings
from plgc.method.stage_one import embed, read_pseudo_labels, spread_rows, unit_blocks
from plgc.sparse.inputs import Inputs
from stages import begin, pseudo_labels


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


def test_unit_blocks_scale_every_block_and_the_whole() -> None:
    z = unit_blocks(torch.randn(7, 5), (2, 3))
    assert torch.allclose(z[:, :2].norm(dim=1), torch.full((7,), 0.5**0.5))
    assert torch.allclose(z.norm(dim=1), torch.ones(7))


def test_pseudo_labels_are_assignment_means(demo_inputs: Inputs) -> None:
    """Lemma 3: at a stationary point ỹ_k is parallel to its assignment-weighted mean; here block by block."""
    stage = begin(demo_inputs, refinements=60, tolerance=1e-4, max_iterations=500)
    embedding = embed(stage, demo_inputs)
    labels = pseudo_labels(stage, embedding)
    means = unit_blocks(labels.weights.t() @ embedding, stage.blocks)
    assert torch.allclose(labels.vectors, means, atol=1e-5)
    assert torch.allclose(labels.weights.sum(0), torch.ones(10), atol=1e-5)
    assert int(labels.counts.sum()) == embedding.shape[0]
    assert torch.equal(stage.prototypes.detach(), labels.vectors)


def test_explained_is_one_minus_residual_over_total_variance(demo_inputs: Inputs) -> None:
    stage = begin(demo_inputs)
    embedding = embed(stage, demo_inputs)
    labels = pseudo_labels(stage, embedding)
    nearest = labels.weights.argmax(1)
    # weights are the plan scaled per column; with balanced columns the row maximum is the same
    residual = (embedding - labels.vectors[nearest]).pow(2).sum()
    total = (embedding - embedding.mean(0)).pow(2).sum()
    assert labels.explained == pytest.approx(1 - float(residual / total), abs=0.02)


def test_learned_prototypes_are_kept_without_refinement(demo_inputs: Inputs) -> None:
    stage = begin(demo_inputs, refinements=0)
    before = stage.prototypes.detach().clone()
    labels = pseudo_labels(stage, embed(stage, demo_inputs))
    assert torch.allclose(labels.vectors, unit_blocks(before, stage.blocks))


def test_without_balance_and_softness_it_is_k_means() -> None:
    generator = torch.Generator().manual_seed(0)
    points = F.normalize(torch.rand(300, 4, generator=generator, dtype=torch.float64), dim=1)
    start = torch.cat([points[:5], torch.full((1, 4), -0.5, dtype=torch.float64)])  # the last is nearest to none
    settings = PseudoLabelSettings(balanced=False, epsilon=1e-7, refinements=1)
    labels = read_pseudo_labels(points, start.clone(), (4,), settings)
    own = torch.cdist(points, start).argmin(1)
    means = [points[own == k].mean(0) if (own == k).any() else old for k, old in enumerate(start)]
    torch.testing.assert_close(labels.vectors, torch.stack([mean / mean.norm() for mean in means]))
    assert labels.counts.tolist() == torch.bincount(own, minlength=6).tolist()
    assert labels.counts[5] == 0
    assert labels.counts[:5].max() > 1.5 * labels.counts[:5].min()
    torch.testing.assert_close(labels.weights.sum(0), torch.tensor([1.0, 1, 1, 1, 1, 0], dtype=torch.float64))
    balanced = read_pseudo_labels(points, start.clone(), (4,), replace(settings, balanced=True, epsilon=0.05))
    assert balanced.counts[5] > 0


def test_spread_rows_are_distinct_rows_even_among_duplicates() -> None:
    distinct = F.normalize(torch.randn(5, 4, generator=torch.Generator().manual_seed(0)), dim=1)
    rows = distinct.repeat(20, 1)
    chosen = spread_rows(rows, 5, torch.Generator().manual_seed(1))
    assert torch.unique(chosen, dim=0).shape[0] == 5
