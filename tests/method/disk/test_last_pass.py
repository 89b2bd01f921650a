"""The last pass over a graph on disk gives what the one in memory gives, up to rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from plgc.graphs import citation_graph, load_graph, save_stored
from plgc.method import batches
from plgc.method.batches import TrainingGraph
from plgc.method.disk import labels as disk_labels
from plgc.method.disk.graph import GraphOnDisk, synthesise_on_disk
from plgc.method.release import merge_small_clusters
from plgc.method.settings import Branch, PseudoLabelSettings, SynthesisSettings
from plgc.method.stage_one import StageOne, embed, start_stage_one, train_epoch
from plgc.method.stage_two import synthesise
from plgc.runtime import mapped
from plgc.runtime.mapped import is_mapped
from plgc.runtime.scratch import scratch
from plgc.sparse.inputs import prepare
from plgc.sparse.stored_inputs import StoredGraphs

Both = Callable[..., tuple[TrainingGraph, GraphOnDisk]]
NODES, K = 900, 12
PLAIN = Branch(kind="mlp", hidden=20, width=16, edge_drop=0.0, feature_mask=0.5)
# 48 features are narrower than some first layers and wider than others; one last layer grows, one has two before it.
BRANCHES = {
    "both": (Branch(hidden=64, width=24), Branch(hidden=64, width=24), PLAIN),
    "edges": (Branch(hidden=16, width=40), Branch(hidden=64, width=12, layers=3)),
    "single": (Branch(hidden=16, width=16, layers=1), PLAIN),
    "plain": (PLAIN,),
}


@pytest.fixture(params=["plain", "weighted"])
def graph(request: pytest.FixtureRequest) -> Data:
    made = citation_graph(nodes=NODES, classes=5, features=48, seed=3)
    made.x = made.x.to_dense() if made.x.layout != torch.strided else made.x
    made.x = made.x + 0.01 * torch.randn(made.x.shape, generator=torch.Generator().manual_seed(0)).abs()
    if request.param == "weighted":
        row, col = made["edge_index"]
        made.edge_weight = 1 + ((row + col) % 5).float()
    return load_graph(made)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is mapped, blocks are of some rows, and a part of the nodes is the sample."""
    monkeypatch.setattr(mapped, "MAPPED_FROM", 0)
    for module in (batches, disk_labels):
        monkeypatch.setattr(module, "SAMPLE", 300)
    monkeypatch.setattr(disk_labels, "CHUNK", 70)


def trained(inputs, branches: tuple[Branch, ...], **rules) -> StageOne:
    stage = start_stage_one(inputs, K, branches, PseudoLabelSettings(**rules), 0)
    for _ in range(8):
        train_epoch(stage, inputs)
    return stage


@pytest.fixture
def both(graph: Data, tmp_path: Path) -> Iterator[Callable[..., tuple[TrainingGraph, GraphOnDisk]]]:
    """The same graph in memory and on disk."""
    stored = load_graph(save_stored(graph, tmp_path / "stored"))
    assert is_mapped(stored.edge_index)
    with scratch(tmp_path / "scratch") as room:
        scaling = "l1" if stored.edge_weight is None else "none"  # as they are, rows in the file must not be changed
        inputs = StoredGraphs(room, block_bytes=200_000, slice_bytes=100_000).inputs(stored, scaling)
        yield lambda core=None: (TrainingGraph(prepare(graph, scaling), core), GraphOnDisk(inputs, core, 128))


def labels_of(stage: StageOne, graph):
    """The pseudo-labels of all nodes, from the prototypes as they are."""
    before = stage.prototypes.detach().clone()
    found = graph.all_labels(stage)
    with torch.no_grad():
        stage.prototypes.copy_(before)
    return found


