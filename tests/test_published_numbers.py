"""Scores, differences and intervals of README.md and docs/results.md, recomputed from results/ with NumPy alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from plgc.experiments.spec import load_experiment
from plgc.graphs.catalog import title

ROOT = Path(__file__).parents[1]
CONTROLS = ("random_encoder", "propagated_features", "raw_features", "plain_parts")
SECTION = re.compile(r"^## (\w+): .*?$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
NUMBER = r"([+-]?\d+\.\d+)"
SCORE = re.compile(rf"^{NUMBER}(?: ± {NUMBER})?(?= \(n=|,|$)")
DIFFERENCE = re.compile(rf"^{NUMBER} (?:\\?\[{NUMBER}, {NUMBER}\\?\]|\(one seed\))")
PREFIXES = {", our head": "learned_", ", our head + plain parts": "parts_", ", learned part alone": "learned_"}
LEVELS = ("backbone", "shots", "labels", "noise", "imbalance", "partition", "sources", "combine", "release", "variant")
LEVELS += ("history", "year", "share")
HISTORIES = re.compile(r"^([\w-]+) − ([\w-]+)(, learned part alone)?$")  # how two files of one row came about
Values = dict[tuple[int, int], float]


class Recorded:
    """The values of an experiment's records, read with nothing of ours but JSON."""

    def __init__(self, name: str):
        self.experiment = load_experiment(name)
        cells: dict[str, dict[str, Any]] = {}
        for line in (ROOT / "results" / name / "records.jsonl").read_text().splitlines():
            record = json.loads(line)
            if record["cell"].get("history"):  # the first records had open files alone, and did not say so
                record["cell"]["release"] = record["cell"].get("release") or "open"
            key = json.dumps({k: v for k, v in record["cell"].items() if v is not None}, sort_keys=True)
            if "metrics" in record:
                cells[key] = record
        self.records = list(cells.values())
        self.rows: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for record in self.records:
            cell = record["cell"]
            key = (title(cell["graph"]), str(cell["nodes"] or "-"), cell["method"])
            self.rows.setdefault(key, []).append(record)

    def values(self, graph: str, nodes: str, name: str, levels: dict[str, str]) -> tuple[Values, float]:
        """The values of a row, by seed and draw, and what they are multiplied by where they are shown."""
        prefix = ""
        for suffix, own in sorted(PREFIXES.items(), key=lambda item: -len(item[0])):
            if name.endswith(suffix):
                name, prefix = name.removesuffix(suffix), own
                break
        method, _, preset = name.partition(" (")
        found: Values = {}
        factor = 1.0
        for record in self.rows.get((graph, nodes, method), ()):
            cell = record["cell"]
            if cell["preset"] not in (None, preset.removesuffix(" preset)") or "default"):
                continue
            if any(_shown(level, cell.get(level)) != value for level, value in levels.items()):
                continue
            own = self.experiment.metric_of(cell["graph"])
            factor = 100.0 if own == "auroc" and self.experiment.metric == "accuracy" else 1.0
            if prefix + own in record["metrics"]:
                each = record.get("values", {}).get(prefix + own, [record["metrics"][prefix + own]])
                found |= {(cell["seed"], draw): value for draw, value in enumerate(each)}
        return found, factor


def _shown(level: str, value: Any) -> str:
    if value is None:
        everywhere = ("noise", "partition", "sources", "combine", "history", "release")
        return "all" if level in ("shots", "labels") else "any" if level in everywhere else "-"
    return value if isinstance(value, str) else f"{value:g}"


def tables(text: str) -> Iterator[list[dict[str, str]]]:
    """The tables of a page, each a list of rows by heading."""
    for found in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        head, _, *rows = [[cell.strip() for cell in line.strip("|\n").split(" | ")] for line in found.splitlines()]
        yield [dict(zip(head, row, strict=True)) for row in rows]


def same_difference(text: str, pairs: list[tuple[int, float]], factor: float) -> bool:
    """Whether a difference and its interval are those of the pairs: Student's t over the means of the seeds."""
    shown = DIFFERENCE.match(text)
    assert shown, text
    by_seed: dict[int, list[float]] = {}
    for seed, value in pairs:
        by_seed.setdefault(seed, []).append(factor * value)
    means = np.array([np.mean(own) for own in by_seed.values()])
    expected = [factor * np.mean([value for _, value in pairs])]
    if len(means) > 1:
        half = stats.t.ppf(0.975, len(means) - 1) * means.std(ddof=1) / len(means) ** 0.5
        expected += [means.mean() - half, means.mean() + half]
    digits = len(shown[1].split(".")[1])
    given = [float(number) for number in shown.groups() if number is not None]
    return len(given) == len(expected) and np.allclose(given, expected, atol=0.51 * 10**-digits)


def paired(ours: Values, theirs: Values) -> list[tuple[int, float]]:
    return [(seed, ours[seed, draw] - theirs[seed, draw]) for seed, draw in sorted(ours.keys() & theirs.keys())]


def less_best(ours: Values, others: list[Values]) -> list[tuple[int, float]]:
    """The pairs with the one of highest mean on the draws that all have; the first where several have it."""
    common = set(ours).intersection(*others)
    best = max(others, key=lambda values: round(float(np.mean([values[draw] for draw in common])), 7))
    return paired({draw: ours[draw] for draw in common}, best)


