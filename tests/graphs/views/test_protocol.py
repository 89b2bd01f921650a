from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs import citation_graph, load_graph, split_edges, unlabelled
from plgc.graphs.attributes import Seen
from plgc.graphs.views.protocol import Protocol, draw_case
from plgc.runtime.errors import LabelError, SettingError


@pytest.fixture(scope="module")
def graph() -> Data:
    """300 nodes, 3 classes; shared, so no test may change it."""
    return load_graph(citation_graph(nodes=300, classes=3, features=40))


def edge_set(edges: Tensor) -> set[tuple[int, int]]:
    return {(min(a, b), max(a, b)) for a, b in edges.T.tolist()}


# Labels


def test_full_labels(graph: Data) -> None:
    case = draw_case(graph, Protocol(), 0)
    assert case.graph is case.visible is case.seen is graph
    train = graph["train_mask"].nonzero().flatten()
    assert torch.equal(case.clean, train)
    assert case.validate
    assert not case.finetune
    assert case.split is None
    assert case.given is not None
    assert torch.equal(case.given.train, train)
    assert torch.equal(case.given.val, graph["val_mask"].nonzero().flatten())
    assert bool((case.given.y[graph["test_mask"]] == -1).all())


def test_without_validation_nodes_nothing_validates(graph: Data) -> None:
    other = graph.clone()
    other.val_mask = torch.zeros_like(graph["val_mask"])
    case = draw_case(other, Protocol(), 0)
    assert not case.validate
    assert case.given is not None
    assert case.given.val.numel() == 0


@pytest.mark.parametrize(("protocol", "count"), [(Protocol(shots=3), 9), (Protocol(labels=10), 10)])
def test_few_labels_are_all_that_anybody_gets(graph: Data, protocol: Protocol, count: int) -> None:
    case = draw_case(graph, protocol, 2)
    assert not case.validate
    assert not case.finetune
    assert case.clean is not None
    assert case.given is not None
    assert case.clean.numel() == count
    assert bool(graph["train_mask"][case.clean].all())
    assert torch.equal(case.given.train, case.clean)
    assert case.given.val.numel() == 0
    assert (case.given.y >= 0).nonzero().flatten().tolist() == sorted(case.clean.tolist())
    assert torch.equal(case.given.y[case.clean], graph["y"][case.clean])
    assert not torch.equal(draw_case(graph, protocol, 3).clean, case.clean)  # another seed, another draw


@pytest.mark.parametrize("noise", [0.0, 0.3, 0.9])
def test_noise_is_in_the_given_labels_alone(graph: Data, noise: float) -> None:
    truth = graph["y"].clone()
    case = draw_case(graph, Protocol(labels=9, noise=noise), 1)
    given, clean = case.given, case.clean
    assert given is not None
    assert clean is not None
    assert torch.equal(graph["y"], truth)
    assert torch.equal(case.graph["y"], truth)
    assert not case.validate  # nobody has clean validation labels
    assert case.finetune
    assert clean.numel() == 9
    assert torch.equal(given.train, graph["train_mask"].nonzero().flatten())  # all of them, not the clean few
    assert torch.equal(given.val, graph["val_mask"].nonzero().flatten())
    for part in (given.train, given.val):
        assert int((given.y[part] != truth[part]).sum()) == round(noise * part.numel())
    assert bool((given.y[graph["test_mask"]] == -1).all())
    assert given.noise == noise


def test_the_clean_labels_do_not_depend_on_the_rate(graph: Data) -> None:
    cases = [draw_case(graph, Protocol(labels=9, noise=noise), 1) for noise in (0.0, 0.5, 0.9)]
    assert all(torch.equal(case.clean, cases[0].clean) for case in cases)


def test_noise_with_all_labels_validates_on_none(graph: Data) -> None:
    case = draw_case(graph, Protocol(noise=0.5), 0)
    assert not case.validate
    assert torch.equal(case.clean, graph["train_mask"].nonzero().flatten())


def test_shift_has_its_own_masks_and_no_validation(graph: Data) -> None:
    before = graph["train_mask"].clone()
    case = draw_case(graph, Protocol(imbalance=10.0), 0)
    assert torch.equal(graph["train_mask"], before)
    assert not case.validate
    assert case.given is not None
    assert case.given.val.numel() == 0
    counts = torch.bincount(graph["y"][case.given.train])
    assert int(counts.max()) > 3 * int(counts.min())
    assert torch.equal(case.clean, case.graph["train_mask"].nonzero().flatten())
    tested = torch.bincount(graph["y"][case.graph["test_mask"]])
    assert int(tested.min()) == int(tested.max())
    assert not bool(case.graph["test_mask"][case.given.train].any())


# What is seen


@pytest.mark.parametrize(
    "protocol",
    [
        Protocol(inductive=True),
        Protocol(inductive=True, shots=2),
        Protocol(inductive=True, noise=0.5, labels=6),
        Protocol(inductive=True, imbalance=5.0),
    ],
    ids=["full", "shots", "noise", "shift"],
)
def test_inductive_sees_training_nodes_alone(graph: Data, protocol: Protocol) -> None:
    case = draw_case(graph, protocol, 4)
    train = case.graph["train_mask"]
    original = train.nonzero().flatten()
    assert case.seen.num_nodes == len(original)
    assert case.visible is case.graph
    assert case.graph.num_nodes == 300
    assert torch.equal(case.seen["x"].to_dense(), graph["x"].to_dense()[train])
    numbered = {(int(original[a]), int(original[b])) for a, b in case.seen["edge_index"].T.tolist()}
    assert numbered == {(a, b) for a, b in graph["edge_index"].T.tolist() if train[a] and train[b]}
    # the labels, renumbered, belong to the same nodes as before
    transductive = draw_case(graph, Protocol(**{**vars(protocol), "inductive": False}), 4)
    given, whole = case.given, transductive.given
    assert given is not None
    assert whole is not None
    assert given.val.numel() == 0
    assert given.y.numel() == case.seen.num_nodes
    assert torch.equal(original[given.train], whole.train)
    assert torch.equal(given.y[given.train], whole.y[whole.train])
    assert int((given.y >= 0).sum()) == given.train.numel()
    assert (given.classes, given.noise) == (whole.classes, whole.noise)
    assert torch.equal(case.clean, transductive.clean)  # numbered as the graph that is scored


