"""``plgc report``: what it writes and says, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from plgc.graphs import citation_graph, save_npz
from plgc.report import build_report


def test_report_is_the_python_function(run: Any, artifact: Path, graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "report.html"
    given = ["--graph", graph, "--seeds", 1, "--seed", 2, "--device", "cpu"]
    done = run("report", artifact, *given, "-o", out, "--json")
    assert done.result["report"] == str(out)
    assert done.result["bytes"] == out.stat().st_size
    assert out.read_text(encoding="utf-8") == build_report([artifact], graph=graph, seeds=1, seed=2)


def test_report_as_text(run: Any, artifact: Path, tmp_path: Path) -> None:
    done = run("report", artifact, "-o", tmp_path / "report.html")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"report  {tmp_path / 'report.html'}, ")


def test_few_labels(run: Any, artifact: Path, graph: Path, tmp_path: Path) -> None:
    given = ["--graph", graph, "--seeds", 1, "--shots", 2, "-o", tmp_path / "report.html"]
    result = run("report", artifact, *given, "--title", "Ours & theirs", "--json").result
    assert result["shots"] == 2
    every, few = result["scores"]
    assert (every["shots"], few["shots"], result["unscored"]) == (None, 2, [])
    assert few["claims"]["plain parts"]["interval"] is None  # one seed
    assert len(few["answers"]["classes"]) == len(few["answers"]["confusion"]) == 3
    assert every["scores"]["plgc"]["mean"] == every["scores"]["plgc"]["values"][0]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<title>Ours &amp; theirs</title>" in page
    assert "With 2 labels per class: " in page
    assert "With all labels: " in page


def test_refusals(run: Any, artifact: Path, tmp_path: Path) -> None:
    other = save_npz(citation_graph(nodes=300, classes=3, features=90), tmp_path / "other.npz")
    out = tmp_path / "report.html"
    for given, kind, words in (
        ([tmp_path / "missing.safetensors"], "bad-artifact", "there is no file"),
        ([other], "bad-artifact", "cannot be opened"),
        ([artifact, "--graph", other], "bad-graph", "100 features per node, the graph other has 90"),
        ([artifact, "--graph", "no-such-graph"], "graph-not-found", "no-such-graph"),
        ([tmp_path], "bad-artifact", "neither manifest.json"),
    ):
        done = run("report", *given, "-o", out, "--json")
        assert (done.code, done.err) == (1, "")
        error = json.loads(done.out)["error"]
        assert error["kind"] == kind
        assert words in error["message"]
        assert not out.exists()
    assert run("report", artifact, "-o", tmp_path).code == 1
    assert run("report", artifact).code == 2
