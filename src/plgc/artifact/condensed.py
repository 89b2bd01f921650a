"""The condensed graph on disk: one safetensors file, described in a dozen lines.

Tensors: ``features`` X' [K, f] float32 and ``counts`` [K] int64, the number of original nodes per synthetic node;
from a label-free method, ``pseudo_labels`` Ỹ [K, d] float32, or, from a supervised one, ``labels``: classes
[K] int64 (−1: none) or soft labels [K, C] float32; and ``edge_index`` [2, E] int64 with ``edge_weight`` [E] float32
where A' is not I. The header has one metadata entry, ``plgc``: a JSON object with ``format``, ``schema``, ``version``
(of the package), ``method``, ``seed``, ``threads``, ``scaling`` (row scaling of the features), ``blocks`` (how Ỹ's
columns split into one unit vector per encoder), ``channels`` (of every block: ``edges`` where its encoder passed
messages, ``plain`` where it saw every node by itself), ``num_classes`` (of ``labels``), ``seen`` (which nodes and edges
of the original the method saw, the split whose training nodes or labels it was given, and how its features were derived
from edges where it had none of its own, or the columns of a table became features: names of columns and categories,
medians and spreads), ``settings``, ``nodes_requested``, ``chosen`` (what was chosen from the graph
itself), ``curves`` (losses), ``source`` (node, edge and feature counts of the original), ``fingerprint``,
``ancestry`` (the files that it was updated or merged from, oldest first: :mod:`plgc.artifact.ancestry`),
``largest_share`` (of a private release: how far one node moves a published number, at most, in standard deviations of
its noise), and a ``checksum`` over all of this and the tensors (:mod:`plgc.runtime.container`). No pickle, no time, no
path, no host, no name of the graph. In the file, every tensor has the smallest form that holds it
(:mod:`plgc.artifact.storage`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from plgc._version import __version__
from plgc.artifact.ancestry import Ancestor, Parent
from plgc.artifact.description import CHANNELS as CHANNELS
from plgc.artifact.description import MANY_CLASSES, Description
from plgc.artifact.storage import pack, unpack
from plgc.graphs.attributes import ALL, Seen
from plgc.runtime.container import container_bytes, read_container
from plgc.runtime.errors import ArtifactError
from plgc.runtime.files import write_atomically
from plgc.runtime.schema import read
from plgc.runtime.text import counted, html_line, visible

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data

FORMAT = "plgc-condensed-graph"
# All are read: 5 knew no ancestry, private releases and small forms of tensors; 4 no preprocessing; 3 no channels; 2 no
# checksum; 1 no labels, edges and other methods.
SCHEMA = 6
CHECKSUM_SINCE = 3  # the first schema with a checksum
PACKED_SINCE = 6  # the first schema whose tensors have small forms
WITHHELD = ("min_cluster", "max_share", "clip", "noise", "private")  # settings of a release that a descendant records
TENSORS = ("features", "pseudo_labels", "counts", "labels", "edge_index", "edge_weight")


@dataclass(frozen=True, eq=False)
class CondensedGraph:
    """A condensed graph 𝒮 = (X', A') and how it was made.

    Ours has pseudo-labels Ỹ and A' = I (no edges). Methods that need labels leave ``labels`` instead, and some leave
    edges; :mod:`plgc.rivals.methods` names them. Every synthetic node serves all channels: Ỹ has columns for each, and
    ``channels`` says of every block of columns which one it belongs to.

    Example:
        >>> import plgc
        >>> condensed = plgc.condense(plgc.load_graph("demo"), nodes=40)
        >>> again = plgc.CondensedGraph.load(condensed.save("demo.safetensors"))
        >>> again.to_bytes() == condensed.to_bytes(), again.source["nodes"]
        (True, 3000)
    """

    features: Tensor
    pseudo_labels: Tensor | None
    counts: Tensor
    blocks: tuple[int, ...]
    scaling: str
    seed: int
    threads: int
    settings: dict[str, Any]
    nodes_requested: int
    chosen: dict[str, Any] = field(default_factory=dict)
    curves: dict[str, list[float]] = field(default_factory=dict)
    source: dict[str, int] = field(default_factory=dict)
    fingerprint: str | None = None
    version: str = __version__
    method: str = "plgc"
    seen: Seen = ALL
    labels: Tensor | None = None
    num_classes: int | None = None
    edge_index: Tensor | None = None
    edge_weight: Tensor | None = None
    channels: tuple[str, ...] = ()
    ancestry: tuple[Ancestor, ...] = ()
    largest_share: float | None = None

    def __post_init__(self) -> None:
        if not self.channels:  # a method without channels, or a file from before there were any
            object.__setattr__(self, "channels", ("edges",) * len(self.blocks))

    def __repr__(self) -> str:
        whole = self.source.get("nodes")
        parts = [counted(self.num_nodes, "node") + (f" of {whole:,}" if whole is not None else "")]
        parts.append(counted(self.num_features, "feature"))
        if self.pseudo_labels is not None:
            parts.append(counted(len(set(self.channels)), "channel"))
        elif self.num_classes is not None:
            parts.append(counted(self.num_classes, "class", "classes"))
        if self.edge_index is not None:
            parts.append(counted(self.edge_index.shape[1], "edge"))
        return f"CondensedGraph({', '.join(parts)}, {visible(self.method)})"

    def _repr_html_(self) -> str:
        return html_line(repr(self))

    @property
    def num_nodes(self) -> int:
        """K, the number of synthetic nodes."""
        return self.features.shape[0]

    @property
    def num_features(self) -> int:
        """f, the feature width it shares with the graph it came from."""
        return self.features.shape[1]

    def blocks_of(self, channel: str) -> tuple[int, ...]:
        """Widths of the blocks of one channel; empty where the file does not have it."""
        return tuple(width for width, own in zip(self.blocks, self.channels, strict=True) if own == channel)

    def targets_of(self, channel: str) -> Tensor | None:
        """Ỹ of one channel, [K, Σ of its blocks], as unit vectors; None where the file does not have it.

        Ỹ is one unit vector over all its blocks, and so is each channel's part over its own.
        """
        if self.pseudo_labels is None or channel not in self.channels:
            return None
        parts = self.pseudo_labels.split(list(self.blocks), dim=1)
        own = [part for part, name in zip(parts, self.channels, strict=True) if name == channel]
        return torch.cat(own, dim=1) * (len(self.blocks) / len(own)) ** 0.5

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the file, whole or not at all.

        Raises:
            ArtifactError: it could not be opened again: it holds NaN, or its parts do not fit.
        """
        content = self.to_bytes()
        if problem := _problem(self):
            raise ArtifactError(f"{path} is not written: {problem}")
        return write_atomically(path, content)

    def to_bytes(self) -> bytes:
        """The file's content. Equal condensed graphs give equal bytes."""
        header = {
            "format": FORMAT,
            "schema": SCHEMA,
            "version": self.version,
            "seed": self.seed,
            "threads": self.threads,
            "scaling": self.scaling,
            "blocks": list(self.blocks),
            "channels": list(self.channels),
            "settings": self.settings,
            "nodes_requested": self.nodes_requested,
            "chosen": self.chosen,
            "curves": self.curves,
            "source": self.source,
            "fingerprint": self.fingerprint,
            "method": self.method,
            "seen": self.seen.to_dict(),
            "num_classes": self.num_classes,
            "ancestry": [ancestor.to_dict() for ancestor in self.ancestry],
            "largest_share": self.largest_share,
        }
        tensors = {name: getattr(self, name) for name in TENSORS}
        tensors = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        return container_bytes(pack(tensors), header, allow_nan=False)

    def as_parent(self) -> Parent:
        """This file in the ancestry of another."""
        source, settings = self.source, self.settings
        withheld = {name: settings[name] for name in WITHHELD if name in settings}
        checksum = hashlib.sha256(self.to_bytes()).hexdigest()
        return Parent(checksum, self.num_nodes, source.get("nodes"), source.get("edges"), **withheld)

    def to_pyg(self) -> Data:
        """As a PyG ``Data``; see :func:`plgc.artifact.export.to_pyg`."""
        from plgc.artifact import export

        return export.to_pyg(self)

    def to_networkx(self) -> networkx.Graph:
        """As a NetworkX graph; see :func:`plgc.artifact.export.to_networkx`."""
        from plgc.artifact import export

        return export.to_networkx(self)

    def to_dataframe(self, kind: str | None = None, feature_names: Sequence[str] | None = None) -> Any:
        """As a data frame of pandas or polars; see :func:`plgc.artifact.export.to_dataframe`."""
        from plgc.artifact import export

        return export.to_dataframe(self, kind, feature_names)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> CondensedGraph:
        """Open a file made by :meth:`save`; anything else is refused with the reason."""
        tensors, header = read_container(path, (FORMAT,), SCHEMA, CHECKSUM_SINCE)
        try:
            about = read(Description, header, schema=header["schema"])
            graph = _assemble(about, header, unpack(tensors) if about.schema >= PACKED_SINCE else tensors)
        except (ValueError, KeyError) as error:
            what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise ArtifactError(f"{path} is damaged: {what[:400]}") from error
        if problem := _problem(graph):
            raise ArtifactError(f"{path} is damaged: {problem[:400]}")
        return graph


