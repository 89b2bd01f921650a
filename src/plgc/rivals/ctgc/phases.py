"""The minimisations that CTGC (:mod:`plgc.rivals.ctgc.condense`) is made of, one after the other, with checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from plgc.runtime.checkpoint import Checkpoint
from plgc.runtime.optimizer_state import pack, unpack
from plgc.runtime.progress import Progress
from plgc.runtime.schema import Count, read

REPORT_EVERY, SAVE_EVERY = 10, 50  # steps; the second a multiple of the first
STREAMS = 1000  # random streams of one seed: more than a run has minimisations


@dataclass(frozen=True)
class PhasesRecord:
    """What a checkpoint says beside its tensors: phases that are finished, steps of the next one, losses by phase."""

    finished: Count = 0
    step: Count = 0
    curves: dict[str, list[float]] = field(default_factory=dict)


class Phases:
    """A run as a sequence of minimisations, each with its own Adam and random streams, that a checkpoint can resume.

    ``kept`` holds the latest value of everything learned so far. On resuming, finished phases only put those back: a
    phase sees the same values as in a run that was never stopped, since every one before it has run to its end.
    """

    def __init__(self, checkpoint: Checkpoint, seed: int, device: str, steps: int, progress: Progress):
        tensors, values = checkpoint.load() or ({}, {})
        self.checkpoint, self.seed, self.device, self.steps, self.progress = checkpoint, seed, device, steps, progress
        self.kept = {name.removeprefix("kept "): t for name, t in tensors.items() if name.startswith("kept ")}
        self.running = {name: tensor for name, tensor in tensors.items() if not name.startswith("kept ")}
        with checkpoint.resuming():
            saved = read(PhasesRecord, values)
        self.finished, self.step, self.curves = saved.finished, saved.step, saved.curves
        self.phase, self.done = 0, 0

    def report(self, message: str) -> None:
        """Report progress."""
        self.progress(message, self.done, self.steps)

    def once(self, names: tuple[str, ...], make: Callable[[], tuple[Tensor, ...]]) -> list[Tensor]:
        """Values that are made once and kept."""
        if names[0] not in self.kept:
            self.kept.update({name: value.cpu() for name, value in zip(names, make(), strict=True)})
        return [self.kept[name].to(self.device) for name in names]

    def minimise(
        self,
        message: str,
        parameters: dict[str, Tensor],
        loss: Callable[[torch.Generator], Tensor],
        steps: int,
        learning_rate: float,
        weight_decay: float,
        model: nn.Module,
    ) -> None:
        """Take ``steps`` of Adam on the parameters in place; every tenth loss is kept in ``curves[message]``.

        The model is in training mode meanwhile (dropout), afterwards not.
        """
        phase, self.phase = self.phase, self.phase + 1
        model.eval()
        if phase < self.finished:
            with torch.no_grad(), self.checkpoint.resuming():
                for name, parameter in parameters.items():
                    parameter.copy_(self.kept[name])
            self.done += steps
            return
        stream = self.seed * STREAMS + phase
        optimizer = torch.optim.Adam(list(parameters.values()), lr=learning_rate, weight_decay=weight_decay, fused=True)
        draws = torch.Generator().manual_seed(stream)
        model.train()
        with torch.random.fork_rng(devices=[self.device] if self._on_gpu else []):
            torch.manual_seed(stream)  # dropout draws from torch's own generator
            if self.step:
                with self.checkpoint.resuming():
                    self._restore(optimizer, draws)
            for step in range(self.step + 1, steps + 1):
                value = loss(draws)
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
                if step % REPORT_EVERY == 0 or step == steps:
                    self.curves.setdefault(message, []).append(float(value.detach()))
                    if step < steps:
                        if step % SAVE_EVERY == 0:
                            self._save(self._state(optimizer, draws), step)
                        self.progress(message, self.done + step, self.steps)
        model.eval()
        self.kept.update({name: tensor.detach().cpu().clone() for name, tensor in parameters.items()})
        self.finished, self.step, self.done = phase + 1, 0, self.done + steps
        self._save({}, 0)
        self.report(message)

    def _save(self, running: dict[str, Tensor], step: int) -> None:
        values = {"finished": self.finished, "step": step, "curves": self.curves}
        self.checkpoint.save({**{f"kept {name}": tensor for name, tensor in self.kept.items()}, **running}, values)

    @property
    def _on_gpu(self) -> bool:
        return torch.device(self.device).type == "cuda"

    def _state(self, optimizer: torch.optim.Optimizer, draws: torch.Generator) -> dict[str, Tensor]:
        dropout = torch.cuda.get_rng_state(self.device) if self._on_gpu else torch.get_rng_state()
        return {**pack(optimizer), "draws": draws.get_state(), "dropout": dropout}

    def _restore(self, optimizer: torch.optim.Optimizer, draws: torch.Generator) -> None:
        unpack(optimizer, self.running)
        draws.set_state(self.running["draws"])
        if self._on_gpu:
            torch.cuda.set_rng_state(self.running["dropout"], self.device)
        else:
            torch.set_rng_state(self.running["dropout"])


def named(prefix: str, model: nn.Module) -> dict[str, Tensor]:
    """A model's parameters by name."""
    return {f"{prefix} {name}": parameter for name, parameter in model.named_parameters()}
