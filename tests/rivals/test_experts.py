from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs import TrainingLabels
from plgc.rivals.trajectory import experts as experts_module
from plgc.rivals.trajectory.experts import (
    Cohort,
    Field,
    Trajectories,
    easy_first,
    initial_weights,
    nodes_shown,
    receptive_field,
    train_experts,
)
from plgc.rivals.trajectory.settings import ExpertSettings
from plgc.runtime.checkpoint import checkpoint_in
from plgc.runtime.errors import LabelError, SettingError
from plgc.sparse.adjacency import build_adjacency
from plgc.sparse.inputs import Inputs, prepare
from quick_rivals import CLASSES

HIDDEN = 8
SMALL = ExpertSettings(experts=3, epochs=12, hidden=HIDDEN)
ADAM = replace(SMALL, optimizer="adam", learning_rate=1e-2, weight_decay=5e-4)


@pytest.fixture(scope="module")
def inputs(graph: Data) -> Inputs:
    return prepare(graph, "l1")


@pytest.fixture(scope="module")
def field(inputs: Inputs, labels: TrainingLabels) -> Field:
    return receptive_field(inputs, labels.train)


def plain_gcn(inputs: Inputs, trained: Trajectories, expert: int, epoch: int) -> Tensor:
    """The whole graph through an expert, written out."""
    dense, adjacency = inputs.x.to_dense(), inputs.adjacency.matrix.to_dense()
    first, second, bias = trained.at(expert, epoch)
    hidden = torch.relu(adjacency @ dense @ first[:-1] + first[-1])
    return adjacency @ hidden @ second + bias


