"""Condensation by matching training trajectories: SFGC (Zheng et al., 2023) and GEOM (Zhang et al., 2024).

A student GCN starts from an expert's weights θ_t after t epochs, takes q steps of gradient descent on the condensed
nodes (features X', A' = I), and should end at the expert's weights p epochs later:

    ℒ = ‖θ_student − θ_{t+p}‖² / ‖θ_t − θ_{t+p}‖²            (GEOM: the root of it)

X' and the student's step size η follow the gradient of ℒ through all q steps. GEOM draws t from a window that
widens with the iterations, learns soft labels where its authors do, and adds β times the loss of X' under the expert's
last weights. The X' is kept that trains the best GCN on validation nodes, or with which a graph neural tangent
kernel has the smallest error there (SFGC's own rule); without validation labels it is the last one.

Where we differ from the authors' code: SFGC's first iteration there uses the edges among the chosen nodes, ours has
A' = I throughout; GEOM orders the training nodes by true labels of all their neighbours, test nodes among them, ours by
predicted labels where no training label is known; its soft labels are not kept normalised there, ours are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.artifact.condensed import CondensedGraph
from plgc.graphs.catalog import normalised
from plgc.rivals.coreset import class_output, kcenter_nodes
from plgc.rivals.frame import RivalRun
from plgc.rivals.scaling import with_chosen_scaling
from plgc.rivals.trajectory import settings as config
from plgc.rivals.trajectory.experts import Trajectories, Weights, easy_first, receptive_field, train_experts
from plgc.rivals.trajectory.gntk import regression
from plgc.rivals.trajectory.settings import TrajectorySettings
from plgc.rivals.trajectory.student import matching_loss, student_error
from plgc.runtime.errors import SettingError
from plgc.runtime.optimizer_state import pack, unpack
from plgc.runtime.progress import nested, silent
from plgc.runtime.schema import Count, read

SAVE_EVERY = 25  # iterations
KERNEL_NODES = 1000  # validation nodes at most for the tangent kernel

ValidationError = Callable[[Tensor, Tensor], Tensor]  # of features X' and their labels as shares [K, C]


def condense_by_trajectories(run: RivalRun) -> CondensedGraph:
    """Condense with ``sfgc`` or ``geom``.

    X' starts from training nodes (k-center, class by class), so that there are at most as many as have a label.
    Validation labels, where there are any, choose the iteration.
    """
    if (run.method, normalised(run.graph.name)) not in config.PUBLISHED:
        run = with_chosen_scaling(run)
    run = run.using(run.settings or config.published_settings(run.method, run.graph.name, run.nodes))
    labels, device = run.labels, run.inputs.device
    output = class_output(run)
    chosen = kcenter_nodes(output.cpu(), labels.train, labels.y, run.nodes).to(device)
    experts = _train_experts(run, output)
    return _match(run, run.x[chosen], labels.y.to(device)[chosen], experts)


def _train_experts(run: RivalRun, output: Tensor) -> Trajectories:
    """Train the experts on the whole graph; for GEOM, on training nodes in the order of their difficulty."""
    settings, labels, inputs = run.settings, run.labels, run.inputs
    train, y, order = labels.train.to(inputs.device), labels.y.to(inputs.device), None
    if settings.expert.pace != "all":
        likely = output.argmax(1)
        likely[train] = y[train]
        order = easy_first(inputs.adjacency, train, likely, labels.classes)
    key = {"part": "experts", "nodes": None, "settings": asdict(settings.expert), "keep": settings.kept}
    return train_experts(
        receptive_field(inputs, train),
        y[train],
        labels.classes,
        settings.expert,
        keep=settings.kept,
        seed=run.seed,
        order=order,
        checkpoint=lambda group: run.checkpoint(**key, group=group),
        progress=nested(run.report, "experts", 0, 2) or silent,
    )


@dataclass(frozen=True)
class StudentRecord:
    """What a checkpoint says beside its tensors: iterations that are done, and experts that are still to be drawn."""

    done: Count
    deck: list[Count]


def _match(run: RivalRun, features: Tensor, label: Tensor, experts: Trajectories) -> CondensedGraph:
    """The iterations, and the best X'. Only checkpoints and progress reports wait for the device."""
    settings, device, soft = run.settings, features.device, run.settings.label_rate > 0
    validation_error = _validation_error(run)
    generator = torch.Generator().manual_seed(run.seed)
    x = features.clone().requires_grad_()
    rate = torch.tensor(settings.student_rate, device=device, requires_grad=True)
    logits = _first_labels(experts, features, label) if soft else F.one_hot(label, experts.classes).float()
    logits.requires_grad_(soft)
    optimizers = {
        "features ": torch.optim.Adam([x], lr=settings.feature_rate, fused=True),
        "rate ": torch.optim.SGD([rate], lr=settings.rate_rate, momentum=0.5),
    }
    if soft:
        optimizers["labels "] = torch.optim.SGD([logits], lr=settings.label_rate, momentum=0.9)
    learned = [x, rate, logits]
    none_yet = torch.tensor(torch.inf, device=device), torch.tensor(0, device=device)
    best = [*none_yet, *(part.detach().clone() for part in learned)]  # error, iteration, what was learned by then
    losses, deck, done = torch.zeros(settings.iterations, device=device), [], 0
    file = run.checkpoint(part="matching")
    if (saved := file.load()) is not None:
        tensors, values = saved
        with file.resuming():
            about = read(StudentRecord, values)
            done, deck = about.done, about.deck
            generator.set_state(tensors["generator"])
            for name, optimizer in optimizers.items():
                unpack(optimizer, tensors, name)
            found = [tensors[f"best {place}"].to(device) for place in range(len(best))]
            kept = tensors["losses"].to(device)
            shapes = [part.shape for part in (*best, losses)]
            if shapes != [part.shape for part in (*found, kept)] or max(deck, default=0) >= experts.experts:
                raise ValueError("it is of another number of nodes, iterations or experts")
            best, losses = found, kept
    report = nested(run.report, "matching", 1, 2) or silent
    for iteration in range(done, settings.iterations):
        deck = deck or torch.randperm(experts.experts, generator=generator).tolist()
        expert, t = deck.pop(), draw_start(settings, iteration, generator)
        target = torch.softmax(logits, 1) if soft else logits
        start, goal = experts.at(expert, t), experts.at(expert, t + settings.expert_epochs)
        loss = matching_loss(x, target, rate, start, goal, settings.student_steps, squared=run.method == "sfgc")
        losses[iteration] = loss.detach()
        if settings.knowledge:
            loss = loss + settings.knowledge * _divergence(experts.at(expert, settings.expert.epochs), x, target)
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        loss.backward()
        if settings.equal_weight:
            _weigh_equally(x, learned)
        for optimizer in optimizers.values():
            optimizer.step()
        if validation_error is not None and (iteration + 1) % settings.choose_every == 0:
            error = validation_error(x.detach(), (torch.softmax(logits, 1) if soft else logits).detach())
            current = [error, torch.tensor(iteration + 1, device=device), *(part.detach() for part in learned)]
            better = error < best[0]
            best = [torch.where(better, new, old) for new, old in zip(current, best, strict=True)]
        if (iteration + 1) % SAVE_EVERY == 0:
            _check_finite(losses, iteration)
            tensors = {"losses": losses, "generator": generator.get_state()}
            tensors |= {f"best {place}": part for place, part in enumerate(best)}
            for name, optimizer in optimizers.items():
                tensors |= pack(optimizer, name)
            file.save(tensors, {"done": iteration + 1, "deck": deck})
        report("student steps", iteration + 1, settings.iterations)
    _check_finite(losses, settings.iterations - 1)
    if validation_error is None or not int(best[1]):
        best = [best[0], torch.tensor(settings.iterations), *(part.detach() for part in learned)]
    return run.finish(
        best[2],
        torch.ones(len(features), dtype=torch.int64),
        labels=torch.softmax(best[4], 1) if soft else label,
        curves={"matching": losses.tolist()},
        chosen={"iteration": int(best[1]), "student_rate": float(best[3])},
    )


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
    """Log-probabilities by the first expert's last weights; where it is wrong, the label's is raised to the highest."""
    weights = experts.at(0, experts.epochs[-1])
    output = torch.log_softmax(_output(weights, features), 1)
    wrong = output.argmax(1) != label
    raised = output.scatter(1, label[:, None], output.max(1, keepdim=True).values)
    return torch.where(wrong[:, None], raised, output).detach().clone()


