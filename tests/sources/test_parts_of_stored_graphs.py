"""Parts of a graph on disk: the files are those of the same graph in memory, and a run goes on where one has ended."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plgc
from plgc.graphs import citation_graph, save_stored
from plgc.graphs.views import parts_on_disk
from plgc.runtime import mapped
from plgc.runtime.errors import SettingError
from plgc.runtime.files import WriteError
from plgc.sources import SourcesError, cutting
from plgc.sources import folder as folder_module
from plgc.sources.cutting import CUTS
from plgc.sources.task import SourceTask, condense_source
from quick import quick

QUICK = quick(16, hidden=16, rounds=1, epochs=2)
HOW: dict[str, Any] = {"halo": 1, "nodes": 12, "settings": QUICK}


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A graph that is mapped although it is small, in half precision, with labels."""
    graph = citation_graph(nodes=300, classes=3, features=20, seed=1)
    assert isinstance(graph.y, torch.Tensor)
    graph.x = torch.randn(300, 20, generator=torch.Generator().manual_seed(0)) + graph.y[:, None]
    save_stored(plgc.load_graph(graph), tmp_path / "big", dtype="float16")
    monkeypatch.setattr(mapped, "MAPPED_FROM", 0)
    return tmp_path / "big"


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The parts that are cut, call by call."""
    found: list[list[int]] = []
    write_parts = cutting.write_parts

    def counting(graph: Any, part: Any, wanted: Any, *rest: Any, **given: Any) -> None:
        found.append(list(wanted))
        write_parts(graph, part, wanted, *rest, **given)

    monkeypatch.setattr(cutting, "write_parts", counting)
    return found


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("how", ["random", "stream"])
def test_the_files_are_those_of_the_graph_in_memory(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    found = plgc.condense_parts(stored, tmp_path / "disk", 3, how, **HOW)
    with monkeypatch.context() as patch:
        patch.setattr(mapped, "MAPPED_FROM", 1 << 30)
        plgc.condense_parts(stored, tmp_path / "memory", 3, how, **HOW)
    assert files(tmp_path / "disk") == files(tmp_path / "memory")
    assert found.partition is not None
    assert found.partition["edges_cut"] > 0
    assert [path.name for path in (tmp_path / "disk").iterdir() if path.name.startswith(".")] == []
    assert [source.entry.name for source in found.sources] == [f"big-part{number}" for number in (1, 2, 3)]


def test_work_files_have_no_labels_and_only_one_reader(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[set[str], int]] = []

    def looking(task: SourceTask) -> Any:
        part = Path(task.graph)
        seen.append(({path.stem for path in part.iterdir()}, part.parent.stat().st_mode & 0o777))
        return condense_source(task)

    monkeypatch.setattr(folder_module, "condense_source", looking)
    plgc.condense_parts(stored, tmp_path / "out", 2, **HOW)
    assert seen == [({"x", "edge_index", "core_mask", "node_index"}, 0o700)] * 2


def test_the_same_again_cuts_and_condenses_nothing(stored: Path, tmp_path: Path, cuts: list[list[int]]) -> None:
    plgc.condense_parts(stored, tmp_path / "out", 3, **HOW)
    before = files(tmp_path / "out")
    found = plgc.condense_parts(stored, tmp_path / "out", 3, **HOW)
    assert not any(source.made for source in found.sources)
    assert (cuts, files(tmp_path / "out")) == ([[0, 1, 2]], before)
    (tmp_path / "out" / "big-part2.safetensors").unlink()
    found = plgc.condense_parts(stored, tmp_path / "out", 3, **HOW)
    assert [source.made for source in found.sources] == [False, True, False]
    assert (cuts[1:], files(tmp_path / "out")) == ([[1]], before)


def test_a_run_that_was_stopped_keeps_what_it_has_cut(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuts: list[list[int]]
) -> None:
    plgc.condense_parts(stored, tmp_path / "whole", 3, "stream", **HOW)

    def interrupted(task: SourceTask) -> Any:
        if task.name == "big-part2":
            raise KeyboardInterrupt
        return condense_source(task)

    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "condense_source", interrupted)
        with pytest.raises(KeyboardInterrupt):
            plgc.condense_parts(stored, tmp_path / "out", 3, "stream", **HOW)
        left = next((tmp_path / "out").glob(f"{CUTS}*"))
        assert {path.name for path in left.iterdir() if path.is_dir()} == {"part2", "part3"}
        patch.setattr(cutting, "partition_nodes", None)  # it is known where every node belongs
        patch.setattr(folder_module, "condense_source", condense_source)
        found = plgc.condense_parts(stored, tmp_path / "out", 3, "stream", **HOW)
    assert [source.made for source in found.sources] == [False, True, True]
    assert cuts == [[0, 1, 2]] * 2  # of the other folder, and of the first run
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    assert not left.exists()


def test_a_damaged_part_is_named_and_cut_again(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuts: list[list[int]]
) -> None:
    def damaging(task: SourceTask) -> Any:
        if task.name == "big-part2":
            edges = Path(task.graph) / "edge_index.npy"
            edges.write_bytes(edges.read_bytes()[:-100])
        return condense_source(task)

    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "condense_source", damaging)
        with pytest.raises(SourcesError, match=r"1 of 3 .*big-part2: .*edge_index.npy.*does only what is missing"):
            plgc.condense_parts(stored, tmp_path / "out", 3, **HOW)
    found = plgc.condense_parts(stored, tmp_path / "out", 3, **HOW)
    assert [source.made for source in found.sources] == [False, True, False]
    assert cuts == [[0, 1, 2], [1]]


def test_a_full_disk_while_cutting_is_told_and_the_same_goes_on(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(parts_on_disk, "_spill_edges", full)
        with pytest.raises(WriteError, match=r"cannot write the parts of the graph .*No space left on device"):
            plgc.condense_parts(stored, tmp_path / "out", 3, **HOW)
    assert [path.name for path in next((tmp_path / "out").glob(f"{CUTS}*")).iterdir() if path.is_dir()] == []
    assert len(plgc.condense_parts(stored, tmp_path / "out", 3, **HOW).sources) == 3


def test_another_cut_leaves_nothing_of_the_one_before(stored: Path, tmp_path: Path) -> None:
    left = tmp_path / "out" / f"{CUTS}0123"
    left.mkdir(parents=True)
    plgc.condense_parts(stored, tmp_path / "out", 2, **HOW)
    assert not left.exists()
    with pytest.raises(SettingError, match="cut otherwise"):
        plgc.condense_parts(stored, tmp_path / "out", 3, **HOW)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"halo": -1}, "halo is -1"), ({"nodes": 3}, "nodes is 3 for 2 parts"), ({"how": "x"}, "'x'")],
)
def test_wrong_settings_leave_no_work_behind(stored: Path, tmp_path: Path, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        plgc.condense_parts(stored, tmp_path / "out", 2, **{**HOW, **wrong})
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


def test_a_changed_graph_is_cut_again(stored: Path, tmp_path: Path, cuts: list[list[int]]) -> None:
    plgc.condense_parts(stored, tmp_path / "out", 2, **HOW)
    x = np.load(stored / "x.npy")
    x[0, 0] += 1
    np.save(stored / "x.npy", x)
    found = plgc.condense_parts(stored, tmp_path / "out", 2, **HOW)
    assert all(source.made and source.replaced for source in found.sources)
    assert cuts == [[0, 1]] * 2
