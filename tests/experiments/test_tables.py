"""Tables against NumPy: means, spreads, paired differences, the paper's numbers, and what is missing."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from plgc.experiments.grid import Cell
from plgc.experiments.numbers import mean_std
from plgc.experiments.spec import Experiment, load_experiment, parse_experiment
from plgc.experiments.tables import ResultTable, make_table, to_csv, to_markdown, to_text
from plgc.runtime.errors import SettingError

GRID = """
title = "A table"
task = "node"
methods = ["plgc", "random", "whole", "propagated_features", "random_encoder"]
presets = ["default", "paper"]
seeds = 3

[[graphs]]
name = "cora"
nodes = [35, 70]
ratios = ["1.3 %", "2.6 %"]
[graphs.paper]
plgc = [[81.1, 0.7], [81.6, 0.6]]
gcond = [[79.8, 1.2], [80.1, 0.6]]
whole = [[81.2, 0.2]]

[[graphs]]
name = "citeseer"
nodes = [30]

[[graphs]]
name = "nowhere"
nodes = [30]
"""
CURVE = """
title = "A curve"
task = "node"
methods = ["plgc", "whole"]
seeds = 3
across = "shots"

[levels]
shots = [1, 3]

[[graphs]]
name = "cora"
nodes = [70]
"""


def make_cell(experiment: str, method: str, seed: int, nodes: int | None = None, **other: Any) -> Cell:
    preset = other.pop("preset", "default" if method == "plgc" else None)
    graph = other.pop("graph", "cora")
    return Cell(experiment, graph, method, nodes, preset, seed, other.pop("task", "node"), **other)


def make_record(cell: Cell, value: float, metric: str = "accuracy", **other: Any) -> dict[str, Any]:
    made_with = {"machine": "CPU, 2 cores", "commit": "abc1234"}
    return {"cell": asdict(cell), "metrics": {metric: value, "macro_f1": value / 2}, **made_with, **other}


def column(table: ResultTable, name: str, **where: str) -> list[str]:
    """A column's cells in the rows that have these values."""
    rows = [dict(zip(table.head, row, strict=True)) for row in table.rows]
    return [row[name] for row in rows if all(row[key] == value for key, value in where.items())]


def interval(pairs: np.ndarray) -> str:
    low, high = stats.t.interval(0.95, len(pairs) - 1, pairs.mean(), stats.sem(pairs))
    return f"{pairs.mean():+.1f} [{low:+.1f}, {high:+.1f}]"


@pytest.fixture
def grid() -> Experiment:
    return parse_experiment("grid", GRID)


@pytest.fixture
def values() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0).normal
    means = {"plgc": 82.0, "whole": 81.0, "propagated_features": 80.0, "random_encoder": 70.0}
    return {method: draw(mean, 1.0, 3) for method, mean in means.items()}