def _assemble(about: Description, header: dict[str, Any], tensors: dict[str, Tensor]) -> CondensedGraph:
    """The condensed graph of a description that has been checked; mappings are kept as they were written."""
    later = TENSORS[3:] if about.schema >= 2 else ()
    return CondensedGraph(
        features=tensors["features"],
        pseudo_labels=tensors.get("pseudo_labels"),
        counts=tensors["counts"],
        blocks=about.blocks,
        scaling=about.scaling,
        seed=about.seed,
        threads=about.threads,
        settings=header["settings"],
        nodes_requested=about.nodes_requested,
        chosen=header["chosen"],
        curves={name: list(values) for name, values in about.curves.items()},
        source=about.source,
        fingerprint=about.fingerprint,
        version=about.version,
        method=about.method,
        seen=about.what_was_seen,
        num_classes=about.num_classes,
        channels=about.channels,
        ancestry=about.ancestry,
        largest_share=about.largest_share,
        **{name: tensors.get(name) for name in later},
    )


def _problem(graph: CondensedGraph) -> str | None:
    """What of the tensors does not fit the description, or each other; None where all does."""
    return _problem_of_nodes(graph) or _problem_of_targets(graph) or _problem_of_edges(graph)


def _problem_of_nodes(graph: CondensedGraph) -> str | None:
    features, counts = graph.features, graph.counts
    if features.dtype != torch.float32 or features.ndim != 2 or 0 in features.shape:
        return f"features are {features.dtype} {tuple(features.shape)}, not float32 [K, f]"
    if counts.dtype != torch.int64 or counts.shape != features.shape[:1]:
        return f"counts are {counts.dtype} {tuple(counts.shape)}, not int64 [{features.shape[0]}]"
    if int(counts.min()) < 0:
        return f"a count is {int(counts.min())}, below 0"
    if not torch.isfinite(features).all():
        return "its features hold NaN or infinite values"
    if graph.source.get("features", graph.num_features) != graph.num_features:
        return f"it has {graph.num_features} features, those of the original are said to be {graph.source['features']}"
    return None


