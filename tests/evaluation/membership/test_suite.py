from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.downstream.tasks.metrics import auroc
from plgc.evaluation.membership import attack, infer_membership, publish_members, publish_noise
from plgc.evaluation.membership.candidates import candidates_of
from plgc.evaluation.membership.shadows import Evidence, draw_members
from plgc.evaluation.membership.suite import gather_evidence
from plgc.graphs import citation_graph
from plgc.graphs.views.inductive import induced_subgraph
from plgc.runtime.errors import ArtifactError, SettingError
from quick import quick

QUICK = quick(16, hidden=24, rounds=1, epochs=3)
BY_FEATURES = {"features", "propagated", "unique_values"} | {
    f"inversion{kind}{score}" for kind in ("", "_propagated", "_both") for score in ("", "_mass")
}
BY_LABELS = {"assignment_fit", "tracing", "pseudo_labels", "embedded", "reconstruction_loss"} | {
    f"inversion_pseudo_labels{score}" for score in ("", "_mass")
}
LEARNED = {"shadow_classifier", "likelihood_ratio"}


@pytest.fixture(scope="module")
def graph() -> Data:
    return citation_graph(nodes=200, classes=3, features=80)


def condenser(graph: Data, seed: int) -> plgc.CondensedGraph:
    return plgc.condense(graph, nodes=6, seed=seed, settings=QUICK)


def evidence_of(condensed: plgc.CondensedGraph, graph: Data) -> Evidence:
    return gather_evidence(condensed, candidates_of(condensed, graph).published)


def half(graph: Data) -> torch.Tensor:
    assert graph.num_nodes is not None
    return draw_members(graph.num_nodes, graph.num_nodes // 2, torch.Generator().manual_seed(0))


def test_members_of_a_file_of_real_nodes_are_found_with_certainty(graph: Data) -> None:
    result = infer_membership(graph, publish_members, shadows=2)
    assert result["auc"] == result["tpr"] == 1.0
    for name in ("inversion", "features", "shadow_classifier"):
        assert result["attacks"][name]["auc"] > 0.95
    assert result["rows"]["exact"] == 100


def test_nobody_is_found_in_a_file_of_noise(graph: Data) -> None:
    noise = [
        infer_membership(graph, lambda part, seed: publish_noise(part, seed, 6), seed=s, shadows=2) for s in (0, 1)
    ]
    for name in BY_FEATURES | BY_LABELS | LEARNED:
        aucs = [result["attacks"][name]["auc"] for result in noise]
        assert np.mean(aucs) == pytest.approx(0.5, abs=0.1), name
    assert all(result["rows"]["exact"] == 0 for result in noise)


def test_a_file_from_other_nodes_tells_nothing(graph: Data) -> None:
    # Members by name only: the file was made from nodes drawn independently of them.
    unrelated = condenser(induced_subgraph(graph, draw_members(200, 100, torch.Generator().manual_seed(5))), 5)
    scores = evidence_of(unrelated, graph).scores
    drawn = [draw_members(200, 100, torch.Generator().manual_seed(100 + seed)) for seed in range(50)]
    assert set(scores) == BY_FEATURES | BY_LABELS
    for score in scores.values():
        assert np.mean([auroc(score, members) for members in drawn]) == pytest.approx(0.5, abs=0.03)


def test_the_report_names_every_attack_and_the_strongest(graph: Data) -> None:
    result = infer_membership(graph, condenser, shadows=2)
    assert set(result["attacks"]) == BY_FEATURES | BY_LABELS | LEARNED
    assert result["auc"] == max(one["auc"] for one in result["attacks"].values())
    assert result["auc"] == result["attacks"][result["strongest"]]["auc"]
    assert result["tpr"] == max(one["tpr"] for one in result["attacks"].values())
    assert infer_membership(graph, condenser, shadows=2) == result
    assert not LEARNED & set(infer_membership(graph, condenser, shadows=0)["attacks"])


def test_files_with_class_labels_are_attacked_by_their_features(graph: Data) -> None:
    members = half(graph)
    control = replace(publish_members(induced_subgraph(graph, members), 0), pseudo_labels=None)
    result = attack(control, graph, members)
    assert set(result["attacks"]) == BY_FEATURES
    assert result["auc"] > 0.95


def test_scores_are_the_distances_they_claim_to_be(graph: Data) -> None:
    members = half(graph)
    condensed = condenser(induced_subgraph(graph, members), 0)
    evidence = evidence_of(condensed, graph)
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
    assert evidence.columns.shape == (200, 4 * 5 + len(evidence.scores))
    assert torch.allclose(evidence.columns.mean(0), torch.zeros(1, dtype=torch.float64), atol=1e-6)
    assert bool((-evidence.scores["reconstruction_loss"] >= evidence.scores["pseudo_labels"].square() - 1e-9).all())


def test_members_have_to_be_a_mask_of_both_kinds(graph: Data) -> None:
    condensed = condenser(graph, 0)
    for bad in (torch.ones(200, dtype=torch.bool), torch.zeros(200, dtype=torch.bool), torch.arange(100)):
        with pytest.raises(SettingError, match="members are"):
            attack(condensed, graph, bad)


def test_values_out_of_range_are_refused(graph: Data) -> None:
    condensed = replace(publish_noise(graph, 0, 6), pseudo_labels=None)
    huge = replace(condensed, features=condensed.features * 1e38)
    with pytest.raises(ArtifactError, match="out of range"):
        attack(huge, graph, half(graph))
