"""GCDM-X: match the distribution of receptive fields, class by class, under random GNNs; A' = I.

Liu et al., "Graph Condensation via Receptive Field Distribution Matching" (2022). A GCN's hidden layer
φ(v) = ReLU(ÂX W)_v describes a node's receptive field. For many random W, synthetic features X' move so that
their class means φ̄'_c = mean ReLU(X' W) meet those of the training nodes, φ̄_c:

    L(X', W) = Σ_c ‖φ̄'_c − φ̄_c‖² / h,    h the width of the layer.

Only the rows of ÂX at training nodes matter, so the graph itself is touched once. The networks stay as they are drawn;
what public code trains between two steps of X' is off in its own settings for Cora, Citeseer and Pubmed.
"""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.tasks.classifier import Classifier, ClassifierSettings, train_classifier
from plgc.graphs.catalog import normalised
from plgc.graphs.labels import TrainingLabels
from plgc.graphs.load import load_graph, unlabelled
from plgc.method.encoder import glorot
from plgc.rivals.coreset import kcenter_nodes
from plgc.rivals.result import labelled_artifact
from plgc.runtime.checkpoint import checkpoint_in
from plgc.runtime.errors import SettingError
from plgc.runtime.progress import Progress
from plgc.sparse.inputs import Inputs, fingerprint, prepare, resolve_scaling
from plgc.sparse.propagation import propagate


@dataclass(frozen=True)
class DistributionSettings:
    """GCDM-X's settings; the defaults are those of Citeseer.

    Attributes:
        networks: how many random networks.
        steps: of X' under each.
        hidden: h, the width of the layer that is matched.
        feature_rate: Adam's learning rate for X'.
        checks: how often validation accuracy is looked at, in equal distances; the best X' is kept. Without
            validation labels the last one counts.
        check_epochs: of the GCN that is trained on X' for it.
    """

    networks: int = 1000
    steps: int = 5
    hidden: int = 256
    feature_rate: float = 1e-4
    checks: int = 10
    check_epochs: int = 200

    def __post_init__(self) -> None:
        for name in ("networks", "steps", "hidden", "checks", "check_epochs"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name}={getattr(self, name)}: must be at least 1")
        if not 0 < self.feature_rate < math.inf:
            raise SettingError(f"feature_rate={self.feature_rate}: must be above 0")


PUBLISHED: dict[str, DistributionSettings] = {
    "cora": DistributionSettings(networks=600),
    "citeseer": DistributionSettings(networks=1000),
    "pubmed": DistributionSettings(networks=2000),
    "ogbn-arxiv": DistributionSettings(networks=600, feature_rate=1e-2),
    "flickr": DistributionSettings(networks=1200),
    "reddit": DistributionSettings(networks=1000, feature_rate=1e-3),
}


