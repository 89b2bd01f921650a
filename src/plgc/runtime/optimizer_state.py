"""Parameters and the state of their optimiser as named tensors, for checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


def pack(optimizer: torch.optim.Optimizer, name: str = "") -> dict[str, Tensor]:
    """The parameters of an optimiser, and its state of each.

    Args:
        optimizer: with one group of parameters or several.
        name: put before every key, to tell optimisers apart.
    """
    tensors: dict[str, Tensor] = {}
    for number, parameter in enumerate(_parameters(optimizer)):
        tensors[f"{name}parameter {number}"] = parameter
        state = optimizer.state.get(parameter, {})
        tensors |= {f"{name}optimizer {number} {key}": value for key, value in state.items()}
    return tensors


def unpack(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], name: str = "") -> None:
    """Put back what :func:`pack` gave, on the device of each parameter; ValueError where shapes differ."""
    for number, parameter in enumerate(_parameters(optimizer)):
        begin = f"{name}optimizer {number} "
        state = {key.removeprefix(begin): value for key, value in tensors.items() if key.startswith(begin)}
        saved = tensors[f"{name}parameter {number}"]
        if saved.shape != parameter.shape or any(part.shape not in (saved.shape, ()) for part in state.values()):
            raise ValueError(f"{name}parameter {number} has shape {tuple(saved.shape)}, not {tuple(parameter.shape)}")
        with torch.no_grad():
            parameter.copy_(saved)
        optimizer.state[parameter] = {key: value.to(parameter.device) for key, value in state.items()}


def _parameters(optimizer: torch.optim.Optimizer) -> Sequence[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
