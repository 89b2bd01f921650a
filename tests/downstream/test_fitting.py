"""What a head settles on, on graphs where it is known whether the edges help."""

from __future__ import annotations

import pytest
import torch
from head_graphs import CLASSES, NODES, PARTS, WIDTH, edges, features, few, labels, plain_parts
from torch import Tensor

from plgc.downstream.fitting import fit_head
from plgc.downstream.head import Head, describe_head
from plgc.sparse.adjacency import Adjacency

VALIDATION = torch.arange(150, NODES)


def fit(x: Tensor, adjacency: Adjacency, shots: int, *, validate: bool = False) -> tuple[Head, float]:
    """A head on X, ÂX and Â²X, and its accuracy on the nodes that it has no labels of."""
    embedding = plain_parts(x, adjacency)
    head = fit_head(
        embedding,
        PARTS,
        few(shots),
        labels(),
        CLASSES,
        adjacency=adjacency,
        validation=VALIDATION[:60] if validate else None,
    )
    right = head.probabilities(embedding, adjacency).argmax(1) == labels()
    return head, float(right[VALIDATION[60:]].float().mean())


@pytest.mark.parametrize(("shots", "validate"), [(3, False), (10, False), (40, True)])
def test_misleading_edges_are_not_used(shots: int, validate: bool) -> None:
    head, right = fit(features(noise=0.8), edges(same_class=False), shots, validate=validate)
    assert head.settled["weight_of_edges"] < 0.4
    assert head.sigma < 0.3
    assert right > 0.9
    if not validate:
        assert "the edges do not help" in describe_head(head.settled) or "hardly" in describe_head(head.settled)


@pytest.mark.parametrize(("shots", "validate"), [(3, False), (10, False), (40, True)])
def test_edges_within_classes_are_used(shots: int, validate: bool) -> None:
    head, right = fit(features(noise=3.0), edges(same_class=True), shots, validate=validate)
    assert head.settled["weight_of_edges"] > 0.5
    assert head.sigma >= 0.5
    assert right > 0.9
    assert "the edges help" in describe_head(head.settled)


def test_one_label_per_class_is_enough_to_settle() -> None:
    for same_class, noise in ((True, 2.0), (False, 0.5)):
        head, right = fit(features(noise), edges(same_class), 1)
        assert (head.sigma > 0.5) == same_class
        assert right > 0.8


def test_thousands_of_labels_work() -> None:
    y = torch.arange(4000) % 5
    x = torch.randn(5, 20, generator=torch.Generator().manual_seed(0))[y]
    x = x + torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    head = fit_head(x, {"x": 20}, torch.arange(3000), y, 5)
    right = head.probabilities(x, None).argmax(1) == y
    assert float(right[3000:].float().mean()) > 0.9
    assert "self_training" not in head.settled


def test_x_can_be_given_where_it_is_no_part() -> None:
    """Without X nothing is presumed about the edges; with it, its agreement over the edges is."""
    x, adjacency = features(2.0), edges(same_class=True)
    embedding = plain_parts(x, adjacency)[:, 2 * WIDTH :]
    heads = [
        fit_head(embedding, {"propagated_2": WIDTH}, few(3), labels(), CLASSES, adjacency=adjacency, x=given)
        for given in (None, x)
    ]
    assert "edge_agreement" not in heads[0].settled
    assert heads[1].settled["edge_agreement"] > 0.05
    assert heads[1].sigma > heads[0].sigma
    assert [head.settled["weight_of_edges"] for head in heads] == [1, 1]


def test_without_edges_nothing_is_smoothed() -> None:
    x = features(0.8)
    for validation in (None, VALIDATION):
        head = fit_head(x, {"x": WIDTH}, few(5), labels(), CLASSES, validation=validation)
        assert head.sigma == 0
        assert describe_head(head.settled) == ""
        adjacency = edges(same_class=False)
        torch.testing.assert_close(head.probabilities(x, None), head.probabilities(x, adjacency))


def test_validation_labels_are_read_and_others_are_not() -> None:
    x, adjacency = features(2.0), edges(same_class=True)
    embedding, known = plain_parts(x, adjacency), torch.cat([few(10), VALIDATION])
    garbage = torch.full((NODES,), -(10**6))
    garbage[known] = labels()[known]
    moved = labels().clone()
    moved[VALIDATION] = labels()[VALIDATION].roll(1)
    heads = [
        fit_head(embedding, PARTS, few(10), y, CLASSES, adjacency=adjacency, validation=VALIDATION)
        for y in (labels(), garbage, moved)
    ]
    assert torch.equal(heads[0].weight, heads[1].weight)
    assert not torch.equal(heads[0].weight, heads[2].weight)


def test_training_is_free_of_chance_and_needs_no_gradients() -> None:
    x, adjacency = features(2.0), edges(same_class=True)
    embedding, heads = plain_parts(x, adjacency), []
    for seed in (1, 2):
        torch.manual_seed(seed)
        heads.append(fit_head(embedding, PARTS, few(3), labels(), CLASSES, adjacency=adjacency))
    assert torch.equal(heads[0].weight, heads[1].weight)
    assert heads[0].header() == heads[1].header()
    assert not any(tensor.requires_grad for tensor in (heads[0].weight, heads[0].bias, heads[0].mean))


def test_a_class_without_labels_is_kept() -> None:
    x, labelled = features(0.8), (labels() != 2).nonzero().flatten()[:30]
    probability = fit_head(x, {"x": WIDTH}, labelled, labels(), CLASSES).probabilities(x, None)
    assert probability.shape == (NODES, CLASSES)
    assert not bool((probability.argmax(1) == 2).any())


def test_a_graph_without_edges_is_no_hindrance() -> None:
    lonely = edges(same_class=True, degree=0)
    _, right = fit(features(0.5), lonely, 3)
    assert right > 0.9
