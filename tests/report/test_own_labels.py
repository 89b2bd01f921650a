"""The report on a table with labels and no split: cross-validated over every label, class by class."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from report_pages import read_page

import plgc
from plgc.report.build import render_page, report_facts
from plgc.report.charts import cell_chart
from plgc.report.facts import ReportFacts
from plgc.report.inputs import ReportOptions
from plgc.report.sections.classes import DRAWN, OTHERS, largest


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 90 nodes in three groups, 2 labels each, and a file condensed from them."""
    folder = tmp_path_factory.mktemp("table")
    rng, group = np.random.default_rng(0), np.arange(90) % 3
    rows = [
        f"n{i},{rng.normal(group[i]):.3f},{rng.normal(-group[i]):.3f},{f'kind{group[i]}' if i < 6 else ''}"
        for i in range(90)
    ]
    (folder / "nodes.csv").write_text("id,a,b,label\n" + "\n".join(rows) + "\n")
    edges = [f"n{i},n{j}" for i in range(90) for j in rng.choice(90, 3) if group[i] == group[j]]
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(edges) + "\n")
    graph = plgc.load_graph(folder / "edges.csv", nodes_table=folder / "nodes.csv")
    plgc.condense(graph, nodes=6).save(folder / "mine.safetensors")
    return folder


@pytest.fixture(scope="module")
def facts(table: Path) -> ReportFacts:
    options = ReportOptions(
        graph=table / "edges.csv", nodes_table=table / "nodes.csv", seeds=2, title="Our customers", shots=2
    )
    return report_facts([table / "mine.safetensors"], options)


def test_every_label_counts_once(facts: ReportFacts) -> None:
    [scores] = facts.scores
    assert scores.setting == "edges: all 6 labels, 3 classes; cross-validated; 6 test nodes, 2 seeds"
    assert scores.answers is not None
    assert scores.answers["nodes"] == 6
    assert np.array(scores.answers["confusion"]).sum() == 12  # each node once a seed
    assert [one["nodes"] for one in scores.answers["classes"]] == [2, 2, 2]
    assert all(claim.nodes == 6 and claim.seeds == 2 for claim in scores.claims.values())
    assert set(scores.claims) == {row.name for row in scores.rows if row.role in ("whole", "control")}


def test_the_page_has_classes_confusion_calibration_and_its_title(facts: ReportFacts) -> None:
    page = render_page(facts)
    found = read_page(page)
    assert "<h1>Our customers</h1>" in page
    assert "<title>Our customers</title>" in page
    assert "Class by class, with all labels" in found.text
    scores = facts.scores[0]
    assert scores.answers is not None
    for one in scores.answers["classes"]:
        numbers = ["–" if one[name] is None else f"{one[name]:.1f}" for name in ("precision", "recall", "f1")]
        assert f"{one['class']} 2 {' '.join(numbers)}" in found.text
    assert f"expected calibration error {scores.answers['calibration']['ece']:.1f}" in found.text
    assert "What is taken for what" in found.text
    assert page.count('class="cell"') == 9
    assert "cannot be told from 2 seeds, 6 test nodes" in found.text  # fewer than thirty: no check counts it
    assert "No label can be held out" in found.text  # two per class: all of them are learned from
    legend = re.findall(r'<ul class="legend" data-for="label" hidden>(.*?)</ul>', page, re.DOTALL)[0]
    assert re.findall(r"</i>(.*?)</li>", legend) == ["kind0", "kind1", "kind2", "unlabelled"]


@pytest.mark.slow
def test_controls_are_fitted_once_for_several_files(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[str] = []
    original = plgc.evaluation.runs.learn

    def counted(method: str, *given: object, **options: object) -> object:
        learned.append(method)
        return original(method, *given, **options)

    monkeypatch.setattr("plgc.evaluation.runs.learn", counted)
    copy = table / "copy.safetensors"
    copy.write_bytes((table / "mine.safetensors").read_bytes())
    options = ReportOptions(graph=table / "edges.csv", nodes_table=table / "nodes.csv", seeds=1)
    [scores] = report_facts([table / "mine.safetensors", copy], options).scores
    assert learned.count("plain_parts") == 1
    assert learned.count("whole") == 2  # one for every fold
    one, other = scores.of("file")
    assert one.values == other.values


def test_many_classes_are_added_up() -> None:
    counts = np.random.default_rng(0).integers(0, 50, (20, 20))
    names, added = largest([f"c{place}" for place in range(20)], counts.tolist())
    assert len(names) == DRAWN
    assert names[-1] == OTHERS
    assert np.array(added).sum() == counts.sum()
    chart = cell_chart("id", "title", names, added, rows="true class", columns="predicted class")
    assert len(chart.content) == DRAWN
    assert all(abs(sum(row) - 1) < 1e-9 for _, row in chart.content)
    right = 100 * added[0][0] / sum(added[0])
    assert f"{names[0]}: {right:.0f} % right, most often taken for " in chart.description
