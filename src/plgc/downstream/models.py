"""Models to keep: a frozen backbone with a head that was trained for a task. Fine-tune, predict, save, open again."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, overload

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.downstream.backbone import Backbone
from plgc.downstream.from_disk import Work, from_disk, stays_on_disk
from plgc.downstream.head import Head
from plgc.downstream.model_file import read_model, save_model
from plgc.downstream.names import NAMELESS, Names
from plgc.downstream.smoothing import HeadSettings
from plgc.downstream.tasks.link import LinkHead, LinkSettings, fit_link, link_examples, link_inputs
from plgc.downstream.tasks.node import fit_head_on, score_nodes
from plgc.graphs.attributes import seen_of
from plgc.graphs.check import node_count
from plgc.graphs.labels import check_classes, choose_labels, has_own_split, labels_text, with_every_label
from plgc.graphs.load import node_labels, num_classes
from plgc.graphs.preprocessing import check_preprocessing
from plgc.graphs.views.edges import LEAST_EDGES, EdgeSplit, undirected_edges
from plgc.method.disk.layers import check_kind
from plgc.method.encoder import GNN
from plgc.runtime import mapped
from plgc.runtime.errors import GraphError, LabelError, SettingError
from plgc.runtime.options import check_device
from plgc.runtime.text import counted, html_line, visible
from plgc.sparse.stored_inputs import StoredGraphs

VALIDATION = 0.1  # share of the edges that chooses the epoch of a pair head
NAMES_SHOWN, NAME_LENGTH = 3, 20  # names of classes on a model's line, and characters of each


@dataclass(frozen=True, repr=False)
class Model:
    """A frozen backbone with a trained head, and the names of the classes and features it was trained on."""

    backbone: Backbone
    head: Any
    names: Names = NAMELESS

    FORMAT: ClassVar[str]
    HEAD: ClassVar[Any]

    def __repr__(self) -> str:
        backbone = self.backbone
        parts = [backbone.settings.kind, counted(backbone.num_features, "feature"), *self._facts()]
        return f"{type(self).__name__}({', '.join(parts)}, {backbone.device})"

    def _repr_html_(self) -> str:
        return html_line(repr(self))

    def _facts(self) -> list[str]:
        """What a model's own kind adds to its line."""
        return []

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model as one safetensors file, whole or not at all."""
        return save_model(path, self.FORMAT, self.backbone, self.head, self.names)


@dataclass(frozen=True, repr=False)
class NodeModel(Model):
    """A model that classifies nodes; ``learned_from`` says which labels it was fitted on, and is not in the file."""

    head: Head
    learned_from: str | None = None

    FORMAT = "plgc-node-model"
    HEAD = Head

    def _facts(self) -> list[str]:
        classes, names = self.head.num_classes, self.names.classes or ()
        shown = ", ".join(visible(name[:NAME_LENGTH]) for name in names[:NAMES_SHOWN])
        more = ", …" if len(names) > NAMES_SHOWN else ""
        return [counted(classes, "class", "classes") + (f" ({shown}{more})" if names else "")]

    def predict_proba(
        self, graph: Data, *, memory: int | str | None = None, scratch: str | os.PathLike[str] | None = None
    ) -> Tensor:
        """Class probabilities of every node, [N, C].

        Args:
            graph: a graph with the features that the backbone was rebuilt from.
            memory: stay within so many bytes, as a number or a text such as ``4GiB``. A graph on disk then stays
                there, and so does the result, which is a tensor like any other.
            scratch: a folder for what does not fit into memory; by default the package's cache.

        Raises:
            GraphError: the graph's feature columns are not those the model was trained on.
            SettingError: memory or disk do not suffice.
        """
        work = Work(self.backbone.parts, self.head.num_classes)
        if memory is None or not stays_on_disk(graph, work, memory):
            return self.probabilities(graph)
        check_from_disk(self.backbone)
        with from_disk(graph, work, memory, None if scratch is None else Path(scratch)) as prepared:
            return self.probabilities(graph, prepared)

    def probabilities(self, graph: Data, prepared: StoredGraphs | None = None) -> Tensor:
        """Class probabilities of every node, [N, C], of a graph in memory or, with its place, on disk."""
        self.names.check(graph)
        inputs = self.backbone.prepare(graph, prepared)
        return _finite(self.head.probabilities(self.backbone.embed_either(inputs), inputs.adjacency).cpu())

    def predict(
        self, graph: Data, *, memory: int | str | None = None, scratch: str | os.PathLike[str] | None = None
    ) -> Tensor:
        """The most likely class of every node, [N]; arguments are those of :meth:`predict_proba`."""
        probability = self.predict_proba(graph, memory=memory, scratch=scratch)
        return torch.cat([rows.argmax(dim=1) for _, rows in mapped.blocks(probability)])

    def evaluate(self, graph: Data, on: str = "test", prepared: StoredGraphs | None = None) -> dict[str, float]:
        """Accuracy and macro-F1 (0–100) and, for two classes, AUROC (0–1) on ``test``, ``val`` or ``train`` nodes.

        Raises:
            LabelError: there are no such nodes, or the graph has no split of its own: then every label was learned
                from, and :func:`plgc.evaluation.cross_validate` estimates the accuracy.
        """
        self.names.check_classes(graph)
        if not has_own_split(graph):
            raise LabelError(
                f"{graph.name} has no split of its own, so a model learns from every label and none is left to score: "
                "use plgc.evaluation.cross_validate, or give the graph train_mask and test_mask"
            )
        return score_nodes(self.probabilities(graph, prepared), graph, on)


@dataclass(frozen=True, repr=False)
class LinkModel(Model):
    """A model that predicts which pairs of nodes are joined."""

    head: LinkHead

    FORMAT = "plgc-link-model"
    HEAD = LinkHead

    def predict_proba(self, graph: Data, pairs: Tensor) -> Tensor:
        """How likely each pair of nodes is joined, [E]; messages pass over the graph's edges.

        The probability is that of an even mix of edges and non-edges: use it to rank pairs.

        Args:
            graph: a graph with the features that the backbone was rebuilt from.
            pairs: node numbers, [2, E].

        Raises:
            GraphError: a pair names no node, or the graph's feature columns are not those the model was trained on.
        """
        self.names.check(graph)
        nodes = node_count(graph)
        if pairs.ndim != 2 or pairs.shape[0] != 2 or pairs.is_floating_point():
            raise SettingError(f"pairs are {pairs.dtype} {list(pairs.shape)}: give two rows of node numbers, [2, E]")
        outside = pairs[(pairs < 0) | (pairs >= nodes)]
        if outside.numel():
            raise GraphError(f"a pair names node {int(outside[0])}, the graph has nodes 0 to {nodes - 1}")
        inputs = link_inputs(self.backbone.embed, self.backbone.parts, graph)
        return _finite(torch.sigmoid(self.head.scores(inputs, pairs)).cpu())


@overload
def finetune(
    backbone: Backbone,
    graph: Data,
    *,
    task: Literal["node"] = "node",
    shots: int | None = None,
    labels: int | None = None,
    seed: int = 0,
    settings: HeadSettings | None = None,
    memory: int | str | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> NodeModel: ...


@overload
def finetune(backbone: Backbone, graph: Data, *, task: Literal["link"], seed: int = 0) -> LinkModel: ...


def finetune(
    backbone: Backbone,
    graph: Data,
    *,
    task: str = "node",
    shots: int | None = None,
    labels: int | None = None,
    seed: int = 0,
    settings: HeadSettings | None = None,
    memory: int | str | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> NodeModel | LinkModel:
    """Train a light head on a frozen backbone (section 3.2 b).

    Args:
        backbone: from :func:`plgc.reconstruct`.
        graph: for ``node``, a labelled graph from :func:`plgc.load_graph`. With a split of its own, only labels of
            training nodes are used (and of validation nodes, to weigh what the head uses, when all training labels are
            used). Without one, every label is used. For ``link``, any graph: the head is trained on its edges.
        task: ``node`` or ``link``.
        shots: use this many labels per class, drawn from the labels to train on; no validation labels.
        labels: use this many labels in all, class-balanced, at least one per class; no validation labels.
        seed: of the draw.
        settings: how the head for nodes is trained.
        memory: for ``node``, stay within so many bytes, as a number or a text such as ``4GiB``: a graph that is on disk
            stays there, and is worked on block by block. Answers are the same up to rounding.
        scratch: a folder for what does not fit into memory; by default the package's cache.

    Example:
        >>> import plgc
        >>> graph = plgc.load_graph("demo")
        >>> backbone = plgc.reconstruct(plgc.condense(graph, nodes=40))
        >>> model = plgc.finetune(backbone, graph, shots=3)
        >>> model.predict(graph).shape, model.predict_proba(graph).shape
        (torch.Size([3000]), torch.Size([3000, 7]))
    """
    if task == "link":
        if shots is not None or labels is not None or settings is not None:
            raise SettingError("shots, labels and settings are for nodes: links are learned from edges")
        if memory is not None:
            raise SettingError("links are not learned from disk: leave memory out")
        return finetune_links(backbone, graph, seed=seed)
    if task != "node":
        raise SettingError(f"unknown task {task!r}: choose node or link")
    work = node_work(backbone, graph, shots, labels, seed)
    if memory is None or not stays_on_disk(graph, work, memory):
        return finetune_nodes(backbone, graph, shots=shots, labels=labels, seed=seed, settings=settings)
    check_from_disk(backbone)
    with from_disk(graph, work, memory, None if scratch is None else Path(scratch)) as prepared:
        return finetune_nodes(
            backbone, graph, shots=shots, labels=labels, seed=seed, settings=settings, prepared=prepared
        )


def finetune_nodes(
    backbone: Backbone,
    graph: Data,
    *,
    shots: int | None = None,
    labels: int | None = None,
    seed: int = 0,
    settings: HeadSettings | None = None,
    prepared: StoredGraphs | None = None,
) -> NodeModel:
    """Train a head for nodes, on a graph in memory or, with its place (:mod:`plgc.downstream.from_disk`), on disk."""
    check_preprocessing(backbone.preprocessing, seen_of(graph).preprocessing, "the condensed graph")
    graph = with_every_label(graph)
    labelled, validate = choose_labels(graph, shots, labels, seed)
    check_classes(node_labels(graph)[labelled], graph)
    inputs = backbone.prepare(graph, prepared)
    head = fit_head_on(backbone.embed_either(inputs), backbone.parts, inputs, graph, labelled, validate, settings)
    return NodeModel(backbone, head, Names.of(graph, num_classes(graph)), labels_text(graph, labelled))


def node_work(backbone: Backbone, graph: Data, shots: int | None, labels: int | None, seed: int) -> Work:
    """How large the work of training a head is."""
    labelled, _ = choose_labels(with_every_label(graph), shots, labels, seed)
    return Work(backbone.parts, num_classes(graph), len(labelled))


def check_from_disk(backbone: Backbone) -> None:
    """Raise :class:`SettingError` where a backbone cannot embed a graph that stays on disk."""
    if backbone.device.type != "cpu":
        raise SettingError(f"graphs on disk are worked on by the CPU, the device is {backbone.device}: leave it out")
    for network in backbone.networks.values():
        assert isinstance(network, GNN)
        check_kind(network.kind)


def finetune_links(
    backbone: Backbone, graph: Data, *, seed: int = 0, settings: LinkSettings | None = None
) -> LinkModel:
    """Train a pair head on a graph's own edges; a tenth of them is kept apart for validation. Labels are not read.

    ``plgc evaluate --task link`` scores such a head, on edges that neither the backbone nor the head has seen.
    """
    check_preprocessing(backbone.preprocessing, seen_of(graph).preprocessing, "the condensed graph")
    edges = undirected_edges(graph)
    count = edges.shape[1]
    if count < LEAST_EDGES:
        raise GraphError(f"the graph has {count} edge(s): at least {LEAST_EDGES} are needed to learn what joins nodes")
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    val, train = (edges[:, part.sort().values] for part in order.tensor_split([max(1, round(VALIDATION * count))]))
    examples = link_examples(EdgeSplit(train, val, edges[:, :0]), graph, seed, settings)
    head, _ = fit_link(backbone.embed, backbone.parts, examples)
    return LinkModel(backbone, head, Names.of(graph))


def _finite(probability: Tensor) -> Tensor:
    """Raise where there are no numbers: weights of a stranger's model, or features, so large that sums overflow."""
    if not all(bool(torch.isfinite(rows).all()) for _, rows in mapped.blocks(probability)):
        raise GraphError(
            "the model's predictions are no numbers: its weights or the graph's features are too large to be added up"
        )
    return probability


def load_model(path: str | os.PathLike[str], *, device: str = "cpu") -> NodeModel | LinkModel:
    """Open a model made by ``save``; anything else is refused with the reason.

    Args:
        path: the file.
        device: where the model is to compute; predictions are returned on the CPU.

    Example:
        >>> import plgc
        >>> graph = plgc.load_graph("demo")
        >>> model = plgc.finetune(plgc.reconstruct(plgc.condense(graph, nodes=40)), graph, shots=3)
        >>> again = plgc.load_model(model.save("model.safetensors"))
        >>> bool((again.predict(graph) == model.predict(graph)).all())
        True
    """
    check_device(device)
    models = {kind.FORMAT: kind for kind in (NodeModel, LinkModel)}
    kind, backbone, head, names = read_model(path, {name: model.HEAD for name, model in models.items()})
    moved = {name: value.to(device) for name, value in vars(head).items() if isinstance(value, Tensor)}
    return models[kind](backbone.to(device), replace(head, **moved), names)
