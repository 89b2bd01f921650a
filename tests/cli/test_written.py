"""A file of another kind than a command writes is left as it is, unless the user says --force."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

NOTES = b"what I wrote last night\n"


@pytest.fixture
def page(run: Any, artifact: Path, tmp_path: Path) -> Path:
    assert run("report", artifact, "-o", tmp_path / "page.html").code == 0
    return tmp_path / "page.html"


def commands(graph: Path, artifact: Path, model: Path) -> dict[str, list[Any]]:
    return {
        "condense": ["condense", graph, "--nodes", 12],
        "train": ["train", artifact, "--graph", graph, "--shots", 2],
        "predict": ["predict", model, "--graph", graph],
        "report": ["report", artifact, "--seeds", 0],
    }


@pytest.mark.parametrize("command", ["condense", "train", "predict", "report"])
def test_another_kind_needs_force(
    run: Any, command: str, graph: Path, artifact: Path, model: Path, page: Path, tmp_path: Path
) -> None:
    own = {"condense": artifact, "train": model, "report": page}.get(command)
    given = commands(graph, artifact, model)[command]
    out = tmp_path / "out"
    for other in (artifact, model, page, graph, None):
        if other is not None and other == own:
            continue
        out.write_bytes(NOTES if other is None else other.read_bytes())
        before, beside = out.read_bytes(), sorted(tmp_path.iterdir())
        done = run(*given, "-o", out)
        assert (done.code, done.out) == (2, "")
        assert "give --force to write over it" in " ".join(done.err.split())
        assert out.read_bytes() == before
        assert sorted(tmp_path.iterdir()) == beside
    assert run(*given, "-o", out, "--force").code == 0
    first = out.read_bytes()
    assert first != NOTES
    assert run(*given, "-o", out).code == 0  # of its own kind now
    out.write_bytes(b"")
    assert run(*given, "-o", out).code == 0  # nothing to lose
    assert out.read_bytes()


def test_folders(run: Any, graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "small-part2.safetensors").write_bytes(NOTES)
    given = ["condense", graph, "--parts", 2, "--nodes", 12, "-o", out]
    done = run(*given)
    assert (done.code, sorted(path.name for path in out.iterdir())) == (2, ["small-part2.safetensors"])
    assert (out / "small-part2.safetensors").read_bytes() == NOTES
    assert run(*given, "--force").code == 0
    shutil.rmtree(out)
    out.mkdir()
    (out / "figure.png").write_bytes(NOTES)
    assert run("demo", "--graph", graph, "-o", out).code == 2
    assert (out / "figure.png").read_bytes() == NOTES
