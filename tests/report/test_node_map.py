"""The map: its layout (principal components, neighbours, groups kept together), and what is chosen and shown."""

from __future__ import annotations

import json

import numpy as np
import torch

from plgc.report.facts.node_map import NODES, NodeMap, choose_nodes, class_mix, distinctive_features, spread_colours
from plgc.report.facts.projection import nearest_neighbours, principal_components, project
from plgc.report.sections.node_map import map_section


def groups(count: int = 5, each: int = 40, width: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    own = torch.arange(count).repeat_interleave(each)
    centres = 4 * torch.randn(count, width, generator=generator)
    return centres[own] + 0.4 * torch.randn(count * each, width, generator=generator), own


def test_principal_components_are_those_of_a_singular_value_decomposition() -> None:
    points, _ = groups()
    found = principal_components(points, 3).numpy()
    centred = points.double().numpy() - points.double().numpy().mean(0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(np.abs(found), np.abs(left[:, :3] * values[:3]), atol=1e-8)
    assert principal_components(points[:, :1], 5).shape == (200, 2)


def test_neighbours_are_the_nearest() -> None:
    points, _ = groups(each=300)
    found = nearest_neighbours(points, 6)
    distance = torch.cdist(points, points).fill_diagonal_(torch.inf)
    expected = distance.topk(6, largest=False).indices
    assert (found.sort(1).values == expected.sort(1).values).float().mean() > 0.999


def test_groups_stay_together() -> None:
    points, own = groups()
    layout = project(points, seed=0)
    assert layout.shape == (200, 2)
    assert torch.isfinite(layout).all()
    near = nearest_neighbours(layout, 5)
    assert (own[near] == own[:, None]).float().mean() > 0.95
    assert torch.equal(layout, project(points, seed=0))
    assert not torch.equal(layout, project(points, seed=1))


def test_equal_points_and_few_points() -> None:
    assert torch.isfinite(project(torch.ones(40, 4))).all()
    assert project(torch.eye(3)).shape == (3, 2)


def test_near_synthetic_nodes_have_different_colours() -> None:
    places = torch.stack(torch.meshgrid(torch.arange(6.0), torch.arange(6.0), indexing="ij"), -1).view(-1, 2).double()
    colours = torch.tensor(spread_colours(places, torch.arange(36)))
    nearest = torch.cdist(places, places).fill_diagonal_(9).topk(2, largest=False).indices
    assert (colours[nearest] != colours[:, None]).all()
    assert set(colours.tolist()) == set(range(8))


def test_features_and_classes_of_clusters() -> None:
    features = torch.rand(7, 20, generator=torch.Generator().manual_seed(0))
    score = (features.numpy() - features.numpy().mean(0)) / features.numpy().std(0)
    assert distinctive_features(features) == np.argsort(-score, axis=1)[:, :5].tolist()
    assert distinctive_features(torch.ones(2, 3)) == [[], []]
    mix = class_mix(torch.tensor([0, 0, 0, 1, 1]), torch.tensor([2, 0, 2, -1, 1]), 3)
    assert mix == [[[2, 2], [0, 1]], [[1, 1]], []]


def test_large_graphs_stay_small() -> None:
    total, clusters = 21_000, 5_000
    counts = torch.randint(1, 9, (clusters,), generator=torch.Generator().manual_seed(0))
    cluster = torch.arange(total) % clusters
    shown, synthetic, place = choose_nodes(cluster, counts, seed=0)
    assert len(synthetic) == 4_000
    assert counts[synthetic].min() >= counts[place < 0].max()
    assert torch.equal(place[synthetic], torch.arange(4_000))
    assert (place[cluster[shown]] >= 0).all()
    few, _, _ = choose_nodes(cluster % 400, counts[:400], seed=0)
    assert len(few) == len(few.unique()) == NODES
    assert torch.equal(few, choose_nodes(cluster % 400, counts[:400], seed=0)[0])
    places = np.zeros((NODES + 400, 2), "<i2")
    own, ids = (cluster % 400)[few].numpy().astype("<u2"), few.numpy().astype("<u4")
    facts = [{"k": k, "size": 50, "near": 50, "f": [1, 2, 3, 4, 5]} for k in range(400)]
    large = NodeMap(places[:NODES], places[NODES:], own, ids, None, [0] * 400, facts, "cluster", [], total)
    section = map_section(large)
    assert section["label"] == "Map of 10\u202f000 of 21\u202f000 nodes (dots) around 400 synthetic nodes (rings)."
    assert section["table"].caption == "The largest 300 of 400 synthetic nodes"
    assert len(json.dumps(section["data"])) < 500_000


def test_every_colour_is_named() -> None:
    places = np.zeros((4, 2), "<i2")
    facts = [{"k": k, "size": 1, "near": 1, "f": [], "class": own} for k, own in enumerate((1, -1))]
    drawn = NodeMap(places[:2], places[2:], np.arange(2), None, np.array([0, -1]), [1, 8], facts, "class", [], 2)
    legends = map_section(drawn)["legends"]
    assert legends == {
        "own": [(1, "class 1"), (None, "unlabelled")],
        "label": [(0, "class 0"), (None, "unlabelled")],
    }
