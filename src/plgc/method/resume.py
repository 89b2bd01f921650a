"""The progress of a condensation: what is saved in a checkpoint, reported, and resumed after a crash.

A resumed run ends with the same bytes as one that was never stopped: everything that later epochs depend on is saved
(weights, prototypes, optimiser state, the random generators, Sinkhorn's potentials, curves, X').
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from torch import Tensor

from plgc.method.settings import PseudoLabelSettings
from plgc.method.stage_one import StageOne
from plgc.runtime.checkpoint import Checkpoint
from plgc.runtime.optimizer_state import pack, unpack
from plgc.runtime.progress import Progress, silent
from plgc.runtime.schema import read

VIEWS = 2


@dataclass
class Curves:
    """Losses of both stages, one value a step, and the label-free score after every round."""

    pseudo_label_loss: list[float] = field(default_factory=list)
    explained: list[float] = field(default_factory=list)
    synthesis_loss: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class RunRecord:
    """What a checkpoint says of a run, beside its tensors; the attributes of :class:`Run` explain it."""

    curves: Curves = field(default_factory=Curves)


class Run:
    """How far a condensation has come.

    Attributes:
        rounds: of stage I, and
        epochs: in all of them.
        curves: of the rounds so far; their lengths are the numbers of finished epochs and rounds.
        features: X' after the last finished round, where it carries over to the next.
    """

    def __init__(self, rules: PseudoLabelSettings, progress: Progress = silent, file: Checkpoint | None = None) -> None:
        self.rounds, self.epochs = rules.rounds, rules.rounds * rules.round_epochs
        self.progress, self.file = progress, file or Checkpoint(None, "")
        self.tensors, values = self.file.load() or ({}, {})
        with self.file.resuming():
            saved = read(RunRecord, values)
        self.curves = saved.curves
        self.features: Tensor | None = self.tensors.pop("features", None)
        if epochs := len(self.curves.pseudo_label_loss):
            self.report(f"resuming after epoch {epochs}, from {self.file.path}")
        elif self.file.path is not None and self.file.others():
            other = "checkpoints of another graph, seed or setting only: starting from the beginning"
            self.report(f"{self.file.path.parent} has {other}")

    def report(self, message: str) -> None:
        """Report a message with the epochs that are finished."""
        self.progress(message, len(self.curves.pseudo_label_loss), self.epochs)

    def report_epoch(self) -> None:
        """Report the round that is under way, with the label-free score after the one before."""
        explained = self.curves.explained
        score = f": pseudo-labels explain {explained[-1]:.1%}" if explained else ""
        self.report(f"stage I, round {len(explained) + 1} of {self.rounds}{score}")

    def resume(self, stage: StageOne) -> StageOne:
        """Begin with a stage that has just been started, from the checkpoint if there is one."""
        if self.tensors:
            with self.file.resuming():
                restore(stage, self.tensors)
                if self.features is not None and len(self.features) != len(stage.prototypes):
                    raise ValueError(f"it has {len(self.features)} synthetic nodes, not {len(stage.prototypes)}")
            self.tensors = {}
            if self.features is not None:
                self.features = self.features.to(stage.prototypes.device)
        return stage

    def save(self, stage: StageOne) -> None:
        """Write a checkpoint, if one is due."""
        if self.file.due():
            tensors = state(stage) | ({} if self.features is None else {"features": self.features})
            self.file.save(tensors, {"curves": asdict(self.curves)})


def state(stage: StageOne) -> dict[str, Tensor]:
    """Everything in a stage that the next epoch depends on, as named tensors."""
    tensors = {"generator": stage.generator.get_state(), "draws": stage.draws.get_state(), **pack(stage.optimizer)}
    return tensors | {f"potential {view}": value for view, value in enumerate(stage.potentials) if value is not None}


def restore(stage: StageOne, tensors: dict[str, Tensor]) -> None:
    """Put back what :func:`state` gave."""
    stage.generator.set_state(tensors["generator"])
    stage.draws.set_state(tensors["draws"])
    unpack(stage.optimizer, tensors)
    found = [tensors.get(f"potential {view}") for view in range(VIEWS)]
    if any(part is not None and part.shape != (len(stage.prototypes),) for part in found):
        raise ValueError(f"its potentials are not of {len(stage.prototypes)} prototypes")
    device = stage.prototypes.device
    stage.potentials = [None if potential is None else potential.to(device) for potential in found]
