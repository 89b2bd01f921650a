"""GCDM-X: match the distribution of receptive fields, class by class, under random GNNs; A' = I.

Liu et al., "Graph Condensation via Receptive Field Distribution Matching" (2022). A GCN's hidden layer
φ(v) = ReLU(ÂX W)_v describes a node's receptive field. For many random W, synthetic features X' move so that
their class means φ̄'_c = mean ReLU(X' W) equal those of the training nodes, φ̄_c:

    L(X', W) = Σ_c ‖φ̄'_c − φ̄_c‖² / h,    h the width of the layer.

Only the rows of ÂX at training nodes matter, so the graph itself is read once. The networks stay as they are drawn;
the training of networks that public code has between two steps of X' is off in its own settings for Cora, Citeseer
and Pubmed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.tasks.classifier import ClassifierSettings
from plgc.graphs.catalog import normalised
from plgc.method.encoder import glorot
from plgc.rivals.coreset import class_counts, kcenter_nodes
from plgc.rivals.frame import RivalRun
from plgc.rivals.scaling import with_chosen_scaling
from plgc.runtime.optimizer_state import pack, unpack
from plgc.runtime.options import check_ranges
from plgc.runtime.schema import Count, read
from plgc.sparse.adjacency import propagate


@dataclass(frozen=True)
class DistributionSettings:
    """GCDM-X's settings; the defaults are those of Citeseer.

    Attributes:
        networks: how many random networks.
        steps: of X' under each.
        hidden: h, the width of the layer that is matched.
        feature_rate: Adam's learning rate for X'.
        checks: how often validation accuracy is measured, in equal distances; the best X' is kept. Without
            validation labels it is the last one.
        check_epochs: of the GCN that is trained on X' for it.
    """

    networks: int = 1000
    steps: int = 5
    hidden: int = 256
    feature_rate: float = 1e-4
    checks: int = 10
    check_epochs: int = 200

    def __post_init__(self) -> None:
        check_ranges(self, {"networks steps hidden checks check_epochs": "[1, inf)", "feature_rate": "(0, inf)"})


PUBLISHED: dict[str, DistributionSettings] = {
    "cora": DistributionSettings(networks=600),
    "citeseer": DistributionSettings(networks=1000),
    "pubmed": DistributionSettings(networks=2000),
    "ogbn-arxiv": DistributionSettings(networks=600, feature_rate=1e-2),
    "flickr": DistributionSettings(networks=1200),
    "reddit": DistributionSettings(networks=1000, feature_rate=1e-3),
}


def published_settings(name: str) -> DistributionSettings:
    """The settings published for a graph; those of Citeseer for others."""
    return PUBLISHED.get(normalised(name), DistributionSettings())


def condense_by_distribution(run: RivalRun) -> CondensedGraph:
    """Learn features with the class means of the training nodes under random networks: ``gcdm-x``.

    X' starts as the training nodes that k-center finds in each class's propagated features, so that there are at most
    as many as have a label. The seed draws the networks, and the GCNs that are trained for the validation accuracy.
    """
    if normalised(run.graph.name) not in PUBLISHED:
        run = with_chosen_scaling(run)
    run = run.using(run.settings or published_settings(run.graph.name))
    settings: DistributionSettings = run.settings
    labels, adjacency, device = run.labels, run.inputs.adjacency, run.device
    once = propagate(adjacency, run.x)
    chosen = kcenter_nodes(propagate(adjacency, once), labels.train, labels.y, run.nodes)
    real, node_labels = once[labels.train.to(device)], labels.y[chosen]
    means = class_means(labels.y[labels.train], labels.classes).to(device)
    means_condensed = class_means(node_labels, labels.classes).to(device)
    file, state = run.checkpoint(), State(run.x[chosen.to(device)], settings, run.seed)
    if (found := file.load()) is not None:
        with file.resuming():
            state.restore(*found)
    pause = max(1, settings.networks // settings.checks)
    for done in range(state.done + 1, settings.networks + 1):
        loss = match(state.features, state.optimizer, real, means, means_condensed, settings, state.generator)
        state.done = done
        if done % pause and done < settings.networks:
            continue
        state.losses.append(float(loss))
        if labels.val.numel():
            check = ClassifierSettings(epochs=settings.check_epochs)
            state.keep_best(run.accuracy(state.features.detach(), node_labels, check))
        if done < settings.networks:
            file.save(*state.pack())
        run.report(f"matching means: {state.losses[-1]:.2e}", done, settings.networks)
    return run.finish(
        state.best if labels.val.numel() else state.features,
        class_counts(labels.y[labels.train], node_labels),
        labels=node_labels,
        curves={"matching": state.losses, "validation": state.accuracies},
    )


def match(
    features: Tensor,
    optimizer: torch.optim.Optimizer,
    real: Tensor,
    means: Tensor,
    means_condensed: Tensor,
    settings: DistributionSettings,
    generator: torch.Generator,
) -> Tensor:
    """Move X' under one random network; returns the last loss.

    Args:
        features: X', [K, f], with a gradient.
        optimizer: of X'.
        real: rows of ÂX at the training nodes, [n, f].
        means: averages over the training nodes of every class, [C, n].
        means_condensed: averages over the synthetic nodes of every class, [C, K].
        settings: how.
        generator: draws the network.
    """
    weight = glorot(features.shape[1], settings.hidden, generator).detach().to(features.device)
    target = means @ torch.relu(real @ weight)
    loss = features.new_zeros(())
    for _ in range(settings.steps):
        loss = mean_distance(features, weight, means_condensed, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach()


def mean_distance(features: Tensor, weight: Tensor, means: Tensor, target: Tensor) -> Tensor:
    """L: squared distance of class means to the target ones [C, h], averaged over the width, summed over classes."""
    embedded = means @ torch.relu(features @ weight)
    return (embedded - target).square().mean(1).sum()


def class_means(y: Tensor, classes: int) -> Tensor:
    """The matrix [C, n] whose product with rows is their mean by class; zero for a class without rows."""
    member = (y == torch.arange(classes)[:, None]).float()
    return member / member.sum(1, keepdim=True).clamp(min=1)


@dataclass(frozen=True)
class MatchingRecord:
    """What a checkpoint says beside its tensors: networks that are done, and the curves so far."""

    done: Count
    losses: list[float]
    accuracies: list[float]


class State:
    """What a run has learned so far: X' with its optimiser, the best X', and the generator of networks."""

    def __init__(self, start: Tensor, settings: DistributionSettings, seed: int):
        self.features = nn.Parameter(start.clone())
        self.best = start.clone()
        self.optimizer = torch.optim.Adam([self.features], lr=settings.feature_rate, fused=True)
        self.generator = torch.Generator().manual_seed(seed)
        self.done = 0
        self.losses: list[float] = []
        self.accuracies: list[float] = []

    def keep_best(self, accuracy: float) -> None:
        """Record a validation accuracy, and X' if it is better than all before."""
        if accuracy > max(self.accuracies, default=-1.0):
            self.best = self.features.detach().clone()
        self.accuracies.append(accuracy)

    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and values for a checkpoint."""
        tensors = {**pack(self.optimizer), "best": self.best, "generator": self.generator.get_state()}
        return tensors, {"done": self.done, "losses": self.losses, "accuracies": self.accuracies}

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Resume from what :meth:`pack` gave."""
        unpack(self.optimizer, tensors)
        self.best = tensors["best"].to(self.features.device)
        self.generator.set_state(tensors["generator"])
        if self.best.shape != self.features.shape:
            raise ValueError(f"its best features are {tuple(self.best.shape)}, not {tuple(self.features.shape)}")
        saved = read(MatchingRecord, values)
        self.done, self.losses, self.accuracies = saved.done, saved.losses, saved.accuracies
