"""Who condenses what: parts of a graph, members of a family, and what is recorded of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from plgc.experiments.calls import MIN_CLUSTER, condense_calls
from plgc.experiments.cell import RunOptions, run_cell
from plgc.experiments.grid import Cell
from plgc.experiments.releases import RELEASES
from plgc.experiments.spec import load_experiment
from plgc.graphs import load_graph
from plgc.graphs.views.protocol import draw_case
from plgc.runtime.errors import SettingError


def a_cell(method: str = "plgc", **values: Any) -> Cell:
    given: dict[str, Any] = {"graph": "demo", "nodes": 40, "preset": None, "seed": 1, "task": "node", "labels": 12}
    return Cell(experiment="any", method=method, **{**given, **values})


def test_parts_are_disjoint_and_know_their_own_labels() -> None:
    graph = load_graph("demo", seed=1)
    cell = a_cell("random", parts=3, partition="random", noise=0.5)
    calls, edges_cut = condense_calls(cell, draw_case(graph, cell.protocol, 1))
    nodes = torch.cat([call.graph["node_index"] for call in calls])
    assert nodes.unique().numel() == nodes.numel() == graph.num_nodes
    assert sum(call.nodes for call in calls) == 40
    assert len({call.seed for call in calls}) == 3
    assert edges_cut is not None
    assert 50 < edges_cut < 80  # two thirds of the edges, at random
    assert isinstance(graph.y, torch.Tensor)
    for call in calls:
        assert call.labels is not None
        train = call.labels.train
        assert call.graph["train_mask"][train].all()
        wrong = call.labels.y[train] != graph.y[call.graph["node_index"][train]]
        assert wrong.float().mean() == pytest.approx(0.5, abs=0.5 / len(train) + 1e-6)
    assert [call.min_cluster for call in calls] == [None] * 3


def test_ours_has_a_minimum_where_files_leave_their_owners() -> None:
    graph = load_graph("demo", seed=1)

    def minimum(**values: Any) -> int | None:
        cell = a_cell(**values)
        return condense_calls(cell, draw_case(graph, cell.protocol, 1))[0][0].min_cluster

    assert minimum(parts=3, partition="random", preset="default") == MIN_CLUSTER
    assert minimum(parts=3, partition="random", preset="paper") is None
    assert minimum(parts=3, partition="none", preset="default") == MIN_CLUSTER  # the same but for the cut
    assert minimum(preset="default") is None


def test_families() -> None:
    graph = load_graph("demo", seed=1)
    shared = {"preset": "default", "family": "demo+cora", "graph": "demo"}

    def seeds(which: str, **values: Any) -> list[int]:
        cell = a_cell(sources=which, **{**shared, **values})
        return [call.seed for call in condense_calls(cell, draw_case(graph, cell.protocol, 1))[0]]

    assert seeds("own") == [1001]
    assert seeds("own", combine="shared-seed") == [1]
    with pytest.raises(SettingError, match="random needs labels of every source"):
        seeds("own", method="random", preset=None)


@pytest.mark.usefixtures("data")
def test_a_record_of_several_sources(tmp_path: Path) -> None:
    options = RunOptions(tmp_path / "records.jsonl", tmp_path / "store")
    cell = a_cell("random", graph="tiny", parts=2, partition="metis", noise=0.0, nodes=24)
    record = run_cell(cell, options)
    assert record["kept_nodes"] == 24
    assert 0 < record["metrics"]["edges_cut"] < 50
    assert len(record["artifact_sha256"].split("+")) == len(record["chosen"]) == 2
    assert record["metrics"]["accuracy"] > 30
    again = run_cell(cell, options)
    assert again["reused"]
    assert again["metrics"] == record["metrics"]


@pytest.mark.usefixtures("data")
def test_an_attack_is_recorded(tmp_path: Path) -> None:
    cell = a_cell(graph="tiny", task="membership", labels=None, release="real-nodes")
    record = run_cell(cell, RunOptions(tmp_path / "records.jsonl", None))
    metrics = record["metrics"]
    assert metrics["auc"] > 0.99
    assert metrics["tpr"] > 0.9
    assert metrics["rows"] == 1.0
    assert {"auc_inversion", "auc_features", "words", "words_others", "rows_others", "rows_exact"} <= set(metrics)
    assert "auc_shadow_classifier" not in metrics  # members are found without


@pytest.mark.usefixtures("data")
def test_nobody_is_recorded_as_found_in_random_rows(tmp_path: Path) -> None:
    cell = a_cell(graph="tiny", task="membership", labels=None, release="random-rows")
    metrics = run_cell(cell, RunOptions(tmp_path / "records.jsonl", None))["metrics"]
    assert {"auc_shadow_classifier", "auc_likelihood_ratio"} <= set(metrics)
    assert metrics["auc_inversion"] == pytest.approx(0.5, abs=0.15)
    assert metrics["rows"] == metrics["rows_exact"] == 0


def test_every_release_of_the_experiment_can_be_made() -> None:
    assert set(load_experiment("membership").levels["release"]) == set(RELEASES)
