from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

from plgc.downstream.tasks import whole_link
from plgc.downstream.tasks.link import (
    LinkHead,
    LinkInputs,
    LinkSettings,
    fit_link,
    labelled_pairs,
    link_examples,
    link_inputs,
    score_links,
)
from plgc.downstream.tasks.whole_link import train_whole_link
from plgc.graphs.views.edges import EdgeSplit, keep_edges, non_edges, split_edges, undirected_edges
from plgc.runtime.errors import SettingError
from plgc.sparse.adjacency import propagate
from plgc.sparse.inputs import prepare

QUICK = LinkSettings(epochs=30)
TWO = {"learned": 16, "x": 16}


@pytest.fixture(scope="module")
def split(demo_graph: Data) -> EdgeSplit:
    return split_edges(demo_graph, 0)


def noise(width: int, seed: int = 0, nodes: int = 600) -> Tensor:
    return torch.randn(nodes, width, generator=torch.Generator().manual_seed(seed))


def fixed(rows: Tensor) -> Callable[[Data], Tensor]:
    """An embedder that gives these rows whatever edges it is shown."""
    return lambda _: rows


def fit(
    rows: Tensor, parts: Mapping[str, int], split: EdgeSplit, graph: Data, seed: int, how: LinkSettings | None = None
) -> LinkHead:
    return fit_link(fixed(rows), parts, link_examples(split, graph, seed, how))[0]


def score(
    head: LinkHead, rows: Tensor, parts: Mapping[str, int], split: EdgeSplit, graph: Data, seed: int, on: str = "test"
) -> dict[str, float]:
    return score_links(head, link_inputs(fixed(rows), parts, keep_edges(graph, split.train)), split, graph, seed, on)


def planted(graph: Data, width: int = 128, steps: int = 2) -> Tensor:
    """Noise smoothed over the *whole* graph, test edges included: joined nodes are alike, others are not."""
    return propagate(prepare(graph, "none").adjacency, noise(width), steps)


# What the head can tell


def test_a_planted_embedding_is_recognised_and_noise_is_not(demo_graph: Data, split: EdgeSplit) -> None:
    rows = planted(demo_graph, 256)
    scores = score(fit(rows, {"learned": 256}, split, demo_graph, 0), rows, {"learned": 256}, split, demo_graph, 0)
    assert scores["auroc"] > 0.98
    assert scores["ap"] > 0.98
    blind = noise(64, seed=5)
    head = replace(fit(blind, {"learned": 64}, split, demo_graph, 0), popularity=torch.zeros(3))
    assert 0.42 < score(head, blind, {"learned": 64}, split, demo_graph, 0)["auroc"] < 0.58


def test_the_head_is_near_the_cosine_where_there_are_few_validation_edges(demo_graph: Data, split: EdgeSplit) -> None:
    rows = torch.cat([planted(demo_graph, 40), noise(40, 2)], dim=1)
    parts = {"learned": 40, "x": 40}
    few = replace(split, val=split.val[:, :2])
    head = fit(rows, parts, few, demo_graph, 0, LinkSettings(shrinkage=1e6))
    pairs = torch.cat([split.test, non_edges(demo_graph, 100, torch.Generator().manual_seed(0))], dim=1)
    pieces = (rows - rows.mean(0)).split(list(parts.values()), dim=1)
    cosine = sum(torch.cosine_similarity(piece[pairs[0]], piece[pairs[1]]) for piece in pieces) / 2
    inputs = link_inputs(fixed(rows), parts, keep_edges(demo_graph, split.train))
    assert torch.allclose(head.scores(inputs, pairs), 10 * cosine + head.bias, atol=1e-3)


@pytest.mark.parametrize("parts", [{"learned": 40, "x": 6}, {"learned": 46}])
def test_the_head_weighs_parts_and_columns(demo_graph: Data, split: EdgeSplit, parts: Mapping[str, int]) -> None:
    """Only the first 40 columns know of edges: weighing parts, or single columns, down-weighs the noise."""
    rows = torch.cat([planted(demo_graph, 40), 1.5 * noise(6, 2)], dim=1)
    head = fit(rows, parts, split, demo_graph, 0)
    assert head.validation["kept"] > head.validation["cosine"] + 0.01
    assert head.weight[:40].mean() > head.weight[40:].mean()
    plain = replace(head, weight=torch.ones(46), popularity=torch.zeros(3))
    scores = [score(each, rows, parts, split, demo_graph, 0)["auroc"] for each in (head, plain)]
    assert scores[0] > scores[1] + 0.01


def test_a_part_that_has_memorised_training_edges_costs_nothing(demo_graph: Data, split: EdgeSplit) -> None:
    """As a condensation that has seen them: on hidden training edges this part is perfect, on others it is noise."""
    count = split.train.shape[1]
    memory = torch.zeros(600, 256)
    memory.index_put_(
        (split.train.flatten(), torch.arange(count).remainder(256).repeat(2)), torch.ones(2 * count), accumulate=True
    )
    known = planted(demo_graph, 24)
    rows, parts = torch.cat([memory, known], dim=1), {"learned": 256, "x": 24}
    head = fit(rows, parts, split, demo_graph, 0)
    alone = fit(known, {"x": 24}, split, demo_graph, 0)
    without = score(alone, known, {"x": 24}, split, demo_graph, 0)["auroc"]
    assert head.validation["cosine"] < alone.validation["cosine"] - 0.02
    assert score(head, rows, parts, split, demo_graph, 0)["auroc"] > without - 0.005
    assert head.shares["x"] > 3 * head.shares["learned"]


