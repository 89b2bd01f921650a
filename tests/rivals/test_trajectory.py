from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

import plgc
from plgc.downstream.tasks.classifier import ON_CONDENSED, ClassifierSettings, train_on_condensed
from plgc.evaluation import scoring
from plgc.evaluation.scoring import learn
from plgc.graphs import TrainingLabels
from plgc.graphs.views.protocol import Protocol, draw_case
from plgc.rivals.trajectory import condense as trajectory
from plgc.rivals.trajectory import experts as experts_module
from plgc.rivals.trajectory import student
from plgc.rivals.trajectory.condense import draw_start
from plgc.rivals.trajectory.evaluator import published_evaluator
from plgc.rivals.trajectory.experts import Weights, initial_weights, receptive_field
from plgc.rivals.trajectory.gntk import Regression, regression
from plgc.rivals.trajectory.settings import PUBLISHED, TrajectorySettings, published_settings
from plgc.rivals.trajectory.student import matching_loss, student_error
from plgc.runtime.errors import LabelError, SettingError
from plgc.sparse.inputs import Inputs, prepare, scale_rows
from quick_rivals import CLASSES, EXPERT, GEOM, KEPT, SFGC, condense

BOTH = pytest.mark.parametrize(("method", "settings"), [("sfgc", SFGC), ("geom", GEOM)])


