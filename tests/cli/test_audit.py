from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plgc.graphs import citation_graph, save_npz


@pytest.fixture(scope="module")
def audit_run(run: Any, graph: Path, artifact: Path) -> Any:
    return run("audit", artifact, "--graph", graph, "--seeds", 1, "--threads", 1, "--json")


def test_an_audit_as_json(audit_run: Any, artifact: Path) -> None:
    result = audit_run.result
    assert result["artifact"] == str(artifact)
    assert (result["grade"], result["attacked"], result["seeds"]) == ("exposed", "halves", 1)
    assert result["auc"]["mean"] > 0.75
    assert result["auc"]["interval"][0] <= result["auc"]["mean"]
    assert result["file"]["fingerprint"] is True
    assert audit_run.err == ""


def test_an_audit_as_text(run: Any, graph: Path, artifact: Path) -> None:
    other = save_npz(citation_graph(nodes=100, classes=3, features=100, seed=4), graph.parent / "others.npz")
    done = run("audit", artifact, "--graph", graph, "--outsiders", other, "--shadows", 0)
    assert done.code == 0
    for words in (
        "exposed: members are told",
        "AUC",
        "false alarms",
        "100 nodes that were not in it",
        "--no-fingerprint",
    ):
        assert words in done.out
    assert "inversion mass" in done.out


def test_what_cannot_be_audited_is_refused(run: Any, graph: Path, artifact: Path, tmp_path: Path) -> None:
    wrong = save_npz(citation_graph(nodes=300, classes=3, features=100, seed=9), tmp_path / "wrong.npz")
    rival = tmp_path / "rival.safetensors"
    assert run("condense", graph, "--nodes", 12, "--method", "random", "-o", rival).code == 0
    for given, kind, words in (
        ([artifact, "--graph", wrong], "bad-graph", "give the graph that was condensed"),
        ([rival, "--graph", graph], "bad-artifact", "made by random"),
        ([artifact, "--graph", "no-such-graph"], "graph-not-found", "no-such-graph"),
        ([artifact, "--graph", graph, "--device", "abacus"], "bad-setting", "abacus"),
        ([tmp_path, "--graph", graph], "usage", "one condensed graph"),
        ([artifact, "--graph", graph, "--outsiders-table", wrong], "usage", "give both"),
    ):
        done = run("audit", *given, "--json")
        assert (done.code != 0, done.err) == (True, "")
        error = json.loads(done.out)["error"]
        assert error["kind"] == kind
        assert words in error["message"]