@pytest.fixture
def records(values: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    return [
        make_record(make_cell("grid", method, seed, 70 if method == "plgc" else None), float(value))
        for method, found in values.items()
        for seed, value in enumerate(found)
    ]


def test_means_and_spreads_are_those_of_numpy(
    grid: Experiment, records: list[dict[str, Any]], values: dict[str, np.ndarray]
) -> None:
    table = make_table(grid, records)
    for method, found in values.items():
        nodes = "70" if method == "plgc" else "-"
        expected = f"{found.mean():.1f} ± {found.std(ddof=1):.1f}"
        assert column(table, "accuracy", method=method, nodes=nodes) == [expected]
        assert column(table, "seeds", method=method, nodes=nodes) == ["3"]
    assert column(table, "ratio", method="plgc", nodes="70") == ["2.6 %"]
    assert mean_std([5.0]) == (5.0, None)


def test_papers_numbers_have_their_own_column(
    grid: Experiment, records: list[dict[str, Any]], values: dict[str, np.ndarray]
) -> None:
    table = make_table(grid, records)
    assert column(table, "paper", method="plgc", nodes="70") == ["81.6 ± 0.6"]
    assert column(table, "− paper", method="plgc", nodes="70") == [interval(values["plgc"] - 81.6)]
    assert column(table, "− paper", method="whole") == [interval(values["whole"] - 81.2)]
    assert column(table, "paper", method="gcond") == ["79.8 ± 1.2", "80.1 ± 0.6"]
    assert column(table, "accuracy", method="gcond") == ["-", "-"]
    assert column(table, "accuracy", method="plgc", nodes="35") == ["not run"]
    assert any("paper's own figures" in note for note in table.notes)


def test_papers_numbers_are_of_one_metric_and_one_level(grid: Experiment, records: list[dict[str, Any]]) -> None:
    assert "paper" not in make_table(grid, records, "macro_f1").head
    several = replace(grid, levels={"shots": (1, 3)})
    shots = [{**record, "cell": {**record["cell"], "shots": 3}} for record in records]
    assert "paper" not in make_table(several, shots).head


def test_difference_to_the_better_control_is_paired(
    grid: Experiment, records: list[dict[str, Any]], values: dict[str, np.ndarray]
) -> None:
    table = make_table(grid, records)
    pairs = values["plgc"] - values["propagated_features"]
    assert column(table, "− best control", method="plgc", nodes="70") == [interval(pairs)]
    assert column(table, "plgc − this", method="propagated_features") == [interval(pairs)]
    assert column(table, "− best control", method="propagated_features") == ["-"]
    [line] = [line for line in table.lines if line["method"] == "plgc" and line["nodes"] == 70]
    assert line["control"] == "propagated_features"
    assert line["less_control"] == pytest.approx(pairs.mean())


def test_the_best_control_is_over_those_that_were_run(grid: Experiment, records: list[dict[str, Any]]) -> None:
    """Records with two controls say what they said before; others are compared with all they have."""

    def note(records: list[dict[str, Any]]) -> str:
        [found] = [text for text in make_table(grid, records).notes if text.startswith("− best control")]
        return found

    def with_control(name: str, value: float) -> list[dict[str, Any]]:
        return [make_record(make_cell("grid", name, seed, None), value + seed) for seed in range(3)]

    two = "random_encoder and propagated_features"
    assert note(records) == f"− best control: less the better of {two} on the same labels, by their means"
    four = [*records, *with_control("raw_features", 60.0), *with_control("plain_parts", 81.5)]
    assert "less the best of random_encoder, propagated_features, raw_features and plain_parts on" in note(four)
    [line] = [line for line in make_table(grid, four).lines if line["method"] == "plgc" and line["nodes"] == 70]
    assert line["control"] == "plain_parts"
    assert line["less_control"] == pytest.approx(line["mean"] - 82.5)
    ours = [record for record in records if record["cell"]["method"] == "plgc"]
    assert "less raw_features on" in note([*ours, *with_control("raw_features", 60.0)])


def test_pairs_share_seed_graph_and_levels(grid: Experiment, records: list[dict[str, Any]]) -> None:
    def controls(changes: dict[str, Any]) -> list[dict[str, Any]]:
        ours = [record for record in records if record["cell"]["method"] == "plgc"]
        return ours + [
            {**record, "cell": {**record["cell"], **changes}}
            for record in records
            if record["cell"]["method"] == "propagated_features"
        ]

    assert "− best control" in make_table(grid, controls({})).head
    for other in ({"shots": 3}, {"graph": "citeseer"}, {"backbone": "sage"}, {"inductive": True}):
        assert "− best control" not in make_table(grid, controls(other)).head
    fewer = [record for record in controls({}) if record["cell"]["method"] == "plgc" or record["cell"]["seed"] < 2]
    [cell] = column(make_table(grid, fewer), "− best control", method="plgc", nodes="70")
    assert cell.endswith("(n=2)")


def test_presets_are_named_and_compared_with_the_same_number(grid: Experiment, records: list[dict[str, Any]]) -> None:
    letter = [make_record(make_cell("grid", "plgc", seed, 70, preset="paper"), 75.0 + seed) for seed in range(3)]
    table = make_table(grid, records + letter)
    assert column(table, "accuracy", method="plgc (paper preset)") == ["76.0 ± 1.0"]
    assert column(table, "− paper", method="plgc (paper preset)") == [interval(np.array([75.0, 76.0, 77.0]) - 81.6)]


def test_graphs_without_records_are_not_filled(grid: Experiment, records: list[dict[str, Any]]) -> None:
    table = make_table(grid, records)
    assert column(table, "accuracy", graph="citeseer") == ["not run"]
    assert column(table, "accuracy", graph="nowhere") == ["graph not available"]
    assert column(make_table(grid, records, unavailable=["citeseer"]), "accuracy", graph="citeseer") == [
        "graph not available"
    ]
    assert column(make_table(grid, records, unavailable=()), "accuracy", graph="nowhere") == ["not run"]
    empty = make_table(grid, [])
    assert [row[0] for row in empty.rows] == ["cora", "citeseer", "nowhere"]
    assert set(column(empty, "accuracy", graph="cora")) == {"not run"}


def test_failures_are_shown_once_with_their_message(grid: Experiment, records: list[dict[str, Any]]) -> None:
    failed = [{"cell": asdict(make_cell("grid", "random", seed, 35)), "error": "too few labels"} for seed in range(3)]
    failed.append({"cell": asdict(make_cell("grid", "random", 1, 70)), "error": "too few labels"})
    failed.append({"cell": asdict(make_cell("grid", "random", 2, 70)), "error": "out of memory\nmore of it"})
    table = make_table(grid, [*records, *failed, make_record(make_cell("grid", "random", 0, 70), 60.0)])
    assert column(table, "accuracy", method="random", nodes="35") == ["failed [1]"]
    assert column(table, "accuracy", method="random", nodes="70") == ["60.0, 2 failed [1][2]"]
    assert [note for note in table.notes if note.startswith("[")] == ["[1] too few labels", "[2] out of memory"]


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("/home/someone/data/cora.npz: it has no edge_index", "…: it has no edge_index"),
        ("cannot write into '../runs/x y': full", "cannot write into '… y': full"),
        ("see ~/.cache/plgc (no space)", "see … (no space)"),
        (r"C:\Users\someone\x.npz is damaged", "… is damaged"),
        ("looked in PLGC_DATA (/data/graphs), not found", "looked in PLGC_DATA (…), not found"),
        ("12 / 3 train/val nodes from https://example.org/x.", "12 / 3 train/val nodes from https://example.org/x."),
    ],
)
def test_footnotes_do_not_say_where_files_are(grid: Experiment, message: str, shown: str) -> None:
    failed = {"cell": asdict(make_cell("grid", "random", 0, 35)), "error": message}
    table = make_table(grid, [failed])
    assert f"[1] {shown}" in table.notes
    assert [line["error"] for line in table.lines if line["method"] == "random"] == [shown]