@pytest.mark.parametrize("halo", [False, True], ids=["whole", "halo"])
@pytest.mark.parametrize("name", BRANCHES)
@pytest.mark.parametrize("standardized", [True, False], ids=["standardized", "as-it-is"])
def test_labels_and_features_are_those_of_the_graph_in_memory(
    both: Both, name: str, halo: bool, standardized: bool
) -> None:
    core = torch.arange(NODES) % 4 != 1 if halo else None
    memory, disk = both(core)
    rules = {} if standardized else {"decorrelation": 0.0, "swap": 1.0}
    stage = trained(memory.inputs, BRANCHES[name], **rules)
    expected, found = labels_of(stage, memory), labels_of(stage, disk)
    assert torch.allclose(found.vectors, expected.vectors, atol=2e-5)
    assert int((found.counts - expected.counts).abs().sum()) <= 2  # a node between two
    assert torch.allclose(found.mass, expected.mass, rtol=1e-4)
    assert found.explained == pytest.approx(expected.explained, abs=1e-5)
    for settings in (SynthesisSettings(), SynthesisSettings(start="nodes"), SynthesisSettings(steps=3)):
        states = stage.generator.get_state()
        x, curve = synthesise(None, stage, memory.inputs, expected, settings)
        stage.generator.set_state(states)
        ours, descent = synthesise_on_disk(None, stage, disk, found, settings)
        assert torch.allclose(ours, x, atol=2e-5 * float(x.abs().max()))
        assert descent == pytest.approx(curve, rel=1e-3)


@pytest.mark.parametrize("minimum", [1, 70, 200])
def test_small_clusters_are_merged_as_in_memory(both: Both, minimum: int) -> None:
    memory, disk = both()
    stage = trained(
        memory.inputs, BRANCHES["both"], balanced=False, refinements=0, epsilon=1e-3, decorrelation=0.0, swap=1.0
    )
    with torch.no_grad():
        stage.prototypes[3] = -embed(stage, memory.inputs).mean(0)  # nearest to none
    expected, found = labels_of(stage, memory), labels_of(stage, disk)
    assert int(expected.counts.min()) == 0
    expected, kept = merge_small_clusters(expected, embed(stage, memory.inputs), stage.blocks, minimum)
    found, left = found.merged(stage.blocks, minimum)
    assert torch.equal(left, kept)
    assert len(left) < K
    assert torch.equal(found.counts, expected.counts)
    assert torch.allclose(found.vectors, expected.vectors, atol=2e-5)
    x, _ = synthesise(None, stage, memory.inputs, expected, SynthesisSettings())
    assert torch.allclose(found.features, x, atol=2e-5 * float(x.abs().max()))


def test_the_same_bytes_come_twice_and_nothing_is_left_on_disk(both: Both, tmp_path: Path) -> None:
    _, disk = both()
    stage = trained(disk.next_batch(torch.Generator().manual_seed(1)), BRANCHES["both"])
    first, second = labels_of(stage, disk), labels_of(stage, disk)
    assert torch.equal(first.features, second.features)
    assert torch.equal(first.vectors, second.vectors)
    assert [path for path in (tmp_path / "scratch").rglob("*") if path.suffix == ".bin"] == []


def test_blocks_do_not_matter(both: Both) -> None:
    _, disk = both()
    stage = trained(disk.reference, BRANCHES["both"])
    few = labels_of(stage, disk)
    one = labels_of(stage, replace(disk, inputs=replace(disk.inputs, block_bytes=64 << 20, slice_bytes=64 << 20)))
    assert torch.allclose(few.features, one.features, atol=1e-6)
    assert torch.equal(few.counts, one.counts)


def test_progress_names_every_pass(both: Both) -> None:
    _, disk = both()
    said: list[str] = []
    labels_of(trained(disk.reference, BRANCHES["both"]), disk.reporting(said.append))
    assert {message.rsplit(":", 1)[0] for message in said} == {
        "all nodes, multiplying over edges",
        "all nodes, moments of the embedding",
        "all nodes, assigning all nodes",
    }
    assert said[-1].endswith("100%")
