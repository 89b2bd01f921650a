"""The commands on tables of two months, none of whose columns is called id, label, source or target."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tables.generators import CASES


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Customers of January and February; February has its columns in another order."""
    folder, case = tmp_path_factory.mktemp("months"), CASES["customers"]()
    case.february.nodes = dict(reversed(case.february.nodes.items()))
    case.write(folder)
    return folder


def graph(folder: Path, month: str, option: str = "--graph") -> list[Any]:
    return [*([option] if option else []), folder / f"{month}-edges.csv", "--nodes-table", folder / f"{month}.csv"]


@pytest.fixture(scope="module")
def mine(run: Any, tables: Path) -> Path:
    out = ["--column", "label=segment", "--nodes", 9, "-o", tables / "mine.safetensors", "--json"]
    assert run("condense", *graph(tables, "january", ""), *out).result["doubts"] == []
    return tables / "mine.safetensors"


def test_from_the_first_table_to_next_months_answers(run: Any, tables: Path, mine: Path) -> None:
    model, answers = tables / "model.safetensors", tables / "answers.csv"
    assert run("train", mine, *graph(tables, "january"), "-o", model).code == 0
    done = run("predict", model, *graph(tables, "february"), "-o", answers)
    assert done.code == 0
    assert "'city' has 'Wien', which has no column: counted as unknown" in done.err
    with open(answers, newline="") as file:
        rows = list(csv.DictReader(file))
    right = [row["predicted_class"] == word for row, word in zip(rows, _segments(tables), strict=True)]
    assert sum(right) > 0.8 * len(right)
    page = tables / "mine.html"
    assert run("report", mine, *graph(tables, "january"), "--seeds", 0, "-o", page).code == 0
    assert "3 of 5 columns scaled by median and quartiles" in page.read_text()
    assert run("evaluate", mine, *graph(tables, "january"), "--no-scale").code == 1
    npz = run("predict", model, "--graph", "demo", "-o", answers)
    assert (npz.code, "brings no table of nodes" in npz.err) == (1, True)


def _segments(tables: Path) -> list[str]:
    with open(tables / "february.csv", newline="") as file:
        return [row["segment"] for row in csv.DictReader(file)]


def test_inspect_shows_all_of_the_description(run: Any, mine: Path) -> None:
    text = run("inspect", mine).out
    assert "column city" in text
    assert "5 word(s): Bern, Graz, Lyon, Oslo, Rome" in text
    assert "(log x − " in text  # incomes
    known = run("inspect", mine, "--json").result["seen"]["preprocessing"]
    assert [rule["name"] for rule in known["columns"]] == ["age", "income", "months", "city", "newsletter"]
    assert known["roles"]["label"] == "segment"


def test_a_column_that_looks_like_classes_is_a_warning_before_everything(run: Any, tables: Path) -> None:
    out = ["--nodes", 4, "-o", tables / "leaky.safetensors", "--json"]
    done = run("condense", *graph(tables, "january", ""), *out)
    assert done.err.splitlines()[0].startswith("warning: january.csv: 'segment' looks like classes")
    assert "--column 'label=segment'" in done.result["doubts"][0]
    quiet = run("condense", *graph(tables, "january", ""), *out, "-q")
    assert quiet.err.count("warning: ") == 1
    leaked = [tables / "leaky.safetensors", *graph(tables, "january"), "--column", "label=segment"]
    done = run("evaluate", *leaked)
    assert (done.code, "a model would be given its own answers" in done.err) == (1, True)


def test_owners_share_a_description(run: Any, tables: Path, mine: Path) -> None:
    file = tables / "description.json"
    given = [tables / "january.csv", tables / "february.csv", "--column", "id=customer", "--column", "label=segment"]
    done = run("data", "describe", *given, "--min-cluster", 5, "-o", file, "--json")
    assert [rule["name"] for rule in json.loads(file.read_text())["columns"]] == [
        rule["name"] for rule in done.result["columns"]
    ]
    for month in ("january", "february"):
        shared = ["--preprocess", file, "--min-cluster", 5, "--nodes", 5, "-o", tables / f"{month}.safetensors"]
        assert run("condense", *graph(tables, month, ""), *shared).code == 0
    both = [tables / "january.safetensors", tables / "february.safetensors"]
    assert run("evaluate", *both, *graph(tables, "january"), "--json").result["sources"] == 2
    done = run("evaluate", both[0], mine, *graph(tables, "january"))
    assert done.code == 1
    text = ["--nodes", 5, "-o", tables / "x.safetensors"]
    done = run("condense", *graph(tables, "january", ""), "--preprocess", tables / "january.csv", *text)
    assert (done.code, "is not a description" in done.err) == (1, True)
