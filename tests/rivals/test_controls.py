from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import plgc
from plgc.graphs.views.protocol import Protocol, draw_case
from plgc.rivals.controls import (
    CONTROL_WIDTH,
    LearnOptions,
    Reference,
    plain_parts,
    propagated,
    random_encoder,
    raw_features,
    ssl,
    train_stage_one,
)
from plgc.rivals.methods import METHODS, load
from plgc.runtime.errors import SettingError
from plgc.sparse.adjacency import propagate
from plgc.sparse.inputs import prepare
from quick_rivals import FEATURES, KEPT, NODES, OURS


def embedding(name: str, graph: Data, **options: Any) -> Tensor:
    """What a control makes of the graph."""
    reference = METHODS[name].reference
    assert reference is not None
    model = load(reference)(draw_case(graph, Protocol(), 0), LearnOptions(**options))
    rows = model.embed(model.prepare(graph))
    assert rows.shape == (NODES, sum(model.parts.values()))
    assert not rows.requires_grad
    return rows


def other_labels(graph: Data) -> Data:
    """The same features and edges; other labels, other masks."""
    other = graph.clone()
    generator = torch.Generator().manual_seed(5)
    other.y = torch.randint(-1, 9, (NODES,), generator=generator)
    other.train_mask, other.val_mask, other.test_mask = (torch.arange(NODES) % 3 == part for part in range(3))
    return other


def test_propagated_features_are_what_the_formula_says(graph: Data) -> None:
    """Â = D^-1/2 (A + I) D^-1/2 by hand, on rows that sum to one."""
    adjacency = np.eye(NODES)
    adjacency[tuple(graph["edge_index"].numpy())] = 1
    degree = adjacency.sum(1)
    normal = adjacency / np.sqrt(np.outer(degree, degree))
    x = graph["x"].to_dense().numpy()
    expected = normal @ normal @ (x / x.sum(1, keepdims=True))
    np.testing.assert_allclose(embedding("propagated_features", graph).numpy(), expected, atol=1e-6)


def test_raw_features_and_plain_parts_are_the_scaled_features(graph: Data) -> None:
    x = graph["x"].to_dense().numpy()
    x = x / x.sum(1, keepdims=True)
    np.testing.assert_allclose(embedding("raw_features", graph).numpy(), x, atol=1e-6)
    plain, once, twice = embedding("plain_parts", graph).split(FEATURES, dim=1)
    np.testing.assert_allclose(plain.numpy(), x, atol=1e-6)
    torch.testing.assert_close(once, propagate(prepare(graph, "l1").adjacency, plain))
    assert torch.equal(twice, embedding("propagated_features", graph))
    case = draw_case(graph, Protocol(), 0)
    assert plain_parts(case, LearnOptions()).parts == dict.fromkeys(("x", "propagated_1", "propagated_2"), FEATURES)
    assert not raw_features(case, LearnOptions()).uses_edges
    assert all(make(case, LearnOptions()).uses_edges for make in (plain_parts, propagated, random_encoder))


@pytest.mark.parametrize("kind", ["gcn", "sage", "mlp"])
def test_the_random_encoder_is_its_seed(graph: Data, kind: str) -> None:
    before = torch.get_rng_state()
    first = embedding("random_encoder", graph, kind=kind, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert first.shape == (NODES, CONTROL_WIDTH)
    assert torch.equal(embedding("random_encoder", other_labels(graph), kind=kind, seed=1), first)
    assert not torch.allclose(embedding("random_encoder", graph, kind=kind, seed=2), first)


def test_the_scaling_is_that_of_the_features(graph: Data) -> None:
    signed = graph.clone()
    signed.x = graph["x"].to_dense()
    signed.x[0] = -1.0
    for make in (propagated, random_encoder, raw_features, plain_parts):
        assert make(draw_case(graph, Protocol(), 0), LearnOptions()).scaling == "l1"
        assert make(draw_case(signed, Protocol(), 0), LearnOptions()).scaling == "none"
    raw, scaled = (embedding("propagated_features", one) for one in (signed, graph))
    assert float(raw.abs().sum()) > 3 * float(scaled.abs().sum())


def test_a_control_is_a_function_of_the_prepared_graph(graph: Data) -> None:
    """As easy to add as this."""
    control = Reference(lambda inputs: inputs.x.to_dense(), FEATURES, (FEATURES,), "none")  # pyright: ignore
    assert torch.equal(control.embed(control.prepare(graph)), graph["x"].to_dense())


def test_ssl_is_the_stage_one_of_a_condensation(graph: Data, made: dict[str, plgc.CondensedGraph]) -> None:
    """Its prototypes are the pseudo-labels of the condensed graph. It reads no labels, no masks and no global state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(77)
        before = torch.get_rng_state()
        stage, scaling = train_stage_one(other_labels(graph), KEPT, OURS)
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(stage.prototypes.detach(), made["plgc"].pseudo_labels)  # pyright: ignore
    assert (stage.blocks, scaling) == (made["plgc"].blocks, made["plgc"].scaling)


def test_ssl_has_the_skip_path_of_a_backbone(graph: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plgc.rivals.controls.preset_named", lambda name: OURS)
    case = draw_case(graph, Protocol(), 0)
    both, paper = (ssl(case, LearnOptions(nodes=KEPT, preset=preset)) for preset in ("default", "paper"))
    rows, learned = both.embed(both.prepare(graph)), sum(paper.parts.values())
    assert both.parts == {**paper.parts, "x": FEATURES, "propagated_1": FEATURES, "propagated_2": FEATURES}
    assert torch.equal(rows[:, :learned], paper.embed(prepare(graph, "l1")))
    assert torch.equal(rows[:, learned:], embedding("plain_parts", graph))


def test_ssl_refuses_impossible_sizes(graph: Data) -> None:
    for nodes in (1, NODES + 1):
        with pytest.raises(SettingError, match=f"nodes is {nodes}"):
            train_stage_one(graph, nodes, OURS)
    with pytest.raises(SettingError, match="best"):
        ssl(draw_case(graph, Protocol(), 0), LearnOptions(nodes=KEPT, preset="best"))
