"""Tables with and without a line of names: guessed from evidence, announced, or said by the user; no row is lost."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import pytest

PEOPLE = 30
TEAMS = ("sales", "research")
NAMES = [
    f"{letter}{number}"
    for number in range(3)
    for letter in ("ann", "bob", "cem", "dia", "eva", "fia", "gus", "hal", "ida", "jon")
]


def write(folder: Path, edge_names: str = "", node_names: str = "", columns: int = 4) -> tuple[Path, Path]:
    """People who know people: words alone, the team in the last column."""
    draw, edges, nodes = random.Random(0), folder / "edges.csv", folder / "nodes.csv"
    cities = ("Rome", "Oslo", "Bonn")
    rows = [(name, draw.choice(cities), draw.choice(("red", "blue")), TEAMS[i % 2]) for i, name in enumerate(NAMES)]
    lines = [",".join((row[0], *row[4 - columns + 1 :])) for row in rows]
    nodes.write_text("\n".join([*([node_names] if node_names else []), *lines]) + "\n")
    pairs = [f"{NAMES[i]},{NAMES[(i + step) % PEOPLE]}" for i in range(PEOPLE) for step in (2, 4)]
    edges.write_text("\n".join([*([edge_names] if edge_names else []), *pairs]) + "\n")
    return edges, nodes


def answers(run: Any, edges: Path, nodes: Path, *options: object) -> tuple[list[str], set[str], str]:
    """Ids and classes in the predictions of a model, and the notes; through all commands."""
    folder, given = edges.parent, ["--nodes-table", nodes, *options]
    made = run("condense", edges, *given, "--nodes", 6, "-o", folder / "c.safetensors")
    assert made.code == 0, made.err
    trained = run("train", folder / "c.safetensors", "--graph", edges, *given, "-o", folder / "m.safetensors")
    assert trained.code == 0, trained.err
    result = run("predict", folder / "m.safetensors", "--graph", edges, *given, "-o", folder / "p.csv", "--json").result
    with open(folder / "p.csv", newline="") as file:
        ids = [row["node"] for row in csv.DictReader(file)]
    return ids, set(result["classes"]), made.err


def test_words_without_a_header(run: Any, tmp_path: Path) -> None:
    ids, classes, notes = answers(run, *write(tmp_path))
    assert ids == NAMES
    assert classes == set(TEAMS)
    first = f"{NAMES[0]},"
    assert f"nodes.csv: the first line, '{first}" in notes
    assert f"is a row, since {NAMES[0]!r} is an id of a node: no header line" in notes
    assert "'column 4', the last one, is taken for the label" in notes
    assert f"edges.csv: the first line, '{first}cem0', is a row, since its cells are ids of nodes" in notes


def test_words_with_a_header_that_says_nothing(run: Any, tmp_path: Path) -> None:
    ids, classes, notes = answers(run, *write(tmp_path, "one,other", "who,town,shirt,team"), "--column", "label=team")
    assert ids == NAMES
    assert classes == set(TEAMS)
    assert "edges.csv: the first line, 'one,other', is taken for the header, since it has no numbers and" in notes
    assert "if it is a row, give --no-header" in notes


def test_a_table_of_ids_and_labels_alone(run: Any, tmp_path: Path) -> None:
    edges, nodes = write(tmp_path, columns=2)
    done = run("condense", edges, "--nodes-table", nodes, "--features", "fastrp:8", "--nodes", 4, "-o", tmp_path / "c")
    assert done.code == 0
    assert "'column 2', the last one, is taken for the label" in done.err
    assert "nodes.csv: there is no feature column" in done.err  # the label is not among the features


def test_edges_alone(run: Any, tmp_path: Path) -> None:
    edges, _ = write(tmp_path)
    options = ["--features", "fastrp:8", "--nodes", 4, "-o", tmp_path / "c.safetensors", "--json"]
    done = run("condense", edges, *options)
    assert f"is a row, since {NAMES[0]!r} occurs again" in done.err
    assert run("inspect", tmp_path / "c.safetensors", "--json").result["source"] == {
        "nodes": PEOPLE,
        "edges": 4 * PEOPLE,
        "features": 8,
    }


@pytest.mark.parametrize(("option", "nodes", "edges"), [(None, 4, 2), ("--header", 4, 2), ("--no-header", 6, 3)])
def test_the_user_has_the_last_word(run: Any, tmp_path: Path, option: str | None, nodes: int, edges: int) -> None:
    """Nothing tells whether the first line is an edge."""
    (tmp_path / "e.csv").write_text("ann,bob\ncem,dia\neva,fia\n")
    given = ["--features", "fastrp:4", "--nodes", 2, "-o", tmp_path / "c.safetensors", *([option] if option else [])]
    done = run("condense", tmp_path / "e.csv", *given)
    assert ("if it is a row, give --no-header" in done.err) == (option is None)
    assert ("no header line" in done.err) == (option == "--no-header")
    source = run("inspect", tmp_path / "c.safetensors", "--json").result["source"]
    assert (source["nodes"], source["edges"]) == (nodes, 2 * edges)


def test_columns_that_are_named_tell_too(run: Any, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("ann,bob\ncem,dia\neva,fia\n")
    given = ["--features", "fastrp:4", "--nodes", 2, "-o", tmp_path / "c.safetensors"]
    for source, target, nodes in (("ann", "bob", 4), ("column 1", "column 2", 6)):
        done = run(
            "condense", tmp_path / "e.csv", *given, "--column", f"source={source}", "--column", f"target={target}"
        )
        assert done.code == 0, done.err
        assert run("inspect", tmp_path / "c.safetensors", "--json").result["source"]["nodes"] == nodes


def test_numbers_under_words_are_a_header(run: Any, tmp_path: Path) -> None:
    edges, nodes = write(tmp_path)
    nodes.write_text("who,height,team\n" + "".join(f"{n},{i % 7},{TEAMS[i % 2]}\n" for i, n in enumerate(NAMES)))
    ids, classes, _ = answers(run, edges, nodes, "--column", "id=who", "--column", "label=team")
    assert (ids, classes) == (NAMES, set(TEAMS))
    done = run("condense", edges, "--nodes-table", nodes, "--nodes", 4, "-o", tmp_path / "c.safetensors")
    assert "'who,height,team', is taken for the header, since 'height' is above numbers" in done.err


def test_where_it_means_nothing(run: Any, graph: Path, tmp_path: Path) -> None:
    done = run("condense", graph, "--no-header", "--nodes", 4, "-o", tmp_path / "c.safetensors")
    assert (done.code, "columns are for tables" in done.err) == (1, True)


def test_a_first_pair_is_not_lost_in_silence(run: Any, tmp_path: Path) -> None:
    edges, nodes = write(tmp_path)
    given = ["--graph", edges, "--nodes-table", nodes]
    file, links, pairs = tmp_path / "c.safetensors", tmp_path / "l.safetensors", tmp_path / "pairs.csv"
    assert run("condense", edges, "--nodes-table", nodes, "--nodes", 6, "-o", file).code == 0
    assert run("train", file, *given, "--task", "link", "-o", links).code == 0
    pairs.write_text("anne,bobby\nann0,bob0\n")
    done = run("predict", links, *given, "--pairs", pairs, "-o", tmp_path / "p.csv")
    assert done.code == 0
    assert "pairs.csv: the first line, 'anne,bobby', is taken for names of columns" in done.err
