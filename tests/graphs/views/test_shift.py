from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from plgc.graphs import citation_graph, unlabelled
from plgc.graphs.views.shift import LARGEST, long_tailed
from plgc.runtime.errors import LabelError, SettingError


@pytest.fixture(scope="module")
def graph() -> Data:
    """600 nodes, 4 classes; shared, so no test may change it."""
    return citation_graph(nodes=600, classes=4, features=20)


def counts(graph: Data, mask: str) -> list[int]:
    return torch.bincount(graph["y"][graph[mask]], minlength=4).tolist()


@pytest.mark.parametrize("imbalance", [1.0, 4.0, 10.0, 50.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_counts_follow_the_formula(graph: Data, imbalance: float, seed: int) -> None:
    shifted = long_tailed(graph, imbalance, seed, largest=30)
    expected = [max(1, round(30 * imbalance ** (-rank / 3))) for rank in range(4)]
    assert sorted(counts(shifted, "train_mask"), reverse=True) == expected
    if imbalance == 1.0:
        assert counts(shifted, "train_mask") == [30, 30, 30, 30]


def test_the_test_set_is_balanced_and_apart(graph: Data) -> None:
    shifted = long_tailed(graph, 10.0, 0, largest=30)
    rarest = min(counts(graph, "test_mask"))
    assert counts(shifted, "test_mask") == [rarest] * 4
    assert len(set(counts(graph, "test_mask"))) > 1
    assert not bool((shifted["test_mask"] & ~graph["test_mask"]).any())
    assert not bool((shifted["train_mask"] & graph["test_mask"]).any())  # those left over do not serve for training
    assert not bool((shifted["train_mask"] & shifted["test_mask"]).any())
    assert not bool(shifted["val_mask"].any())


def test_a_class_with_fewer_nodes_gives_all_it_has(graph: Data) -> None:
    shifted = long_tailed(graph, 1.0, 0, largest=10_000)
    available = torch.bincount(graph["y"][~graph["test_mask"]]).tolist()
    assert counts(shifted, "train_mask") == available


def test_even_the_rarest_class_has_one_label(graph: Data) -> None:
    assert min(counts(long_tailed(graph, 1e9, 0, largest=30), "train_mask")) == 1
    assert min(counts(long_tailed(graph, float("inf"), 0, largest=30), "train_mask")) == 1


def test_the_default_is_a_hundred(graph: Data) -> None:
    assert LARGEST == 100
    available = torch.bincount(graph["y"][~graph["test_mask"]])
    shifted = long_tailed(graph, 1.0, 0)
    assert counts(shifted, "train_mask") == available.clamp(max=100).tolist()


def test_order_and_draws_depend_on_the_seed_alone(graph: Data) -> None:
    before = torch.get_rng_state()
    first = long_tailed(graph, 10.0, 0, largest=30)
    assert torch.equal(torch.get_rng_state(), before)
    again = long_tailed(graph, 10.0, 0, largest=30)
    assert all(torch.equal(first[key], again[key]) for key in ("train_mask", "val_mask", "test_mask"))
    largest = {counts(long_tailed(graph, 10.0, seed, largest=30), "train_mask").index(30) for seed in range(20)}
    assert largest == {0, 1, 2, 3}
    assert "imbalance 10, seed 0" in first.split_origin


def test_nothing_but_the_masks_is_new(graph: Data) -> None:
    before = graph.clone()
    shifted = long_tailed(graph, 10.0, 0)
    for key in ("y", "edge_index", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(graph[key], before[key])
    for key in ("y", "edge_index"):
        assert torch.equal(shifted[key], graph[key])
    assert shifted.num_nodes == graph.num_nodes


def test_nodes_without_a_label_are_in_no_part(graph: Data) -> None:
    partly = graph.clone()
    partly.y = torch.where(torch.arange(600) % 3 == 0, -1, graph["y"])
    shifted = long_tailed(partly, 5.0, 0, largest=30)
    assert bool((partly["y"][shifted["train_mask"] | shifted["test_mask"]] >= 0).all())


@pytest.mark.parametrize("imbalance", [0.5, 0.0, -3.0, float("nan")])
def test_what_is_no_imbalance_is_refused(graph: Data, imbalance: float) -> None:
    with pytest.raises(SettingError, match="at least 1"):
        long_tailed(graph, imbalance, 0)


def test_what_cannot_be_shifted_is_refused(graph: Data) -> None:
    with pytest.raises(LabelError, match="no labels"):
        long_tailed(unlabelled(graph), 10.0, 0)
    other = graph.clone()
    other.test_mask = graph["test_mask"] & (graph["y"] != 2)
    with pytest.raises(LabelError, match="class 2 has no test nodes"):
        long_tailed(other, 10.0, 0)
    other.test_mask = graph["test_mask"] | (graph["y"] == 1)
    with pytest.raises(LabelError, match="class 1 has no nodes outside the test set"):
        long_tailed(other, 10.0, 0)
