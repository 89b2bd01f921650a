"""Names from files and tables reach the terminal, the page and the spreadsheet as text, whatever is in them."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from plgc.runtime.text import UNPRINTABLE

EVIL = ["=HYPERLINK(A1)", "\x1b]0;owned\x07\x1b[31mred", "\u202etxt.exe", "<script>alert(1)</script>"]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Options that name a graph of 60 nodes whose ids and classes are a stranger's."""
    folder = tmp_path_factory.mktemp("tables")
    edges, nodes = folder / "edges.csv", folder / "nodes.csv"
    ids = [f"{EVIL[n % 4]}{n}" for n in range(60)]
    with open(edges, "w", newline="") as file:
        rows = [["source", "target"], *([ids[n], ids[(n + step) % 60]] for n in range(60) for step in (4, 8))]
        csv.writer(file).writerows(rows)
    with open(nodes, "w", newline="") as file:
        rows = [["id", "size", "width", "label"]]
        rows += [[ids[n], n % 4 + n / 100, (n % 4) ** 2 + 1, EVIL[n % 4]] for n in range(60)]
        csv.writer(file).writerows(rows)
    return [edges, "--nodes-table", nodes, "--column", "label=label", "--column", "id=id"]


def clean(text: str) -> None:
    assert not UNPRINTABLE.search(text.replace("\n", ""))


def test_from_tables_to_the_spreadsheet_and_the_page(run: Any, tables: list[Any], tmp_path: Path) -> None:
    small, model, answers = tmp_path / "small.safetensors", tmp_path / "model.safetensors", tmp_path / "answers.csv"
    steps = [
        ["condense", *tables, "--nodes", 8, "-o", small],
        ["train", small, "--graph", *tables, "--shots", 3, "-o", model],
        ["predict", model, "--graph", *tables, "-o", answers],
        ["report", small, "--graph", *tables, "--seeds", 0, "-o", tmp_path / "page.html"],
    ]
    for step in steps:
        done = run(*step, "--verbose")
        assert done.code == 0, done.err
        clean(done.out + done.err)
    assert "\\x1b]0;owned" in run(*steps[2]).out  # said, not done
    cells = [cell for row in csv.reader(answers.read_text().splitlines()) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "@", "+", "\t"))]
    assert any(cell.startswith("'=HYPERLINK") for cell in cells)
    clean(answers.read_text())
    page = (tmp_path / "page.html").read_text()
    clean(page)
    assert "<script>alert" not in page
    data = page.partition('id="map-data">')[2].partition("</script>")[0]
    clean(json.dumps(json.loads(data), ensure_ascii=False))  # what the page's script shows


def test_manifests(run: Any, graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("condense", graph, "--parts", 2, "--nodes", 12, "-o", out).code == 0
    content = json.loads((out / "manifest.json").read_text())
    for change in ({"name": "\x1b[2J"}, {"file": "\x1b[2J.safetensors"}, {"settings": {"\x1b[2J": 1}}):
        forged = {**content, "sources": [{**content["sources"][0], **change}]}
        (out / "manifest.json").write_text(json.dumps(forged))
        for command in (["inspect", out], ["evaluate", out, "--graph", graph], ["report", out, "-o", tmp_path / "p"]):
            done = run(*command)
            assert done.code == 1
            clean(done.out + done.err)


def test_file_names_and_records(run: Any, artifact: Path, tmp_path: Path) -> None:
    odd = Path(shutil.copy(artifact, tmp_path / "\x1b[31mred.safetensors"))
    for command in (["inspect", odd], ["inspect", tmp_path / "\x1b[31m"], ["report", odd, "-o", tmp_path / "page"]):
        done = run(*command)
        clean(done.out + done.err)
    clean((tmp_path / "page").read_text())
    cell = {"experiment": "table3", "graph": "cora", "method": "plgc", "nodes": 35, "preset": "default", "seed": 0}
    cell |= {"task": "node", "backbone": "gcn", "shots": None, "labels": None, "noise": None, "imbalance": None}
    record = {"cell": {**cell, "inductive": False}, "error": "\x1b[2J <b>no memory</b> | \u202e\n=1+1"}
    (tmp_path / "records.jsonl").write_text(json.dumps(record) + "\n")
    for form in ("text", "markdown", "csv"):
        done = run("experiment", "table", "table3", "--out", tmp_path, "--format", form)
        assert done.code == 0, done.err
        clean(done.out)
        assert "<b>" not in done.out or form != "markdown"
