"""Graphs in other people's forms: which reader takes which source, and the names that go along with a graph."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from plgc.graphs.check import node_count
from plgc.graphs.formats.columns import TableColumns
from plgc.graphs.formats.convert import from_matrix, from_networkx, is_matrix, is_networkx
from plgc.graphs.formats.frames import is_frame
from plgc.graphs.formats.graphml import is_graphml, read_graphml
from plgc.graphs.formats.tables import is_table, read_tables
from plgc.runtime.errors import GraphError, SettingError

KEPT = ("node_ids", "class_names", "feature_names", "notes")


def open_foreign(source: Any, nodes_table: Any = None, columns: TableColumns | None = None) -> Data | None:
    """The source as a raw ``Data`` where it is a table, GraphML, or a graph of another library; else None.

    Raises:
        SettingError: a node table or columns come with a graph that has no use for them.
    """
    path = Path(os.path.expanduser(source)) if isinstance(source, str | os.PathLike) else None
    if is_frame(source) or (path is not None and is_table(path)):
        nodes = os.path.expanduser(nodes_table) if isinstance(nodes_table, str) else nodes_table
        return read_tables(source if path is None else path, nodes, columns)
    if nodes_table is not None:
        raise SettingError(f"a node table goes with an edge list (CSV, TSV, Parquet), not with {source!r:.80}")
    if path is not None and is_graphml(path.name):
        return read_graphml(path, columns)
    if is_networkx(source):
        return from_networkx(source, columns)
    if columns is not None:
        raise SettingError(f"columns are for tables, GraphML and NetworkX, not for {source!r:.80}")
    return from_matrix(source) if is_matrix(source) else None


def keep_names(data: Data, raw: Data) -> None:
    """Copy the names of nodes, classes and features, and the notes, from one graph to another of the same nodes.

    Raises:
        GraphError: there are not as many names as things to be named.
    """
    for key in KEPT:
        if (value := raw._store.get(key)) is not None:
            data[key] = list(value)
    wanted = {"node_ids": node_count(data), "feature_names": 0 if data.x is None else data.x.size(1)}
    for key, count in wanted.items():
        if key in data and len(data[key]) != count:
            raise GraphError(f"{data.name}: {key} has {len(data[key])} entries, expected {count}")
    if "class_names" in data and "y" in data and len(data["class_names"]) <= int(data["y"].max()):
        raise GraphError(f"{data.name}: {len(data['class_names'])} class names, but a label is {int(data['y'].max())}")
