from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import plgc
from plgc.downstream.backbone import propagated_features
from plgc.downstream.fitting import fit_head
from plgc.downstream.tasks.classifier import (
    Classifier,
    ClassifierSettings,
    finetune_last_layer,
    train_classifier,
    train_on_condensed,
)
from plgc.downstream.tasks.metrics import accuracy
from plgc.evaluation import scoring
from plgc.evaluation.over_seeds import CONTROLS
from plgc.evaluation.scoring import learn, score, score_whole_link
from plgc.graphs import citation_graph, load_graph, unlabelled
from plgc.graphs.views.protocol import Case, Protocol, draw_case
from plgc.rivals import controls
from plgc.rivals.controls import Reference
from plgc.rivals.methods import condense_with
from plgc.runtime.errors import ArtifactError, LabelError, SettingError
from plgc.sparse.adjacency import Adjacency, build_adjacency
from plgc.sparse.inputs import Inputs, prepare
from quick import PLAIN, quick

NODES = 150
QUICK = quick(16, hidden=16, plain=PLAIN)


@pytest.fixture(scope="module")
def graph() -> Data:
    """150 nodes, 3 classes; shared, so no test may change it."""
    return load_graph(citation_graph(nodes=NODES, classes=3, features=40))


@pytest.fixture(scope="module")
def ours(graph: Data) -> plgc.CondensedGraph:
    return plgc.condense(graph, nodes=9, settings=QUICK)


@pytest.fixture(scope="module")
def rival(graph: Data) -> plgc.CondensedGraph:
    """Some training nodes with their labels."""
    return condense_with("random", graph, nodes=15, labels=draw_case(graph, Protocol(), 0).given)


