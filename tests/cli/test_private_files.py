"""Permissions that the user has set stay, and what is unpacked into the cache is private and compared with its file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plgc.graphs import citation_graph, save_npz
from plgc.graphs.formats import npz
from plgc.runtime import mapped


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture(autouse=True)
def _usual_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_outputs_keep_their_permissions(run: Any, graph: Path, artifact: Path, model: Path, tmp_path: Path) -> None:
    made = {
        "mine.safetensors": ["condense", graph, "--nodes", 6],
        "model.safetensors": ["train", artifact, "--graph", graph, "--shots", 2],
        "answers.csv": ["predict", model, "--graph", graph],
        "page.html": ["report", artifact],
    }
    for name, command in made.items():
        assert run(*command, "-o", tmp_path / name).code == 0
        assert mode(tmp_path / name) == 0o644
        for kept in (0o600, 0o640):
            (tmp_path / name).chmod(kept)
            assert run(*command, "-o", tmp_path / name).code == 0
            assert mode(tmp_path / name) == kept


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A graph that counts as large and that no other user may read."""
    monkeypatch.setenv("PLGC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(npz, "UNPACKED_FROM", 1000)
    monkeypatch.setattr(mapped, "MAPPED_FROM", 0)
    graph = citation_graph(nodes=100, classes=2, features=20)
    assert graph.x is not None
    graph.x = graph.x.to_dense()
    path = save_npz(graph, tmp_path / "g.npz")
    path.chmod(0o600)
    return path


def condense(run: Any, graph: Path) -> tuple[bytes, str]:
    done = run("condense", graph, "--nodes", 4, "-o", graph.parent / "c.safetensors")
    assert done.code == 0, done.err
    return (graph.parent / "c.safetensors").read_bytes(), done.err


def test_the_cache_is_closed_to_others(run: Any, large: Path, tmp_path: Path) -> None:
    place = tmp_path / "cache" / "unpacked"
    place.mkdir(parents=True)  # as an earlier version has made it
    condense(run, large)
    folders = [place, *place.iterdir()]
    assert [mode(folder) for folder in folders] == [0o700, 0o700]
    assert {mode(file) for file in folders[1].iterdir()} == {0o600}


@pytest.mark.parametrize("change", ["value", "cut", "missing", "added", "link"])
def test_what_was_changed_in_the_cache_is_not_used(run: Any, large: Path, tmp_path: Path, change: str) -> None:
    first, notes = condense(run, large)
    assert "is unpacked, once, into" in notes
    assert condense(run, large) == (first, "")
    [folder] = (tmp_path / "cache" / "unpacked").iterdir()
    file = folder / "x.npy"
    if change == "value":
        content = bytearray(file.read_bytes())
        content[200] ^= 1
        file.write_bytes(content)
    elif change == "cut":
        os.truncate(file, 500)
    elif change == "missing":
        file.unlink()
    elif change == "added":
        shutil.copy(folder / "y.npy", folder / "edge_weight.npy")
    else:
        file.rename(tmp_path / "elsewhere.npy")
        file.symlink_to(tmp_path / "elsewhere.npy")
    again, notes = condense(run, large)
    assert again == first
    assert "is unpacked, anew, since what was there differs from it, into" in notes