def test_shares_name_every_part(demo_graph: Data, split: EdgeSplit) -> None:
    head = fit(noise(32, 3), TWO, split, demo_graph, 0, QUICK)
    assert list(head.shares) == ["learned", "x", "popularity"]
    assert sum(head.shares.values()) == pytest.approx(1)


def test_popular_nodes_are_recognised() -> None:
    """Edges of a graph of hubs, and an embedding that knows nothing: popularity alone finds them."""
    hubs, leaves = 5, 300
    generator = torch.Generator().manual_seed(0)
    column = torch.arange(hubs, hubs + leaves).repeat_interleave(2)
    pairs = torch.stack([torch.randint(hubs, (2 * leaves,), generator=generator), column]).unique(dim=1)
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    order = torch.argsort(edge_index[0] * (hubs + leaves) + edge_index[1])
    graph = Data(edge_index=edge_index[:, order], num_nodes=hubs + leaves)
    split, rows = split_edges(graph, 0), noise(8, nodes=hubs + leaves)
    head = fit(rows, {"learned": 8}, split, graph, 0)
    assert head.popularity[0] > 0
    assert head.shares["popularity"] > 0.5
    assert score(head, rows, {"learned": 8}, split, graph, 0)["auroc"] > 0.9


def test_the_validation_score_is_that_of_unseen_edges(demo_graph: Data, split: EdgeSplit) -> None:
    """The head's own weights were fitted on validation edges: their score on them is a little too good."""
    rows = planted(demo_graph, 32, steps=1)
    few = replace(split, val=split.val[:, ::12])
    head = fit(rows, TWO, few, demo_graph, 3, QUICK)
    fitted = score(head, rows, TWO, few, demo_graph, 3, on="val")["auroc"]
    assert fitted - 0.1 < head.validation["kept"] < fitted


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_handful_of_validation_edges_is_enough(demo_graph: Data, split: EdgeSplit, count: int) -> None:
    rows = planted(demo_graph, 32)
    head = fit(rows, TWO, replace(split, val=split.val[:, :count]), demo_graph, 0, QUICK)
    assert all(0 <= value <= 1 for value in head.validation.values())
    assert score(head, rows, TWO, split, demo_graph, 0)["auroc"] > 0.8


def test_a_head_of_an_earlier_version_scores_as_it_did() -> None:
    """It had one weight for popularity, a scalar, and the epoch in its header."""
    rows, known, pairs = noise(12), noise(1, 2).flatten().abs(), torch.tensor([[0, 5, 7], [3, 9, 1]])
    tensors = {"weight": noise(1, 1, nodes=12).flatten(), "popularity": torch.tensor(0.3), "bias": torch.tensor(0.5)}
    header = {"epoch": 40, "validation": {"cosine": 0.8, "kept": 0.9}}
    head = LinkHead.from_file(tensors, header, {"learned": 8, "propagated_2": 4})
    expected = (rows[pairs[0]] * rows[pairs[1]]) @ tensors["weight"] + 0.3 * known[pairs].sum(0) + 0.5
    assert torch.allclose(head.scores(LinkInputs(rows, known), pairs), expected, atol=1e-6)
    assert head.validation == header["validation"]
    assert head.shares == {}
    with pytest.raises(ValueError, match="the backbone gives 9 columns"):
        LinkHead.from_file(tensors, header, {"learned": 9})


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 599), st.integers(0, 599)), min_size=1, max_size=20), st.integers(0, 2**20))
def test_scores_do_not_depend_on_the_order_of_a_pair(pairs: list[tuple[int, int]], seed: int) -> None:
    rows, weight = noise(12, seed), noise(1, seed + 1, nodes=12).flatten()
    head = LinkHead(weight, torch.tensor([0.3, -0.2, 1.0]), torch.tensor(0.5), {}, {})
    inputs, listed = LinkInputs(rows, noise(1, seed + 2).flatten()), torch.tensor(pairs).T
    assert torch.equal(head.scores(inputs, listed), head.scores(inputs, listed.flip(0)))


# What may be seen


def test_test_edges_do_not_reach_the_head(demo_graph: Data, split: EdgeSplit) -> None:
    rows = planted(demo_graph, 32, steps=1)
    head = fit(rows, TWO, split, demo_graph, 0, QUICK)
    for test in (split.test.flip(1)[:, :3], torch.zeros(2, 0, dtype=torch.int64)):
        other = fit(rows, TWO, replace(split, test=test), demo_graph, 0, QUICK)
        assert torch.equal(other.weight, head.weight)
        assert torch.equal(other.bias, head.bias)
        assert other.validation == head.validation


