from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from plgc.graphs import citation_graph, training_labels, unlabelled
from plgc.runtime.errors import LabelError, SettingError


@pytest.fixture(scope="module")
def graph() -> Data:
    """Labels on five of six nodes; shared, so no test may change it."""
    made = citation_graph(nodes=300, classes=4, features=20)
    made.y = torch.where(torch.arange(300) % 6 == 0, -1, made["y"])
    return made


def test_training_and_validation_labels_are_given_and_no_others(graph: Data) -> None:
    labels = training_labels(graph)
    y = graph["y"]
    train, val = graph["train_mask"] & (y >= 0), graph["val_mask"] & (y >= 0)
    assert labels.train.tolist() == train.nonzero().flatten().tolist()
    assert labels.val.tolist() == val.nonzero().flatten().tolist()
    assert torch.equal(labels.y, torch.where(train | val, y, -1))
    assert bool((labels.y[graph["test_mask"]] == -1).all())
    assert (labels.classes, labels.noise) == (4, 0.0)


def test_hidden_labels_do_not_matter(graph: Data) -> None:
    other = graph.clone()
    other.y = torch.where(graph["test_mask"], 3, graph["y"])
    assert training_labels(other, noise=0.3).digest() == training_labels(graph, noise=0.3).digest()


def test_chosen_nodes_alone(graph: Data) -> None:
    chosen = ((graph["y"] >= 0) & graph["train_mask"]).nonzero().flatten()[::7]
    labels = training_labels(graph, train=chosen, validate=False)
    assert torch.equal(labels.train, chosen)
    assert labels.val.numel() == 0
    assert (labels.y >= 0).nonzero().flatten().tolist() == chosen.tolist()
    assert torch.equal(labels.y[chosen], graph["y"][chosen])


def test_noise_is_in_training_and_validation_alike(graph: Data) -> None:
    before = graph["y"].clone()
    labels = training_labels(graph, noise=0.5, seed=1)
    assert torch.equal(graph["y"], before)
    assert labels.noise == 0.5
    for part in (labels.train, labels.val):
        assert int((labels.y[part] != before[part]).sum()) == round(0.5 * len(part))
        assert bool((labels.y[part] >= 0).all())
    shown = torch.cat([labels.train, labels.val])
    assert (labels.y >= 0).nonzero().flatten().tolist() == shown.sort().values.tolist()


def test_noise_is_nested_and_validation_labels_do_not_change_the_training_flips(graph: Data) -> None:
    less, more = training_labels(graph, noise=0.3, seed=2), training_labels(graph, noise=0.7, seed=2)
    wrong = (less.y != graph["y"]) & (less.y >= 0)
    assert torch.equal(more.y[wrong], less.y[wrong])
    alone = training_labels(graph, noise=0.3, seed=2, validate=False)
    assert torch.equal(alone.y[alone.train], less.y[less.train])
    other = training_labels(graph, noise=0.3, seed=4)
    assert not torch.equal(other.y, less.y)


def test_the_digest_tells_label_sets_apart(graph: Data) -> None:
    labels = training_labels(graph)
    digests = {
        labels.digest(),
        training_labels(graph, noise=0.3).digest(),
        training_labels(graph, noise=0.3, seed=1).digest(),
        training_labels(graph, validate=False).digest(),
        training_labels(graph, train=labels.train[:-1]).digest(),
        replace(labels, train=labels.train[:-1]).digest(),
        replace(labels, val=labels.val[:-1]).digest(),
    }
    assert len(digests) == 7
    assert labels.digest() == training_labels(graph.clone()).digest()


def test_without_labels_there_are_none_to_give(graph: Data) -> None:
    with pytest.raises(LabelError, match="no labels"):
        training_labels(unlabelled(graph))
    hidden = graph.clone()
    hidden.y = torch.where(graph["train_mask"], -1, graph["y"])
    with pytest.raises(LabelError, match="none of the graph's training nodes"):
        training_labels(hidden)
    with pytest.raises(SettingError, match=r"noise is 1\.5"):
        training_labels(graph, noise=1.5)
