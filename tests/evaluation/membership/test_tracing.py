from __future__ import annotations

import numpy as np
import torch

import plgc
from plgc.downstream.tasks.metrics import auroc
from plgc.evaluation.membership.shadows import draw_members
from plgc.evaluation.membership.tracing import feature_variances, tracing_scores
from plgc.graphs import citation_graph
from plgc.method.contrasts import centred, cluster_spread
from plgc.sparse.features import sparse_features
from plgc.sparse.inputs import Inputs, prepare

NODES, CLUSTERS, WIDTH = 400, 12, 300


def made(noise: float) -> tuple[plgc.CondensedGraph, Inputs, torch.Tensor, torch.Tensor]:
    """Contrasts of members over all clusters with noise, with the members and an embedding that knows the clusters."""
    generator = torch.Generator().manual_seed(0)
    adjacency = prepare(citation_graph(nodes=NODES, classes=3, features=80), "l1").adjacency
    vectors = torch.nn.functional.normalize(torch.randn(CLUSTERS, 16, generator=generator))
    own = torch.randint(CLUSTERS, (NODES,), generator=generator)
    rows = torch.randn(NODES, WIDTH, generator=generator) + torch.randn(CLUSTERS, WIDTH, generator=generator)[own]
    members = draw_members(NODES, NODES // 2, generator)
    weights = torch.nn.functional.one_hot(own, CLUSTERS).float() * members[:, None]
    counts = weights.sum(0).long()
    axes = cluster_spread(vectors)[1].float()
    sums = centred(weights / counts, axes).t() @ rows
    sums += noise * torch.randn(sums.shape, generator=generator)
    file = plgc.CondensedGraph(
        features=axes @ sums,
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


def test_members_are_traced_less_the_more_noise_there_is() -> None:
    found = []
    for noise in (0.0, 0.5, 2.0, 1e4):
        file, inputs, embedding, members = made(noise)
        found.append(auroc(tracing_scores(file, inputs, embedding), members))
    assert found[0] > 0.95
    assert found[0] > found[1] > found[2]
    assert abs(found[3] - 0.5) < 0.06


def test_variances_are_those_of_numpy_for_sparse_features_too() -> None:
    _, inputs, _, _ = made(0.0)
    x = inputs.x
    assert isinstance(x, torch.Tensor)
    for form in (x, sparse_features(x.to_sparse_csr())):
        np.testing.assert_allclose(feature_variances(Inputs(form, inputs.adjacency)), x.numpy().var(0), rtol=1e-3)
