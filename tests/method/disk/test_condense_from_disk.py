"""Condensing a graph whose edges stay in their file: the batches, the whole run, resuming, and what is refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.graphs import citation_graph, load_graph, save_stored
from plgc.graphs.bare import bare_graph
from plgc.graphs.views.inductive import induced_subgraph
from plgc.method import alternate, batches, training
from plgc.method import settings as config
from plgc.method.batches import TrainingGraph, draw_batch
from plgc.method.disk import budget
from plgc.method.disk import graph as disk_graph
from plgc.method.disk import labels as disk_labels
from plgc.method.disk.graph import GraphOnDisk
from plgc.method.disk.inputs import why_in_memory
from plgc.method.settings import Branch, CondenseSettings, PseudoLabelSettings
from plgc.runtime import checkpoint, mapped
from plgc.runtime.errors import SettingError
from plgc.runtime.options import Compute
from plgc.runtime.scratch import Scratch
from plgc.sparse import on_disk, stored_inputs
from plgc.sparse.inputs import prepare
from plgc.sparse.stored_inputs import StoredGraphs
from quick import PLAIN

NODES = 600
SMALL = CondenseSettings(
    plain=PLAIN, encoders=(Branch(hidden=32, width=32),), pseudo_labels=PseudoLabelSettings(round_epochs=5, rounds=2)
)


@pytest.fixture(scope="module")
def graph() -> Data:
    made = citation_graph(nodes=NODES, classes=4, features=80, seed=3)
    made.x = made.x.to_dense() if made.x.layout != torch.strided else made.x
    row, col = made["edge_index"]
    made.edge_weight = 1 + ((row + col) % 3).float()
    return load_graph(made)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is mapped, batches and blocks suit a small graph, and no program takes memory before it."""
    monkeypatch.setattr(mapped, "MAPPED_FROM", 0)
    monkeypatch.setattr(stored_inputs, "BLOCK_BYTES", 100_000)
    monkeypatch.setattr(budget, "BLOCK_BYTES", 100_000)
    monkeypatch.setattr(on_disk, "BLOCK_ENTRIES", 1000)
    for module in (batches, budget):
        for name, value in {"BLOCK": 16, "SMALLEST": 64, "LARGEST": 192, "PROGRAM": 0, "SAMPLE": 256}.items():
            monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(disk_labels, "SAMPLE", 256)


@pytest.fixture
def stored(graph: Data, tmp_path: Path) -> Data:
    return load_graph(save_stored(graph, tmp_path / "stored"))


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[type]:
    """In what form the graphs of all runs were trained on."""
    kinds: list[type] = []
    real = alternate.alternate

    def watched(graph: Any, *rest: Any, **options: Any) -> Any:
        kinds.append(type(graph))
        return real(graph, *rest, **options)

    monkeypatch.setattr("plgc.method.condense.alternate", watched)
    return kinds


