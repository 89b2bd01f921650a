"""Curves and tables of recorded runs: the means are those of the records."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest
from report_pages import read_page

from plgc.report import build_report
from plgc.runtime.errors import SettingError


def record(experiment: str, method: str, seed: int, value: float, **cell: Any) -> dict[str, Any]:
    usual = {"nodes": None, "preset": None, "task": "node", "backbone": "gcn", "shots": None, "labels": None}
    usual |= {"noise": None, "imbalance": None, "inductive": False, "graph": "cora"}
    asked = {"experiment": experiment, "method": method, "seed": seed, **usual, **cell}
    return {"cell": asked, "metrics": {"accuracy": value, "macro_f1": value - 1}}


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """Few labels on two graphs, and wrong labels on one."""
    made = []
    for seed in range(3):
        for shots in (1, 3, 5):
            ours = {"nodes": 70, "preset": "default", "shots": shots}
            made.append(record("fig3", "plgc", seed, 60 + 2 * shots + seed, **ours))
            made.append(record("fig3", "whole", seed, 40 + 3 * shots - seed, shots=shots))
            made.append(record("fig3", "plgc", seed, 50.0 + seed, graph="citeseer", **{**ours, "nodes": 60}))
        for noise in (0.0, 0.5):
            given = {"nodes": 70, "preset": "default", "noise": noise, "labels": 21}
            made.append(record("fig4", "plgc", seed, 75.0 + seed, **given))
        made.append(record("fig4", "propagated_features", seed, 70.0 + seed, labels=21))
        made.append(record("table3", "plgc", seed, 83.0 + seed, nodes=70, preset="default"))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "records.jsonl").write_text("".join(json.dumps(one) + "\n" for one in made))
    return tmp_path / "run"


def test_a_run_by_itself(run_folder: Path) -> None:
    page = build_report([run_folder])
    found = read_page(page)
    assert found.text.count("Recorded runs") >= 1
    assert "Few labels" in found.text
    assert "Wrong labels while condensing" in found.text
    values = [60 + 2 * 3 + seed for seed in range(3)]
    assert f"{statistics.fmean(values):.4g} ± {statistics.stdev(values):.2g}" in found.text
    assert "plgc: 63 to 71" in found.text
    assert "propagated features: 71 to 71" in found.text  # a control stands for every rate
    assert "citeseer, 60 nodes" in found.text
    [row] = re.findall(r"<tr><th scope=\"row\">cora</th><td>plgc</td>.*?</tr>", page)
    assert "84.0 ± 1.0" in row
    assert page == build_report([run_folder / "records.jsonl"]) == build_report([], runs=[run_folder])


def test_beside_a_file_the_graph_decides(run_folder: Path, ours: Path, small: Any) -> None:
    graph = small.clone()
    graph.name = "Cora"
    del graph.y
    page = build_report([ours, run_folder], graph=graph)
    text = read_page(page).text
    assert "cora, 70 nodes" in text
    assert "citeseer" not in text
    assert "Is it healthy?" in text


def test_unknown_experiments_and_empty_records(run_folder: Path, tmp_path: Path) -> None:
    with (run_folder / "records.jsonl").open("a") as file:
        file.write(json.dumps(record("<b>later</b>", "plgc", 0, 1.0)) + "\n")
    assert "does not know the experiment: <b>later</b>" in read_page(build_report([run_folder])).text
    (tmp_path / "records.jsonl").write_text("")
    with pytest.raises(SettingError, match="holds no records"):
        build_report([tmp_path])
