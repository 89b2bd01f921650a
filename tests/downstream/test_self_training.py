from __future__ import annotations

import torch
from head_graphs import CLASSES, NODES, PARTS, WIDTH, edges, features, few, labels, plain_parts
from torch import Tensor

from plgc.downstream.fitting import fit_head
from plgc.downstream.head import HeadSettings
from plgc.downstream.self_training import confident_nodes
from plgc.sparse.adjacency import Adjacency


def test_confident_nodes_are_the_surest_of_each_class() -> None:
    answer = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7], [0.99, 0.01], [0.51, 0.49]]).log()
    nodes, target, weight = confident_nodes([(0, answer)], torch.tensor([4]), 2)
    found = sorted(zip(nodes.tolist(), target.argmax(1).tolist(), strict=True))
    assert found == [(0, 0), (1, 0), (2, 1), (3, 1)]
    assert weight.tolist() == [1.0] * 4
    nodes, target, _ = confident_nodes([(0, answer[[0, 1]])], torch.tensor([0]), 5)
    assert (nodes.tolist(), target.tolist()) == ([1], [[1.0, 0.0]])


def accuracies(embedding: Tensor, parts: dict[str, int], adjacency: Adjacency | None, *, on: bool) -> float:
    """Mean over ten draws of three labels per class."""
    found, settings = [], HeadSettings(self_training=on)
    for draw in range(10):
        head = fit_head(embedding, parts, few(3) + 9 * draw, labels(), CLASSES, adjacency=adjacency, settings=settings)
        found.append(float((head.probabilities(embedding, adjacency).argmax(1) == labels()).float().mean()))
        assert ("self_training" in head.settled) == on
    return sum(found) / len(found)


def test_few_labels_gain_from_the_other_nodes() -> None:
    x = features(noise=1.5)
    alone, taught = (accuracies(x, {"x": WIDTH}, None, on=on) for on in (False, True))
    assert taught > alone + 0.02


def test_few_labels_on_a_graph_gain_from_the_other_nodes() -> None:
    adjacency = edges(same_class=True, degree=3)
    embedding = plain_parts(features(noise=6.0), adjacency)
    alone, taught = (accuracies(embedding, PARTS, adjacency, on=on) for on in (False, True))
    assert taught > alone + 0.02


def test_no_other_label_is_read() -> None:
    adjacency, x = edges(same_class=True), features(noise=2.0)
    embedding, garbage = plain_parts(x, adjacency), torch.full((NODES,), -(10**6))
    garbage[few(3)] = labels()[few(3)]
    heads = [fit_head(embedding, PARTS, few(3), y, CLASSES, adjacency=adjacency) for y in (labels(), garbage)]
    assert heads[0].settled["self_training"] > 0.5
    assert torch.equal(heads[0].weight, heads[1].weight)
    assert heads[0].settled == heads[1].settled
