"""The table of methods, and what holds for all that condense: which labels they read, what they leave behind."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.cli.options import Condenser
from plgc.graphs import TrainingLabels, training_labels
from plgc.rivals.methods import CONDENSERS, METHODS, TABLE, Method, condense_with, load, method_named
from plgc.runtime.errors import LabelError, SettingError
from quick_rivals import CLASSES, FEATURES, KEPT, NODES, QUICK, condense

Made = dict[str, plgc.CondensedGraph]
SUPERVISED = tuple(name for name in CONDENSERS if METHODS[name].supervised)
SEEDED = tuple(name for name in CONDENSERS if name != "coarsening" and not name.startswith(("herding", "kcenter")))


def other_labels(graph: Data) -> Data:
    """The same features, edges and split; other labels everywhere."""
    other = graph.clone()
    other.y = torch.randint(-1, 9, (NODES,), generator=torch.Generator().manual_seed(5))
    return other


# The table


def test_the_table() -> None:
    assert tuple(Condenser) == CONDENSERS
    assert {name for name in CONDENSERS if not METHODS[name].supervised} == {"plgc", "ctgc"}
    assert method_named("whole") is METHODS["whole"]
    for method in TABLE:
        assert METHODS[method.name] is method
        assert method.condenses == (method.name in CONDENSERS)
        assert method.about
        named = [getattr(method, field) for field in ("loop", "condenser", "rebuild", "reference")]
        assert all(callable(load(function)) for function in named if function is not None)


def test_reading_the_table_imports_no_torch() -> None:
    code = "import sys, plgc.rivals.methods; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unknown_methods_and_references_are_refused(graph: Data, labels: TrainingLabels) -> None:
    with pytest.raises(SettingError, match="unknown method 'magic': choose one of plgc, ctgc, random"):
        condense_with("magic", graph, nodes=KEPT, labels=labels)
    for name in {method.name for method in TABLE} - set(CONDENSERS):
        with pytest.raises(SettingError, match=f"{name} does not condense"):
            condense_with(name, graph, nodes=KEPT, labels=labels)


def test_options_of_ours_are_for_ours(graph: Data, labels: TrainingLabels) -> None:
    assert int(condense("plgc", graph, nodes=KEPT, min_cluster=5).counts.min()) >= 5
    with pytest.raises(SettingError, match="random does not take min_cluster, which is for plgc"):
        condense_with("random", graph, nodes=KEPT, labels=labels, min_cluster=5)
    condense_with("random", graph, nodes=KEPT, labels=labels, min_cluster=None)


def test_a_method_is_a_record(
    graph: Data, labels: TrainingLabels, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[Any] = []
    monkeypatch.setitem(METHODS, "mine", Method("mine", "for this test", loop=seen.append, supervised=True))
    condense_with("mine", graph, nodes=KEPT, seed=3, labels=labels, checkpoint=tmp_path, settings=QUICK["gecc"])
    [run] = seen
    assert (run.method, run.nodes, run.seed, run.scaling, run.device) == ("mine", KEPT, 3, "l1", "cpu")
    assert (run.labels, run.folder, run.settings) == (labels, tmp_path, QUICK["gecc"])
    assert not hasattr(run.graph, "y")


# Labels


def test_a_label_free_method_must_not_get_labels(graph: Data, labels: TrainingLabels) -> None:
    for name in ("plgc", "ctgc"):
        with pytest.raises(SettingError, match=f"{name} works without labels"):
            condense_with(name, graph, nodes=KEPT, labels=labels)


@pytest.mark.parametrize("name", SUPERVISED)
def test_a_supervised_method_needs_labels_of_its_own(name: str, graph: Data) -> None:
    """Those that the graph carries do not count."""
    with pytest.raises(LabelError, match=f"{name} needs training labels"):
        condense_with(name, graph, nodes=KEPT)


@pytest.mark.parametrize("name", CONDENSERS)
def test_a_result_depends_on_graph_seed_and_given_labels_alone(
    name: str, graph: Data, labels: TrainingLabels, made: Made
) -> None:
    """Whatever labels the graph has, whatever the hidden ones are, and whatever torch's own generator draws."""
    outside = torch.ones(NODES, dtype=torch.bool)
    outside[torch.cat([labels.train, labels.val])] = False
    given, other = replace(labels, y=torch.where(outside, 0, labels.y)), other_labels(graph)
    if name in ("plgc", "ctgc"):
        other.train_mask, other.val_mask, other.test_mask = (torch.arange(NODES) % 3 == part for part in range(3))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        before = torch.get_rng_state()
        again = condense(name, other, given)
        assert torch.equal(torch.get_rng_state(), before)
    assert again.to_bytes() == made[name].to_bytes()


@pytest.mark.parametrize("name", SUPERVISED)
def test_a_supervised_method_does_read_its_labels(name: str, graph: Data, labels: TrainingLabels, made: Made) -> None:
    """So that the test above says something."""
    y = labels.y.clone()
    y[labels.train] = (y[labels.train] + 1) % CLASSES
    assert condense(name, graph, replace(labels, y=y)).to_bytes() != made[name].to_bytes()


@pytest.mark.parametrize("name", ["herding-labelfree", "kcenter-labelfree", "herding", "kcenter"])
def test_which_choices_depend_on_the_labels(name: str, graph: Data, labels: TrainingLabels, made: Made) -> None:
    y = labels.y.clone()
    y[labels.train] = torch.randint(3, (labels.train.numel(),), generator=torch.Generator().manual_seed(0))
    other = condense(name, graph, replace(labels, y=y, val=labels.val[:0]))
    free = name.endswith("labelfree")
    assert torch.equal(other.features, made[name].features) == free
    assert not torch.equal(other.labels, made[name].labels)  # pyright: ignore


# What every method leaves behind


@pytest.mark.parametrize("name", CONDENSERS)
def test_every_method_makes_a_sound_file(name: str, graph: Data, made: Made, tmp_path: Path) -> None:
    condensed = made[name]
    loaded = plgc.CondensedGraph.load(condensed.save(tmp_path / "c.safetensors"))
    assert loaded.to_bytes() == condensed.to_bytes()
    assert loaded.method == name
    assert loaded.num_nodes == KEPT == loaded.nodes_requested
    assert loaded.num_features == FEATURES
    assert loaded.seed == 0
    assert loaded.source == {"nodes": NODES, "edges": graph["edge_index"].shape[1], "features": FEATURES}
    assert loaded.fingerprint == made["plgc"].fingerprint
    assert (loaded.seen.nodes, loaded.seen.edges) == ("all", "all")
    if METHODS[name].supervised:
        assert loaded.settings["method"] == name
        assert loaded.settings["training_labels"] == len(training_labels(graph).train)
        assert loaded.pseudo_labels is None
        assert loaded.num_classes == CLASSES
        assert loaded.labels is not None
        assert bool((loaded.labels >= 0).any())
    else:
        assert (loaded.labels, loaded.num_classes) == (None, None)


@pytest.mark.parametrize("name", SEEDED)
def test_another_seed_gives_another_result(name: str, graph: Data, labels: TrainingLabels, made: Made) -> None:
    assert not torch.equal(condense(name, graph, labels, seed=1).features, made[name].features)


def test_threads_are_recorded_and_put_back(graph: Data, labels: TrainingLabels) -> None:
    before = torch.get_num_threads()
    assert condense_with("random", graph, nodes=KEPT, labels=labels, threads=2).threads == 2
    assert torch.get_num_threads() == before
    with pytest.raises(SettingError, match="threads is 0"):
        condense_with("random", graph, nodes=KEPT, labels=labels, threads=0)
