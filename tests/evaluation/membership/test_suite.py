from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_curve
from torch_geometric.data import Data

import plgc
from plgc.downstream.tasks.metrics import auroc
from plgc.evaluation.membership.suite import (
    PENALTY,
    Evidence,
    attack,
    condense_shadows,
    distances,
    draw_members,
    fit_logistic,
    gather_evidence,
    infer_membership,
    publish_members,
    shadow_scores,
    true_positive_rate,
)
from plgc.graphs import citation_graph
from plgc.graphs.views.inductive import induced_subgraph
from plgc.runtime.errors import SettingError
from quick import quick

QUICK = quick(16, hidden=24, rounds=1, epochs=3)
ATTACKS = {"features", "propagated", "pseudo_labels", "embedded", "reconstruction_loss"}


@pytest.fixture(scope="module")
def graph() -> Data:
    return citation_graph(nodes=200, classes=3, features=80)


def condenser(graph: Data, seed: int) -> plgc.CondensedGraph:
    return plgc.condense(graph, nodes=6, seed=seed, settings=QUICK)


def half(graph: Data) -> torch.Tensor:
    assert graph.num_nodes is not None
    return draw_members(graph.num_nodes, graph.num_nodes // 2, torch.Generator().manual_seed(0))


def test_published_nodes_are_recognised(graph: Data) -> None:
    result = infer_membership(graph, publish_members, shadows=2)
    assert result["auc"] > 0.95
    assert result["attacks"]["features"]["auc"] > 0.95
    assert result["attacks"]["shadow_classifier"]["auc"] > 0.95
    assert result["tpr"] > 0.9


def test_a_file_from_other_nodes_tells_nothing(graph: Data) -> None:
    # Members by name only: the file was made from nodes drawn independently of them.
    unrelated = condenser(induced_subgraph(graph, draw_members(200, 100, torch.Generator().manual_seed(5))), 5)
    scores = gather_evidence(unrelated, graph).scores
    drawn = [draw_members(200, 100, torch.Generator().manual_seed(100 + seed)) for seed in range(50)]
    assert set(scores) == ATTACKS
    for score in scores.values():
        assert np.mean([auroc(score, members) for members in drawn]) == pytest.approx(0.5, abs=0.03)


def test_the_report_names_every_attack_and_the_strongest(graph: Data) -> None:
    result = infer_membership(graph, condenser, shadows=2)
    assert set(result["attacks"]) == {*ATTACKS, "shadow_classifier"}
    assert result["auc"] == max(one["auc"] for one in result["attacks"].values())
    assert result["auc"] == result["attacks"][result["strongest"]]["auc"]
    assert result["tpr"] == max(one["tpr"] for one in result["attacks"].values())
    assert infer_membership(graph, condenser, shadows=2) == result
    assert "shadow_classifier" not in infer_membership(graph, condenser, shadows=0)["attacks"]


def test_files_with_class_labels_are_attacked_by_their_features(graph: Data) -> None:
    members = half(graph)
    control = replace(publish_members(induced_subgraph(graph, members), 0), pseudo_labels=None)
    result = attack(control, graph, members)
    assert set(result["attacks"]) == {"features", "propagated"}
    assert result["auc"] > 0.95


def test_scores_are_the_distances_they_claim_to_be(graph: Data) -> None:
    members = half(graph)
    condensed = condenser(induced_subgraph(graph, members), 0)
    evidence = gather_evidence(condensed, graph)
    x = graph.x.to_dense().numpy()
    x = x / np.maximum(x.sum(1, keepdims=True), 1e-12)
    adjacency = np.eye(200)
    adjacency[graph.edge_index[0], graph.edge_index[1]] = 1
    scale = 1 / np.sqrt(adjacency.sum(1))
    smooth = scale[:, None] * adjacency * scale
    synthetic = condensed.features.numpy()

    def nearest(rows: np.ndarray) -> np.ndarray:
        return np.linalg.norm(rows[:, None] - synthetic[None], axis=2).min(1)

    np.testing.assert_allclose(-evidence.scores["features"].numpy(), nearest(x), atol=1e-5)
    np.testing.assert_allclose(-evidence.scores["propagated"].numpy(), nearest(smooth @ smooth @ x), atol=1e-5)
    assert evidence.columns.shape == (200, 4 * 5 + 5)
    assert torch.allclose(evidence.columns.mean(0), torch.zeros(25, dtype=torch.float64), atol=1e-6)
    assert bool((-evidence.scores["reconstruction_loss"] >= evidence.scores["pseudo_labels"].square() - 1e-9).all())


def test_distances_are_exact_where_they_are_zero() -> None:
    rows = torch.randn(30, 50, generator=torch.Generator().manual_seed(0))
    found = distances(rows, rows[:10])
    expected = np.linalg.norm(rows.double().numpy()[:, None] - rows[:10].double().numpy()[None], axis=2)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


def test_the_true_positive_rate_is_that_of_the_roc_curve() -> None:
    generator = torch.Generator().manual_seed(0)
    members = torch.rand(3000, generator=generator) < 0.5
    scores = torch.randn(3000, generator=generator) + 1.5 * members
    wrong, right, _ = roc_curve(members.numpy(), scores.numpy(), drop_intermediate=False)
    assert true_positive_rate(scores, members) == pytest.approx(right[wrong <= 0.01].max(), abs=2e-3)
    assert true_positive_rate(torch.zeros(3000), members) == 0.0
    assert true_positive_rate(members.double(), members) == 1.0


def test_logistic_regression_is_that_of_scikit_learn() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(400, 6, generator=generator, dtype=torch.float64)
    truth = rows[:, 0] - rows[:, 1] + torch.randn(400, generator=generator) > 0
    weight, bias = fit_logistic(rows, truth)
    # Ours: mean loss + c‖w‖²; theirs: C · summed loss + ‖w‖² / 2.
    reference = LogisticRegression(C=1 / (2 * PENALTY * 400), tol=1e-10, max_iter=1000).fit(rows, truth)
    np.testing.assert_allclose(weight.numpy(), reference.coef_[0], atol=2e-3)
    np.testing.assert_allclose(float(bias), reference.intercept_[0], atol=2e-3)


def test_a_shadow_classifier_learns_the_direction_from_shadows_alone() -> None:
    # Evidence that points the wrong way round: only shadows can tell, and the target's members are not asked.
    generator = torch.Generator().manual_seed(0)

    def drawn() -> tuple[Evidence, torch.Tensor]:
        inside = torch.rand(500, generator=generator) < 0.5
        column = torch.randn(500, 1, generator=generator, dtype=torch.float64) - 2.0 * inside[:, None]
        return Evidence({}, column), inside

    (target, members), *known = [drawn() for _ in range(4)]
    score = shadow_scores(target, [e for e, _ in known], [inside for _, inside in known])
    assert float(score[members].mean()) > float(score[~members].mean())
    alone = shadow_scores(target, [known[0][0]], [known[0][1]])
    assert float(alone[members].mean()) > float(alone[~members].mean())


def test_shadows_are_other_draws_of_the_same_size(graph: Data) -> None:
    known = condense_shadows(graph, condenser, 90, 3, seed=0)
    assert [int(inside.sum()) for _, inside in known] == [90] * 3
    assert len({tuple(inside.tolist()) for _, inside in known}) == 3
    assert len({shadow.seed for shadow, _ in known} | {0}) == 4


def test_members_have_to_be_a_mask_of_both_kinds(graph: Data) -> None:
    condensed = condenser(graph, 0)
    for bad in (torch.ones(200, dtype=torch.bool), torch.zeros(200, dtype=torch.bool), torch.arange(100)):
        with pytest.raises(SettingError, match="members are"):
            attack(condensed, graph, bad)
