"""The light head f_φ: multinomial logistic regression on frozen embeddings, its predictions smoothed over the graph.

The penalty on the weights is divided by the number of labels: a head with 20 labels is regularised seven times as
strongly as one with 140. Every method and every control in our tables is scored with this head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.downstream.embedder import unit_parts
from plgc.runtime.options import check_ranges
from plgc.sparse.adjacency import Adjacency, propagate


@dataclass(frozen=True)
class HeadSettings:
    """How a head is trained and how its predictions are smoothed.

    Attributes:
        epochs: steps of Adam, from zero weights.
        learning_rate: of those steps.
        penalty: c in mean cross-entropy + (c / labels) · ‖W‖².
        smoothing_steps: products with Â that spread the predicted probabilities over the graph; 0 for none.
        restart: share of the original prediction mixed back in at every step.
    """

    epochs: int = 200
    learning_rate: float = 0.05
    penalty: float = 0.04
    smoothing_steps: int = 10
    restart: float = 0.1

    def __post_init__(self) -> None:
        rules = {"epochs": "[1, inf)", "penalty smoothing_steps restart": "[0, inf)", "learning_rate": "(0, inf)"}
        check_ranges(self, rules)


@dataclass(frozen=True)
class Head:
    """φ: weights and bias, with the mean and the parts of the embeddings it was trained on."""

    weight: Tensor
    bias: Tensor
    mean: Tensor
    parts: Mapping[str, int]
    settings: HeadSettings

    @property
    def num_classes(self) -> int:
        """C."""
        return self.bias.numel()

    def probabilities(self, embedding: Tensor, adjacency: Adjacency | None) -> Tensor:
        """Class probabilities of every node, smoothed over the graph, [N, C]; not smoothed without an Â."""
        return self.of_rows(unit_parts(embedding, self.mean, self.parts), adjacency)

    def of_rows(self, rows: Tensor, adjacency: Adjacency | None) -> Tensor:
        """The same for an embedding that is centred and scaled already."""
        return smooth(torch.softmax(rows @ self.weight + self.bias, dim=1), adjacency, self.settings)

    def header(self) -> dict[str, Any]:
        """What a model file describes beside the tensors."""
        return asdict(self.settings)

    @staticmethod
    def from_file(tensors: dict[str, Tensor], header: dict[str, Any], parts: Mapping[str, int]) -> Head:
        """The head of a model file; raises ValueError where it does not fit the embedding's parts."""
        weight, bias, mean = (tensors[name] for name in ("weight", "bias", "mean"))
        columns = sum(parts.values())
        if weight.shape != (columns, bias.numel()) or mean.shape != (columns,):
            raise ValueError(f"the head has shape {tuple(weight.shape)}, the backbone gives {columns} columns")
        return Head(weight, bias, mean, parts, HeadSettings(**header))


def smooth(probability: Tensor, adjacency: Adjacency | None, settings: HeadSettings) -> Tensor:
    """Spread predictions over the graph: P ← (1 − restart) Â P + restart P₀, scaled back to sum to one.

    Without an Â, or without steps, predictions stay as they are.
    """
    if adjacency is None or settings.smoothing_steps == 0:
        return probability / probability.sum(dim=1, keepdim=True)
    current, restart = probability.clone(), settings.restart * probability
    for _ in range(settings.smoothing_steps):
        # in place: of a large graph a fresh matrix costs as much as the product
        current = propagate(adjacency, current).mul_(1 - settings.restart).add_(restart)
    return current.div_(current.sum(dim=1, keepdim=True))


def fit_head(
    embedding: Tensor,
    parts: Mapping[str, int],
    labelled: Tensor,
    y: Tensor,
    num_classes: int,
    settings: HeadSettings | None = None,
    score: Callable[[Head], float] | None = None,
) -> Head:
    """Train a head on the nodes ``labelled`` (indices), whose classes are ``y[labelled]``.

    Args:
        embedding: frozen embeddings of every node, [N, Σ parts].
        parts: widths of the embedding's parts, by name.
        labelled: indices of the nodes to learn from.
        y: labels of every node; only those of ``labelled`` are read.
        num_classes: C.
        settings: epochs, penalty, smoothing.
        score: validation score of a head; where given, the best head of every tenth epoch is kept, else the last.
    """
    settings = settings or HeadSettings()
    mean = embedding.mean(0)
    rows = unit_parts(embedding[labelled], mean, parts)
    target = y[labelled]
    weight = torch.zeros(rows.shape[1], num_classes, device=rows.device, requires_grad=True)
    bias = torch.zeros(num_classes, device=rows.device, requires_grad=True)
    optimizer = torch.optim.Adam([weight, bias], lr=settings.learning_rate, fused=True)
    best, best_score = None, float("-inf")
    for epoch in range(1, settings.epochs + 1):
        penalty = settings.penalty / len(labelled) * weight.pow(2).sum()
        loss = F.cross_entropy(rows @ weight + bias, target) + penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        last = epoch == settings.epochs
        if last or (score is not None and epoch % 10 == 0):
            head = Head(weight.detach().clone(), bias.detach().clone(), mean, parts, settings)
            value = score(head) if score is not None else 0.0
            if value >= best_score:
                best, best_score = head, value
    assert best is not None
    return best
