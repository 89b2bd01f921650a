"""From a backbone to a model that is kept: fine-tune a head for a task, save, open again."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Literal, overload

from torch import Tensor
from torch_geometric.data import Data

from plgc.downstream.backbone import Backbone
from plgc.downstream.head import HeadSettings
from plgc.downstream.model_file import read_model
from plgc.downstream.names import Names
from plgc.downstream.tasks import link_model, node
from plgc.downstream.tasks.link_model import LinkModel, finetune_links
from plgc.downstream.tasks.node import NodeModel, fit_labels
from plgc.graphs.load import num_classes
from plgc.runtime.errors import ArtifactError, PLGCError, SettingError


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
) -> NodeModel | LinkModel:
    """Train a light head on a frozen backbone (section 3.2 b).

    Args:
        backbone: from :func:`plgc.reconstruct`.
        graph: for ``node``, a labelled graph with masks; only labels of training nodes are used (and of validation
            nodes, to keep the best epoch, when all training labels are used). For ``link``, any graph: its edges are
            what is learned from.
        task: ``node`` or ``link``.
        shots: use this many labels per class, drawn from the training nodes; no validation labels.
        labels: use this many labels in all, class-balanced, at least one per class; no validation labels.
        seed: of the draw.
        settings: how the head for nodes is trained.

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
        return finetune_links(backbone, graph, seed=seed)
    if task != "node":
        raise SettingError(f"unknown task {task!r}: choose node or link")
    inputs = backbone.prepare(graph)
    head = fit_labels(
        backbone.embed(inputs), backbone.parts, inputs, graph, shots=shots, labels=labels, seed=seed, settings=settings
    )
    return NodeModel(backbone, head, Names.of(graph, num_classes(graph)))


def load_model(path: str | os.PathLike[str], *, device: str = "cpu") -> NodeModel | LinkModel:
    """Open a model made by ``save``; anything else is refused with the reason.

    Args:
        path: the file.
        device: where the model is to compute; what it predicts comes back to the CPU.

    Example:
        >>> import plgc
        >>> graph = plgc.load_graph("demo")
        >>> model = plgc.finetune(plgc.reconstruct(plgc.condense(graph, nodes=40)), graph, shots=3)
        >>> again = plgc.load_model(model.save("model.safetensors"))
        >>> bool((again.predict(graph) == model.predict(graph)).all())
        True
    """
    kinds = {node.FORMAT: NodeModel, link_model.FORMAT: LinkModel}
    try:
        found, backbone, head, settings, names = read_model(path, tuple(kinds))
        model = kinds[found].from_file(backbone, head, settings, names)
    except ArtifactError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, PLGCError) as error:
        raise ArtifactError(f"{path} is damaged: {str(error)[:400]}") from error
    model.backbone.to(device)  # here, where a device that is not there does not pass for a damaged file
    moved = {name: value.to(device) for name, value in vars(model.head).items() if isinstance(value, Tensor)}
    return replace(model, head=replace(model.head, **moved))
