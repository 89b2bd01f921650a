"""Input formats: a module for each form that a graph can come in, and a table of them.

To add a format, write a module here with ``read(source)``, which returns a raw ``Data`` (``edge_index`` and whatever
else the source has, with a ``name``), and add a line to :data:`FORMATS`. Modules here know :mod:`plgc.graphs.check` and
each other; bringing a graph to one form, checking it and choosing a split is the work of :mod:`plgc.graphs.load`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import scipy.sparse as sp
from torch_geometric.data import Data


def is_frame(source: Any) -> bool:
    """Whether this is a data frame of pandas or polars, without importing either."""
    return type(source).__name__ == "DataFrame" and hasattr(source, "columns") and hasattr(source, "__getitem__")


def is_networkx(source: Any) -> bool:
    """Whether this is a NetworkX graph, without importing it."""
    return any(kind.__module__.startswith("networkx.") and kind.__name__ == "Graph" for kind in type(source).__mro__)


def is_matrix(source: Any) -> bool:
    """Whether this is a scipy sparse matrix, or a tuple that starts with one."""
    return sp.issparse(source) or (isinstance(source, tuple) and bool(source) and sp.issparse(source[0]))


@dataclass(frozen=True)
class Format:
    """One input format.

    Attributes:
        module: the module of this package that reads it, imported when it is needed.
        suffixes: of its files, in lower case; ``.gz`` may follow.
        matches: whether an object in memory has this format.
        options: which of ``nodes_table``, ``columns`` and ``time`` its ``read`` takes.
    """

    module: str
    suffixes: tuple[str, ...] = ()
    matches: Callable[[Any], bool] | None = None
    options: tuple[str, ...] = ()

    def read(self, source: Any, **options: Any) -> Data:
        """Read a raw graph."""
        return importlib.import_module(f"{__name__}.{self.module}").read(source, **options)


NPZ = Format("npz", (".npz",), options=("time",))
STORED = Format("stored", (".safetensors",), options=("time",))
FORMATS = (
    NPZ,
    STORED,
    Format(
        "tables",
        (".csv", ".tsv", ".txt", ".edges", ".edgelist", ".parquet", ".pq"),
        matches=is_frame,
        options=("nodes_table", "columns"),
    ),
    Format("graphml", (".graphml",), options=("columns",)),
    Format("networkx", matches=is_networkx, options=("columns",)),
    Format("matrix", matches=is_matrix),
)


def format_by_suffix(path: str | os.PathLike[str]) -> Format | None:
    """The format of a file by its name alone; None where the suffix is not known."""
    name = os.fspath(path).lower().removesuffix(".gz")
    return next((one for one in FORMATS if one.suffixes and name.endswith(one.suffixes)), None)


def format_of(source: Path | Any) -> Format | None:
    """The format of a file or folder on disk, or of an object; None for an object of no known format."""
    if isinstance(source, Path):
        return format_by_suffix(source) or (STORED if os.path.isdir(source) else NPZ)
    return next((one for one in FORMATS if one.matches is not None and one.matches(source)), None)
