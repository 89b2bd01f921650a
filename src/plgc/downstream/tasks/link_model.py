"""A model that predicts links: a frozen backbone with a trained pair head, to keep and to ask about new pairs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.downstream.backbone import Backbone
from plgc.downstream.model_file import save_model
from plgc.downstream.names import NAMELESS, Names
from plgc.downstream.tasks.link import LinkHead, LinkSettings, fit_link, look
from plgc.graphs.check import node_count
from plgc.graphs.views.edges import LEAST_EDGES, EdgeSplit, undirected_edges
from plgc.runtime.errors import GraphError, SettingError

FORMAT = "plgc-link-model"
VALIDATION = 0.1  # share of the edges that chooses when the head stops


@dataclass(frozen=True)
class LinkModel:
    """A frozen backbone with a trained pair head, and the names of the features it learned from."""

    backbone: Backbone
    head: LinkHead
    names: Names = NAMELESS

    def predict_proba(self, graph: Data, pairs: Tensor) -> Tensor:
        """How likely each pair of nodes is joined, [E]; messages pass over the graph's edges.

        The probability is that of an even mix of edges and non-edges: use it to rank pairs.

        Args:
            graph: a graph with the features that the backbone was rebuilt from.
            pairs: node numbers, [2, E].

        Raises:
            GraphError: a pair names no node, or the graph's feature columns are not those the model learned from.
        """
        self.names.check(graph)
        nodes = node_count(graph)
        if pairs.ndim != 2 or pairs.shape[0] != 2 or pairs.is_floating_point():
            raise SettingError(f"pairs are {pairs.dtype} {list(pairs.shape)}: give two rows of node numbers, [2, E]")
        if pairs.numel() and not (int(pairs.min()) >= 0 and int(pairs.max()) < nodes):
            wrong = int(pairs.min()) if int(pairs.min()) < 0 else int(pairs.max())
            raise GraphError(f"a pair names node {wrong}, the graph has nodes 0 to {nodes - 1}")
        view = look(self.backbone.embed, self.backbone.parts, graph)
        return torch.sigmoid(self.head.scores(view, pairs)).cpu()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model as one safetensors file, whole or not at all."""
        head = {"weight": self.head.weight, "popularity": self.head.popularity, "bias": self.head.bias}
        settings = {"epoch": self.head.epoch, "validation": self.head.validation}
        return save_model(path, FORMAT, self.backbone, head, settings, self.names)

    @staticmethod
    def from_file(backbone: Backbone, head: dict[str, Tensor], settings: dict[str, Any], names: Any) -> LinkModel:
        """Put together what :meth:`save` wrote; raises ValueError where the parts do not fit."""
        weight, popularity, bias = (head[name] for name in ("weight", "popularity", "bias"))
        if weight.shape != (sum(backbone.parts),) or popularity.numel() != 1 or bias.numel() != 1:
            raise ValueError(
                f"the head has shape {tuple(weight.shape)}, the backbone gives {sum(backbone.parts)} columns"
            )
        validation = {str(name): float(value) for name, value in settings["validation"].items()}
        kept = Names.from_header(names, backbone.num_features, None)
        return LinkModel(backbone, LinkHead(weight, popularity, bias, int(settings["epoch"]), validation), kept)


def finetune_links(
    backbone: Backbone, graph: Data, *, seed: int = 0, settings: LinkSettings | None = None
) -> LinkModel:
    """Train a pair head on a graph's own edges, a tenth of them kept apart to choose when to stop.

    Labels are not read. What such a model is worth, ``plgc evaluate --task link`` tells, on edges that neither the
    backbone nor the head has seen.
    """
    edges = undirected_edges(graph)
    count = edges.shape[1]
    if count < LEAST_EDGES:
        raise GraphError(f"the graph has {count} edge(s): at least {LEAST_EDGES} are needed to learn what joins nodes")
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    held = max(1, round(VALIDATION * count))
    val, train = (edges[:, part.sort().values] for part in (order[:held], order[held:]))
    head, _ = fit_link(backbone.embed, backbone.parts, EdgeSplit(train, val, edges[:, :0]), graph, seed, settings)
    return LinkModel(backbone, head, Names.of(graph))
