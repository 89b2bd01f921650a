"""The map: original nodes around the synthetic ones in the plane, packed small for the page's script.

Labels, where the graph has them, are shown and never used.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.graphs.attributes import attribute
from plgc.report.facts.embedding import Embedding, embed
from plgc.report.facts.files import classes_of
from plgc.report.facts.projection import project
from plgc.report.facts.rebuilt import Rebuilt
from plgc.runtime.text import visible

NODES = 10_000  # original nodes drawn: the search for neighbours grows with their square
SYNTHETIC = 4_000  # synthetic nodes drawn
COLOURS = 8
FEATURES = 5  # named of a synthetic node
CLASSES = 4  # named of a cluster
NAME = 32  # characters of a name
EXTENT = 32_000  # of the coordinates, as 16-bit integers


@dataclass(frozen=True)
class NodeMap:
    """The map of the nodes that are shown.

    Attributes:
        nodes: coordinates of the nodes, int16 [n, 2].
        made: coordinates of the synthetic nodes, int16 [k, 2].
        cluster: every node's synthetic node, uint16 [n].
        ids: the nodes' numbers in the graph, uint32 [n]; None where all are shown.
        labels: the nodes' classes, −1 for none, int16 [n]; None without labels.
        colour: of every synthetic node, below :data:`COLOURS`; that itself is grey, for one without a class.
        facts: one entry per synthetic node, see :func:`_facts`.
        by: what the colours mean: ``cluster``, ``source`` or ``class``.
        sources: names, where there are several.
        total: nodes of the graph.
        classes: the classes' names, where the graph has them.
        names: the nodes' names, where the graph has them.
    """

    nodes: np.ndarray
    made: np.ndarray
    cluster: np.ndarray
    ids: np.ndarray | None
    labels: np.ndarray | None
    colour: list[int]
    facts: list[dict[str, Any]]
    by: str
    sources: list[str]
    total: int
    classes: list[str] | None = None
    names: list[str] | None = None

    def class_name(self, index: int) -> str:
        """The name of a class, or its number."""
        return f"class {index}" if self.classes is None else self.classes[index]

    def packed(self) -> dict[str, Any]:
        """Everything that the page's script needs, arrays as base64 of little-endian integers."""
        return {
            name: base64.b64encode(value.tobytes()).decode() if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
        }


def make_node_map(sources: Mapping[str, CondensedGraph], rebuilt: Rebuilt) -> NodeMap | None:
    """Lay out the graph and the condensed graphs, by name; None where they have no common embedding."""
    assert rebuilt.graph is not None
    condensed, graph, seed = list(sources.values()), rebuilt.graph.data, rebuilt.options.seed
    embedding = embed(condensed, rebuilt)
    if embedding is None:
        return None
    counts = torch.cat([part.counts for part in condensed])
    shown, synthetic, place = choose_nodes(embedding.cluster, counts, seed)
    layout = project(torch.cat([embedding.nodes[shown], embedding.synthetic[synthetic]]), seed)
    labels, ids = attribute(graph, "y"), _names(graph, "node_ids")
    source = torch.cat([torch.full((part.num_nodes,), index) for index, part in enumerate(condensed)])
    own = [one for one in map(classes_of, condensed) if one is not None]
    classes = torch.cat(own) if len(own) == len(condensed) else None
    if len(condensed) > 1:
        by, colour = "source", (source[synthetic] % COLOURS).tolist()
    elif classes is not None:
        own_class = classes[synthetic]
        by, colour = "class", torch.where(own_class < 0, COLOURS, own_class % COLOURS).tolist()
    else:
        by, colour = "cluster", spread_colours(layout[len(shown) :], counts[synthetic])
    facts = _facts(condensed, embedding, source, classes, labels, _names(graph, "feature_names"))
    places, everything = _integers(layout), len(shown) == len(embedding.nodes)
    return NodeMap(
        nodes=places[: len(shown)],
        made=places[len(shown) :],
        cluster=place[embedding.cluster[shown]].numpy().astype("<u2"),
        ids=None if everything else shown.numpy().astype("<u4"),
        labels=None if labels is None else labels[shown].numpy().astype("<i2"),
        colour=colour,
        facts=[facts[index] for index in synthetic.tolist()],
        by=by,
        sources=list(sources) if len(condensed) > 1 else [],
        total=len(embedding.nodes),
        classes=_names(graph, "class_names"),
        names=None if ids is None else [ids[index] for index in shown.tolist()],
    )


