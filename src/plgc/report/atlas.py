"""What does it look like: the original nodes around the synthetic ones, in one plane, packed small for the page.

Labels, where the graph has them, are shown and never used.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.report.embedded import Embedded, embed_all
from plgc.report.projection import project
from plgc.report.study import classes_of

NODES = 20_000  # original nodes drawn
SYNTHETIC = 4_000  # synthetic nodes drawn
COLOURS = 8
STANDOUT = 5  # features named of a synthetic node
MIX = 4  # classes named of a cluster
NAME = 32  # characters of a name
EXTENT = 32_000  # of the coordinates, as 16-bit integers


@dataclass(frozen=True)
class Atlas:
    """The map.

    Attributes:
        places: of the shown nodes, then of the shown synthetic nodes, int16 [n + k, 2].
        shown: the shown nodes' numbers in the graph, [n].
        cluster: each one's synthetic node, by its place among the shown, [n].
        labels: their classes, −1 for none; None without labels.
        synthetic: the shown synthetic nodes' numbers, [k].
        colour: of every shown synthetic node.
        facts: one entry per shown synthetic node, see :func:`_facts`.
        by: what the colours stand for: ``cluster``, ``source`` or ``class``.
        sources: names, where there are several.
        classes: the classes' names, where the graph has them.
        names: the shown nodes' names, where the graph has them.
        total: nodes of the graph.
    """

    places: np.ndarray
    shown: Tensor
    cluster: Tensor
    labels: Tensor | None
    synthetic: Tensor
    colour: list[int]
    facts: list[dict[str, Any]]
    by: str
    sources: list[str]
    total: int
    classes: list[str] | None = None
    names: list[str] | None = None

    def class_name(self, index: int) -> str:
        """A class as it is called."""
        return f"class {index}" if self.classes is None else self.classes[index]

    def packed(self) -> dict[str, Any]:
        """Everything the page's script needs, arrays as base64 of little-endian integers."""
        count = len(self.shown)
        return {
            "nodes": pack(self.places[:count], "<i2"),
            "made": pack(self.places[count:], "<i2"),
            "cluster": pack(self.cluster, "<u2"),
            "ids": None if count == self.total else pack(self.shown, "<u4"),
            "labels": None if self.labels is None else pack(self.labels, "<i2"),
            "colour": self.colour,
            "facts": self.facts,
            "by": self.by,
            "sources": self.sources,
            "classes": self.classes,
            "names": self.names,
        }


def pack(values: Tensor | np.ndarray, kind: str) -> str:
    """An array as base64 of one kind of integer."""
    return base64.b64encode(np.ascontiguousarray(np.asarray(values), dtype=np.dtype(kind)).tobytes()).decode()


def draw_atlas(
    names: Sequence[str], condensed: Sequence[CondensedGraph], graph: Data, seed: int = 0, device: str = "cpu"
) -> Atlas | None:
    """Lay the graph and the condensed graphs out; None where they do not fit into one embedding."""
    found = embed_all(condensed, graph, seed, device)
    if found is None:
        return None
    generator = torch.Generator().manual_seed(seed)
    total, counts = len(found.nodes), torch.cat([part.counts for part in condensed])
    made = torch.arange(len(counts))
    if len(made) > SYNTHETIC:
        made = counts.argsort(descending=True, stable=True)[:SYNTHETIC].sort().values
    place = torch.full((len(counts),), -1)
    place[made] = torch.arange(len(made))
    shown = (place[found.cluster] >= 0).nonzero().flatten()
    if len(shown) > NODES:
        shown = shown[torch.randperm(len(shown), generator=generator)[:NODES]].sort().values
    layout = project(torch.cat([found.nodes[shown], found.synthetic[made]]), seed)
    y, ids = graph._store.get("y"), _names(graph, "node_ids")
    source = torch.cat([torch.full((part.num_nodes,), index) for index, part in enumerate(condensed)])
    own = [classes_of(part) for part in condensed]
    classes = torch.cat([one for one in own if one is not None]) if all(one is not None for one in own) else None
    if len(condensed) > 1:
        by, colour = "source", (source[made] % COLOURS).tolist()
    elif classes is not None:
        by, colour = "class", (classes[made].clamp(min=0) % COLOURS).tolist()
    else:
        by, colour = "cluster", spread_colours(layout[len(shown) :], counts[made])
    return Atlas(
        places=_integers(layout),
        shown=shown,
        cluster=place[found.cluster[shown]],
        labels=None if y is None else y[shown],
        synthetic=made,
        colour=colour,
        facts=_facts(condensed, found, made, source, classes, y, _names(graph, "feature_names")),
        by=by,
        sources=list(names) if len(condensed) > 1 else [],
        total=total,
        classes=_names(graph, "class_names"),
        names=None if ids is None else [ids[index] for index in shown.tolist()],
    )


