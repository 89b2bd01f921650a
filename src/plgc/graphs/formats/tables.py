"""A graph from two tables: an edge list, and a table of its nodes; CSV, TSV, Parquet or a data frame.

Nodes are numbered in the order of the node table; without one they are those the edges name, in order of their ids.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.check import MAX_NODES, as_features
from plgc.graphs.formats.columns import EDGE_ROLES, NODE_ROLES, TableColumns, find_roles, listed
from plgc.graphs.formats.delimited import Layout, find_layout, is_number, read_delimited
from plgc.graphs.formats.encode import Encoded, encode_nodes
from plgc.graphs.formats.frames import frame_columns, is_frame, parquet_columns, read_frame, read_parquet
from plgc.graphs.formats.values import Column, Table
from plgc.runtime.errors import GraphError

PARQUET = (".parquet", ".pq")
SPARSE_COLUMNS, SPARSE_DENSITY = 64, 0.1
SUFFIXES = (".csv", ".tsv", ".txt", ".edges", ".edgelist", *PARQUET)


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of a table, by its name alone."""
    return os.fspath(path).lower().removesuffix(".gz").endswith(SUFFIXES)


def read_tables(edges: Any, nodes: Any = None, columns: TableColumns | None = None) -> Data:
    """Read a graph from an edge list and, where there is one, a node table.

    Args:
        edges: a path or a data frame (pandas or polars).
        nodes: likewise; without it the graph has no features.
        columns: which column is what; guessed where it does not say.

    Returns:
        A raw ``Data`` for :func:`plgc.load_graph`, with ``node_ids``, ``notes`` and, where there are any,
        ``class_names`` and ``feature_names``.

    Raises:
        GraphNotFoundError: a file is missing.
        GraphError: a table cannot be read, or the two do not fit; the message names the place.
        MissingExtraError: Parquet without pyarrow.
        SettingError: a column that was named does not exist.
    """
    columns, notes = columns or TableColumns(), []
    ids: list[str] | None = None
    encoded, owner = Encoded(), "the edges"
    if nodes is not None:
        table, roles = _open(nodes, "nodes", NODE_ROLES, columns, notes)
        ids, owner = _ids(table, roles["node_id"]), table.name
        encoded = encode_nodes(table, roles, columns, notes)
    known = None if ids is None else set(ids)
    table, roles = _open(edges, "edges", EDGE_ROLES, columns, notes, known)
    ends = table.columns[roles["source"]], table.columns[roles["target"]]
    weight = table.columns[roles["weight"]] if "weight" in roles else None
    name = "edges" if is_frame(edges) else Path(edges).name.split(".")[0] or "edges"
    return build_graph(name, table.name, ends, weight, ids, owner, encoded, notes)


def build_graph(
    name: str,
    edges: str,
    ends: tuple[Column, Column],
    weight: Column | None,
    ids: list[str] | None,
    owner: str,
    encoded: Encoded,
    notes: list[str],
) -> Data:
    """Put nodes and edges together.

    Args:
        name: of the graph.
        edges: what to call the edge list in messages.
        ends: ids of sources and targets.
        weight: of the edges.
        ids: of the nodes, in order; None to take those that occur.
        owner: what to call the place where the ids come from.
        encoded: what is known of the nodes.
        notes: what was guessed so far; the graph takes it along.
    """
    for column in ends:
        assert column.codes is not None
        if (column.codes < 0).any():
            row = int(np.flatnonzero(column.codes < 0)[0]) + 1
            raise GraphError(f"{edges}: row {row} names no node at one end: every edge needs two")
    if ids is None:
        ids = _in_order({word for column in ends for word in column.words or ()})
        notes.append(f"{edges}: without a node table the {len(ids):,} nodes are those the edges name; no features")
    elif encoded.x is None:
        notes.append(f"{owner}: there is no feature column")
    if len(ids) >= MAX_NODES:
        raise GraphError(f"{owner}: {len(ids)} nodes, the limit is {MAX_NODES - 1}")
    data = Data(edge_index=torch.from_numpy(_edge_index(ends, ids, edges, owner)), num_nodes=len(ids))
    data.name, data.node_ids, data.notes = name, ids, notes
    if weight is not None:
        data.edge_weight = torch.from_numpy(_weights(weight, edges, notes))
    if encoded.x is not None:
        data.x = _sparse_or_dense(encoded.x)
        data.feature_names = encoded.feature_names
    if encoded.y is not None:
        data.y = torch.from_numpy(encoded.y)
    if encoded.class_names is not None:
        data.class_names = encoded.class_names
    for key, mask in encoded.masks.items():
        data[key] = torch.from_numpy(mask)
    if encoded.split_origin is not None:
        data.split_origin = encoded.split_origin
    return data


