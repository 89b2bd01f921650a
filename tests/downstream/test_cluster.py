from __future__ import annotations

import sys

import pytest
import torch
from torch import Tensor

from plgc.downstream.tasks.cluster import cluster_nodes, score_clusters
from plgc.runtime.errors import LabelError, MissingExtraError, SettingError

PARTS = {"x": 6, "propagated_1": 8}


def planted(noise: float = 0.1) -> tuple[Tensor, Tensor]:
    """Three clusters in two parts of unlike scale, far from the origin."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(90) % 3
    rows = torch.randn(3, sum(PARTS.values()), generator=generator)[y] + noise * torch.randn(
        90, sum(PARTS.values()), generator=generator
    )
    return rows * torch.tensor([100.0] * PARTS["x"] + [0.01] * PARTS["propagated_1"]) + 50, y


def test_planted_clusters_are_found() -> None:
    rows, y = planted()
    assigned = cluster_nodes(rows, PARTS, 3, seed=0)
    assert assigned.shape == (90,)
    assert assigned.dtype == torch.int64
    assert score_clusters(assigned, y) == {"nmi": pytest.approx(1.0), "ari": pytest.approx(1.0)}


def test_every_part_counts_whatever_its_scale() -> None:
    """The second part alone tells the clusters apart, at a ten-thousandth of the first part's scale."""
    rows, y = planted()
    noise = torch.randn(90, PARTS["x"], generator=torch.Generator().manual_seed(1))
    blurred = torch.cat([100 * noise, rows[:, PARTS["x"] :]], dim=1)
    assert score_clusters(cluster_nodes(blurred, PARTS, 3, seed=0), y)["nmi"] > 0.9
    assert score_clusters(cluster_nodes(blurred, {"x": sum(PARTS.values())}, 3, seed=0), y)["nmi"] < 0.5


def test_only_labelled_nodes_are_scored() -> None:
    assigned, y = torch.tensor([0, 0, 1, 1, 0, 1]), torch.tensor([5, 5, 2, 2, -1, -1])
    assert score_clusters(assigned, y) == {"nmi": pytest.approx(1.0), "ari": pytest.approx(1.0)}
    worse = score_clusters(assigned, torch.tensor([5, 5, 2, 2, 2, 5]))
    assert worse["nmi"] < 0.5
    assert worse["ari"] < 0.5


def test_names_of_groups_do_not_matter_and_chance_scores_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    y, chance = torch.randint(4, (2, 4000), generator=generator)
    assert score_clusters(3 - y, y)["nmi"] == pytest.approx(1.0)
    scores = score_clusters(chance, y)
    assert abs(scores["nmi"]) < 0.01
    assert abs(scores["ari"]) < 0.01


def test_clusters_depend_on_the_seed_alone() -> None:
    rows, _ = planted(noise=3.0)
    before = torch.get_rng_state()
    first = cluster_nodes(rows, PARTS, 8, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(cluster_nodes(rows, PARTS, 8, seed=1), first)
    assert any(not torch.equal(cluster_nodes(rows, PARTS, 8, seed=seed), first) for seed in range(2, 5))


def test_what_cannot_be_clustered_is_refused() -> None:
    rows, y = planted()
    with pytest.raises(SettingError, match="clusters is 0"):
        cluster_nodes(rows, PARTS, 0, seed=0)
    with pytest.raises(SettingError, match=r"clusters is 91: .* 90"):
        cluster_nodes(rows, PARTS, 91, seed=0)
    with pytest.raises(LabelError, match="none of the 90 nodes has a label"):
        score_clusters(y, torch.full((90,), -1))
    with pytest.raises(SettingError, match=r"shape \[3\], y has \[90\]"):
        score_clusters(torch.zeros(3), y)


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sklearn.cluster", "sklearn.metrics"):
        monkeypatch.setitem(sys.modules, module, None)
    rows, y = planted()
    with pytest.raises(MissingExtraError, match=r"plgc\[cluster\]"):
        cluster_nodes(rows, PARTS, 3, seed=0)
    with pytest.raises(MissingExtraError, match=r"plgc\[cluster\]"):
        score_clusters(y, y)


def test_the_input_beside_learned_parts_is_left_out() -> None:
    rows, _ = planted()
    learned = {"learned": PARTS["x"], "learned_plain": PARTS["propagated_1"]}
    noise = 1e3 * torch.randn(90, 40, generator=torch.Generator().manual_seed(2))
    beside = cluster_nodes(torch.cat([rows, noise], dim=1), {**learned, "x": 40}, 3, seed=0)
    assert torch.equal(beside, cluster_nodes(rows, {"learned": sum(learned.values())}, 3, seed=0))
