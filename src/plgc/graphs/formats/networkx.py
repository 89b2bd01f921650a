"""NetworkX graphs, directed or not; attributes of nodes and edges follow the rules for columns of tables."""

from __future__ import annotations

from typing import Any

from torch_geometric.data import Data

from plgc.graphs.formats.assemble import Attributes, build_from_attributes
from plgc.graphs.formats.columns import TableColumns, listed
from plgc.graphs.formats.limits import MAX_COLUMNS
from plgc.graphs.formats.values import column_of
from plgc.runtime.errors import GraphError


def read(graph: Any, columns: TableColumns | None = None) -> Data:
    """Read a NetworkX graph as a raw ``Data``; its nodes keep their order and, as text, their names."""
    ids = [str(node) for node in graph.nodes]
    if len(set(ids)) < len(ids):
        twice = listed(column_of(ids, "id").repeated(), 5)
        raise GraphError(f"several nodes of the graph have the same text as name ({twice}): rename them")
    number = dict(zip(graph.nodes, ids, strict=True))
    edges = list(graph.edges(data=True))
    ends = column_of([number[edge[0]] for edge in edges], "id"), column_of([number[edge[1]] for edge in edges], "id")
    nodes = _attributes([fields for _, fields in graph.nodes(data=True)])
    name = graph.name if isinstance(graph.name, str) and graph.name else "graph"
    return build_from_attributes(name, "graph", ids, nodes, ends, _attributes([edge[2] for edge in edges]), columns)


def _attributes(items: list[dict[Any, Any]]) -> Attributes:
    """The attributes of nodes or edges, in order of appearance; those whose names are not text are left out."""
    names = list(dict.fromkeys(name for fields in items for name in fields if isinstance(name, str)))
    if len(names) > MAX_COLUMNS:
        raise GraphError(f"the graph has {len(names):,} attributes, the limit is {MAX_COLUMNS:,}")
    return Attributes(names, lambda name, kind: column_of([fields.get(name) for fields in items], kind))