def test_where_the_paper_ran_out_of_memory_it_says_so() -> None:
    experiment = load_experiment("table3")
    record = make_record(make_cell("table3", "plgc", 0, 4618, graph="reddit", inductive=True), 90.0)
    table = make_table(experiment, [record])
    assert column(table, "paper", graph="reddit", method="gcond") == ["88.0 ± 1.8", "90.1 ± 0.5", "out of memory"]
    assert column(table, "− paper", graph="reddit", method="plgc", nodes="4618") == ["-3.3 (one seed)"]
    [line] = [line for line in table.lines if line["method"] == "gcond" and line["nodes"] == 4618]
    assert (line["paper_mean"], line["less_paper"]) == (None, None)
    assert "out of memory" in to_markdown(table)


def test_along_a_level_differences_are_below_the_values() -> None:
    curve = parse_experiment("curve", CURVE)
    records = [
        make_record(make_cell("curve", method, seed, 70 if method == "plgc" else None, shots=1), value + seed)
        for method, value in (("plgc", 70.0), ("random_encoder", 60.0))
        for seed in range(2)
    ]
    table = make_table(curve, records)
    assert "− best control: less random_encoder on the same labels, by their means" in table.notes
    assert column(table, "shots 1", method="plgc − best control") == ["+10.0 [+10.0, +10.0]"]
    assert [line["less_control"] for line in table.lines] == [None, 10.0]
    assert not any("−" in row[table.names - 1] for row in make_table(curve, records[:2]).rows)


def test_notes_name_seeds_machines_commits_and_cells(grid: Experiment, records: list[dict[str, Any]]) -> None:
    records[0]["machine"], records[0]["commit"] = "NVIDIA H200", None
    notes = make_table(grid, records).notes
    assert "metric: accuracy, %; mean ± standard deviation over seeds (n − 1)" in notes
    assert "seeds: 3" in notes
    assert "machines: CPU, 2 cores; NVIDIA H200" in notes
    assert "commits: abc1234; unknown" in notes
    # 3 seeds of (plgc: 2 presets, random) at 2 sizes and 3 references, and twice the same with 1 size
    assert f"cells: 12 of {3 * (3 * 2 + 3 + 2 * (3 + 3))} done" in notes


def test_a_table_of_several_versions_says_so(grid: Experiment, records: list[dict[str, Any]]) -> None:
    of_one = [{**record, "version": "0.1.0"} for record in records]
    assert not any("version" in note for note in make_table(grid, of_one).notes)
    edited = [{**of_one[0], "version": "0.0.9"}, *of_one[1:]]
    assert "not all of one version of plgc: 0.0.9; 0.1.0" in make_table(grid, edited).notes


def test_levels_run_along_the_row_and_ragged_seeds_are_counted() -> None:
    curve = parse_experiment("curve", CURVE)
    records = [
        make_record(make_cell("curve", "plgc", seed, 70, shots=shots), 70.0 + 10 * shots + seed)
        for shots in (1, 3)
        for seed in range(3)
    ]
    records += [make_record(make_cell("curve", "whole", seed, shots=3), 60.0 + seed) for seed in range(2)]
    records += [make_record(make_cell("curve", "whole", seed), 80.0) for seed in range(3)]
    table = make_table(curve, records)
    assert table.head == ("graph", "nodes", "method", "shots 1", "shots 3", "shots all")
    assert table.rows == (
        ("cora", "-", "whole", "-", "60.5 ± 0.7 (n=2)", "80.0 ± 0.0"),
        ("cora", "70", "plgc", "81.0 ± 1.0", "101.0 ± 1.0", "-"),
        ("cora", "-", "plgc − whole", "-", "+40.0 [+40.0, +40.0]", "-"),
    )
    assert "seeds: 2 to 3 (n= where there are fewer)" in table.notes


