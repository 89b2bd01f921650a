from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch_geometric.data import Data

import plgc
from plgc.evaluation.over_seeds import evaluate, summarize
from plgc.evaluation.scoring import train_whole_graph
from plgc.graphs import unlabelled
from plgc.graphs.labels import choose_labels
from plgc.method.settings import Branch, CondenseSettings, PseudoLabelSettings, Rung
from plgc.runtime.errors import ArtifactError, LabelError, SettingError

QUICK = CondenseSettings(
    ladder=(Rung((Branch(hidden=64, width=64),)),), pseudo_labels=PseudoLabelSettings(max_rounds=3, round_epochs=10)
)


@pytest.fixture(scope="module")
def backbone(demo_graph: Data) -> plgc.Backbone:
    return plgc.reconstruct(plgc.condense(demo_graph, nodes=24, settings=QUICK))


def test_a_model_learns_and_survives_the_disk(backbone: plgc.Backbone, demo_graph: Data, tmp_path: Path) -> None:
    model = plgc.finetune(backbone, demo_graph)
    scores = model.evaluate(demo_graph)
    assert scores["accuracy"] > 60.0  # four classes: chance is 25
    loaded = plgc.load_model(model.save(tmp_path / "model.safetensors"))
    assert torch.equal(loaded.predict_proba(demo_graph), model.predict_proba(demo_graph))
    assert loaded.evaluate(demo_graph) == scores
    probability = loaded.predict_proba(demo_graph)
    assert torch.allclose(probability.sum(1), torch.ones(600), atol=1e-5)
    assert torch.equal(loaded.predict(demo_graph), probability.argmax(1))


def test_test_labels_do_not_reach_the_head(backbone: plgc.Backbone, demo_graph: Data) -> None:
    blind = demo_graph.clone()
    blind.y = torch.where(demo_graph.test_mask, -1, demo_graph.y)
    seen = plgc.finetune(backbone, demo_graph).predict_proba(demo_graph)
    assert torch.equal(plgc.finetune(backbone, blind).predict_proba(demo_graph), seen)


@pytest.mark.parametrize(("shots", "labels"), [(2, None), (None, 10)])
def test_few_labels_use_no_validation_labels(
    backbone: plgc.Backbone, demo_graph: Data, shots: int | None, labels: int | None
) -> None:
    blind = demo_graph.clone()
    blind.y = torch.where(demo_graph.train_mask, demo_graph.y, 0)
    seen = plgc.finetune(backbone, demo_graph, shots=shots, labels=labels, seed=4).predict_proba(demo_graph)
    again = plgc.finetune(backbone, blind, shots=shots, labels=labels, seed=4).predict_proba(demo_graph)
    assert torch.equal(seen, again)


def test_label_choice(demo_graph: Data) -> None:
    everything, validate = choose_labels(demo_graph, None, None, 0)
    assert validate
    assert torch.equal(everything, demo_graph.train_mask.nonzero().flatten())
    few, validate = choose_labels(demo_graph, 3, None, 0)
    assert not validate
    assert torch.bincount(demo_graph.y[few]).tolist() == [3, 3, 3, 3]
    some, _ = choose_labels(demo_graph, None, 10, 0)
    assert len(some) == 10
    assert int(torch.bincount(demo_graph.y[some]).min()) >= 1


def test_what_cannot_be_trained_is_refused(backbone: plgc.Backbone, demo_graph: Data) -> None:
    with pytest.raises(LabelError, match="no labels"):
        plgc.finetune(backbone, unlabelled(demo_graph))
    with pytest.raises(SettingError, match="not both"):
        plgc.finetune(backbone, demo_graph, shots=1, labels=10)
    with pytest.raises(SettingError, match="unknown task 'graph'"):
        plgc.finetune(backbone, demo_graph, task="graph")
    with pytest.raises(SettingError, match="on is 'all'"):
        plgc.finetune(backbone, demo_graph).evaluate(demo_graph, on="all")


def test_a_file_that_is_no_model_is_refused(backbone: plgc.Backbone, demo_graph: Data, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no file"):
        plgc.load_model(tmp_path / "missing.safetensors")
    condensed = plgc.condense(demo_graph, nodes=8, settings=QUICK).save(tmp_path / "condensed.safetensors")
    with pytest.raises(ArtifactError, match="plgc-condensed-graph"):
        plgc.load_model(condensed)
    path = plgc.finetune(backbone, demo_graph).save(tmp_path / "model.safetensors")
    with pytest.raises(ArtifactError, match="plgc-node-model"):
        plgc.CondensedGraph.load(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ArtifactError, match="damaged"):
        plgc.load_model(path)
    save_file({"head.weight": torch.zeros(2)}, path)
    with pytest.raises(ArtifactError, match="not one of plgc's"):
        plgc.load_model(path)


def test_evaluation_reports_seeds_and_controls(demo_graph: Data) -> None:
    condensed = plgc.condense(demo_graph, nodes=24, settings=QUICK)
    result = evaluate([condensed], demo_graph, seeds=3, shots=3)
    values = result["accuracy"]["values"]
    assert len(values) == 3
    assert result["accuracy"]["mean"] == pytest.approx(sum(values) / 3)
    assert set(result["controls"]) == {"random_encoder", "propagated_features"}
    for control in result["controls"].values():
        assert len(control["values"]) == 3
        assert control["mean"] == control["accuracy"]["mean"]
    assert result["nodes"] == 24
    assert result["bytes"] == len(condensed.to_bytes())
    assert evaluate([condensed], demo_graph, seeds=3, shots=3)["accuracy"] == result["accuracy"]


def test_evaluation_equals_the_steps_done_by_hand(demo_graph: Data) -> None:
    condensed = plgc.condense(demo_graph, nodes=24, settings=QUICK)
    result = evaluate([condensed], demo_graph, seeds=2, on="val")
    for seed in range(2):
        model = plgc.finetune(plgc.reconstruct(condensed, seed=seed), demo_graph, seed=seed)
        assert model.evaluate(demo_graph, on="val")["accuracy"] == result["accuracy"]["values"][seed]


def test_summary_is_mean_and_sample_deviation() -> None:
    summary = summarize([{"accuracy": 1.0}, {"accuracy": 2.0}, {"accuracy": 6.0}])["accuracy"]
    assert summary == {"mean": 3.0, "std": pytest.approx(7.0**0.5), "values": [1.0, 2.0, 6.0]}


def test_two_classes_have_an_auroc(demo_graph: Data) -> None:
    binary = demo_graph.clone()
    binary.y = (demo_graph.y >= 2).long()
    condensed = plgc.condense(binary, nodes=16, settings=QUICK)
    result = evaluate([condensed], binary)
    assert 0.5 < result["auroc"]["mean"] <= 1.0


def test_whole_graph_training_learns(demo_graph: Data) -> None:
    scores = train_whole_graph(demo_graph)
    assert scores["accuracy"] > 60.0
    assert train_whole_graph(demo_graph)["accuracy"] == train_whole_graph(demo_graph)["accuracy"]
