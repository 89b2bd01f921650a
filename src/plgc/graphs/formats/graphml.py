"""GraphML, read as a stream: no document type, so no entities; depth, length of text and number of keys are limited.

Attributes of nodes and edges follow the rules for columns of tables; a key declared as a string stays words.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn
from xml.parsers import expat

from torch_geometric.data import Data

from plgc.graphs.formats.assemble import Attributes, build_from_attributes
from plgc.graphs.formats.columns import TableColumns
from plgc.graphs.formats.limits import MAX_COLUMNS, is_oversized, open_bytes
from plgc.graphs.formats.values import Coder, Column, Kind, column_of, numbers_of
from plgc.runtime.errors import GraphError, PLGCError

MAX_DEPTH, MAX_TEXT = 64, 2**17
CHUNK = 2**16
NUMERIC = ("int", "long", "float", "double")


def read(path: Path, columns: TableColumns | None = None) -> Data:
    """Read a GraphML file as a raw ``Data`` for :func:`plgc.load_graph`.

    Raises:
        GraphNotFoundError: there is no such file.
        GraphError: it is not sound GraphML of one graph, or holds a document type or more than the limits allow.
    """
    reader = _Reader(path)
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = reader.doctype
    parser.EntityDeclHandler = reader.doctype
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        with open_bytes(path) as file:
            while chunk := file.read(CHUNK):
                parser.Parse(chunk, False)
            parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise GraphError(f"{path} is not well-formed XML ({error})") from error
    except PLGCError:
        raise
    except (ValueError, LookupError) as error:  # an encoding that is unknown, or not one of text
        raise GraphError(f"{path} cannot be read as XML ({error})") from error
    return reader.graph(columns or TableColumns())


class _Reader:
    """Handlers of the XML parser, and what they have read: keys, nodes, edges and their attributes."""

    def __init__(self, path: Path) -> None:
        self.path, self.stack, self.graphs = path, [], 0
        self.keys: dict[str, tuple[str, str, str]] = {}  # id → for, name, type
        self.defaults: dict[str, str] = {}
        self.ids: list[str] = []
        self.sources: list[str] = []
        self.targets: list[str] = []
        self.values: dict[str, dict[str, dict[int, str]]] = {"node": {}, "edge": {}}
        self.receive: Callable[[str], None] | None = None
        self.pieces: list[str] = []
        self.length = 0

    def fail(self, what: str) -> NoReturn:
        raise GraphError(f"{self.path}: {what}")

    def doctype(self, *_: Any) -> None:
        self.fail("it declares a document type or entities, which are never read: remove <!DOCTYPE …>")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition("}")[2]
        if not self.stack and tag != "graphml":
            self.fail(f"its root is <{tag[:60]}>, expected <graphml>")
        if len(self.stack) >= MAX_DEPTH:
            self.fail(f"elements are nested deeper than {MAX_DEPTH}")
        parent = self.stack[-1] if self.stack else ""
        self.stack.append(tag)
        if tag == "graph":
            self.graphs += 1
            if self.graphs > 1:
                self.fail("it holds several or nested graphs: keep one")
        elif tag == "hyperedge":
            self.fail("it holds hyperedges: only edges between two nodes can be read")
        elif tag == "key":
            self._key(attributes)
        elif tag == "default" and parent == "key":
            self._collect(lambda text: self.defaults.__setitem__(next(reversed(self.keys), ""), text))
        elif tag == "node" and parent == "graph":
            self.ids.append(self._needed(attributes, "id", "node"))
        elif tag == "edge" and parent == "graph":
            self.sources.append(self._needed(attributes, "source", "edge"))
            self.targets.append(self._needed(attributes, "target", "edge"))
        elif tag == "data" and parent in ("node", "edge"):
            self._data(parent, attributes.get("key", ""))

    def end(self, tag: str) -> None:
        if self.receive is not None and tag.rpartition("}")[2] in ("data", "default"):
            self.receive("".join(self.pieces).strip())
            self.receive, self.pieces, self.length = None, [], 0
        self.stack.pop()

    def text(self, text: str) -> None:
        if self.receive is None or self.stack[-1] not in ("data", "default"):
            return
        self.length += len(text)
        if self.length > MAX_TEXT:
            self.fail(f"an attribute is longer than {MAX_TEXT:,} characters")
        self.pieces.append(text)

    def graph(self, columns: TableColumns) -> Data:
        """Everything read, as a raw graph."""
        if self.graphs == 0 or not self.ids:
            self.fail("it holds no nodes")
        ends = column_of(self.sources, "id"), column_of(self.targets, "id")
        nodes, edges = self._columns("node", len(self.ids)), self._columns("edge", len(self.sources))
        name = self.path.name.split(".")[0] or "graph"
        return build_from_attributes(name, self.path.name, self.ids, nodes, ends, edges, columns)

    def _key(self, attributes: dict[str, str]) -> None:
        identity = self._needed(attributes, "id", "key")
        if len(self.keys) >= MAX_COLUMNS:
            self.fail(f"it declares more than {MAX_COLUMNS:,} keys")
        if identity in self.keys:
            self.fail(f"the key {identity[:60]!r} is declared twice")
        kind = attributes.get("for", "all")
        self.keys[identity] = (kind, attributes.get("attr.name", identity), attributes.get("attr.type", "string"))

    def _data(self, kind: str, key: str) -> None:
        if key not in self.keys:
            self.fail(f"a {kind} has data for the key {key[:60]!r}, which is not declared")
        place = len(self.ids if kind == "node" else self.sources) - 1
        values = self.values[kind].setdefault(key, {})
        self._collect(lambda text: values.__setitem__(place, text))

    def _columns(self, kind: str, count: int) -> Attributes:
        """The attributes of nodes or edges by name, in the order of their first use.

        Two keys of one name, as some writers make them, are one column.
        """
        keys: dict[str, list[str]] = {}
        for key in dict.fromkeys((*self.values[kind], *self.keys)):
            where, name, _ = self.keys[key]
            if where in (kind, "all") and (key in self.values[kind] or key in self.defaults):
                keys.setdefault(name, []).append(key)
        if kind == "node" and is_oversized(self.path, count, len(keys)):
            self.fail(f"{len(keys):,} attributes of {count:,} nodes are more than a file of its size can hold")

        def column(name: str, role: Kind) -> Column:
            values: list[str | None] = [None] * count
            for key in keys[name]:
                if key in self.defaults:
                    values = [self.defaults[key] if value is None else value for value in values]
                for place, text in self.values[kind].get(key, {}).items():
                    values[place] = text
            declared = any(self.keys[key][2] not in (*NUMERIC, "boolean") for key in keys[name])
            numbers = None if role != "value" or declared else numbers_of([value or "" for value in values])
            if numbers is not None:
                return Column(numbers=numbers)
            coder = Coder(role)
            coder.add(values)
            return coder.column()

        return Attributes(list(keys), column)

    def _needed(self, attributes: dict[str, str], name: str, tag: str) -> str:
        value = attributes.get(name, "").strip()
        if not value:
            self.fail(f"a <{tag}> has no {name}")
        if len(value) > MAX_TEXT:
            self.fail(f"the {name} of a <{tag}> is longer than {MAX_TEXT:,} characters")
        return value

    def _collect(self, receive: Callable[[str], None]) -> None:
        self.receive, self.pieces, self.length = receive, [], 0