def test_levels_that_vary_have_a_column(grid: Experiment, records: list[dict[str, Any]]) -> None:
    assert "backbone" not in make_table(grid, records).head
    sage = [make_record(make_cell("grid", "plgc", 0, 70, backbone="sage"), 50.0)]
    table = make_table(grid, records + sage)
    assert column(table, "accuracy", backbone="sage") == ["50.0"]
    assert len(column(table, "accuracy", backbone="gcn", method="plgc", nodes="70")) == 1


def test_figures_between_0_and_1_have_three_digits() -> None:
    experiment = parse_experiment("grid", GRID.replace('task = "node"', 'task = "link"\nmetric = "auroc"'))
    records = [
        make_record(make_cell("grid", "plgc", seed, 30, graph="citeseer", task="link"), 0.9 + seed / 100, "auroc")
        for seed in range(2)
    ]
    table = make_table(experiment, records)
    assert column(table, "auroc", graph="citeseer") == ["0.905 ± 0.007"]
    assert any(note.startswith("metric: auroc;") for note in table.notes)


def test_csv_reads_back(grid: Experiment, records: list[dict[str, Any]], values: dict[str, np.ndarray]) -> None:
    records.append({"cell": asdict(make_cell("grid", "random", 0, 35)), "error": 'a "comma", and more'})
    lines = list(csv.DictReader(io.StringIO(to_csv(make_table(grid, records)))))
    assert len(lines) == len(values) + 1 + 1 + 2  # one failed, ours at the size that was not run, and gcond
    [ours] = [line for line in lines if line["method"] == "plgc" and line["nodes"] == "70"]
    np.testing.assert_array_equal([float(value) for value in ours["values"].split()], values["plgc"])
    assert float(ours["mean"]) == pytest.approx(values["plgc"].mean())
    assert float(ours["std"]) == pytest.approx(values["plgc"].std(ddof=1))
    assert float(ours["less_paper"]) == pytest.approx(values["plgc"].mean() - 81.6)
    assert (ours["preset"], ours["seeds"], ours["backbone"], ours["shots"]) == ("default", "3", "gcn", "")
    assert (ours["machine"], ours["commit"]) == ("CPU, 2 cores", "abc1234")
    rival = [line for line in lines if line["method"] == "gcond"]
    assert [(line["paper_mean"], line["mean"], line["seeds"]) for line in rival] == [
        ("79.8", "", "0"),
        ("80.1", "", "0"),
    ]
    assert [line["error"] for line in lines if line["method"] == "random"] == ['a "comma", and more']


def test_markdown_and_text_have_every_row(grid: Experiment, records: list[dict[str, Any]]) -> None:
    table = make_table(grid, records)
    rows = [line for line in to_markdown(table).splitlines() if line.startswith("|")]
    assert len(rows) == len(table.rows) + 2
    assert {line.count("|") for line in rows} == {len(table.head) + 1}
    text = to_text(table).splitlines()
    assert text[0] == "grid: A table"
    assert len(text) == 2 + 2 + len(table.rows) + 1 + len(table.notes)
    assert all("graph not available" in line for line in text if line.startswith("nowhere"))


def test_records_of_elsewhere_are_left_out(grid: Experiment, records: list[dict[str, Any]]) -> None:
    foreign = [make_record(make_cell("other", "plgc", 5, 70), 1.0), make_record(make_cell("grid", "plgc", 5, 99), 1.0)]
    foreign.append(make_record(make_cell("grid", "plgc", 5, 70, graph="actor"), 1.0))
    assert make_table(grid, records + foreign).rows == make_table(grid, records).rows
    assert make_table(grid, records[::-1]) == make_table(grid, records)


def test_unknown_metric_is_refused(grid: Experiment, records: list[dict[str, Any]]) -> None:
    with pytest.raises(SettingError, match="no metric 'auroc' in the records: choose accuracy, macro_f1"):
        make_table(grid, records, "auroc")


def test_markdown_takes_nothing_in_a_table_for_markup() -> None:
    table = ResultTable("t", ("method", "accuracy"), (("a|b", "2 failed [1][2]"),), 1, ("[1] no",), ())
    assert to_markdown(table).splitlines()[2:] == [r"| a\|b | 2 failed \[1\]\[2\] |", "", r"- \[1\] no"]
