"""Distances, unique values, hidden words and recovered rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.evaluation.membership.attributes import infer_words
from plgc.evaluation.membership.candidates import candidates_of
from plgc.evaluation.membership.controls import publish_members, publish_noise
from plgc.evaluation.membership.distance import distances
from plgc.evaluation.membership.reconstruction import best_overlap, recover_rows
from plgc.evaluation.membership.shadows import draw_members
from plgc.evaluation.membership.unique import coverage_scores, words_of_one
from plgc.graphs import citation_graph
from plgc.graphs.views.inductive import induced_subgraph
from plgc.sparse.inputs import prepare
from quick import quick

QUICK = quick(16, hidden=24, rounds=1, epochs=3)


@pytest.fixture(scope="module")
def graph() -> Data:
    return citation_graph(nodes=200, classes=3, features=300)


@pytest.fixture(scope="module")
def members() -> torch.Tensor:
    return draw_members(200, 100, torch.Generator().manual_seed(0))


def test_distances_are_exact_where_they_are_zero() -> None:
    rows = torch.randn(30, 50, generator=torch.Generator().manual_seed(0))
    found = distances(rows, rows[:10])
    expected = np.linalg.norm(rows.double().numpy()[:, None] - rows[:10].double().numpy()[None], axis=2)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


def test_coverage_is_the_share_of_rare_words() -> None:
    x = torch.tensor([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    features = torch.tensor([[0.5, 0.0, 0.5, 0.0], [0.1, 0.2, 0.0, 0.0]])
    common, rare, shared = np.log(4 / 3), np.log(4), np.log(2)
    expected = [1.0, 1.0, (common + shared) / (common + shared + rare), 0.0]
    np.testing.assert_allclose(coverage_scores(features, x).numpy(), expected, atol=1e-6)
    assert words_of_one(features, x) == 1  # the second: the fourth is not in the file
    assert words_of_one(features, torch.ones(4, 4)) == 0


def test_words_of_one_are_the_same_of_sparse_rows(graph: Data) -> None:
    inputs = prepare(graph, "l1")
    dense = graph.x.to_dense()
    features = (torch.arange(300) % 2).float()[None]
    assert not isinstance(inputs.x, torch.Tensor)
    assert words_of_one(features, inputs.x) == int((((dense != 0).sum(0) == 1) & (features[0] != 0)).sum())


def test_overlap_is_that_of_sets() -> None:
    generator = torch.Generator().manual_seed(0)
    rank = torch.stack([torch.randperm(12, generator=generator) + 1 for _ in range(3)])
    words = torch.rand(20, 12, generator=generator) < 0.4
    words[0] = False
    best = []
    for own in words:
        sets = [set((row <= t).nonzero().flatten().tolist()) for row in rank for t in range(1, 13)]
        mine = set(own.nonzero().flatten().tolist())
        best.append(max(len(mine & other) / len(mine | other) for other in sets))
    np.testing.assert_allclose(best_overlap(rank, words).numpy(), best)


def test_rows_of_real_nodes_are_recovered_and_those_of_noise_are_not(graph: Data, members: torch.Tensor) -> None:
    part = induced_subgraph(graph, members)
    for file, recovered in ((publish_members(part, 0), 1.0), (publish_noise(part, 0), 0.0)):
        candidates = candidates_of(file, graph)
        found = recover_rows(candidates.words(file.features), candidates.own.x, members)
        assert found["recovered"] == recovered
        assert found["exact"] == 100 * recovered
        assert found["recovered_others"] < 0.1
        assert found["overlap"] >= found["overlap_others"] - 0.05


def test_words_of_members_are_read_off_a_default_file(graph: Data, members: torch.Tensor) -> None:
    condensed = plgc.condense(induced_subgraph(graph, members), nodes=8, settings=QUICK)
    found = infer_words(condensed.features, candidates_of(condensed, graph), members)
    assert found["auc"] > 0.8
    assert found["auc"] > found["auc_others"] + 0.15
    assert found["found"] > 0.2
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(300, 200, generator=generator) / 200**0.5
    hidden = replace(condensed, features=condensed.features @ matrix)
    through = infer_words(hidden.features, candidates_of(hidden, graph, view=lambda rows: rows @ matrix), members)
    assert 0.6 < through["auc"] < found["auc"]


def test_no_more_words_of_members_than_of_others_are_read_off_noise(graph: Data, members: torch.Tensor) -> None:
    found = []
    for seed in range(4):
        file = publish_noise(graph, seed, nodes=8)
        found.append(infer_words(file.features, candidates_of(file, graph), members, seed=seed))
    # The better of two guesses is taken, so that the mean is a little above 0.
    assert np.mean([one["auc"] - one["auc_others"] for one in found]) == pytest.approx(0.0, abs=0.08)
    assert np.mean([one["found"] for one in found]) < 0.05


def test_a_graph_without_words_to_hide_has_values_of_guessing(graph: Data, members: torch.Tensor) -> None:
    x = torch.ones(200, 5)
    x[:20, 0] = 0.5  # one column differs, and no value is above its median
    file = replace(publish_noise(graph, 0, nodes=8), features=torch.ones(8, 5), scaling="none")
    found = infer_words(file.features, candidates_of(file, Data(x=x, edge_index=graph.edge_index)), members)
    assert found == {"auc": 0.5, "found": 0.0, "auc_others": 0.5, "found_others": 0.0}
