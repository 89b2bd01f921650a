"""Parts of a graph on disk, written as graphs on disk: the same as those cut out in memory."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.graphs import citation_graph, save_stored
from plgc.graphs.views import parts_on_disk
from plgc.graphs.views.partition import cut_part, partition_nodes
from plgc.graphs.views.parts_on_disk import can_be_cut_on_disk, part_folder, write_parts
from plgc.runtime import mapped
from plgc.runtime.errors import SettingError
from plgc.runtime.files import WriteError
from plgc.runtime.progress import silent


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Data:
    """A graph on disk with a node that has no edges, and small blocks to go over it in."""
    graph = citation_graph(nodes=300, classes=3, features=20, seed=1)
    graph.edge_index = graph.edge_index[:, (graph.edge_index != 7).all(0)]
    ends = graph.edge_index.sort(dim=0).values
    graph.x = torch.randn(300, 20, generator=torch.Generator().manual_seed(0))
    graph.edge_weight = 1.0 + (ends[0] * 31 + ends[1]) % 7
    save_stored(plgc.load_graph(graph), tmp_path / "stored", dtype="float16")
    monkeypatch.setattr(mapped, "MAPPED_FROM", 0)
    monkeypatch.setattr(parts_on_disk, "BLOCK_EDGES", 100)
    monkeypatch.setattr(mapped, "BLOCK", 4 * 20 * 32)
    return plgc.load_graph(tmp_path / "stored")


@pytest.mark.parametrize(("parts", "halo"), [(2, 0), (3, 1), (11, 2), (70, 1)])
def test_parts_are_those_that_are_cut_in_memory(stored: Data, tmp_path: Path, parts: int, halo: int) -> None:
    part = partition_nodes(stored, parts, "random", seed=3)
    wanted = [number for number in range(parts) if number != 1]
    assert can_be_cut_on_disk(stored)
    write_parts(stored, part.numpy().astype(np.int32), wanted, tmp_path / "out", halo=halo, progress=silent)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {f"part{number + 1}" for number in wanted}
    for number in wanted:
        found, expected = (
            plgc.load_graph(part_folder(tmp_path / "out", number)),
            cut_part(stored, part, number, halo=halo),
        )
        assert torch.equal(found.edge_index, expected.edge_index)
        assert torch.equal(found.x, expected.x)
        assert found.x.dtype == torch.float16
        assert torch.equal(found.core_mask, expected.core_mask)
        index = np.load(part_folder(tmp_path / "out", number) / "node_index.npy")
        assert torch.equal(torch.from_numpy(index), expected.node_index)
        assert ("edge_weight" in found) == (found.edge_index.shape[1] > 0)
        if "edge_weight" in found:
            assert torch.equal(found.edge_weight, expected.edge_weight)
        assert found.y is None


def test_a_full_disk_leaves_whole_parts_alone(stored: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = partition_nodes(stored, 3, "random", seed=3).numpy()
    write_parts(stored, part, [0], tmp_path / "out", halo=1, progress=silent)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(parts_on_disk, "_join_edges", full)
    with pytest.raises(WriteError, match="No space left on device; nothing is left of those"):
        write_parts(stored, part, [1, 2], tmp_path / "out", halo=1, progress=silent)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["part1"]


def test_too_little_room_is_found_before_anything_is_written(
    stored: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = partition_nodes(stored, 3, "random", seed=3).numpy()
    monkeypatch.setattr(parts_on_disk.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(SettingError, match="take at least 14,700 bytes of disk, 10 are free"):
        write_parts(stored, part, [0, 1, 2], tmp_path / "out", halo=0, progress=silent)
    assert list((tmp_path / "out").iterdir()) == []