def test_link_hides_validation_and_test_edges(graph: Data) -> None:
    case = draw_case(graph, Protocol("link"), 3)
    assert case.split is not None
    train, val, test = (edge_set(getattr(case.split, part)) for part in ("train", "val", "test"))
    assert train | val | test == edge_set(graph["edge_index"])
    assert case.seen is case.visible
    assert edge_set(case.seen["edge_index"]) == train
    assert not edge_set(case.seen["edge_index"]) & (val | test)
    assert case.graph is graph
    assert case.clean is None
    assert case.seen.seen == Seen(edges="train", edge_seed=3)


def test_the_edge_seed_can_be_given(graph: Data) -> None:
    case = draw_case(graph, Protocol("link"), 3, edge_seed=8)
    assert case.split is not None
    assert torch.equal(case.split.train, split_edges(graph, 8).train)
    assert case.seen.seen.edge_seed == 8
    same = draw_case(graph, Protocol("link"), 4, edge_seed=8)
    assert torch.equal(same.seen["edge_index"], case.seen["edge_index"])


def test_inductive_links_are_among_unseen_nodes(graph: Data) -> None:
    case = draw_case(graph, Protocol("link", inductive=True), 0)
    assert case.split is not None
    train = graph["train_mask"]
    unseen = (~train).nonzero().flatten()
    assert case.graph.num_nodes == case.visible.num_nodes == len(unseen)
    among = {(a, b) for a, b in edge_set(graph["edge_index"]) if not train[a] and not train[b]}
    parts = [edge_set(unseen[getattr(case.split, part)]) for part in ("train", "val", "test")]
    assert set.union(*parts) == among
    assert sum(map(len, parts)) == len(among)
    assert edge_set(unseen[case.visible["edge_index"]]) == parts[0]
    assert case.seen.num_nodes == int(train.sum())
    assert case.seen.seen.nodes == "train"
    seen = train.nonzero().flatten()
    assert not edge_set(seen[case.seen["edge_index"]]) & among
    assert case.given is not None
    assert torch.equal(case.given.y, graph["y"][seen])


def test_a_graph_without_labels_has_cases_too(graph: Data) -> None:
    bare = load_graph(unlabelled(graph))
    case = draw_case(bare, Protocol("link"), 0)
    assert case.given is None
    assert case.clean is None
    assert not case.validate
    with pytest.raises(LabelError, match="no labels"):
        draw_case(bare, Protocol(imbalance=2.0), 0)


def test_cora(cora: Data) -> None:
    """The counts of a real graph: 20 labels a class, half of them wrong, three shots, edges 1:1:2."""
    assert (
        int((draw_case(cora, Protocol(noise=0.5, labels=21), 0).given.y != cora["y"])[cora["train_mask"]].sum()) == 70
    )
    assert draw_case(cora, Protocol(shots=3), 0).clean.numel() == 21
    inductive = draw_case(cora, Protocol(inductive=True), 0)
    assert inductive.seen.num_nodes == inductive.given.y.numel() == 140
    assert torch.equal(inductive.given.y, cora["y"][cora["train_mask"]])
    link = draw_case(cora, Protocol("link"), 0)
    sizes = [getattr(link.split, part).shape[1] for part in ("train", "val", "test")]
    assert sum(sizes) == cora["edge_index"].shape[1] // 2
    assert sizes[2] == pytest.approx(2 * sizes[0], abs=3)
    assert link.seen["edge_index"].shape[1] == 2 * sizes[0] == 2 * sizes[1]


# Draws


@pytest.mark.parametrize(
    "protocol", [Protocol(shots=2), Protocol(noise=0.5), Protocol(imbalance=5.0), Protocol("link")]
)
def test_a_case_depends_on_its_seed_alone(graph: Data, protocol: Protocol) -> None:
    def content(seed: int) -> list[Tensor]:
        case = draw_case(graph, protocol, seed)
        assert case.given is not None
        return [case.given.y, case.given.train, case.seen["edge_index"], case.graph["test_mask"]]

    before = torch.get_rng_state()
    first = content(1)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(content(1), first, strict=True))
    assert not all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(content(2), first, strict=True))


def test_what_is_no_protocol_is_refused(graph: Data) -> None:
    with pytest.raises(SettingError, match="unknown task 'graph': choose node, link, cluster"):
        Protocol("graph")
    with pytest.raises(SettingError, match="not both"):
        draw_case(graph, Protocol(shots=1, labels=3), 0)
    with pytest.raises(SettingError, match="noise is 2"):
        draw_case(graph, Protocol(noise=2.0), 0)
    with pytest.raises(SettingError, match=r"imbalance is 0\.5"):
        draw_case(graph, Protocol(imbalance=0.5), 0)
    with pytest.raises(LabelError, match="1000 labels per class"):
        draw_case(graph, Protocol(shots=1000), 0)
