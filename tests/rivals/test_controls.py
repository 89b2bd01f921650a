from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs import citation_graph, load_graph
from plgc.rivals.controls import CONTROL_WIDTH, PropagatedFeatures, RandomEncoder, StageOneEncoder, train_ssl
from plgc.rivals.methods import condense_with
from plgc.runtime.errors import SettingError

NODES, WIDTH, KEPT = 150, 40, 6


@pytest.fixture(scope="module")
def graph() -> Data:
    """Shared by all tests, so none may change it."""
    return load_graph(citation_graph(nodes=NODES, classes=3, features=WIDTH))


@pytest.fixture(scope="module")
def ssl(graph: Data) -> StageOneEncoder:
    return train_ssl(graph, nodes=KEPT, seed=2)


def other_labels(graph: Data) -> Data:
    """The same features and edges; other labels, other masks."""
    other = graph.clone()
    generator = torch.Generator().manual_seed(5)
    other.y = torch.randint(-1, 9, (NODES,), generator=generator)
    other.train_mask, other.val_mask, other.test_mask = (torch.arange(NODES) % 3 == part for part in range(3))
    return other


def embedding(model: PropagatedFeatures | RandomEncoder | StageOneEncoder, graph: Data) -> Tensor:
    return model.embed(model.prepare(graph))


def test_propagated_features_are_what_the_formula_says(graph: Data) -> None:
    """Â = D^-1/2 (A + I) D^-1/2 by hand, on rows that sum to one."""
    adjacency = np.eye(NODES)
    adjacency[tuple(graph["edge_index"].numpy())] = 1
    degree = adjacency.sum(1)
    normal = adjacency / np.sqrt(np.outer(degree, degree))
    x = graph["x"].to_dense().numpy()
    expected = normal @ normal @ (x / x.sum(1, keepdims=True))
    model = PropagatedFeatures(WIDTH, "l1")
    assert model.parts == (WIDTH,)
    np.testing.assert_allclose(embedding(model, graph).numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["gcn", "sage", "mlp"])
def test_the_random_encoder_is_its_seed(graph: Data, kind: str) -> None:
    before = torch.get_rng_state()
    first = embedding(RandomEncoder(WIDTH, "l1", kind, seed=1), graph)
    assert torch.equal(torch.get_rng_state(), before)
    assert first.shape == (NODES, CONTROL_WIDTH)
    assert RandomEncoder(WIDTH, "l1", kind).parts == (CONTROL_WIDTH,)
    assert not first.requires_grad
    assert torch.equal(embedding(RandomEncoder(WIDTH, "l1", kind, seed=1), other_labels(graph)), first)
    assert not torch.allclose(embedding(RandomEncoder(WIDTH, "l1", kind, seed=2), graph), first)


def test_the_scaling_is_applied(graph: Data) -> None:
    for make in (PropagatedFeatures, RandomEncoder):
        raw, scaled = (embedding(make(WIDTH, scaling), graph) for scaling in ("none", "l1"))
        assert float(raw.abs().sum()) > 3 * float(scaled.abs().sum())


def test_ssl_reads_no_labels_no_masks_and_no_global_random_state(graph: Data, ssl: StageOneEncoder) -> None:
    torch.manual_seed(77)
    before = torch.get_rng_state()
    other = train_ssl(other_labels(graph), nodes=KEPT, seed=2)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(embedding(other, graph), embedding(ssl, graph))


def test_ssl_is_the_stage_one_of_a_condensation(graph: Data, ssl: StageOneEncoder) -> None:
    """Its prototypes are the pseudo-labels that the condensed graph has."""
    condensed = condense_with("plgc", graph, nodes=KEPT, seed=2)
    assert torch.equal(ssl.stage.prototypes.detach(), condensed.pseudo_labels)
    assert ssl.stage.blocks == condensed.blocks
    assert ssl.scaling == condensed.scaling


def test_ssl_has_the_skip_path_of_a_backbone(graph: Data, ssl: StageOneEncoder) -> None:
    rows = embedding(ssl, graph)
    learned = sum(ssl.stage.blocks)
    assert ssl.parts == (learned, WIDTH)
    assert rows.shape == (NODES, learned + WIDTH)
    assert torch.equal(rows[:, learned:], embedding(PropagatedFeatures(WIDTH, ssl.scaling), graph))
    assert not rows.requires_grad
    paper = StageOneEncoder(WIDTH, ssl.scaling, ssl.stage, skip=False)
    assert paper.parts == (sum(paper.stage.blocks),)
    assert embedding(paper, graph).shape == (NODES, sum(paper.parts))


def test_ssl_refuses_impossible_sizes(graph: Data) -> None:
    for nodes in (1, NODES + 1):
        with pytest.raises(SettingError, match=f"nodes is {nodes}"):
            train_ssl(graph, nodes=nodes)
    with pytest.raises(SettingError, match="best"):
        train_ssl(graph, nodes=KEPT, preset="best")
