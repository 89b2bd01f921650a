"""Numbers at the edge: they work, or are refused before the work by name and value; nothing useless goes unsaid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import plgc
from plgc.artifact.degenerate import warnings_of

NODES = 60


def write(
    path: Path, scale: float = 1.0, signed: bool = False, weight: float | None = None, nodes: int = NODES
) -> Path:
    """A ring with chords; features are random numbers times ``scale``."""
    draw, ring = np.random.default_rng(0), np.arange(nodes)
    edges = np.concatenate([np.stack([ring, (ring + step) % nodes]) for step in (1, 5)], axis=1)
    x = draw.random((nodes, 8)) - (0.5 if signed else 0)
    arrays = {"edge_index": edges, "x": (x * scale).astype(np.float32), "y": ring % 2}
    if weight is not None:
        arrays["edge_weight"] = weight * (0.5 + draw.random(edges.shape[1]) / 2)
    np.savez(path, **arrays)
    return path


def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes when the work has begun."""
    notes: list[str] = []
    from plgc.method import condense

    before = condense.alternate

    def alternate(*arguments: Any, **options: Any) -> Any:
        notes.append("begun")
        return before(*arguments, **options)

    monkeypatch.setattr(condense, "alternate", alternate)
    return notes


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"scale": 3e38}, "row 0 of x has a norm beyond 3.4e+38"),
        ({"scale": 1e20, "signed": True}, "the largest value of x is 4.99"),
        ({"scale": 6e38, "signed": True}, "the largest value of x is 2.99"),
        ({"scale": 1e-12, "signed": True}, "the largest value of x is 4.99"),
        ({"weight": 1e38}, "edge_weight[0] is "),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_refused_before_the_work(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], words: str
) -> None:
    notes = begun(monkeypatch)
    graph, out = write(tmp_path / "g.npz", **given), tmp_path / "c.safetensors"
    done = run("condense", graph, "--nodes", 6, "-o", out)
    assert (done.code, done.out, notes, out.exists()) == (1, "", [], False)
    assert words in done.err
    assert "by a constant" in done.err


@pytest.mark.parametrize(
    "given",
    [
        {"scale": 1e30},
        {"scale": 1e-30},
        {"scale": 1e15, "signed": True},
        {"scale": 1e-6, "signed": True},
        {"weight": 1e17},
        {"weight": 1e-38},
        {"nodes": 2},
        {"nodes": 3},
    ],
    ids=str,
)
def test_works_and_holds_numbers(run: Any, tmp_path: Path, given: dict[str, Any]) -> None:
    graph, out = write(tmp_path / "g.npz", **given), tmp_path / "c.safetensors"
    count = min(6, given.get("nodes", NODES))
    result = run("condense", graph, "--nodes", count, "-o", out, "--json").result
    assert all(np.isfinite(tensor).all() for tensor in load_file(out).values())
    assert result["warnings"] == warnings_of(plgc.CondensedGraph.load(out))
    assert bool(result["warnings"]) == (result["explained_variance"] <= 0)
    assert run("train", out, "--graph", graph, "-o", tmp_path / "m.safetensors").code == 0
    assert run("predict", tmp_path / "m.safetensors", "--graph", graph, "-o", tmp_path / "p.csv").code == 0
    assert "nan" not in (tmp_path / "p.csv").read_text()


def test_one_column_is_not_scaled_away(run: Any, tmp_path: Path) -> None:
    ring = np.arange(NODES)
    np.savez(
        tmp_path / "g.npz", edge_index=np.stack([ring, (ring + 1) % NODES]), x=(ring[:, None] // 20) + 1.0, y=ring // 20
    )
    result = run("condense", tmp_path / "g.npz", "--nodes", 6, "-o", tmp_path / "c.safetensors", "--json").result
    assert result["explained_variance"] > 0.3
    assert result["warnings"] == []


@pytest.mark.parametrize("options", [["--preset", "paper"], ["--memory", "2GiB"], ["--min-cluster", 2]], ids=str)
def test_two_nodes(run: Any, tmp_path: Path, options: list[Any]) -> None:
    graph = write(tmp_path / "g.npz", nodes=2)
    done = run("condense", graph, "--nodes", 2, "-o", tmp_path / "c.safetensors", *options)
    assert done.code == ("--min-cluster" in options), done.err
    if "paper" in options:  # which sees nothing but the two nodes' common mean
        assert "the pseudo-labels explain nothing of the embeddings' variance" in done.err


def test_a_useless_file_says_so_everywhere(
    run: Any, graph: Path, artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of a run that has gone wrong: nothing is explained, and a row is empty."""
    from dataclasses import replace

    from plgc.rivals import methods

    sound = plgc.CondensedGraph.load(artifact)
    assert warnings_of(sound) == []
    features = sound.features.clone()
    features[3] = 0
    bad = replace(sound, features=features, curves={**sound.curves, "explained": [-5.8]})
    monkeypatch.setattr(methods.Method, "condense", property(lambda _: lambda *_, **__: bad))
    out = tmp_path / "bad.safetensors"
    done = run("condense", graph, "--nodes", 12, "-o", out, "--quiet")
    wanted = ["explain nothing of the embeddings' variance (-580 %)", "1 of 12 synthetic nodes have features of zeros"]
    for words in wanted:
        assert words in done.err
        assert words in run("inspect", out).out
        assert any(words in text for text in run("inspect", out, "--json").result["warnings"])
        assert any(
            words in text for text in run("condense", graph, "--nodes", 12, "-o", out, "--json").result["warnings"]
        )
    assert run("report", out, "-o", tmp_path / "r.html").code == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "The pseudo-labels explain nothing" in page
    assert "have features of zeros alone" in page


def test_a_file_never_holds_nan(run: Any, graph: Path, artifact: Path, tmp_path: Path, monkeypatch: Any) -> None:
    from dataclasses import replace

    from plgc.rivals import methods

    sound, out = plgc.CondensedGraph.load(artifact), tmp_path / "bad.safetensors"
    for change in (
        {"features": sound.features * float("nan")},
        {"curves": {**sound.curves, "explained": [float("inf")]}},
    ):
        bad = replace(sound, **change)
        monkeypatch.setattr(methods.Method, "condense", property(lambda _, bad=bad: lambda *_, **__: bad))
        done = run("condense", graph, "--nodes", 12, "-o", out)
        assert (done.code, out.exists()) == (1, False)
        assert "hold NaN or infinite values, and nothing is written" in done.err
