"""Condensation by matching training trajectories: SFGC (Zheng et al., 2023) and GEOM (Zhang et al., 2024).

A student GCN starts where an expert stood after t epochs, takes q steps of gradient descent on the condensed nodes
(features X', A' = I), and should end where the expert stood p epochs later:

    ℒ = ‖θ_student − θ_{t+p}‖² / ‖θ_t − θ_{t+p}‖²            (GEOM: the root of it)

X' follows the gradient of ℒ through all q steps, and so does the student's step size η. GEOM draws t from a window that
widens with the iterations, learns soft labels where its authors do, and adds β times the loss of X' under the expert's
last weights. The X' is kept that trains the best GCN on validation nodes, or that a graph neural tangent kernel finds
best there (SFGC's own rule); without validation labels the last one counts.

Where we differ from the authors' code: SFGC's first iteration there uses the edges among the chosen nodes, ours has
A' = I throughout; GEOM orders the training nodes by true labels of all their neighbours, test nodes among them, ours by
predicted labels where no training label is known; its soft labels are not kept normalised there, ours are.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.graphs.labels import TrainingLabels
from plgc.graphs.load import load_graph, unlabelled
from plgc.rivals.condensers import class_output
from plgc.rivals.coreset import kcenter_nodes
from plgc.rivals.result import labelled_artifact
from plgc.rivals.trajectory.experts import (
    Trajectories,
    Weights,
    easy_first,
    expert_files,
    receptive_field,
    restore,
    state,
    train_experts,
)
from plgc.rivals.trajectory.gntk import regression
from plgc.rivals.trajectory.settings import TrajectorySettings, published
from plgc.rivals.trajectory.student import matching_loss, student_error
from plgc.runtime.checkpoint import checkpoint_in
from plgc.runtime.errors import SettingError
from plgc.runtime.progress import Progress, nested, silent
from plgc.sparse.inputs import Inputs, fingerprint, prepare, resolve_scaling

METHODS = ("sfgc", "geom")
SAVE_EVERY = 25  # iterations
KERNEL_NODES = 1000  # validation nodes at most for the tangent kernel


def condense_by_trajectories(
    graph: Data,
    labels: TrainingLabels,
    *,
    nodes: int,
    seed: int,
    method: str = "sfgc",
    device: str = "cpu",
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    settings: TrajectorySettings | None = None,
) -> CondensedGraph:
    """Condense a graph with SFGC or GEOM.

    Args:
        graph: features and edges; its own labels are never read.
        labels: training labels to learn from and, where there are any, validation labels to choose by.
        nodes: K; no more than there are training nodes, which X' starts from (k-center, class by class).
        seed: drives every random choice.
        method: ``sfgc`` or ``geom``.
        device: where to compute.
        progress: called with a message, the work done and the work in all.
        checkpoint: folder for the state of unfinished runs.
        settings: by default :func:`published`.
    """
    if method not in METHODS:
        raise SettingError(f"unknown method {method!r}: choose {' or '.join(METHODS)}")
    bare = load_graph(unlabelled(graph))
    assert bare.x is not None
    settings = published(method, str(graph._store.get("name", "")), nodes) if settings is None else settings
    scaling = resolve_scaling(bare.x, "auto")
    inputs = prepare(bare, scaling, device)
    output = class_output(inputs, labels, scaling, seed)
    chosen = kcenter_nodes(output.cpu(), labels.train, labels.y, nodes)
    x = inputs.x if isinstance(inputs.x, Tensor) else inputs.x.to_dense()
    run = {"graph": fingerprint(bare), "labels": labels.digest(), "method": method, "device": device}
    train, y = labels.train.to(inputs.device), labels.y.to(inputs.device)
    seen, order = receptive_field(inputs, train), None
    if settings.expert.pace != "all":
        likely = output.argmax(1)
        likely[train] = y[train]
        order = easy_first(inputs.adjacency, train, likely, labels.classes)
    experts = train_experts(
        seen,
        y[train],
        labels.classes,
        settings.expert,
        keep=settings.kept,
        seed=seed,
        order=order,
        checkpoint=checkpoint,
        run=run,
        progress=nested(progress, "experts", 0, 2),
    )
    found = _match(
        x[chosen.to(inputs.device)],
        y[chosen.to(inputs.device)],
        experts,
        settings,
        squared=method == "sfgc",
        judge=_judge(inputs, labels, settings, seed),
        seed=seed,
        checkpoint=checkpoint,
        run={**run, "settings": asdict(settings), "nodes": nodes, "seed": seed},
        progress=nested(progress, "matching", 1, 2),
    )
    for file in expert_files(seen, settings.expert, checkpoint, run, keep=settings.kept, seed=seed):
        file.discard()
    return labelled_artifact(
        graph,
        bare,
        labels,
        method=method,
        features=found.features,
        node_labels=found.labels,
        counts=torch.ones(len(found.features), dtype=torch.int64),
        scaling=scaling,
        seed=seed,
        requested=nodes,
        settings=asdict(settings),
        curves={"matching": found.losses},
        chosen={"iteration": found.iteration, "student_rate": found.rate},
    )


@dataclass(frozen=True)
class Found:
    """What matching ends with: the X' and labels of the best iteration (or the last), which one it was, and η there."""

    features: Tensor
    labels: Tensor
    iteration: int
    rate: float
    losses: list[float]


