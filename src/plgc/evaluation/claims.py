"""What a difference between two models rests on: seeds and test nodes, as one 95 % interval.

Two things vary: the seeds (initial weights, drawn labels, generated splits) and which nodes happen to be tested. With
d_s the difference in accuracy at seed s, and d_i that of node i, averaged over the seeds that test it, the interval is

    N / (N + 2) · mean(d_s) ± √(h_S² + h_N²).

h_S is Student's t over the seeds (no interval with one seed). h_N is that of Bonett and Price (2012) for paired
answers: 1.96 standard errors over the N nodes and two more, one with d = 1 and one with d = −1, so that a few nodes
which all agree do not decide. A difference counts where the interval does not hold 0.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from scipy.special import stdtrit
from torch import Tensor

from plgc.downstream.tasks.answers import Answers

Z = 1.959963984540054  # of a normal distribution, 95 %


def student_half(values: Sequence[float]) -> float | None:
    """Half of the 95 % interval of a mean, by Student's t; None of a single value."""
    if len(values) < 2:
        return None
    return float(stdtrit(len(values) - 1, 0.975)) * statistics.stdev(values) / len(values) ** 0.5


def wilson(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share, 0 to 1, seen on so many nodes (Wilson, 1927)."""
    centre, scale = share + Z**2 / (2 * count), 1 + Z**2 / count
    half = Z * (share * (1 - share) / count + Z**2 / (4 * count**2)) ** 0.5
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


@dataclass(frozen=True)
class Claim:
    """The difference between two models.

    Attributes:
        mean: over the seeds, in the metric's unit.
        interval: 95 %; None with one seed.
        seeds: how many.
        nodes: test nodes, each counted once; None where pairs of nodes are scored: then seeds alone count.
    """

    mean: float
    interval: tuple[float, float] | None
    seeds: int
    nodes: int | None

    @property
    def verdict(self) -> str:
        """``above``, ``below`` or ``cannot be told``."""
        low, high = self.interval or (0.0, 0.0)
        return "above" if low > 0 else "below" if high < 0 else "cannot be told"

    @property
    def rests_on(self) -> str:
        """Seeds and nodes in words."""
        seeds = f"{self.seeds} seed{'' if self.seeds == 1 else 's'}"
        return seeds if self.nodes is None else f"{seeds}, {self.nodes} test node{'' if self.nodes == 1 else 's'}"

    def text(self, digits: int) -> str:
        """The difference, its interval, the verdict and what it rests on, in words."""
        if self.interval is None:
            return f"{self.mean:+.{digits}f}; one seed, so it cannot be told from chance ({self.rests_on})"
        low, high = (f"{value:+.{digits}f}" for value in self.interval)
        return f"{self.mean:+.{digits}f} (95 %: {low} to {high}), {self.verdict} ({self.rests_on})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        interval = None if self.interval is None else list(self.interval)
        return {
            "mean": self.mean,
            "interval": interval,
            "seeds": self.seeds,
            "nodes": self.nodes,
            "verdict": self.verdict,
        }


def claim(ours: Sequence[float], theirs: Sequence[float], nodes: Tensor | None = None) -> Claim:
    """What can be said of a difference.

    Args:
        ours: the metric, seed by seed.
        theirs: that of the other model on the same seeds.
        nodes: differences of the test nodes in per cent, each over its seeds (:func:`node_differences`).
    """
    values = [one - other for one, other in zip(ours, theirs, strict=True)]
    mean, half = statistics.fmean(values), student_half(values)
    count = None if nodes is None else len(nodes)
    if half is None:
        return Claim(mean, None, len(values), count)
    if nodes is None:
        return Claim(mean, (mean - half, mean + half), len(values), None)
    half, centre = (half**2 + _nodes_half(nodes) ** 2) ** 0.5, mean * len(nodes) / (len(nodes) + 2)
    return Claim(mean, (centre - half, centre + half), len(values), count)


def node_differences(ours: Sequence[Answers], theirs: Sequence[Answers]) -> Tensor:
    """How much more often a node is answered rightly, in per cent, each over the seeds that test it, [N]."""
    nodes, place = torch.cat([one.nodes for one in ours]).unique(return_inverse=True)
    gain = torch.cat([one.right.double() - other.right.double() for one, other in zip(ours, theirs, strict=True)])
    total = torch.zeros(len(nodes), dtype=torch.float64).index_add_(0, place, gain)
    return 100 * total / torch.bincount(place)


def _nodes_half(nodes: Tensor) -> float:
    padded = torch.cat([nodes, nodes.new_tensor([100.0, -100.0])])
    return Z * float(padded.var(correction=0)) ** 0.5 / len(padded) ** 0.5
