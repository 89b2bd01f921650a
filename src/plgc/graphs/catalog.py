"""Graphs by name: a local folder first, then the cache, then a download; and our npz format, written whole.

A name is looked for as ``$PLGC_DATA/NAME.npz``, then in the cache (``$PLGC_CACHE``, by default ``~/.cache/plgc``),
and is otherwise downloaded into the cache once. Case does not count, and ``-`` and ``_`` are the same; apart from
that a name must match the whole file name.
"""

from __future__ import annotations

import difflib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.errors import GraphError, GraphNotFoundError
from plgc.graphs.check import MASKS, as_features, node_count
from plgc.graphs.synthetic import citation_graph

DATA_VARIABLE, CACHE_VARIABLE = "PLGC_DATA", "PLGC_CACHE"
EMBEDDED = "demo"
ARXIV_URL = "http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip"
SPARSE_BELOW = 0.4  # downloaded features with a smaller share of non-zeros are stored as CSR


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


@dataclass(frozen=True)
class _Source:
    """A graph that can be downloaded: where from, its size, and a function that fetches it into a folder."""

    origin: str
    nodes: int
    edges: int | None
    features: int
    classes: int
    fetch: Callable[[Path], Data]


def list_graphs() -> list[GraphEntry]:
    """Every graph that can be loaded by name, each once, in the order of look-up: local, cached, then the others."""
    entries: dict[str, GraphEntry] = {}
    for where, folder in (("PLGC_DATA", _data_folder()), ("cache", cache_folder())):
        for path in _npz_files(folder):
            key = normalised(path.stem)
            if key != EMBEDDED or where == "PLGC_DATA":
                entries.setdefault(key, GraphEntry(display_name(path.stem), where, **_counts(path)))
    entries.setdefault(EMBEDDED, GraphEntry(EMBEDDED, "embedded", nodes=3000, edges=13500, features=1000, classes=7))
    for name, source in _sources().items():
        facts = GraphEntry(name, "download", source.nodes, source.edges, source.features, source.classes)
        entries.setdefault(name, facts)
    return list(entries.values())


def get_graph(name: str) -> Path:
    """Return the npz file of a named graph, downloading it into the cache where needed.

    The embedded demo graph is written to the cache, so that it too can be looked at as a file.

    Raises:
        GraphNotFoundError: no graph has that name, or it could not be downloaded.
    """
    found = open_graph(name)
    if isinstance(found, Path):
        return found
    path = cache_folder() / f"{EMBEDDED}.npz"
    _write_to_cache(found, path, {"source": "made by plgc.graphs.synthetic.citation_graph()"})
    return path


def open_graph(name: str) -> Path | Data:
    """Return the npz file of a named graph as :func:`get_graph` does, or the embedded graph itself."""
    key = normalised(name)
    if (path := _match(_data_folder(), key)) is not None:
        return path
    if key == EMBEDDED:
        graph = citation_graph()
        graph.name = EMBEDDED
        return graph
    if (path := _match(cache_folder(), key)) is not None:
        return path
    source = _sources().get(key)
    if source is None:
        raise GraphNotFoundError(_unknown(name))
    return _download(key, source)


def is_known(name: str) -> bool:
    """Whether the catalogue has this name, without downloading anything."""
    key = normalised(name)
    return key == EMBEDDED or key in _sources() or any(_match(f, key) for f in (_data_folder(), cache_folder()))


def normalised(name: str) -> str:
    """The form in which names are compared: lower case, hyphens."""
    return name.strip().lower().replace("_", "-")


def display_name(stem: str) -> str:
    """A file's name as the catalogue spells it: ours for a graph we know, else the file's own."""
    key = normalised(stem)
    return key if key == EMBEDDED or key in _sources() else stem


def cache_folder() -> Path:
    """``$PLGC_CACHE``, else ``plgc`` in the user's cache folder; it need not exist yet."""
    if os.environ.get(CACHE_VARIABLE):
        return Path(os.path.expanduser(os.environ[CACHE_VARIABLE]))
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "plgc"