def problem(nodes: int = 5, features: int = 7, hidden: int = 6) -> tuple[Tensor, Tensor, Tensor, Weights, Weights]:
    """X', soft labels, η and two sets of weights, in double precision."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(nodes, features, generator=generator, dtype=torch.float64)
    target = torch.softmax(torch.randn(nodes, CLASSES, generator=generator, dtype=torch.float64), 1)
    start, goal = (initial_weights(features, hidden, CLASSES, generator) for _ in range(2))
    double = [Weights(*(part.double() for part in weights)) for weights in (start, goal)]
    return x, target, torch.tensor(0.7, dtype=torch.float64), *double


def walk(x: Tensor, target: Tensor, rate: Tensor, start: Weights, steps: int) -> list[Weights]:
    """Gradient descent on the weights themselves, kept differentiable: the student as the papers write it."""
    path = [Weights(*(part.clone().requires_grad_() for part in start))]
    for _ in range(steps):
        first, second, bias = now = path[-1]
        output = torch.relu(x @ first[:-1] + first[-1]) @ second + bias
        grads = torch.autograd.grad(F.cross_entropy(output, target), now, create_graph=True)
        path.append(Weights(*(part - rate * grad for part, grad in zip(now, grads, strict=True))))
    return path


def distance(left: Weights, right: Weights) -> Tensor:
    return torch.stack([(a - b).square().sum() for a, b in zip(left, right, strict=True)]).sum()


# The student


@pytest.mark.parametrize("squared", [True, False])
def test_the_student_in_the_span_of_its_nodes_is_the_student(squared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(student, "BLOCK", 4)  # several blocks, the first of them short
    x, target, rate, start, goal = problem()
    logits = target.log()
    leaves = [part.requires_grad_() for part in (x, logits, rate)]
    loss = matching_loss(x, torch.softmax(logits, 1), rate, start, goal, 11, squared=squared)
    ratio = distance(walk(x, torch.softmax(logits, 1), rate, start, 11)[-1], goal) / distance(start, goal)
    expected = ratio if squared else ratio.sqrt()
    torch.testing.assert_close(loss, expected)
    for mine, theirs in zip(torch.autograd.grad(loss, leaves), torch.autograd.grad(expected, leaves), strict=True):
        assert float(mine.abs().max()) > 0
        torch.testing.assert_close(mine, theirs)


def test_the_gradient_through_all_steps_is_the_finite_difference() -> None:
    x, target, rate, start, goal = problem()

    def loss(x: Tensor, target: Tensor, rate: Tensor) -> Tensor:
        return matching_loss(x, target, rate, start, goal, 7, squared=True)

    assert torch.autograd.gradcheck(loss, [part.requires_grad_() for part in (x, target, rate)], eps=1e-6, atol=1e-7)


@pytest.mark.parametrize("squared", [True, False])
def test_a_segment_that_the_student_walks_itself_has_no_loss(squared: bool) -> None:
    x, target, rate, start, _ = problem()
    path = [Weights(*(part.detach() for part in weights)) for weights in walk(x, target, rate, start, 9)]
    assert float(matching_loss(x, target, rate, path[0], path[9], 9, squared=squared)) < 1e-8
    assert float(matching_loss(x, target, rate, path[4], path[9], 5, squared=squared)) < 1e-8
    assert float(matching_loss(x, target, rate, path[0], path[9], 8, squared=squared)) > 1e-4
    far = Weights(*(part + 1e-9 for part in path[0]))
    assert float(matching_loss(x, target, rate * 0, path[0], path[9], 3, squared=squared)) == pytest.approx(1.0)
    assert float(matching_loss(x, target, rate * 0, far, path[9], 3, squared=squared)) == pytest.approx(1.0)


# Where segments start


def test_the_window_widens_to_all_starts() -> None:
    settings = replace(GEOM, window=5, starts=30)
    generator = torch.Generator().manual_seed(0)
    drawn = [{draw_start(settings, iteration, generator) for _ in range(300)} for iteration in (0, 5, 6, 15, 16, 500)]
    assert drawn == [{0}, {0}, {0, 10}, {0, 10}, {0, 10, 20}, {0, 10, 20}]
    assert {draw_start(SFGC, 0, generator) for _ in range(100)} == {0, 10, 20}
    assert SFGC.kept == [0, 10, 20, 30, 40]
    assert GEOM.kept == [0, 10, 20, 30, 40, 50]  # and the end, which the knowledge term looks at


# The whole of it


@pytest.mark.parametrize("method", ["sfgc", "geom"])
def test_what_comes_out(method: str, graph: Data, labels: TrainingLabels, made: dict[str, plgc.CondensedGraph]) -> None:
    found = made[method]
    assert found.edge_index is None
    assert found.settings["expert"]["experts"] == 3
    assert len(found.curves["matching"]) == 8
    assert 1 <= found.chosen["iteration"] <= 8
    assert found.labels is not None
    share = torch.bincount(labels.y[labels.train]) / labels.train.numel()
    if method == "geom":
        assert found.labels.shape == (KEPT, CLASSES)
        assert found.labels.dtype == torch.float32
        torch.testing.assert_close(found.labels.sum(1), torch.ones(KEPT))
        assert found.chosen["iteration"] in (3, 6)
    else:
        torch.testing.assert_close(torch.bincount(found.labels) / KEPT, share, atol=0.1, rtol=0)
    real = scale_rows(graph["x"], "l1").to_dense()
    assert float(torch.cdist(found.features, real).min(1).values.min()) > 1e-3  # no longer nodes of the graph
    train_on_condensed(found, settings=ClassifierSettings(epochs=2))


def test_matching_lowers_the_loss_and_the_student_learns_from_it(graph: Data, labels: TrainingLabels) -> None:
    settings = replace(SFGC, iterations=60, starts=1, rate_rate=1e-2)
    made = condense("sfgc", graph, labels, settings=settings)
    curve = made.curves["matching"]
    assert sum(curve[-10:]) < 0.9 * sum(curve[:10])
    assert float(made.chosen["student_rate"]) != 1.0  # η is learned too
    kept = condense("sfgc", graph, labels, settings=replace(settings, rate_rate=0.0))
    assert float(kept.chosen["student_rate"]) == 1.0


@BOTH
def test_without_validation_labels_the_last_iteration_counts(
    method: str, settings: TrajectorySettings, graph: Data, labels: TrainingLabels, monkeypatch: pytest.MonkeyPatch
) -> None:
    blind = replace(labels, val=labels.val[:0])
    made = condense(method, graph, blind, settings=settings)
    assert made.chosen["iteration"] == 8
    # and with them, the one with the smallest error
    errors = iter([0.5, 0.2, 0.4, 0.2, 0.3, 0.6, 0.7, 0.8])
    monkeypatch.setattr(trajectory, "_validation_error", lambda *_: lambda *_: torch.tensor(next(errors)))
    often = replace(settings, choose_every=1)
    best = condense(method, graph, labels, settings=often)
    assert best.chosen["iteration"] == 2
    # the epoch of the GCN behind the start is chosen by validation, so the blind run may start elsewhere
    short = replace(often, iterations=2)
    monkeypatch.setattr(trajectory, "_validation_error", lambda *_: None)
    two = condense(method, graph, labels, settings=short)
    assert torch.equal(two.features, best.features)


def test_the_kernel_looks_at_a_sample_of_many_validation_nodes(
    graph: Data, labels: TrainingLabels, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Tensor, Tensor]] = []

    def spy(inputs: Inputs, val: Tensor, label: Tensor, *rest: Any) -> Regression:
        asked.append((val, label))
        return regression(inputs, val, label, *rest)

    kernel = replace(SFGC, iterations=1, choice="kernel", choose_every=1)
    monkeypatch.setattr(trajectory, "KERNEL_NODES", 5)
    monkeypatch.setattr(trajectory, "regression", spy)
    condense("sfgc", graph, labels, settings=kernel)
    ((val, label),) = asked
    assert val.unique().numel() == 5
    assert set(val.tolist()) <= set(labels.val.tolist())
    assert torch.equal(label, labels.y[val])


@BOTH
def test_a_stopped_run_ends_as_one_that_never_stopped(
    method: str,
    settings: TrajectorySettings,
    graph: Data,
    labels: TrainingLabels,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trajectory, "SAVE_EVERY", 2)
    for name, value in (("AT_ONCE", 2), ("SAVE_PAUSE", -1), ("REPORT_EVERY", 1)):
        monkeypatch.setattr(experts_module, name, value)
    seen: list[str] = []

    def run(stop: str | None, count: int, folder: Path | None) -> plgc.CondensedGraph:
        def progress(message: str, done: int, total: int) -> None:
            seen.append(message)
            if stop is not None and sum(stop in one for one in seen) == count:
                raise KeyboardInterrupt

        seen.clear()
        return condense(method, graph, labels, settings=settings, progress=progress, checkpoint=folder)

    whole, folder = run(None, 0, None), tmp_path
    for stop, count in (("experts", 30), ("experts", 40), ("matching", 3), ("matching", 4)):
        with pytest.raises(KeyboardInterrupt):
            run(stop, count, folder)
    assert len(list(folder.iterdir())) == 3
    again = run(None, 0, folder)
    assert not any("experts" in one for one in seen)
    assert len(seen) == 2  # of eight iterations: the first run got to the third, the second to the sixth
    assert again.to_bytes() == whole.to_bytes()
    assert list(folder.iterdir()) == []


def test_half_precision_storage_changes_the_result_little(graph: Data, labels: TrainingLabels) -> None:
    half = replace(SFGC, expert=replace(EXPERT, storage="bfloat16"))
    curves = [
        torch.tensor(condense("sfgc", graph, labels, settings=settings).curves["matching"]) for settings in (SFGC, half)
    ]
    assert not torch.equal(*curves)
    torch.testing.assert_close(*curves, rtol=0.01, atol=0)


def test_a_gcn_trained_on_the_nodes_themselves_is_a_good_judge(graph: Data, labels: TrainingLabels) -> None:
    inputs = prepare(graph, "l1")
    x, y = inputs.x.to_dense(), labels.y[labels.val]  # pyright: ignore
    seen = receptive_field(inputs, labels.val)
    settings = replace(GEOM, choice_epochs=201, expert=replace(EXPERT, hidden=64))
    target = F.one_hot(labels.y[labels.train], CLASSES).float()
    right = float(student_error(x[labels.train], target, seen, y, settings, 0))
    wrong = float(student_error(x[labels.train], target.roll(1, 1), seen, y, settings, 0))
    assert right < 0.5 < wrong


# Settings


def test_published_settings_go_by_graph_and_size() -> None:
    assert published_settings("sfgc", "Cora", 70) == TrajectorySettings(feature_rate=3e-5)
    assert published_settings("sfgc", "cora", 64) == published_settings("sfgc", "cora", 70)
    assert published_settings("sfgc", "cora", 35).expert_epochs == 1500
    assert published_settings("geom", "cora", 70).student_steps == 2500
    assert published_settings("geom", "citeseer", 60).label_rate == 0  # its authors learn soft labels on Cora only
    assert published_settings("sfgc", "my graph", 60) == published_settings("sfgc", "citeseer", 60)
    assert {(s.expert.experts, s.expert.hidden) for sizes in PUBLISHED.values() for s in sizes.values()} == {(200, 256)}
    assert published_settings("sfgc", "cora", 70).kept == [0, 100, 200, 300, 1200, 1300, 1400, 1500]


def test_gradients_of_equal_weight_have_unit_length_and_one_scale() -> None:
    features, rate = torch.zeros(2, 2, requires_grad=True), torch.tensor(1.0, requires_grad=True)
    steep = torch.tensor([[3e6, 0.0], [0.0, 4e6]])
    ((features * steep).sum() + 10e6 * rate).backward()
    trajectory._weigh_equally(features, [features, rate, torch.ones(3)])
    assert features.grad is not None
    assert rate.grad is not None
    assert torch.allclose(features.grad, steep / 5e6)
    assert float(rate.grad) == pytest.approx(2.0)
    features.grad = torch.zeros(2, 2)
    trajectory._weigh_equally(features, [features])
    assert not features.grad.any()


def test_refusals(graph: Data, labels: TrainingLabels) -> None:
    with pytest.raises(LabelError, match="3 classes"):
        condense("sfgc", graph, labels, nodes=2)
    with pytest.raises(SettingError, match="may end at epoch 60, but experts train for 50"):
        replace(SFGC, expert_epochs=40)
    bad: list[dict[str, Any]] = [{"iterations": 0}, {"window": 0}, {"student_rate": 0.0}, {"knowledge": -1.0}]
    for wrong in bad:
        with pytest.raises(SettingError, match=next(iter(wrong))):
            replace(SFGC, **wrong)
    with pytest.raises(SettingError, match="matching has diverged: the loss of iteration"):
        condense("sfgc", graph, labels, settings=replace(SFGC, student_rate=1e30))


# The authors' own evaluators


def test_evaluators_go_by_method_graph_and_size() -> None:
    """Epochs, width, layers, dropout, learning rate and weight decay of the authors' test configurations."""
    for method in ("sfgc", "geom"):
        assert published_evaluator(method, "Cora", 70) == ClassifierSettings(600, 256, 2, 0.0, 1e-3, 1e-3)
        assert published_evaluator(method, "cora", 140) == ClassifierSettings(600, 256, 2, 0.0, 1e-2, 5e-4)
        assert published_evaluator(method, "citeseer", 60) == ClassifierSettings(1000, 256, 2, 0.0, 1e-3, 5e-4)
        assert published_evaluator(method, "cora", 64) == published_evaluator(method, "cora", 70)
        assert published_evaluator(method, "my graph", 60) == published_evaluator(method, "citeseer", 60)
        assert published_evaluator(method, "flickr", 223).dropout == 0.6
    assert published_evaluator("sfgc", "citeseer", 30) == ClassifierSettings(1000, 256, 2, 0.3, 3e-3, 5e-3)
    assert published_evaluator("geom", "citeseer", 30).epochs == 500
    assert published_evaluator("sfgc", "ogbn-arxiv", 454).learning_rate == 1e-3
    assert published_evaluator("geom", "ogbn-arxiv", 454) == ClassifierSettings(300, 256, 2, 0.0, 1e-2, 1e-3)


def test_files_are_scored_by_the_evaluator_of_their_own_authors(
    graph: Data, made: dict[str, plgc.CondensedGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[ClassifierSettings] = []

    def train(*arguments: Any, settings: ClassifierSettings = ON_CONDENSED, **how: Any) -> Any:
        used.append(settings)
        return train_on_condensed(*arguments, **how, settings=replace(settings, epochs=2))

    monkeypatch.setattr(scoring, "train_on_condensed", train)
    named = graph.clone()
    named.name = "cora"
    case = draw_case(named, Protocol(), 0)
    twin = replace(made["sfgc"], features=made["sfgc"].features + 0.01)
    for files in (["sfgc"], ["geom"], ["random"], ["sfgc", "random"]):
        learn(files[0], case, [made[name] for name in files])
    learn("sfgc", case, [made["sfgc"], twin])
    small = published_evaluator("sfgc", "cora", KEPT)
    assert used == [small, small, ON_CONDENSED, ON_CONDENSED, published_evaluator("sfgc", "cora", 2 * KEPT)]