@pytest.mark.parametrize("name", sorted(path.parent.name for path in (ROOT / "results").glob("*/records.jsonl")))
def test_scores_and_differences_of_the_results_page(name: str) -> None:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    [section] = [text for found, text in SECTION.findall(page) if found == name]
    recorded, checked = Recorded(name), 0
    across = recorded.experiment.across
    for row in (row for table in tables(section) for row in table):
        fixed = {level: row[level] for level in LEVELS if level in row}
        for column, cell in row.items():
            along = across is not None and column.startswith(f"{across} ")
            if not along and column not in (recorded.experiment.metric, "score"):
                continue
            levels = fixed | ({across: column.removeprefix(f"{across} ")} if along and across else {})
            place = (row["graph"], row.get("nodes", "-"))
            where = f"{name} {place} {row['method']} {column}: {cell}"
            if column.endswith(" − default") or cell == "-":
                continue
            if row["method"].endswith(" − best control"):
                ours, factor = recorded.values(*place, row["method"].removesuffix(" − best control"), levels)
                assert same_difference(cell, less_best(ours, _controls(recorded, place[0], levels)), factor), where
                checked += 1
            elif "history" in recorded.experiment.levels and (names := HISTORIES.match(row["method"])):
                one, other = (
                    recorded.values(*place, f"plgc{names[3] or ''}", levels | {"history": history})[0]
                    for history in names.groups()[:2]
                )
                assert same_difference(cell, paired(one, other), 1.0), where
                checked += 1
            elif row["method"].startswith("plgc − ") and not row["method"].endswith("of all"):
                method = row["method"].removeprefix("plgc − ")
                ways = [recorded.values(*place, method + suffix, levels) for suffix in ("", *PREFIXES)]
                ours, factor = _ours(recorded, place, "plgc", levels)
                assert same_difference(cell, less_best(ours, [values for values, _ in ways if values]), factor), where
                checked += 1
            elif " − " not in row["method"] and (shown := SCORE.match(cell)):
                values, factor = recorded.values(*place, row["method"], levels)
                digits = len(shown[1].split(".")[1])
                own = factor * np.array(list(values.values()))
                assert np.isclose(float(shown[1]), own.mean(), atol=0.51 * 10**-digits), where
                if shown[2]:
                    assert np.isclose(float(shown[2]), own.std(ddof=1), atol=0.51 * 10**-digits), where
                checked += 1
                if DIFFERENCE.match(row.get("− best control", "")):
                    pairs = less_best(values, _controls(recorded, place[0], levels))
                    assert same_difference(row["− best control"], pairs, factor), where
                if DIFFERENCE.match(row.get("plgc − this", "")):
                    alone = row["method"].endswith((", our head", ", learned part alone"))
                    ours, _ = _ours(recorded, place, "plgc, learned part alone" if alone else "plgc", levels)
                    assert same_difference(row["plgc − this"], paired(ours, values), factor), where
    assert checked >= 10


def _ours(recorded: Recorded, place: tuple[str, str], name: str, levels: dict[str, str]) -> tuple[Values, float]:
    """Our values beside a row: at its size, or at our largest; where wrong labels do not affect ours, at any rate."""
    graph, nodes = place
    if nodes == "-":
        cells = [record["cell"] for record in recorded.records]
        nodes = str(max(c["nodes"] for c in cells if c["method"] == "plgc" and title(c["graph"]) == graph))
    asked = {level: value for level, value in levels.items() if value != "any"}
    found = recorded.values(graph, nodes, name, asked)
    return found if found[0] else recorded.values(graph, nodes, name, asked | {"noise": "any"})


def _controls(recorded: Recorded, graph: str, levels: dict[str, str]) -> list[Values]:
    """The controls that have values; none depends on how the sources are cut and combined, nor on wrong labels."""
    found = []
    for control in CONTROLS:
        loose = {
            level: "any" if level in ("partition", "sources", "combine", "history", "release") else v
            for level, v in levels.items()
        }
        at_any_rate = {**loose, "noise": "any"} if "noise" in loose else loose
        tried = (recorded.values(graph, "-", control, levels)[0] for levels in (loose, at_any_rate))
        found += [values for values in tried if values][:1]
    return found


def test_the_readmes_table() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8").split("<!-- results -->")[1].split("<!-- /results -->")[0]
    recorded = Recorded("every_graph")
    [table] = tables(readme)
    assert len(table) >= 30
    for row in table:
        graph, levels = row["graph"].removesuffix(" (AUROC × 100)"), {"shots": row["labels"].removesuffix(" per class")}
        columns = {"plgc": "plgc", "learned part alone": "plgc, learned part alone"}
        columns |= {name: name for name in (*CONTROLS, "whole", "whole_mlp")}
        for column, method in columns.items():
            values, factor = recorded.values(graph, row["nodes"] if "plgc" in method else "-", method, levels)
            if row[column] != "–":
                own = factor * np.mean(list(values.values()))
                assert np.isclose(float(row[column]), own, atol=0.051), (row, column)
        ours, factor = recorded.values(graph, row["nodes"], "plgc", levels)
        pairs = less_best(ours, _controls(recorded, graph, levels))
        assert same_difference(row["plgc − best control"], pairs, factor), row
