"""Condensation without training: cluster each class's propagated features, keep weighted means (CGC-X and GECC).

Both replace a class's training nodes by as many parts as it has synthetic nodes; X' are means over the parts, A' = I.

- **CGC-X** (Gao et al., "Rethinking and Accelerating Graph Condensation: A Training-Free Approach with Class
  Partition", WWW 2025, without a graph): rows of Â²X and, as augmentation, some of ÂX; spectral clustering; a node
  counts in its part by softmax(confidence / τ), the confidence being that of a linear classifier on (X + ÂX + Â²X) / 3.
- **GECC** (Mishra et al., "Scalable Graph Condensation with Evolving Capabilities", 2025): rows of γX + αÂX + βÂ²X;
  fuzzy c-means, the best of many starts by its objective plus λ times the imbalance of the parts.

Only labels of training nodes are read. The clusterings are in :mod:`plgc.rivals.clustering`; random numbers are drawn
on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.backbone import propagated_features
from plgc.graphs.catalog import normalised
from plgc.rivals.clustering import cluster, spectral_embedding
from plgc.rivals.coreset import class_shares
from plgc.rivals.frame import RivalRun
from plgc.rivals.scaling import with_chosen_scaling
from plgc.runtime.errors import SettingError
from plgc.runtime.options import check_ranges
from plgc.sparse.adjacency import propagate
from plgc.sparse.inputs import Inputs


@dataclass(frozen=True)
class CGCSettings:
    """CGC-X's settings; the defaults are those of its code for graphs it does not name.

    Attributes:
        temperature: τ of the weights within a part; large: all nodes alike, small: the most confident alone.
        augmentation: how many rows of ÂX join those of Â²X, per training node.
        restarts: starts of k-means on the spectral embedding; the best is taken.
    """

    temperature: float = 10.0
    augmentation: float = 0.55
    restarts: int = 10

    def __post_init__(self) -> None:
        check_ranges(self, {"temperature": "(0, inf)", "augmentation": "[0, inf)", "restarts": "[1, inf)"})


@dataclass(frozen=True)
class GECCSettings:
    """GECC's settings; the defaults are those of Cora.

    Attributes:
        hops: γ, α, β: the weights of X, ÂX, Â²X.
        fuzziness: m of fuzzy c-means; 1 is k-means.
        restarts: starts of the clustering; the best is taken.
        balance: λ, the weight of Σ (size of a part − mean size)² in that choice.
    """

    hops: tuple[float, ...] = (-0.1, 0.9, 0.9)
    fuzziness: float = 1.3
    restarts: int = 50
    balance: float = 1.0

    def __post_init__(self) -> None:
        if not self.hops:
            raise SettingError("hops is empty: give the weight of X, then of ÂX, and so on")
        check_ranges(self, {"fuzziness restarts": "[1, inf)", "balance": "[0, inf]"})


# By graph and number of synthetic nodes (temperature, augmentation); the nearest size is taken for the others.
CGC_PUBLISHED: dict[str, dict[int, tuple[float, float]]] = {
    "cora": {35: (0.7, 0.3), 70: (10.0, 0.7), 140: (0.7, 0.3)},
    "citeseer": {30: (0.1, 0.6), 60: (0.1, 0.8), 120: (10.0, 0.7)},
    "ogbn-arxiv": {90: (0.3, 0.7), 454: (0.3, 0.4), 909: (10.0, 0.8)},
    "flickr": {44: (0.1, 0.4), 223: (0.08, 0.5), 446: (0.005, 0.6)},
    "reddit": {77: (10.0, 0.8), 153: (10.0, 0.2), 307: (10.0, 0.2)},
}
GECC_PUBLISHED: dict[str, GECCSettings] = {
    "cora": GECCSettings(),
    "citeseer": GECCSettings((-0.3, 0.5, 0.9)),
    "pubmed": GECCSettings((-0.2, 0.3, 0.9), fuzziness=1.1),
    "ogbn-arxiv": GECCSettings((0.6, 0.5, 0.0), fuzziness=1.0, restarts=1),
    # On its inductive graphs the code stops one hop short: there is no third weight.
    "flickr": GECCSettings((0.3, 0.2), fuzziness=1.0, restarts=1, balance=10.0),
    "reddit": GECCSettings((0.7, 0.2), fuzziness=1.0, restarts=1),
}
GECC_LARGE = GECCSettings((0.6, 0.5, 0.0), fuzziness=1.0, restarts=1)  # fifty fuzzy starts take too long there
LARGE = 5000  # training nodes


def published_settings(method: str, name: str, nodes: int, training_nodes: int) -> CGCSettings | GECCSettings:
    """The settings published for a graph and a size, or the default for other graphs."""
    name = normalised(name)
    if method == "gecc":
        return GECC_PUBLISHED.get(name, GECC_LARGE if training_nodes > LARGE else GECCSettings())
    sizes = CGC_PUBLISHED.get(name)
    if sizes is None:
        return CGCSettings()
    return CGCSettings(*sizes[min(sizes, key=lambda size: abs(math.log(size / max(nodes, 1))))])


def condense_by_partition(run: RivalRun) -> CondensedGraph:
    """Cluster the training nodes of every class, and keep one weighted mean of each part: ``cgc-x`` or ``gecc``.

    Nodes are divided among the classes in proportion; there are at most as many as have a training label. The seed
    draws the starting points and the augmentation.
    """
    labels, run = run.labels, with_chosen_scaling(run)
    run = run.using(run.settings or published_settings(run.method, run.graph.name, run.nodes, labels.train.numel()))
    settings, generator = run.settings, torch.Generator().manual_seed(run.seed)
    y = labels.y[labels.train].to(run.device)
    if isinstance(settings, CGCSettings) and run.method == "cgc-x":
        hops = hop_features(run.inputs, labels.train, 2)
        rows, y, confidence = cgc_rows(hops, y, labels.classes, settings, generator)
        cut = _cgc_parts(confidence, settings, generator)
    elif isinstance(settings, GECCSettings) and run.method == "gecc":
        hops = hop_features(run.inputs, labels.train, len(settings.hops) - 1)
        rows = torch.stack([weight * hop for weight, hop in zip(settings.hops, hops, strict=True)]).sum(0)
        cut = _gecc_parts(settings, generator)
    else:
        raise SettingError(f"{run.method} with {type(settings).__name__}: give the settings of this method")
    features, classes, counts = [], [], []
    shares = class_shares(labels.y, labels.train, run.nodes)
    for done, (label, parts) in enumerate(shares.items()):
        members = (y == label).nonzero().flatten()
        weights, count = cut(rows, members, parts)
        features.append(weights.to(rows.dtype) @ rows[members])
        classes.append(torch.full((parts,), label))
        counts.append(count.cpu())
        run.report(f"class {label}: {members.numel()} rows in {parts} parts", done + 1, len(shares))
    return run.finish(torch.cat(features), torch.cat(counts), labels=torch.cat(classes))


def hop_features(inputs: Inputs, rows: Tensor, hops: int) -> list[Tensor]:
    """Rows of X, ÂX, Â²X, …, one dense [n, f] for every number of hops from 0."""
    hidden, rows = propagated_features(inputs, 0), rows.to(inputs.device)
    found = [hidden[rows]]
    for _ in range(hops):
        hidden = propagate(inputs.adjacency, hidden)
        found.append(hidden[rows])
    return found


# CGC-X


def cgc_rows(
    hops: list[Tensor], y: Tensor, classes: int, settings: CGCSettings, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """What CGC clusters: rows of Â²X and drawn rows of ÂX, their classes, and a linear classifier's confidence in them.

    Rows of ÂX are drawn with replacement, from a class in proportion to 1 − F1: more where the classifier is wrong.
    """
    linear = linear_classifier(torch.stack(hops).mean(0), y, classes)
    sure = confidence(hops[2] @ linear, y)
    extra = int(settings.augmentation * y.numel())
    if extra == 0:
        return hops[2], y, sure
    weight = (1 - class_f1((hops[1] @ linear).argmax(1), y, classes))[y] + 1e-20
    drawn = torch.multinomial(weight.cpu().double(), extra, replacement=True, generator=generator).to(y.device)
    sure_drawn = confidence(hops[1][drawn] @ linear, y[drawn])
    return torch.cat([hops[2], hops[1][drawn]]), torch.cat([y, y[drawn]]), torch.cat([sure, sure_drawn])


def linear_classifier(x: Tensor, y: Tensor, classes: int) -> Tensor:
    """W of least ‖XW − one-hot(y)‖, and of least norm among those, [f, C]."""
    target = F.one_hot(y, classes).to(x.dtype)
    return torch.linalg.lstsq(x.cpu(), target.cpu(), driver="gelss").solution.to(x.device)


def confidence(scores: Tensor, y: Tensor) -> Tensor:
    """Probability of every row's own class; where another one is likelier, the least of all."""
    probability = scores.softmax(1)
    own = probability.gather(1, y[:, None]).flatten()
    return torch.where(probability.argmax(1) == y, own, own.min())


