"""Scores: which row the summary gives for the files, and when a margin counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from torch_geometric.data import Data

import plgc
from plgc.evaluation.over_seeds import evaluate
from plgc.graphs import training_edges
from plgc.report.facts.scores import Score, Scores, score_files
from plgc.report.inputs import ReportOptions, open_inputs
from plgc.report.sections.accuracy import verdict


def scores(*values: float) -> Scores:
    ours = Score("plgc", sum(values) / len(values), None, values)
    rows = [ours, Score("whole graph", 80.0, None, (80.0,) * len(values), "whole")]
    rows += [Score(name, mean, None, (mean,) * len(values), "control") for name, mean in (("a", 70.0), ("b", 81.0))]
    return Scores("node", "accuracy", None, "", rows)


def test_a_margin_has_to_be_more_than_chance() -> None:
    clear = scores(82.0, 82.2, 82.1)
    assert clear.control.name == "b"
    assert clear.margin(clear.control) == pytest.approx((1.1, 0.1))
    assert clear.beats(clear.control)
    assert verdict(clear) == (
        "With all labels: 1.1 ± 0.1 points above the best control (b), "
        "2.1 ± 0.1 points above a GNN trained on the whole graph."
    )
    chance = scores(80.0, 83.0, 81.0)
    assert chance.margin(chance.control)[0] > 0
    assert not chance.beats(chance.control)
    assert scores(81.5).beats(scores(81.5).control)
    assert "level with the best control" in verdict(scores(81.0))
    assert "11.0 points below the best control" in verdict(scores(70.0))


def test_the_combined_score_comes_first() -> None:
    found = scores(82.0)
    both = replace(found, rows=[*found.rows, Score("all 2", 75.0, None, (75.0,), "combined")])
    assert found.best.name == "plgc"
    assert both.best.name == "all 2"


@pytest.mark.slow
def test_links_where_edges_were_hidden(small: Data, graph: Path, tmp_path: Path) -> None:
    made = plgc.condense(training_edges(small, 1), nodes=12)
    file = made.save(tmp_path / "link.safetensors")
    options = ReportOptions(graph=graph, seeds=1, seed=2, shots=2)
    inputs = open_inputs([file], options)
    assert inputs.graph is not None
    node, few, link = score_files(inputs.sources, inputs.graph, options)
    assert (node.task, few.shots, link.metric) == ("node", 2, "auroc")
    expected = evaluate([made], graph, task="link", first_seed=2)
    assert link.best.mean == expected["auroc"]["mean"]
    assert few.best.mean == evaluate([made], graph, shots=2, first_seed=2)["accuracy"]["mean"]