def condense_by_distribution(
    graph: Data,
    labels: TrainingLabels,
    *,
    nodes: int,
    seed: int,
    device: str = "cpu",
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    settings: DistributionSettings | None = None,
) -> CondensedGraph:
    """Learn features whose class means meet those of the training nodes under random networks.

    Args:
        graph: features and edges; with its name the published settings are found.
        labels: the training labels, and validation labels where X' is chosen by them.
        nodes: how many to make, at most as many as have a training label; they start as the training nodes that
            k-center finds in each class's propagated features.
        seed: of the random networks, and of the GCNs that look at validation accuracy.
        device: where to compute.
        progress: called with a message, the networks done and the networks in all.
        checkpoint: a folder to keep the state of the run in; the same call later goes on from there.
        settings: by default as published for this graph.
    """
    if settings is None:
        settings = PUBLISHED.get(normalised(str(graph._store.get("name", ""))), DistributionSettings())
    bare = load_graph(unlabelled(graph))
    assert bare.x is not None
    scaling = resolve_scaling(bare.x, "auto")
    inputs = prepare(bare, scaling, device)
    x = inputs.x if isinstance(inputs.x, Tensor) else inputs.x.to_dense()
    train = labels.train.to(device)
    once = propagate(inputs.adjacency, x)
    chosen = kcenter_nodes(propagate(inputs.adjacency, once), labels.train, labels.y, nodes)
    start, real, node_labels = x[chosen.to(device)], once[train], labels.y[chosen]
    means = class_means(labels.y[labels.train], labels.classes).to(device)
    means_condensed = class_means(node_labels, labels.classes).to(device)
    store = checkpoint_in(
        checkpoint,
        method="gcdm-x",
        graph=fingerprint(bare),
        labels=labels.digest(),
        nodes=nodes,
        seed=seed,
        device=device,
        threads=torch.get_num_threads(),
        settings=asdict(settings),
    )
    run = _Run(start, settings, seed)
    if (kept := store.load()) is not None:
        run.restore(*kept)
    pause = max(1, settings.networks // settings.checks)
    for done in range(run.done, settings.networks):
        loss = match(run.features, run.optimizer, real, means, means_condensed, settings, run.generator)
        run.done = done + 1
        if run.done % pause and run.done < settings.networks:
            continue
        run.losses.append(float(loss))
        if labels.val.numel():
            accuracy = _validation_accuracy(run.features.detach(), node_labels, inputs, labels, scaling, seed, settings)
            run.keep(accuracy)
        if run.done < settings.networks:
            store.save(*run.state())
        if progress is not None:
            progress(f"matching means: {run.losses[-1]:.2e}", run.done, settings.networks)
    result = labelled_artifact(
        graph,
        bare,
        labels,
        method="gcdm-x",
        features=run.best if labels.val.numel() else run.features,
        node_labels=node_labels,
        counts=class_counts(labels.y[labels.train], node_labels),
        scaling=scaling,
        seed=seed,
        requested=nodes,
        settings=asdict(settings),
        curves={"matching": run.losses, "validation": run.accuracies},
    )
    store.discard()
    return result


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


def class_counts(y: Tensor, node_labels: Tensor) -> Tensor:
    """How many training nodes each synthetic node stands for: its class's, divided as evenly as can be."""
    counts = torch.zeros(len(node_labels), dtype=torch.int64)
    for label in node_labels.unique().tolist():
        own = (node_labels == label).nonzero().flatten()
        whole, rest = divmod(int((y == label).sum()), len(own))
        counts[own] = whole
        counts[own[:rest]] += 1
    return counts


def _validation_accuracy(
    features: Tensor,
    node_labels: Tensor,
    inputs: Inputs,
    labels: TrainingLabels,
    scaling: str,
    seed: int,
    settings: DistributionSettings,
) -> float:
    """The best validation accuracy of a GCN while it learns from (X', I)."""
    y, val, best = labels.y.to(inputs.device), labels.val.to(inputs.device), 0.0

    def score(model: Classifier) -> float:
        nonlocal best
        value = float((model.probabilities(inputs)[val].argmax(1) == y[val]).float().mean())
        best = max(best, value)
        return value

    target = node_labels.to(features.device)
    train_classifier(
        features,
        None,
        torch.arange(len(target), device=features.device),
        target,
        labels.classes,
        scaling=scaling,
        seed=seed,
        settings=ClassifierSettings(epochs=settings.check_epochs),
        score=score,
    )
    return best


class _Run:
    """Where a run stands: X', its optimiser, the best X' so far, and the generator of networks."""

    def __init__(self, start: Tensor, settings: DistributionSettings, seed: int):
        self.features = nn.Parameter(start.clone())
        self.best = start.clone()
        self.optimizer = torch.optim.Adam([self.features], lr=settings.feature_rate, fused=True)
        self.generator = torch.Generator().manual_seed(seed)
        self.done = 0
        self.losses: list[float] = []
        self.accuracies: list[float] = []

    def keep(self, accuracy: float) -> None:
        """Note a validation accuracy, and X' if none before was as good."""
        if accuracy > max(self.accuracies, default=-1.0):
            self.best = self.features.detach().clone()
        self.accuracies.append(accuracy)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and values to go on from."""
        tensors = {"features": self.features, "best": self.best, "generator": self.generator.get_state()}
        moments = {f"adam.{name}": value for name, value in self.optimizer.state[self.features].items()}
        return {**tensors, **moments}, {"done": self.done, "losses": self.losses, "accuracies": self.accuracies}

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Go on from what :meth:`state` gave."""
        device = self.features.device
        self.features.data.copy_(tensors["features"])
        self.best = tensors["best"].to(device)
        self.generator.set_state(tensors["generator"])
        self.optimizer.state[self.features] = {
            name.removeprefix("adam."): value.to(device) for name, value in tensors.items() if name.startswith("adam.")
        }
        self.done, self.losses, self.accuracies = values["done"], values["losses"], values["accuracies"]