def _sparse_or_dense(x: np.ndarray) -> Tensor | None:
    """Features in the form that is cheaper to work with: a wide table of mostly zeros, a bag of words, as CSR."""
    wide = x.shape[1] >= SPARSE_COLUMNS and np.count_nonzero(x) < SPARSE_DENSITY * x.size
    return as_features(sp.csr_matrix(x)) if wide else torch.from_numpy(x)


def _open(
    source: Any,
    called: str,
    roles: Sequence[str],
    columns: TableColumns,
    notes: list[str],
    known: set[str] | None = None,
) -> tuple[Table, Mapping[str, str]]:
    """Read a table: of edges only the columns with a role, of nodes all of them."""
    layout: Layout | None = None
    if is_frame(source):
        names, where, read = frame_columns(source, called), called, partial(read_frame, source, called)
    elif os.fspath(source).lower().endswith(PARQUET):
        path = Path(source)
        names, where, read = parquet_columns(path), path.name, partial(read_parquet, path)
    else:
        layout = find_layout(Path(source), roles, notes, None if known is None else known.__contains__)
        names, where, read = layout.names, layout.path.name, partial(read_delimited, layout)
    found = find_roles(where, names, roles, columns, notes, layout is None or layout.header)
    if layout is not None and not layout.header and "node_id" in roles and columns.features is None:
        found = _last_as_label(found, layout, notes)
    ids = [name for role, name in found.items() if role in ("source", "target", "node_id")]
    words = [name for role, name in found.items() if role in ("label", "split")]
    return read(ids, words, list(found.values()) if "source" in roles else None), found


def _ids(table: Table, name: str) -> list[str]:
    """The ids of the nodes, each once."""
    if not table.rows:
        raise GraphError(f"{table.name} holds no nodes")
    column = table.columns[name]
    assert column.codes is not None
    ids = column.text()
    if None in ids:
        raise GraphError(f"{table.name}: row {ids.index(None) + 1} has no id in {name!r}: every node needs one")
    if len(column.words or ()) < len(ids):
        counts = np.bincount(column.codes)
        twice = [(column.words or [])[place] for place in np.flatnonzero(counts > 1)]
        raise GraphError(
            f"{table.name}: {len(twice):,} id(s) in {name!r} occur more than once ({listed(twice, 5)}): keep one row "
            "per node, or name another column as node_id"
        )
    return [word for word in ids if word is not None]


def _edge_index(ends: tuple[Column, Column], ids: list[str], edges: str, owner: str) -> np.ndarray:
    number = {word: place for place, word in enumerate(ids)}
    rows, unknown = [], {}
    for column in ends:
        places = np.array([number.get(word, -1) for word in column.words or ()], dtype=np.int64)
        lost = np.flatnonzero(places < 0)
        unknown |= dict.fromkeys((column.words or [])[place] for place in lost)
        rows.append(places[column.codes] if len(places) else np.zeros(0, np.int64))
    if unknown:
        count = int(((rows[0] < 0) | (rows[1] < 0)).sum())
        raise GraphError(
            f"{edges}: {count:,} edge(s) name {len(unknown):,} node(s) that {owner} does not have "
            f"({listed(list(unknown), 5)}): add a row for each or drop those edges, and see that ids are written alike "
            f"in both ({owner} has {listed(ids, 3)})"
        )
    return np.stack(rows)


def _weights(column: Column, edges: str, notes: list[str]) -> np.ndarray:
    if column.numbers is None or column.numbers.ndim != 1:
        shown = f" ({listed(column.words, 3)})" if column.words else ""
        raise GraphError(f"{edges}: the weights are not numbers{shown}: name another column as weight")
    gaps = np.isnan(column.numbers)
    if gaps.any():
        notes.append(f"{edges}: {int(gaps.sum()):,} edge(s) without a weight count as 1")
    return np.where(gaps, 1.0, column.numbers)


def _in_order(words: set[str]) -> list[str]:
    """Ids in order: as numbers where all of them are, else as words."""
    if all(word.isascii() and word.isdigit() and len(word) < 19 for word in words):
        return sorted(words, key=lambda word: (int(word), word))
    return sorted(words)


def _last_as_label(found: Mapping[str, str], layout: Layout, notes: list[str]) -> dict[str, str]:
    """Of a table without a header, the last column is the label where it holds words beside columns of numbers."""
    last = layout.names[-1]
    if "label" in found or last in found.values() or len(layout.names) < 3 or is_number(layout.first[-1]):
        return dict(found)
    notes.append(f"{layout.path.name}: {last!r}, the last one, is taken for the label")
    return {**found, "label": last}
