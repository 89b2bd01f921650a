"""Every method is scored in three ways; each is compared with the head on an explicit matrix."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

import plgc
from plgc.downstream.backbone import BackboneSettings
from plgc.downstream.embedder import Embedder
from plgc.downstream.fitting import fit_head
from plgc.downstream.tasks.classifier import Classifier, ClassifierSettings, train_on_condensed
from plgc.downstream.tasks.metrics import accuracy
from plgc.evaluation import scoring
from plgc.evaluation.kept import ways_of
from plgc.evaluation.over_seeds import CONTROLS, evaluate
from plgc.evaluation.scoring import learn, score, score_ways
from plgc.graphs import citation_graph, load_graph
from plgc.graphs.views.protocol import Case, Protocol, draw_case
from plgc.rivals.ctgc.probe import linear_probe
from plgc.rivals.methods import condense_with
from plgc.sparse.adjacency import build_adjacency
from plgc.sparse.inputs import Inputs
from quick import PLAIN, quick

NODES = 150
QUICK = quick(16, hidden=16, plain=PLAIN)
PLAIN_PARTS = {"x": 40, "propagated_1": 40, "propagated_2": 40}


@pytest.fixture(scope="module")
def graph() -> Data:
    return load_graph(citation_graph(nodes=NODES, classes=3, features=40))


@pytest.fixture(scope="module")
def ours(graph: Data) -> plgc.CondensedGraph:
    return plgc.condense(graph, nodes=9, settings=QUICK)


@pytest.fixture(autouse=True)
def _short_training(monkeypatch: pytest.MonkeyPatch) -> None:
    short = partial(train_on_condensed, settings=ClassifierSettings(epochs=30))
    monkeypatch.setattr(scoring, "train_on_condensed", short)


def rival(case: Case) -> Classifier:
    file = condense_with("random", case.seen, nodes=15, labels=case.given)
    model = learn("random", case, [file])
    assert isinstance(model, Classifier)
    return model


def with_our_head(embedding: Tensor, parts: dict[str, int], case: Case, x: Tensor) -> float:
    """Test accuracy of our head on an explicit matrix; where X is not in it, few labels take neighbours from ``x``."""
    assert case.clean is not None
    y, test = case.graph["y"], case.graph["test_mask"]
    adjacency = build_adjacency(case.graph["edge_index"], NODES)
    validation = case.graph["val_mask"].nonzero().flatten() if case.validate else None
    beside = None if case.validate or "x" in parts else x
    head = fit_head(embedding, parts, case.clean, y, 3, adjacency=adjacency, x=beside, validation=validation)
    return accuracy(head.probabilities(embedding, adjacency).argmax(1)[test], y[test])


@pytest.mark.parametrize("protocol", [Protocol(), Protocol(shots=3), Protocol(labels=9, noise=0.5)])
def test_a_classifier_is_scored_by_itself_with_our_head_and_with_plain_parts(graph: Data, protocol: Protocol) -> None:
    case = draw_case(graph, protocol, 0)
    model = rival(case)
    found = score_ways(ways_of(model), case, "node")
    x = graph["x"].to_dense()
    x = x / x.sum(1, keepdim=True)
    matrix = torch.eye(NODES)
    matrix[tuple(graph["edge_index"])] = 1
    matrix = matrix / torch.outer(matrix.sum(1), matrix.sum(1)).sqrt()
    hidden = model.embed(model.prepare(graph))
    beside = torch.cat([hidden, x, matrix @ x, matrix @ matrix @ x], dim=1)
    assert found["accuracy"] == score(model, case, "node")["accuracy"]
    assert found["learned_accuracy"] == pytest.approx(with_our_head(hidden, {"learned": 256}, case, x))
    assert found["parts_accuracy"] == pytest.approx(with_our_head(beside, {"learned": 256, **PLAIN_PARTS}, case, x))
    assert {"learned_macro_f1", "parts_macro_f1", "smoothed_accuracy"} < set(found)


def test_ours_is_scored_as_shipped_and_by_the_file_alone(graph: Data, ours: plgc.CondensedGraph) -> None:
    shipped, paper = (plgc.reconstruct(ours, settings=BackboneSettings(skip=skip)) for skip in (True, False))
    ways = ways_of(shipped)
    assert list(ways) == ["", "learned_"]
    assert set(ways["learned_"].parts) == set(paper.parts)
    case = draw_case(graph, Protocol(shots=3), 0)
    # Without plain parts of its own, a backbone is the file alone; they stand beside it in another way.
    assert list(ways_of(paper)) == ["", "parts_"]
    found, literal = (score_ways(ways_of(model), case, "node") for model in (shipped, paper))
    assert literal["accuracy"] == found["learned_accuracy"]
    assert literal["parts_accuracy"] == found["accuracy"]


def test_links_are_scored_alone_and_with_plain_parts(graph: Data, ours: plgc.CondensedGraph) -> None:
    case = draw_case(graph, Protocol("link"), 0)
    theirs, mine = rival(case), learn("plgc", case, [ours])
    found = score_ways(ways_of(theirs, "link"), case, "link")
    assert set(found) == {"auroc", "ap", "parts_auroc", "parts_ap"}
    assert found["auroc"] == score(theirs, case, "link")["auroc"]
    assert found["auroc"] != found["parts_auroc"]
    found = score_ways(ways_of(mine, "link"), case, "link")
    assert set(found) == {"auroc", "ap", "learned_auroc", "learned_ap"}
    assert found["auroc"] == score(mine, case, "link")["auroc"]


def test_clusters_and_what_has_learned_nothing_have_one_way(graph: Data, ours: plgc.CondensedGraph) -> None:
    case = draw_case(graph, Protocol(), 0)
    assert list(ways_of(learn("plgc", case, [ours]), "cluster")) == [""]
    for name in set(CONTROLS) - {"random_encoder"}:
        assert list(ways_of(learn(name, case))) == [""]


class Own(Embedder):
    """An embedder with a head of its own; it counts how often it embeds."""

    num_features, scaling, parts, calls = 40, "l1", {"learned": 8}, 0
    own_head = staticmethod(linear_probe)

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def embed(self, graph: Inputs) -> Tensor:
        self.calls += 1
        return torch.randn(NODES, 8, generator=torch.Generator().manual_seed(0)) + 3 * F.one_hot(self.y, 8)

    def __init__(self, y: Tensor) -> None:
        self.y = y


def test_a_head_of_the_authors_is_the_first_way_and_ours_the_others(graph: Data) -> None:
    case = draw_case(graph, Protocol(shots=3), 0)
    assert case.clean is not None
    y, test = graph["y"], graph["test_mask"]
    model = Own(y)
    ways = ways_of(model)
    assert list(ways) == ["", "learned_", "parts_"]
    found = score_ways(ways, case, "node")
    assert model.calls == 2  # once for its own head, once for both others
    predicted = linear_probe(model.embed(ways[""].prepare(graph)), case.clean, y[case.clean], 3).argmax(1)
    assert found["accuracy"] == pytest.approx(accuracy(predicted[test], y[test]))
    assert found["learned_accuracy"] > 70


def test_the_probe_is_a_logistic_regression() -> None:
    """Long training would end at the minimum; 200 epochs come close to it, and scaling the input matters."""
    generator = torch.Generator().manual_seed(1)
    y = torch.arange(60) % 3
    rows = torch.randn(60, 5, generator=generator) + 2 * F.one_hot(y, 5)
    probability = linear_probe(rows, torch.arange(30), y[:30], 3)
    assert torch.allclose(probability.sum(1), torch.ones(60))
    assert (probability.argmax(1) == y).float().mean() > 0.8
    again, other = (linear_probe(rows, torch.arange(30), y[:30], 3, seed=seed) for seed in (0, 1))
    assert torch.equal(again, probability)
    assert not torch.equal(other, probability)
    flipped = linear_probe(rows, torch.arange(30), (y[:30] + 1) % 3, 3)
    assert (flipped.argmax(1) == y).float().mean() < 0.2


def test_evaluate_shows_every_way_of_a_rival(graph: Data) -> None:
    case = draw_case(graph, Protocol(), 0)
    file = condense_with("random", case.seen, nodes=15, labels=case.given)
    result = evaluate([file], graph)
    found = score_ways(ways_of(learn("random", case, [file])), case, "node")
    for way, prefix in (("learned", "learned_"), ("parts", "parts_")):
        assert result[way]["accuracy"]["mean"] == found[f"{prefix}accuracy"]
    assert result["accuracy"]["mean"] == found["accuracy"]
