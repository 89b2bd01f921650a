from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import plgc
from plgc.evaluation import runs as evaluation
from plgc.evaluation.over_seeds import CONTROLS, MAIN_METRIC, describe_settled, evaluate, summarize
from plgc.evaluation.scoring import train_whole_graph
from plgc.graphs import (
    citation_graph,
    load_graph,
    split_edges,
    training_edges,
    training_labels,
    training_subgraph,
    unlabelled,
)
from plgc.graphs.views.edges import keep_edges, non_edges
from plgc.graphs.views.inductive import training_digest
from plgc.graphs.views.protocol import Case
from plgc.rivals.methods import condense_with
from plgc.runtime.errors import GraphError, LabelError, SettingError
from plgc.sparse.adjacency import Adjacency, build_adjacency
from quick import quick

NODES, EDGE_SEED = 200, 5
MASKS = ("train_mask", "val_mask", "test_mask")
QUICK = quick(16, hidden=16)


@pytest.fixture(scope="module")
def graph() -> Data:
    """200 nodes, 3 classes, a split of its own; shared, so no test may change it."""
    return citation_graph(nodes=NODES, classes=3, features=40)


@pytest.fixture(scope="module")
def splitless(graph: Data) -> Data:
    """The same graph without masks: a seed draws them."""
    bare = graph.clone()
    for key in (*MASKS, "split_origin"):
        del bare[key]
    return bare


@pytest.fixture(scope="module")
def several(splitless: Data) -> Data:
    """The same graph with three fixed splits."""
    made = splitless.clone()
    drawn = [load_graph(splitless, seed=seed) for seed in (7, 8, 9)]
    for key in MASKS:
        made[key] = torch.stack([one[key] for one in drawn], dim=1)
    return made


@pytest.fixture(scope="module")
def everything(graph: Data) -> plgc.CondensedGraph:
    return condense(graph)


@pytest.fixture(scope="module")
def of_edges(graph: Data) -> plgc.CondensedGraph:
    return condense(training_edges(load_graph(graph), EDGE_SEED))


@pytest.fixture(scope="module")
def inductive(graph: Data) -> plgc.CondensedGraph:
    return condense(training_subgraph(load_graph(graph)))


def condense(graph: Data) -> plgc.CondensedGraph:
    return plgc.condense(graph, nodes=9, settings=QUICK)


def rival(graph: Data) -> plgc.CondensedGraph:
    return condense_with("random", graph, nodes=15, labels=training_labels(graph))