Judge = Callable[[Tensor, Tensor], Tensor]  # error of features and shares of labels on validation nodes


def _match(
    features: Tensor,
    label: Tensor,
    experts: Trajectories,
    settings: TrajectorySettings,
    *,
    squared: bool,
    judge: Judge | None,
    seed: int,
    checkpoint: str | os.PathLike[str] | None,
    run: dict[str, Any],
    progress: Progress | None,
) -> Found:
    """The loop over iterations. Nothing in it waits for the device but checkpoints and the report."""
    device, soft = features.device, settings.label_rate > 0
    file = checkpoint_in(checkpoint, stage="matching", **run)
    generator = torch.Generator().manual_seed(seed)
    x = features.clone().requires_grad_()
    rate = torch.tensor(settings.student_rate, device=device, requires_grad=True)
    logits = _first_labels(experts, features, label) if soft else F.one_hot(label, experts.classes).float()
    logits.requires_grad_(soft)
    optimizers = [
        torch.optim.Adam([x], lr=settings.feature_rate, fused=True),
        torch.optim.SGD([rate], lr=settings.rate_rate, momentum=0.5),
        *([torch.optim.SGD([logits], lr=settings.label_rate, momentum=0.9)] if soft else []),
    ]
    learned = [x, rate, logits]
    none_yet = torch.tensor(torch.inf, device=device), torch.tensor(0, device=device)
    best = [*none_yet, *(part.detach().clone() for part in learned)]  # error, iteration, what was learned by then
    losses, deck, done = torch.zeros(settings.iterations, device=device), [], 0
    if (saved := file.load()) is not None:
        tensors, values = saved
        done, deck = values["done"], values["deck"]
        generator.set_state(tensors["generator"])
        restore(tensors, learned, *optimizers)
        best = [tensors[f"best.{place}"].to(device) for place in range(len(best))]
        losses = tensors["losses"].to(device)
    for iteration in range(done, settings.iterations):
        deck = deck or torch.randperm(experts.experts, generator=generator).tolist()
        expert, t = deck.pop(), draw_start(settings, iteration, generator)
        target = torch.softmax(logits, 1) if soft else logits
        start, goal = experts.at(expert, t), experts.at(expert, t + settings.expert_epochs)
        loss = matching_loss(x, target, rate, start, goal, settings.student_steps, squared=squared)
        losses[iteration] = loss.detach()
        if settings.knowledge:
            loss = loss + settings.knowledge * _divergence(experts.at(expert, settings.expert.epochs), x, target)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        if settings.equal_weight:
            _weigh_equally(x, learned)
        for optimizer in optimizers:
            optimizer.step()
        if judge is not None and (iteration + 1) % settings.choose_every == 0:
            error = judge(x.detach(), (torch.softmax(logits, 1) if soft else logits).detach())
            better = error < best[0]
            current = [error, torch.tensor(iteration + 1, device=device), *(p.detach() for p in learned)]
            best = [torch.where(better, new, old) for new, old in zip(current, best, strict=True)]
        if (iteration + 1) % SAVE_EVERY == 0:
            _check(losses, iteration)
            kept = {f"best.{place}": part for place, part in enumerate(best)}
            tensors = {**state(learned, *optimizers), **kept, "losses": losses, "generator": generator.get_state()}
            file.save(tensors, {"done": iteration + 1, "deck": deck})
        (progress or silent)("student steps", iteration + 1, settings.iterations)
    _check(losses, settings.iterations - 1)
    file.discard()
    if judge is None or not int(best[1]):
        best = [best[0], torch.tensor(settings.iterations), *(p.detach() for p in learned)]
    found = torch.softmax(best[4], 1) if soft else label
    return Found(best[2], found.cpu(), int(best[1]), float(best[3]), losses.tolist())