def class_f1(predicted: Tensor, y: Tensor, classes: int) -> Tensor:
    """F1 of every class, 0 where it neither occurs nor is predicted, [C]."""
    hit = torch.bincount(y[predicted == y], minlength=classes)
    both = torch.bincount(y, minlength=classes) + torch.bincount(predicted, minlength=classes)
    return 2 * hit / both.clamp(min=1)


Cut = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]  # rows, members, parts → weights [parts, n], sizes


def _cgc_parts(sure: Tensor, settings: CGCSettings, generator: torch.Generator) -> Cut:
    def parts(rows: Tensor, members: Tensor, number: int) -> tuple[Tensor, Tensor]:
        inside = torch.arange(number, device=members.device)
        if number < members.numel():
            embedding = spectral_embedding(rows[members].double(), number, generator)
            inside = cluster(embedding, number, restarts=settings.restarts, generator=generator)[1].argmax(0)
        own = inside == torch.arange(number, device=members.device)[:, None]
        score = torch.where(own, sure[members].double() / settings.temperature, -torch.inf)
        return score.softmax(1), own.sum(1)

    return parts


# GECC


def _gecc_parts(settings: GECCSettings, generator: torch.Generator) -> Cut:
    def parts(rows: Tensor, members: Tensor, number: int) -> tuple[Tensor, Tensor]:
        weights, membership = cluster(
            rows[members].double(),
            number,
            fuzziness=settings.fuzziness,
            restarts=settings.restarts,
            balance=settings.balance,
            generator=generator,
        )
        return weights, torch.bincount(membership.argmax(0), minlength=number)

    return parts
