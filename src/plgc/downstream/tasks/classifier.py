"""A plain GNN trained end to end on labelled nodes: of the whole graph, or of a condensed graph that has labels.

The first is what condensation is compared with ("full fine-tune"). The second is how the papers of supervised methods
score them: a new GNN is trained on the condensed graph and classifies the nodes of the original.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.embedder import Embedder
from plgc.downstream.tasks.labelled_rows import labelled_rows
from plgc.method.encoder import EDGE_FREE, GNN
from plgc.runtime.errors import ArtifactError
from plgc.runtime.options import check_device
from plgc.sparse.adjacency import Adjacency, build_adjacency
from plgc.sparse.features import Features
from plgc.sparse.inputs import Inputs


@dataclass(frozen=True)
class ClassifierSettings:
    """How a classifier is trained: with Adam, dropout and weight decay.

    Attributes:
        epochs: steps over all labelled nodes.
        hidden: width of the hidden layers.
        layers: L.
        dropout: between the layers.
        learning_rate: of Adam.
        weight_decay: on every weight.
        decay_halfway: divide the learning rate by ten after half of the epochs.
    """

    epochs: int = 200
    hidden: int = 256
    layers: int = 2
    dropout: float = 0.5
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    decay_halfway: bool = False


ON_WHOLE_GRAPH = ClassifierSettings()
ON_CONDENSED = ClassifierSettings(epochs=600, decay_halfway=True)  # as the condensation papers evaluate


@dataclass(frozen=True)
class Classifier(Embedder):
    """A trained GNN. Its last hidden layer is used as an embedding, and its last layer can be fine-tuned."""

    gnn: GNN
    num_features: int
    scaling: str
    parts: Mapping[str, int]

    @torch.no_grad()
    def embed(self, graph: Inputs) -> Tensor:
        """The last hidden layer, or the output where there is only one layer."""
        hidden = self.gnn.body(graph.x, graph.adjacency) if len(self.gnn.layers) > 1 else None
        return hidden if isinstance(hidden, Tensor) else self.gnn(graph.x, graph.adjacency)

    @torch.no_grad()
    def probabilities(self, graph: Inputs) -> Tensor:
        """Class probabilities of every node, [N, C]."""
        return torch.softmax(self.gnn(graph.x, graph.adjacency), dim=1)


def train_classifier(
    x: Features,
    adjacency: Adjacency | None,
    labelled: Tensor,
    target: Tensor,
    classes: int,
    *,
    scaling: str,
    kind: str = "gcn",
    seed: int = 0,
    settings: ClassifierSettings = ON_WHOLE_GRAPH,
    score: Callable[[Classifier], float] | None = None,
) -> Classifier:
    """Train a GNN on the nodes ``labelled`` of a graph.

    Args:
        x: scaled features.
        adjacency: Â; None where A' = I.
        labelled: indices of the nodes to learn from.
        target: their classes [L], or soft labels [L, C].
        classes: C.
        scaling: the row scaling of ``x``, kept for the graphs that it will classify.
        kind: of the GNN.
        seed: of the initial weights and of dropout.
        settings: how to train.
        score: validation score; where given, the weights of the best epoch are kept, else those of the last.
    """
    device, width_in = labelled.device, x.shape[1]
    generator = torch.Generator().manual_seed(seed)
    gnn = GNN(
        kind, width_in, settings.hidden, classes, layers=settings.layers, dropout=settings.dropout, generator=generator
    ).to(device)
    part = "learned_plain" if kind == EDGE_FREE else "learned"
    model = Classifier(gnn, width_in, scaling, {part: settings.hidden if len(gnn.layers) > 1 else classes})
    optimizer = torch.optim.Adam(
        gnn.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )
    forward = labelled_rows(gnn, x, adjacency, labelled)
    best, best_score = None, float("-inf")
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)  # dropout draws from torch's own generator
        for epoch in range(settings.epochs):
            if settings.decay_halfway and epoch == settings.epochs // 2:
                optimizer.param_groups[0]["lr"] *= 0.1
            gnn.train()
            loss = F.cross_entropy(forward(), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if score is not None:
                gnn.eval()
                value = score(model)
                if value > best_score:
                    best, best_score = copy.deepcopy(gnn.state_dict()), value
    if best is not None:
        gnn.load_state_dict(best)
    gnn.eval().requires_grad_(False)
    return model


def train_on_condensed(
    condensed: CondensedGraph,
    *,
    kind: str = "gcn",
    seed: int = 0,
    device: str = "cpu",
    settings: ClassifierSettings = ON_CONDENSED,
    score: Callable[[Classifier], float] | None = None,
) -> Classifier:
    """Train a new GNN on a condensed graph that has labels; ``score`` is on validation nodes of the original."""
    check_device(device)
    labels, classes = condensed.labels, condensed.num_classes
    if labels is None or classes is None:
        raise ArtifactError(
            f"this condensed graph ({condensed.method}) has no labels to train on: rebuild a backbone from it instead "
            "(plgc.reconstruct)"
        )
    labelled = torch.arange(len(labels)) if labels.ndim == 2 else (labels >= 0).nonzero().flatten()
    if labelled.numel() == 0:
        raise ArtifactError(f"none of the {len(labels)} nodes of this condensed graph has a label")
    return train_classifier(
        condensed.features.to(device),
        condensed_adjacency(condensed, device),
        labelled.to(device),
        labels[labelled].to(device),
        classes,
        scaling=condensed.scaling,
        kind=kind,
        seed=seed,
        settings=settings,
        score=score,
    )


def condensed_adjacency(condensed: CondensedGraph, device: str) -> Adjacency | None:
    """A' of a condensed graph, normalised; None where A' = I."""
    if condensed.edge_index is None:
        return None
    weight = None if condensed.edge_weight is None else condensed.edge_weight.to(device)
    return build_adjacency(condensed.edge_index.to(device), condensed.num_nodes, weight)


def finetune_last_layer(
    model: Classifier,
    inputs: Inputs,
    labelled: Tensor,
    target: Tensor,
    *,
    epochs: int = 200,
    learning_rate: float = 0.01,
    weight_decay: float = 5e-4,
) -> Classifier:
    """Continue to train the last layer, on clean labels; the layers below are not changed.

    The defaults were best for supervised methods on validation nodes, on average over rates of wrong labels.
    """
    gnn = copy.deepcopy(model.gnn).eval()
    layer = gnn.layers[-1].requires_grad_(True)
    with torch.no_grad():
        hidden = gnn.body(inputs.x, inputs.adjacency)
    optimizer = torch.optim.Adam(layer.parameters(), lr=learning_rate, weight_decay=weight_decay, fused=True)
    for _ in range(epochs):
        loss = F.cross_entropy(layer(hidden, inputs.adjacency)[labelled], target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return replace(model, gnn=gnn.requires_grad_(False))