@pytest.fixture(scope="module", autouse=True)
def _short_training() -> Iterator[None]:
    """Fewer epochs than are usual, enough for these small graphs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            scoring, "train_on_condensed", partial(train_on_condensed, settings=ClassifierSettings(epochs=60))
        )
        patch.setattr(controls, "train_classifier", partial(train_classifier, settings=ClassifierSettings(epochs=60)))
        patch.setattr(controls, "preset_named", lambda _: QUICK)
        yield


def relabelled(graph: Data, kept: Tensor) -> Data:
    """Other labels for all nodes but these."""
    other = graph.clone()
    other.y = torch.where(kept, graph["y"], (graph["y"] + 1) % 3)
    return other


def weights(model: object) -> list[Tensor]:
    assert isinstance(model, Classifier)
    return list(model.gnn.state_dict().values())


def same(one: object, other: object) -> bool:
    return all(torch.equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


# What is learned


def test_every_method_learns_what_it_is(graph: Data, ours: plgc.CondensedGraph, rival: plgc.CondensedGraph) -> None:
    case = draw_case(graph, Protocol(), 0)
    learned = {
        "plgc": learn("plgc", case, [ours]),
        "random": learn("random", case, [rival]),
        "whole": learn("whole", case),
        "ssl": learn("ssl", case, nodes=9),
        **{name: learn(name, case) for name in CONTROLS},
    }
    kinds = [plgc.Backbone, Classifier, Classifier, Reference, *[Reference] * len(CONTROLS)]
    assert [type(model) for model in learned.values()] == kinds
    for name, model in learned.items():
        embedding = model.embed(model.prepare(graph))
        assert embedding.shape == (NODES, sum(model.parts.values()))
        metrics = score(model, case, "node")
        expected = {"accuracy", "macro_f1"} | ({"smoothed_accuracy"} if name in ("random", "whole") else set())
        assert set(metrics) == expected
        assert metrics["accuracy"] > 45, name  # three classes
    assert set(score(learned["plgc"], case, "cluster")) == {"nmi", "ari"}


@pytest.mark.parametrize("method", ["plgc", "random", "whole", *CONTROLS])
def test_learning_and_scoring_leave_the_global_random_state_alone(
    method: str, graph: Data, ours: plgc.CondensedGraph, rival: plgc.CondensedGraph
) -> None:
    case = draw_case(graph, Protocol(shots=2), 0)
    given = {"plgc": [ours], "random": [rival]}.get(method, [])
    results = []
    for start in (11, 12):
        torch.manual_seed(start)
        before = torch.get_rng_state()
        learned = learn(method, case, given, seed=1)
        results.append(score(learned, case, "node"))
        assert torch.equal(torch.get_rng_state(), before)
    assert results[0] == results[1]


def test_kind_and_seed_reach_the_model(graph: Data, ours: plgc.CondensedGraph, rival: plgc.CondensedGraph) -> None:
    case = draw_case(graph, Protocol(shots=2), 0)
    rebuilt = learn("plgc", case, [ours], kind="sgc", seed=4)
    assert isinstance(rebuilt, plgc.Backbone)
    assert (rebuilt.settings.kind, rebuilt.seed) == ("sgc", 4)
    for method, given in (("random", [rival]), ("whole", [])):
        model = learn(method, case, given, kind="mlp", seed=4)
        assert isinstance(model, Classifier)
        assert model.gnn.kind == "mlp"
    kinds = [learn("random_encoder", case, kind=kind, seed=seed) for kind in ("gcn", "mlp") for seed in (3, 4)]
    assert len({float(model.embed(model.prepare(graph)).sum()) for model in kinds}) == 4


# Labels


def test_few_shots_are_all_that_supervised_training_sees(graph: Data) -> None:
    case = draw_case(graph, Protocol(shots=3), 0)
    assert case.clean is not None
    kept = torch.zeros(NODES, dtype=torch.bool)
    kept[case.clean] = True
    blind = replace(case, graph=relabelled(graph, kept))
    model = learn("whole", case)
    assert same(learn("whole", blind), model)
    given = case.given
    assert given is not None
    y = torch.where(kept, (given.y + 1) % 3, given.y)
    assert not same(learn("whole", replace(case, given=replace(given, y=y))), model)


def test_validation_labels_choose_the_epoch_with_full_labels_only(
    graph: Data, rival: plgc.CondensedGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = []
    for module, name in ((controls, "train_classifier"), (scoring, "train_on_condensed")):
        original = getattr(module, name)

        def spy(*arguments, score, original=original, **rest):
            scores.append(score)
            return score and original(*arguments, score=score, **rest)

        monkeypatch.setattr(module, name, spy)
    for protocol in (Protocol(shots=2), Protocol(labels=9, noise=0.5), Protocol(imbalance=5.0), Protocol("link")):
        case = draw_case(graph, protocol, 0)
        learn("whole", case)
        learn("random", case, [rival])
    assert scores == [None] * 8
    case = draw_case(graph, Protocol(), 0)
    for model in (learn("whole", case), learn("random", case, [rival])):
        assert isinstance(model, Classifier)
        predicted = model.probabilities(model.prepare(graph)).argmax(1)
        val = graph["val_mask"]
        assert 100 * scores[-1](model) == pytest.approx(accuracy(predicted[val], graph["y"][val]))


def test_test_labels_reach_nobody(graph: Data, rival: plgc.CondensedGraph) -> None:
    blind = relabelled(graph, ~graph["test_mask"])
    cases = [draw_case(source, Protocol(), 0) for source in (graph, blind)]
    assert same(*(learn("whole", case) for case in cases))
    assert same(*(learn("random", case, [rival]) for case in cases))


def test_noisy_labels_train_and_clean_ones_finetune(graph: Data) -> None:
    case = draw_case(graph, Protocol(labels=9, noise=0.9), 0)
    assert case.clean is not None
    model = learn("whole", case)
    assert isinstance(model, Classifier)
    inputs = model.prepare(graph)
    tuned = finetune_last_layer(model, inputs, case.clean, graph["y"][case.clean])
    predicted = tuned.probabilities(inputs).argmax(1)
    test = graph["test_mask"]
    before = [weight.clone() for weight in weights(model)]
    metrics = score(model, case, "node")
    assert metrics["accuracy"] == pytest.approx(accuracy(predicted[test], graph["y"][test]))
    assert all(torch.equal(a, b) for a, b in zip(weights(model), before, strict=True))
    noisy = score(model, replace(case, finetune=False), "node")["accuracy"]
    assert metrics["accuracy"] > noisy + 10  # nine in ten labels were wrong
    # validation labels, clean or not, play no part
    kept = ~graph["val_mask"]
    assert same(learn("whole", draw_case(relabelled(graph, kept), Protocol(labels=9, noise=0.9), 0)), model)


def test_ours_does_not_care_for_noise(graph: Data, ours: plgc.CondensedGraph) -> None:
    results = set()
    for noise in (0.0, 0.5, 0.9):
        case = draw_case(graph, Protocol(labels=9, noise=noise), 0)
        results.add(score(learn("plgc", case, [ours]), case, "node")["accuracy"])
    assert len(results) == 1


def test_inductive_training_sees_training_nodes_alone(graph: Data) -> None:
    case = draw_case(graph, Protocol(shots=3, inductive=True), 0)
    model = learn("whole", case)
    other = graph.clone()
    x = graph["x"].to_dense()
    x[~graph["train_mask"]] = 3.0
    other.x = x
    changed = draw_case(other, Protocol(shots=3, inductive=True), 0)
    again = learn("whole", changed)
    for a, b in zip(weights(again), weights(model), strict=True):
        assert torch.allclose(a, b, atol=1e-3)  # dense and sparse features sum in another order
    everything = learn("whole", draw_case(other, Protocol(shots=3), 0))
    assert not all(torch.allclose(a, b, atol=1e-2) for a, b in zip(weights(everything), weights(model), strict=True))


# Scores


class Watched:
    """Propagated features that remember what they were shown."""

    def __init__(self) -> None:
        self.parts = {"x": 40}
        self.shown: list[Data] = []

    def prepare(self, graph: Data, _prepared: object = None) -> Inputs:
        self.shown.append(graph)
        return prepare(graph, "l1")

    def embed(self, graph: Inputs) -> Tensor:
        return propagated_features(graph)


@pytest.mark.parametrize("inductive", [False, True])
def test_messages_pass_over_training_edges_alone(graph: Data, inductive: bool) -> None:
    case = draw_case(graph, Protocol("link", inductive=inductive), 0)
    assert case.split is not None
    watched = Watched()
    assert set(score(watched, case, "link")) == {"auroc", "ap"}
    visible = {(min(pair), max(pair)) for shown in watched.shown for pair in shown["edge_index"].T.tolist()}
    assert visible == set(map(tuple, case.split.train.T.tolist()))
    for part in (case.split.val, case.split.test):
        assert part.shape[1] > 0
        assert not visible & set(map(tuple, part.T.tolist()))
    assert all(shown.num_nodes == case.graph.num_nodes for shown in watched.shown)


def test_the_part_scored_is_the_part_asked_for(graph: Data, ours: plgc.CondensedGraph) -> None:
    case = draw_case(graph, Protocol(shots=3), 0)
    model = learn("plgc", case, [ours])
    swapped = graph.clone()
    swapped.val_mask, swapped.test_mask = graph["test_mask"], graph["val_mask"]
    assert score(model, case, "node", on="val") == score(model, replace(case, graph=swapped), "node", on="test")
    links = draw_case(graph, Protocol("link"), 0)
    assert score(Watched(), links, "link", on="val") != score(Watched(), links, "link", on="test")


def test_a_whole_graph_can_predict_links(graph: Data) -> None:
    case = draw_case(graph, Protocol("link"), 0)
    metrics = score_whole_link(case)
    assert set(metrics) == {"auroc", "ap"}
    assert metrics["auroc"] > 0.5


def test_smoothed_accuracy_is_of_smoothed_probabilities(graph: Data, rival: plgc.CondensedGraph) -> None:
    case = draw_case(graph, Protocol(), 0)
    model = learn("random", case, [rival])
    assert isinstance(model, Classifier)
    matrix = torch.eye(NODES)
    matrix[tuple(graph["edge_index"])] = 1
    matrix = matrix / torch.outer(matrix.sum(1), matrix.sum(1)).sqrt()
    start = current = model.probabilities(model.prepare(graph))
    for _ in range(10):
        current = 0.9 * matrix @ current + 0.1 * start
    test = graph["test_mask"]
    expected = accuracy(current.argmax(1)[test], graph["y"][test])
    assert score(model, case, "node")["smoothed_accuracy"] == pytest.approx(expected)


def rewired(graph: Data) -> Data:
    """The same nodes, with other edges."""
    other = graph.clone()
    other.edge_index = (graph["edge_index"] + torch.tensor([[0], [NODES // 3]])) % NODES
    return load_graph(other)


@pytest.mark.parametrize("protocol", [Protocol(shots=3), Protocol(shots=5), Protocol()])
def test_plain_controls_are_the_head_on_explicit_matrices(graph: Data, protocol: Protocol) -> None:
    case = draw_case(graph, protocol, 0)
    x = graph["x"].to_dense()
    x = x / x.sum(1, keepdim=True)
    matrix = torch.eye(NODES)
    matrix[tuple(graph["edge_index"])] = 1
    matrix = matrix / torch.outer(matrix.sum(1), matrix.sum(1)).sqrt()
    adjacency, val = build_adjacency(graph["edge_index"], NODES), graph["val_mask"].nonzero().flatten()

    def expected(matrix: Tensor, parts: dict[str, int], adjacency: Adjacency | None) -> float:
        assert case.clean is not None
        validation = val if case.validate else None
        y, test = graph["y"], graph["test_mask"]
        head = fit_head(matrix, parts, case.clean, y, 3, adjacency=adjacency, validation=validation)
        return accuracy(head.probabilities(matrix, adjacency).argmax(1)[test], y[test])

    parts = {"x": 40, "propagated_1": 40, "propagated_2": 40}
    explicit = {
        "raw_features": expected(x, {"x": 40}, None),
        "plain_parts": expected(torch.cat([x, matrix @ x, matrix @ matrix @ x], dim=1), parts, adjacency),
    }
    assert explicit["raw_features"] != expected(x, {"x": 40}, adjacency)  # smoothing would show
    for name, value in explicit.items():
        assert score(learn(name, case), case, "node")["accuracy"] == pytest.approx(value), name


@pytest.mark.parametrize("protocol", [Protocol(), Protocol(shots=3)])
def test_raw_features_see_no_edges(graph: Data, protocol: Protocol) -> None:
    """With all labels, validation nodes weigh the experts: that must not see edges either."""
    cases = [draw_case(one, protocol, 0) for one in (graph, rewired(graph))]
    for task in ("node", "cluster"):
        first, second = (score(learn("raw_features", case), case, task) for case in cases)
        assert first == second
    first, second = (score(learn("propagated_features", case), case, "node") for case in cases)
    assert first["accuracy"] > second["accuracy"] + 5  # misled by edges that mean nothing


# Refusals


def test_refusals(graph: Data, ours: plgc.CondensedGraph, rival: plgc.CondensedGraph) -> None:
    case = draw_case(graph, Protocol(), 0)
    for method in ("plgc", "random"):
        with pytest.raises(SettingError, match=f"{method} needs a condensed graph"):
            learn(method, case)
    with pytest.raises(SettingError, match="ssl needs the number of prototypes: give nodes"):
        learn("ssl", case)
    with pytest.raises(ArtifactError, match=r"with labels .* and without .* cannot be combined"):
        learn("random", case, [ours, rival])
    with pytest.raises(SettingError, match="combine and weights are for files with pseudo-labels"):
        learn("random", case, [rival, rival], combine="heads")
    with pytest.raises(SettingError, match="on is 'all'"):
        score(learn("plgc", case, [ours]), case, "node", on="all")


def test_without_labels_only_what_needs_none_works(graph: Data, ours: plgc.CondensedGraph) -> None:
    bare = load_graph(unlabelled(graph))
    case: Case = draw_case(bare, Protocol(), 0)
    with pytest.raises(LabelError, match="cannot be trained on it end to end"):
        learn("whole", case)
    model = learn("plgc", case, [ours])
    with pytest.raises(LabelError, match="nodes cannot be classified"):
        score(model, case, "node")
    with pytest.raises(LabelError, match="no labels"):
        score(model, case, "cluster")
    links = draw_case(bare, Protocol("link"), 0)
    assert score(model, links, "link")["auroc"] > 0.5
