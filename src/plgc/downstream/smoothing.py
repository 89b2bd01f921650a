"""How a head is trained, and how its predictions are smoothed over the graph."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from plgc.runtime.options import check_ranges
from plgc.sparse.adjacency import Adjacency, propagate

TINY = 1e-12  # below every probability: logarithms stay finite


@dataclass(frozen=True)
class HeadSettings:
    """How a head is trained and how its predictions are smoothed.

    Attributes:
        penalty: c in mean cross-entropy + (c / labels) · ‖W‖², of every logistic regression: the fewer labels, the
            stronger.
        steps: gradient steps of every logistic regression.
        smoothing_steps: products with Â that spread the predicted probabilities over the graph; 0 for none.
        restart: share of the original prediction mixed back in at every step.
        self_training: whether few labels are helped by unlabelled nodes (:mod:`plgc.downstream.self_training`).
    """

    penalty: float = 0.04
    steps: int = 100
    smoothing_steps: int = 10
    restart: float = 0.1
    self_training: bool = True

    def __post_init__(self) -> None:
        check_ranges(self, {"steps": "[1, inf)", "penalty smoothing_steps restart": "[0, inf)"})


def smooth(probability: Tensor, adjacency: Adjacency | None, settings: HeadSettings) -> Tensor:
    """Spread predictions over the graph: P ← (1 − restart) Â P + restart P₀, scaled back to sum to one.

    Without an Â, or without steps, predictions stay as they are.

    Args:
        probability: P₀, [N, C]; or several side by side, [N, …, C].
        adjacency: Â.
        settings: steps and restart.
    """
    if adjacency is not None and settings.smoothing_steps > 0:
        start = probability.flatten(1)
        current, restart = start.clone(), settings.restart * start
        for _ in range(settings.smoothing_steps):
            # in place: of a large graph a fresh matrix costs as much as the product
            current = propagate(adjacency, current).mul_(1 - settings.restart).add_(restart)
        probability = current.view_as(probability)
    return probability / probability.sum(dim=-1, keepdim=True)
