from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch_geometric.data import Data

import plgc
from plgc.artifact.storage import of_float8, to_float8
from plgc.downstream.tasks.classifier import Classifier, ClassifierSettings
from plgc.graphs.views.protocol import Case, Protocol, draw_case
from plgc.rivals import controls
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
    train_whole,
    train_whole_mlp,
    validation_score,
)
from plgc.rivals.methods import METHODS, load
from plgc.runtime.errors import SettingError
from plgc.sparse.adjacency import propagate
from plgc.sparse.inputs import prepare
from plgc.sparse.prepared import PreparedGraphs
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
    codes = to_float8(stage.prototypes.detach().numpy())  # a file has few digits
    assert torch.equal(torch.from_numpy(of_float8(*codes)), made["plgc"].pseudo_labels)  # pyright: ignore
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


# Trained end to end


def scalings_tried(case: Case, monkeypatch: pytest.MonkeyPatch, **options: Any) -> dict[str, float | None]:
    """Every scaling that is trained with, and its score on validation nodes."""
    found: dict[str, float | None] = {}
    real = controls.train_classifier

    def train_classifier(*arguments: Any, scaling: str, score: Any, **settings: Any) -> Classifier:
        model = real(*arguments, scaling=scaling, score=score, settings=ClassifierSettings(epochs=15), **settings)
        found[scaling] = score and score(model)
        return model

    with monkeypatch.context() as patch:
        patch.setattr(controls, "train_classifier", train_classifier)
        chosen = train_whole(case, LearnOptions(**options))
    scored = {scaling: value for scaling, value in found.items() if value is not None}
    assert chosen.scaling == (max(scored, key=scored.__getitem__) if scored else next(iter(found)))
    return found


def test_validation_nodes_choose_the_scaling_of_rows(graph: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few labels there are none that could choose: rows are scaled as for everybody else."""
    tried = scalings_tried(draw_case(graph, Protocol(), 0), monkeypatch)
    assert list(tried) == ["l1", "none"]
    assert None not in tried.values()
    assert scalings_tried(draw_case(graph, Protocol(shots=3), 0), monkeypatch) == {"l1": None}


def test_validation_nodes_may_choose_by_auroc(graph: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    two = graph.clone()
    two.y = (graph["y"] == 1).long()
    case = draw_case(two, Protocol(), 0)
    model = train_whole(case, LearnOptions(metric="auroc"))
    value = validation_score(case, model.scaling, "cpu", PreparedGraphs(), "auroc")
    assert value is not None
    val = two["val_mask"]
    expected = roc_auc_score(two["y"][val], model.probabilities(model.prepare(two))[val, 1])
    assert value(model) == pytest.approx(expected)
    assert scalings_tried(case, monkeypatch, metric="auroc") != scalings_tried(case, monkeypatch)


def test_the_mlp_sees_no_edges(graph: Data) -> None:
    model = train_whole_mlp(draw_case(graph, Protocol(shots=3), 0), LearnOptions())
    assert model.gnn.kind == "mlp"
    rewired = graph.clone()
    rewired.edge_index = torch.tensor([[0, 1], [1, 0]])
    other = train_whole_mlp(draw_case(rewired, Protocol(shots=3), 0), LearnOptions())
    outputs = [one.probabilities(one.prepare(seen)) for one, seen in ((model, graph), (other, rewired))]
    assert torch.equal(*outputs)
    assert "whole_mlp" in METHODS
