"""``plgc data store``: a graph on disk from tables, and every command on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tables.generators import CASES


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("months")
    CASES["customers"]().write(folder)
    return folder


def test_from_a_stored_graph_to_answers_on_next_months_tables(run: Any, tables: Path) -> None:
    january = [tables / "january-edges.csv", "--nodes-table", tables / "january.csv", "--column", "label=segment"]
    stored = run("data", "store", *january, "--memory", "450MiB", "--threads", 1, "-o", tables / "big", "--json")
    assert (stored.result["features"], stored.result["classes"]) == (np.load(tables / "big" / "x.npy").shape[1], 3)
    assert stored.result["notes"]
    assert "note: january.csv:" in stored.err
    mine, model, answers = tables / "mine.safetensors", tables / "model.safetensors", tables / "answers.csv"
    assert run("condense", tables / "big", "--nodes", 9, "-o", mine).code == 0
    assert run("train", mine, "--graph", tables / "big", "-o", model).code == 0
    february = ["--graph", tables / "february-edges.csv", "--nodes-table", tables / "february.csv"]
    done = run("predict", model, *february, "-o", answers)
    assert done.code == 0
    assert "'city' has 'Wien', which has no column: counted as unknown" in done.err  # read as January's table was
    assert len(answers.read_text().splitlines()) > 100


def test_refusals_are_one_line(run: Any, tables: Path) -> None:
    given = ["data", "store", tables / "january-edges.csv", "-o", tables / "new"]
    few = run(*given, "--memory", "1MiB")
    assert (few.code, few.err.count("\n")) == (1, 1)
    assert "memory is 1 MiB: storing a graph of 0 nodes needs at least" in few.err
    assert run(*given, "--nodes-table", tables / "gone").err.startswith("error: no such file")
    assert run(*given[:-1], tables).err.startswith(f"error: {tables} is there already")
    assert "the whole graph is stored: give --time alone" in run(*given, "--until", 2020).err
    assert not (tables / "new").exists()
    assert not (tables / "new.storing").exists()