def _divergence(weights: Weights, features: Tensor, target: Tensor) -> Tensor:
    """KL(labels ‖ an expert's output) on the condensed nodes; for fixed classes, the cross-entropy."""
    return F.kl_div(torch.log_softmax(_output(weights, features), 1), target, reduction="batchmean")


def _output(weights: Weights, features: Tensor) -> Tensor:
    hidden = torch.relu(torch.addmm(weights.first[-1], features, weights.first[:-1]))
    return torch.addmm(weights.bias, hidden, weights.second)


def _check_finite(losses: Tensor, iteration: int) -> None:
    if not bool(torch.isfinite(losses).all()):
        first = int((~torch.isfinite(losses)).nonzero()[0])
        raise SettingError(
            f"matching has diverged: the loss of iteration {first + 1} is {float(losses[first])} (found after "
            f"{iteration + 1}): lower student_rate or feature_rate"
        )


def _validation_error(run: RivalRun) -> ValidationError | None:
    """The error that the best iteration is chosen by, if there are validation labels."""
    labels, inputs, settings = run.labels, run.inputs, run.settings
    if not labels.val.numel():
        return None
    val, y = labels.val, labels.y[labels.val].to(inputs.device)
    if settings.choice == "kernel":
        if val.numel() > KERNEL_NODES:
            some = torch.randperm(val.numel(), generator=torch.Generator().manual_seed(run.seed))[:KERNEL_NODES]
            val, y = val[some], y[some.to(inputs.device)]
        kernel = regression(inputs, val.to(inputs.device), y, labels.classes, settings.ridge)
        return lambda features, target: kernel.error(features, target.argmax(1)).to(torch.float32)
    field = receptive_field(inputs, val)
    return lambda features, target: student_error(features, target, field, y, settings, run.seed)
