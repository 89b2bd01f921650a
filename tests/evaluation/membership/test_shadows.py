from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import norm, rankdata
from sklearn.linear_model import LogisticRegression

import plgc
from plgc.downstream.tasks.metrics import auroc
from plgc.evaluation.membership.controls import publish_members
from plgc.evaluation.membership.shadows import (
    PENALTY,
    Evidence,
    classifier_scores,
    condense_shadows,
    fit_logistic,
    likelihood_ratios,
    normal_scores,
)
from plgc.graphs import citation_graph

Known = list[tuple[Evidence, torch.Tensor]]


def test_logistic_regression_is_that_of_scikit_learn() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(400, 6, generator=generator, dtype=torch.float64)
    truth = rows[:, 0] - rows[:, 1] + torch.randn(400, generator=generator) > 0
    weight, bias = fit_logistic(rows, truth)
    # Ours: mean loss + c‖w‖²; theirs: C · summed loss + ‖w‖² / 2.
    reference = LogisticRegression(C=1 / (2 * PENALTY * 400), tol=1e-10, max_iter=1000).fit(rows, truth)
    np.testing.assert_allclose(weight.numpy(), reference.coef_[0], atol=2e-3)
    np.testing.assert_allclose(float(bias), reference.intercept_[0], atol=2e-3)


def shadows(effect: float, usual: float, count: int = 5) -> Known:
    """Evidence with what is usual for a node, of this deviation, and what membership adds to it."""
    generator = torch.Generator().manual_seed(0)
    own = usual * torch.randn(500, 2, generator=generator, dtype=torch.float64)
    known = []
    for _ in range(count):
        inside = torch.rand(500, generator=generator) < 0.5
        noise = torch.randn(500, 2, generator=generator, dtype=torch.float64)
        known.append((Evidence({}, own + noise + effect * inside[:, None]), inside))
    return known


@pytest.mark.parametrize("learned", [classifier_scores, likelihood_ratios])
def test_the_direction_is_learned_from_shadows_alone(learned) -> None:
    # Evidence that points the wrong way round: only shadows can tell, and the target's members are not asked.
    (target, members), *known = shadows(-2.0, 0.0)
    score = learned(target, [e for e, _ in known], [inside for _, inside in known])
    assert auroc(score, members) > 0.9
    alone = learned(target, [known[0][0]], [known[0][1]])
    assert learned is likelihood_ratios or auroc(alone, members) > 0.9


@pytest.mark.parametrize("learned", [classifier_scores, likelihood_ratios])
def test_what_is_usual_for_a_node_is_taken_off(learned) -> None:
    (target, members), *known = shadows(1.0, 5.0, count=9)
    score = learned(target, [e for e, _ in known], [inside for _, inside in known])
    assert auroc(target.columns.sum(1), members) < 0.6
    assert auroc(score, members) > 0.75


def test_shadows_that_tell_nothing_give_no_scores_that_do() -> None:
    (target, members), *known = shadows(0.0, 1.0)
    score = likelihood_ratios(target, [e for e, _ in known], [inside for _, inside in known])
    assert auroc(score, members) == pytest.approx(0.5, abs=0.08)


def test_normal_scores_are_quantiles_of_ranks() -> None:
    values = torch.tensor([3.0, 1.0, 1.0, 7.0, 100.0])
    expected = norm.ppf((rankdata(values.numpy()) - 0.5) / 5)
    np.testing.assert_allclose(normal_scores(values).numpy(), expected, atol=1e-9)


def test_shadows_are_other_draws_of_the_same_size() -> None:
    graph = citation_graph(nodes=200, classes=3, features=80)
    made: list[plgc.CondensedGraph] = []

    def condenser(part, seed: int) -> plgc.CondensedGraph:
        made.append(publish_members(part, seed))
        return made[-1]

    known = condense_shadows(graph, condenser, 90, 3, seed=0)
    assert [int(inside.sum()) for _, inside in known] == [90] * 3
    assert len({tuple(inside.tolist()) for _, inside in known}) == 3
    assert len({shadow.seed for shadow, _ in known} | {0}) == 4
    halves = [inside for _, inside in condense_shadows(graph, condenser, 100, 4, seed=0)]
    assert torch.equal(halves[0], ~halves[1])
    assert torch.equal(halves[2], ~halves[3])
    assert not torch.equal(halves[0], halves[2])
