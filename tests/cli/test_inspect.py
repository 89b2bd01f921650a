"""``plgc inspect --theory``: what it reports, as JSON and as text, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import plgc
from plgc.artifact.ancestry import Ancestor
from plgc.cli.inspect import theory_text
from plgc.evaluation.theory import diagnose, measure
from plgc.graphs import citation_graph, save_npz


def test_theory_is_the_python_function(run: Any, artifact: Path, graph: Path, unlabelled: Path) -> None:
    given = ["--delta", 0.1, "--beta", 3, "--backbone", "sgc", "--seed", 5]
    result = run("inspect", artifact, "--graph", graph, "--theory", *given, "--json").result
    condensed = plgc.CondensedGraph.load(artifact)
    expected = diagnose(condensed, plgc.load_graph(graph), kind="sgc", seed=5, delta=0.1, beta=3)
    assert result["theory"] == {"graph": "small", "backbone": "sgc", "seed": 5, **asdict(expected)}
    plain = run("inspect", artifact, "--json").result
    assert {name: value for name, value in result.items() if name != "theory"} == plain
    without = run("inspect", artifact, "--graph", unlabelled, "--theory", *given, "--json").result
    assert {**without["theory"], "graph": "small"} == result["theory"]  # labels are not read


def test_theory_as_text(run: Any, artifact: Path, graph: Path) -> None:
    theory = run("inspect", artifact, "--graph", graph, "--theory", "--json").result["theory"]
    done = run("inspect", artifact, "--graph", graph, "--theory")
    assert done.code == 0
    assert done.out.startswith(run("inspect", artifact).out.rstrip())
    assert "probability 0.95" in done.out
    assert f"{theory['sigma']:.3g} (estimated from below)" in done.out
    assert f"{theory['sufficient_size']} for ε <= Δ/4" in done.out
    assert f"left out {theory['empty']} empty" in done.out
    along = theory["directions"]
    [widest, between] = [line for line in done.out.splitlines() if line.startswith("Lemma 2")]
    assert f" {along['widest']} of {theory['compared']}" in widest
    assert f" {along['between']} of {along['pairs']}" in between
    net = [value for size, value in zip(theory["sizes"], theory["net_epsilon"], strict=True) if size >= 2]
    assert f"{min(net):.3g} to {max(net):.3g}, over a net of at most 5^{theory['width']} directions" in done.out
    # 300 nodes are far too few for a bound: it must say so
    assert theory["promised"]["interior_radius"] is theory["promised_halves"]["interior_radius"] is None
    assert "vacuous (Δ/2 - ε_max)" in done.out
    [row] = [line for line in done.out.splitlines() if "interior points recovered" in line]
    assert row.split()[-7:] == ["vacuous", "0", "of", "0", "0", "of", "0"]
    [row] = [line for line in done.out.splitlines() if "all points" in line]
    assert row.endswith(f"{theory['normalized']['recovered']} of {theory['points']}")


def test_theory_as_text_where_the_bound_says_something() -> None:
    own = torch.arange(3).repeat(500)
    generator = torch.Generator().manual_seed(0)
    points = 20 * torch.eye(3, dtype=torch.float64)[own] + torch.rand(1500, 3, generator=generator)
    found = measure(points, own, 3, (3,))
    text = theory_text({"graph": "made up", "backbone": "none", "seed": 0, **found.to_dict()})
    assert "vacuous" not in text.rsplit("\n\n", 1)[0]  # the last paragraph explains the word
    assert f"{found.sufficient_size} for ε <= Δ/4; 3 of 3 clusters have it" in text
    assert "750 of 750" in text
    same = measure(torch.eye(2, dtype=torch.float64)[[0, 1, 0, 1]], torch.tensor([0, 0, 1, 1]), 2, (2,))
    assert "two means coincide" in theory_text({"graph": "", "backbone": "", "seed": 0, **same.to_dict()})


@pytest.mark.parametrize(
    ("given", "words"),
    [(["--theory"], "give --graph"), (["--graph", "GRAPH"], "--theory"), (["--theory", "--beta", "wide"], "beta")],
)
def test_wrong_usage(run: Any, given: list[str], words: str, artifact: Path, graph: Path) -> None:
    given = [str(graph) if word == "GRAPH" else word for word in given]
    done = run("inspect", artifact, *given)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    error = json.loads(run("inspect", artifact, *given, "--json").out)["error"]
    assert error["kind"] == "usage"
    assert words in error["message"]


def test_refusals(run: Any, artifact: Path, graph: Path, tmp_path: Path) -> None:
    other = save_npz(citation_graph(nodes=300, classes=3, features=90), tmp_path / "other.npz")
    for given, kind, words in (
        (["--graph", other], "bad-graph", "100 features per node, the graph has 90"),
        (["--graph", graph, "--delta", 1.5], "bad-setting", "delta is 1.5"),
        (["--graph", graph, "--beta", 2], "bad-setting", "beta is 2.0"),
        (["--graph", "no-such-graph"], "graph-not-found", "no-such-graph"),
    ):
        done = run("inspect", artifact, "--theory", *given, "--json")
        assert (done.code, done.err) == (1, "")
        error = json.loads(done.out)["error"]
        assert error["kind"] == kind
        assert words in error["message"]


def test_ancestry_is_a_line(run: Any, artifact: Path, tmp_path: Path) -> None:
    old = plgc.CondensedGraph.load(artifact)
    made = replace(old, ancestry=(Ancestor("update", (old.as_parent(),)),)).save(tmp_path / "made.safetensors")
    assert "ancestry" not in run("inspect", artifact).out
    assert f"updated from a file of {old.source['nodes']:,} nodes" in run("inspect", made).out
    told = run("inspect", made, "--json").result
    assert told["ancestry"][0]["parents"][0]["rows"] == old.num_nodes
    page = tmp_path / "page.html"
    assert run("report", made, "-o", page).code == 0
    assert "updated from a file of" in page.read_text(encoding="utf-8")


def test_a_default_file_is_said_to_tell_who_was_in_the_graph(run: Any, artifact: Path) -> None:
    told = run("inspect", artifact, "--json").result["privacy"]
    assert (told["members"], told["auc"]) == ("exposed", [0.854, 1.0])
    text = run("inspect", artifact).out
    assert told["text"] in text
    assert "the file tells who was in the graph" in text
    assert "1.000 on Cora" in text
