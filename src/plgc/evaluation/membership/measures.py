"""How well scores tell members from others: AUC and true-positive rate, with standard errors and 95 % intervals."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from plgc.downstream.tasks.metrics import auroc
from plgc.evaluation.claims import Z

ALLOWED = 0.01  # false-positive rate
RESAMPLES = 200


@dataclass(frozen=True)
class Measured:
    """A share from 0 to 1 with its standard error over the nodes that were drawn."""

    value: float
    error: float


def measure_auc(scores: Tensor, members: Tensor) -> Measured:
    """Area under the ROC curve, with the standard error of DeLong et al. (1988)."""
    inside, outside = scores[members].double(), scores[~members].double()
    above = _share_below(outside, inside)  # of each member: the share of others that it outranks
    below = _share_below(inside, outside)
    spread = [float(part.var()) / len(part) if len(part) > 1 else 0.25 for part in (above, below)]
    return Measured(auroc(scores, members), sum(spread) ** 0.5)


def _share_below(reference: Tensor, values: Tensor) -> Tensor:
    """The share of reference values below each value, equal ones counted half."""
    ordered = reference.sort().values
    low, high = (torch.searchsorted(ordered, values, right=right) for right in (False, True))
    return (low + high).double() / (2 * len(reference))


def true_positive_rate(scores: Tensor, members: Tensor, allowed: float = ALLOWED) -> float:
    """Share of members above the score that at most ``allowed`` of the non-members exceed."""
    others = scores[~members].sort(descending=True).values
    return float((scores[members] > others[int(allowed * len(others))]).double().mean())


def measure_tpr(scores: Tensor, members: Tensor, seed: int = 0) -> Measured:
    """True-positive rate at 1 % false positives, with its standard error by the bootstrap."""
    inside, outside = scores[members].double(), scores[~members].double()
    generator = torch.Generator().manual_seed(seed)
    place, found = int(ALLOWED * len(outside)), []
    for _ in range(RESAMPLES):
        own = inside[torch.randint(len(inside), (len(inside),), generator=generator)]
        others = outside[torch.randint(len(outside), (len(outside),), generator=generator)]
        found.append(float((own > others.topk(place + 1).values[-1]).double().mean()))
    return Measured(true_positive_rate(scores, members), statistics.stdev(found))


def over_seeds(values: Sequence[Measured]) -> dict[str, object]:
    """The mean of several measurements with its 95 % interval.

    Its variance is that between seeds or, where that is smaller, as with a single seed, the mean of those over nodes.
    """
    mean = statistics.fmean(one.value for one in values)
    nodes = statistics.fmean(one.error**2 for one in values)
    seeds = statistics.variance(one.value for one in values) if len(values) > 1 else 0.0
    half = Z * (max(nodes, seeds) / len(values)) ** 0.5
    return {
        "mean": mean,
        "interval": [max(0.0, mean - half), min(1.0, mean + half)],
        "values": [one.value for one in values],
    }
