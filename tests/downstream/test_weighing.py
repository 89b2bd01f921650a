from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from head_graphs import CLASSES, edges, labels
from scipy.optimize import minimize
from scipy.special import log_softmax

from plgc.downstream.regression import LinearMaps
from plgc.downstream.weighing import (
    better_than_chance,
    edge_agreement,
    expert_groups,
    fold_weighting,
    held_out,
    left_out,
    likelihood,
    prior,
    share_of_edges,
    stack,
    weigh_experts,
    weigh_smoothing,
)
from plgc.sparse.adjacency import build_adjacency


def test_groups_are_parts_with_edges_without_and_all() -> None:
    ours = expert_groups(["learned", "learned_plain", "x", "propagated_1", "propagated_2"])
    assert ours == {
        "edges": ("learned", "propagated_1", "propagated_2"),
        "plain": ("learned_plain", "x"),
        "both": ("learned", "propagated_1", "propagated_2", "learned_plain", "x"),
    }
    assert expert_groups(["x"]) == {"plain": ("x",)}
    assert expert_groups(["learned"], validated=True) == {"edges": ("learned",)}
    assert expert_groups(["learned", "propagated_2"], validated=True)["propagated"] == ("propagated_2",)


def test_the_share_of_edges_is_by_the_spread_of_logits() -> None:
    maps = LinearMaps({"learned": torch.tensor([[[3.0, -3.0]]]), "x": torch.tensor([[[1.0, -1.0]]])}, torch.zeros(1, 2))
    rows = {"learned": torch.tensor([[1.0], [-1.0]]), "x": torch.tensor([[1.0], [1.0]])}
    assert share_of_edges(maps, rows) == pytest.approx(0.75)
    nothing = LinearMaps({"x": torch.zeros(1, 1, 2)}, torch.zeros(1, 2))
    assert share_of_edges(nothing, rows) == 0


def test_every_label_is_left_out_once_and_classes_evenly() -> None:
    target = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    weighting = fold_weighting(target)
    assert weighting.shape == (4, 7)
    assert bool((weighting[0] == 1).all())
    assert (weighting[1:] == 0).sum(0).tolist() == [1] * 7
    for fold in weighting[1:]:
        assert set(target[fold == 1].tolist()) == {0, 1}
    values = torch.arange(4.0).expand(7, 4)
    assert held_out(values, weighting).tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert bool(left_out(weighting).all())


def test_one_label_per_class_has_no_folds_and_thousands_have_one() -> None:
    assert fold_weighting(torch.arange(5)).shape == (1, 5)
    assert not bool(left_out(fold_weighting(torch.arange(5))).any())
    many = fold_weighting(torch.arange(3000) % 7)
    assert many.shape == (2, 3000)
    assert float((many[1] == 0).float().mean()) == pytest.approx(1 / 3, abs=0.01)


def test_edge_agreement_is_the_correlation_over_edges() -> None:
    adjacency = edges(same_class=False)
    probability = torch.rand(adjacency.num_nodes, 3, generator=torch.Generator().manual_seed(1)).softmax(1)
    p = (probability - probability.mean(0)).double().numpy()
    row, col = adjacency.row.numpy(), adjacency.col.numpy()
    row, col = row[row != col], col[row != col]
    expected = (p[row] * p[col]).sum() / (((p[row] ** 2).sum() + (p[col] ** 2).sum()) / 2)
    assert edge_agreement(probability, adjacency) == pytest.approx(expected, abs=1e-5)
    truth = torch.nn.functional.one_hot(labels(), CLASSES).float()
    assert edge_agreement(truth, edges(same_class=True)) == pytest.approx(1, abs=1e-5)
    assert edge_agreement(truth, build_adjacency(torch.zeros(2, 0, dtype=torch.int64), len(truth))) == 0


def test_the_prior_leans_with_the_agreement_within_limits() -> None:
    values = [prior(r) for r in (-0.5, 0.0, 0.035, 0.05, 0.5)]
    assert values == sorted(values)
    assert values[0] == -2
    assert values[2] == pytest.approx(0)
    assert values[-1] == 2
    weights = [weigh_experts(("edges", "plain", "both"), torch.zeros(3), lean) for lean in (-2.0, 2.0)]
    assert weights[0].tolist() == pytest.approx(weights[1][[1, 0, 2]].tolist())
    assert float(weights[1][0] / weights[1][1]) == pytest.approx(math.exp(4), rel=1e-4)


def test_evidence_moves_the_weights() -> None:
    weights = weigh_experts(("edges", "plain", "both"), torch.tensor([-60.0, -20.0, -25.0]), lean=0.5)
    assert int(weights.argmax()) == 1
    assert float(weights.sum()) == pytest.approx(1)
    sharp = torch.tensor([[3.0, 0.0], [0.0, 3.0]] * 10).log_softmax(1)
    flat, wrong, told = (0.3 * sharp).log_softmax(1), sharp.flip(1), torch.tensor([0, 1] * 10)
    told[:4] = 1 - told[:4]  # some that are not as predicted
    assert weigh_smoothing(sharp, flat, told, 0.0) == pytest.approx(0.5, abs=0.05)  # flatter, and as right
    assert weigh_smoothing(sharp, wrong, told, 2.0) < 0.01
    assert weigh_smoothing(sharp[:0], flat[:0], told[:0], 2.0) == pytest.approx(1 / (1 + math.exp(-2)), abs=1e-5)


def test_better_than_chance_is_zero_at_chance() -> None:
    told = torch.tensor([0, 1, 2, 0])
    assert better_than_chance(torch.zeros(4, 3).log_softmax(1), told) == pytest.approx(0, abs=1e-5)
    sure = (20 * torch.nn.functional.one_hot(told, 3).float()).log_softmax(1)
    assert better_than_chance(sure, told) == pytest.approx(1 - math.exp(-2 * math.log(3)), abs=1e-3)
    assert better_than_chance(sure.roll(1, 1), told) == 0
    assert float(likelihood(sure.roll(1, 1), told)) == -32  # one label cannot cost more than 8 nats


def test_the_stack_is_the_optimum() -> None:
    generator = torch.Generator().manual_seed(0)
    told = torch.arange(60) % 3
    truth = torch.nn.functional.one_hot(told, 3).float()
    noise = torch.tensor([0.5, 1.0, 3.0])[:, None, None] * torch.randn(3, 60, 3, generator=generator)
    answers = (2 * truth + noise).log_softmax(2)
    given, wanted = answers.double().numpy(), told.numpy()

    def loss(weights: np.ndarray) -> float:
        pooled = log_softmax(np.tensordot(weights, given, 1), axis=1)
        return float(-pooled[np.arange(60), wanted].mean() + 10 / 60 * ((weights - 1 / 3) ** 2).sum())

    found = stack(answers, told)
    best = minimize(loss, np.full(3, 1 / 3), bounds=[(0, None)] * 3)
    assert loss(found.double().numpy()) == pytest.approx(best.fun, abs=2e-3)
    assert int(found.argmax()) == 0
    assert bool((found >= 0).all())
