"""Curves show the records' means; the same records give the same bytes; the published page follows its records."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from plgc.experiments.canvas import save_svg
from plgc.experiments.curves import draw_curves
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


@pytest.fixture
def publish(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "publish.py"
    spec = importlib.util.spec_from_file_location("publish", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    shipped = [make_experiment("noise"), make_experiment(None, "grid"), make_experiment(None, "later")]
    monkeypatch.setattr(module, "list_experiments", lambda: shipped)
    return module


def write_records(folder: Path, records: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True)
    path = folder / "records.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_page_follows_its_records(publish: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, docs = tmp_path / "results", tmp_path / "docs"
    write_records(results / "curve", make_records("noise"))
    path = write_records(results / "grid", make_records(None, "grid"))
    where = ["--results", str(results), "--docs", str(docs), "--readme", str(tmp_path / "README.md")]
    assert publish.main([*where, "--check"]) == 1
    assert publish.main(where) == 0
    assert publish.main([*where, "--check"]) == 0
    page = (docs / "results.md").read_text(encoding="utf-8")
    assert "## curve: Made up\n\nWhat it is.\n\n| graph" in page
    assert "![Made up](figures/curve.svg)" in page
    assert "figures/grid.svg" not in page
    assert "plgc experiment run grid --out results/grid" in page
    assert page.index("## Not yet run") < page.index("- `later`: Made up")
    assert str(tmp_path) not in page

    capsys.readouterr()
    record = json.loads(path.read_text().splitlines()[0])
    record["cell"]["seed"] = 3
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")
    assert publish.main([*where, "--check"]) == 1
    assert "not what the records say" in capsys.readouterr().err
    assert (docs / "results.md").read_text(encoding="utf-8") == page  # a check writes nothing


def test_page_holds_the_summary_and_needs_its_figures(publish: ModuleType, tmp_path: Path) -> None:
    write_records(tmp_path / "results" / "curve", make_records("noise"))
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "results_summary.md").write_text("## In short\n\nBy hand, *verbatim*.\n", encoding="utf-8")
    readme = tmp_path / "README.md"
    where = ["--results", str(tmp_path / "results"), "--docs", str(docs), "--readme", str(readme)]
    assert publish.main(where) == 0
    page = (docs / "results.md").read_text(encoding="utf-8")
    assert page.index("# Results") < page.index("## In short\n\nBy hand, *verbatim*.\n") < page.index("## curve")
    (docs / "figures" / "curve.svg").unlink()
    assert publish.main([*where, "--check"]) == 1
