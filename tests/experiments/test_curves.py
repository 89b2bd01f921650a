"""Curves show the records' means; the same records give the same bytes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plgc.experiments.canvas import save_svg
from plgc.experiments.curves import draw_curves
from plgc.experiments.end_labels import spread_out
from plgc.experiments.grid import Cell
from plgc.experiments.spec import Experiment, parse_experiment
from plgc.runtime.errors import SettingError

pytest.importorskip("matplotlib")

LEVELS: dict[str, tuple[Any, ...]] = {
    "noise": (0.0, 0.3, 0.9),
    "shots": (1, 5, 20),
    "imbalance": (1.0, 10.0, 50.0),
    "backbone": ("gcn", "sage", "gin"),
}
METHODS = ("plgc", "whole", "propagated_features")


def make_experiment(across: str | None, name: str = "curve") -> Experiment:
    along = f"""across = "{across}"\n[levels]\n{across} = {json.dumps(LEVELS[across])}\n""" if across else ""
    return parse_experiment(
        name,
        f"""
title = "Made up"
task = "node"
methods = {json.dumps(METHODS)}
presets = ["default", "paper"]
about = "What it is."
seeds = 3
{along}
[[graphs]]
name = "cora"
nodes = [35, 70]
[[graphs]]
name = "citeseer"
nodes = [60]
[[graphs]]
name = "pubmed"
nodes = [197]
""",
    )


def make_records(across: str | None, name: str = "curve") -> list[dict[str, Any]]:
    draw = np.random.default_rng(1)
    return [
        {
            "cell": asdict(Cell(name, graph, method, nodes, preset, seed, "node", **level)),
            "metrics": {"accuracy": float(draw.normal(70.0, 2.0))},
            "machine": "CPU, 2 cores",
            "commit": "abc1234",
        }
        for graph, nodes, method, preset in (
            ("cora", 35, "plgc", "default"),
            ("cora", 70, "plgc", "default"),
            ("cora", 70, "plgc", "paper"),
            ("cora", None, "whole", None),
            ("cora", None, "propagated_features", None),
            ("citeseer", 60, "plgc", "default"),
        )
        for level in ([{across: value} for value in LEVELS[across]] if across else [{}])
        for seed in range(3)
    ]


@pytest.mark.parametrize("across", LEVELS)
def test_panels_lines_and_means(across: str) -> None:
    records = make_records(across)
    figure = draw_curves(make_experiment(across), records)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in panels] == ["cora, 35 nodes", "cora, 70 nodes", "citeseer, 60 nodes"]
    names = [axes.get_legend_handles_labels()[1] for axes in panels]
    assert [set(found) for found in names] == [
        {"plgc", "whole", "propagated_features"},
        {"plgc", "plgc (paper preset)", "whole", "propagated_features"},
        {"plgc"},
    ]
    [legend] = figure.legends
    assert sorted(text.get_text() for text in legend.get_texts()) == sorted(names[1])
    found = {
        level: np.mean([r["metrics"]["accuracy"] for r in records if _is(r, "citeseer", "plgc", across, level)])
        for level in LEVELS[across]
    }
    line = next(line for line in panels[2].get_lines() if np.size(line.get_xdata()) == 3)
    np.testing.assert_allclose(np.asarray(line.get_ydata(), float), list(found.values()))
    ticks = [label.get_text() for label in panels[2].get_xticklabels()]
    assert ticks == [level if isinstance(level, str) else f"{level:g}" for level in LEVELS[across]]


def _is(record: dict[str, Any], graph: str, method: str, level: str, value: Any) -> bool:
    cell = record["cell"]
    return (cell["graph"], cell["method"], cell[level]) == (graph, method, value)


def test_noise_is_drawn_to_scale_and_kinds_are_not_joined() -> None:
    noise = draw_curves(make_experiment("noise"), make_records("noise")).axes[2]
    assert list(np.asarray(noise.get_lines()[0].get_xdata(), float)) == [0.0, 0.3, 0.9]
    kinds = draw_curves(make_experiment("backbone"), make_records("backbone")).axes[2]
    assert kinds.get_lines()[0].get_linestyle() == "None"


def test_svg_has_the_same_bytes_every_time(tmp_path: Path) -> None:
    experiment, records = make_experiment("noise"), make_records("noise")
    first = save_svg(draw_curves(experiment, records), tmp_path / "a.svg").read_bytes()
    figure = draw_curves(experiment, records[::-1])
    assert save_svg(figure, tmp_path / "b.svg").read_bytes() == first
    assert b"<svg" in first
    assert b"<dc:date>" not in first


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(SettingError, match="varies no level"):
        draw_curves(make_experiment(None), make_records(None))
    with pytest.raises(SettingError, match="no results of curve yet"):
        draw_curves(make_experiment("noise"), [])


def test_what_no_level_affects_is_in_every_panel() -> None:
    """Ours is cut into parts, whole-graph training and the controls are not: they share a panel and its axis."""
    records = make_records("noise")
    for record in records:
        if record["cell"]["method"] == "plgc":
            record["cell"] |= {"partition": "random"}
    panels = [axes for axes in draw_curves(make_experiment("noise"), records).axes if axes.get_visible()]
    assert [axes.get_title() for axes in panels] == ["cora, 35 nodes", "cora, 70 nodes", "citeseer, 60 nodes"]
    assert {"plgc", "whole", "propagated_features"} <= set(panels[0].get_legend_handles_labels()[1])


def test_every_line_has_its_name_beside_its_end() -> None:
    panel = draw_curves(make_experiment("noise"), make_records("noise")).axes[1]
    names = {text.get_text(): text for text in panel.texts}
    assert set(names) == set(panel.get_legend_handles_labels()[1])
    heights = sorted(text.get_position()[1] for text in names.values())
    assert min(np.diff(heights)) > 0.03


def test_names_are_moved_as_little_as_needed() -> None:
    assert spread_out([0.1, 0.5], 0.1) == [0.1, 0.5]
    np.testing.assert_allclose(spread_out([0.5, 0.5, 0.5], 0.1), [0.4, 0.5, 0.6])
    np.testing.assert_allclose(spread_out([0.2, 0.21, 0.9], 0.1), [0.155, 0.255, 0.9])