def _names(graph: Data, kind: str) -> list[str] | None:
    """What a graph calls its nodes, classes or features, shortened to what a tooltip holds."""
    found = graph._store.get(kind)
    if found is None:
        return None
    return [name if len(name) <= NAME else f"{name[: NAME - 1]}…" for name in map(str, found)]


def spread_colours(places: Tensor, counts: Tensor) -> list[int]:
    """A colour for every synthetic node, so that near ones differ: the largest choose first what is farthest away."""
    chosen = torch.full((len(places),), -1)
    for index in counts.argsort(descending=True, stable=True).tolist():
        distance = (places - places[index]).norm(dim=1)
        nearness = torch.stack([(1 / (distance[chosen == colour] + 1e-6).square()).sum() for colour in range(COLOURS)])
        chosen[index] = int(nearness.argmin())
    return chosen.tolist()


def standing_out(features: Tensor) -> list[list[int]]:
    """The features of every synthetic node that lie most above the mean of all, in standard deviations."""
    deviation = features.std(0, correction=0)
    score = (features - features.mean(0)) / deviation.clamp(min=1e-12)
    count = min(STANDOUT, features.shape[1])
    best = score.topk(count, dim=1)
    rows = zip(best.values.tolist(), best.indices.tolist(), strict=True)
    return [[index for value, index in zip(values, indices, strict=True) if value > 0] for values, indices in rows]


def class_mix(cluster: Tensor, labels: Tensor, clusters: int) -> list[list[list[int]]]:
    """For every cluster its classes and how many of its labelled nodes have them, most first: [[class, nodes], …]."""
    known = labels >= 0
    classes = int(labels.max()) + 1
    table = torch.zeros(clusters * classes, dtype=torch.int64)
    table.index_add_(0, cluster[known] * classes + labels[known], torch.ones(int(known.sum()), dtype=torch.int64))
    found = []
    for row in table.view(clusters, classes).tolist():
        order = sorted(range(classes), key=lambda index: (-row[index], index))
        found.append([[index, row[index]] for index in order if row[index]])
    return found


def _facts(
    condensed: Sequence[CondensedGraph],
    found: Embedded,
    made: Tensor,
    source: Tensor,
    classes: Tensor | None,
    y: Tensor | None,
    names: list[str] | None,
) -> list[dict[str, Any]]:
    """What is said of a synthetic node: number, size in the file, nodes nearest to it, features, class mix."""
    total = len(found.synthetic)
    near = torch.bincount(found.cluster, minlength=total).tolist()
    mix = class_mix(found.cluster, y, total) if y is not None and bool((y >= 0).any()) else None
    counts = torch.cat([part.counts for part in condensed]).tolist()
    features: list[list[Any]] = [row for part in condensed for row in standing_out(part.features)]
    if names is not None:
        features = [[names[index] for index in row] for row in features]
    number = torch.cat([torch.arange(part.num_nodes) for part in condensed]).tolist()
    facts = []
    for index in made.tolist():
        one: dict[str, Any] = {"k": number[index], "size": counts[index], "near": near[index], "f": features[index]}
        if len(condensed) > 1:
            one["source"] = int(source[index])
        if classes is not None:
            one["class"] = int(classes[index])
        if mix is not None:
            one["mix"] = mix[index][:MIX]
            one["known"] = sum(nodes for _, nodes in mix[index])
        facts.append(one)
    return facts


def _integers(layout: Tensor) -> np.ndarray:
    """Coordinates as 16-bit integers, of the same scale both ways, centred."""
    low, high = layout.amin(0), layout.amax(0)
    scale = EXTENT / float((high - low).max().clamp(min=1e-12) / 2)
    return ((layout - (low + high) / 2) * scale).round().to(torch.int16).numpy()