def _weigh_equally(features: Tensor, learned: list[Tensor]) -> None:
    """Scale the gradients of one iteration so that the one of X' has unit length."""
    assert features.grad is not None
    scale = 1 / features.grad.norm().clamp(min=torch.finfo(torch.float32).tiny)
    for part in learned:
        if part.grad is not None:
            part.grad.mul_(scale)


def draw_start(settings: TrajectorySettings, iteration: int, generator: torch.Generator) -> int:
    """t: where the student starts, from a window that widens with the iterations."""
    bound = settings.starts if settings.window is None else min(settings.window + iteration, settings.starts)
    return int(torch.randint(bound, (), generator=generator)) // settings.start_step * settings.start_step


def _first_labels(experts: Trajectories, features: Tensor, label: Tensor) -> Tensor:
    """Log-probabilities by the first expert at its end; where it is wrong, the label's is raised to the highest."""
    weights = experts.at(0, experts.epochs[-1])
    output = torch.log_softmax(_output(weights, features), 1)
    wrong = output.argmax(1) != label
    raised = output.scatter(1, label[:, None], output.max(1, keepdim=True).values)
    return torch.where(wrong[:, None], raised, output).detach().clone()


def _divergence(weights: Weights, features: Tensor, target: Tensor) -> Tensor:
    """KL(labels ‖ an expert's answers) on the condensed nodes; for fixed classes, the cross-entropy."""
    return F.kl_div(torch.log_softmax(_output(weights, features), 1), target, reduction="batchmean")


def _output(weights: Weights, features: Tensor) -> Tensor:
    hidden = torch.relu(torch.addmm(weights.first[-1], features, weights.first[:-1]))
    return torch.addmm(weights.bias, hidden, weights.second)


def _check(losses: Tensor, iteration: int) -> None:
    if not bool(torch.isfinite(losses).all()):
        first = int((~torch.isfinite(losses)).nonzero()[0])
        raise SettingError(
            f"matching has diverged: the loss of iteration {first + 1} is {float(losses[first])} (looked at after "
            f"{iteration + 1}): lower student_rate or feature_rate"
        )


def _judge(inputs: Inputs, labels: TrainingLabels, settings: TrajectorySettings, seed: int) -> Judge | None:
    """What an iteration is chosen by, if there are validation labels."""
    if not labels.val.numel():
        return None
    val, y = labels.val, labels.y[labels.val].to(inputs.device)
    if settings.choice == "kernel":
        if val.numel() > KERNEL_NODES:
            some = torch.randperm(val.numel(), generator=torch.Generator().manual_seed(seed))[:KERNEL_NODES]
            val, y = val[some], y[some.to(inputs.device)]
        kernel = regression(inputs, val.to(inputs.device), y, labels.classes, settings.ridge)
        return lambda features, target: kernel.error(features, target.argmax(1)).to(torch.float32)
    seen = receptive_field(inputs, val)
    return lambda features, target: student_error(features, target, seen, y, settings, seed)
