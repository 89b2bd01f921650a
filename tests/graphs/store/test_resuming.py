"""A run that is stopped goes on; the folder appears whole or not at all; memory and disk are checked first."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plgc.graphs import store_graph
from plgc.graphs.store import run
from plgc.graphs.store.work import work_folder
from plgc.runtime.errors import GraphError, PLGCError, SettingError
from plgc.runtime.files import WriteError


@pytest.fixture
def source(tmp_path: Path) -> tuple[Path, Path]:
    draw = np.random.default_rng(0)
    pd.DataFrame({"id": range(50), "height": draw.random(50)}).to_csv(tmp_path / "nodes.csv", index=False)
    ends = draw.integers(0, 50, (2, 300))
    pd.DataFrame({"source": ends[0], "target": ends[1]}).to_csv(tmp_path / "edges.csv", index=False)
    return tmp_path / "edges.csv", tmp_path / "nodes.csv"


def store(source: tuple[Path, Path], target: Path, **options: object) -> Path:
    return store_graph(source[0], target, nodes_table=source[1], notice=False, **options)  # pyright: ignore


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that are done from here on."""
    done: list[str] = []
    for name in ("_nodes", "sort_edges", "merge_edges"):

        def call(*given: object, name: str = name, real: object = getattr(run, name)) -> object:
            done.append(name)
            return real(*given)  # pyright: ignore

        monkeypatch.setattr(run, name, call)
    return done


@pytest.mark.parametrize(
    ("stopped", "left"), [("sort_edges", ["sort_edges", "merge_edges"]), ("merge_edges", ["merge_edges"])]
)
def test_finished_steps_are_not_done_again(
    source: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: str, left: list[str]
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    expected = store(source, tmp_path / "expected")
    with monkeypatch.context() as patch:
        patch.setattr(run, stopped, stop)
        with pytest.raises(KeyboardInterrupt):
            store(source, tmp_path / "made")
    assert not (tmp_path / "made").exists()
    done = counted(monkeypatch)
    made = store(source, tmp_path / "made")
    assert done == left
    assert not (tmp_path / "made.storing").exists()
    for path in expected.iterdir():
        if path.name != "meta.npy":  # it has the folder's name
            assert path.read_bytes() == (made / path.name).read_bytes()


def test_changed_inputs_are_read_anew(
    source: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges, nodes = source
    text = edges.read_text()
    edges.write_text(text + "7,unknown\n")
    with pytest.raises(GraphError, match=r"edges\.csv: row 301 names the node 'unknown', which nodes\.csv does not"):
        store(source, tmp_path / "made")
    edges.write_text(text)
    done = counted(monkeypatch)
    store(source, tmp_path / "made")
    assert done == ["sort_edges", "merge_edges"]
    done.clear()
    with pytest.raises(SettingError, match="is there already"):
        store(source, tmp_path / "made")
    edges.write_text(text + "7,unknown\n")
    with pytest.raises(GraphError):
        store(source, tmp_path / "again")
    edges.write_text(text)
    nodes.write_text(nodes.read_text() + "51,0.5\n")
    done.clear()
    store(source, tmp_path / "again")
    assert done == ["_nodes", "sort_edges", "merge_edges"]


@pytest.mark.parametrize("module", ["spill", "edges", "runs"])
def test_a_disk_that_fills_up(
    source: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    def full(file: object, *given: object, **options: object) -> object:
        if "made.storing" in str(file) and str(given[:1]) in ("('wb',)", "('ab',)"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return open(file, *given, **options)  # pyright: ignore

    with monkeypatch.context() as patch:
        patch.setattr(f"plgc.graphs.store.{module}.open", full, raising=False)
        with pytest.raises(WriteError, match=r"cannot write .*made: No space left on device.*the same command again"):
            store(source, tmp_path / "made")
    assert not (tmp_path / "made").exists()
    store(source, tmp_path / "made")


def test_memory_and_disk_are_checked_first(
    source: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingError, match=r"memory is 100 MiB: .* needs at least 433 MiB \(--memory 433MiB\)"):
        store(source, tmp_path / "made", memory="100MiB")
    store(source, tmp_path / "enough", memory="433MiB")
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 5000}))
    with pytest.raises(SettingError, match=r"storing this graph takes up to .* bytes of disk, 5,000 are free"):
        store(source, tmp_path / "made")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "enough", "nodes.csv"]


def test_two_runs_do_not_write_one_folder(source: tuple[Path, Path], tmp_path: Path) -> None:
    with work_folder(tmp_path / "made"), pytest.raises(SettingError, match="another run is writing"):
        store(source, tmp_path / "made")


@pytest.mark.slow
def test_a_killed_run_goes_on(source: tuple[Path, Path], tmp_path: Path) -> None:
    expected = store(source, tmp_path / "expected")
    script = """
import os, signal, sys
from plgc.graphs import store_graph
from plgc.graphs.store import edges
real, seen = edges.raw, []
def raw(array):
    seen.append(array)
    if len(seen) > 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(array)
edges.raw = raw
store_graph(sys.argv[1], sys.argv[3], nodes_table=sys.argv[2], notice=False)
"""
    command = [sys.executable, "-c", script, *map(str, source), str(tmp_path / "made")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert (tmp_path / "made.storing" / "edges" / "rows.part").exists()
    assert not (tmp_path / "made").exists()
    made = store(source, tmp_path / "made")
    assert (made / "edge_index.npy").read_bytes() == (expected / "edge_index.npy").read_bytes()
    assert not (tmp_path / "made.storing").exists()


def test_errors_leave_nothing(source: tuple[Path, Path], tmp_path: Path) -> None:
    source[1].write_text("id,height\n1,2\n1,3\n")
    with pytest.raises(PLGCError):
        store(source, tmp_path / "made")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "nodes.csv"]
