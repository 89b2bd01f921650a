"""``--until`` on the command line: wherever a graph is named, with parts and several graphs, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from plgc.graphs import citation_graph, load_graph, save_npz


@pytest.fixture(scope="module")
def growing(folder: Path) -> Path:
    """150 nodes that came in three years."""
    graph = load_graph(citation_graph(nodes=150, classes=3, features=40), notice=False)
    graph.time = torch.arange(150) // 50 + 2010.0
    return save_npz(graph, folder / "growing.npz")


def test_every_command_takes_the_graph_as_it_was(run: Any, folder: Path, growing: Path) -> None:
    file, model, answers = folder / "until.safetensors", folder / "until-model.safetensors", folder / "until.csv"
    made = run("condense", growing, "--until", 2011, "--nodes", 8, "-o", file, "--json").result
    assert made["ratio"] == pytest.approx(0.08)  # of 100 nodes
    run("train", file, "--graph", growing, "--until", 2011, "--shots", 3, "-o", model, "--json").result  # noqa: B018
    told = run("predict", model, "--graph", growing, "--until", 2010, "-o", answers, "--json").result
    assert told["nodes"] == 50
    scored = run("evaluate", file, "--graph", growing, "--until", 2011, "--shots", 3, "--json").result
    assert scored["accuracy"]["mean"] > 0
    page = run("report", file, "--graph", growing, "--until", 2011, "--seeds", 0, "-o", folder / "until.html", "--json")
    assert page.code == 0, page.err


def test_parts_and_several_graphs_are_cut_by_time_first(run: Any, folder: Path, growing: Path) -> None:
    parts = run(
        "condense", growing, "--until", 2011, "--parts", 2, "--nodes", 8, "-o", folder / "until-parts", "--json"
    ).result
    assert [one["ratio"] for one in parts["artifacts"]] == pytest.approx([0.08, 0.08])
    other = folder / "growing2.npz"
    other.write_bytes(growing.read_bytes())
    several = run(
        *("condense", growing, other, "--until", 2010, "--nodes", 5, "--no-private"),
        *("-o", folder / "until-two", "--json"),
    ).result
    assert [one["ratio"] for one in several["artifacts"]] == pytest.approx([0.1, 0.1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--until", "soon"), "valid number"),
        (("--until", 1999), "times are from 2010 to 2012"),
        (("--until", 2010, "--time", "age"), "no 'age' that says when nodes came"),
        (("--time", "year"), "give one of them with it"),
    ],
)
def test_refusals_name_the_value(
    run: Any, folder: Path, growing: Path, options: tuple[object, ...], words: str
) -> None:
    done = run("condense", growing, *options, "--nodes", 8, "-o", folder / "never.safetensors")
    assert done.code != 0
    assert words in done.err
    assert not (folder / "never.safetensors").exists()
