from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.graphs import citation_graph
from plgc.method import batches, losses, stage_one
from plgc.method import settings as config
from plgc.method.batches import TrainingGraph, batch_size, draw_batch, take_nodes
from plgc.method.settings import Branch, CondenseSettings, PseudoLabelSettings
from plgc.method.stage_one import embed, start_stage_one, train_epoch, unit_blocks
from plgc.runtime.errors import SettingError
from plgc.runtime.options import parse_memory
from plgc.sparse.features import SparseFeatures
from plgc.sparse.inputs import Inputs, prepare
from quick import PLAIN
from stages import pseudo_labels

NODES, BLOCK = 600, 16
SMALL = CondenseSettings(
    plain=PLAIN,
    encoders=(Branch(hidden=32, width=32),),
    pseudo_labels=PseudoLabelSettings(round_epochs=5, rounds=3, swap=1.0),
)


@pytest.fixture(scope="module")
def graph() -> Data:
    return citation_graph(nodes=NODES, classes=4, features=80, seed=3)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that suit a small graph, and no program that takes memory before it."""
    for name, value in {
        "BLOCK": BLOCK,
        "SMALLEST": 64,
        "LARGEST": 192,
        "PROGRAM": 0,
        "SAMPLE": 256,
        "ROWS": 100,
    }.items():
        monkeypatch.setattr(batches, name, value)


def dense(inputs: Inputs) -> torch.Tensor:
    return inputs.x.to_dense() if isinstance(inputs.x, SparseFeatures) else inputs.x


def weighted(graph: Data) -> Data:
    """The graph with a weight on every edge, the same in both directions."""
    row, col = graph["edge_index"]
    other = graph.clone()
    other.edge_weight = 1 + ((row + col) % 5).float()
    return other


@pytest.mark.parametrize("make", [lambda g: g, weighted], ids=["plain", "weighted"])
def test_taken_nodes_are_the_induced_subgraph(graph: Data, make) -> None:
    inputs = prepare(make(graph), "l1")
    nodes = torch.arange(0, NODES, 3)
    taken = take_nodes(inputs, nodes)
    whole = inputs.adjacency.sum_matrix.to_dense()
    assert torch.equal(taken.adjacency.sum_matrix.to_dense(), whole[nodes][:, nodes])
    assert torch.equal(dense(taken), dense(inputs)[nodes])


def test_neighbours_come_by_their_share_of_edges(graph: Data) -> None:
    inputs = prepare(graph, "l1")
    nodes = torch.arange(40)
    found = batches.neighbours(inputs, nodes, 30)
    edges = inputs.adjacency.sum_matrix.to_dense()
    to_them, degree = edges[:, nodes].sum(1), edges.sum(1)
    closeness = to_them / degree.sqrt()
    closeness[nodes] = 0
    assert len(found) == 30
    assert not torch.isin(found, nodes).any()
    assert torch.equal(closeness[found], closeness.sort(descending=True).values[:30])
    assert len(batches.neighbours(inputs, nodes, NODES)) == int((closeness > 0).sum())


def test_every_node_is_drawn_and_no_batch_is_too_large(graph: Data, small: None) -> None:
    inputs, generator, seen = prepare(graph, "l1"), torch.Generator().manual_seed(0), torch.zeros(NODES)
    where = {row.numpy().tobytes(): number for number, row in enumerate(dense(inputs))}
    for _ in range(60):
        batch = draw_batch(inputs, torch.arange(NODES), 100, generator)
        assert 48 <= batch.num_nodes <= 100  # three whole blocks, and nodes around them
        seen[[where[row.numpy().tobytes()] for row in dense(batch)]] += 1
    assert int((seen > 0).sum()) >= len(where) - 1  # nodes alike in all features count as one
    assert float(seen.std()) < float(seen.mean())


def test_the_losses_see_the_drawn_nodes_and_not_those_around_them(
    graph: Data, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = prepare(graph, "l1")
    batch = draw_batch(inputs, torch.arange(NODES), 100, torch.Generator().manual_seed(1))
    where = {row.numpy().tobytes(): number for number, row in enumerate(dense(inputs))}
    assert batch.loss_rows is not None
    counted = torch.tensor([where[row.numpy().tobytes()] for row in dense(batch)[batch.loss_rows]])
    assert batch.num_nodes > len(counted) == 3 * BLOCK
    assert len((counted // BLOCK).unique()) == 3  # three whole blocks
    seen = []
    real = stage_one.swapped_prediction_loss

    def watched(first: list[torch.Tensor], *rest: Any, **options: Any) -> Any:
        seen.extend(len(part) for part in first)
        return real(first, *rest, **options)

    monkeypatch.setattr(stage_one, "swapped_prediction_loss", watched)
    train_epoch(start_stage_one(batch, 8, SMALL.encoders, SMALL.pseudo_labels, 0), batch)
    assert seen == [len(counted)]


@pytest.mark.parametrize(
    ("text", "bytes_"), [("4GiB", 4 << 30), ("1.5 MiB", 3 << 19), ("512KiB", 512 << 10), ("7B", 7), (4096, 4096)]
)
def test_memory_is_a_number_and_a_unit(text: str | int, bytes_: int) -> None:
    assert parse_memory(text) == bytes_


@pytest.mark.parametrize("text", ["4", "4GB", "GiB", "-1GiB", "0GiB", "nanGiB", "1e3GiB", "", 0, -5])
def test_other_memory_is_refused(text: str | int) -> None:
    with pytest.raises(SettingError, match="as in 4GiB"):
        parse_memory(text)


def test_batches_are_used_only_where_the_graph_does_not_fit(graph: Data, small: None) -> None:
    inputs = prepare(graph, "l1")
    sizes = [batch_size(inputs, 8, SMALL, memory << 10) for memory in range(800, 4000, 100)]
    assert sizes[-1] is None
    batched = [size for size in sizes if size is not None]
    assert batched == sorted(batched)
    assert all(size % BLOCK == 0 and 64 <= size <= 192 for size in batched)
    with pytest.raises(SettingError, match=r"needs at least .* GiB, even in batches of 64 nodes"):
        batch_size(inputs, 8, SMALL, 100 << 10)


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("nodes", [169_343, 30_000])
def test_arxiv_in_four_gibibytes_goes_in_batches_and_in_more_where_that_saves_time(
    graph: Data, device: str, nodes: int
) -> None:
    # 2.3 million entries, 128 features; only the sizes and the kind of device are asked for
    x = torch.empty(1, device=device).expand(nodes, 128)
    adjacency = replace(prepare(graph, "l1").adjacency, crow=torch.empty(1, device=device).expand(nodes + 1))
    adjacency = replace(adjacency, col=torch.empty(1, dtype=torch.int32, device=device).expand(2_500_000))
    small, ample = (batch_size(Inputs(x, adjacency), 423, config.preset("default"), g << 30) for g in (4, 64))
    assert small == (batches.LARGEST if nodes > 100_000 else None)
    assert ample == (batches.LARGEST if nodes > 100_000 and device == "cpu" else None)


def test_all_nodes_are_assigned_as_the_whole_would_assign_them(
    graph: Data, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "SAMPLE", NODES)  # with all nodes in the sample nothing is approximate
    inputs = prepare(graph, "l1")
    stage = start_stage_one(inputs, 8, SMALL.encoders, SMALL.pseudo_labels, 0)
    for _ in range(10):
        train_epoch(stage, inputs)
    start = stage.prototypes.detach().clone()
    whole = pseudo_labels(stage, embed(stage, inputs))
    with torch.no_grad():
        stage.prototypes.copy_(start)
    everyone = TrainingGraph(inputs).all_labels(stage)  # one alternation of assignment and means more
    assert float((everyone.vectors * whole.vectors).sum(1).min()) > 0.99
    assert int((everyone.counts - whole.counts).abs().sum()) <= NODES * 0.05
    assert everyone.explained == pytest.approx(whole.explained, abs=0.01)
    assert torch.allclose(everyone.weights.sum(0), torch.ones(8), atol=1e-5)
    assert float(everyone.mass.sum()) == pytest.approx(NODES, rel=1e-5)
    assert float((everyone.mass / (NODES / 8) - 1).abs().max()) < 0.1  # balanced, as far as Sinkhorn goes


def test_without_balance_all_nodes_go_to_their_nearest_prototypes(graph: Data, small: None) -> None:
    rules = PseudoLabelSettings(balanced=False, epsilon=1e-3, refinements=0, decorrelation=0.0, swap=1.0)
    inputs = prepare(graph, "l1")
    stage = start_stage_one(inputs, 8, SMALL.encoders, rules, 0)
    embedding = embed(stage, inputs)
    with torch.no_grad():
        stage.prototypes[3] = -embedding.mean(0)  # nearest to none
    vectors = unit_blocks(stage.prototypes.detach(), stage.blocks)
    labels = TrainingGraph(inputs).all_labels(stage)
    expected = torch.bincount((embedding @ vectors.t()).argmax(1), minlength=8)
    assert torch.equal(labels.counts, expected)
    assert int(labels.counts[3]) == 0
    assert torch.equal(labels.vectors[3], vectors[3])
    assert bool(labels.weights.isfinite().all())


def test_a_halo_is_not_assigned(graph: Data, small: None) -> None:
    inputs = prepare(graph, "l1")
    stage = start_stage_one(inputs, 6, SMALL.encoders, SMALL.pseudo_labels, 0)
    core = torch.arange(NODES) % 4 != 0
    labels = TrainingGraph(inputs, core).all_labels(stage)
    assert int(labels.counts.sum()) == int(core.sum())
    assert not labels.weights[~core].any()
    assert bool(labels.weights[core].sum(1).min() > 0)


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_in_batches_the_same_bytes_come_every_time(graph: Data, small: None, tmp_path: Path, preset: str) -> None:
    settings = replace(config.preset(preset), encoders=SMALL.encoders, pseudo_labels=SMALL.pseudo_labels)
    settings = settings if settings.plain is None else replace(settings, plain=PLAIN)
    memory = "1MiB"
    said: list[str] = []
    made = [
        plgc.condense(
            graph, nodes=8, settings=settings, memory=memory, progress=lambda message, *_: said.append(message)
        )
        for _ in range(2)
    ]
    first, second = (one.save(tmp_path / f"{place}.safetensors") for place, one in enumerate(made))
    assert first.read_bytes() == second.read_bytes()
    assert made[0].chosen["batch_nodes"] in range(64, 193)
    assert any(f"in batches of {made[0].chosen['batch_nodes']} of {NODES} nodes" in message for message in said)
    assert int(made[0].counts.sum()) == NODES
    whole = plgc.condense(graph, nodes=8, settings=settings)
    assert "batch_nodes" not in whole.chosen
    roomy = plgc.condense(graph, nodes=8, settings=settings, memory="64GiB")
    assert torch.equal(roomy.features, whole.features)


def test_what_is_learned_in_batches_serves_as_well(graph: Data, small: None) -> None:
    scores = []
    for memory in (None, "1MiB"):
        settings = replace(SMALL, pseudo_labels=PseudoLabelSettings(rounds=4))
        condensed = plgc.condense(graph, nodes=12, settings=settings, memory=memory)
        model = plgc.finetune(plgc.reconstruct(condensed), graph, shots=3)
        scores.append(model.evaluate(graph)["accuracy"])
    assert scores[1] > scores[0] - 5


def test_the_reference_batch_is_always_the_same(graph: Data, small: None) -> None:
    inputs = prepare(graph, "l1")
    first, second = TrainingGraph(inputs, None, 96).reference, TrainingGraph(inputs, None, 96).reference
    assert 48 <= first.num_nodes <= 96  # three blocks, and their neighbours
    assert torch.equal(dense(first), dense(second))
    assert TrainingGraph(inputs).reference is inputs


# Graphs with more nodes than are assigned at a time


@pytest.fixture
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> int:
    """As on a large graph: at most 250 nodes of the 600 are assigned while training."""
    for module in (stage_one, batches):
        monkeypatch.setattr(module, "SAMPLE", 250)
    return 250


def test_a_large_graph_is_assigned_in_samples_and_in_the_end_as_a_whole(
    graph: Data, few_at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    real = losses.prototype_scores

    def watched(*arguments: Any) -> torch.Tensor:
        scores = real(*arguments)
        seen.append(len(scores))
        return scores

    monkeypatch.setattr(losses, "prototype_scores", watched)
    condensed = plgc.condense(graph, nodes=20, seed=1, settings=SMALL)
    assert set(seen) == {200}  # every third node
    assert int(condensed.counts.sum()) == 600
    assert "batch_nodes" not in condensed.chosen
    assert torch.equal(condensed.features, plgc.condense(graph, nodes=20, seed=1, settings=SMALL).features)


def test_samples_leave_the_pseudo_labels_about_as_good(graph: Data, few_at_a_time: int) -> None:
    sampled = plgc.condense(graph, nodes=20, seed=1, settings=SMALL)
    with pytest.MonkeyPatch.context() as patch:
        for module in (stage_one, batches):
            patch.setattr(module, "SAMPLE", 32_768)
        whole = plgc.condense(graph, nodes=20, seed=1, settings=SMALL)
    scores = [
        plgc.finetune(plgc.reconstruct(file, seed=0), graph, seed=0).evaluate(graph)["accuracy"]
        for file in (sampled, whole)
    ]
    assert scores[0] > scores[1] - 4


def test_a_halo_is_not_sampled(graph: Data, few_at_a_time: int) -> None:
    part = graph.clone()
    part.core_mask = torch.arange(600) < 450
    condensed = plgc.condense(part, nodes=20, seed=1, settings=SMALL)
    assert int(condensed.counts.sum()) == 450
    assert condensed.source["halo"] == 150
