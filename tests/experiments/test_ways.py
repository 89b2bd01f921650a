"""Every method in three ways of scoring, and variants beside the default: rows, differences, tables and figures."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from scipy import stats

from plgc.experiments.columns import beside_default
from plgc.experiments.figures import draw_figure
from plgc.experiments.grid import Cell
from plgc.experiments.spec import Experiment, parse_experiment
from plgc.experiments.styles import METHODS, line_style
from plgc.experiments.summary import summarise
from plgc.experiments.tables import make_table, to_csv

SPEC = """
title = "Three ways"
task = "node"
methods = ["plgc", "gecc", "whole", "plain_parts"]
seeds = 4
{across}
[[graphs]]
name = "cora"
nodes = [70]
"""
WAYS = {"plgc": ("", "learned_"), "gecc": ("", "learned_", "parts_"), "whole": ("",), "plain_parts": ("",)}
NOISE = (0.0, 0.9)


@pytest.fixture
def values() -> dict[tuple[str, str, float], np.ndarray]:
    """By method, prefix and noise; GECC is best with our head and the plain parts."""
    draw = np.random.default_rng(5)
    means = {"plgc": 75.0, "gecc": 60.0, "whole": 70.0, "plain_parts": 72.0}
    more = {"": 0.0, "learned_": 2.0, "parts_": 14.0}
    return {
        (method, way, noise): draw.normal(means[method] + more[way], 1.0, 4)
        for method, ways in WAYS.items()
        for way in ways
        for noise in NOISE
    }


def experiment(across: str | None = "noise") -> Experiment:
    level = f'across = "{across}"\n[levels]\n{across} = [0.0, 0.9]' if across else ""
    return parse_experiment("ways", SPEC.format(across=level))


@pytest.fixture
def records(values: Any) -> list[dict[str, Any]]:
    return [
        {
            "cell": asdict(Cell("ways", "cora", method, *_size(method), seed, "node", noise=noise)),
            "metrics": {f"{way}accuracy": values[method, way, noise][seed] for way in ways},
        }
        for method, ways in WAYS.items()
        for noise in NOISE
        for seed in range(4)
    ]


def _size(method: str) -> tuple[int | None, str | None]:
    return (70 if method in ("plgc", "gecc") else None), ("default" if method == "plgc" else None)


def interval(pairs: np.ndarray) -> str:
    low, high = stats.t.interval(0.95, len(pairs) - 1, pairs.mean(), stats.sem(pairs))
    return f"{pairs.mean():+.1f} [{low:+.1f}, {high:+.1f}]"


def shown(table: Any, method: str, column: str) -> str:
    [row] = [row for row in table.rows if row[table.names - 1] == method]
    return row[table.head.index(column)]


def test_every_way_has_a_row(records: list[dict[str, Any]], values: Any) -> None:
    table = make_table(experiment(), records)
    names = ["plgc", "plgc, learned part alone", "gecc", "gecc, our head", "gecc, our head + plain parts"]
    methods = [row[table.names - 1] for row in table.rows]
    assert methods == ["whole", "plain_parts", *names, "plgc − best control", "plgc − whole", "plgc − gecc"]
    rival = values["gecc", "parts_", 0.9]
    shown_rival = shown(table, "gecc, our head + plain parts", "noise 0.9")
    assert shown_rival == f"{rival.mean():.1f} ± {rival.std(ddof=1):.1f}"
    assert shown(table, "plgc − gecc", "noise 0.9") == interval(values["plgc", "", 0.9] - rival)
    assert any(note.startswith("ways of scoring") for note in table.notes)
    assert any("in whichever way of scoring is best for it" in note for note in table.notes)


def test_ways_are_compared_like_with_like(records: list[dict[str, Any]], values: Any) -> None:
    rows = {(row.name, row.level("noise")): row for row in summarise(experiment(), records)}
    for name, rival, own in (
        ("gecc", "", ""),
        ("gecc, our head", "learned_", "learned_"),
        ("gecc, our head + plain parts", "parts_", ""),
    ):
        found = rows[name, 0.9].ours_less
        assert found is not None
        assert found.mean == pytest.approx((values["plgc", own, 0.9] - values["gecc", rival, 0.9]).mean())
    best = rows["gecc", 0.9].ours_less_best
    assert best is not None
    assert best.other == "parts"
    lines = list(csv.DictReader(io.StringIO(to_csv(make_table(experiment(), records)))))
    ways = [line["way"] for line in lines if (line["method"], line["noise"]) == ("gecc", "0.9")]
    assert ways == ["as published", "our head", "our head + plain parts"]
    assert {line["plgc_less_this_verdict"] for line in lines if line["method"] == "gecc"} <= {"above", "level", "below"}


def test_beside_the_paper_every_way_has_its_difference(records: list[dict[str, Any]], values: Any) -> None:
    clean = [record for record in records if record["cell"]["noise"] == 0.0]
    table = make_table(experiment(None), clean)
    alone = values["plgc", "learned_", 0.0] - values["gecc", "learned_", 0.0]
    assert shown(table, "gecc, our head", "plgc − this") == interval(alone)
    assert shown(table, "gecc", "plgc − this") == interval(values["plgc", "", 0.0] - values["gecc", "", 0.0])
    control = values["gecc", "parts_", 0.0] - values["plain_parts", "", 0.0]
    assert shown(table, "gecc, our head + plain parts", "− best control") == interval(control)


def test_records_without_ways_have_a_row_a_method(records: list[dict[str, Any]]) -> None:
    for record in records:
        record["metrics"] = {"accuracy": record["metrics"]["accuracy"]}
    table = make_table(experiment(), records)
    assert not any("our head" in cell or "alone" in cell for row in table.rows for cell in row)
    assert not any(note.startswith(("ways", "learned")) for note in table.notes)


def test_a_figure_has_a_panel_for_every_way(records: list[dict[str, Any]], values: Any) -> None:
    pytest.importorskip("matplotlib")
    panels = {axes.get_title(): axes for axes in draw_figure(experiment(), records).axes}
    ways = ("as published", "our head", "our head + plain parts")
    assert list(panels) == [f"cora, 70 nodes: {way}" for way in ways]
    lines = {name: axes.get_legend_handles_labels()[1] for name, axes in panels.items()}
    assert lines["cora, 70 nodes: as published"] == ["plgc", "whole", "plain_parts", "gecc"]
    assert lines["cora, 70 nodes: our head"] == ["plgc", "plain_parts", "gecc"]
    labels = [text.get_text() for text in panels["cora, 70 nodes: our head"].texts]
    assert sorted(labels) == ["gecc", "plain_parts", "plgc"]
    ours = panels["cora, 70 nodes: our head"].get_lines()
    expected = [values["plgc", "learned_", noise].mean() for noise in NOISE]
    assert any(
        np.allclose(np.asarray(line.get_ydata(), float), expected) for line in ours if len(line.get_xdata()) == 2
    )


def test_links_have_our_pair_head_in_every_way(records: list[dict[str, Any]]) -> None:
    pytest.importorskip("matplotlib")
    text = SPEC.format(across='across = "noise"\n[levels]\nnoise = [0.0, 0.9]').replace('"node"', '"link"')
    links = parse_experiment("ways", text)
    for record in records:
        record["cell"]["task"] = "link"
        if record["cell"]["method"] == "gecc":
            del record["metrics"]["learned_accuracy"]
    table = make_table(links, records)
    ways = [line["way"] for line in table.lines if (line["method"], line["noise"]) == ("gecc", 0.9)]
    assert ways == ["our head", "our head + plain parts"]
    assert any("a method's own row has our pair head on its embedding" in note for note in table.notes)
    titles = [axes.get_title() for axes in draw_figure(links, records).axes]
    assert titles == ["cora, 70 nodes: our head", "cora, 70 nodes: our head + plain parts"]


def test_methods_differ_in_colour_and_in_marker() -> None:
    styles = [line_style(method) for method in METHODS]
    assert len({style["color"] for style in styles}) == len(styles)
    assert len({(style["marker"], style["markerfacecolor"] == "white") for style in styles}) == len(styles)


@pytest.fixture
def varied() -> tuple[Experiment, list[dict[str, Any]], dict[tuple[str, int | None], np.ndarray]]:
    """An experiment of two variants beside the default, with all labels and with three."""
    made = parse_experiment("varied", SPEC.format(across='across = "shots"\n[levels]\nshots = ["all", 3]'))
    object.__setattr__(made, "levels", {"variant": ("default", "worse", "same"), **made.levels})
    draw, records, values = np.random.default_rng(2), [], {}
    for variant, mean in (("default", 70.0), ("worse", 60.0), ("same", 70.0)):
        for shots in (None, 3):
            values[variant, shots] = draw.normal(mean, 1.0, 4)
            for seed, value in enumerate(values[variant, shots]):
                cell = asdict(Cell("varied", "cora", "plgc", 70, "default", seed, "node", shots=shots))
                records.append({"cell": {**cell, "variant": variant}, "metrics": {"accuracy": float(value)}})
    return made, records, values


def test_variants_are_compared_with_the_default(varied: Any) -> None:
    made, records, values = varied
    head, lines = beside_default(made, summarise(made, records), {})
    assert head == ["shots 3", "shots 3 − default", "shots all", "shots all − default", "seeds"]
    cells = {line.members[0].level("variant"): dict(zip(head, line.cells, strict=True)) for line in lines}
    assert list(cells) == ["default", "worse", "same"]
    assert cells["default"]["shots 3 − default"] == "-"
    assert cells["worse"]["shots 3 − default"] == interval(values["worse", 3] - values["default", 3])
    assert cells["same"]["shots all − default"] == interval(values["same", None] - values["default", None])
    assert cells["worse"]["seeds"] == "4"


def test_variants_are_drawn_as_differences(varied: Any) -> None:
    pytest.importorskip("matplotlib")
    made, records, values = varied
    figure = draw_figure(made, records)
    [panel] = [axes for axes in figure.axes if axes.get_visible()]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["worse", "same"]
    assert panel.get_legend_handles_labels()[1] == ["labels per class: 3", "labels per class: all"]
    means = [(values[name, 3] - values["default", 3]).mean() for name in ("worse", "same")]
    points = [np.asarray(line.get_xdata(), float) for line in panel.get_lines()]
    assert any(found.shape == (2,) and np.allclose(found, means) for found in points)
