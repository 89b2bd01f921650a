"""Graphs of other libraries: a NetworkX graph, or a scipy sparse matrix with an array of features.

Attributes of NetworkX's nodes and edges follow the rules for columns of tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from plgc.graphs.check import as_features
from plgc.graphs.formats.classes import labels_of
from plgc.graphs.formats.columns import TableColumns, find_roles, listed
from plgc.graphs.formats.encode import encode_nodes
from plgc.graphs.formats.tables import build_graph
from plgc.graphs.formats.values import MAX_COLUMNS, MAX_VALUES, Column, Table, column_of
from plgc.runtime.errors import GraphError, SettingError


@dataclass(frozen=True)
class Attributes:
    """Attributes of nodes or edges: their names, and each as a column (name, as words, at most so many different)."""

    names: list[str]
    column: Callable[[str, bool, bool], Column]


def is_networkx(source: Any) -> bool:
    """Whether this is a NetworkX graph, without importing it."""
    return any(kind.__module__.startswith("networkx.") and kind.__name__ == "Graph" for kind in type(source).__mro__)


def is_matrix(source: Any) -> bool:
    """Whether this is a scipy sparse matrix, or a tuple that starts with one."""
    return sp.issparse(source) or (isinstance(source, tuple) and bool(source) and sp.issparse(source[0]))


def from_networkx(graph: Any, columns: TableColumns | None = None) -> Data:
    """A NetworkX graph, directed or not, as a raw ``Data``; its nodes keep their order and, as text, their names."""
    ids = [str(node) for node in graph.nodes]
    if len(set(ids)) < len(ids):
        twice = [word for word in dict.fromkeys(ids) if ids.count(word) > 1] if len(ids) < 1000 else []
        raise GraphError(f"several nodes of the graph have the same text as name ({listed(twice, 5)}): rename them")
    number = dict(zip(graph.nodes, ids, strict=True))
    edges = list(graph.edges(data=True))
    ends = tuple(column_of([number[edge[place]] for edge in edges], ids=True) for place in (0, 1))
    nodes = _attributes([fields for _, fields in graph.nodes(data=True)])
    name = graph.name if isinstance(graph.name, str) and graph.name else "graph"
    return graph_of(name, "graph", ids, nodes, (ends[0], ends[1]), _attributes([edge[2] for edge in edges]), columns)


def from_matrix(source: Any) -> Data:
    """A scipy adjacency matrix, alone or in a tuple (matrix, features) or (matrix, features, labels), as raw ``Data``.

    Entries that are all 1 are edges without weights; others are weights. Zeros are no edges.
    """
    parts: list[Any] = list(source) if isinstance(source, tuple) else [source]
    if len(parts) > 3:
        raise GraphError(
            f"a tuple of {len(parts)} was given, expected (matrix, features) or (matrix, features, labels)"
        )
    matrix, features, labels = parts[0], *[*parts[1:], None, None][:2]
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise GraphError(f"the matrix has shape {list(matrix.shape)}, expected [N, N], an adjacency")
    if matrix.dtype.kind not in "fiub":
        raise GraphError(f"the matrix holds {matrix.dtype} values, expected numbers")
    entries = matrix.tocoo(copy=True)
    entries.sum_duplicates()
    kept = entries.data != 0
    pairs = np.stack([entries.row[kept], entries.col[kept]]).astype(np.int64)
    data = Data(edge_index=torch.from_numpy(pairs), num_nodes=matrix.shape[0])
    data.name, notes = "graph", []
    weight = entries.data[kept].astype(np.float64)
    if not (weight == 1).all():
        data.edge_weight = torch.from_numpy(weight)
        notes.append("graph: the matrix's entries are taken as weights of the edges")
    if features is not None:
        data.x = as_features(features)
        rows = 0 if data.x is None else data.x.shape[0]
        if data.x is not None and rows != matrix.shape[0]:
            raise GraphError(f"the features have {rows} rows, the matrix {matrix.shape[0]}: give one per node")
    if labels is not None:
        y, names = labels_of(labels.cpu().numpy() if isinstance(labels, torch.Tensor) else labels, "labels", notes)
        data.y = torch.from_numpy(y)
        if names is not None:
            data.class_names = names
    data.notes = notes
    return data


def graph_of(
    name: str,
    where: str,
    ids: list[str],
    nodes: Attributes,
    ends: tuple[Column, Column],
    edges: Attributes,
    columns: TableColumns | None,
) -> Data:
    """A raw graph from nodes and edges with attributes.

    Args:
        name: of the graph.
        where: what to call it in messages.
        ids: of the nodes, in order.
        nodes: their attributes.
        ends: ids of every edge's two ends.
        edges: their attributes.
        columns: which attribute is the label, the split, the weight, a feature.

    Raises:
        GraphError: ids occur twice, edges name other nodes, or an attribute cannot be what it was named for.
        SettingError: an attribute that was named does not exist, or an id was named: they are fixed here.
    """
    columns, notes = columns or TableColumns(), []
    if fixed := columns.given(("source", "target", "node_id")):
        raise SettingError(f"{where}: {', '.join(fixed)} cannot be chosen: the graph itself says what its nodes are")
    if len(set(ids)) < len(ids):
        codes = column_of(ids, ids=True)
        twice = [(codes.words or [])[place] for place in np.flatnonzero(np.bincount(codes.codes) > 1)]  # pyright: ignore
        raise GraphError(f"{where}: {len(twice):,} node id(s) occur more than once ({listed(twice, 5)})")
    roles = find_roles(where, nodes.names, ("label", "split"), columns, notes)
    table = {name: nodes.column(name, name in roles.values(), name not in roles.values()) for name in nodes.names}
    encoded = encode_nodes(Table(where, len(ids), table), roles, columns, notes)
    edge_roles = find_roles(f"{where}, edges", edges.names, ("weight",), columns, notes)
    weight = edges.column(edge_roles["weight"], False, True) if edge_roles else None
    return build_graph(name, where, ends, weight, ids, where, encoded, notes)


def _attributes(items: list[dict[Any, Any]]) -> Attributes:
    """The attributes of NetworkX's nodes or edges, in order of appearance; those whose names are not text left out."""
    names = list(dict.fromkeys(name for fields in items for name in fields if isinstance(name, str)))
    if len(names) > MAX_COLUMNS:
        raise GraphError(f"the graph has {len(names):,} attributes, the limit is {MAX_COLUMNS:,}")

    def column(name: str, words: bool, cap: bool) -> Column:
        return column_of([fields.get(name) for fields in items], words=words, cap=MAX_VALUES if cap else None)

    return Attributes(names, column)
