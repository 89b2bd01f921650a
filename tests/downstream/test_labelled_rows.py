"""Outputs of labelled nodes are those of the whole graph, and so are the gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from plgc.downstream.tasks.labelled_rows import labelled_rows, validation_rows
from plgc.graphs import citation_graph, load_graph
from plgc.method.encoder import GNN
from plgc.sparse.features import Features, SparseFeatures, StoredFeatures
from plgc.sparse.inputs import Inputs, prepare

FEATURES = 60
LABELLED = torch.tensor([30, 4, 211])  # in any order


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    return prepare(load_graph(citation_graph(nodes=600, classes=3, features=FEATURES)), "l1")


def forms(x: Features) -> dict[str, Features]:
    assert isinstance(x, SparseFeatures)
    return {"sparse": x, "dense": x.to_dense(), "stored": StoredFeatures(x.to_dense(), None, None)}


def with_gradients(gnn: GNN, output: Tensor) -> list[Tensor]:
    gnn.zero_grad()
    (output * torch.arange(output.numel()).reshape(output.shape)).sum().backward()
    return [output.detach(), *(p.grad.clone() for p in gnn.parameters() if p.grad is not None)]


@pytest.mark.parametrize("kind", ["gcn", "mlp", "sage"])
@pytest.mark.parametrize("hidden", [16, 80])  # fewer than features, and more: Â is multiplied first or last
@pytest.mark.parametrize("form", ["sparse", "dense", "stored"])
def test_they_are_those_of_the_whole_graph(inputs: Inputs, kind: str, hidden: int, form: str) -> None:
    gnn = GNN(kind, FEATURES, hidden, 3, generator=torch.Generator().manual_seed(0))
    x = forms(inputs.x)[form]
    few = with_gradients(gnn, labelled_rows(gnn, x, inputs.adjacency, LABELLED)())
    whole = with_gradients(gnn, gnn(x, inputs.adjacency)[LABELLED])
    assert len(few) == len(whole) == 1 + len(list(gnn.parameters()))
    for ours, theirs in zip(few, whole, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ["gcn", "mlp", "sage"])
@pytest.mark.parametrize("form", ["sparse", "dense", "stored"])
@pytest.mark.parametrize("dense", [0, 10**6])  # whether sparse features are averaged once
def test_validation_follows_the_weights(
    inputs: Inputs, kind: str, form: str, dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plgc.downstream.tasks.labelled_rows.DENSE", dense)
    x = forms(inputs.x)[form]
    outputs = validation_rows(x, inputs.adjacency, LABELLED)
    for seed in range(2):
        gnn = GNN(kind, FEATURES, 16, 3, generator=torch.Generator().manual_seed(seed))
        for _ in range(2):
            found = outputs(gnn)
            assert not found.requires_grad
            torch.testing.assert_close(found, gnn(x, inputs.adjacency)[LABELLED].detach(), atol=1e-5, rtol=1e-4)
            with torch.no_grad():
                for weight in gnn.parameters():
                    weight += 0.5


def test_little_is_computed(inputs: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    """No dropout mask, and so no hidden layer, has more rows than the neighbours."""
    drawn: list[int] = []
    real = torch.nn.functional.dropout

    def dropout(hidden: Tensor, *settings: object) -> Tensor:
        drawn.append(len(hidden))
        return real(hidden, *settings)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr("torch.nn.functional.dropout", dropout)
    adjacency = inputs.adjacency
    near = {int(node) for row in LABELLED for node in adjacency.col[adjacency.crow[row] : adjacency.crow[row + 1]]}
    for kind, rows in (("gcn", len(near)), ("mlp", len(LABELLED)), ("gin", inputs.num_nodes)):
        gnn = GNN(kind, FEATURES, 16, 3, dropout=0.5, generator=torch.Generator().manual_seed(0))
        labelled_rows(gnn, inputs.x, adjacency, LABELLED)()
        assert drawn.pop() == rows, kind


def test_many_labels_take_the_whole_graph(inputs: Inputs) -> None:
    everything = torch.arange(inputs.num_nodes)
    for kind in ("gcn", "mlp"):
        gnn = GNN(kind, FEATURES, 16, 3, dropout=0.5, generator=torch.Generator().manual_seed(0))
        with torch.random.fork_rng():
            torch.manual_seed(1)
            expected = gnn(inputs.x, inputs.adjacency)
            torch.manual_seed(1)
            assert torch.equal(labelled_rows(gnn, inputs.x, inputs.adjacency, everything)(), expected)


def test_without_edges_a_node_is_its_own_neighbour(inputs: Inputs) -> None:
    gnn = GNN("gcn", FEATURES, 16, 3, generator=torch.Generator().manual_seed(0))
    few = labelled_rows(gnn, inputs.x, None, LABELLED)()
    torch.testing.assert_close(few, gnn(inputs.x, None)[LABELLED])
