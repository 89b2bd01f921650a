"""Where our own condensation stands, kept in a checkpoint and taken up again, so that nothing is lost with a process.

A run that goes on from here ends with the same bytes as one that was never stopped: everything that later epochs depend
on is kept (weights, prototypes, what the optimiser remembers, the random generator, Sinkhorn's potentials, curves, X'),
and nothing else is random.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from plgc.method.stage_one import StageOne
from plgc.runtime.checkpoint import Checkpoint
from plgc.runtime.progress import Progress

POTENTIALS = 2  # one for each view
NOTHING = Checkpoint(None, "")


@dataclass
class Curves:
    """What is kept of the training: losses of both stages and the label-free score after every round."""

    pseudo_label_loss: list[float] = field(default_factory=list)
    explained: list[float] = field(default_factory=list)
    synthesis_loss: list[float] = field(default_factory=list)


class Standing:
    """How far a run has come.

    Attributes:
        phase: what was under way, ``twins`` (the model choice) or ``rounds``.
        twin_epochs: for how long the twin encoders have been trained.
        agreement: theirs, once they are compared.
        curves: of the rounds so far; they also say how many epochs and rounds are done.
        features: X' as the last finished round left it, where it carries over.
    """

    def __init__(self, file: Checkpoint = NOTHING) -> None:
        self.file = file
        self.tensors, values = file.load() or ({}, {})
        self.phase: str = values.get("phase", "")
        self.twin_epochs: int = values.get("twin_epochs", 0)
        self.agreement: float | None = values.get("agreement")
        self.curves = Curves(**values.get("curves", {}))
        self.features: Tensor | None = self.tensors.pop("features", None)

    def announce(self, progress: Progress, rounds: int) -> None:
        """Say where the run goes on, or that what lies in the folder belongs to others."""
        if epochs := self.twin_epochs + len(self.curves.pseudo_label_loss):
            progress(f"going on after epoch {epochs}, from {self.file.path}", len(self.curves.explained), rounds)
        elif self.file.path is not None and self.file.others():
            other = "checkpoints of another graph, seed or setting only: starting afresh"
            progress(f"{self.file.path.parent} has {other}", 0, rounds)

    def take_up(self, phase: str, stage: StageOne) -> None:
        """Begin a phase with a stage that has just been started: if the checkpoint is of this phase, from there."""
        if self.tensors and self.phase == phase:
            restore(stage, self.tensors)
            self.tensors = {}
            if self.features is not None:
                self.features = self.features.to(stage.prototypes.device)
        self.phase = phase

    def keep(self, stage: StageOne) -> None:
        """Write down where everything stands, if it is time to."""
        if self.file.due():
            tensors = state(stage) | ({} if self.features is None else {"features": self.features})
            values = {name: getattr(self, name) for name in ("phase", "twin_epochs", "agreement")}
            self.file.save(tensors, {**values, "curves": asdict(self.curves)})


def state(stage: StageOne) -> dict[str, Tensor]:
    """Everything a stage carries from one epoch to the next, by name."""
    tensors: dict[str, Tensor] = {"generator": stage.generator.get_state(), "draws": stage.draws.get_state()}
    for number, parameter in enumerate(_parameters(stage)):
        tensors[f"parameter {number}"] = parameter
        memory: dict[str, Any] = stage.optimizer.state.get(parameter, {})
        tensors |= {f"optimizer {number} {name}": value for name, value in memory.items()}
    return tensors | {f"potential {view}": value for view, value in enumerate(stage.potentials) if value is not None}


def restore(stage: StageOne, tensors: dict[str, Tensor]) -> None:
    """Put back what :func:`state` has taken down."""
    stage.generator.set_state(tensors["generator"])
    stage.draws.set_state(tensors["draws"])
    device = stage.prototypes.device
    for number, parameter in enumerate(_parameters(stage)):
        with torch.no_grad():
            parameter.copy_(tensors[f"parameter {number}"])
        begin = f"optimizer {number} "
        memory = {name.removeprefix(begin): value for name, value in tensors.items() if name.startswith(begin)}
        stage.optimizer.state[parameter] = {name: value.to(device) for name, value in memory.items()}
    found = [tensors.get(f"potential {view}") for view in range(POTENTIALS)]
    stage.potentials = [None if potential is None else potential.to(device) for potential in found]


def _parameters(stage: StageOne) -> list[Tensor]:
    return stage.optimizer.param_groups[0]["params"]
