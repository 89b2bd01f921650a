"""What work on a graph on disk takes is known before it begins, and refused where it cannot be had."""

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from plgc.downstream import from_disk as module
from plgc.downstream.from_disk import Work, disk_bytes, from_disk, in_memory, needed_memory, stays_on_disk
from plgc.runtime.errors import SettingError

WORK = Work({"learned": 64, "learned_plain": 64, "x": 8, "propagated_1": 8, "propagated_2": 8}, classes=5, labels=20)


def star(nodes: int) -> Data:
    """Node 0 with an edge to every other."""
    others, zeros = torch.arange(1, nodes), torch.zeros(nodes - 1, dtype=torch.int64)
    edge_index = torch.stack([torch.cat([zeros, others]), torch.cat([others, zeros])])
    return Data(x=torch.ones(nodes, 8), edge_index=edge_index, num_nodes=nodes)


def test_needs_grow_with_nodes_and_labels_and_with_edges_only_where_they_are_in_memory() -> None:
    small, large = star(1000), star(2000)
    more_labels = Work(WORK.widths, 5, labels=120)
    held = 2 * (1000 * 8 * 4 + 2000 * 2 * 8)  # features and edges that are in memory already, and a copy
    assert needed_memory(large, WORK) - needed_memory(small, WORK) == 1000 * module.A_NODE + held
    assert needed_memory(small, more_labels) - needed_memory(small, WORK) == 16 * 100 * (152 + 20)
    assert disk_bytes(large, WORK, 1 << 30) == 2 * disk_bytes(small, WORK, 1 << 30) >= 2000 * 4 * (64 + 64 + 8 + 8)


def test_a_graph_stays_on_disk_where_memory_is_limited_and_would_not_suffice() -> None:
    graph = star(100_000)
    assert not stays_on_disk(graph, WORK, None)
    assert not stays_on_disk(graph, WORK, "4GiB")
    assert stays_on_disk(graph, WORK, "450MiB")


def test_the_smallest_limit_that_is_named_suffices_also_with_a_hub(tmp_path: Path) -> None:
    graph = star(600_000)  # the hub's edges are more than a block's
    limit, named = 1 << 20, []
    while len(named) < 3:
        try:
            with from_disk(graph, WORK, limit, tmp_path):
                break
        except SettingError as error:
            named.append(int(str(error).split("--memory ")[1].split("MiB")[0]))
            limit = named[-1] << 20
    assert len(named) == 2  # without the hub, which is known when edges have been read, and with it
    assert list(tmp_path.iterdir()) == []


def test_scratch_files_in_memory_count_as_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = star(1000)
    monkeypatch.setattr(module, "in_memory", lambda folder: True)
    needed = needed_memory(graph, WORK)
    needed += disk_bytes(graph, WORK, needed // 3)
    with pytest.raises(SettingError, match="at least"), from_disk(graph, WORK, needed - 1, tmp_path):
        raise AssertionError
    with from_disk(graph, WORK, needed, tmp_path):
        pass
    if Path("/proc/self/mounts").exists() and Path("/dev/shm").is_dir():
        assert in_memory(Path("/dev/shm"))