def _problem_of_targets(graph: CondensedGraph) -> str | None:
    """Pseudo-labels or labels, one of the two, one row a node."""
    nodes, pseudo, labels, classes = graph.num_nodes, graph.pseudo_labels, graph.labels, graph.num_classes
    if (pseudo is None) == (labels is None):
        return "it holds neither pseudo-labels nor labels" if pseudo is None else "it holds pseudo-labels and labels"
    if pseudo is not None:
        if pseudo.dtype != torch.float32 or pseudo.ndim != 2 or pseudo.shape[0] != nodes:
            return f"pseudo-labels are {pseudo.dtype} {tuple(pseudo.shape)}, not float32 [{nodes}, d]"
        if sum(graph.blocks) != pseudo.shape[1]:
            return f"blocks {graph.blocks} do not add up to the {pseudo.shape[1]} columns of the pseudo-labels"
        return None if torch.isfinite(pseudo).all() else "its pseudo-labels hold NaN or infinite values"
    assert labels is not None
    if classes is None or classes > max(MANY_CLASSES, nodes):
        return f"it has labels, but num_classes is {classes}"
    if labels.dtype == torch.int64 and labels.shape == (nodes,):
        good = int(labels.min()) >= -1 and int(labels.max()) < classes
        return None if good else f"labels run from {int(labels.min())} to {int(labels.max())} for {classes} classes"
    if labels.dtype == torch.float32 and labels.shape == (nodes, classes):
        return None if torch.isfinite(labels).all() else "its labels hold NaN or infinite values"
    return f"labels are {labels.dtype} {tuple(labels.shape)}, not int64 [{nodes}] or float32 [{nodes}, {classes}]"


def _problem_of_edges(graph: CondensedGraph) -> str | None:
    edges, weight = graph.edge_index, graph.edge_weight
    if edges is None:
        return None if weight is None else "it has edge weights but no edges"
    if edges.dtype != torch.int64 or edges.ndim != 2 or edges.shape[0] != 2:
        return f"edge_index is {edges.dtype} {tuple(edges.shape)}, not int64 [2, E]"
    if edges.numel() and not (int(edges.min()) >= 0 and int(edges.max()) < graph.num_nodes):
        return f"edges name nodes {int(edges.min())} to {int(edges.max())}, it has {graph.num_nodes}"
    if weight is not None and (weight.dtype != torch.float32 or weight.shape != edges.shape[1:]):
        return f"edge_weight is {weight.dtype} {tuple(weight.shape)}, not float32 [{edges.shape[1]}]"
    if weight is not None and not (torch.isfinite(weight).all() and (weight >= 0).all()):
        return "an edge weight is negative, NaN or infinite"
    return None
