"""Put a raw graph together from columns: ids of nodes and edges, and what is known of the nodes.

Tables, GraphML and NetworkX graphs all end here, so that their columns or attributes follow the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from plgc.graphs.check import MAX_NODES
from plgc.graphs.formats.columns import TableColumns, find_roles, listed
from plgc.graphs.formats.node_columns import encode_nodes
from plgc.graphs.formats.values import Column, InputTable, Kind, column_of
from plgc.runtime.errors import GraphError, SettingError


@dataclass(frozen=True)
class Attributes:
    """Attributes of nodes or edges: their names, and a function that reads one of them as a column."""

    names: list[str]
    column: Callable[[str, Kind], Column]


def build_graph(
    name: str,
    where: str,
    ends: tuple[Column, Column],
    weight: Column | None,
    nodes: tuple[str, list[str], Mapping[str, Any]] | None,
    notes: list[str],
) -> Data:
    """Put nodes and edges together.

    Args:
        name: of the graph.
        where: the edge list's name in messages.
        ends: ids of the sources and targets of the edges.
        weight: of the edges.
        nodes: the node table's name in messages, the ids in order, and what :func:`encode_nodes` found; None: the
            nodes are those that the edges name.
        notes: what was guessed so far; they become the graph's ``notes``.
    """
    for column in ends:
        _, codes = column.coded()
        if (codes < 0).any():
            row = int(np.flatnonzero(codes < 0)[0]) + 1
            raise GraphError(f"{where}: row {row} names no node at one end: every edge needs two")
    if nodes is None:
        owner, ids, attributes = "the edges", _in_order({word for column in ends for word in column.words or ()}), {}
        notes.append(f"{where}: without a node table the {len(ids):,} nodes are those the edges name; no features")
    else:
        owner, ids, attributes = nodes
        if "x" not in attributes:
            notes.append(f"{owner}: there is no feature column")
    if len(ids) >= MAX_NODES:
        raise GraphError(f"{owner}: {len(ids)} nodes, the limit is {MAX_NODES - 1}")
    edge_index = torch.from_numpy(_edge_index(ends, ids, where, owner))
    data = Data(edge_index=edge_index, num_nodes=len(ids), name=name, node_ids=ids, notes=notes, **attributes)
    if weight is not None:
        data.edge_weight = torch.from_numpy(weights_of(weight, where, notes))
    return data


def build_from_attributes(
    name: str,
    where: str,
    ids: list[str],
    nodes: Attributes,
    ends: tuple[Column, Column],
    edges: Attributes,
    columns: TableColumns | None,
) -> Data:
    """Put together nodes, by ``ids`` in order, and edges, by the ids of their ``ends``, that both have attributes.

    ``columns`` says which attribute is the label, the split, the weight, a feature; ids are fixed here, and naming a
    column for them is an error. ``where`` is the graph's name in messages.
    """
    columns, notes = columns or TableColumns(), []
    if fixed := columns.given(("source", "target", "node_id")):
        raise SettingError(f"{where}: {', '.join(fixed)} cannot be chosen: the graph itself says what its nodes are")
    if columns.header is not None:
        raise SettingError(f"{where}: header is for tables of text: its attributes have names")
    if len(set(ids)) < len(ids):
        twice = column_of(ids, "id").repeated()
        raise GraphError(f"{where}: {len(twice):,} node id(s) occur more than once ({listed(twice, 5)})")
    roles = find_roles(where, nodes.names, ("label", "split", *columns.timed), columns, notes)
    words = {*(name for role, name in roles.items() if role != "time"), *columns.word_columns}
    table = {name: nodes.column(name, "word" if name in words else "value") for name in nodes.names}
    encoded = encode_nodes(InputTable(where, len(ids), table), roles, columns, notes)
    edge_roles = find_roles(f"{where}, edges", edges.names, ("weight",), columns, notes)
    weight = edges.column(edge_roles["weight"], "value") if edge_roles else None
    return build_graph(name, where, ends, weight, (where, ids, encoded), notes)


def _edge_index(ends: tuple[Column, Column], ids: list[str], edges: str, owner: str) -> np.ndarray:
    number = {word: place for place, word in enumerate(ids)}
    rows, unknown = [], {}
    for column in ends:
        words, codes = column.coded()
        places = np.array([number.get(word, -1) for word in words], dtype=np.int64)
        unknown |= dict.fromkeys(words[place] for place in np.flatnonzero(places < 0))
        rows.append(places[codes] if len(places) else np.zeros(0, np.int64))
    if unknown:
        count = int(((rows[0] < 0) | (rows[1] < 0)).sum())
        raise GraphError(
            f"{edges}: {count:,} edge(s) name {len(unknown):,} node(s) that {owner} does not have "
            f"({listed(list(unknown), 5)}): add a row for each or drop those edges, and see that ids are written alike "
            f"in both ({owner} has {listed(ids, 3)})"
        )
    return np.stack(rows)


def weights_of(column: Column, edges: str, notes: list[str]) -> np.ndarray:
    """The weights of edges, 1 where one is missing; GraphError where they are no numbers."""
    if column.numbers is None or column.numbers.ndim != 1:
        shown = f" ({listed(column.words, 3)})" if column.words else ""
        if column.unclear is not None:
            shown = f" but may be two things ({column.unclear}; say which with --decimal)"
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