@pytest.mark.parametrize("settings", [SMALL, ADAM])
def test_experts_side_by_side_are_experts_alone(
    settings: ExpertSettings, inputs: Inputs, field: Field, labels: TrainingLabels
) -> None:
    y = labels.y[labels.train]
    together = train_experts(field, y, CLASSES, settings, keep=[0, 5, 12], seed=3)
    dense, adjacency = inputs.x.to_dense(), inputs.adjacency.matrix.to_dense()
    for expert in range(settings.experts):
        first, second, bias = (part.clone().requires_grad_() for part in together.at(expert, 0))
        kind = torch.optim.SGD if settings.optimizer == "sgd" else torch.optim.Adam
        optimizer = kind([first, second, bias], lr=settings.learning_rate, weight_decay=settings.weight_decay)
        for epoch in range(1, 13):
            hidden = torch.relu(adjacency @ (dense @ first[:-1]) + first[-1])
            loss = F.cross_entropy((adjacency @ (hidden @ second) + bias)[labels.train], y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if epoch in (5, 12):
                for mine, theirs in zip(together.at(expert, epoch), (first, second, bias), strict=True):
                    torch.testing.assert_close(mine, theirs.detach(), atol=2e-5, rtol=1e-4)


def test_fewer_experts_are_the_first_of_more(
    field: Field, labels: TrainingLabels, monkeypatch: pytest.MonkeyPatch
) -> None:
    y = labels.y[labels.train]
    many = train_experts(field, y, CLASSES, SMALL, keep=[0, 12], seed=3)
    few = train_experts(field, y, CLASSES, replace(SMALL, experts=2), keep=[0, 12], seed=3)
    torch.testing.assert_close(few.values, many.values[:2])
    monkeypatch.setattr(experts_module, "AT_ONCE", 2)
    torch.testing.assert_close(train_experts(field, y, CLASSES, SMALL, keep=[0, 12], seed=3).values, many.values)
    assert not torch.allclose(many.values[0, 0], many.values[1, 0])
    other = train_experts(field, y, CLASSES, SMALL, keep=[0, 12], seed=4)
    assert not torch.allclose(other.values, many.values)


def test_every_snapshot_is_a_copy_of_its_own(field: Field, labels: TrainingLabels) -> None:
    y = labels.y[labels.train]
    trained = train_experts(field, y, CLASSES, SMALL, keep=range(13), seed=0)
    assert trained.values.shape[:2] == (3, 13)
    moved = (trained.values[:, 1:] - trained.values[:, :-1]).norm(dim=2)
    assert float(moved.min()) > 0
    for keep in ([0], [0, 7], [7]):
        short = train_experts(field, y, CLASSES, SMALL, keep=keep, seed=0)
        assert torch.equal(short.values, trained.values[:, keep])


def test_an_expert_learns(graph: Data, inputs: Inputs, field: Field, labels: TrainingLabels) -> None:
    settings = replace(ADAM, epochs=150)
    trained = train_experts(field, labels.y[labels.train], CLASSES, settings, keep=[0, 150], seed=0)

    def hit(epoch: int) -> float:
        return float((plain_gcn(inputs, trained, 1, epoch).argmax(1) == graph["y"])[labels.train].float().mean())

    assert hit(150) > max(0.8, hit(0))


def test_a_field_is_all_that_its_nodes_see(inputs: Inputs) -> None:
    nodes = torch.tensor([40, 3, 77])
    cut = receptive_field(inputs, nodes)
    assert cut.seen.shape[0] < inputs.num_nodes / 2
    weights = initial_weights(40, HIDDEN, CLASSES, torch.Generator().manual_seed(0))
    cohort = Cohort([weights])
    dense, adjacency = inputs.x.to_dense(), inputs.adjacency.matrix.to_dense()
    whole = adjacency @ torch.relu(adjacency @ dense @ weights.first[:-1] + weights.first[-1]) @ weights.second
    torch.testing.assert_close(cohort.logits(cut)[0], whole[nodes] + weights.bias)
    alone = torch.relu(dense[:4] @ weights.first[:-1] + weights.first[-1]) @ weights.second + weights.bias
    torch.testing.assert_close(cohort.logits(Field(dense[:4], None))[0], alone)


def test_the_start_is_uniform_by_the_width_of_the_layer() -> None:
    weights = initial_weights(100, 400, 4, torch.Generator().manual_seed(0))
    assert weights.first.shape == (101, 400)
    for part, inputs in ((weights.first, 100), (weights.second, 400)):
        bound = 1 / math.sqrt(inputs)
        assert float(part.abs().max()) <= bound
        assert float(part.std()) == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_half_the_memory_for_a_small_error(field: Field, labels: TrainingLabels) -> None:
    y = labels.y[labels.train]
    exact = train_experts(field, y, CLASSES, SMALL, keep=[0, 12], seed=0)
    half = train_experts(field, y, CLASSES, replace(SMALL, storage="bfloat16"), keep=[0, 12], seed=0)
    assert half.values.element_size() * 2 == exact.values.element_size()
    assert half.at(0, 12).first.dtype == torch.float32
    assert torch.equal(half.values, exact.values.to(torch.bfloat16))  # rounded when kept, never while training


# Curriculum


def test_the_curriculum_grows_to_all_nodes() -> None:
    for pace, middle in (("linear", 0.875), ("root", math.sqrt((0.75**2 + 1) / 2)), ("geom", math.sqrt(0.75))):
        settings = replace(SMALL, pace=pace, easy_share=0.75, pace_epochs=100)
        shown = [nodes_shown(settings, epoch, 1000) for epoch in range(150)]
        assert shown[0] == 750
        assert shown[50] == int(1000 * middle)
        assert shown == sorted(shown)
        assert shown[100:] == [1000] * 50
    assert nodes_shown(SMALL, 0, 10) == 10


def test_easy_nodes_have_neighbours_of_one_class() -> None:
    # node 0: neighbours of three classes; node 2: one stranger among four; node 5: none
    edges = torch.tensor([[0, 1], [0, 3], [2, 3], [2, 4], [2, 1], [5, 4]]).t()
    adjacency = build_adjacency(torch.cat([edges, edges.flip(0)], 1), 6)
    label = torch.tensor([0, 1, 2, 2, 2, 2])
    assert easy_first(adjacency, torch.tensor([0, 2, 5]), label, 3).tolist() == [2, 1, 0]
    with pytest.raises(LabelError, match="without a class"):
        easy_first(adjacency, torch.tensor([0]), torch.tensor([0, 1, 2, -1, 2, 2]), 3)


def test_early_epochs_learn_from_easy_nodes_alone(field: Field, labels: TrainingLabels) -> None:
    settings = replace(SMALL, pace="linear", easy_share=0.5, pace_epochs=1000)
    y = labels.y[labels.train]
    order = torch.randperm(y.numel(), generator=torch.Generator().manual_seed(1))
    hard = order[y.numel() // 2 :]
    changed = y.clone()
    changed[hard[-10:]] = (y[hard[-10:]] + 1) % CLASSES
    kept = [
        train_experts(field, target, CLASSES, settings, keep=[4], seed=0, order=order).values for target in (y, changed)
    ]
    assert torch.equal(*kept)
    everything = train_experts(field, changed, CLASSES, SMALL, keep=[4], seed=0).values
    assert not torch.equal(everything, train_experts(field, y, CLASSES, SMALL, keep=[4], seed=0).values)


# Stopping and going on


@pytest.mark.parametrize("settings", [SMALL, ADAM])
def test_a_stopped_run_goes_on_as_if_nothing_had_happened(
    settings: ExpertSettings, field: Field, labels: TrainingLabels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("AT_ONCE", 2), ("SAVE_PAUSE", -1), ("REPORT_EVERY", 1)):
        monkeypatch.setattr(experts_module, name, value)
    y, steps = labels.y[labels.train], []

    def run(stop: int | None, folder: Path | None) -> Trajectories:
        def progress(message: str, done: int, total: int) -> None:
            assert total == 24
            steps.append(done)
            if done == stop:
                raise KeyboardInterrupt

        return train_experts(
            field,
            y,
            CLASSES,
            settings,
            keep=[0, 5, 12],
            seed=3,
            checkpoint=lambda group: checkpoint_in(folder, group=group),
            progress=progress,
        )

    whole = run(None, None)
    for stop in (6, 18):  # in the first group and in the second
        with pytest.raises(KeyboardInterrupt):
            run(stop, tmp_path)
    steps.clear()
    again = run(None, tmp_path)
    assert steps == list(range(18, 24))
    assert again.values.numpy().tobytes() == whole.values.numpy().tobytes()


def test_refusals(field: Field, labels: TrainingLabels) -> None:
    y = labels.y[labels.train]
    with pytest.raises(SettingError, match="epoch 13 is asked for, but experts train for 12"):
        train_experts(field, y, CLASSES, SMALL, keep=[0, 13], seed=0)
    with pytest.raises(SettingError, match="needs the order"):
        train_experts(field, y, CLASSES, replace(SMALL, pace="root"), keep=[1], seed=0)
    for wrong in ({"experts": 0}, {"optimizer": "lbfgs"}, {"learning_rate": 0.0}, {"easy_share": 0.0}, {"pace": "x"}):
        with pytest.raises(SettingError, match=str(next(iter(wrong.values())))):
            ExpertSettings(**wrong)  # pyright: ignore
