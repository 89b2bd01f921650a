"""Every condenser through one door: who may read labels, and that nobody reads more than it is given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.cli.options import Condenser
from plgc.graphs import TrainingLabels, citation_graph, load_graph, training_labels
from plgc.rivals.methods import CONDENSERS, METHODS, condense_with, method_named
from plgc.runtime.errors import LabelError, SettingError

NODES, KEPT = 150, 9
QUICK = tuple(name for name in CONDENSERS if not METHODS[name].long)  # the long ones have tests of their own
LONG = tuple(name for name in CONDENSERS if METHODS[name].long)
SUPERVISED = tuple(name for name in QUICK if METHODS[name].supervised)


@pytest.fixture(scope="module")
def graph() -> Data:
    """150 nodes, 3 classes; shared, so no test may change it."""
    return load_graph(citation_graph(nodes=NODES, classes=3, features=40))


@pytest.fixture(scope="module")
def labels(graph: Data) -> TrainingLabels:
    return training_labels(graph)


@pytest.fixture(scope="module")
def made(graph: Data, labels: TrainingLabels) -> dict[str, plgc.CondensedGraph]:
    """One condensed graph of every quick method."""
    return {name: condense(name, graph, labels) for name in QUICK}


def condense(name: str, graph: Data, labels: TrainingLabels, seed: int = 1) -> plgc.CondensedGraph:
    given = labels if METHODS[name].supervised else None
    return condense_with(name, graph, nodes=KEPT, seed=seed, labels=given)


def other_labels(graph: Data) -> Data:
    """The same features, edges and split; other labels everywhere."""
    other = graph.clone()
    other.y = torch.randint(-1, 9, (NODES,), generator=torch.Generator().manual_seed(5))
    return other


# The catalogue


def test_the_catalogue(made: dict[str, plgc.CondensedGraph]) -> None:
    assert tuple(Condenser) == CONDENSERS
    assert {name for name, method in METHODS.items() if method.condenses and not method.supervised} == {"plgc", "ctgc"}
    assert all(METHODS[name].about for name in METHODS)
    assert method_named("whole") is METHODS["whole"]
    assert all(made[name].method == name for name in QUICK)


def test_unknown_methods_and_references_are_refused(graph: Data, labels: TrainingLabels) -> None:
    with pytest.raises(SettingError, match="unknown method 'magic': choose one of plgc, ctgc, random"):
        method_named("magic")
    with pytest.raises(SettingError, match="unknown method 'magic'"):
        condense_with("magic", graph, nodes=KEPT, labels=labels)
    for name in set(METHODS) - set(CONDENSERS):
        with pytest.raises(SettingError, match=f"{name} does not condense"):
            condense_with(name, graph, nodes=KEPT, labels=labels)


# Labels


def test_the_label_free_method_reads_no_labels_and_no_masks(graph: Data, made: dict[str, plgc.CondensedGraph]) -> None:
    other = other_labels(graph)
    other.train_mask, other.val_mask, other.test_mask = (torch.arange(NODES) % 3 == part for part in range(3))
    assert condense_with("plgc", other, nodes=KEPT, seed=1).to_bytes() == made["plgc"].to_bytes()
    assert made["plgc"].labels is None
    assert made["plgc"].num_classes is None


def test_the_label_free_method_must_not_get_labels(graph: Data, labels: TrainingLabels) -> None:
    with pytest.raises(SettingError, match="plgc works without labels"):
        condense_with("plgc", graph, nodes=KEPT, labels=labels)


@pytest.mark.parametrize("name", SUPERVISED)
def test_a_supervised_method_needs_labels_of_its_own(name: str, graph: Data) -> None:
    """Those that the graph carries do not count."""
    with pytest.raises(LabelError, match=f"{name} needs training labels"):
        condense_with(name, graph, nodes=KEPT)


@pytest.mark.parametrize("name", SUPERVISED)
def test_a_supervised_method_reads_the_labels_it_is_given_and_no_others(
    name: str, graph: Data, labels: TrainingLabels, made: dict[str, plgc.CondensedGraph]
) -> None:
    """Whatever the graph says of its labels, and whatever the hidden ones are: the same file."""
    hidden = graph.clone()
    hidden.y = torch.where(graph["test_mask"], 2, graph["y"])
    assert not torch.equal(hidden.y, graph["y"])
    assert condense(name, hidden, training_labels(hidden)).to_bytes() == made[name].to_bytes()
    outside = torch.ones(NODES, dtype=torch.bool)
    outside[torch.cat([labels.train, labels.val])] = False
    seeing = replace(labels, y=torch.where(outside, 0, labels.y))
    assert condense(name, other_labels(graph), seeing).to_bytes() == made[name].to_bytes()


@pytest.mark.parametrize("name", SUPERVISED)
def test_a_supervised_method_does_read_its_labels(
    name: str, graph: Data, labels: TrainingLabels, made: dict[str, plgc.CondensedGraph]
) -> None:
    """So that the test above says something."""
    y = labels.y.clone()
    y[labels.train] = (y[labels.train] + 1) % 3
    assert condense(name, graph, replace(labels, y=y)).to_bytes() != made[name].to_bytes()


@pytest.mark.parametrize("name", ["herding-labelfree", "kcenter-labelfree"])
def test_label_free_choices_do_not_depend_on_the_labels(
    name: str, graph: Data, labels: TrainingLabels, made: dict[str, plgc.CondensedGraph]
) -> None:
    y = labels.y.clone()
    y[labels.train] = torch.randint(3, (labels.train.numel(),), generator=torch.Generator().manual_seed(0))
    other = condense(name, graph, replace(labels, y=y, val=labels.val[:0]))
    assert torch.equal(other.features, made[name].features)
    assert torch.equal(other.edge_index, made[name].edge_index)
    assert not torch.equal(other.labels, made[name].labels)


@pytest.mark.parametrize("name", ["herding", "kcenter"])
def test_choices_by_class_do_depend_on_the_labels(
    name: str, graph: Data, labels: TrainingLabels, made: dict[str, plgc.CondensedGraph]
) -> None:
    y = labels.y.clone()
    y[labels.train] = torch.randint(3, (labels.train.numel(),), generator=torch.Generator().manual_seed(0))
    other = condense(name, graph, replace(labels, y=y))
    assert not torch.equal(other.features, made[name].features)


@pytest.mark.parametrize("name", LONG)
def test_long_methods_are_handed_what_they_need(
    name: str, graph: Data, labels: TrainingLabels, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[tuple[tuple[object, ...], dict[str, object]]] = []
    for function in ("ctgc", "by_distribution", "by_gradients", "by_trajectories"):
        monkeypatch.setattr(f"plgc.rivals.methods.condense_{function}", lambda *a, **k: seen.append((a, k)))
    given = labels if METHODS[name].supervised else None
    condense_with(name, graph, nodes=KEPT, seed=3, labels=given, device="cpu", checkpoint=tmp_path)
    [(arguments, options)] = seen
    assert arguments == ((graph, labels) if given else (graph,))
    assert options["nodes"] == KEPT
    assert options["seed"] == 3
    assert options["checkpoint"] == tmp_path
    assert options.get("method", name) == name


# What every method leaves behind


@pytest.mark.parametrize("name", QUICK)
def test_every_method_makes_a_sound_file(
    name: str, graph: Data, made: dict[str, plgc.CondensedGraph], tmp_path: Path
) -> None:
    condensed = made[name]
    loaded = plgc.CondensedGraph.load(condensed.save(tmp_path / "c.safetensors"))
    assert loaded.to_bytes() == condensed.to_bytes()
    assert loaded.method == name
    assert loaded.num_nodes == KEPT == loaded.nodes_requested
    assert loaded.num_features == 40
    assert loaded.seed == 1
    assert loaded.source == {"nodes": NODES, "edges": graph["edge_index"].shape[1], "features": 40}
    assert loaded.fingerprint == made["plgc"].fingerprint
    assert (loaded.seen["nodes"], loaded.seen["edges"]) == ("all", "all")
    if METHODS[name].supervised:
        assert loaded.pseudo_labels is None
        assert loaded.num_classes == 3
        assert loaded.labels is not None
        assert bool((loaded.labels >= 0).any())


@pytest.mark.parametrize("name", QUICK)
def test_every_method_depends_on_its_seed_alone(
    name: str, graph: Data, labels: TrainingLabels, made: dict[str, plgc.CondensedGraph]
) -> None:
    before = torch.get_rng_state()
    torch.manual_seed(4)
    state = torch.get_rng_state()
    again = condense(name, graph, labels)
    assert torch.equal(torch.get_rng_state(), state)
    torch.set_rng_state(before)
    assert again.to_bytes() == made[name].to_bytes()


def test_threads_are_recorded_and_put_back(graph: Data, labels: TrainingLabels) -> None:
    before = torch.get_num_threads()
    assert condense_with("random", graph, nodes=KEPT, labels=labels, threads=2).threads == 2
    assert torch.get_num_threads() == before
    with pytest.raises(SettingError, match="threads is 0"):
        condense_with("random", graph, nodes=KEPT, labels=labels, threads=0)
