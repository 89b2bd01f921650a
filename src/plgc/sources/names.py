"""The names of sources, and the files of their graphs."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from torch_geometric.data import Data

from plgc.graphs import catalog
from plgc.graphs.attributes import attribute
from plgc.graphs.load import is_path, load_graph
from plgc.runtime.errors import GraphNotFoundError, SettingError

Graph = str | os.PathLike[str] | Data
LONGEST = 100  # characters of a name
UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def locate(graph: Graph) -> Path | Data:
    """The graph's file, as an absolute path that other processes and machines understand, or the graph itself.

    Names are looked up here, where ``PLGC_DATA`` and the cache are: workers may have neither.

    Raises:
        GraphNotFoundError: nothing is found under that name or path.
    """
    if isinstance(graph, Data):
        return graph
    if isinstance(graph, str):
        if not is_path(graph):
            found = catalog.find_graph(graph)
            return found if isinstance(found, Data) else found.absolute()
        graph = os.path.expanduser(graph)
    elif not isinstance(graph, os.PathLike):
        return load_graph(graph)  # which says what is wrong with it
    path = Path(graph).absolute()
    if not path.exists():
        raise GraphNotFoundError(f"no such file: {graph}")
    return path


def source_names(graphs: Sequence[Graph], names: Sequence[str] | None) -> list[str]:
    """A name for every source: those given, or the graphs' own, made safe for files and unique."""
    if names is not None:
        return _check_names(names, len(graphs))
    found: list[str] = []
    for graph in graphs:
        name = base = safe_name(_own_name(graph))
        number = 1
        while name.casefold() in [other.casefold() for other in found]:
            number += 1
            name = f"{base}-{number}"
        found.append(name)
    return found


def safe_name(text: str) -> str:
    """A text as a file name that every system takes: letters, digits, dots, hyphens and underscores."""
    return UNSAFE.sub("_", text)[:LONGEST].strip("._- ") or "graph"


def _own_name(graph: Graph) -> str:
    if isinstance(graph, Data):
        name = attribute(graph, "name")
        return name if isinstance(name, str) else "graph"
    if isinstance(graph, str) and not is_path(graph):
        return catalog.display_name(graph)
    return Path(graph).stem


def _check_names(names: Sequence[str], count: int) -> list[str]:
    if len(names) != count:
        raise SettingError(f"{len(names)} name(s) for {count} graph(s): give one for each")
    for name in names:
        if safe_name(name) != name:
            raise SettingError(
                f"{name!r} cannot name a file everywhere: use letters, digits, dots, hyphens and underscores, at most "
                f"{LONGEST}, such as {safe_name(name)!r}"
            )
    if len({name.casefold() for name in names}) < len(names):
        raise SettingError(f"the names {', '.join(names)} are not all different: give every source its own")
    return list(names)
