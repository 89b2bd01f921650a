from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import plgc
from plgc.downstream.tasks.metrics import auroc
from plgc.evaluation.membership.assignment import RIDGE, TEMPERATURE, assignment_scores, conjugate_gradients
from plgc.evaluation.membership.candidates import Combinations
from plgc.evaluation.membership.inversion import inversion_scores, invert
from plgc.evaluation.membership.shadows import draw_members
from plgc.graphs import citation_graph
from plgc.sparse.inputs import Inputs, prepare

NODES, CLUSTERS, WIDTH = 400, 12, 60


def test_conjugate_gradients_solve_linear_systems() -> None:
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(20, 20, generator=generator, dtype=torch.float64)
    matrix, target = root @ root.t() + torch.eye(20), torch.randn(20, generator=generator, dtype=torch.float64)
    found = conjugate_gradients(lambda v: matrix @ v, target)
    np.testing.assert_allclose(found.numpy(), np.linalg.solve(matrix.numpy(), target.numpy()), atol=1e-5)
    assert not bool(conjugate_gradients(lambda v: v, torch.zeros(3)).any())


@pytest.fixture(scope="module")
def released() -> tuple[plgc.CondensedGraph, Inputs, Tensor, Tensor]:
    """Cluster means of members in few dimensions, with the members and an embedding that knows the clusters."""
    generator = torch.Generator().manual_seed(0)
    adjacency = prepare(citation_graph(nodes=NODES, classes=3, features=80), "l1").adjacency
    rows = torch.randn(NODES, WIDTH, generator=generator)
    vectors = torch.nn.functional.normalize(torch.randn(CLUSTERS, 16, generator=generator))
    own = torch.randint(CLUSTERS, (NODES,), generator=generator)
    members = draw_members(NODES, NODES // 2, generator)
    weights = torch.nn.functional.one_hot(own, CLUSTERS).float() * members[:, None]
    counts = weights.sum(0).long()
    features = (weights / counts).t() @ rows
    file = plgc.CondensedGraph(
        features=features,
        pseudo_labels=vectors,
        counts=counts,
        blocks=(16,),
        channels=("plain",),
        scaling="none",
        seed=0,
        threads=1,
        settings={},
        nodes_requested=CLUSTERS,
    )
    return file, Inputs(rows, adjacency), vectors[own], members


def test_members_are_found_where_a_linear_inversion_has_too_many_unknowns(
    released: tuple[plgc.CondensedGraph, Inputs, Tensor, Tensor],
) -> None:
    file, inputs, embedding, members = released
    rows = Combinations(inputs)
    inverted = inversion_scores(invert(file.features, rows), rows, file.counts)
    fitted = auroc(assignment_scores(file, inputs, embedding), members)
    assert fitted > 0.95
    assert fitted > max(auroc(score, members) for score in inverted.values()) + 0.05


def test_the_fit_is_ridge_regression(released: tuple[plgc.CondensedGraph, Inputs, Tensor, Tensor]) -> None:
    file, inputs, embedding, _ = released
    assert file.pseudo_labels is not None
    rows = inputs.x.double().numpy()
    assigned = torch.softmax(embedding @ file.pseudo_labels.t() / TEMPERATURE, 1).double().numpy()
    share = int(file.counts.sum()) / NODES
    reach = assigned / (share * assigned.sum(0))
    design = (reach[:, :, None] * rows[:, None, :]).reshape(NODES, -1).T  # one column per node
    gram = design.T @ design
    left = design.T @ file.features.double().numpy().ravel() - share * gram.sum(1)
    found = np.linalg.solve(gram + RIDGE * gram.diagonal().mean() * np.eye(NODES), left)
    expected = found * np.sqrt(gram.diagonal())
    np.testing.assert_allclose(assignment_scores(file, inputs, embedding).numpy(), expected, atol=1e-3)
