from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import nnls
from torch import Tensor
from torch_geometric.data import Data

import plgc
from plgc.downstream.tasks.metrics import auroc
from plgc.evaluation.membership.candidates import Combinations, candidates_of
from plgc.evaluation.membership.inversion import inversion_scores, invert
from plgc.evaluation.membership.measures import true_positive_rate
from plgc.evaluation.membership.shadows import draw_members
from plgc.graphs import citation_graph
from plgc.graphs.views.inductive import induced_subgraph
from plgc.runtime.errors import ArtifactError
from plgc.sparse.inputs import prepare
from quick import quick

QUICK = quick(16, hidden=24, rounds=1, epochs=3)


@pytest.fixture(scope="module")
def graph() -> Data:
    return citation_graph(nodes=200, classes=3, features=300)


@pytest.fixture(scope="module")
def members() -> Tensor:
    return draw_members(200, 100, torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def condensed(graph: Data, members: Tensor) -> plgc.CondensedGraph:
    return plgc.condense(induced_subgraph(graph, members), nodes=8, settings=QUICK)


def dense(candidates: Combinations) -> np.ndarray:
    """C, row by row of an identity matrix."""
    return candidates.combine(torch.eye(candidates.num_rows)).double().numpy()


@pytest.mark.parametrize("steps", [(0,), (2,), (0, 2)])
def test_candidates_are_the_rows_they_claim_to_be(graph: Data, steps: tuple[int, ...]) -> None:
    candidates = Combinations(prepare(graph, "l1"), steps)
    x = graph.x.to_dense().double().numpy()
    x = x / x.sum(1, keepdims=True)
    adjacency = np.eye(200)
    adjacency[graph.edge_index[0], graph.edge_index[1]] = 1
    scale = 1 / np.sqrt(adjacency.sum(1))
    smooth = scale[:, None] * adjacency * scale
    expected = np.concatenate([np.linalg.matrix_power(smooth, n) @ x for n in steps])
    np.testing.assert_allclose(dense(candidates), expected, atol=1e-6)
    rows = torch.rand(3, 300, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(candidates.correlate(rows).numpy(), expected @ rows.numpy().T, atol=1e-5)


def test_the_inversion_is_non_negative_least_squares() -> None:
    candidates = Combinations(prepare(citation_graph(nodes=40, classes=2, features=300), "l1"))
    generator = torch.Generator().manual_seed(0)
    features = torch.rand(4, 300, generator=generator) / 150  # no combination of candidates: the bounds are active
    found = invert(features, candidates, steps=5000, tolerance=1e-7)
    rows = dense(candidates)
    for weights, target in zip(found.weights.t().double().numpy(), features.double().numpy(), strict=True):
        expected, _ = nnls(rows.T, target)
        np.testing.assert_allclose(weights, expected, atol=2e-3)
    assert 0 < found.residual < 1


def test_it_finds_the_members_of_a_default_file(graph: Data, members: Tensor, condensed: plgc.CondensedGraph) -> None:
    candidates = Combinations(candidates_of(condensed, graph).published)
    scores = inversion_scores(invert(condensed.features, candidates), candidates, condensed.counts)
    for score in scores.values():
        assert auroc(score, members) > 0.95
    assert auroc(scores["mass"], members) > 0.98
    others = [draw_members(200, 100, torch.Generator().manual_seed(100 + seed)) for seed in range(50)]
    assert np.mean([auroc(scores["largest"], other) for other in others]) == pytest.approx(0.5, abs=0.03)


def test_it_finds_the_members_through_a_projection_that_it_knows(
    graph: Data, members: Tensor, condensed: plgc.CondensedGraph
) -> None:
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(300, 150, generator=generator) / 150**0.5
    projected = condensed.features @ matrix
    hidden = replace(condensed, features=projected)
    inputs = candidates_of(hidden, graph, view=lambda rows: rows @ matrix)
    candidates = Combinations(inputs.published)
    scores = inversion_scores(invert(projected, candidates), candidates, condensed.counts)
    assert auroc(scores["mass"], members) > 0.9
    with pytest.raises(ArtifactError, match="150 features, the candidates 300"):
        candidates_of(hidden, graph)


def test_nothing_is_found_in_noise(graph: Data) -> None:
    candidates = Combinations(prepare(graph, "l1"))
    noise = torch.randn(8, 300, generator=torch.Generator().manual_seed(0))
    scores = inversion_scores(invert(noise, candidates), candidates, torch.ones(8))
    drawn = [draw_members(200, 100, torch.Generator().manual_seed(seed)) for seed in range(50)]
    for score in scores.values():
        assert np.mean([auroc(score, members) for members in drawn]) == pytest.approx(0.5, abs=0.02)
        assert np.mean([true_positive_rate(score, members) for members in drawn]) < 0.05


def test_a_file_that_no_candidate_explains_has_no_weights(graph: Data) -> None:
    candidates = Combinations(prepare(graph, "l1"))
    found = invert(-torch.ones(2, 300), candidates)
    assert not bool(found.weights.any())
    assert found.residual == pytest.approx(1.0)
    assert found.converged