def test_the_embedder_is_shown_training_edges_alone_and_examples_are_hidden_from_it(
    demo_graph: Data, split: EdgeSplit
) -> None:
    shown: list[set[tuple[int, ...]]] = []

    def spy(graph: Data) -> Tensor:
        shown.append({tuple(pair) for pair in undirected_edges(graph).T.tolist()})
        return noise(4)

    training = {tuple(pair) for pair in split.train.T.tolist()}
    examples = link_examples(split, demo_graph, 0, LinkSettings(epochs=1, views=2))
    fit_link(spy, {"x": 4}, examples)
    assert shown[0] == training
    assert all(len(half) == len(training) // 2 and half < training for half in shown[1:])
    assert shown[1] != shown[2]
    for half, (_, (pairs, joined)) in zip(shown[1:], examples.halves, strict=True):
        assert {tuple(pair) for pair in pairs[:, joined].T.tolist()} == training - half


def test_non_edges_are_drawn_anew_for_every_part_and_seed(demo_graph: Data, split: EdgeSplit) -> None:
    edges = {tuple(pair) for pair in undirected_edges(demo_graph).T.tolist()}
    drawn = []
    for seed in range(2):
        for part in ("train", "val", "test"):
            pairs, target = labelled_pairs(split, demo_graph, seed, part)
            assert torch.equal(pairs[:, target], getattr(split, part))
            assert int(target.sum()) * 2 == len(target)
            drawn.append({tuple(pair) for pair in pairs[:, ~target].T.tolist()})
            assert not drawn[-1] & edges
    for index, one in enumerate(drawn):
        assert all(len(one & other) < 0.05 * len(one) for other in drawn[:index])


def test_a_seed_decides_everything(demo_graph: Data, split: EdgeSplit) -> None:
    rows, parts = torch.cat([planted(demo_graph, 16, steps=1), noise(16, 3)], dim=1), TWO
    before = torch.get_rng_state()
    first = fit(rows, parts, split, demo_graph, 0, QUICK)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(7)
    again = fit(rows, parts, split, demo_graph, 0, QUICK)
    assert torch.equal(first.weight, again.weight)
    other = fit(rows, parts, split, demo_graph, 1, QUICK)
    assert not torch.equal(first.weight, other.weight)
    scores = [score(first, rows, parts, split, demo_graph, seed) for seed in (0, 0, 1)]
    assert scores[0] == scores[1]
    assert scores[0] != scores[2]


def test_many_training_edges_are_sampled(demo_graph: Data, split: EdgeSplit) -> None:
    rows, few = planted(demo_graph), LinkSettings(epochs=10, most_edges=50)
    for _, (pairs, joined) in link_examples(split, demo_graph, 0, few).halves:
        assert pairs.shape == (2, 100)
        assert int(joined.sum()) == 50
    assert (
        score(fit(rows, {"learned": 128}, split, demo_graph, 0, few), rows, {"learned": 128}, split, demo_graph, 0)[
            "auroc"
        ]
        > 0.9
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("penalty", -1.0),
        ("learning_rate", 0.0),
        ("scale", -2.0),
        ("shrinkage", 0.0),
        ("most_edges", 0),
        ("most_products", 0),
        ("views", 0),
    ],
)
def test_settings_outside_their_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(SettingError, match=f"{name} is {value}"):
        LinkSettings(**{name: value})  # pyright: ignore


def test_an_unknown_part_is_refused(demo_graph: Data, split: EdgeSplit) -> None:
    rows = noise(8)
    head = fit(rows, {"learned": 8}, split, demo_graph, 0, LinkSettings(epochs=1))
    with pytest.raises(SettingError, match="on is 'all'"):
        score(head, rows, {"learned": 8}, split, demo_graph, 0, on="all")
    with pytest.raises(SettingError, match="epochs is 0"):
        train_whole_link(demo_graph, split, 0, epochs=0)


# Whole-graph training


def test_whole_graph_training_learns(demo_graph: Data, split: EdgeSplit) -> None:
    scores = train_whole_link(demo_graph, split, 0, epochs=25)
    assert scores["auroc"] > 0.65
    assert scores["ap"] > 0.65


def test_whole_graph_training_depends_on_the_seed_alone(demo_graph: Data, split: EdgeSplit) -> None:
    before = torch.get_rng_state()
    first = train_whole_link(demo_graph, split, 0, epochs=3)
    assert torch.equal(torch.get_rng_state(), before)
    assert train_whole_link(demo_graph, split, 0, epochs=3) == first
    assert train_whole_link(demo_graph, split, 1, epochs=3) != first


def test_whole_graph_training_passes_messages_over_training_edges_alone(
    demo_graph: Data, split: EdgeSplit, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Data] = []

    def spy(graph: Data, *rest: object) -> object:
        seen.append(graph)
        return prepare(graph, *rest)  # pyright: ignore

    monkeypatch.setattr(whole_link, "prepare", spy)
    train_whole_link(demo_graph, split, 0, epochs=1)
    assert [torch.equal(undirected_edges(graph), split.train) for graph in seen] == [True]
