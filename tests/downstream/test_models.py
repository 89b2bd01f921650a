"""Models: fine-tuned, asked, saved and opened again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch_geometric.data import Data

import plgc
from plgc.downstream.names import Names
from plgc.downstream.tasks.metrics import auroc
from plgc.graphs import unlabelled
from plgc.graphs.labels import choose_labels
from plgc.graphs.views.edges import non_edges, undirected_edges
from plgc.runtime.container import checksum
from plgc.runtime.errors import ArtifactError, GraphError, LabelError, SettingError


@pytest.fixture(scope="module")
def node_model(backbone: plgc.Backbone, demo_graph: Data) -> plgc.NodeModel:
    return plgc.finetune(backbone, demo_graph)


@pytest.fixture(scope="module")
def link_model(backbone: plgc.Backbone, demo_graph: Data) -> plgc.LinkModel:
    return plgc.finetune(backbone, demo_graph, task="link")


# Nodes


def test_a_model_learns_and_survives_the_disk(node_model: plgc.NodeModel, demo_graph: Data, tmp_path: Path) -> None:
    scores = node_model.evaluate(demo_graph)
    assert scores["accuracy"] > 60.0  # four classes: chance is 25
    loaded = plgc.load_model(node_model.save(tmp_path / "model.safetensors"))
    assert isinstance(loaded, plgc.NodeModel)
    assert torch.equal(loaded.predict_proba(demo_graph), node_model.predict_proba(demo_graph))
    assert loaded.evaluate(demo_graph) == scores
    probability = loaded.predict_proba(demo_graph)
    assert torch.allclose(probability.sum(1), torch.ones(600), atol=1e-5)
    assert torch.equal(loaded.predict(demo_graph), probability.argmax(1))


def test_test_labels_do_not_reach_the_head(
    backbone: plgc.Backbone, node_model: plgc.NodeModel, demo_graph: Data
) -> None:
    blind = demo_graph.clone()
    blind.y = torch.where(demo_graph.test_mask, -1, demo_graph.y)
    seen = node_model.predict_proba(demo_graph)
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


def test_what_cannot_be_trained_is_refused(
    backbone: plgc.Backbone, node_model: plgc.NodeModel, demo_graph: Data
) -> None:
    with pytest.raises(LabelError, match="no labels"):
        plgc.finetune(backbone, unlabelled(demo_graph))
    with pytest.raises(SettingError, match="not both"):
        plgc.finetune(backbone, demo_graph, shots=1, labels=10)
    with pytest.raises(SettingError, match="unknown task 'graph'"):
        plgc.finetune(backbone, demo_graph, task="graph")  # pyright: ignore
    with pytest.raises(SettingError, match="on is 'all'"):
        node_model.evaluate(demo_graph, on="all")


def test_a_file_that_is_no_model_is_refused(
    node_model: plgc.NodeModel, sources: list[plgc.CondensedGraph], tmp_path: Path
) -> None:
    with pytest.raises(ArtifactError, match="no file"):
        plgc.load_model(tmp_path / "missing.safetensors")
    condensed = sources[0].save(tmp_path / "condensed.safetensors")
    with pytest.raises(ArtifactError, match="plgc-condensed-graph"):
        plgc.load_model(condensed)
    path = node_model.save(tmp_path / "model.safetensors")
    with pytest.raises(ArtifactError, match="plgc-node-model"):
        plgc.CondensedGraph.load(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ArtifactError, match="damaged"):
        plgc.load_model(path)
    save_file({"head.weight": torch.zeros(2)}, path)
    with pytest.raises(ArtifactError, match="not one of plgc's"):
        plgc.load_model(path)


# Links


def test_edges_are_more_likely_than_non_edges(link_model: plgc.LinkModel, demo_graph: Data) -> None:
    edges = undirected_edges(demo_graph)
    others = non_edges(demo_graph, edges.shape[1], torch.Generator().manual_seed(5))
    probability = link_model.predict_proba(demo_graph, torch.cat([edges, others], dim=1))
    assert probability.shape == (2 * edges.shape[1],)
    assert 0 <= float(probability.min()) <= float(probability.max()) <= 1
    assert auroc(probability, torch.arange(len(probability)) < edges.shape[1]) > 0.8


def test_pairs_have_no_direction(link_model: plgc.LinkModel, demo_graph: Data) -> None:
    pairs = torch.tensor([[0, 5, 7], [3, 1, 599]])
    there, back = (link_model.predict_proba(demo_graph, p) for p in (pairs, pairs.flip(0)))
    assert torch.equal(there, back)
    assert link_model.predict_proba(demo_graph, torch.zeros(2, 0, dtype=torch.int64)).shape == (0,)


def test_labels_are_not_read(backbone: plgc.Backbone, link_model: plgc.LinkModel, demo_graph: Data) -> None:
    bare = Data(x=demo_graph.x, edge_index=demo_graph.edge_index, num_nodes=demo_graph.num_nodes)
    again = plgc.finetune(backbone, bare, task="link")
    assert torch.equal(again.head.weight, link_model.head.weight)
    other = plgc.finetune(backbone, bare, task="link", seed=1)
    assert not torch.equal(other.head.weight, link_model.head.weight)


def test_what_is_saved_is_loaded(link_model: plgc.LinkModel, demo_graph: Data, tmp_path: Path) -> None:
    path = link_model.save(tmp_path / "links.safetensors")
    loaded = plgc.load_model(path)
    assert isinstance(loaded, plgc.LinkModel)
    pairs = torch.tensor([[0, 5, 7], [3, 1, 599]])
    for name in ("weight", "popularity", "bias"):
        assert torch.equal(getattr(loaded.head, name), getattr(link_model.head, name))
    # not bit for bit: a product of tensors that lie elsewhere in memory may be summed in another order
    torch.testing.assert_close(loaded.predict_proba(demo_graph, pairs), link_model.predict_proba(demo_graph, pairs))
    assert loaded.head.validation == link_model.head.validation
    assert loaded.save(tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_a_file_whose_parts_do_not_fit_is_refused(link_model: plgc.LinkModel, tmp_path: Path) -> None:
    path = link_model.save(tmp_path / "links.safetensors")
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = json.loads(file.metadata()["plgc"])

    def refused(tensors: dict[str, Tensor], header: dict[str, Any], reason: str) -> None:
        text = json.dumps({**header, "checksum": checksum(tensors, header)})
        save_file(tensors, path, {"plgc": text})
        with pytest.raises(ArtifactError, match=f"is damaged: .*{reason}"):
            plgc.load_model(path)

    refused({**tensors, "head.weight": torch.zeros(3)}, header, r"the head has shape \(3,\), the backbone gives \d+")
    refused({**tensors, "head.bias": torch.tensor(float("nan"))}, header, "NaN or infinite")
    refused({**tensors, "head.weight": tensors["head.weight"].double()}, header, "is torch.float64, not float32")
    refused({**tensors, "tail": torch.zeros(3)}, header, "its tensor 'tail' is unknown")
    refused({**tensors, "head.tail": torch.zeros(3)}, header, "where weight, popularity, bias are needed")
    wide = {"edges": [64_000], "plain": []}
    refused(tensors, {**header, "outputs": wide}, "describes a network of [0-9,]* weights or more")
    refused(tensors, {**header, "outputs": {"edges": [], "plain": []}}, "it describes no output")
    refused(tensors, {**header, "beside": ["x", "x"]}, "it has a part twice")
    refused(tensors, {**header, "beside": ["y"]}, r"beside\[0\] is 'y': choose x")
    refused(tensors, {**header, "scaling": "auto"}, "scaling is 'auto'")
    refused(tensors, {**header, "seed": 2**64}, "seed is 1844")
    refused(tensors, {**header, "blocks": [4]}, "'blocks' is unknown")
    refused(tensors, {**header, "backbone": {**header["backbone"], "layers": 10**12}}, "layers")
    refused(tensors, {**header, "backbone": {**header["backbone"], "kind": "sgc", "layers": 10**12}}, "at most 1000")
    refused(tensors, {**header, "head": {**header["head"], "shares": {"x": 1e308}}}, "head.shares.x is 1e")
    for missing in ("head", "outputs", "beside", "backbone"):
        refused(tensors, {key: value for key, value in header.items() if key != missing}, f"{missing} is missing")


def test_bad_pairs_and_settings_are_refused(
    link_model: plgc.LinkModel, backbone: plgc.Backbone, demo_graph: Data
) -> None:
    with pytest.raises(GraphError, match="names node 600, the graph has nodes 0 to 599"):
        link_model.predict_proba(demo_graph, torch.tensor([[0], [600]]))
    with pytest.raises(GraphError, match="names node -1"):
        link_model.predict_proba(demo_graph, torch.tensor([[0], [-1]]))
    with pytest.raises(SettingError, match=r"\[3\]"):
        link_model.predict_proba(demo_graph, torch.tensor([1, 2, 3]))
    with pytest.raises(SettingError, match="links are learned from edges"):
        plgc.finetune(backbone, demo_graph, task="link", shots=3)  # pyright: ignore
    lonely = Data(x=demo_graph.x, edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=600)
    with pytest.raises(GraphError, match=r"has 1 edge\(s\)"):
        plgc.finetune(backbone, lonely, task="link")


# As they are shown in Python and in a notebook


def test_models_and_backbones_are_shown_on_one_line(
    backbone: plgc.Backbone, node_model: plgc.NodeModel, link_model: plgc.LinkModel
) -> None:
    width = backbone.num_features
    assert repr(node_model) == f"NodeModel(gcn, {width} features, 4 classes, cpu)"
    assert repr(link_model) == f"LinkModel(gcn, {width} features, cpu)"
    assert repr(backbone).startswith(f"Backbone(gcn, {width} features, embeds as learned + ")
    for one in (backbone, node_model, link_model):
        assert one._repr_html_() == f"<code>{one!r}</code>"


def test_names_of_classes_are_escaped_where_they_are_shown(node_model: plgc.NodeModel) -> None:
    named = replace(node_model, names=Names(classes=("<b>", "x\x1b[2J", "c" * 99, "d")))
    assert f"4 classes (<b>, x\\x1b[2J, {'c' * 20}, …)" in repr(named)
    assert "&lt;b&gt;" in named._repr_html_()
    assert "\x1b" not in named._repr_html_()
