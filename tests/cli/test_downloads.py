"""Downloads through the command line: nothing in them is run, and content that is not as expected is not kept."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plgc.graphs import download, remote
from plgc.graphs.published import read_heterophilous
from plgc.runtime.errors import GraphError

NODES = 30


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLGC_DATA", "")
    monkeypatch.setenv("PLGC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], list[str]]:
    """Let every address give some content."""

    def start(content: bytes) -> list[str]:
        asked: list[str] = []
        monkeypatch.setattr(remote, "open_url", lambda url: asked.append(url) or io.BytesIO(content))
        return asked

    return start


def archive(seed: int = 0) -> bytes:
    """A graph as Minesweeper is published."""
    draw, content = np.random.default_rng(seed), io.BytesIO()
    masks = {f"{name}_masks": np.arange(NODES)[None] % 3 == part for part, name in enumerate(("train", "val", "test"))}
    edges = draw.integers(0, NODES, (60, 2))
    np.savez(content, node_features=draw.random((NODES, 5)), node_labels=np.arange(NODES) % 2, edges=edges, **masks)
    return content.getvalue()


def offer(monkeypatch: pytest.MonkeyPatch, git: str | None) -> None:
    file = remote.RemoteFile("https://example.org/minesweeper.npz", "m.npz", git)
    one = download.Download(file.url, NODES, None, 5, 2, (file,), lambda folder: read_heterophilous(folder / "m.npz"))
    monkeypatch.setitem(download.DOWNLOADS, "minesweeper", one)


class Bomb:
    """Opened by a plain pickle, it makes a folder."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.trace),)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_nothing_in_planetoids_files_is_run(
    run: Any, cache: Path, serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int
) -> None:
    cora = download.DOWNLOADS["cora"]
    monkeypatch.setitem(
        download.DOWNLOADS, "cora", replace(cora, files=tuple(replace(file, git=None) for file in cora.files))
    )
    content = pickle.dumps(Bomb(tmp_path / "trace"), protocol)
    serve(content)
    done = run("data", "get", "cora")
    assert (done.code, done.out) == (1, "")
    assert "mkdir, which is not part of a graph" in done.err
    assert not (tmp_path / "trace").exists()
    assert [path.name for path in cache.iterdir()] == ["downloads.json"]
    pickle.loads(content)
    assert (tmp_path / "trace").exists()  # the trap does work


def test_other_content_than_the_one_that_is_known(run: Any, cache: Path, serve: Any) -> None:
    asked = serve(b"x" * 100)
    done = run("condense", "cora", "--nodes", 9, "-o", cache.parent / "c.safetensors")
    assert (done.code, done.out, len(asked)) == (1, "", 1)
    assert "gives other content than expected: its git id is" in done.err
    assert list(cache.iterdir()) == []


def test_known_content_is_kept(run: Any, cache: Path, serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    content = archive()
    (cache.parent / "file").write_bytes(content)
    offer(monkeypatch, remote.git_id(cache.parent / "file"))
    serve(content)
    assert run("data", "get", "minesweeper").out == f"{cache / 'minesweeper.npz'}\n"
    assert [path.name for path in cache.iterdir()] == ["minesweeper.npz"]
    done = run("condense", "minesweeper", "--nodes", 3, "-o", cache.parent / "c.safetensors", "--json")
    assert done.result["graph"] == "minesweeper"


def test_git_gives_files_these_ids(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"what is up, doc?")  # the example of the book "Pro Git"
    assert remote.git_id(tmp_path / "file") == "bd9dbf5aae1a3862dd1526723246b20206e5fc37"


def test_unknown_content_is_recorded_and_compared(
    run: Any, cache: Path, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, None)
    serve(archive())
    assert run("data", "get", "minesweeper").code == 0
    (cache / "minesweeper.npz").unlink()
    assert run("data", "get", "minesweeper").code == 0  # the same again
    (cache / "minesweeper.npz").unlink()
    serve(archive(seed=1))
    done = run("data", "get", "minesweeper")
    assert (done.code, done.out) == (1, "")
    assert "gives other content than at the first download" in done.err
    assert str(cache / "downloads.json") in done.err
    assert not (cache / "minesweeper.npz").exists()


def test_no_address_without_encryption(run: Any, cache: Path, serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(archive())
    offer(monkeypatch, None)
    [file] = download.DOWNLOADS["minesweeper"].files
    plain = replace(download.DOWNLOADS["minesweeper"], files=(replace(file, url="http://example.org/m.npz"),))
    monkeypatch.setitem(download.DOWNLOADS, "minesweeper", plain)
    done = run("data", "get", "minesweeper")
    assert (done.code, "is not an https address" in done.err) == (1, True)
    with pytest.raises(GraphError, match="not an https address"):
        remote._HttpsAlone().redirect_request(None, None, 302, "", {}, "http://example.org/m.npz")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("MAX_BYTES", 50, "more than 50 bytes"), ("MAX_SECONDS", -1.0, "takes longer than")],
)
def test_limits(
    run: Any, cache: Path, serve: Any, monkeypatch: pytest.MonkeyPatch, name: str, value: float, words: str
) -> None:
    serve(archive())
    monkeypatch.setattr(remote, name, value)
    done = run("data", "get", "cora")
    assert (done.code, words in done.err) == (1, True)
    assert list(cache.iterdir()) == []


def test_a_server_that_does_not_answer(run: Any, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(_: str) -> None:
        raise TimeoutError("timed out")

    monkeypatch.setattr(remote, "open_url", wait)
    done = run("data", "get", "cora")
    assert (done.code, "cannot be fetched: timed out" in done.err) == (1, True)
    assert "set PLGC_DATA to a folder that holds cora.npz" in done.err
