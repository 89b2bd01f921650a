"""``plgc merge``: from files and folders to one file that every other command takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import plgc


@pytest.fixture(scope="module")
def parts(run: Any, graph: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph in three parts."""
    folder = tmp_path_factory.mktemp("parts")
    assert run("condense", graph, "--parts", 3, "--nodes", 12, "-o", folder).code == 0
    return folder


@pytest.fixture(scope="module")
def merged(run: Any, parts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("merged") / "one.safetensors"
    assert run("merge", parts, "-o", out).code == 0
    return out


def test_a_folder_becomes_one_file(run: Any, parts: Path, merged: Path, tmp_path: Path) -> None:
    out = tmp_path / "one.safetensors"
    result = run("merge", parts, "-o", out, "--json").result
    assert out.read_bytes() == merged.read_bytes()
    assert (result["sources"], result["rows"], result["nodes"], result["represents"]) == (3, 12, 12, 300)
    assert result["bytes"] == out.stat().st_size
    done = run("merge", *sorted(parts.glob("*.safetensors")), "--nodes", 6, "--seed", 2, "-o", out)
    assert done.code == 0
    assert "3 file(s) of 4, 4, 4 rows into" in done.out
    assert plgc.CondensedGraph.load(out).nodes_requested == 6


@pytest.mark.slow
def test_labels_do_not_change_the_file(run: Any, graph: Path, unlabelled: Path, merged: Path, tmp_path: Path) -> None:
    for place in (tmp_path / "bare", tmp_path / "one.safetensors"):
        command = (
            ["merge", tmp_path / "bare"] if place.suffix else ["condense", unlabelled, "--parts", 3, "--nodes", 12]
        )
        assert run(*command, "-o", place).code == 0
    assert place.read_bytes() == merged.read_bytes()


def test_other_commands_take_the_result(run: Any, graph: Path, merged: Path, artifact: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.safetensors"
    for command in (
        ["inspect", merged],
        ["evaluate", merged, "--graph", graph, "--shots", 3],
        ["train", merged, "--graph", graph, "--shots", 3, "-o", model],
        ["predict", model, "--graph", graph, "-o", tmp_path / "answers.csv"],
        ["report", merged, "-o", tmp_path / "page.html"],
        ["export", merged, "--to", "pyg", "-o", tmp_path / "one.pt"],
        ["merge", merged, artifact, "--nodes", 10, "-o", tmp_path / "again.safetensors"],
    ):
        done = run(*command)
        assert done.code == 0, (command, done.err)


def test_nothing_is_written_over(run: Any, parts: Path, merged: Path, model: Path) -> None:
    part = parts / "small-part1.safetensors"
    before = {path: path.read_bytes() for path in (part, parts / "manifest.json", model)}
    for output in before:
        done = run("merge", parts, "-o", output)
        assert done.code == 2
        assert "would be lost" in done.err
    assert run("merge", merged, "-o", merged, "--nodes", 3).code == 2
    assert {path: path.read_bytes() for path in before} == before


def test_what_cannot_be_merged_is_an_error(run: Any, graph: Path, artifact: Path, model: Path, tmp_path: Path) -> None:
    rival, out = tmp_path / "rival.safetensors", tmp_path / "one.safetensors"
    assert run("condense", graph, "--method", "coarsening", "--nodes", 12, "-o", rival).code == 0
    for files, message in (
        ([artifact], "nothing to merge"),
        ([artifact, artifact], "is given 2 times"),
        ([artifact, rival], "made by coarsening"),
        ([artifact, model], "model.safetensors"),
        ([artifact, tmp_path / "none"], "none"),
    ):
        done = run("merge", *files, "-o", out)
        assert (done.code, done.out) == (1, "")
        assert message in done.err
        assert not out.exists()
    for option in (["--nodes", 1], ["--seed", -1]):
        assert run("merge", artifact, *option, "-o", out).code == 2
    assert run("merge", artifact, "--nodes", 6, "--device", "warp", "-o", out).code == 1
