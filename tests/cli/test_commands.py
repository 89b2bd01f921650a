"""The commands as a user runs them: what they report, what they write, what goes to stdout and what to stderr."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plgc
from plgc.cli import options
from plgc.demo.run import run_demo
from plgc.evaluation.over_seeds import CONTROLS
from plgc.graphs import citation_graph, save_npz
from plgc.method.encoder import KINDS
from plgc.method.settings import PRESETS

NODES, CLASSES, KEPT = 300, 3, 12


def test_condense_reports_what_it_wrote(condense_run: Any, artifact: Path) -> None:
    result = condense_run.result
    condensed = plgc.CondensedGraph.load(artifact)
    assert result["graph"] == "small"
    assert result["nodes_requested"] == KEPT
    assert result["nodes"] == condensed.num_nodes <= KEPT
    assert result["ratio"] == pytest.approx(condensed.num_nodes / NODES)
    assert result["seed"] == condensed.seed == 3
    assert result["bytes"] == artifact.stat().st_size
    assert result["seconds"] > 0
    assert 50e6 < result["peak_memory_bytes"] < 50e9
    assert 0 < result["explained_variance"] <= 1
    assert result["rounds"] >= 1
    assert condense_run.err == ""


def test_condense_is_the_python_function(graph: Path, artifact: Path) -> None:
    expected = plgc.condense(plgc.load_graph(graph), nodes=KEPT, seed=3)
    assert artifact.read_bytes() == expected.to_bytes()


def test_condense_by_ratio_and_preset_as_text(run: Any, graph: Path, tmp_path: Path) -> None:
    path = tmp_path / "new" / "c.safetensors"
    done = run("condense", graph, "--ratio", 0.03, "--preset", "paper", "--threads", 1, "--output", path)
    assert done.code == 0
    assert "300 nodes" in done.out
    assert "9 nodes (3 %)" in done.out
    condensed = plgc.CondensedGraph.load(path)
    assert (condensed.settings["preset"], condensed.threads, condensed.nodes_requested) == ("paper", 1, 9)


def test_inspect(run: Any, artifact: Path) -> None:
    result = run("inspect", artifact, "--json").result
    condensed = plgc.CondensedGraph.load(artifact)
    assert result["nodes"] == condensed.num_nodes
    assert result["features"] == 100
    assert result["source"]["nodes"] == NODES
    assert result["settings"] == json.loads(json.dumps(condensed.settings))
    assert result["counts"]["max"] == int(condensed.counts.max())
    assert len(result["sha256"]) == 64
    text = run("inspect", artifact)
    assert text.code == 0
    assert result["sha256"] in text.out
    assert f"{condensed.num_nodes} synthetic nodes" in text.out


def test_evaluate_beats_chance_and_shows_the_controls(run: Any, graph: Path, artifact: Path) -> None:
    result = run("evaluate", artifact, "--graph", graph, "--seeds", 2, "--json").result
    assert (result["task"], result["graph"], result["on"], result["backbone"]) == ("node", "small", "test", "gcn")
    assert len(result["accuracy"]["values"]) == 2
    assert result["accuracy"]["mean"] == pytest.approx(np.mean(result["accuracy"]["values"]))
    assert 100 / CLASSES + 10 < result["accuracy"]["mean"] <= 100
    assert set(result["controls"]) == {"random_encoder", "propagated_features", "raw_features", "plain_parts"}
    for control in result["controls"].values():
        assert control["mean"] == control["accuracy"]["mean"]
        assert len(control["macro_f1"]["values"]) == 2
    assert result["bytes"] == artifact.stat().st_size


def test_evaluate_options_reach_the_evaluation(run: Any, graph: Path, artifact: Path) -> None:
    given = ["--shots", 2, "--on", "val", "--backbone", "sgc", "--task", "node"]
    result = run("evaluate", artifact, artifact, "--graph", graph, *given, "--json").result
    assert (result["shots"], result["labels"], result["on"], result["backbone"]) == (2, None, "val", "sgc")
    assert result["nodes"] == 2 * plgc.CondensedGraph.load(artifact).num_nodes


def test_evaluate_as_text(run: Any, graph: Path, artifact: Path) -> None:
    done = run("evaluate", artifact, "--graph", graph, "--labels", 9)
    assert done.code == 0
    for word in ("plgc", *(name.replace("_", " ") for name in CONTROLS), "accuracy", "macro-F1", "9 labels"):
        assert word in done.out


def test_train_then_predict(run: Any, graph: Path, train_run: Any, model: Path, tmp_path: Path) -> None:
    assert train_run.result["shots"] == 5
    assert train_run.result["val"]["accuracy"] > 100 / CLASSES
    out = tmp_path / "answers.csv"
    result = run("predict", model, "--graph", graph, "--device", "cpu", "-o", out, "--json").result
    data = plgc.load_graph(graph)
    expected = plgc.load_model(model).predict(data)
    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["node", "predicted_class", "probability"]
    assert [int(row["node"]) for row in rows] == list(range(NODES))
    assert [int(row["predicted_class"]) for row in rows] == expected.tolist()
    assert all(1 / CLASSES - 1e-3 <= float(row["probability"]) <= 1 for row in rows)
    assert result["nodes"] == sum(result["class_counts"]) == NODES
    assert float((expected == data.y).float().mean()) > 1 / CLASSES + 0.1


def test_predict_needs_no_labels(run: Any, graph: Path, unlabelled: Path, model: Path, tmp_path: Path) -> None:
    for name, source in (("with.csv", graph), ("without.csv", unlabelled)):
        assert run("predict", model, "--graph", source, "-o", tmp_path / name).code == 0
    assert (tmp_path / "with.csv").read_bytes() == (tmp_path / "without.csv").read_bytes()


def test_demo(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plgc.demo.run.run_demo", partial(run_demo, seeds=1))  # three take three times as long
    tiny = save_npz(citation_graph(nodes=100, classes=2, features=30), tmp_path / "tiny.npz")
    done = run("demo", "--graph", tiny, "--device", "cpu", "-o", tmp_path / "demo")
    assert (done.code, done.err) == (0, "")
    for word in ("whole graph", "plgc", *(name.replace("_", " ") for name in CONTROLS), "Written: "):
        assert word in done.out


def test_data_list_and_get(run: Any, graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLGC_DATA", str(graph.parent))
    entries = {entry["name"]: entry for entry in run("data", "list", "--json").result["graphs"]}
    assert entries["small"] == {**entries["small"], "where": "PLGC_DATA", "nodes": NODES, "classes": CLASSES}
    assert entries["reddit"]["where"] == "download"
    assert "small" in run("data", "list").out
    assert run("data", "get", "small", "--json").result["path"] == str(graph)
    assert run("data", "get", "small").out == f"{graph}\n"


def test_version_and_help(run: Any) -> None:
    versions = run("--version")
    assert versions.code == 0
    assert versions.out.startswith(f"plgc {plgc.__version__}\ntorch {torch.__version__}\ntorch-geometric ")
    assert run("--help").code == 0
    assert "--ratio" in run("condense", "--help").out


def test_choices_are_those_of_the_package() -> None:
    assert tuple(options.Preset) == tuple(PRESETS)
    assert tuple(options.Kind) == KINDS


def test_as_a_process(graph: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "plgc", "condense", str(graph), "--nodes", "9", "-o", "c.safetensors", "--json"]
    package = {"PYTHONPATH": str(Path(plgc.__file__).parents[1])}  # also where it is not installed
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | package, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["artifact"] == "c.safetensors"
    assert done.stderr == ""
    assert [path.name for path in tmp_path.iterdir()] == ["c.safetensors"]


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_interrupt(run: Any, graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("plgc.method.condense.condense", interrupted)
    done = run("condense", graph, "--nodes", 9, "-o", tmp_path / "c.safetensors")
    assert (done.code, done.out) == (130, "")
    assert "interrupted" in done.err
    assert "Traceback" not in done.err
