"""Settings of the experts' training."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from plgc.runtime.errors import SettingError

OPTIMIZERS = ("sgd", "adam")
PACES = ("all", "linear", "root", "geom")
STORAGES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class ExpertSettings:
    """How experts are trained.

    Attributes:
        experts: how many; fewer are the first of more.
        epochs: of training; no more are run than are kept of it.
        optimizer: ``sgd`` or ``adam``.
        learning_rate: of it.
        weight_decay: on every parameter.
        hidden: width.
        pace: how the curriculum grows: ``all`` nodes from the start, ``linear``, ``root`` or ``geom``.
        easy_share: λ, the share of training nodes that the first epoch sees.
        pace_epochs: T, when all are seen.
        storage: ``float32``, or ``bfloat16`` for half of the memory.
    """

    experts: int = 200
    epochs: int = 2500
    optimizer: str = "sgd"
    learning_rate: float = 0.4
    weight_decay: float = 0.0
    hidden: int = 256
    pace: str = "all"
    easy_share: float = 1.0
    pace_epochs: int = 1
    storage: str = "float32"

    def __post_init__(self) -> None:
        for name in ("experts", "epochs", "hidden", "pace_epochs"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name}={getattr(self, name)}: give at least 1")
        for name, allowed in (("optimizer", OPTIMIZERS), ("pace", PACES), ("storage", tuple(STORAGES))):
            if getattr(self, name) not in allowed:
                raise SettingError(f"unknown {name} {getattr(self, name)!r}: choose {', '.join(allowed)}")
        if not self.learning_rate > 0 or self.weight_decay < 0:
            raise SettingError(
                f"learning_rate={self.learning_rate}, weight_decay={self.weight_decay}: give a rate above 0 and a "
                "decay of 0 or more"
            )
        if not 0 < self.easy_share <= 1:
            raise SettingError(f"easy_share={self.easy_share}: give a share above 0, at most 1")
