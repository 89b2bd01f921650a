from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from plgc.graphs import citation_graph, load_graph, training_labels, unlabelled
from plgc.graphs.labels import choose_labels, cross_validation, has_own_split, labels_text, with_every_label
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


def bare_labels(*counts: int) -> Data:
    """A graph that brings labels, so many of each class, and no split."""
    y = torch.cat([torch.full((count,), label) for label, count in enumerate(counts)] + [torch.full((9,), -1)])
    ring = torch.arange(len(y))
    return load_graph(Data(x=torch.eye(len(y)), edge_index=torch.stack([ring, ring.roll(1)]), y=y))


def test_a_generated_split_is_not_the_graphs_own(graph: Data) -> None:
    generated = bare_labels(6, 6)
    assert not has_own_split(generated)
    assert not has_own_split(load_graph(generated))  # loaded again, or copied
    assert has_own_split(graph)
    assert has_own_split(load_graph(graph))
    mine = generated.clone()
    mine.train_mask = torch.arange(21) < 3  # masks that somebody has set since
    assert has_own_split(mine)
    assert with_every_label(graph) is graph


def test_every_label_is_for_training() -> None:
    every = with_every_label(bare_labels(6, 1))
    assert every["train_mask"].nonzero().flatten().tolist() == list(range(7))
    assert not every["val_mask"].any() | every["test_mask"].any()
    chosen, validate = choose_labels(every, None, None, 0)
    assert (len(chosen), validate) == (7, False)
    assert labels_text(every, chosen) == "all 7 labels, 2 classes"
    assert labels_text(every, chosen[:6]) == "6 of 7 labels, 1 class"


@pytest.mark.parametrize("counts", [(2, 2), (3, 1, 3), (12, 7, 30), (1, 2)])
def test_folds_hold_every_label_out_once_and_never_a_whole_class(counts: tuple[int, ...]) -> None:
    given = bare_labels(*counts)
    folds = cross_validation(given, None, None, 3)
    assert len(folds) == min(5, max(counts))
    tested = torch.cat([fold["test_mask"].nonzero().flatten() for fold in folds])
    single = {sum(counts[:place]) for place, count in enumerate(counts) if count == 1}
    assert sorted(tested.tolist()) == [node for node in range(sum(counts)) if node not in single]
    for fold in folds:
        learned = fold["train_mask"]
        assert not (learned & fold["test_mask"]).any()
        assert torch.equal(learned | fold["test_mask"], given["y"] >= 0)
        assert given["y"][learned].unique().tolist() == list(range(len(counts)))
        for label, count in enumerate(counts):
            held = int((given["y"][fold["test_mask"]] == label).sum())
            assert held in (count // len(folds), -(-count // len(folds))) or count == 1


def test_another_seed_gives_other_folds() -> None:
    given = bare_labels(12, 7, 30)
    one, again, other = (cross_validation(given, None, None, seed)[0]["test_mask"] for seed in (3, 3, 4))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_nothing_can_be_held_out_of_one_label_a_class() -> None:
    assert cross_validation(bare_labels(1, 1, 1), None, None, 0) == []
    assert cross_validation(bare_labels(3, 3), 3, None, 0) == []
    [draw] = cross_validation(bare_labels(4, 5), 3, None, 0)
    assert (int(draw["train_mask"].sum()), int(draw["test_mask"].sum())) == (6, 3)
