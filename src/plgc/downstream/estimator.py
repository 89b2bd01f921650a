"""A scikit-learn classifier: ``fit`` condenses, rebuilds a backbone and trains a head.

Its X is a graph, whose rows cannot be taken apart: nodes to learn from and to score on are given as masks.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from torch_geometric.data import Data

from plgc.downstream.backbone import reconstruct
from plgc.downstream.head import HeadSettings
from plgc.downstream.models import finetune
from plgc.graphs.attributes import attribute
from plgc.graphs.check import node_count
from plgc.graphs.formats.values import column_of
from plgc.graphs.labels import has_own_split, one_class
from plgc.graphs.load import load_graph
from plgc.method.condense import condense
from plgc.method.settings import CondenseSettings
from plgc.runtime.errors import LabelError, MissingExtraError

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.validation import check_is_fitted
except ImportError as error:
    raise MissingExtraError("PLGCClassifier needs scikit-learn: pip install 'plgc[sklearn]'") from error

DEFAULT_RATIO, LEAST_NODES = 0.02, 20


def default_nodes(num_nodes: int) -> int:
    """K where neither ``nodes`` nor ``ratio`` is given: 2 % of the nodes, at least 20, at most a fifth."""
    return max(2, min(num_nodes // 5, max(round(DEFAULT_RATIO * num_nodes), LEAST_NODES)))


class PLGCClassifier(ClassifierMixin, BaseEstimator):
    """Node classification from a condensed graph.

    Args:
        nodes: size of the condensed graph as a number of nodes, or
        ratio: as a fraction of the graph's nodes. With neither, 2 % of the nodes, at least 20 and at most a fifth.
        seed: drives everything random.
        preset: ``default`` or ``paper``.
        settings: settings of your own for condensing, instead of a preset.
        kind: of the backbone: gcn, sage, gat, gin, sgc or mlp.
        shots: use this many labels per class, drawn from the training nodes; by default all.
        labels: use this many labels in all, class-balanced; by default all.
        head: how the head is trained.
        device: where to compute.
        threads: CPU threads for condensing; by default torch's current number.

    Attributes:
        classes_: the classes among the training labels, sorted, as they were given.
        condensed_: the condensed graph; it was made without labels.
        model_: the :class:`plgc.NodeModel`.
        n_features_in_: f.
        feature_names_in_: names of the features, where the graph has them.

    Example:
        >>> import plgc
        >>> from plgc.graphs import citation_graph
        >>> graph = plgc.load_graph(citation_graph(nodes=300, classes=3, features=100))
        >>> model = plgc.PLGCClassifier(nodes=15).fit(graph)
        >>> model.predict(graph).shape, model.classes_.tolist()
        ((300,), [0, 1, 2])
    """

    def __init__(
        self,
        nodes: int | None = None,
        *,
        ratio: float | None = None,
        seed: int = 0,
        preset: str = "default",
        settings: CondenseSettings | None = None,
        kind: str = "gcn",
        shots: int | None = None,
        labels: int | None = None,
        head: HeadSettings | None = None,
        device: str = "cpu",
        threads: int | None = None,
    ) -> None:
        self.nodes = nodes
        self.ratio = ratio
        self.seed = seed
        self.preset = preset
        self.settings = settings
        self.kind = kind
        self.shots = shots
        self.labels = labels
        self.head = head
        self.device = device
        self.threads = threads

    def fit(self, graph: Any, y: Any = None, *, mask: Any = None) -> Self:
        """Condense the graph and learn its classes.

        Args:
            graph: what :func:`plgc.load_graph` takes or returns; it is not changed.
            y: a label for every node: numbers or words; −1, None or NaN for none. By default the graph's own.
            mask: booleans, the nodes to learn from. By default the graph's training nodes where it has a training
                mask, else every labelled node. Labels of other nodes, also of validation nodes, are not read.

        Raises:
            LabelError: no node to learn from has a label, or there is not one label per node.
        """
        data = load_graph(graph)
        values, chosen = _labelled(graph, data, y, mask, "train_mask", "learn from")
        classes, numbers = np.unique(values[chosen], return_inverse=True)
        if len(classes) == 1:
            raise one_class(len(numbers), classes[0])
        nodes = default_nodes(node_count(data)) if self.nodes is None and self.ratio is None else self.nodes
        condensed = condense(
            data,
            nodes=nodes,
            ratio=self.ratio,
            seed=self.seed,
            preset=self.preset,
            settings=self.settings,
            device=self.device,
            threads=self.threads,
            progress=False,
        )
        target, train = torch.full((node_count(data),), -1), torch.from_numpy(chosen)
        target[train] = torch.from_numpy(numbers).long()
        known = Data(x=data.x, edge_index=data.edge_index, y=target, num_nodes=node_count(data))
        known.train_mask, known.val_mask = train, torch.zeros_like(train)
        for key in ("edge_weight", "feature_names", "seen"):  # a model compares names and marks with every graph
            if key in data:
                known[key] = data[key]
        backbone = reconstruct(condensed, kind=self.kind, seed=self.seed, device=self.device)
        model = finetune(backbone, known, shots=self.shots, labels=self.labels, seed=self.seed, settings=self.head)
        self.condensed_, self.model_, self.classes_ = condensed, model, classes  # all of it, or nothing
        self.n_features_in_ = condensed.num_features
        if "feature_names" in data:
            self.feature_names_in_ = np.array(data["feature_names"], dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def predict_proba(self, graph: Any) -> np.ndarray:
        """Class probabilities of every node, [N, C], columns in the order of ``classes_``."""
        check_is_fitted(self)
        return self.model_.predict_proba(load_graph(graph, notice=False)).numpy()

    def predict(self, graph: Any) -> np.ndarray:
        """The most likely class of every node, [N], as the labels were given."""
        likely = self.predict_proba(graph).argmax(axis=1)
        return self.classes_[likely]

    def score(self, graph: Any, y: Any = None, *, mask: Any = None) -> float:  # pyright: ignore
        """Share of right answers, 0–1.

        Args:
            graph: as for :meth:`fit`.
            y: the true labels; by default the graph's own.
            mask: the nodes to score on. By default the graph's test nodes where it has a test mask, else every
                labelled node.

        Raises:
            LabelError: none of these nodes has a label.
        """
        predicted, data = self.predict(graph), load_graph(graph, notice=False)
        values, chosen = _labelled(graph, data, y, mask, "test_mask", "score on")
        return float((predicted[chosen] == values[chosen]).mean())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        tags.input_tags.two_d_array = False
        tags.input_tags.sparse = False
        tags.no_validation = True
        return tags


def node_values(data: Data, y: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """The label of every node as it was given, and which nodes have one: the graph's own, or ``y``."""
    if y is None:
        if "y" not in data:
            raise LabelError("the graph has no labels: give y, one label per node")
        names, numbers = attribute(data, "class_names"), data["y"].numpy()
        values = numbers if names is None else np.array([*names, ""])[numbers]
        return values, numbers >= 0
    values = y.cpu().numpy() if isinstance(y, torch.Tensor) else np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (node_count(data),):
        raise LabelError(f"y has shape {list(values.shape)}, the graph {node_count(data)} nodes: give one label each")
    if values.dtype.kind in "iu":
        return values, values != -1
    if values.dtype.kind in "fb":
        return values, (values != -1) & np.isfinite(values)
    column = column_of(values, "word")
    if column.codes is None or column.words is None:
        raise LabelError(f"y holds {values.dtype} values, expected numbers or words")
    words = np.array([str(value) for value in values.tolist()])
    return words, column.codes >= 0


def _labelled(graph: Any, data: Data, y: Any, mask: Any, own: str, purpose: str) -> tuple[np.ndarray, np.ndarray]:
    """The label of every node, and which nodes to use: those of a mask, by default the graph's own, that have one.

    A mask that loading the graph has generated does not count.
    """
    values, labelled = node_values(data, y)
    brought = own in graph if isinstance(graph, Data) else True
    if mask is None and brought and has_own_split(data):
        mask = attribute(data, own)
    if mask is not None:
        given = mask.cpu().numpy() if isinstance(mask, torch.Tensor) else np.asarray(mask)
        if given.dtype != bool or given.shape != labelled.shape:
            shape, nodes = list(given.shape), node_count(data)
            raise LabelError(f"the mask is {given.dtype} {shape}, expected a boolean for each of {nodes} nodes")
        labelled = labelled & given
    if not labelled.any():
        raise LabelError(f"none of the nodes to {purpose} has a label: give y, or another mask")
    return values, labelled
