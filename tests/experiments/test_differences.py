"""Paired differences against NumPy and SciPy, and the table of an experiment that is to be above everything."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from scipy import stats

from plgc.experiments.curves import draw_curves
from plgc.experiments.differences import Difference, Draw, less_best, verdict
from plgc.experiments.grid import Cell
from plgc.experiments.spec import Experiment, parse_experiment
from plgc.experiments.summary import summarise
from plgc.experiments.tables import ResultTable, make_table, to_csv, to_markdown, to_text

ABOVE = """
title = "Above all"
task = "node"
methods = ["plgc", "raw_features", "plain_parts", "whole"]
against = ["whole"]
seeds = 3
across = "shots"
[levels]
shots = ["all", 3]
[draws]
3 = 4
[[graphs]]
name = "arxiv_llm_text"
nodes = [20]
[[graphs]]
name = "tolokers"
nodes = [30]
metric = "auroc"
"""
MEANS = {"plgc": 0.80, "raw_features": 0.60, "plain_parts": 0.75, "whole": 0.78}


@pytest.fixture
def above() -> Experiment:
    return parse_experiment("above", ABOVE)


@pytest.fixture
def values() -> dict[tuple[str, str, int | None], np.ndarray]:
    """Every value by graph, method and labels, [seeds, draws]; the GCN has fewer draws."""
    draw = np.random.default_rng(3)
    found = {}
    for graph, factor in (("arxiv_llm_text", 100.0), ("tolokers", 1.0)):
        for method, mean in MEANS.items():
            found[graph, method, None] = factor * draw.normal(mean, 0.002, (3, 1))
            found[graph, method, 3] = factor * draw.normal(mean - 0.1, 0.005, (3, 2 if method == "whole" else 4))
    return found


@pytest.fixture
def records(values: dict[tuple[str, str, int | None], np.ndarray]) -> list[dict[str, Any]]:
    found = []
    for (graph, method, shots), drawn in values.items():
        metric = "auroc" if graph == "tolokers" else "accuracy"
        nodes = {"arxiv_llm_text": 20, "tolokers": 30}[graph] if method == "plgc" else None
        preset = "default" if method == "plgc" else None
        for seed, row in enumerate(drawn):
            cell = Cell("above", graph, method, nodes, preset, seed, "node", shots=shots)
            cell = Cell(**{**asdict(cell), "draws": len(row) if shots else None})
            lists = {metric: list(row)} | ({f"learned_{metric}": list(row - 0.01)} if method == "plgc" else {})
            made = {name: float(np.mean(each)) for name, each in lists.items()}
            each = {"values": lists} if shots else {}
            found.append({"cell": asdict(cell), "metrics": made, **each, "machine": "CPU", "commit": "abc"})
    return found


def shown(table: ResultTable, graph: str, method: str) -> dict[str, str]:
    [row] = [row for row in table.rows if row[0] == graph and row[table.names - 1] == method]
    return dict(zip(table.head, row, strict=True))


def test_the_interval_is_students_over_the_means_of_seeds() -> None:
    draw = np.random.default_rng(1)
    ours, theirs, worse = draw.normal(80, 2, (5, 4)), draw.normal(78, 2, (5, 4)), draw.normal(60, 2, (5, 4))
    keyed = [
        {Draw(seed, 1000 * seed + place): float(found[seed, place]) for seed in range(5) for place in range(4)}
        for found in (ours, theirs, worse)
    ]
    difference = less_best(keyed[0], {"worse": keyed[2], "theirs": keyed[1]})
    assert difference is not None
    assert difference.other == "theirs"
    means = (ours - theirs).mean(1)
    assert difference.mean == pytest.approx(means.mean())
    low, high = stats.t.interval(0.95, 4, means.mean(), stats.sem(means))
    assert difference.interval == pytest.approx((low, high))
    one = less_best({Draw(0, 0): 3.0}, {"a": {Draw(0, 0): 1.0}})
    assert one is not None
    assert (one.mean, one.interval) == (2.0, None)
    assert less_best({Draw(0, 0): 3.0}, {"a": {Draw(1, 0): 1.0}}) is None
    assert less_best({Draw(0, 0): 3.0}, {}) is None


@pytest.mark.parametrize(
    ("values", "word"),
    [([2.0, 3.0, 2.5], "above"), ([-2.0, -3.0, -2.5], "below"), ([-1.0, 2.0, 0.3], "level"), ([5.0], "one seed")],
)
def test_the_word_follows_from_the_interval(values: list[float], word: str) -> None:
    found = Difference("other", {Draw(seed, seed): value for seed, value in enumerate(values)})
    assert verdict(found) == word
    if len(values) > 1:
        low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
        assert {"above": low > 0, "below": high < 0, "level": low <= 0 <= high}[word]


def test_equal_values_are_level() -> None:
    assert verdict(Difference("other", {Draw(0, 0): 0.0, Draw(1, 1): 0.0})) == "level"


def test_draws_are_paired_with_the_same_draws(above: Experiment, records: list[dict[str, Any]], values: Any) -> None:
    for row in summarise(above, records):
        if row.method != "plgc":
            assert row.less_all is None
            continue
        if row.way:
            continue
        ours = values[row.graph, "plgc", row.level("shots")]
        control = values[row.graph, "plain_parts", row.level("shots")]
        whole = values[row.graph, "whole", row.level("shots")]
        assert row.less_control is not None
        assert row.less_all is not None
        assert (row.less_control.other, row.less_all.other) == ("plain_parts", "whole")
        np.testing.assert_allclose(list(row.less_control.values.values()), (ours - control).flatten())
        common = ours[:, : whole.shape[1]] - whole
        np.testing.assert_allclose(list(row.less_all.values.values()), common.flatten())
        assert row.seeds == 3


def test_ours_has_its_learned_part_and_differences_below_it(
    above: Experiment, records: list[dict[str, Any]], values: Any
) -> None:
    table = make_table(above, records)
    assert table.head == ("graph", "nodes", "method", "shots 3", "shots all", "seeds")
    graph = "LLM-text arxiv"
    ours = values["arxiv_llm_text", "plgc", 3]
    assert shown(table, graph, "plgc")["shots 3"] == f"{ours.mean():.1f} ± {ours.std(ddof=1):.1f}"
    assert shown(table, graph, "plgc")["seeds"] == "3"
    learned = shown(table, graph, "plgc, learned part alone")
    assert learned["shots 3"] == f"{ours.mean() - 0.01:.1f} ± {ours.std(ddof=1):.1f}"
    whole = values["arxiv_llm_text", "whole", 3]
    assert shown(table, graph, "whole")["shots 3"] == f"{whole.mean():.1f} ± {whole.std(ddof=1):.1f} (n=6)"
    means = (ours[:, :2] - whole).mean(1)
    low, high = stats.t.interval(0.95, 2, means.mean(), stats.sem(means))
    assert shown(table, graph, "plgc − best of all")["shots 3"] == (
        f"{means.mean():+.1f} [{low:+.1f}, {high:+.1f}] (n=6)"
    )
    assert "label draws of a seed: 4 with 3 per class; n= where a method has fewer values than others" in table.notes
    assert any("Student's t over the means of the seeds" in note for note in table.notes)
    assert shown(table, graph, "plgc − whole")["shots 3"] == f"{means.mean():+.1f} [{low:+.1f}, {high:+.1f}]"
    below = [row[table.names - 1] for row in table.rows if row[0] == graph]
    assert below[-3:] == ["plgc − best control", "plgc − best of all", "plgc − whole"]


def test_auroc_is_shown_in_hundredths_beside_accuracies(
    above: Experiment, records: list[dict[str, Any]], values: Any
) -> None:
    table = make_table(above, records)
    ours = 100 * values["tolokers", "plgc", None]
    assert shown(table, "tolokers", "plgc")["shots all"] == f"{ours.mean():.1f} ± {ours.std(ddof=1):.1f}"
    [note] = [note for note in table.notes if note.startswith("metric")]
    assert note.startswith("metric: accuracy, %, but auroc × 100 on tolokers; mean ± standard deviation over seeds and")
    alone = [record for record in records if record["cell"]["graph"] == "tolokers"]
    assert make_table(above, alone).notes[0].startswith("metric: auroc × 100;")
    lines = list(csv.DictReader(io.StringIO(to_csv(table))))
    ours_in = ("tolokers", "plgc", "", "as published")
    [line] = [ln for ln in lines if (ln["graph"], ln["method"], ln["shots"], ln["way"]) == ours_in]
    assert line["metric"] == "auroc"
    assert float(line["mean"]) == pytest.approx(ours.mean() / 100)
    assert float(line["less_control_low"]) < float(line["less_control"]) < float(line["less_control_high"])
    assert (line["control"], line["best"], line["seeds"]) == ("plain_parts", "whole", "3")
    assert line["less_control_verdict"] == "above"
    panels = {axes.get_title(): axes for axes in draw_curves(above, records).axes}
    assert panels["tolokers, 30 nodes"].get_ylabel() == "auroc × 100"
    assert panels["LLM-text arxiv, 20 nodes"].get_ylabel() == "accuracy, %"
    [low, high] = panels["tolokers, 30 nodes"].get_ylim()
    assert low < ours.mean() < high


def test_cells_below_a_reference_are_named(above: Experiment, records: list[dict[str, Any]]) -> None:
    assert not any(note.startswith("below") for note in make_table(above, records).notes)
    for record in records:
        cell = record["cell"]
        if (cell["graph"], cell["method"], cell["shots"]) == ("tolokers", "whole", None):
            record["metrics"]["auroc"] = 0.9
    [note] = [note for note in make_table(above, records).notes if note.startswith("below")]
    assert note.startswith("below the best of all: tolokers (shots all): -")
    assert note.endswith("to whole")


def test_without_a_level_across_they_have_columns(records: list[dict[str, Any]]) -> None:
    experiment = parse_experiment("above", ABOVE.replace('across = "shots"', ""))
    table = make_table(experiment, records)
    assert {"score", "− best control", "− best of all", "plgc − this"} <= set(table.head)
    rows = [dict(zip(table.head, row, strict=True)) for row in table.rows]
    assert sum(row["method"] == "plgc, learned part alone" for row in rows) == 4
    assert all((row["− best of all"] != "-") == row["method"].startswith("plgc") for row in rows)
    assert all((row["plgc − this"] != "-") != row["method"].startswith("plgc") for row in rows)
    assert len(to_text(table).splitlines()) == len(to_markdown(table).splitlines()) + 2