def test_a_batch_from_disk_is_that_from_memory(graph: Data, stored: Data) -> None:
    memory, disk = prepare(graph, "l1"), StoredGraphs(Scratch(Path())).inputs(stored, "l1")
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(4))
    for seed in range(5):
        one, other = (draw_batch(i, order, 96, torch.Generator().manual_seed(seed)) for i in (memory, disk))
        assert torch.equal(one.adjacency.sum_matrix.to_dense(), other.adjacency.sum_matrix.to_dense())
        assert torch.equal(one.adjacency.pair, other.adjacency.pair)
        assert torch.allclose(one.x, other.x)
        assert one.loss_rows is not None
        assert torch.equal(one.loss_rows, other.loss_rows)


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("halo", [False, True], ids=["whole", "halo"])
def test_with_the_same_batches_a_file_is_the_same_up_to_rounding(
    graph: Data, stored: Data, preset: str, halo: bool, taken: list[type], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(config.preset(preset), encoders=SMALL.encoders, pseudo_labels=SMALL.pseudo_labels)
    settings = replace(settings, plain=settings.plain and PLAIN, scaling="l1")
    for name in ("batch_size", "batch_on_disk"):
        monkeypatch.setattr(training, name, lambda *_: 128)
    for module, name in ((batches, "local_order"), (disk_graph, "stored_order")):
        monkeypatch.setattr(module, name, lambda *_: torch.randperm(NODES, generator=torch.Generator().manual_seed(4)))
    made = []
    for data in (graph, stored):
        part = copy.copy(data)
        if halo:
            part.core_mask = torch.arange(NODES) % 3 != 0
        made.append(plgc.condense(part, nodes=8, settings=settings, memory="1GiB", dtype="float32", density=1.0))
    assert taken == [TrainingGraph, GraphOnDisk]
    memory, disk = made
    assert torch.equal(memory.counts, disk.counts)
    assert torch.allclose(memory.pseudo_labels, disk.pseudo_labels, atol=1e-4)
    assert torch.allclose(memory.features, disk.features, atol=1e-4 * float(memory.features.abs().max()))
    assert memory.curves["pseudo_label_loss"] == pytest.approx(disk.curves["pseudo_label_loss"], rel=1e-4)
    assert memory.fingerprint == disk.fingerprint


def test_what_is_learned_from_disk_serves_as_well(graph: Data, stored: Data) -> None:
    scores = []
    for data, memory in ((graph, None), (stored, "16MiB")):
        settings = replace(SMALL, pseudo_labels=PseudoLabelSettings(rounds=4))
        condensed = plgc.condense(data, nodes=12, settings=settings, memory=memory)
        model = plgc.finetune(plgc.reconstruct(condensed), graph, shots=3)
        scores.append(model.evaluate(graph)["accuracy"])
    assert scores[1] > scores[0] - 5


def test_clusters_keep_their_smallest_size(stored: Data, taken: list[type]) -> None:
    condensed = plgc.condense(stored, nodes=20, settings=SMALL, memory="16MiB", min_cluster=25)
    assert int(condensed.counts.min()) >= 25
    assert int(condensed.counts.sum()) == NODES
    assert taken == [GraphOnDisk]


def test_a_file_is_updated_from_disk(graph: Data, stored: Data, taken: list[type]) -> None:
    old = plgc.condense(induced_subgraph(graph, torch.arange(NODES) < 500), nodes=16, settings=SMALL)
    new = plgc.update(old, stored, nodes=20, memory="16MiB")
    assert int(new.counts.sum()) == NODES
    assert taken == [TrainingGraph, GraphOnDisk]
    whole = plgc.update(old, graph, nodes=20)
    assert new.chosen["kept"] == pytest.approx(whole.chosen["kept"], abs=0.15)


def test_only_what_can_be_is_condensed_from_disk(graph: Data, stored: Data) -> None:
    limited, bare = Compute(memory="4GiB"), bare_graph(stored)
    assert why_in_memory(bare, 8, SMALL, limited, False) is None
    assert why_in_memory(bare, 8, SMALL, Compute(), False) == ""
    assert why_in_memory(bare_graph(graph), 8, SMALL, limited, False) == ""
    assert why_in_memory(bare, 8, replace(SMALL, private=True), limited, False) == "private (--private)"
    assert why_in_memory(bare, 8, replace(SMALL, max_share=0.5), limited, True) == (
        "max_share (--max-share), only_new (--only-new)"
    )
    gat = replace(SMALL, encoders=(Branch(kind="gat", hidden=32, width=32),))
    assert why_in_memory(bare, 8, gat, limited, False) == "an encoder of kind gat"
    sparse = replace(bare, x=bare.x.to_sparse_csr())
    assert why_in_memory(sparse, 8, SMALL, limited, False) == "sparse features"


def test_a_graph_in_memory_that_leaves_no_room_there_is_condensed_as_one_on_disk(
    graph: Data, taken: list[type], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plgc.condense(graph, nodes=8, settings=SMALL, memory="16MiB")
    monkeypatch.setattr(batches, "PROGRAM", 1 << 30)
    other = plgc.condense(graph, nodes=8, settings=SMALL, memory="16MiB")
    assert taken == [TrainingGraph, GraphOnDisk]
    assert int(made.counts.sum()) == int(other.counts.sum()) == NODES


def test_what_needs_edges_in_memory_still_gets_them_or_says_why_it_cannot(stored: Data, taken: list[type]) -> None:
    condensed = plgc.condense(stored, nodes=8, settings=SMALL, memory="1GiB", max_share=0.5)
    assert int(condensed.counts.sum()) == NODES
    assert taken == [TrainingGraph]
    with pytest.raises(SettingError, match=r"needs at least .* Without max_share \(--max-share\) less would do"):
        plgc.condense(stored, nodes=8, settings=SMALL, memory="64KiB", max_share=0.5)


def test_a_limit_that_is_too_small_is_refused_before_the_work(stored: Data, taken: list[type]) -> None:
    with pytest.raises(SettingError, match=r"memory is 0\.00 GiB: this graph needs at least 0\.\d+"):
        plgc.condense(stored, nodes=8, settings=SMALL, memory="64KiB")
    assert taken == []


def test_nodes_are_forgotten_only_where_what_remains_fits_into_memory(stored: Data, taken: list[type]) -> None:
    old = plgc.condense(stored, nodes=12, settings=SMALL, memory="16MiB")
    with pytest.raises(SettingError, match=r"memory is 0\.00 GiB: what remains of this graph is made in memory"):
        plgc.forget(old, stored, [3, 4], memory="64KiB")
    assert plgc.forget(old, stored, [3, 4], memory="1GiB").source["nodes"] == NODES - 2
    assert taken == [GraphOnDisk, TrainingGraph]


def test_more_memory_never_means_smaller_batches(stored: Data) -> None:
    inputs = StoredGraphs(Scratch(Path())).inputs(stored, "l1")
    given = inputs.x.x, inputs.adjacency, 8, SMALL
    with pytest.raises(SettingError) as refused:
        budget.batch_on_disk(*given, 1)
    least = int(float(str(refused.value).split("at least ")[1].split()[0]) * 2**30)
    sizes = [budget.batch_on_disk(*given, least + (more << 16)) for more in range(0, 100, 4)]
    assert sizes == sorted(sizes)
    assert {64 <= size <= 192 and size % 16 == 0 for size in sizes} == {True}
    assert sizes[-1] == 192


@pytest.mark.parametrize("where", ["stage one", "last pass"])
def test_a_run_that_was_stopped_ends_with_the_same_bytes(
    stored: Data, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "SHARE", 0)
    options: dict[str, Any] = {"nodes": 12, "settings": SMALL, "memory": "16MiB"}
    whole = plgc.condense(stored, **options)
    done: list[int] = []
    with monkeypatch.context() as patch:
        name, module, most = ("train_epoch", alternate, 7) if where == "stage one" else ("_assign", disk_labels, 0)
        patch.setattr(module, name, stopping(getattr(module, name), most, done))
        with pytest.raises(KeyboardInterrupt):
            plgc.condense(stored, checkpoint=tmp_path / "checkpoints", **options)
    assert [path.suffix for path in (tmp_path / "checkpoints").iterdir()] == [".checkpoint"]  # and no scratch files
    trained: list[int] = []
    monkeypatch.setattr(alternate, "train_epoch", stopping(alternate.train_epoch, 100, trained))
    resumed = plgc.condense(stored, checkpoint=tmp_path / "checkpoints", **options)
    assert len(trained) == (3 if where == "stage one" else 0)
    assert resumed.to_bytes() == whole.to_bytes()


def stopping(real: Callable[..., Any], most: int, done: list[int]) -> Callable[..., Any]:
    """A function that is interrupted after so many calls."""

    def call(*arguments: Any) -> Any:
        if len(done) == most:
            raise KeyboardInterrupt
        done.append(len(done))
        return real(*arguments)

    return call
