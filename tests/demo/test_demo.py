"""The demo on a small graph: its numbers, its files, and what it does without matplotlib."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from torch_geometric.data import Data

import plgc
from plgc.demo.figure import plane
from plgc.demo.run import draw_figure, run_demo, summary
from plgc.graphs import citation_graph

CONTROLS = ["random encoder", "propagated features", "raw features", "plain parts"]
METHODS = ["whole graph", "plgc", *CONTROLS]


@pytest.fixture(scope="module")
def small() -> Data:
    return citation_graph(nodes=400, classes=3, features=120)


@pytest.fixture(scope="module")
def result(small: Data, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_demo(small, tmp_path_factory.mktemp("demo") / "new", seeds=1)


def test_every_method_has_its_row(result: dict[str, Any]) -> None:
    rows = {row["method"]: row for row in result["rows"]}
    assert list(rows) == METHODS
    for row in rows.values():
        for labels in ("few", "all"):
            assert len(row[labels]["values"]) == 1
            assert row[labels]["mean"] == pytest.approx(np.mean(row[labels]["values"]))
            assert 0 < row[labels]["mean"] <= 100
    assert rows["plgc"]["all"]["mean"] > 100 / 3 + 10
    assert rows["whole graph"]["all"]["mean"] > 100 / 3 + 10
    assert rows["plgc"]["nodes"] == result["nodes"] <= round(0.026 * 400)
    assert rows["whole graph"]["nodes"] == 400
    assert result["train_labels"] == 60


def test_files_are_left_behind(result: dict[str, Any]) -> None:
    condensed = plgc.CondensedGraph.load(result["artifact"])
    row = result["rows"][1]
    assert (condensed.num_nodes, Path(result["artifact"]).stat().st_size) == (row["nodes"], row["bytes"])
    assert Path(result["figure"]).read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in Path(result["artifact"]).parent.iterdir()) == [
        "condensed.safetensors",
        "figure.png",
    ]


def test_summary_says_what_the_table_says() -> None:
    scores = {"whole graph": (60.0, 81.0), "plgc": (70.0, 80.0)}
    scores |= dict(zip(CONTROLS, ((50.0, 79.5), (65.0, 79.0), (64.0, 60.0), (63.0, 79.4)), strict=True))
    rows = [
        {"method": name, "few": {"mean": few}, "all": {"mean": everything}, "nodes": 10}
        for name, (few, everything) in scores.items()
    ]
    first, second = summary(rows, 3).split("\n")
    for words in ("3 labels per class", "70.0 %", "60.0 %", "the best control (propagated features) 65.0 %"):
        assert words in first
    for words in ("all training labels", "80.0 %", "81.0 %", "random encoder) 79.5 %"):
        assert words in second


def test_without_matplotlib_only_the_figure_is_missing(
    result: dict[str, Any], small: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    condensed = plgc.CondensedGraph.load(result["artifact"])
    made = draw_figure(plgc.reconstruct(condensed), condensed, small, result["rows"], 3, tmp_path / "figure.png")
    assert made["figure"] is None
    assert "plgc[figures]" in made["figure_note"]
    assert list(tmp_path.iterdir()) == []


def test_plane_is_pca() -> None:
    generator = torch.Generator().manual_seed(0)
    nodes = torch.randn(60, 5, generator=generator) * torch.tensor([5.0, 3.0, 1.0, 1.0, 1.0]) + 4
    others = torch.randn(7, 5, generator=generator)
    pca = PCA(2).fit(nodes.double().numpy())
    for ours, part in zip(plane(nodes, others), (nodes, others), strict=True):
        theirs = pca.transform(part.double().numpy())
        np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-4)
