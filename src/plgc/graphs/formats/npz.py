"""Our interchange format: one npz archive of the arrays of :mod:`plgc.graphs.formats.arrays`, without pickle.

A large archive is unpacked into the cache once (:mod:`plgc.graphs.formats.unpack`) and mapped from there.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch_geometric.data import Data

from plgc.graphs.features import as_features
from plgc.graphs.formats import stored, unpack
from plgc.graphs.formats.arrays import KNOWN, arrays_to_graph, graph_to_arrays, make_meta, read_meta
from plgc.graphs.formats.limits import check_unpacked
from plgc.runtime.errors import GraphError, GraphNotFoundError
from plgc.runtime.files import write_atomically

UNPACKED_FROM = 256 << 20  # bytes of dense features and edges


def read(path: Path) -> Data:
    """Read a graph as a raw ``Data``.

    Raises:
        GraphNotFoundError: there is no such file.
        GraphError: it cannot be read; the message names it.
    """
    if not os.path.exists(path):
        raise GraphNotFoundError(f"no such file: {path}")
    if os.path.isdir(path):
        raise GraphError(f"{path} is a folder, expected an npz file")
    folder, note = unpack.unpack_once(path) if _is_large(path) else (None, None)
    raw = _read_archive(path) if folder is None else stored.read(folder)
    raw.name = path.stem
    if note is not None:
        raw.notes = [note]
    return raw


def save_npz(data: Data, path: str | os.PathLike[str], meta: Mapping[str, Any] | None = None) -> Path:
    """Write a graph in our npz format, whole or not at all.

    Args:
        data: features dense or sparse, masks of shape [N] or [N, S]; only the fields of the format are written, names
            of nodes, classes and features among them, and whether its features are derived.
        path: the file. It is replaced once the new one is complete.
        meta: anything JSON can hold (source, licence, …); the graph's name, counts and split are added.
    """
    path = Path(path)
    arrays = graph_to_arrays(data, as_features(data.x))
    content = io.BytesIO()
    np.savez_compressed(content, **arrays, meta=make_meta(data, path.stem, meta))
    return write_atomically(path, content.getvalue())


def _read_archive(path: Path) -> Data:
    try:
        with open(path, "rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise ValueError("it holds a single array")
            check_unpacked(path, sum(item.file_size for item in archive.zip.infolist()))
            arrays: dict[str, Any] = {key: archive[key] for key in KNOWN if key in archive}
            arrays["meta"] = read_meta(archive)
    except Exception as error:  # a broken archive fails in many ways: zip, zlib, header, pickle, memory, …
        raise GraphError(
            f"{path} is not a readable npz archive of plain arrays ({type(error).__name__}: {error}); arrays of "
            "Python objects are never opened"
        ) from error
    try:
        return arrays_to_graph(arrays)
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from error


def _is_large(path: Path) -> bool:
    """Whether it pays to map the dense features and edges of an archive; False for what is no archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {item.filename: item.file_size for item in archive.infolist()}
    except (OSError, zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError):
        return False  # reading it says what is wrong
    return sizes.get("x.npy", 0) + sizes.get("edge_index.npy", 0) >= UNPACKED_FROM
