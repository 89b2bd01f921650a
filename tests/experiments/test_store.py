"""Condensed graphs are kept by everything they depend on and nothing else; what is damaged is made again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from plgc.experiments import store as store_module
from plgc.experiments.store import Condensation, CondenseCall, condense_once
from plgc.graphs import citation_graph, load_graph
from plgc.graphs.labels import training_labels

Condense = Callable[..., Condensation]


@pytest.fixture(scope="module")
def graph() -> Data:
    return load_graph(citation_graph(nodes=120, classes=3, features=40))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture
def condense(store: Path, graph: Data) -> Condense:
    """Random training nodes, unless told otherwise."""

    def call(store: Path | None = store, **changes: Any) -> Condensation:
        call = CondenseCall("random", graph, training_labels(graph), nodes=6, seed=0)
        return condense_once(store, replace(call, **changes))

    return call


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    yield
    torch.set_num_threads(before)


def files(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.iterdir()}


def test_what_is_there_is_opened_and_has_the_same_bytes(condense: Condense, store: Path) -> None:
    first, kept = condense(), files(store)
    again = condense()
    assert (first.reused, again.reused) == (False, True)
    assert again.condensed.to_bytes() == first.condensed.to_bytes()
    assert (again.sha256, again.seconds) == (first.sha256, first.seconds)
    assert again.peak_memory_bytes == first.peak_memory_bytes
    assert files(store) == kept
    assert sorted(name.split(".")[1] for name in kept) == ["json", "safetensors"]


def test_a_condensed_graph_depends_on(condense: Condense, graph: Data) -> None:
    condense()
    other = graph.clone()
    assert other.x is not None
    other.x = other.x.to_dense() + 1
    changes: list[dict[str, Any]] = [
        {"graph": other},
        {"nodes": 7},
        {"seed": 1},
        {"labels": training_labels(graph, noise=0.5)},
        {"labels": training_labels(graph, validate=False)},
        {"method": "coarsening"},
    ]
    for change in changes:
        assert not condense(**change).reused, change
        assert condense(**change).reused, change
    assert condense().reused


@pytest.mark.usefixtures("two_threads")
def test_threads_count(condense: Condense) -> None:
    condense()
    torch.set_num_threads(torch.get_num_threads() - 1)
    assert not condense().reused


def test_names_and_masks_do_not_count(condense: Condense, graph: Data) -> None:
    condense()
    other = graph.clone()
    other.name = "another"
    other.test_mask = ~other.test_mask
    assert condense(graph=other).reused


def test_without_labels_there_are_none_to_depend_on(condense: Condense, graph: Data) -> None:
    plgc: dict[str, Any] = {"method": "plgc", "preset": "default", "nodes": 5}
    assert not condense(**plgc).reused
    assert condense(**plgc, labels=training_labels(graph, noise=0.9)).reused
    assert condense(**plgc, labels=None).reused
    assert not condense(**plgc | {"preset": "paper"}).reused


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "no file", "no cost", "half a cost", "odd cost"])
def test_what_is_damaged_is_made_again(condense: Condense, store: Path, damage: str) -> None:
    first = condense()
    [artifact], [cost] = store.glob("*.safetensors"), store.glob("*.json")
    content = artifact.read_bytes()
    match damage:
        case "cut":
            artifact.write_bytes(content[:-10])
        case "flipped":  # still a sound file, with another content
            artifact.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "empty":
            artifact.write_bytes(b"")
        case "no file":
            artifact.unlink()
        case "no cost":
            cost.unlink()
        case "half a cost":
            cost.write_bytes(cost.read_bytes()[:20])
        case "odd cost":
            cost.write_text("[1]")
    again = condense()
    assert not again.reused
    assert again.sha256 == first.sha256
    assert artifact.read_bytes() == content
    assert condense().reused


def test_without_a_store_nothing_is_kept(condense: Condense, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = store_module.condense_with
    monkeypatch.setattr(store_module, "condense_with", lambda *a, **k: calls.append(a) or real(*a, **k))
    monkeypatch.chdir(tmp_path)
    made = [condense(store=None) for _ in range(2)]
    assert [found.reused for found in made] == [False, False]
    assert made[0].sha256 == made[1].sha256
    assert len(calls) == 2
    assert list(tmp_path.iterdir()) == []