def save_npz(data: Data, path: str | os.PathLike[str], meta: Mapping[str, Any] | None = None) -> Path:
    """Write a graph in our npz format, whole or not at all.

    Args:
        data: features dense or sparse, masks of shape [N] or [N, S]; only the fields of the format are written.
        path: the file; its folder must exist. It is replaced once the new one is complete.
        meta: anything JSON can hold (source, licence, …); the graph's name, counts and split are added.
    """
    path = Path(path)
    arrays = _arrays(data)
    features = arrays["x_shape"][1] if "x_shape" in arrays else arrays["x"].shape[1] if "x" in arrays else 0
    facts: dict[str, Any] = {
        "name": path.stem,
        "nodes": node_count(data),
        "edges": int(arrays["edge_index"].shape[1]),
        "features": int(features),
        "classes": int(arrays["y"].max()) + 1 if "y" in arrays else 0,
    }
    if isinstance(data._store.get("split_origin"), str):
        facts["split_origin"] = data.split_origin
    arrays["meta"] = np.array(json.dumps({**facts, **(meta or {})}))
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "wb") as file:
            np.savez_compressed(file, **arrays)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def read_meta(archive: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The ``meta`` of an open npz archive as a dictionary; empty when it is absent or not a JSON object."""
    if "meta" not in archive:
        return {}
    try:
        meta = json.loads(str(archive["meta"]))
    except ValueError:
        return {}
    return meta if isinstance(meta, dict) else {}


def _arrays(data: Data) -> dict[str, Any]:
    """The arrays of our format, ``meta`` apart."""
    nodes, store = node_count(data), data._store
    if not isinstance(data.edge_index, Tensor):
        raise GraphError("the graph has no edge_index: there is nothing to write")
    index_type = np.int32 if nodes < 2**31 else np.int64
    arrays: dict[str, Any] = {"edge_index": data.edge_index.cpu().numpy().astype(index_type)}
    x = as_features(data.x)
    if x is not None and x.layout == torch.strided:
        arrays["x"] = x.numpy()
    elif x is not None:
        index_type = np.int32 if max(*x.shape, x.values().numel()) < 2**31 else np.int64
        arrays["x_indptr"] = x.crow_indices().numpy().astype(index_type)
        arrays["x_indices"] = x.col_indices().numpy().astype(index_type)
        arrays["x_data"] = x.values().numpy()
        arrays["x_shape"] = np.array(x.shape, dtype=np.int64)
    for key in ("y", "y_multi", "edge_weight"):
        if store.get(key) is not None:
            arrays[key] = store[key].cpu().numpy()
    for key in MASKS:
        if store.get(key) is not None:
            arrays[key] = store[key].cpu().numpy().astype(bool).T  # [N] as it is, [N, S] to [S, N]
    if not arrays.keys() & {"x", "x_shape", "y", "y_multi", *MASKS}:
        arrays["num_nodes"] = np.array(nodes)
    return arrays


def _data_folder() -> Path | None:
    value = os.environ.get(DATA_VARIABLE)
    if not value:
        return None
    folder = Path(os.path.expanduser(value))
    if not folder.is_dir():
        raise GraphNotFoundError(f"{DATA_VARIABLE} is set to {value!r}, which is not a folder: correct or unset it")
    return folder


def _npz_files(folder: Path | None) -> list[Path]:
    if folder is None or not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if p.suffix.lower() == ".npz" and p.name[0] != "." and p.is_file())


def _match(folder: Path | None, key: str) -> Path | None:
    return next((path for path in _npz_files(folder) if normalised(path.stem) == key), None)


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


def _download(name: str, source: _Source) -> Path:
    path = cache_folder() / f"{name}.npz"
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
        seen = (node_count(data), 0 if data.x is None else data.x.size(1))
        if seen != (source.nodes, source.features):
            raise GraphError(f"{seen[0]} nodes and {seen[1]} features came, not {source.nodes} and {source.features}")
    except Exception as error:  # network, archive and conversion errors of many libraries
        reason = f"{type(error).__name__}: {error}"
        raise GraphNotFoundError(f"{name} could not be downloaded from {source.origin} ({reason}). {hint}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    _write_to_cache(_compact(data), path, {"source": source.origin})
    return path


def _write_to_cache(data: Data, path: Path, meta: Mapping[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_npz(data, path, meta)
    except OSError as error:
        raise GraphNotFoundError(_cache_trouble(path.parent, error)) from error


def _cache_trouble(folder: Path, error: OSError) -> str:
    return f"cannot write to the cache folder {folder} ({error}): set {CACHE_VARIABLE} to a folder that can be written"


def _compact(data: Data) -> Data:
    """Store mostly-zero features as CSR."""
    x = as_features(data.x)
    if x is not None and x.layout == torch.strided and int(x.count_nonzero()) < SPARSE_BELOW * x.numel():
        x = as_features(x.to_sparse_csr())
    data.x = x
    return data


def _sources() -> dict[str, _Source]:
    """What can be downloaded, by name. Edge counts are those after loading: both directions, no self-loops."""

    def pyg(nodes: int, edges: int | None, features: int, classes: int, kind: str, **options: Any) -> _Source:
        origin = f"torch_geometric.datasets.{kind}({', '.join(f'{k}={v!r}' for k, v in options.items())})"
        return _Source(origin, nodes, edges, features, classes, lambda folder: _pyg_dataset(folder, kind, options))

    hetero = "HeterophilousGraphDataset"
    return {
        "cora": pyg(2708, 10556, 1433, 7, "Planetoid", name="Cora", split="public"),
        "citeseer": pyg(3327, 9104, 3703, 6, "Planetoid", name="CiteSeer", split="public"),
        "pubmed": pyg(19717, 88648, 500, 3, "Planetoid", name="PubMed", split="public"),
        "amazon-photo": pyg(7650, 238162, 745, 8, "Amazon", name="Photo"),
        "amazon-computers": pyg(13752, 491722, 767, 10, "Amazon", name="Computers"),
        "coauthor-cs": pyg(18333, 163788, 6805, 15, "Coauthor", name="CS"),
        "coauthor-physics": pyg(34493, 495924, 8415, 5, "Coauthor", name="Physics"),
        "ogbn-arxiv": _Source(ARXIV_URL, 169343, 2315598, 128, 40, _ogbn_arxiv),
        "flickr": pyg(89250, 899756, 500, 7, "Flickr"),
        "reddit": pyg(232965, 114615892, 602, 41, "Reddit"),
        "actor": pyg(7600, 53318, 932, 5, "Actor"),
        "wikics": pyg(11701, None, 300, 10, "WikiCS", is_undirected=True),
        "roman-empire": pyg(22662, 65854, 300, 18, hetero, name="Roman-empire"),
        "amazon-ratings": pyg(24492, 186100, 300, 5, hetero, name="Amazon-ratings"),
        "minesweeper": pyg(10000, 78804, 7, 2, hetero, name="Minesweeper"),
        "tolokers": pyg(11758, 1038000, 10, 2, hetero, name="Tolokers"),
        "questions": pyg(48921, 307080, 301, 2, hetero, name="Questions"),
    }


def _pyg_dataset(folder: Path, kind: str, options: Mapping[str, Any]) -> Data:
    from torch_geometric import datasets  # slow to import, and needed only for a download

    return getattr(datasets, kind)(root=str(folder), **options)[0]


def _ogbn_arxiv(folder: Path) -> Data:
    """Read OGB's raw files ourselves: its own package cannot open its cache with torch 2.6 and later."""
    from torch_geometric.data import download_url, extract_zip

    extract_zip(download_url(ARXIV_URL, str(folder)), str(folder))
    root = folder / "arxiv"
    y = torch.from_numpy(_csv(root / "raw" / "node-label.csv.gz", np.int64).flatten())
    data = Data(
        x=torch.from_numpy(_csv(root / "raw" / "node-feat.csv.gz", np.float32)),
        edge_index=torch.from_numpy(_csv(root / "raw" / "edge.csv.gz", np.int64).T.copy()),
        y=y,
        num_nodes=y.numel(),
    )
    for key, part in zip(MASKS, ("train", "valid", "test"), strict=True):
        mask = torch.zeros(y.numel(), dtype=torch.bool)
        mask[torch.from_numpy(_csv(root / "split" / "time" / f"{part}.csv.gz", np.int64).flatten())] = True
        data[key] = mask
    return data


def _csv(path: Path, dtype: Any) -> np.ndarray:
    return np.loadtxt(path, delimiter=",", dtype=dtype, ndmin=2)
