"""The plain module gives what the model itself predicts: for every kind of network, and for graphs of other sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.downstream.backbone import BackboneSettings
from plgc.downstream.portable import PortableModel
from plgc.graphs import citation_graph
from plgc.graphs.attributes import attribute
from plgc.method.encoder import KINDS
from quick import PLAIN, quick

OTHER = citation_graph(nodes=170, classes=3, features=100, seed=4)


@pytest.fixture(scope="module")
def graph() -> Data:
    return citation_graph(nodes=300, classes=3, features=100)


@pytest.fixture(scope="module")
def condensed(graph: Data) -> plgc.CondensedGraph:
    """Two encoders with edges, one without."""
    return plgc.condense(graph, nodes=12, settings=quick(16, 12, plain=PLAIN))


def node_model(graph: Data, condensed: plgc.CondensedGraph, kind: str = "gcn", **settings: int) -> plgc.NodeModel:
    own = BackboneSettings(kind=kind, **{"hidden": 32, **settings})
    return plgc.finetune(plgc.reconstruct(condensed, settings=own), graph, shots=5)


def with_weights(graph: Data) -> Data:
    """The graph with a weight for every undirected edge, some of them 0."""
    row, col = graph.edge_index.sort(dim=0).values  # pyright: ignore
    return Data(x=graph.x, edge_index=graph.edge_index, edge_weight=(row * 7 + col * 3) % 5 / 2, name="weighted")


def isolated(graph: Data) -> Data:
    """The graph and three nodes without edges, one of them without features."""
    x = torch.cat([graph.x.to_dense(), torch.eye(3, graph.num_features) * torch.tensor([[2.0], [1.0], [0.0]])])  # pyright: ignore
    return Data(x=x, edge_index=graph.edge_index, name="isolated")


def predicted(model: plgc.NodeModel, graph: Data) -> torch.Tensor:
    x = graph.x.to_dense() if graph.x.layout == torch.sparse_csr else graph.x  # pyright: ignore
    return PortableModel(model)(x, graph.edge_index, attribute(graph, "edge_weight"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(graph: Data, condensed: plgc.CondensedGraph, kind: str) -> None:
    model = node_model(graph, condensed, kind, layers=3)
    for other in (graph, OTHER, isolated(OTHER), with_weights(OTHER)):
        wanted = model.predict_proba(other)
        assert (predicted(model, other) - wanted).abs().max() < 1e-5
    assert wanted.std(0).min() > 0.01  # they differ between nodes


@pytest.mark.parametrize("scaling", ["l2", "none"])
@pytest.mark.parametrize("sigma", [0.0, 0.3])
def test_scalings_and_smoothing(graph: Data, condensed: plgc.CondensedGraph, scaling: str, sigma: float) -> None:
    model = node_model(graph, replace(condensed, scaling=scaling))
    model = replace(model, head=replace(model.head, sigma=sigma))
    assert (predicted(model, OTHER) - model.predict_proba(OTHER)).abs().max() < 1e-5


def test_without_the_input_beside(graph: Data, condensed: plgc.CondensedGraph) -> None:
    model = node_model(graph, condensed, skip=False)
    assert list(model.backbone.parts) == ["learned", "learned_plain"]
    assert (predicted(model, OTHER) - model.predict_proba(OTHER)).abs().max() < 1e-5


def test_the_model_stays_as_it_is(graph: Data, condensed: plgc.CondensedGraph) -> None:
    model = node_model(graph, condensed)
    portable, before = PortableModel(model), model.predict_proba(OTHER)
    for tensor in portable.state_dict().values():
        tensor.zero_()
    assert torch.equal(model.predict_proba(OTHER), before)
