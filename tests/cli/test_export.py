"""``plgc export``: the forms it writes, and the pairs that it refuses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.cli import export
from plgc.downstream.export import FORMS


def test_forms_are_those_of_the_package() -> None:
    assert tuple(export.Form) == (*FORMS, "pyg")


def test_a_model_as_onnx(run: Any, graph: Path, model: Path, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    out = tmp_path / "model.onnx"
    result = run("export", model, "--to", "onnx", "-o", out, "--json").result
    assert result["exported"] == str(out)
    assert result["bytes"] == out.stat().st_size
    assert result["inputs"] == {"x": ["nodes", 100], "edge_index": [2, "edges"]}
    assert result["outputs"] == {"probabilities": ["nodes", 3]}
    data = plgc.load_graph(graph)
    given = {"x": data.x.to_dense().numpy(), "edge_index": data.edge_index.numpy()}  # pyright: ignore
    [found] = onnxruntime.InferenceSession(str(out)).run(None, given)
    assert abs(found - plgc.load_model(model).predict_proba(data).numpy()).max() < 1e-4  # pyright: ignore


def test_a_model_as_a_program_with_weights(run: Any, graph: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.pt2"
    done = run("export", model, "--to", "torch-export", "--edge-weights", "-o", out)
    assert (done.code, done.err) == (0, "")
    assert "x [nodes, 100], edge_index [2, edges], edge_weight [edges]" in done.out
    data = plgc.load_graph(graph)
    weights = torch.ones(data.edge_index.shape[1])  # pyright: ignore
    found = torch.export.load(out).module()(data.x.to_dense(), data.edge_index, weights)  # pyright: ignore
    assert (found - plgc.load_model(model).predict_proba(data)).abs().max() < 1e-4  # pyright: ignore
    assert run("export", model, "--to", "torch-export", "-o", out).code == 0  # of its own kind


def test_a_condensed_graph_for_pyg(run: Any, artifact: Path, tmp_path: Path) -> None:
    out = tmp_path / "small.pt"
    result = run("export", artifact, "--to", "pyg", "-o", out, "--json").result
    condensed = plgc.CondensedGraph.load(artifact)
    assert (result["nodes"], result["features"], result["method"]) == (condensed.num_nodes, 100, "plgc")
    data = Data.from_dict(torch.load(out, weights_only=True))
    assert torch.equal(data.x, condensed.features)  # pyright: ignore
    assert torch.equal(data.y, condensed.pseudo_labels)  # pyright: ignore
    assert (data.target, data.scaling, data.num_nodes) == ("pseudo_labels", condensed.scaling, condensed.num_nodes)
    first = out.read_bytes()
    assert run("export", artifact, "--to", "pyg", "-o", out).code == 0  # of its own kind
    assert out.read_bytes() == first


def test_files_of_another_kind_stay(run: Any, graph: Path, artifact: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    torch.save({"x": torch.ones(2)}, tmp_path / "other.pt")
    for other in (graph, artifact, model, tmp_path / "other.pt"):
        for file, form in ((artifact, "pyg"), (model, "torch-export")):
            out.write_bytes(other.read_bytes())
            done = run("export", file, "--to", form, "-o", out)
            assert (done.code, done.out) == (2, "")
            assert "--force" in done.err
            assert out.read_bytes() == other.read_bytes()
    assert run("export", artifact, "--to", "pyg", "-o", out, "--force").code == 0


def test_a_table_is_pointed_out(run: Any, tmp_path: Path) -> None:
    rows = [f"n{i},{i % 7},{i * i % 11},{'ab'[i % 2]}" for i in range(60)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,age,size,label", *rows]) + "\n")
    (tmp_path / "edges.csv").write_text(
        "\n".join(["from,to", *(f"n{i},n{(i * 3 + 2) % 60}" for i in range(60))]) + "\n"
    )
    given = [tmp_path / "edges.csv", "--nodes-table", tmp_path / "nodes.csv"]
    assert run("condense", *given, "--nodes", 6, "-o", tmp_path / "c.safetensors").code == 0
    assert run("train", tmp_path / "c.safetensors", "--graph", *given, "-o", tmp_path / "m.safetensors").code == 0
    done = run("export", tmp_path / "m.safetensors", "--to", "torch-export", "-o", tmp_path / "m.pt2")
    assert done.code == 0
    assert "x is the matrix that the table's columns become, 2 wide" in done.err
    told = {"plgc.json": ""}
    torch.export.load(tmp_path / "m.pt2", extra_files=told)
    assert '"age"' in told["plgc.json"]


def test_refusals(run: Any, graph: Path, artifact: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    links, rival = tmp_path / "links.safetensors", tmp_path / "rival.safetensors"
    assert run("train", artifact, "--graph", graph, "--task", "link", "-o", links).code == 0
    assert run("condense", graph, "--method", "herding", "--nodes", 9, "-o", rival).code == 0
    for file, form, words in (
        (artifact, "onnx", "is a condensed graph made by plgc, and onnx is for models: train one"),
        (rival, "torch-export", "is a condensed graph made by herding, and torch-export is for models: it has labels"),
        (links, "onnx", "only models that classify nodes are exported, this is a LinkModel"),
        (model, "pyg", "is a model, and pyg is for condensed graphs"),
        (links, "pyg", "is a model, and pyg is for condensed graphs"),
        (graph, "onnx", "cannot be opened"),
        (tmp_path / "none", "pyg", "there is no file"),
        (tmp_path, "onnx", "is a folder, not a file"),
    ):
        done = run("export", file, "--to", form, "-o", out)
        assert (done.code, done.out) == (1, "")
        assert words in done.err
        assert not out.exists()
    for wrong in (
        ["export", model, "--to", "tflite", "-o", out],
        ["export", model, "--to", "onnx", "-o", model],
        ["export", artifact, "--to", "pyg", "--edge-weights", "-o", out],
    ):
        assert run(*wrong).code == 2
    assert run("export", rival, "--to", "pyg", "-o", out).code == 0
    assert torch.load(out, weights_only=True)["target"] == "labels"


def test_a_missing_extra(run: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    done = run("export", model, "--to", "onnx", "-o", tmp_path / "model.onnx")
    assert done.code == 1
    assert "pip install 'plgc[onnx]'" in done.err
