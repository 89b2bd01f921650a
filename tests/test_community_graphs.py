from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import community_graphs
from community_graphs import REDDIT, CommunityGraph, community_graph, write_community_graph
from plgc.runtime.errors import SettingError

SMALL = CommunityGraph(nodes=3000, entries=40_000, features=24, communities=6, noise=1.0)


@pytest.fixture(scope="module")
def graph() -> Data:
    return community_graph(SMALL)


def test_edges_are_symmetric_sorted_and_simple(graph: Data) -> None:
    row, col = graph.edge_index.numpy()
    key = row * SMALL.nodes + col
    assert (np.diff(key) > 0).all()
    assert (row != col).all()
    np.testing.assert_array_equal(np.sort(col * SMALL.nodes + row), key)
    assert row.min() >= 0
    assert row.max() < SMALL.nodes


def test_as_many_entries_as_asked_for_with_hubs_and_communities(graph: Data) -> None:
    row, col = graph.edge_index.numpy()
    assert abs(row.size / SMALL.entries - 1) < 0.03
    degree = np.bincount(row, minlength=SMALL.nodes)
    assert degree.max() > 8 * np.median(degree)
    label = graph.y.numpy()
    # A draw that may go anywhere stays inside by chance with probability 1 / 6.
    expected = SMALL.homophily + (1 - SMALL.homophily) / SMALL.communities
    assert abs((label[row] == label[col]).mean() - expected) < 0.04
    assert (np.bincount(label, minlength=6) > 400).all()


def test_node_numbers_say_nothing_about_the_community(graph: Data) -> None:
    assert abs(np.corrcoef(np.arange(SMALL.nodes), graph.y.numpy())[0, 1]) < 0.06


def test_features_are_noisy_centres(graph: Data) -> None:
    x, label = graph.x.numpy(), graph.y.numpy()
    centres = np.stack([x[label == one].mean(0) for one in range(SMALL.communities)])
    nearest = ((x[:, None] - centres) ** 2).sum(2).argmin(1)
    assert (nearest == label).mean() > 0.95
    np.testing.assert_allclose((x - centres[label]).std(), SMALL.noise, rtol=0.03)


def test_masks_part_the_nodes(graph: Data) -> None:
    masks = torch.stack([graph.train_mask, graph.val_mask, graph.test_mask]).int()
    assert bool((masks.sum(0) == 1).all())
    assert abs(float(graph.train_mask.float().mean()) - community_graphs.TRAIN) < 0.04


def test_the_seed_decides(graph: Data) -> None:
    again = community_graph(SMALL)
    assert torch.equal(again.edge_index, graph.edge_index)
    assert torch.equal(again.x, graph.x)
    other = community_graph(CommunityGraph(**{**SMALL.__dict__, "seed": 1}))
    assert not torch.equal(other.edge_index[:, :1000], graph.edge_index[:, :1000])


def test_files_hold_the_same_graph(graph: Data, tmp_path: Path) -> None:
    folder = write_community_graph(SMALL, tmp_path / "made")
    edges = np.load(folder / "edge_index.npy", mmap_mode="r")
    assert edges.dtype == np.int32
    np.testing.assert_array_equal(edges, graph.edge_index.numpy())
    np.testing.assert_array_equal(np.load(folder / "x.npy", mmap_mode="r"), graph.x.numpy())
    for name in ("y", "train_mask", "val_mask", "test_mask"):
        np.testing.assert_array_equal(np.load(folder / f"{name}.npy"), graph[name].numpy())
    assert [item.name for item in tmp_path.iterdir()] == ["made"]
    with pytest.raises(SettingError, match="there already"):
        write_community_graph(SMALL, folder)


def test_blocks_of_rows_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size of a block, the result is simple, symmetric and about as large."""
    monkeypatch.setattr(community_graphs, "BLOCK", 1500)
    test_edges_are_symmetric_sorted_and_simple(made := community_graph(SMALL))
    assert abs(made.edge_index.shape[1] / SMALL.entries - 1) < 0.03
    assert made.x.shape == (3000, 24)


def test_half_precision_features() -> None:
    made = community_graph(CommunityGraph(nodes=200, entries=800, features=5, communities=2, dtype="float16"))
    assert made.x.dtype == torch.float16
    assert bool(torch.isfinite(made.x).all())


def test_a_graph_without_edges() -> None:
    made = community_graph(CommunityGraph(nodes=40, entries=0, features=3, communities=2))
    assert made.edge_index.shape == (2, 0)


def test_scaled_keeps_degrees_and_community_sizes() -> None:
    tenth = REDDIT.scaled(0.1)
    assert tenth.entries / tenth.nodes == pytest.approx(REDDIT.entries / REDDIT.nodes, rel=1e-3)
    assert tenth.communities == 4
    assert (tenth.features, tenth.dtype) == (602, "float16")


@pytest.mark.parametrize(
    "settings",
    [
        {"nodes": 15, "entries": 0, "communities": 2},
        {"nodes": 100, "entries": 3000, "communities": 10},
        {"nodes": 100, "entries": -1, "communities": 2},
        {"nodes": 100, "entries": 10, "communities": 2, "homophily": 1.5},
        {"nodes": 100, "entries": 10, "communities": 2, "dtype": "int8"},
        {"nodes": 2**31, "entries": 10},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(SettingError):
        CommunityGraph(**settings)
