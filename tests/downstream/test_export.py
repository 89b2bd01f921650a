"""Exported files: what other runtimes compute from them is what the model predicts, to 1e-4."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.downstream import export
from plgc.downstream.backbone import BackboneSettings
from plgc.downstream.names import Names
from plgc.graphs import citation_graph
from plgc.method.encoder import KINDS
from plgc.runtime.errors import ArtifactError, MissingExtraError, SettingError
from quick import PLAIN, quick

onnxruntime = pytest.importorskip("onnxruntime", reason="pip install 'plgc[onnx]'")

GRAPH = citation_graph(nodes=200, classes=3, features=60)
NAMES = Names(classes=("a", "b", "ç"), features=tuple(f"word {place}" for place in range(60)))
WITHOUT_PLGC = """
import json, sys
import numpy as np
sys.modules["plgc"] = sys.modules["torch"] = None  # neither can be imported
import onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
given = np.load(sys.argv[2])
found = session.run(None, {"x": given["x"], "edge_index": given["edge_index"]})[0]
classes = json.loads(session.get_modelmeta().custom_metadata_map["plgc"])["classes"]
print(json.dumps([float(abs(found - given["wanted"]).max()), classes]))
"""


@pytest.fixture(scope="module")
def condensed() -> plgc.CondensedGraph:
    return plgc.condense(GRAPH, nodes=9, settings=quick(12, plain=PLAIN))


def node_model(condensed: plgc.CondensedGraph, kind: str = "gcn") -> plgc.NodeModel:
    backbone = plgc.reconstruct(condensed, settings=BackboneSettings(kind=kind, hidden=16))
    return replace(plgc.finetune(backbone, GRAPH, shots=5), names=NAMES)


@pytest.fixture(scope="module")
def model(condensed: plgc.CondensedGraph) -> plgc.NodeModel:
    return node_model(condensed)


@pytest.fixture(scope="module")
def file(model: plgc.NodeModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plgc.export_model(model, tmp_path_factory.mktemp("export") / "model.onnx")


def others() -> dict[str, Data]:
    """Graphs of other sizes: more nodes and fewer, a hub, nodes without edges, no edges at all, a single node."""
    small, large = (citation_graph(nodes=nodes, classes=3, features=60, seed=5) for nodes in (40, 900))
    spokes = torch.stack([torch.zeros(899, dtype=torch.int64), torch.arange(1, 900)])
    none = torch.zeros((2, 0), dtype=torch.int64)
    x = {"small": small.x.to_dense(), "large": large.x.to_dense()}  # pyright: ignore
    alone = torch.cat([x["small"], torch.zeros(1, 60), torch.ones(2, 60)])
    return {
        "small": Data(x=x["small"], edge_index=small.edge_index, name="small"),
        "large": Data(x=x["large"], edge_index=large.edge_index, name="large"),
        "hub": Data(x=x["large"], edge_index=torch.cat([spokes, spokes.flip(0)], 1), name="hub"),
        "isolated": Data(x=alone, edge_index=small.edge_index, name="isolated"),
        "no edges": Data(x=x["small"], edge_index=none, name="no edges"),
        "one node": Data(x=x["small"][:1], edge_index=none, name="one node"),
    }


def in_onnx(file: Path, graph: Data, threads: int = 0) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session: Any = onnxruntime.InferenceSession(str(file), options)
    given = {one.name: graph[one.name].numpy() for one in session.get_inputs()}
    return session.run(["probabilities"], given)[0]


@pytest.mark.parametrize("graph", others().values(), ids=list(others()))
def test_onnx_predicts_as_we_do(model: plgc.NodeModel, file: Path, graph: Data) -> None:
    found, wanted = in_onnx(file, graph), model.predict_proba(graph).numpy()
    assert found.shape == wanted.shape
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=1e-4, rtol=0)
    np.testing.assert_allclose(found.sum(1), 1.0, atol=1e-5)


def test_sums_do_not_depend_on_threads(model: plgc.NodeModel, file: Path) -> None:
    import onnx

    nodes = onnx.load(file).graph.node
    assert "ScatterElements" in {node.op_type for node in nodes}
    assert "ScatterND" not in {node.op_type for node in nodes}  # onnxruntime adds it up on several threads at once
    hub = others()["hub"]
    assert np.array_equal(in_onnx(file, hub, threads=1), in_onnx(file, hub, threads=8))


def test_onnx_describes_itself(file: Path) -> None:
    session: Any = onnxruntime.InferenceSession(str(file))
    assert [(one.name, one.shape, one.type) for one in session.get_inputs()] == [
        ("x", ["nodes", 60], "tensor(float)"),
        ("edge_index", [2, "edges"], "tensor(int64)"),
    ]
    assert [(one.name, one.shape) for one in session.get_outputs()] == [("probabilities", ["nodes", 3])]
    about = session.get_modelmeta()
    assert about.producer_name == "plgc"
    told = json.loads(about.custom_metadata_map["plgc"])
    assert told["classes"] == ["a", "b", "ç"]
    assert told["features"][59] == "word 59"
    assert str(Path(export.__file__).parent).encode() not in file.read_bytes()


def test_onnx_runs_without_plgc_and_torch(model: plgc.NodeModel, file: Path, tmp_path: Path) -> None:
    graph = others()["small"]
    given = {"x": graph.x.numpy(), "edge_index": graph.edge_index.numpy()}  # pyright: ignore
    np.savez(tmp_path / "given.npz", wanted=model.predict_proba(graph).numpy(), **given)
    words = [sys.executable, "-c", WITHOUT_PLGC, str(file), str(tmp_path / "given.npz")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    error, classes = json.loads(done.stdout)
    assert error < 1e-4
    assert classes == ["a", "b", "ç"]


def test_torch_export(model: plgc.NodeModel, tmp_path: Path) -> None:
    file = plgc.export_model(model, tmp_path / "model.pt2", to="torch-export")
    told = {"plgc.json": ""}
    module = torch.export.load(file, extra_files=told).module()
    for graph in others().values():
        assert (module(graph.x, graph.edge_index) - model.predict_proba(graph)).abs().max() < 1e-4
    assert json.loads(told["plgc.json"])["classes"] == ["a", "b", "ç"]
    content = file.read_bytes()
    assert str(Path(export.__file__).parent).encode() not in content
    assert plgc.export_model(model, tmp_path / "again.pt2", to="torch-export").read_bytes() == content


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "weights"), [*((kind, False) for kind in KINDS), ("gcn", True), ("gat", True)])
def test_every_kind_in_every_form(condensed: plgc.CondensedGraph, kind: str, weights: bool, tmp_path: Path) -> None:
    model = node_model(condensed, kind)
    file = plgc.export_model(model, tmp_path / "model.onnx", edge_weights=weights)
    program = plgc.export_model(model, tmp_path / "model.pt2", to="torch-export", edge_weights=weights)
    module = torch.export.load(program).module()
    for graph in others().values():
        given = [graph.x, graph.edge_index]
        if weights:
            graph.edge_weight = graph.edge_index.sum(0) % 4 / 2  # pyright: ignore
            given.append(graph.edge_weight)
        wanted = model.predict_proba(graph)
        np.testing.assert_allclose(in_onnx(file, graph), wanted.numpy(), atol=1e-4, rtol=0)
        assert (module(*given) - wanted).abs().max() < 1e-4


def test_refusals(model: plgc.NodeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    with pytest.raises(SettingError, match="unknown form 'tflite': choose onnx or torch-export"):
        plgc.export_model(model, out, to="tflite")
    links = plgc.finetune(model.backbone, GRAPH, task="link")
    with pytest.raises(ArtifactError, match="this is a LinkModel"):
        plgc.export_model(links, out)  # pyright: ignore[reportArgumentType]
    deep = replace(model, head=replace(model.head, settings=replace(model.head.settings, smoothing_steps=101)))
    with pytest.raises(ArtifactError, match="in 101 steps, and an exported file"):
        plgc.export_model(deep, out)
    with monkeypatch.context() as patch:
        patch.setattr(export, "LARGEST", 1000)
        with pytest.raises(ArtifactError, match="an ONNX file holds 1,000: use torch-export"):
            plgc.export_model(model, out)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'plgc\[onnx\]'"):
        plgc.export_model(model, out)
    assert not out.exists()
