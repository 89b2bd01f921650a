"""A table with labels and no split: every label is used, the estimate is cross-validated, and both are said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plgc.graphs import citation_graph

NODES = 120


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with edges.csv, and a file condensed without any label."""
    folder = tmp_path_factory.mktemp("tables")
    made = citation_graph(nodes=NODES, classes=3, features=12)
    pairs = made["edge_index"].t().tolist()
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"n{u},n{v}\n" for u, v in pairs if u < v))
    return folder


def node_table(folder: Path, per_class: Sequence[int]) -> Path:
    """A table of the nodes of which the first so many of each class have a label."""
    made = citation_graph(nodes=NODES, classes=3, features=12)
    x, left, rows = made["x"].to_dense().numpy(), list(per_class), []
    for node, (label, values) in enumerate(zip(made["y"].tolist(), x, strict=True)):
        known = left[label] > 0
        left[label] -= known
        rows.append(f"n{node},{','.join(f'{value:g}' for value in values)},{f'kind{label}' if known else ''}\n")
    path = folder / f"nodes-{'-'.join(map(str, per_class))}.csv"
    path.write_text(f"id,{','.join(f'f{place}' for place in range(12))},label\n" + "".join(rows))
    return path


@pytest.fixture(scope="module")
def condensed(run: Any, tables: Path) -> Path:
    file = tables / "mine.safetensors"
    nodes = node_table(tables, (4, 4, 4))
    assert run("condense", tables / "edges.csv", "--nodes-table", nodes, "--nodes", 8, "-o", file).code == 0
    return file


def train(run: Any, tables: Path, condensed: Path, per_class: Sequence[int], *more: object) -> Any:
    graph = ["--graph", tables / "edges.csv", "--nodes-table", node_table(tables, per_class)]
    return run("train", condensed, *graph, "-o", tables / "model.safetensors", "--force", *more)


def predictions(run: Any, tables: Path, per_class: Sequence[int]) -> str:
    graph = ["--graph", tables / "edges.csv", "--nodes-table", node_table(tables, per_class)]
    answers = tables / "answers.csv"
    assert run("predict", tables / "model.safetensors", *graph, "-o", answers, "--force").code == 0
    return answers.read_text()


def test_every_label_is_used_and_the_estimate_says_what_it_rests_on(run: Any, tables: Path, condensed: Path) -> None:
    done = train(run, tables, condensed, (4, 4, 4))
    assert done.code == 0, done.err
    assert "all 12 labels, 3 classes" in done.out
    assert "12 nodes, 10 repetition(s) of 4 fold(s); their heads were fitted on 9 labels" in done.out
    found = train(run, tables, condensed, (4, 4, 4), "--json").result
    assert found["fitted_on"] == "all 12 labels, 3 classes"
    assert found["val"] is None
    estimate = found["estimate"]
    assert (estimate["nodes"], estimate["folds"], estimate["learned_from"], estimate["repeats"]) == (12, 4, 9, 10)
    low, high = estimate["interval"]
    assert 0 <= low < estimate["accuracy"]["mean"] < high <= 100
    assert high - low > 20  # twelve nodes say little
    assert np.array(estimate["confusion"]).sum() == 120  # 12 nodes, 10 times
    assert [one["class"] for one in estimate["classes"]] == ["kind0", "kind1", "kind2"]


@pytest.mark.parametrize("shots", [1, 3, 5])
def test_labels_of_ones_own_do_what_shots_does_on_the_same_nodes(
    run: Any, tables: Path, condensed: Path, shots: int
) -> None:
    own = (shots,) * 3
    assert train(run, tables, condensed, own).code == 0
    every = predictions(run, tables, own)
    done = train(run, tables, condensed, own, "--shots", shots, "--seed", 0)
    assert done.code == 0, done.err
    assert predictions(run, tables, own) == every


def test_shots_are_drawn_from_every_label(run: Any, tables: Path, condensed: Path) -> None:
    found = train(run, tables, condensed, (4, 5, 6), "--shots", 3, "--json").result
    assert found["fitted_on"] == "9 of 15 labels, 3 classes"
    assert (found["estimate"]["folds"], found["estimate"]["learned_from"]) == (1, 9)
    done = train(run, tables, condensed, (4, 2, 6), "--shots", 3)
    assert done.code == 1
    assert (
        "3 labels per class were asked for, and of those to train on class kind1 has 2: ask for at most 2" in done.err
    )


def test_one_label_per_class_gives_a_model_and_no_estimate(run: Any, tables: Path, condensed: Path) -> None:
    done = train(run, tables, condensed, (1, 1, 1))
    assert done.code == 0, done.err
    assert "all 3 labels, 3 classes" in done.out
    assert "no label can be held out" in done.out
    assert train(run, tables, condensed, (1, 1, 1), "--json").result["estimate"] is None


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_one_class_is_refused(run: Any, tables: Path, condensed: Path, command: str) -> None:
    graph = ["--graph", tables / "edges.csv", "--nodes-table", node_table(tables, (0, 9, 0))]
    output = ["-o", tables / "never.safetensors"] if command == "train" else []
    done = run(command, condensed, *graph, *output)
    assert (done.code, done.out) == (1, "")
    assert "are of one class (kind1)" in done.err
    assert not (tables / "never.safetensors").exists()


def test_evaluate_keeps_the_generated_split_and_says_so(run: Any, tables: Path, condensed: Path) -> None:
    graph = ["--graph", tables / "edges.csv", "--nodes-table", node_table(tables, (12, 12, 12))]
    done = run("evaluate", condensed, *graph, "--seeds", 2)
    assert done.code == 0, done.err
    assert "generated split, seeds 0 to 1 (6 per class, 6 validation, rest test)" in done.out
    assert "12 test nodes" not in done.out  # two splits test more nodes than one
    assert "2 seeds," in done.out
    found = run("evaluate", condensed, *graph, "--json").result
    claim = found["claims"]["plain_parts"]
    assert (claim["interval"], claim["verdict"], claim["seeds"]) == (None, "cannot be told", 1)
    assert claim["nodes"] == found["answers"]["nodes"] == 12
