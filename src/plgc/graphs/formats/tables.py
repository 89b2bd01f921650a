"""A graph from two tables: an edge list, and a table of its nodes; CSV, TSV, Parquet or a data frame.

Nodes are numbered in the order of the node table; without one they are those the edges name, in order of their ids.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from plgc.graphs.attributes import Seen
from plgc.graphs.formats import is_frame
from plgc.graphs.formats.assemble import build_graph
from plgc.graphs.formats.columns import TableColumns, find_roles, listed
from plgc.graphs.formats.delimited import Layout, find_layout, read_delimited, words_of
from plgc.graphs.formats.frames import frame_columns, parquet_columns, read_frame, read_parquet
from plgc.graphs.formats.node_columns import encode_nodes
from plgc.graphs.formats.values import InputTable, Kind, is_number, joined_column
from plgc.graphs.preprocessing import Preprocessing
from plgc.runtime.errors import GraphError, SettingError

PARQUET = (".parquet", ".pq")
EDGE_ROLES, NODE_ROLES = ("source", "target", "weight"), ("node_id", "label", "split")
KINDS: dict[str, Kind] = {"source": "id", "target": "id", "node_id": "id", "label": "word", "split": "word"}


def read(edges: Any, nodes_table: Any = None, columns: TableColumns | None = None) -> Data:
    """Read a graph from an edge list and, where there is one, a node table: paths or data frames.

    The raw ``Data`` has ``node_ids``, ``notes`` and, where there are any, ``class_names`` and ``feature_names``. Raises
    as :func:`plgc.load_graph` does; messages name the place in the table.
    """
    columns, notes, nodes = columns or TableColumns(), [], None
    if nodes_table is None and columns.time is not None:
        raise SettingError("the time is a column of the node table, and there is none: give --nodes-table")
    if nodes_table is not None:
        ends = partial(words_of, Path(edges)) if _is_text(edges) else tuple
        table, roles = _read_table(nodes_table, "nodes", (*NODE_ROLES, *columns.timed), columns, notes, ends)
        nodes = table.name, _ids(table, roles["node_id"]), encode_nodes(table, roles, columns, notes)
    ids = () if nodes is None else set(nodes[1])
    table, roles = _read_table(edges, "edges", EDGE_ROLES, columns, notes, lambda: ids)
    ends = table.columns[roles["source"]], table.columns[roles["target"]]
    weight = table.columns[roles["weight"]] if "weight" in roles else None
    if nodes is not None and "seen" in nodes[2]:
        nodes[2]["seen"] = with_roles(nodes[2]["seen"], roles)
    name = "edges" if is_frame(edges) else Path(edges).name.split(".")[0] or "edges"
    return build_graph(name, table.name, ends, weight, nodes, notes)


def _read_table(
    source: Any,
    name: str,
    roles: Sequence[str],
    columns: TableColumns,
    notes: list[str],
    ids: Callable[[], Collection[str]],
) -> tuple[InputTable, Mapping[str, str]]:
    """Read a table, and find its columns by role: of edges only these columns are read, of nodes all of them.

    ``ids`` gives the ids that the other table has.
    """
    layout: Layout | None = None
    if columns.header is not None and not _is_text(source):
        raise SettingError(f"{name}: header says how a table of text begins; this table has names of its own")
    if is_frame(source):
        names, read_columns = frame_columns(source, name), partial(read_frame, source, name)
    elif os.fspath(source).lower().endswith(PARQUET):
        path = Path(source)
        name, names, read_columns = path.name, parquet_columns(path), partial(read_parquet, path)
    else:
        named = columns.names_of(roles)
        layout = find_layout(Path(source), roles, notes, columns.header, named, ids)
        name, names, read_columns = layout.path.name, layout.names, partial(read_delimited, layout)
    found = find_columns(name, names, roles, columns, notes, layout)
    return read_columns(kinds_of(names, found, columns), known_decimal(columns)), found


def find_columns(
    name: str,
    names: Sequence[str],
    roles: Sequence[str],
    columns: TableColumns,
    notes: list[str],
    layout: Layout | None,
) -> dict[str, str]:
    """The column of every role that has one; ``layout`` is that of a table of text."""
    found = find_roles(name, names, roles, columns, notes, layout is None or layout.header)
    if layout is not None and not layout.header and "node_id" in roles and columns.features is None:
        return _last_as_label(found, layout, notes)
    return found


def kinds_of(names: Sequence[str], found: Mapping[str, str], columns: TableColumns) -> dict[str, Kind]:
    """How each column that is read is read, by the roles that were found."""
    kinds: dict[str, Kind] = {} if "source" in found else dict.fromkeys(names, "value")
    kinds |= {name: "word" for name in columns.word_columns if name in kinds}
    for role, column in found.items():
        kinds[column] = KINDS.get(role, "value")
    return kinds


def known_decimal(columns: TableColumns) -> str | None:
    """The sign before decimals, where the user or a description says it."""
    return columns.decimal or (None if columns.preprocessing is None else columns.preprocessing.decimal)


def describe_tables(sources: Sequence[Any], columns: TableColumns, notes: list[str]) -> Preprocessing:
    """How the node tables of several owners become features: learned from all their rows, and from no label.

    Only columns that every table has are used.

    Raises:
        GraphError: no column can be a feature, or one is of different kinds in two tables.
    """
    wanted = (*NODE_ROLES, *columns.timed)
    found = [_read_table(source, "nodes", wanted, columns, notes, tuple) for source in sources]
    (first, roles), tables = found[0], [table for table, _ in found]
    shared = [name for name in first.columns if all(name in table.columns for table in tables)]
    if others := sorted({name for table in tables for name in table.columns} - set(shared)):
        notes.append(f"{listed(others)} left out: not every table has it")
    rows = sum(table.rows for table in tables)
    try:
        joined = {name: joined_column(name, [table.columns[name] for table in tables]) for name in shared}
    except ValueError as error:
        raise GraphError(f"{', '.join(table.name for table in tables)}: {error}") from error
    table = InputTable(" + ".join(table.name for table in tables), rows, joined)
    encoded = encode_nodes(table, {role: name for role, name in roles.items() if name in joined}, columns, notes)
    if "seen" not in encoded:
        raise GraphError(f"{table.name}: there is no feature column to describe")
    notes[:0] = encoded.get("doubts", [])
    return encoded["seen"].preprocessing


def with_roles(seen: Seen, roles: Mapping[str, str]) -> Seen:
    """The same with the columns of the edge list, by which a later one is read."""
    assert seen.preprocessing is not None
    known = replace(seen.preprocessing, roles={**(seen.preprocessing.roles or {}), **roles})
    return replace(seen, preprocessing=known)


def _is_text(source: Any) -> bool:
    """Whether a table is a file of text, which may have a header line or not."""
    return not is_frame(source) and not os.fspath(source).lower().endswith(PARQUET)


def _ids(table: InputTable, name: str) -> list[str]:
    """The ids of the nodes, each once."""
    if not table.rows:
        raise GraphError(f"{table.name} holds no nodes")
    column = table.columns[name]
    ids = column.text()
    if None in ids:
        raise GraphError(f"{table.name}: row {ids.index(None) + 1} has no id in {name!r}: every node needs one")
    if twice := column.repeated():
        raise GraphError(
            f"{table.name}: {len(twice):,} id(s) in {name!r} occur more than once ({listed(twice, 5)}): keep one row "
            "per node, or name another column as node_id"
        )
    return [word for word in ids if word is not None]


def _last_as_label(found: Mapping[str, str], layout: Layout, notes: list[str]) -> dict[str, str]:
    """Of a table without a header, the last column is the label where it begins with a word."""
    last = layout.names[-1]
    if "label" in found or last in found.values():
        return dict(found)
    if is_number(layout.first[-1]):
        notes.append(f"{layout.path.name}: no column is taken for the label; name it with --column 'label={last}'")
        return dict(found)
    notes.append(f"{layout.path.name}: {last!r}, the last one, is taken for the label")
    return {**found, "label": last}
