"""The light head f_φ: one linear map on frozen embeddings, and how far its predictions are smoothed over the graph.

A head's map is a log-linear pool of logistic regressions on different parts of the embedding, whose weights are settled
by evidence (:mod:`plgc.downstream.weighing`): a weighted sum of linear maps is one linear map again. Every method and
every control in our tables is scored with this head; those with a classifier of their own also with that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from torch import Tensor

from plgc.downstream.embedder import Embedding
from plgc.downstream.everywhere import everywhere
from plgc.downstream.regression import LinearMaps
from plgc.downstream.smoothing import HeadSettings
from plgc.runtime.schema import Positive, Share, Within, named_tensors, read
from plgc.sparse.adjacency import Adjacency
from plgc.sparse.on_disk import StoredAdjacency


@dataclass(frozen=True)
class HeadRecord:
    """A head as a model file describes it; before ``sigma``, with the ``epochs`` and ``learning_rate`` of its training.

    What costs time when it is applied is bounded: a file from a stranger decides it.
    """

    penalty: Annotated[float, Within(0)]
    smoothing_steps: Annotated[int, Within(0, 1000)]
    restart: Share
    steps: Positive = 150
    self_training: bool = True
    sigma: Share | None = None
    settled: dict[str, float] = field(default_factory=dict)
    epochs: Positive = 200
    learning_rate: Annotated[float, Within(0, above=True)] = 0.05

    def __post_init__(self) -> None:
        if ("smoothing" in self.settled) != ("weight_of_edges" in self.settled):
            raise ValueError("settled has one of smoothing and weight_of_edges, and not the other")


@dataclass(frozen=True)
class Head:
    """φ: log p = (1 − σ) log P + σ log S, scaled to sum to one; P = softmax(Σ_parts z W + b), S is P smoothed over Â.

    Attributes:
        weight: W on centred parts of unit length, which stand one below the other, [Σ parts, C].
        bias: b, [C].
        mean: of the embeddings that it was trained on, [Σ parts].
        parts: widths of the embedding's parts, by name.
        sigma: σ, 0 to 1.
        settings: how it was trained, and how predictions are smoothed.
        settled: what was settled and by what evidence, as plain values; :func:`describe_head` says it in words.
    """

    weight: Tensor
    bias: Tensor
    mean: Tensor
    parts: Mapping[str, int]
    sigma: float
    settings: HeadSettings
    settled: Mapping[str, float] = field(default_factory=dict)

    @property
    def num_classes(self) -> int:
        """C."""
        return self.bias.numel()

    def probabilities(self, embedding: Embedding, adjacency: Adjacency | StoredAdjacency | None) -> Tensor:
        """Class probabilities of every node, [N, C]; not smoothed without an Â. Of a graph on disk, in a file."""
        nodes = everywhere(embedding, self.parts, adjacency, self.mean)
        return nodes.each(Tensor.exp, nodes.mixed(nodes.log_probabilities(self.maps)[:, 0], self.sigma, self.settings))

    @property
    def maps(self) -> LinearMaps:
        """Its linear map."""
        weights = self.weight.split(list(self.parts.values()))
        return LinearMaps({name: own[:, None] for name, own in zip(self.parts, weights, strict=True)}, self.bias[None])

    def header(self) -> dict[str, Any]:
        """What a model file describes beside the tensors."""
        return {**asdict(self.settings), "sigma": self.sigma, "settled": dict(self.settled)}

    @staticmethod
    def from_file(tensors: dict[str, Tensor], header: dict[str, Any], parts: Mapping[str, int]) -> Head:
        """The head of a model file; raises ValueError where it does not fit the embedding's parts."""
        weight, bias, mean = named_tensors(tensors, "weight", "bias", "mean")
        width = sum(parts.values())
        if bias.ndim != 1 or weight.shape != (width, bias.numel()) or mean.shape != (width,):
            raise ValueError(f"the head has shape {tuple(weight.shape)}, the backbone gives {width} columns")
        found = read(HeadRecord, header, where="head")
        common = {"penalty": found.penalty, "smoothing_steps": found.smoothing_steps, "restart": found.restart}
        if found.sigma is None:  # of a time when all parts counted alike, and predictions were always smoothed
            return Head(weight / len(parts) ** 0.5, bias, mean, parts, 1.0, HeadSettings(**common))
        settings = HeadSettings(**common, steps=found.steps, self_training=found.self_training)
        return Head(weight, bias, mean, parts, found.sigma, settings, found.settled)


def describe_head(settled: Mapping[str, float]) -> str:
    """What a head settled on, as one sentence; empty where nothing had to be settled."""
    if "smoothing" not in settled:
        return ""
    share = settled["weight_of_edges"]
    smoothing = settled["smoothing"]
    verdict = (
        "help" if max(share, smoothing) >= 0.5 else "hardly help" if max(share, smoothing) >= 0.2 else "do not help"
    )
    spread = "not smoothed" if smoothing < 0.05 else f"smoothed over them with weight {smoothing:.0%}"
    words = (
        f"the edges {verdict} here: {share:.0%} of the weight is on parts that use them, and predictions are {spread}"
    )
    strength = settled.get("self_training", 0.0)
    return words + (f"; unlabelled nodes help with strength {strength:.0%}" if strength >= 0.05 else "")
