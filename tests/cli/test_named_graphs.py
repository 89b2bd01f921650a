"""Wherever a graph is named: node tables, columns, derived features; and names in predictions."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

import plgc
from plgc.graphs import citation_graph, save_npz

PEOPLE, TEAMS = 150, ("sales", "research", "support")
DERIVED = {"features": "fastrp:16", "seed": 0}


def write_tables(folder: Path, header: str = "id,age,meetings,office,label", ends: str = "from,to") -> list[str]:
    """A graph of people in three teams as two CSV files; the ids."""
    draw = random.Random(0)
    ids = [f"p{number:03}" for number in range(PEOPLE)]
    with open(folder / "nodes.csv", "w") as file:
        file.write(f"{header}\n")
        for number, name in enumerate(ids):
            team = TEAMS[number % 3]
            meetings = draw.gauss(30 * (number % 3), 5)
            file.write(f"{name},{draw.randint(20, 60)},{meetings:.1f},{draw.choice(['Rome', 'Oslo'])},{team}\n")
    with open(folder / "edges.csv", "w") as file:
        file.write(f"{ends}\n")
        for _ in range(4 * PEOPLE):
            one = draw.randrange(PEOPLE)
            other = (one + 3 * draw.randrange(PEOPLE // 3) + (draw.random() < 0.1)) % PEOPLE
            file.write(f"{ids[one]},{ids[other]}\n")
    return ids


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    write_tables(folder)
    return folder


@pytest.fixture(scope="module")
def given(tables: Path) -> list[Any]:
    return ["--graph", tables / "edges.csv", "--nodes-table", tables / "nodes.csv"]


@pytest.fixture(scope="module")
def mine(run: Any, tables: Path) -> Path:
    done = run(
        *("condense", tables / "edges.csv", "--nodes-table", tables / "nodes.csv", "--ratio", 0.06),
        *("-o", tables / "mine.safetensors", "--json"),
    )
    assert done.result["graph"] == "edges"
    assert "note: nodes.csv: node_id is 'id', label is 'label' (guessed from the names)" in done.err.splitlines()
    return tables / "mine.safetensors"


@pytest.fixture(scope="module")
def words_model(run: Any, tables: Path, mine: Path, given: list[Any]) -> Path:
    done = run("train", mine, *given, "-q", "-o", tables / "model.safetensors", "--json")
    assert done.err == ""
    assert done.result["estimate"]["accuracy"]["mean"] > 50
    return tables / "model.safetensors"


def test_every_command_reads_the_same_graph(run: Any, mine: Path, given: list[Any], tables: Path) -> None:
    condensed = plgc.CondensedGraph.load(mine)
    assert (
        condensed.fingerprint
        == plgc.condense(plgc.load_graph(tables / "edges.csv", nodes_table=tables / "nodes.csv"), nodes=2).fingerprint
    )
    scores = run("evaluate", mine, *given, "--seeds", 2, "--json").result
    assert (scores["graph"], scores["nodes"]) == ("edges", condensed.num_nodes)
    assert scores["accuracy"]["mean"] > 50
    assert scores["split"].startswith("generated split, seeds 0 to 1 ")  # every seed draws its own
    assert run("inspect", mine, *given, "--theory", "--json").result["theory"]["nodes"] == PEOPLE
    page = tables / "page.html"
    assert run("report", mine, *given, "--seeds", 0, "-o", page).code == 0
    assert "plgc condense edges.csv --nodes-table nodes.csv --nodes 9" in page.read_text(encoding="utf-8")
    demo = run("demo", "--graph", tables / "edges.csv", "--features", "fastrp:16", "-o", tables / "demo")
    assert (demo.code, "edges has no labels" in demo.err) == (1, True)


def test_answers_have_ids_and_class_names(run: Any, words_model: Path, given: list[Any], tables: Path) -> None:
    out = tables / "answers.csv"
    result = run("predict", words_model, *given, "-o", out, "--json").result
    assert result["classes"] == sorted(TEAMS)
    assert sum(result["class_counts"]) == PEOPLE
    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["node"] for row in rows] == [f"p{number:03}" for number in range(PEOPLE)]
    right = [row["predicted_class"] == TEAMS[number % 3] for number, row in enumerate(rows)]
    assert sum(right) > PEOPLE / 2
    assert "research: " in run("predict", words_model, *given, "-o", out).out


def test_pairs_go_by_ids(run: Any, mine: Path, given: list[Any], tables: Path) -> None:
    links, out, pairs = tables / "links.safetensors", tables / "scores.csv", tables / "pairs.csv"
    assert run("train", mine, *given, "--task", "link", "-o", links).code == 0
    pairs.write_text("one,other\np000,p003\np149, p001\n")
    assert run("predict", links, *given, "--pairs", pairs, "-o", out, "--json").result["pairs"] == 2
    rows = [line.split(",") for line in out.read_text().splitlines()]
    assert [row[:2] for row in rows] == [["source", "target"], ["p000", "p003"], ["p149", "p001"]]
    numbers = plgc.load_model(links).predict_proba(
        plgc.load_graph(tables / "edges.csv", nodes_table=tables / "nodes.csv"),
        torch.tensor([[0, 149], [3, 1]]),
    )
    assert [float(row[2]) for row in rows[1:]] == pytest.approx(numbers.tolist(), abs=1e-6)
    pairs.write_text("p000,p0003\n")
    done = run("predict", links, *given, "--pairs", pairs, "-o", out)
    assert done.code == 1
    assert "pair 1 is 'p000,p0003', expected two ids of nodes: there is no node 'p0003', did you mean 'p003" in done.err


def test_columns_by_role(run: Any, tmp_path: Path) -> None:
    write_tables(tmp_path, "key,age,meetings,site,team", "kind,b")
    file = ["condense", tmp_path / "edges.csv", "--nodes-table", tmp_path / "nodes.csv", "--nodes", 6, "-o"]
    named = ["source=kind", "target=b", "id=key", "label=team", "feature=meetings", "feature=site=Rome"]
    options = [word for name in named for word in ("--column", name)]
    done = run(*file, tmp_path / "c.safetensors", *options, "--scale", "--json")
    assert done.result["nodes"] <= 6
    assert done.err == ""  # nothing was guessed
    assert plgc.CondensedGraph.load(tmp_path / "c.safetensors").num_features == 2
    for wrong, words in (
        ("labl=team", "Did you mean label=…?"),
        ("team", "give ROLE=NAME"),
        ("id=", "give ROLE=NAME"),
    ):
        refused = run(*file, tmp_path / "d.safetensors", "--column", wrong)
        assert refused.code == 2
        assert words in refused.err
    twice = run(*file, tmp_path / "d.safetensors", "--column", "id=key", "--column", "id=age")
    assert (twice.code, "given twice" in twice.err) == (2, True)
    missing = run(*file, tmp_path / "d.safetensors", "--column", "label=teem")
    assert missing.code == 1
    assert "Did you mean 'team'?" in missing.err


def test_other_columns_than_the_models(run: Any, words_model: Path, tmp_path: Path) -> None:
    write_tables(tmp_path, "id,age,visits,office,label")
    given = ["--graph", tmp_path / "edges.csv", "--nodes-table", tmp_path / "nodes.csv", "-o", tmp_path / "a.csv"]
    done = run("predict", words_model, *given)
    assert done.code == 0
    assert "'visits' ignored: it was no feature of the first table" in done.err
    assert "'meetings' missing or empty: filled" in done.err
    write_tables(tmp_path, "id,age,office,meetings,label")
    done = run("predict", words_model, *given)
    assert done.code == 1
    assert "'meetings' holds words such as 'O" in done.err or "'meetings' holds words such as 'R" in done.err
    done = run("predict", words_model, *given, "--no-scale")
    assert (done.code, "--no-scale was given" in done.err) == (1, True)
    done = run("predict", words_model, "--graph", tmp_path / "edges.csv", "-o", tmp_path / "b.csv")
    assert (done.code, "--nodes-table" in done.err) == (1, True)


def test_files_that_are_not_there(run: Any, tables: Path) -> None:
    out = ["--nodes", 6, "-o", tables / "x.safetensors"]
    done = run("condense", tables / "edge.csv", "--nodes-table", tables / "nodes.csv", *out)
    assert (done.code, done.err) == (
        1,
        f"error: no such file: {tables / 'edge.csv'}. Did you mean {tables / 'edges.csv'}?\n",
    )
    done = run("condense", tables / "edges.csv", "--nodes-table", tables / "node.csv", *out)
    assert f"Did you mean {tables / 'nodes.csv'}?" in done.err
    done = run("condense", tables / "edges.csv", *out)
    assert done.code == 1
    assert "--nodes-table" in done.err
    assert "--features fastrp:128" in done.err


@pytest.fixture(scope="module")
def bare(folder: Path) -> Path:
    """A graph without features."""
    graph = citation_graph(nodes=150, classes=3, features=9)
    graph.x = None
    return save_npz(graph, folder / "bare.npz")


@pytest.fixture(scope="module")
def derived(run: Any, folder: Path, bare: Path) -> Path:
    done = run(
        "condense", bare, "--features", "fastrp:16", "--nodes", 9, "-o", folder / "derived.safetensors", "--json"
    )
    assert done.result["seen"]["derived"] == DERIVED
    assert "features are derived from the edges (fastrp:16, seed 0)" in done.err
    return folder / "derived.safetensors"


def test_derived_features_are_recorded_and_shown(run: Any, derived: Path) -> None:
    result = run("inspect", derived, "--json").result
    assert (result["derived"], result["features"]) == (DERIVED, 16)
    assert "derived from the edges (--features fastrp:16)" in run("inspect", derived).out


def test_derived_features_from_end_to_end(run: Any, derived: Path, bare: Path, tmp_path: Path) -> None:
    given = ["--graph", bare, "--features", "fastrp:16"]
    assert run("evaluate", derived, *given, "--json").result["accuracy"]["mean"] > 40
    model = tmp_path / "model.safetensors"
    assert run("train", derived, *given, "-o", model).code == 0
    assert run("predict", model, *given, "-o", tmp_path / "a.csv").code == 0
    assert run("inspect", derived, *given, "--theory").code == 0
    assert run("report", derived, *given, "--seeds", 0, "-o", tmp_path / "r.html").code == 0
    assert "plgc condense bare.npz --nodes 9 --seed 0 --features fastrp:16" in (tmp_path / "r.html").read_text()
    for command in (
        ["evaluate", derived, "--graph", bare],
        ["train", derived, "--graph", bare, "-o", tmp_path / "m.safetensors"],
        ["inspect", derived, "--graph", bare, "--theory"],
        ["report", derived, "--graph", bare, "-o", tmp_path / "s.html"],
        ["predict", model, "--graph", bare, "-o", tmp_path / "b.csv"],
        ["evaluate", derived, *given, "--features-seed", 1],
    ):
        done = run(*command)
        assert done.code == 1, command
        assert "give it --features fastrp:16 (" in done.err
    assert run("train", derived, *given, "--task", "link", "-o", model, "-q").err == ""
    link = run("evaluate", derived, *given, "--task", "link", "--json")
    assert (link.code, "derived from all edges" in link.out) == (1, True)


def test_own_features_are_not_mixed_with_derived_ones(run: Any, artifact: Path, model: Path, graph: Path) -> None:
    for command in (["evaluate", artifact], ["predict", model, "-o", graph.parent / "never.csv"]):
        done = run(*command, "--graph", graph, "--features", "fastrp:100")
        assert done.code == 1
        assert "leave --features fastrp:100 out" in done.err


def test_parts_share_derived_features(run: Any, bare: Path, tmp_path: Path) -> None:
    command = ["condense", bare, "--features", "fastrp:16", "--features-seed", 2, "--parts", 2, "--nodes", 12]
    first = run(*command, "-o", tmp_path / "parts", "--json").result
    assert [made["seen"]["derived"]["seed"] for made in first["artifacts"]] == [2, 2]
    again = run(*command, "-o", tmp_path / "parts", "--json").result
    assert [made["made"] for made in again["artifacts"]] == [False, False]
    done = run("evaluate", tmp_path / "parts", "--graph", bare, "--features", "fastrp:16")
    assert "give it --features fastrp:16 --features-seed 2 (" in done.err


def test_a_table_joins_a_folder_of_sources(run: Any, tables: Path, tmp_path: Path) -> None:
    others = [save_npz(citation_graph(nodes=80, classes=2, features=4, seed=i), tmp_path / f"g{i}.npz") for i in (1, 2)]
    assert run("condense", *others, "--nodes", 3, "--no-private", "-o", tmp_path / "all").code == 0
    given = [tables / "edges.csv", "--nodes-table", tables / "nodes.csv"]
    done = run("condense", *given, "--nodes", 4, "--no-private", "-o", tmp_path / "all", "--json")
    assert [made["graph"] for made in done.result["artifacts"]] == ["edges"]
    listed = run("inspect", tmp_path / "all", "--json").result["sources"]
    assert [source["name"] for source in listed] == ["g1", "g2", "edges"]
    refused = run("condense", tables / "edges.csv", "--features", "fastrp:4", "--nodes", 4, "-o", tmp_path / "all")
    assert (refused.code, "mean nothing to the folder's other sources" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--features-seed", 1], 2, "give --features with it"),
        (["--features", "fastrp"], 1, "as in fastrp:128"),
        (["--features", "fastrp:16", "--inductive"], 2, "--inductive hides some"),
        (["--features", "fastrp:16", "--edges", "train"], 2, "--edges train hides some"),
        (["BARE", "--features", "fastrp:16"], 2, "go with one graph"),
        (["BARE", "--nodes-table", "nodes.csv"], 2, "go with one graph"),
        (["--nodes-table", "nodes.csv"], 1, "a node table goes with an edge list"),
    ],
)
def test_refusals(run: Any, bare: Path, options: list[Any], code: int, words: str, tmp_path: Path) -> None:
    options = [bare if option == "BARE" else option for option in options]
    done = run("condense", bare, *options, "--nodes", 6, "-o", tmp_path / "out", "--json")
    assert done.code == code
    assert words in json.loads(done.out)["error"]["message"]
    assert not (tmp_path / "out").exists()
