from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.downstream.tasks.metrics import auroc
from plgc.graphs.views.edges import non_edges, undirected_edges
from plgc.runtime.errors import ArtifactError, GraphError, SettingError


@pytest.fixture(scope="module")
def backbone(demo_graph: Data) -> plgc.Backbone:
    return plgc.reconstruct(plgc.condense(demo_graph, nodes=12))


@pytest.fixture(scope="module")
def model(backbone: plgc.Backbone, demo_graph: Data) -> plgc.LinkModel:
    return plgc.finetune(backbone, demo_graph, task="link")


def test_edges_are_more_likely_than_non_edges(model: plgc.LinkModel, demo_graph: Data) -> None:
    edges = undirected_edges(demo_graph)
    others = non_edges(demo_graph, edges.shape[1], torch.Generator().manual_seed(5))
    probability = model.predict_proba(demo_graph, torch.cat([edges, others], dim=1))
    assert probability.shape == (2 * edges.shape[1],)
    assert 0 <= float(probability.min()) <= float(probability.max()) <= 1
    assert auroc(probability, torch.arange(len(probability)) < edges.shape[1]) > 0.8


def test_pairs_have_no_direction(model: plgc.LinkModel, demo_graph: Data) -> None:
    pairs = torch.tensor([[0, 5, 7], [3, 1, 599]])
    there, back = (model.predict_proba(demo_graph, p) for p in (pairs, pairs.flip(0)))
    assert torch.equal(there, back)
    assert model.predict_proba(demo_graph, torch.zeros(2, 0, dtype=torch.int64)).shape == (0,)


def test_labels_are_not_read(backbone: plgc.Backbone, model: plgc.LinkModel, demo_graph: Data) -> None:
    bare = Data(x=demo_graph.x, edge_index=demo_graph.edge_index, num_nodes=demo_graph.num_nodes)
    again = plgc.finetune(backbone, bare, task="link")
    assert torch.equal(again.head.weight, model.head.weight)
    other = plgc.finetune(backbone, bare, task="link", seed=1)
    assert not torch.equal(other.head.weight, model.head.weight)


def test_what_is_saved_is_loaded(model: plgc.LinkModel, demo_graph: Data, tmp_path: Path) -> None:
    path = model.save(tmp_path / "links.safetensors")
    loaded = plgc.load_model(path)
    assert isinstance(loaded, plgc.LinkModel)
    pairs = torch.tensor([[0, 5, 7], [3, 1, 599]])
    assert torch.equal(loaded.predict_proba(demo_graph, pairs), model.predict_proba(demo_graph, pairs))
    assert loaded.head.validation == model.head.validation
    assert loaded.save(tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_a_file_whose_parts_do_not_fit_is_refused(model: plgc.LinkModel, tmp_path: Path) -> None:
    from safetensors import safe_open
    from safetensors.torch import save_file

    path = model.save(tmp_path / "links.safetensors")
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = json.loads(file.metadata()["plgc"])
    for name, changed in (("head.weight", torch.zeros(3)), ("head.bias", torch.tensor(float("nan")))):
        save_file({**tensors, name: changed}, path, {"plgc": json.dumps(header)})
        with pytest.raises(ArtifactError, match="is damaged"):
            plgc.load_model(path)
    for missing in ("head", "blocks"):
        save_file(tensors, path, {"plgc": json.dumps({k: v for k, v in header.items() if k != missing})})
        with pytest.raises(ArtifactError, match="is damaged"):
            plgc.load_model(path)


def test_bad_pairs_and_settings_are_refused(model: plgc.LinkModel, backbone: plgc.Backbone, demo_graph: Data) -> None:
    with pytest.raises(GraphError, match="names node 600, the graph has nodes 0 to 599"):
        model.predict_proba(demo_graph, torch.tensor([[0], [600]]))
    with pytest.raises(GraphError, match="names node -1"):
        model.predict_proba(demo_graph, torch.tensor([[0], [-1]]))
    with pytest.raises(SettingError, match=r"\[3\]"):
        model.predict_proba(demo_graph, torch.tensor([1, 2, 3]))
    with pytest.raises(SettingError, match="links are learned from edges"):
        plgc.finetune(backbone, demo_graph, task="link", shots=3)  # pyright: ignore
    with pytest.raises(SettingError, match="unknown task 'graph'"):
        plgc.finetune(backbone, demo_graph, task="graph")  # pyright: ignore
    lonely = Data(x=demo_graph.x, edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=600)
    with pytest.raises(GraphError, match=r"has 1 edge\(s\)"):
        plgc.finetune(backbone, lonely, task="link")
