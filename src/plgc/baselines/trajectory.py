"""Condensation by matching training trajectories: SFGC (Zheng et al., 2023) and GEOM (Zhang et al., 2024).

A student GCN starts where an expert stood after t epochs, takes q steps of gradient descent on the condensed nodes
(features X', A' = I), and should end where the expert stood p epochs later:

    ℒ = ‖θ_student − θ_{t+p}‖² / ‖θ_t − θ_{t+p}‖²            (GEOM: the root of it)

X' follows the gradient of ℒ through all q steps, and so does the student's step size η. GEOM draws t from a window that
widens with the iterations, learns soft labels where its authors do, and adds β times the loss of X' under the expert's
last weights. SFGC keeps the X' that a graph neural tangent kernel finds best on validation nodes, GEOM the one that
trains the best GCN; without validation labels the last one counts.

Gradient descent moves W1 within the span of the K condensed rows only: W1 = W1_t − η X'ᵀM with M [K, h] the sum of the
gradients at the hidden layer. So the student's steps need X' only as its Gram matrix, K² numbers instead of K · f.

Where we differ from the authors' code: SFGC's first iteration there uses the edges among the chosen nodes, ours has
A' = I throughout; GEOM orders the training nodes by true labels of all their neighbours, test nodes among them, ours by
predicted labels where no training label is known; its soft labels are not kept normalised there, ours are.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact import CondensedGraph
from plgc.baselines.condensers import class_output
from plgc.baselines.coreset import kcenter_nodes
from plgc.baselines.experts import (
    Cohort,
    ExpertSettings,
    Field,
    Trajectories,
    Weights,
    easy_first,
    expert_files,
    initial_weights,
    receptive_field,
    restore,
    state,
    train_experts,
)
from plgc.baselines.gntk import regression
from plgc.baselines.result import labelled_artifact
from plgc.checkpoint import checkpoint_in
from plgc.errors import SettingError
from plgc.graphs.catalog import normalised
from plgc.graphs.labels import TrainingLabels
from plgc.graphs.load import load_graph, unlabelled
from plgc.inputs import Inputs, fingerprint, prepare, resolve_scaling
from plgc.progress import Progress, nested, silent
from plgc.propagate import SparseFeatures

METHODS = ("sfgc", "geom")
BLOCK = 250  # student steps whose hidden layers are rebuilt together on the way back
SAVE_EVERY = 25  # iterations
KERNEL_NODES = 1000  # validation nodes at most for the tangent kernel


@dataclass(frozen=True)
class TrajectorySettings:
    """How trajectories are matched; :func:`published` has the authors' values for a graph and a size.

    Attributes:
        expert: how the experts are trained.
        iterations: steps of X'.
        expert_epochs: p.
        student_steps: q.
        student_rate: η at the start.
        rate_rate: step size of η itself (SGD, momentum .5); 0 keeps it.
        feature_rate: step size of X' (Adam).
        starts: t is drawn below this.
        start_step: t is rounded down to a multiple of this.
        window: the bound of t in the first iteration, one more in each; None: ``starts`` throughout.
        label_rate: step size of the soft labels (SGD, momentum .9); 0 for fixed classes.
        knowledge: β.
        ridge: of the kernel regression.
        choose_every: iterations between two looks at the validation nodes.
        choice_epochs: of the GCN that GEOM is chosen by.
    """

    expert: ExpertSettings = field(default_factory=ExpertSettings)
    iterations: int = 2000
    expert_epochs: int = 1200
    student_steps: int = 500
    student_rate: float = 0.5
    rate_rate: float = 1e-6
    feature_rate: float = 1e-4
    starts: int = 400
    start_step: int = 100
    window: int | None = None
    label_rate: float = 0.0
    knowledge: float = 0.0
    ridge: float = 1.0
    choose_every: int = 1
    choice_epochs: int = 600

    def __post_init__(self) -> None:
        names = ["iterations", "expert_epochs", "student_steps", "starts", "start_step", "choose_every"]
        for name in [*names, "choice_epochs", *(["window"] if self.window is not None else [])]:
            if getattr(self, name) < 1:
                raise SettingError(f"{name}={getattr(self, name)}: give at least 1")
        for name in ("student_rate", "feature_rate", "ridge"):
            if not getattr(self, name) > 0:
                raise SettingError(f"{name}={getattr(self, name)}: give a number above 0")
        for name in ("rate_rate", "label_rate", "knowledge"):
            if getattr(self, name) < 0:
                raise SettingError(f"{name}={getattr(self, name)}: give 0 or more")
        last = (self.starts - 1) // self.start_step * self.start_step + self.expert_epochs
        if last > self.expert.epochs:
            raise SettingError(
                f"a segment may end at epoch {last}, but experts train for {self.expert.epochs}: raise expert.epochs, "
                "or lower starts or expert_epochs"
            )

    @property
    def kept(self) -> list[int]:
        """The epochs at which segments start and end, and the last one where β needs it or labels start from it."""
        begin = list(range(0, self.starts, self.start_step))
        last = [self.expert.epochs] if self.knowledge or self.label_rate else []
        return sorted({*begin, *(t + self.expert_epochs for t in begin), *last})


_CORA = TrajectorySettings()
_CITESEER = TrajectorySettings(
    expert=ExpertSettings(epochs=800, optimizer="adam", learning_rate=1e-3, weight_decay=5e-4),
    expert_epochs=500,
    student_steps=200,
    student_rate=1.0,
    feature_rate=1e-3,
    starts=40,
    start_step=10,
)
_GEOM_CORA = TrajectorySettings(
    expert=ExpertSettings(epochs=3000, pace="geom", easy_share=0.75, pace_epochs=1500),
    expert_epochs=1400,
    student_steps=2500,
    starts=200,
    start_step=10,
    window=50,
    label_rate=5e-5,
    knowledge=0.01,
    choose_every=10,
)
_GEOM_CITESEER = TrajectorySettings(
    expert=replace(_CITESEER.expert, epochs=1000, pace="root", easy_share=0.8, pace_epochs=250),
    expert_epochs=350,
    student_steps=200,
    student_rate=1.0,
    feature_rate=7e-4,
    starts=80,
    start_step=10,
    window=10,
    knowledge=0.05,
    choose_every=10,
)
# By method, graph and number of condensed nodes. Start epochs on Cora are multiples of 100: the authors' script for it
# draws a multiple of ten and uses it as the number of a snapshot, of which there is one every ten epochs.
PUBLISHED: dict[tuple[str, str], dict[int, TrajectorySettings]] = {
    ("sfgc", "cora"): {
        35: replace(_CORA, expert_epochs=1500, student_steps=400, starts=600),
        70: _CORA,
        140: replace(_CORA, expert_epochs=2000),
    },
    ("sfgc", "citeseer"): {
        30: replace(_CITESEER, feature_rate=5e-4),
        60: _CITESEER,
        120: replace(_CITESEER, expert_epochs=400, student_steps=300, student_rate=0.6),
    },
    ("geom", "cora"): {
        35: _GEOM_CORA,
        70: replace(_GEOM_CORA, iterations=200),
        140: replace(_GEOM_CORA, expert_epochs=1500),
    },
    ("geom", "citeseer"): {
        30: replace(_GEOM_CITESEER, iterations=500, feature_rate=1e-4, starts=30, window=1, knowledge=0.1),
        60: _GEOM_CITESEER,
        120: replace(
            _GEOM_CITESEER, student_steps=400, student_rate=0.6, feature_rate=5e-4, starts=20, window=1, knowledge=0.1
        ),
    },
}


def published(method: str, graph: str, nodes: int) -> TrajectorySettings:
    """The authors' settings for the size nearest to ``nodes``; Citeseer's, which use Adam, for other graphs."""
    sizes = PUBLISHED.get((method, normalised(graph)), PUBLISHED[method, "citeseer"])
    return sizes[min(sizes, key=lambda size: (abs(size - nodes), size))]


class _Student(torch.autograd.Function):
    """q steps of gradient descent of a two-layer network on K nodes, and the way back through them.

    Inputs: ηG [K, K] with G = X̃X̃ᵀ (X̃: X' and a column of ones for the bias), H0 = X̃W1 [K, h], W2, b2, soft labels
    Y [K, C], η, q. Outputs: M [K, h], W2, b2 at the end; W1 has moved by −η X̃ᵀM. One step:

        H = H0 − ηG M,  A = relu(H),  E = (softmax(A W2 + b2) − Y) / K
        M += (E W2ᵀ) ⊙ 1[H > 0],  W2 −= η AᵀE,  b2 −= η 1ᵀE

    Only M, W2 and b2 of every step are kept; the rest is rebuilt, many steps in one product.
    """

    @staticmethod
    def forward(
        ctx: Any, gram: Tensor, hidden: Tensor, second: Tensor, bias: Tensor, target: Tensor, rate: Tensor, steps: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        moved = hidden.new_zeros(steps + 1, *hidden.shape)
        seconds, biases = second.new_empty(steps + 1, *second.shape), bias.new_empty(steps + 1, *bias.shape)
        seconds[0], biases[0] = second, bias
        ones = target.new_ones(1, len(target))
        for step in range(steps):
            now = seconds[step]
            active = torch.addmm(hidden, gram, moved[step], alpha=-1).relu_()
            error = torch.addmm(biases[step], active, now).softmax(1).sub_(target).div_(len(target))
            torch.add(moved[step], (error @ now.t()).mul_(active > 0), out=moved[step + 1])
            error.mul_(rate)
            torch.addmm(now, active.t(), error, alpha=-1, out=seconds[step + 1])
            torch.addmm(biases[step][None], ones, error, alpha=-1, out=biases[step + 1][None])
        ctx.save_for_backward(gram, hidden, target, rate, moved, seconds, biases)
        return moved[-1].clone(), seconds[-1].clone(), biases[-1].clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        gram, hidden, target, rate, moved, seconds, biases = ctx.saved_tensors
        g_moved, g_second, g_bias = (grad.clone() for grad in grads)
        g_gram, g_hidden, g_target = torch.zeros_like(gram), torch.zeros_like(hidden), torch.zeros_like(target)
        g_rate, nodes, ones = torch.zeros_like(rate), len(target), target.new_ones(1, len(target))
        last = len(moved) - 1
        for end in range(last, 0, -BLOCK):
            part = slice(max(0, end - BLOCK), end)
            before = moved[part]
            active = (hidden - gram @ before).relu_()
            mask = (active > 0).to(active.dtype)
            share = torch.baddbmm(biases[part][:, None], active, seconds[part]).softmax(2)
            error = (share - target) / nodes
            scaled = error * -rate
            g_active, g_error = torch.empty_like(active), torch.empty_like(error)
            from_steps = torch.empty_like(error)
            for step in range(len(before) - 1, -1, -1):
                act, err, now, soft = active[step], error[step], seconds[part][step], share[step]
                torch.addmm(g_bias, act, g_second, out=from_steps[step])
                through = g_moved * mask[step]
                back = torch.addmm(from_steps[step] * -rate, through, now, out=g_error[step])
                weighted = soft * back
                g_logits = torch.addcmul(weighted, soft, weighted.sum(1, keepdim=True), value=-1).div_(nodes)
                both = torch.mm(g_logits, now.t()).addmm_(scaled[step], g_second.t())
                torch.mul(both, mask[step], out=g_active[step])
                g_second = g_second.addmm(through.t(), err).addmm_(act.t(), g_logits)
                g_bias = torch.addmm(g_bias[None], ones, g_logits)[0]
                g_moved = torch.addmm(g_moved, gram, g_active[step], alpha=-1)
            g_rate -= (from_steps * error).sum()
            g_target -= g_error.sum(0) / nodes
            g_hidden += g_active.sum(0)
            g_gram -= g_active.transpose(0, 1).flatten(1) @ before.transpose(0, 1).flatten(1).t()
        return g_gram, g_hidden, g_second, g_bias, g_target, g_rate, None


def matching_loss(
    features: Tensor, target: Tensor, rate: Tensor, start: Weights, goal: Weights, steps: int, *, squared: bool
) -> Tensor:
    """ℒ of one segment.

    Args:
        features: X' [K, f].
        target: labels as shares [K, C].
        rate: η.
        start: θ_t.
        goal: θ_{t+p}.
        steps: q.
        squared: SFGC's ℒ; its root is GEOM's.
    """
    wide = F.pad(features, (0, 1), value=1.0)
    moved, second, bias = _Student.apply(  # pyright: ignore
        rate * (wide @ wide.t()), wide @ start.first, start.second, start.bias, target, rate, steps
    )
    end = Weights(start.first - rate * (wide.t() @ moved), second, bias)
    left = sum((a - b).square().sum() for a, b in zip(end, goal, strict=True))
    way = sum((a - b).square().sum() for a, b in zip(start, goal, strict=True))
    ratio = torch.as_tensor(left / way)
    return ratio if squared else ratio.sqrt()


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
    x = inputs.x.to_dense() if isinstance(inputs.x, SparseFeatures) else inputs.x
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
        judge=_judge(inputs, labels, settings, method, seed),
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


def _judge(
    inputs: Inputs, labels: TrainingLabels, settings: TrajectorySettings, method: str, seed: int
) -> Judge | None:
    """What an iteration is chosen by, if there are validation labels."""
    if not labels.val.numel():
        return None
    val, y = labels.val, labels.y[labels.val].to(inputs.device)
    if method == "sfgc":
        if val.numel() > KERNEL_NODES:
            some = torch.randperm(val.numel(), generator=torch.Generator().manual_seed(seed))[:KERNEL_NODES]
            val, y = val[some], y[some.to(inputs.device)]
        kernel = regression(inputs, val.to(inputs.device), y, labels.classes, settings.ridge)
        return lambda features, target: kernel.error(features, target.argmax(1)).to(torch.float32)
    seen = receptive_field(inputs, val)
    return lambda features, target: student_error(features, target, seen, y, settings, seed)


def student_error(
    features: Tensor, target: Tensor, seen: Field, y: Tensor, settings: TrajectorySettings, seed: int
) -> Tensor:
    """Train a GCN on the condensed nodes, as GEOM's code does: its lowest error on validation nodes, by 20 epochs."""
    hidden, generator = settings.expert.hidden, torch.Generator().manual_seed(seed)
    weights = initial_weights(features.shape[1], hidden, target.shape[1], generator)
    cohort = Cohort([Weights(*(part.to(features.device) for part in weights))])
    optimizer = torch.optim.Adam(cohort.parameters, lr=1e-3, weight_decay=5e-4, fused=True)
    own, equal = Field(features, None), target.new_full((len(target),), 1 / len(target))
    errors = []
    for epoch in range(settings.choice_epochs):
        optimizer.zero_grad()
        cohort.losses(own, target, equal).sum().backward()
        optimizer.step()
        if epoch % 20 == 0:
            with torch.no_grad():
                errors.append((cohort.logits(seen)[0].argmax(1) != y).float().mean())
    return torch.stack(errors).min()
