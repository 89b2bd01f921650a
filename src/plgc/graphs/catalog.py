"""Graphs by name: from a local folder, else from the cache, else by a download.

A name is looked up as ``$PLGC_DATA/NAME.npz``, then in the cache (``$PLGC_CACHE``, by default ``~/.cache/plgc``),
and is otherwise downloaded into the cache once. Case does not count, and ``-`` and ``_`` are the same; apart from
that a name must match the whole file name.
"""

from __future__ import annotations

import difflib
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch_geometric.data import Data

from plgc.graphs.check import node_count
from plgc.graphs.download import DOWNLOADS, Download, compact
from plgc.graphs.formats.arrays import read_meta
from plgc.graphs.formats.npz import save_npz
from plgc.graphs.synthetic import citation_graph
from plgc.runtime.errors import GraphError, GraphNotFoundError
from plgc.runtime.files import CACHE_VARIABLE, cache_folder

DATA_VARIABLE = "PLGC_DATA"
EMBEDDED = "demo"
# How tables call graphs whose name could be taken for another's: by normalised name.
TITLES = {"arxiv-llm-text": "LLM-text arxiv"}


@dataclass(frozen=True)
class GraphEntry:
    """One line of the catalogue; counts are None where they are not cheaply known.

    ``where`` is "PLGC_DATA", "cache", "download" (not here yet) or "embedded" (made on the spot). ``edges`` counts
    both directions of an undirected edge, as stored.
    """

    name: str
    where: str
    nodes: int | None = None
    edges: int | None = None
    features: int | None = None
    classes: int | None = None


def list_graphs() -> list[GraphEntry]:
    """Every graph that can be loaded by name, each once: those in ``$PLGC_DATA``, in the cache, then the others."""
    entries = {
        key: GraphEntry(display_name(path.stem), where, **_counts(path)) for key, (where, path) in _files().items()
    }
    entries.setdefault(EMBEDDED, GraphEntry(EMBEDDED, "embedded", nodes=3000, edges=13500, features=1000, classes=7))
    for name, one in DOWNLOADS.items():
        entries.setdefault(name, GraphEntry(name, "download", one.nodes, one.edges, one.features, one.classes))
    return list(entries.values())


def get_graph(name: str) -> Path:
    """Return the npz file of a named graph, downloading it into the cache where needed.

    The embedded demo graph is written to the cache, so that there is a file of it too.

    Raises:
        GraphNotFoundError: no graph has that name, or it could not be downloaded.
    """
    found = find_graph(name)
    if isinstance(found, Path):
        return found
    path = _cached(EMBEDDED)
    _write_to_cache(found, path, {"source": "made by plgc.graphs.synthetic.citation_graph()"})
    return path


def find_graph(name: str) -> Path | Data:
    """Return the npz file of a named graph as :func:`get_graph` does, or the embedded graph itself."""
    key, files = normalised(name), _files()
    if key in files:
        return files[key][1]
    if key == EMBEDDED:
        graph = citation_graph()
        graph.name = EMBEDDED
        return graph
    if key not in DOWNLOADS:
        raise GraphNotFoundError(_unknown(name))
    return _download(key, DOWNLOADS[key])


def graph_file(name: str) -> Path | None:
    """The npz file of a named graph, or where a download would put it; None for the embedded graph and unknown names.

    Nothing is downloaded.
    """
    key, files = normalised(name), _files()
    return files[key][1] if key in files else _cached(key) if key in DOWNLOADS else None


def is_known(name: str) -> bool:
    """Whether the catalogue has this name, without downloading anything."""
    key = normalised(name)
    return key == EMBEDDED or key in DOWNLOADS or key in _files()


def normalised(name: str) -> str:
    """The form in which names are compared: lower case, hyphens."""
    return name.strip().lower().replace("_", "-")


def display_name(stem: str) -> str:
    """A file's name as the catalogue spells it: ours for a graph we know, else the file's own."""
    key = normalised(stem)
    return key if key == EMBEDDED or key in DOWNLOADS else stem


def title(name: str) -> str:
    """What tables and figures call a graph."""
    return TITLES.get(normalised(name), name)


def _data_folder() -> Path | None:
    value = os.environ.get(DATA_VARIABLE)
    if not value:
        return None
    folder = Path(os.path.expanduser(value))
    if not folder.is_dir():
        raise GraphNotFoundError(f"{DATA_VARIABLE} is set to {value!r}, which is not a folder: correct or unset it")
    return folder


def _files() -> dict[str, tuple[str, Path]]:
    """The npz files that are here, by normalised name: where each was found, and its path."""
    found: dict[str, tuple[str, Path]] = {}
    for where, folder in ((DATA_VARIABLE, _data_folder()), ("cache", cache_folder())):
        for path in sorted(folder.iterdir()) if folder is not None and folder.is_dir() else ():
            key = normalised(path.stem)
            if where == "cache" and key == EMBEDDED:
                continue  # it is always made anew
            if path.suffix.lower() == ".npz" and path.name[0] != "." and path.is_file():
                found.setdefault(key, (where, path))
    return found


def _counts(path: Path) -> dict[str, int | None]:
    """Counts from a file's meta alone; the arrays are not read."""
    try:
        with open(path, "rb") as file:
            meta = read_meta(np.load(file, allow_pickle=False))
    except Exception:  # a file that cannot be read is listed without counts, and reported when it is loaded
        meta = {}
    counts = {key: meta.get(key) for key in ("nodes", "edges", "features", "classes")}
    return {key: value if isinstance(value, int) else None for key, value in counts.items()}


def _unknown(name: str) -> str:
    names = [entry.name for entry in list_graphs()]
    by_key = {normalised(known): known for known in names}
    near = [by_key[key] for key in difflib.get_close_matches(normalised(name), list(by_key), n=3, cutoff=0.6)]
    guess = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"no graph is called {name!r}, and there is no file of that name.{guess} Known names: {', '.join(names)}"


def _cached(key: str) -> Path:
    """Where a download is kept."""
    return cache_folder() / f"{key}.npz"


def _download(name: str, source: Download) -> Path:
    path = _cached(name)
    hint = (
        f"Looked in {DATA_VARIABLE} ({os.environ.get(DATA_VARIABLE) or 'not set'}) and the cache ({path.parent}). "
        f"Where there is no network, set {DATA_VARIABLE} to a folder that holds {name}.npz"
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # An interrupted download must not be taken for a complete one: it goes into a folder of its own.
        work = Path(tempfile.mkdtemp(prefix=".download-", dir=path.parent))
    except OSError as error:
        raise GraphNotFoundError(_cache_trouble(path.parent, error)) from error
    try:
        data = source.fetch(work)
        got = (node_count(data), 0 if data.x is None else data.x.size(1))
        if got != (source.nodes, source.features):
            raise GraphError(f"{got[0]} nodes and {got[1]} features came, not {source.nodes} and {source.features}")
    except Exception as error:  # network, archive and conversion errors of many libraries
        reason = f"{type(error).__name__}: {error}"
        raise GraphNotFoundError(f"{name} could not be downloaded from {source.origin} ({reason}). {hint}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    _write_to_cache(compact(data), path, {"source": source.origin})
    return path


def _write_to_cache(data: Data, path: Path, meta: Mapping[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_npz(data, path, meta)
    except OSError as error:
        raise GraphNotFoundError(_cache_trouble(path.parent, error)) from error


def _cache_trouble(folder: Path, error: OSError) -> str:
    return f"cannot write to the cache folder {folder} ({error}): set {CACHE_VARIABLE} to a folder that can be written"
