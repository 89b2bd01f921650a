"""The epochs of gradient matching: models learn from the condensed graph while it is fitted to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from plgc.rivals.gradient.matching import (
    MatchingTask,
    PairAdjacency,
    draw_model,
    gradient_distance,
    loss_gradients,
    strong_edges,
)
from plgc.rivals.gradient.settings import GradientSettings
from plgc.runtime.checkpoint import Checkpoint
from plgc.runtime.optimizer_state import pack, unpack
from plgc.runtime.replay import recorded
from plgc.runtime.schema import Count, read


class Matching:
    """Epochs of matching. All changes are made in place, so that a GPU can replay the steps.

    Args:
        task: what is to be matched.
        state: X' and Φ, which move.
        settings: how.
    """

    def __init__(self, task: MatchingTask, state: State, settings: GradientSettings):
        self.task, self.state, self.settings = task, state, settings
        self.weights, self.biases = draw_model(task.widths, torch.Generator(), state.features.device)
        self.model = adam([*self.weights, *self.biases], settings.model_rate)
        self.real = task.real_rows(torch.Generator())
        self.total = torch.zeros((), device=state.features.device)
        self.steps: dict[tuple[str, bool], Callable[[], None]] = {}

    def epoch(self, generator: torch.Generator) -> Tensor:
        """One model θ_0, trained on the condensed graph while this is fitted to it; the mean distance by class."""
        task, state, settings = self.task, self.state, self.settings
        weights, biases = draw_model(task.widths, generator)
        for kept, new in zip([*self.weights, *self.biases], [*weights, *biases], strict=True):
            kept.copy_(new)
        for part in (*state_tensors(self.model), self.total):
            part.zero_()
        cycle = state.epoch % settings.adjacency_period
        moved = "adjacency" if state.adjacency is not None and cycle < settings.adjacency_epochs else "features"
        for outer in range(settings.outer_steps):
            if task.drawn:
                self.real.copy_(task.real_rows(generator))
            self._step(moved, outer > 0)()
        return self.total / (settings.outer_steps * len(task.classes))

    def _step(self, moved: str, train: bool) -> Callable[[], None]:
        """An outer step that moves X' or Φ, after inner steps of the model or without."""
        if (moved, train) not in self.steps:
            changed = [self.total, *self.weights, *self.biases, *state_tensors(self.model)]
            optimizer = self.state.optimizers[moved]
            changed += [*optimizer.param_groups[0]["params"], *state_tensors(optimizer)]
            self.steps[moved, train] = recorded(lambda: self._work(optimizer, train), changed)
        return self.steps[moved, train]

    def _work(self, optimizer: torch.optim.Optimizer, train: bool) -> None:
        task, state = self.task, self.state
        x = task.propagate(state.features, state.adjacency)
        if train:
            train_model(self.model, self.weights, self.biases, x.detach(), task.target, self.settings.inner_steps)
        real, _ = loss_gradients(self.real, task.classes, task.real_share, self.weights, self.biases)
        synthetic, _ = loss_gradients(task.rows(x), task.classes, task.share, self.weights, self.biases)
        distance = gradient_distance(real, synthetic, task.coefficient)
        # Only what this optimiser moves needs a gradient.
        parameters = optimizer.param_groups[0]["params"]
        for parameter, gradient in zip(parameters, torch.autograd.grad(distance, parameters), strict=True):
            parameter.grad = gradient
        optimizer.step()
        self.total += distance.detach()


@torch.no_grad()
def train_model(
    optimizer: torch.optim.Optimizer, weights: list[Tensor], biases: list[Tensor], x: Tensor, target: Tensor, steps: int
) -> None:
    """Let the model learn from the condensed nodes, all of them at every step."""
    share = torch.full((len(x),), 1 / len(x), device=x.device)
    for _ in range(steps):
        by_weight, by_bias = loss_gradients(x, target, share, weights, biases)
        for parameter, gradient in zip([*weights, *biases], [*by_weight, *by_bias], strict=True):
            parameter.grad = gradient
        optimizer.step()


def adam(parameters: Sequence[Tensor], rate: float) -> torch.optim.Adam:
    """Adam whose state exists from the start, as a recording needs it."""
    optimizer = torch.optim.Adam(parameters, lr=rate, fused=True, capturable=parameters[0].is_cuda)
    for parameter in parameters:
        step = torch.zeros((), device=parameter.device)
        first, second = torch.zeros_like(parameter), torch.zeros_like(parameter)
        optimizer.state[parameter] = {"step": step, "exp_avg": first, "exp_avg_sq": second}
    return optimizer


def state_tensors(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """The tensors of an optimiser's state, for all of its parameters."""
    parameters = optimizer.param_groups[0]["params"]
    return [part for parameter in parameters for part in optimizer.state[parameter].values()]


@dataclass(frozen=True)
class LoopRecord:
    """What a checkpoint says beside its tensors; :class:`State` explains it."""

    epoch: Count
    curve: list[float]
    choice: dict[str, int | float]


@dataclass
class State:
    """What a run has learned so far.

    Attributes:
        features: X'.
        adjacency: g_Φ; None where A' = I.
        optimizers: of X' and of Φ.
        epoch: epochs done.
        curve: mean matching distance of every epoch.
        best: features and edges of the best of the epochs that were evaluated.
        choice: which epoch that was, and its accuracy on validation labels or, without any, on training labels.
    """

    features: Tensor
    adjacency: PairAdjacency | None
    optimizers: dict[str, torch.optim.Adam]
    epoch: int = 0
    curve: list[float] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)
    choice: dict[str, float | int] = field(default_factory=dict)

    @torch.no_grad()
    def result(self, threshold: float) -> dict[str, Tensor]:
        """X' and the edges of A', as they are now."""
        result = {"features": self.features.detach().clone()}
        if self.adjacency is not None:
            result["edge_index"], result["edge_weight"] = strong_edges(self.adjacency(self.features), threshold)
        return result

    def keep_best(self, result: dict[str, Tensor], accuracy: float, *, validated: bool) -> None:
        """Keep this result if it does better than the best so far.

        Training labels are easily all classified: there the later of two equal epochs counts.
        """
        name = "validation_accuracy" if validated else "training_accuracy"
        best = self.choice.get(name, -1.0)
        if accuracy > best or (accuracy == best and not validated):
            self.best, self.choice = result, {"epoch": self.epoch, name: accuracy}

    def save(self, file: Checkpoint, generator: torch.Generator) -> None:
        """Write everything that the epochs to come depend on."""
        tensors = {"generator": generator.get_state(), **{f"best {name}": part for name, part in self.best.items()}}
        for name, optimizer in self.optimizers.items():
            tensors |= pack(optimizer, f"{name} ")
        file.save(tensors, {"epoch": self.epoch, "curve": self.curve, "choice": self.choice})

    def restore(self, file: Checkpoint, generator: torch.Generator) -> None:
        """Resume from a checkpoint, if there is one."""
        found = file.load()
        if found is None:
            return
        tensors, values = found
        with file.resuming():
            saved = read(LoopRecord, values)
            self.epoch, self.curve, self.choice = saved.epoch, saved.curve, saved.choice
            generator.set_state(tensors["generator"])
            best = {name.removeprefix("best "): part for name, part in tensors.items() if name.startswith("best ")}
            if not best.keys() <= {"features", "edge_index", "edge_weight"}:
                raise ValueError(f"its best result has {', '.join(best)}")
            self.best = {name: part.to(self.features.device) for name, part in best.items()}
            for name, optimizer in self.optimizers.items():
                unpack(optimizer, tensors, f"{name} ")
