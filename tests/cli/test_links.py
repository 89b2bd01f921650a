from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def links(run: Any, artifact: Path, graph: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("links") / "links.safetensors"
    given = ["--graph", graph, "--task", "link", "--device", "cpu"]
    result = run("train", artifact, *given, "-o", path, "--json").result
    assert result["task"] == "link"
    assert 0.5 < result["val"]["auroc"] <= 1
    return path


def test_train_then_predict(run: Any, graph: Path, links: Path, tmp_path: Path) -> None:
    pairs, out = tmp_path / "pairs.csv", tmp_path / "scores.csv"
    pairs.write_text("source,target\n0,1\n5,2\n")
    result = run("predict", links, "--graph", graph, "--pairs", pairs, "-o", out, "--json").result
    assert result["pairs"] == 2
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["source"], row["target"]) for row in rows] == [("0", "1"), ("5", "2")]
    assert all(0 <= float(row["probability"]) <= 1 for row in rows)
    headless = tmp_path / "headless.csv"
    headless.write_text("0,1\n5,2\n")
    again = tmp_path / "again.csv"
    assert run("predict", links, "--graph", graph, "--pairs", headless, "-o", again).code == 0
    assert again.read_bytes() == out.read_bytes()


@pytest.mark.parametrize(
    ("content", "words"),
    [("0,1\n2,x\n", "pair 2 is '2,x'"), ("", "holds no pairs"), ("0,999999\n", "names node 999999"), ("7\n", "pair 1")],
)
def test_bad_pairs(run: Any, graph: Path, links: Path, tmp_path: Path, content: str, words: str) -> None:
    pairs = tmp_path / "pairs.csv"
    pairs.write_text(content)
    done = run("predict", links, "--graph", graph, "--pairs", pairs, "-o", tmp_path / "o.csv")
    assert done.code == 1
    assert words in done.err
    assert not (tmp_path / "o.csv").exists()


def test_wrong_use(run: Any, artifact: Path, graph: Path, links: Path, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.csv"
    assert run("predict", links, "--graph", graph, "-o", out).code == 2
    assert run("predict", model, "--graph", graph, "--pairs", "p.csv", "-o", out).code == 2
    assert run("train", artifact, "--graph", graph, "--task", "cluster", "-o", out).code == 2
    assert run("train", artifact, "--graph", graph, "--task", "link", "--shots", 3, "-o", out).code == 2
    assert run("predict", links, "--graph", graph, "--pairs", tmp_path / "none.csv", "-o", out).code == 1
