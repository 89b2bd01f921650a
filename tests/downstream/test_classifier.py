from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

import plgc
from plgc.downstream.tasks.classifier import (
    ON_CONDENSED,
    ON_WHOLE_GRAPH,
    Classifier,
    ClassifierSettings,
    finetune_last_layer,
    train_classifier,
    train_on_condensed,
)
from plgc.runtime.errors import ArtifactError
from plgc.sparse.adjacency import build_adjacency
from plgc.sparse.inputs import Inputs, prepare

QUICK = ClassifierSettings(epochs=40, hidden=16)
PER_CLASS, CLASSES, WIDTH = 8, 3, 5


def toy(noise: float = 0.1) -> tuple[Tensor, Tensor]:
    """Three groups of points that a line tells apart."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(CLASSES).repeat_interleave(PER_CLASS)
    return torch.eye(CLASSES, WIDTH)[y] + noise * torch.randn(len(y), WIDTH, generator=generator), y


def ring(nodes: int) -> Tensor:
    """Every node joined to the next."""
    here = torch.arange(nodes)
    return torch.cat([torch.stack([here, here.roll(1)]), torch.stack([here.roll(1), here])], dim=1)


def toy_inputs() -> Inputs:
    x, _ = toy()
    return Inputs(x, build_adjacency(torch.empty(2, 0, dtype=torch.int64), len(x)))


def condensed(labels: Tensor, classes: int = CLASSES, **changes: object) -> plgc.CondensedGraph:
    x, _ = toy()
    made = plgc.CondensedGraph(
        features=x,
        pseudo_labels=None,
        counts=torch.ones(len(x), dtype=torch.int64),
        blocks=(),
        scaling="none",
        seed=0,
        threads=1,
        settings={},
        nodes_requested=len(x),
        method="random",
        labels=labels,
        num_classes=classes,
    )
    return replace(made, **changes)


def weights(model: Classifier) -> list[Tensor]:
    return list(model.gnn.state_dict().values())


def same(one: Classifier, other: Classifier) -> bool:
    return all(torch.equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


def fit(settings: ClassifierSettings = QUICK, **options) -> Classifier:
    x, y = toy()
    return train_classifier(x, None, torch.arange(len(y)), y, CLASSES, scaling="none", settings=settings, **options)


# Learning


@pytest.mark.parametrize("kind", ["gcn", "sage", "gat", "gin", "sgc", "mlp"])
def test_a_separable_problem_is_learned(kind: str) -> None:
    _, y = toy()
    model = fit(replace(QUICK, epochs=80), kind=kind)
    inputs = toy_inputs()
    probability = model.probabilities(inputs)
    assert torch.allclose(probability.sum(1), torch.ones(len(y)), atol=1e-5)
    assert float((probability.argmax(1) == y).float().mean()) == 1.0
    assert not any(parameter.requires_grad for parameter in model.gnn.parameters())
    assert not model.gnn.training
    rows = model.embed(inputs)
    part = "learned_plain" if kind == "mlp" else "learned"  # the one of a network that sees no edges
    assert model.parts == {part: rows.shape[1]} == {part: CLASSES if kind == "sgc" else 16}


def test_the_published_settings() -> None:
    """Section 3 of the protocols: 2 layers, 256, 600 epochs, a tenth of the step after half, decay, dropout."""
    assert ClassifierSettings(600, 256, 2, 0.5, 0.01, 5e-4, True) == ON_CONDENSED
    assert ClassifierSettings(200, 256, 2, 0.5, 0.01, 5e-4, False) == ON_WHOLE_GRAPH


def test_only_labelled_nodes_enter_the_loss() -> None:
    x, y = toy()
    labelled = torch.arange(0, len(y), 2)
    options = {"scaling": "none", "settings": QUICK}
    model = train_classifier(x, None, labelled, y[labelled], CLASSES, **options)
    other = x.clone()
    other[1::2] = 50.0
    assert same(train_classifier(other, None, labelled, y[labelled], CLASSES, **options), model)
    other[0] = 50.0
    assert not same(train_classifier(other, None, labelled, y[labelled], CLASSES, **options), model)


def test_soft_labels() -> None:
    x, y = toy()
    everything = torch.arange(len(y))
    hard = fit()
    sure = train_classifier(x, None, everything, F.one_hot(y, CLASSES).float(), CLASSES, scaling="none", settings=QUICK)
    for a, b in zip(weights(hard), weights(sure), strict=True):
        assert torch.allclose(a, b, atol=1e-4)
    wanted = torch.tensor([[0.7, 0.3, 0.0], [0.0, 0.6, 0.4], [0.2, 0.2, 0.6]])
    settings = ClassifierSettings(epochs=300, hidden=16, dropout=0.0, weight_decay=0.0)
    unsure = train_classifier(x, None, everything, wanted[y], CLASSES, scaling="none", settings=settings)
    found = unsure.probabilities(toy_inputs())
    assert float((found - wanted[y]).abs().max()) < 0.1


def test_the_step_shrinks_halfway() -> None:
    plain = ClassifierSettings(epochs=10, hidden=16)
    assert same(fit(replace(plain, epochs=5)), fit(replace(plain, epochs=5, decay_halfway=False)))
    assert not same(fit(replace(plain, decay_halfway=True)), fit(plain))
    start = fit(replace(plain, epochs=5))
    early, late = (fit(replace(plain, decay_halfway=decay)) for decay in (False, True))

    def moved(model: Classifier) -> float:
        return sum(float((a - b).abs().sum()) for a, b in zip(weights(model), weights(start), strict=True))

    assert moved(late) < 0.3 * moved(early)


# The best epoch


def test_the_epoch_with_the_best_score_is_kept() -> None:
    values = iter([0.1, 0.2, 0.9, 0.9, *[0.5] * 36])  # the third, and not the fourth, which is no better
    shown: list[Classifier] = []

    def score(model: Classifier) -> float:
        assert not model.gnn.training
        shown.append(model)
        return next(values)

    best = fit(score=score)
    assert len(shown) == QUICK.epochs
    assert same(best, fit(replace(QUICK, epochs=3)))
    assert not same(best, fit())


def test_without_a_score_the_last_epoch_is_kept() -> None:
    rising = iter(range(QUICK.epochs))
    assert same(fit(score=lambda _: next(rising)), fit())
    assert same(fit(score=lambda _: float("nan")), fit())  # no validation nodes: nothing to choose by


# Chance


def test_the_seed_alone_decides() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = fit(seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert same(fit(seed=3), first)
    assert not same(fit(seed=4), first)


def test_dropout_draws_from_the_seed_too() -> None:
    with_dropout, without = fit(seed=3), fit(replace(QUICK, dropout=0.0), seed=3)
    assert not same(with_dropout, without)


# Condensed graphs


def test_a_condensed_graph_is_trained_on_as_it_is() -> None:
    _, y = toy()
    model = train_on_condensed(condensed(y), settings=QUICK, seed=2)
    assert same(model, fit(seed=2))
    assert model.scaling == "none"
    soft = F.one_hot(y, CLASSES).float()
    again = train_on_condensed(condensed(soft), settings=QUICK, seed=2)
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(weights(again), weights(model), strict=True))


@pytest.mark.parametrize("weighted", [False, True])
def test_edges_of_a_condensed_graph_are_used(weighted: bool) -> None:
    x, y = toy()
    edges = ring(len(y))
    weight = torch.linspace(0.1, 2.0, len(y)).repeat(2) if weighted else None
    model = train_on_condensed(condensed(y, edge_index=edges, edge_weight=weight), settings=QUICK)
    adjacency = build_adjacency(edges, len(y), weight)
    everything = torch.arange(len(y))
    assert same(model, train_classifier(x, adjacency, everything, y, CLASSES, scaling="none", settings=QUICK))
    assert not same(model, train_on_condensed(condensed(y), settings=QUICK))
    if weighted:
        plain = train_on_condensed(condensed(y, edge_index=edges), settings=QUICK)
        assert not same(model, plain)


def test_nodes_without_a_label_do_not_teach() -> None:
    x, y = toy()
    partly = y.clone()
    partly[::3] = -1
    model = train_on_condensed(condensed(partly), settings=QUICK)
    other = x.clone()
    other[::3] = -9.0
    assert same(train_on_condensed(condensed(partly, features=other), settings=QUICK), model)
    assert not same(train_on_condensed(condensed(y), settings=QUICK), model)


def test_what_has_no_labels_cannot_be_trained_on() -> None:
    _, y = toy()
    ours = replace(condensed(y), labels=None, num_classes=None, pseudo_labels=torch.zeros(len(y), 2), method="plgc")
    with pytest.raises(ArtifactError, match=r"\(plgc\) has no labels to train on.*plgc\.reconstruct"):
        train_on_condensed(ours)
    with pytest.raises(ArtifactError, match="none of the 24 nodes"):
        train_on_condensed(condensed(torch.full_like(y, -1)))


def test_a_classifier_scales_what_it_is_shown(demo_graph: Data) -> None:
    inputs = prepare(demo_graph, "l1")
    train = demo_graph["train_mask"].nonzero().flatten()
    model = train_classifier(inputs.x, inputs.adjacency, train, demo_graph["y"][train], 4, scaling="l1", settings=QUICK)
    again = model.prepare(demo_graph)
    assert torch.equal(model.probabilities(again), model.probabilities(inputs))


# Fine-tuning


def test_finetuning_changes_the_last_layer_alone() -> None:
    _, y = toy()
    inputs, wrong = toy_inputs(), (y + 1) % CLASSES
    x, everything = toy()[0], torch.arange(len(y))
    learned = train_classifier(x, None, everything, wrong, CLASSES, scaling="none", settings=QUICK)
    before = [weight.clone() for weight in weights(learned)]
    tuned = finetune_last_layer(learned, inputs, everything, y)
    assert all(torch.equal(a, b) for a, b in zip(weights(learned), before, strict=True))  # a copy was tuned
    for (name, new), (_, old) in zip(tuned.gnn.state_dict().items(), learned.gnn.state_dict().items(), strict=True):
        assert torch.equal(new, old) == name.startswith("layers.0."), name
    assert torch.equal(tuned.embed(inputs), learned.embed(inputs))
    assert float((learned.probabilities(inputs).argmax(1) == y).float().mean()) == 0.0
    assert float((tuned.probabilities(inputs).argmax(1) == y).float().mean()) == 1.0
    assert not any(parameter.requires_grad for parameter in tuned.gnn.parameters())
    assert (tuned.scaling, tuned.parts) == (learned.scaling, learned.parts)


def test_finetuning_goes_on_from_what_was_learned_and_draws_nothing() -> None:
    _, y = toy()
    inputs, learned = toy_inputs(), fit()
    rows = torch.arange(2)
    before = torch.get_rng_state()
    step = finetune_last_layer(learned, inputs, rows, y[rows], epochs=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert same(finetune_last_layer(learned, inputs, rows, y[rows], epochs=1), step)
    assert same(finetune_last_layer(learned, inputs, rows, y[rows], epochs=0), learned)
    for new, old in zip(weights(step), weights(learned), strict=True):
        assert float((new - old).abs().max()) < 0.011  # one step of Adam at .01


def test_finetuning_reads_the_clean_labels_alone() -> None:
    _, y = toy()
    inputs, learned = toy_inputs(), fit()
    rows = torch.arange(0, len(y), 4)
    tuned = finetune_last_layer(learned, inputs, rows, y[rows], epochs=5)
    x = inputs.x
    assert isinstance(x, Tensor)
    other = x.clone()
    other[1] = 30.0  # not among them, and no neighbour
    assert same(finetune_last_layer(learned, Inputs(other, inputs.adjacency), rows, y[rows], epochs=5), tuned)
    assert not same(finetune_last_layer(learned, inputs, rows, (y[rows] + 1) % CLASSES, epochs=5), tuned)