@pytest.fixture
def cases(monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    """Every case that an evaluation draws."""
    drawn: list[Case] = []
    original = evaluation.draw_case

    def spy(*arguments: object) -> Case:
        drawn.append(original(*arguments))
        return drawn[-1]

    monkeypatch.setattr(evaluation, "draw_case", spy)
    return drawn


@contextmanager
def counted_adjacencies() -> Iterator[list[int]]:
    """The sizes of every Â that is built, in order."""
    built: list[int] = []

    def spy(edge_index: Tensor, nodes: int, *rest: Any) -> Adjacency:
        built.append(nodes)
        return build_adjacency(edge_index, nodes, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plgc.sparse.inputs.build_adjacency", spy)
        yield built


def edge_set(edges: Tensor) -> set[tuple[int, int]]:
    return {(min(a, b), max(a, b)) for a, b in edges.T.tolist()}


# The contract


@pytest.mark.parametrize(
    ("task", "metrics"), [("node", {"accuracy", "macro_f1"}), ("link", {"auroc", "ap"}), ("cluster", {"nmi", "ari"})]
)
def test_what_an_evaluation_reports(task: str, metrics: set[str], graph: Data, of_edges: plgc.CondensedGraph) -> None:
    with counted_adjacencies() as built:
        result = evaluate([of_edges], graph, task=task, seeds=2)
    # once per seed for all five models; for links, training edges and three halves of them
    assert len(built) == 2 * (4 if task == "link" else 1)
    assert {"task", "graph", "nodes", "controls", "seconds", "bytes"} <= set(result)
    assert (result["task"], result["graph"], result["nodes"], result["method"]) == (task, "synthetic", 9, "plgc")
    assert result["bytes"] == len(of_edges.to_bytes())
    assert tuple(result["controls"]) == CONTROLS
    assert set(CONTROLS) == {"random_encoder", "propagated_features", "raw_features", "plain_parts"}
    assert not result["inductive"]
    main, most = MAIN_METRIC[task], 100 if task == "node" else 1
    for scores in (result, *result["controls"].values()):
        assert metrics <= set(scores)
        for metric in metrics:
            assert set(scores[metric]) == {"mean", "std", "values"}
            assert len(scores[metric]["values"]) == 2
            assert all(-0.5 <= value <= most for value in scores[metric]["values"])
            assert scores[metric]["mean"] == pytest.approx(sum(scores[metric]["values"]) / 2)
    for control in result["controls"].values():
        assert {key: control[key] for key in ("mean", "std", "values")} == control[main]
    assert most == 1 or result["accuracy"]["mean"] > 1  # per cent


def test_an_evaluation_is_the_steps_done_by_hand(graph: Data, everything: plgc.CondensedGraph) -> None:
    result = evaluate([everything], graph, seeds=2, on="val")
    for seed in range(2):
        model = plgc.finetune(plgc.reconstruct(everything, seed=seed), graph, seed=seed)
        assert model.evaluate(graph, on="val")["accuracy"] == result["accuracy"]["values"][seed]


def test_summary_is_mean_and_sample_deviation() -> None:
    summary = summarize([{"accuracy": 1.0}, {"accuracy": 2.0}, {"accuracy": 6.0}])["accuracy"]
    assert summary == {"mean": 3.0, "std": pytest.approx(7.0**0.5), "values": [1.0, 2.0, 6.0]}


def test_two_classes_have_an_auroc(graph: Data, everything: plgc.CondensedGraph) -> None:
    binary = graph.clone()
    binary.y = (graph["y"] >= 1).long()
    assert 0.5 < evaluate([everything], binary)["auroc"]["mean"] <= 1.0


def test_whole_graph_training_learns(graph: Data) -> None:
    assert train_whole_graph(graph)["accuracy"] > 60.0


def test_first_seed_moves_the_seeds_and_progress_names_them(graph: Data, everything: plgc.CondensedGraph) -> None:
    told: list[tuple[str, int, int]] = []
    both = evaluate([everything], graph, shots=2, seeds=2, first_seed=4, progress=lambda *state: told.append(state))
    values = both["accuracy"]["values"]
    assert evaluate([everything], graph, shots=2, first_seed=5)["accuracy"]["values"] == values[1:]
    assert [state[1:] for state in told] == [(1, 2), (2, 2)]
    assert told[0][0].startswith(f"seed 4: accuracy {values[0]:.4g}")


# Links


def test_no_hidden_edge_reaches_the_file(graph: Data, of_edges: plgc.CondensedGraph) -> None:
    """Test and validation edges taken away, others put in their place: the file is the same, byte for byte."""
    split = split_edges(graph, EDGE_SEED)
    strangers = non_edges(graph, split.test.shape[1], torch.Generator().manual_seed(1))
    other = graph.clone()
    other.edge_index = torch.cat([split.train, strangers], dim=1)
    cut = keep_edges(load_graph(other), split.train)
    assert not edge_set(load_graph(other)["edge_index"]) & edge_set(split.test)
    cut.seen = training_edges(graph, EDGE_SEED).seen
    assert condense(cut).to_bytes() == of_edges.to_bytes()
    assert of_edges.source["edges"] == 2 * split.train.shape[1]
    everything = condense(graph)
    assert not torch.equal(everything.features, of_edges.features)  # hidden edges would have made a difference


def test_links_are_those_that_the_file_has_not_seen_and_need_no_labels(
    graph: Data, of_edges: plgc.CondensedGraph, cases: list[Case]
) -> None:
    with_labels = evaluate([of_edges], graph, task="link", first_seed=1)
    without = evaluate([of_edges], load_graph(unlabelled(graph)), task="link", first_seed=1)
    assert without["auroc"] == with_labels["auroc"]
    split = split_edges(graph, EDGE_SEED)
    assert len(cases) == 2
    for case in cases:  # whatever the seed of the evaluation
        assert case.split is not None
        for part in ("train", "val", "test"):
            assert torch.equal(getattr(case.split, part), getattr(split, part))
        shown = edge_set(case.visible["edge_index"])
        assert shown == edge_set(split.train)
        assert not shown & (edge_set(split.val) | edge_set(split.test))
    for task in ("node", "cluster"):
        with pytest.raises(LabelError, match="no labels"):
            evaluate([of_edges], load_graph(unlabelled(graph)), task=task)


def test_links_that_the_file_has_seen_are_refused(graph: Data, everything: plgc.CondensedGraph) -> None:
    with pytest.raises(SettingError, match=r"condensed from all edges.*--edges train"):
        evaluate([everything], graph, task="link")
    with pytest.raises(SettingError, match="--edges train"):
        evaluate([rival(load_graph(graph))], graph, task="link")


def test_edges_of_another_graph_or_another_split_are_refused(graph: Data, of_edges: plgc.CondensedGraph) -> None:
    other = graph.clone()
    kept = edge_set(graph["edge_index"]) - edge_set(split_edges(graph, EDGE_SEED).test[:, :1])
    other.edge_index = torch.tensor(sorted(kept)).T
    with pytest.raises(GraphError, match="training edges that are not this graph's"):
        evaluate([of_edges], other, task="link")
    lying = replace(of_edges, seen=replace(of_edges.seen, edge_seed=EDGE_SEED + 1))
    with pytest.raises(GraphError, match=f"edge seed {EDGE_SEED + 1}"):
        evaluate([lying], graph, task="link")
    reworded = graph.clone()
    reworded.x = graph["x"].to_dense().flip(0).to_sparse_csr()
    with pytest.raises(GraphError, match="not this graph's"):
        evaluate([of_edges], reworded, task="link")


def test_a_file_of_training_edges_serves_nodes_too(graph: Data, of_edges: plgc.CondensedGraph) -> None:
    assert evaluate([of_edges], graph)["accuracy"]["mean"] > 40


# Inductive files


def test_inductive_links_are_among_unseen_nodes(graph: Data, inductive: plgc.CondensedGraph, cases: list[Case]) -> None:
    result = evaluate([inductive], graph, task="link")
    assert result["inductive"]
    [case] = cases
    train = graph["train_mask"]
    unseen = (~train).nonzero().flatten()
    assert case.split is not None
    scored = torch.cat([case.split.train, case.split.val, case.split.test], dim=1)
    inner = {(a, b) for a, b in edge_set(graph["edge_index"]) if not train[a] and not train[b]}
    assert edge_set(unseen[scored]) == inner
    assert case.graph.num_nodes == case.visible.num_nodes == len(unseen)


def test_the_split_is_the_file_s(splitless: Data, cases: list[Case]) -> None:
    """A generated split: whatever the seed of the evaluation, the test nodes are those that the file has not seen."""
    source = load_graph(splitless, seed=6)
    condensed = condense(training_subgraph(source))
    assert condensed.seen.split_seed == 6
    result = evaluate([condensed], splitless, shots=2, seeds=2)
    assert "seed 6" in result["split"]
    for case in cases:
        assert all(torch.equal(case.graph[key], source[key]) for key in MASKS)
        assert training_digest(case.graph) == condensed.seen.training_nodes
    plain = evaluate([condense(splitless)], splitless, shots=2, seeds=1, first_seed=2)
    assert "seed 2" in plain["split"]  # what has seen all nodes and no label takes any


def test_one_of_several_fixed_splits(several: Data, cases: list[Case]) -> None:
    chosen = load_graph(several, split=1)
    condensed = condense(training_subgraph(chosen))
    for source in (several, chosen):  # the graph with all its splits, and the graph with this one
        assert evaluate([condensed], source, shots=2)["inductive"]
        assert torch.equal(cases[-1].graph["train_mask"], chosen["train_mask"])
    assert evaluate([condensed], several, shots=2, split=1)["split"] == "split 1 of 3"
    with pytest.raises(SettingError, match=r"split 2 was asked for.*split 1: leave --split out"):
        evaluate([condensed], several, shots=2, split=2)
    with pytest.raises(GraphError, match="another graph or split"):
        evaluate([condensed], load_graph(several, split=2), shots=2)


def test_another_graph_is_refused(graph: Data, inductive: plgc.CondensedGraph) -> None:
    with pytest.raises(GraphError, match="another graph or split"):
        evaluate([inductive], citation_graph(nodes=NODES + 1, classes=3, features=40))
    other = graph.clone()
    other.train_mask, other.test_mask = graph["val_mask"], graph["test_mask"] & ~graph["val_mask"]
    other.val_mask = torch.zeros_like(graph["val_mask"])
    with pytest.raises(GraphError, match="another graph or split"):
        evaluate([inductive], other)
    with pytest.raises(GraphError, match="no training nodes"):
        evaluate([inductive], load_graph(unlabelled(graph)))


# Files with labels in them


def test_labels_in_a_file_are_never_test_labels(splitless: Data, several: Data, cases: list[Case]) -> None:
    source = load_graph(splitless, seed=6)
    result = evaluate([rival(source)], splitless)
    assert result["method"] == "random"
    assert "seed 6" in result["split"]
    assert torch.equal(cases[0].graph["test_mask"], source["test_mask"])
    with pytest.raises(SettingError, match="split 1: leave --split out"):
        evaluate([rival(load_graph(several, split=1))], several, split=2)
    with pytest.raises(GraphError, match="another graph or split"):
        evaluate([rival(load_graph(several, split=1))], load_graph(several, split=0))


def test_labels_in_a_file_cannot_be_made_fewer(graph: Data) -> None:
    for given in ({"shots": 2}, {"labels": 9}):
        with pytest.raises(SettingError, match=r"random has none: .* Leave both out"):
            evaluate([rival(load_graph(graph))], graph, **given)


def test_a_rival_is_scored_beside_the_same_controls(graph: Data, everything: plgc.CondensedGraph) -> None:
    file = rival(load_graph(graph))
    with counted_adjacencies() as built:
        theirs = evaluate([file], graph)
    assert built == [NODES]  # for the validation score of its training, for its own score, and for all controls
    assert theirs["controls"] == evaluate([everything], graph)["controls"]
    assert "smoothed_accuracy" in theirs
    assert "smoothed_accuracy" not in theirs["controls"]["random_encoder"]


# Refusals


def test_files_that_have_seen_different_things_are_refused(
    graph: Data,
    everything: plgc.CondensedGraph,
    of_edges: plgc.CondensedGraph,
    inductive: plgc.CondensedGraph,
    several: Data,
) -> None:
    for pair in ([everything, of_edges], [of_edges, inductive], [inductive, everything]):
        with pytest.raises(SettingError, match=r"seen different things.*one by one"):
            evaluate(pair, graph)
    lying = replace(of_edges, seen=replace(of_edges.seen, edge_seed=1))
    with pytest.raises(SettingError, match=r"edge_seed 1; .*edge_seed 5"):
        evaluate([of_edges, lying], graph, task="link")
    parts = [condense(training_subgraph(load_graph(several, split=split))) for split in (0, 1)]
    with pytest.raises(SettingError, match="seen different things"):
        evaluate(parts, several)
    assert evaluate([inductive, inductive], graph, shots=2)["nodes"] == 18


def test_what_cannot_be_evaluated_is_refused(graph: Data, everything: plgc.CondensedGraph) -> None:
    with pytest.raises(SettingError, match="seeds is 0"):
        evaluate([everything], graph, seeds=0)
    with pytest.raises(SettingError, match="nothing to evaluate"):
        evaluate([], graph)
    with pytest.raises(SettingError, match="unknown task 'graph'"):
        evaluate([everything], graph, task="graph")
    with pytest.raises(GraphError, match="40 features per node, the graph has 30"):
        evaluate([everything], citation_graph(nodes=NODES, classes=3, features=30))


def test_what_the_head_settled_is_told_in_words() -> None:
    settled = [{"smoothing": 0.9, "weight_of_edges": 0.8}, {"smoothing": 0.7, "weight_of_edges": 0.6}]
    told = describe_settled(settled)
    assert told is not None
    assert told["smoothing"] == pytest.approx(0.8)
    assert told["words"].startswith("the edges help here: 70% of the weight")
    assert describe_settled([{}, {}]) is None
