"""``plgc experiment``: list, run, table; what cannot be done is said in one line."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from plgc.graphs import citation_graph, save_npz

METHODS = ("--datasets", "cora", "--methods", "propagated_features,random_encoder", "--seeds", 2)
PART = ("table4", *METHODS)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, and a folder of graphs whose ``cora`` is a tiny one."""
    save_npz(citation_graph(nodes=120, classes=3, features=40), tmp_path / "data" / "cora.npz")
    monkeypatch.setenv("PLGC_DATA", str(tmp_path / "data"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def done(here: Path, run: Any) -> dict[str, Any]:
    return run("experiment", "run", *PART, "--jobs", 1, "--json").result


def refused(found: Any, code: int, words: str) -> None:
    assert (found.code, found.out) == (code, "")
    assert words in found.err
    assert "Traceback" not in found.err


def test_list(run: Any) -> None:
    entries = run("experiment", "list", "--json").result["experiments"]
    assert {"table3", "table4", "fig3", "fig4", "fig5", "fig6"} <= {entry["name"] for entry in entries}
    for entry in entries:
        assert list(entry) == ["name", "title", "task", "graphs", "methods", "cells", "pending"]
        assert entry["cells"] > 0
    text = run("experiment", "list")
    assert text.code == 0
    assert len(text.out.splitlines()) == 2 + len(entries)
    assert text.out.count("[not yet]") == sum(entry["pending"] is not None for entry in entries)


def test_run(done: dict[str, Any], here: Path, run: Any) -> None:
    path = Path("runs") / "table4" / "records.jsonl"
    assert done == {
        "experiment": "table4",
        "records": str(path),
        "cells": 4,
        "already": 0,
        "run": 4,
        "failed": 0,
        "unavailable": {},
    }
    records = [json.loads(line) for line in (here / path).read_text().splitlines()]
    assert [record["cell"]["seed"] for record in records] == [0, 0, 1, 1]
    again = run("experiment", "run", *PART, "--jobs", 1)
    assert again.code == 0
    assert again.out.splitlines() == [
        "table4: 4 cells, 4 done before, 0 run now, 0 failed",
        f"records: {path}",
        "see them with: plgc experiment table table4",
    ]


def test_table(done: dict[str, Any], run: Any) -> None:
    text = run("experiment", "table", "table4")
    assert text.code == 0
    lines = text.out.splitlines()
    assert lines[0] == "table4: Three labels per class (the paper's Table 4)"
    rows = {(line.split()[0], re.split(r"  +", line)[3]): line for line in lines if line.startswith("cora ")}
    assert "73.4 ± 3.2" in rows["cora", "plgc"]
    assert "not run" in rows["cora", "plgc"]
    assert "±" in rows["cora", "random_encoder"]
    assert any(line.startswith("reddit") and "graph not available" in line for line in lines)
    assert "seeds: 2" in lines


def test_failed_cells_are_counted_and_explained(here: Path, run: Any) -> None:
    found = run("experiment", "run", "fig3", *METHODS, "--shots", "3,50", "--jobs", 1).out
    assert found.startswith("fig3: 8 cells, 0 done before, 4 run now, 4 failed\n")
    text = run("experiment", "table", "fig3").out
    assert "failed [1]" in text
    assert "[1] 50 labels per class were asked for, and of those to train on class 0 has 20" in text


def test_table_in_other_forms(done: dict[str, Any], run: Any) -> None:
    rows = run("experiment", "table", "table4", "--format", "markdown").out.splitlines()
    assert rows[0].startswith("| graph | nodes | ratio | method | accuracy |")
    assert set(rows[1]) <= set("|-: ")
    found = run("experiment", "table", "table4", "--format", "csv", "--metric", "macro_f1")
    [line] = [line for line in csv.DictReader(io.StringIO(found.out)) if line["method"] == "random_encoder"]
    assert (line["metric"], line["seeds"], line["shots"]) == ("macro_f1", "2", "3")
    assert len(line["values"].split()) == 2


def test_table_of_a_part(done: dict[str, Any], run: Any) -> None:
    def shown(*options: object) -> dict[str, str]:
        found = run("experiment", "table", "table4", "--format", "csv", *options)
        assert found.code == 0, found.err
        return {line["method"]: line["seeds"] for line in csv.DictReader(io.StringIO(found.out))}

    controls = {"propagated_features": "2", "random_encoder": "2"}
    assert shown() == {"plgc": "0", "whole": "0", "gcond": "0", "ctgc": "0", **controls}
    assert shown("--methods", "plgc") == {"plgc": "0", **controls}  # controls are always beside
    assert shown("--methods", "whole", "--seeds", 1) == {"whole": "0", **dict.fromkeys(controls, "1")}
    assert shown("--datasets", "reddit") == {}


def test_graphs_that_are_not_here_are_left_out_and_named(here: Path, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from plgc.graphs import catalog

    monkeypatch.setattr(catalog, "DOWNLOADS", {})  # nothing can be downloaded
    part = ("--methods", "propagated_features", "--seeds", 1, "--jobs", 1)
    found = run("experiment", "run", "table4", "--datasets", "cora,reddit", *part, "--json").result
    assert (found["cells"], found["run"], list(found["unavailable"])) == (1, 1, ["reddit"])
    text = run("experiment", "run", "table4", "--datasets", "cora,reddit", *part)
    assert "left out: no graph is called 'reddit'" in text.out
    refused(run("experiment", "run", "table4", "--datasets", "reddit", *part), 1, "none of the experiment's graphs")


def test_own_folder(here: Path, run: Any) -> None:
    part = ("table4", "--datasets", "cora", "--methods", "propagated_features", "--seeds", 1, "--jobs", 1)
    text = run("experiment", "run", *part, "--out", "mine", "--store", "kept")
    assert text.out.splitlines()[-1] == "see them with: plgc experiment table table4 --out mine"
    assert sorted(path.name for path in here.iterdir()) == ["kept", "mine"]
    assert run("experiment", "table", "table4", "--out", "mine").code == 0


@pytest.mark.parametrize("command", ["run", "table"])
def test_refusals(here: Path, run: Any, command: str) -> None:
    names = ", ".join(entry["name"] for entry in run("experiment", "list", "--json").result["experiments"])
    refused(run("experiment", command, "table9"), 1, f"there is no experiment 'table9': choose one of {names}")
    refused(run("experiment", command, "fig4", "--noise", "much"), 2, "--noise is 'much': give numbers with commas")
    refused(run("experiment", command, "table3", "--nodes", "3.5"), 2, "--nodes is '3.5'")
    refused(run("experiment", command, "table3", "--seeds", 0), 2, "seeds")
    refused(run("experiment", command, "fig4", "--noise", 1.5), 1, "noise is 1.5: a share from 0 to 1")
    refused(run("experiment", command, "table3", "--noise", 0.5), 1, "table3 has no noise to choose")
    refused(run("experiment", command, "table3", "--datasets", "moon"), 1, "table3 has no graph 'moon'")
    refused(run("experiment", command, "table3", "--datasets", ","), 1, "datasets is empty")
    refused(run("experiment", command, "table3", "--methods", "magic"), 1, "unknown method 'magic'")
    refused(run("experiment", command, "table3", "--presets", "best"), 1, "unknown preset 'best'")
    assert list(here.iterdir()) == []


def test_refusals_as_json(here: Path, run: Any) -> None:
    found = run("experiment", "run", "table3", "--methods", "magic", "--json")
    assert found.code == 1
    assert json.loads(found.out)["error"]["kind"] == "bad-setting"


def test_what_is_not_built_or_not_run_says_so(here: Path, run: Any) -> None:
    refused(run("experiment", "table", "table4"), 1, "run 'plgc experiment run table4' first")
    assert list(here.iterdir()) == []


def test_unknown_metric_and_format(done: dict[str, Any], run: Any) -> None:
    refused(run("experiment", "table", "table4", "--metric", "auroc"), 1, "choose accuracy, macro_f1")
    refused(run("experiment", "table", "table4", "--format", "pdf"), 2, "markdown")