def choose_nodes(cluster: Tensor, counts: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes and synthetic nodes to draw, and every synthetic node's position among those drawn, −1 for the others."""
    synthetic = torch.arange(len(counts))
    if len(synthetic) > SYNTHETIC:
        synthetic = counts.argsort(descending=True, stable=True)[:SYNTHETIC].sort().values
    place = torch.full((len(counts),), -1)
    place[synthetic] = torch.arange(len(synthetic))
    shown = (place[cluster] >= 0).nonzero().flatten()
    if len(shown) > NODES:
        generator = torch.Generator().manual_seed(seed)
        shown = shown[torch.randperm(len(shown), generator=generator)[:NODES]].sort().values
    return shown, synthetic, place


def _names(graph: Data, kind: str) -> list[str] | None:
    """The graph's names of nodes, classes or features, shortened to fit a tooltip."""
    found = attribute(graph, kind)
    if found is None:
        return None
    return [name if len(name) <= NAME else f"{name[: NAME - 1]}…" for name in map(visible, map(str, found))]


def spread_colours(places: Tensor, counts: Tensor) -> list[int]:
    """A colour for every synthetic node, so that near ones differ: the largest choose first what is farthest away."""
    chosen = torch.full((len(places),), -1)
    for index in counts.argsort(descending=True, stable=True).tolist():
        distance = (places - places[index]).norm(dim=1)
        nearness = torch.stack([(1 / (distance[chosen == colour] + 1e-6).square()).sum() for colour in range(COLOURS)])
        chosen[index] = int(nearness.argmin())
    return chosen.tolist()


def distinctive_features(features: Tensor) -> list[list[int]]:
    """The features of every synthetic node that are most above the mean of all, in standard deviations."""
    deviation = features.std(0, correction=0)
    score = (features - features.mean(0)) / deviation.clamp(min=1e-12)
    best = score.topk(min(FEATURES, features.shape[1]), dim=1)
    rows = zip(best.values.tolist(), best.indices.tolist(), strict=True)
    return [[index for value, index in zip(values, indices, strict=True) if value > 0] for values, indices in rows]


def class_mix(cluster: Tensor, labels: Tensor, clusters: int) -> list[list[list[int]]]:
    """For every cluster its classes and how many of its labelled nodes have them, most first: [[class, nodes], …]."""
    known = labels >= 0
    classes = int(labels.max()) + 1
    counts = torch.bincount(cluster[known] * classes + labels[known], minlength=clusters * classes)
    found = []
    for row in counts.view(clusters, classes).tolist():
        order = sorted(range(classes), key=lambda index: (-row[index], index))
        found.append([[index, row[index]] for index in order if row[index]])
    return found


def _facts(
    condensed: Sequence[CondensedGraph],
    embedding: Embedding,
    source: Tensor,
    classes: Tensor | None,
    labels: Tensor | None,
    names: list[str] | None,
) -> list[dict[str, Any]]:
    """What the page says about each synthetic node, with short keys, since there may be thousands.

    ``k``: its number in its file; ``size``: nodes it represents, from the file; ``near``: nodes nearest to it on this
    graph; ``f``: distinctive features; and, where they are known, ``source``, ``class``, ``mix`` (classes of the nodes
    nearest to it) and ``known`` (how many of those have a class).
    """
    total = len(embedding.synthetic)
    columns: dict[str, list[Any]] = {
        "k": [index for part in condensed for index in range(part.num_nodes)],
        "size": [count for part in condensed for count in part.counts.tolist()],
        "near": torch.bincount(embedding.cluster, minlength=total).tolist(),
        "f": [
            [index if names is None else names[index] for index in row]
            for part in condensed
            for row in distinctive_features(part.features)
        ],
    }
    if len(condensed) > 1:
        columns["source"] = source.tolist()
    if classes is not None:
        columns["class"] = classes.tolist()
    if labels is not None and bool((labels >= 0).any()):
        mix = class_mix(embedding.cluster, labels, total)
        columns |= {"mix": [row[:CLASSES] for row in mix], "known": [sum(count for _, count in row) for row in mix]}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _integers(layout: Tensor) -> np.ndarray:
    """Coordinates as 16-bit integers, of the same scale both ways, centred."""
    low, high = layout.amin(0), layout.amax(0)
    scale = EXTENT / float((high - low).max().clamp(min=1e-12) / 2)
    return ((layout - (low + high) / 2) * scale).round().numpy().astype("<i2")
