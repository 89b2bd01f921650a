"""Scores: which row the summary gives for the files, and when a margin counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.evaluation.claims import claim
from plgc.evaluation.over_seeds import evaluate
from plgc.graphs import training_edges
from plgc.report.facts.files import FileFacts
from plgc.report.facts.scores import Score, Scores, score_files
from plgc.report.formatting import signed
from plgc.report.inputs import ReportOptions, open_inputs
from plgc.report.sections.accuracy import verdict
from plgc.report.sections.health import ATTENTION, GOOD, NEUTRAL, checks


def scores(*values: float, nodes: int = 900) -> Scores:
    """A file with these accuracies beside the whole graph (80) and two controls (70 and 81), on so many nodes."""
    ours = Score("plgc", sum(values) / len(values), None, values)
    others = {"whole graph": 80.0, "a": 70.0, "b": 81.0}
    rows = [Score(name, mean, None, (mean,) * len(values), "control") for name, mean in others.items()]
    rows[0] = replace(rows[0], role="whole")
    gains = {name: torch.zeros(nodes, dtype=torch.float64) for name in others}
    for name, mean in others.items():  # as many nodes gain, or lose, as the means say
        gains[name][: round(nodes * abs(ours.mean - mean) / 100)] = 100.0 if ours.mean > mean else -100.0
    claims = {name: claim(values, [mean] * len(values), gains[name]) for name, mean in others.items()}
    return Scores("node", "accuracy", None, "", [ours, *rows], claims)


def test_a_margin_carries_what_it_rests_on() -> None:
    clear = scores(84.0, 84.2, 84.1)
    assert clear.control.name == "b"
    low, high = (signed(value) for value in clear.claims["b"].interval or ())
    assert f"With all labels: 3.1 points (95 %: {low} to {high}) above the best control (b); 4.1 points" in verdict(
        clear
    )
    assert ") above a GNN trained on the whole graph." in verdict(clear)
    assert verdict(clear).endswith("This rests on 3 seeds, 900 test nodes.")
    assert ") below the best control" in verdict(scores(70.0, 70.0, 70.0))


def test_what_cannot_be_told_is_not_called_above() -> None:
    chance = scores(80.0, 83.0, 81.0)
    assert "the difference to the best control (b) cannot be told from 900 nodes" in verdict(chance)
    few = scores(100.0, 100.0, 100.0, nodes=6)
    assert "cannot be told from 6 nodes" in verdict(few)
    single = scores(99.0)
    assert "18.0 points above the best control (b), which one seed cannot tell from chance" in verdict(single)


def test_checks_do_not_count_a_handful_of_nodes_or_one_seed(condensed: plgc.CondensedGraph) -> None:
    file = FileFacts("ours", condensed, 1, "")
    for given, kind, words in (
        (scores(84.0, 84.2, 84.1), GOOD, "It is above the best control, by the 95 % interval over 3 seeds, 900"),
        (scores(80.0, 83.0, 81.0), ATTENTION, "It is not above the best control"),
        (scores(100.0, 100.0, 100.0, nodes=6), NEUTRAL, "cannot be told from 3 seeds, 6 test nodes"),
        (scores(99.0), NEUTRAL, "cannot be told from 1 seed, 900 test nodes"),
    ):
        [found] = [check for check in checks(file, [given]) if "control" in check[1]]
        assert found[0] == kind
        assert words in found[1]


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
    (node, few, link), _ = score_files(inputs.sources, inputs.graph, options)
    assert (node.task, few.shots, link.metric) == ("node", 2, "auroc")
    expected = evaluate([made], graph, task="link", first_seed=2)
    assert link.best.mean == expected["auroc"]["mean"]
    assert few.best.mean == evaluate([made], graph, shots=2, first_seed=2)["accuracy"]["mean"]
