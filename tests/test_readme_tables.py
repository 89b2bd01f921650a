"""The README's "Your own graph": its commands, copied as they are, on tables with the columns that it shows."""

from __future__ import annotations

import csv
import random
import re
import shlex
from pathlib import Path

import pytest

from plgc.cli import main

README = Path(__file__).parents[1] / "README.md"
PEOPLE, TEAMS = 200, ("sales", "research")


@pytest.fixture
def section() -> str:
    return README.read_text(encoding="utf-8").split("## Your own graph\n")[1].split("\n## ")[0]


def blocks(section: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return [code for name, code in found if name == language]


def write_like(nodes: str, edges: str, folder: Path) -> None:
    """Tables with the README's headers and rows enough to learn from: two teams that mostly keep to themselves."""
    draw = random.Random(0)
    assert nodes.splitlines()[0] == "id,age,meetings,office,label"
    rows = [nodes.splitlines()[0]]
    for number in range(PEOPLE):
        meetings, office = draw.gauss((40, 5)[number % 2], 4), draw.choice(["Rome", "Oslo"])
        label = TEAMS[number % 2] if number % 10 < 8 else ""
        rows.append(f"p{number:03},{draw.randint(20, 60)},{meetings:.1f},{office},{label}")
    (folder / "nodes.csv").write_text("\n".join(rows))
    rows = [edges.splitlines()[0]]
    for _ in range(5 * PEOPLE):
        one = draw.randrange(PEOPLE)
        rows.append(f"p{one:03},p{(one + 2 * draw.randrange(PEOPLE // 2) + (draw.random() < 0.1)) % PEOPLE:03}")
    (folder / "edges.csv").write_text("\n".join(rows))


def test_copied_as_they_are(section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    nodes, edges = blocks(section, "csv")
    write_like(nodes, edges, tmp_path)
    [commands] = blocks(section, "")
    assert len(commands.splitlines()) == 3
    for command in commands.replace("&&", "\n").splitlines():
        assert main(shlex.split(command)[1:]) == 0, command
    assert (tmp_path / "mine.html").stat().st_size < 3_000_000
    with open(tmp_path / "answers.csv", newline="") as file:
        answers = list(csv.DictReader(file))
    assert [answer["node"] for answer in answers] == [f"p{number:03}" for number in range(PEOPLE)]
    right = [answer["predicted_class"] == TEAMS[number % 2] for number, answer in enumerate(answers)]
    assert sum(right) > 0.7 * PEOPLE


def test_the_tables_shown_fit_together(section: str, tmp_path: Path) -> None:
    from plgc import load_graph

    for name, code in zip(("nodes.csv", "edges.csv"), blocks(section, "csv"), strict=True):
        (tmp_path / name).write_text(code)
    graph = load_graph(tmp_path / "edges.csv", nodes_table=tmp_path / "nodes.csv")
    assert (graph.num_nodes, graph.num_edges, graph.y.tolist()) == (3, 4, [1, 0, -1])
