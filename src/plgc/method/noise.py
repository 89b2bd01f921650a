"""Noise that cannot be taken away without the graph: where it comes from, how much there is, and what is left below it.

A number with noise of n standard errors tells about 1 / (1 + n²) of what it would tell without. What all numbers tell
together is a budget, which is shared out so that the main differences, and common words, are known best.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from plgc.method.contrasts import Contrasts

BY_SPREAD = 0.5  # noise grows with this power of λ_1 / λ_r, and
BY_USERS = 0.25  # with this one of the commonest word's users / users
MOVED = 1 / 3  # of its noise, by which one node moves a number at most
TINY = 1e-30  # below every length that is divided by


@dataclass(frozen=True)
class Published:
    """Sums with noise.

    Attributes:
        sums: [R, c]; 0 where nothing is published.
        z: the sums in standard deviations of noise and chance together, [R, c].
        share: how far one node moves any of them, at most, in standard deviations of the noise.
    """

    sums: Tensor
    z: Tensor
    share: float


class Noise:
    """Normal draws that depend on a secret and on nothing else: the same on every device and with every library."""

    def __init__(self, secret: str) -> None:
        self.secret, self.drawn = secret, 0

    def normal(self, like: Tensor) -> Tensor:
        """As many draws as ``like`` has values, in its shape."""
        self.drawn += 1
        stream = hashlib.shake_256(f"plgc private release {self.secret} {self.drawn}".encode())
        whole = np.frombuffer(stream.digest(8 * like.numel()), dtype="<u8")
        uniform = ((whole >> 11).astype(np.float64) + 0.5) / 2**53
        return torch.special.ndtri(torch.from_numpy(uniform)).to(like).view_as(like)


def publish(found: Contrasts, noise: Tensor, draws: Noise) -> Published:
    """Sums with noise of so many standard errors, [R, c], more where one node would move them too far; inf: nothing."""
    spread = torch.maximum(noise.to(found.error) * found.error, found.largest / MOVED)
    known = (spread > 0) & torch.isfinite(spread)
    share = (found.largest / spread)[known]
    spread = torch.where(known, spread, 0.0)
    sums = torch.where(known, found.sums, 0.0) + spread * draws.normal(found.sums)
    z = torch.where(known, sums / (spread.square() + found.error.square()).sqrt().clamp(min=TINY), 0.0)
    return Published(sums, z, float(share.max()) if len(share) else 0.0)


def shared_out(spread: Tensor, users: Tensor, budget: float) -> Tensor:
    """Noise n_rj of every contrast in standard errors, with Σ 1 / (1 + n²) = ``budget``, [R, c]; 0 if that is too much.

    Args:
        spread: λ, [R].
        users: of every word, [c].
        budget: β N.
    """
    relative = (spread[0] / spread)[:, None] ** BY_SPREAD * (users.max() / users.double())[None] ** BY_USERS
    low, high = 1e-6, 1e6
    for _ in range(100):
        middle = math.sqrt(low * high)
        told = float((1 / (1 + (middle * relative) ** 2)).sum())
        low, high = (middle, high) if told > budget else (low, middle)
    return high * relative if high > 1e-5 else torch.zeros_like(relative)


def shrunk(z: Tensor, listed: Tensor | None = None) -> Tensor:
    """How much of published contrasts is no chance, [R, 1] or, with ``listed``, [R, c].

    1 − 1 / z̄² with the mean z² of a row, over the columns that are ``listed``; then 1 − 1 / z² of every value too, of
    which few are large. At least 0.
    """
    square = z.square()
    together = (1 - 1 / (square if listed is None else square[:, listed]).mean(1, keepdim=True).clamp(min=1)).clamp(
        min=0
    )
    return together if listed is None else together * (1 - 1 / square.clamp(min=1))
