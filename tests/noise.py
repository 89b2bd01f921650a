"""Noise with a sub-Gaussian parameter of at most 1 in every direction."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

# Coordinates are independent, each with parameter 1.
NOISE: dict[str, Callable[[tuple[int, ...], torch.Generator], Tensor]] = {
    "gaussian": lambda shape, generator: torch.randn(shape, generator=generator, dtype=torch.float64),
    # its variance: a uniform variable on [−√3, √3] is strictly sub-Gaussian
    "uniform": lambda shape, generator: (
        math.sqrt(3) * (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1)
    ),
    "signs": lambda shape, generator: torch.randint(0, 2, shape, generator=generator).double() * 2 - 1,
}
