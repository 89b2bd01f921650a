"""Our interchange format: a NumPy archive of plain arrays, read without pickle and written whole.

``edge_index`` [2, E]; features as dense ``x`` or as CSR parts ``x_indptr``, ``x_indices``, ``x_data``, ``x_shape``;
``y``, ``y_multi``, ``edge_weight`` and masks ([N], or [S, N] for several splits) where there are any; ``node_ids``,
``class_names`` and ``feature_names``, arrays of text, where the graph has names; ``meta``, a JSON string.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.check import MASKS, as_features, csr_features, node_count
from plgc.graphs.derive import checked_mark, derived_of
from plgc.graphs.formats.bounded import check_unpacked
from plgc.runtime.errors import GraphError, GraphNotFoundError
from plgc.runtime.files import write_atomically

CSR_KEYS = ("x_indptr", "x_indices", "x_data", "x_shape")
NAME_KEYS = ("node_ids", "class_names", "feature_names")
KNOWN = ("edge_index", "x", *CSR_KEYS, "y", "y_multi", "edge_weight", "num_nodes", *MASKS, *NAME_KEYS)
MAX_NAME = 1000  # characters: an array of text takes as much room for each as for the longest


def read_npz(path: Path, name: str | None = None) -> Data:
    """Read our npz format; whatever is wrong with the file comes out as a GraphError that names it."""
    if not os.path.exists(path):
        raise GraphNotFoundError(f"no such file: {path}")
    if os.path.isdir(path):
        raise GraphError(f"{path} is a folder, expected an npz file")
    try:
        arrays = _read_arrays(path)
    except Exception as error:  # a broken archive fails in many ways: zip, zlib, header, pickle, memory, …
        raise GraphError(
            f"{path} is not a readable npz archive of plain arrays ({type(error).__name__}: {error}); arrays of "
            "Python objects are never opened"
        ) from error
    try:
        raw = raw_graph(arrays)
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from error
    raw.name = name or path.stem
    return raw


def _read_arrays(path: Path) -> dict[str, Any]:
    with open(path, "rb") as file:
        archive = np.load(file, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise ValueError("it holds a single array")
        check_unpacked(path, sum(item.file_size for item in archive.zip.infolist()))
        arrays: dict[str, Any] = {key: archive[key] for key in KNOWN if key in archive}
        arrays["meta"] = read_meta(archive)
    return arrays


def raw_graph(arrays: Mapping[str, Any]) -> Data:
    """Turn the arrays of a file, and its ``meta`` as a dictionary, into a raw ``Data``, masks as [N] or [N, S].

    Arrays may be tensors already, mapped ones for instance.
    """
    if "edge_index" not in arrays:
        raise GraphError("it has no edge_index")
    present = [key for key in CSR_KEYS if key in arrays]
    if present and "x" in arrays:
        raise GraphError(f"it has both x and {present[0]}: keep either dense or CSR features")
    if present and len(present) < len(CSR_KEYS):
        missing = [key for key in CSR_KEYS if key not in arrays]
        raise GraphError(f"its CSR features are incomplete: {', '.join(missing)} missing")
    raw = Data(x=arrays.get("x"))
    if present:
        raw.x = csr_features(*(arrays[key] for key in CSR_KEYS))
        raw.num_nodes = int(arrays["x_shape"][0])  # also where x has no columns
    for key in ("edge_index", "y", "y_multi", "edge_weight", *MASKS):
        if key in arrays:
            raw[key] = _tensor(key, arrays[key])
    if "num_nodes" in arrays:
        if arrays["num_nodes"].ndim != 0 or arrays["num_nodes"].dtype.kind not in "iu":
            raise GraphError(f"num_nodes is {arrays['num_nodes'].tolist()}, expected one whole number")
        raw.num_nodes = int(arrays["num_nodes"])
    for key in NAME_KEYS:
        if key in arrays:
            raw[key] = _names(key, arrays[key])
    for key in MASKS:
        if key in arrays and raw[key].dim() == 2 and raw[key].size(1) == node_count(raw):
            raw[key] = raw[key].t()
    if isinstance(arrays["meta"].get("split_origin"), str):
        raw.split_origin = arrays["meta"]["split_origin"]
    else:
        raw.split_origin = "public split"
    if arrays["meta"].get("derived") is not None:
        try:
            raw.seen = {"nodes": "all", "edges": "all", "derived": checked_mark(arrays["meta"]["derived"])}
        except ValueError as error:
            raise GraphError(f"its meta speaks of {error}") from error
    return raw


def _names(key: str, array: np.ndarray) -> list[str]:
    if array.dtype.kind != "U" or array.ndim != 1:
        raise GraphError(f"{key} holds {array.dtype} values of shape {list(array.shape)}, expected a row of text")
    return array.tolist()


def _tensor(key: str, array: np.ndarray | Tensor) -> Tensor:
    if isinstance(array, Tensor):
        return array
    if array.dtype.kind not in "fiub":
        raise GraphError(f"{key} holds {array.dtype} values, expected numbers")
    plain = {"f": np.dtype(np.float64), "u": np.dtype(np.int64)}.get(array.dtype.kind, array.dtype.newbyteorder("="))
    return torch.from_numpy(array.astype(plain))


def save_npz(data: Data, path: str | os.PathLike[str], meta: Mapping[str, Any] | None = None) -> Path:
    """Write a graph in our npz format, whole or not at all.

    Args:
        data: features dense or sparse, masks of shape [N] or [N, S]; only the fields of the format are written, names
            of nodes, classes and features among them, and whether its features are derived.
        path: the file. It is replaced once the new one is complete.
        meta: anything JSON can hold (source, licence, …); the graph's name, counts and split are added.
    """
    path = Path(path)
    arrays = graph_arrays(data, as_features(data.x))
    arrays["meta"] = describe(data, path.stem, meta)
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return write_atomically(path, content.getvalue())


def describe(data: Data, name: str, meta: Mapping[str, Any] | None = None) -> np.ndarray:
    """The ``meta`` of a file: what it is called, how large it is, where its split and its features come from."""
    y = data._store.get("y")
    facts: dict[str, Any] = {
        "name": name,
        "nodes": node_count(data),
        "edges": 0 if data.edge_index is None else data.edge_index.shape[1],
        "features": 0 if data.x is None else data.x.shape[1],
        "classes": 0 if y is None else int(y.max()) + 1,
    }
    if isinstance(data._store.get("split_origin"), str):
        facts["split_origin"] = data.split_origin
    if (mark := derived_of(data)) is not None:
        facts["derived"] = mark
    return np.array(json.dumps({**facts, **(meta or {})}))


def read_meta(archive: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The ``meta`` of an open npz archive as a dictionary; empty when it is absent or not a JSON object."""
    if "meta" not in archive:
        return {}
    try:
        meta = json.loads(str(archive["meta"]))
    except ValueError:
        return {}
    return meta if isinstance(meta, dict) else {}


def graph_arrays(data: Data, x: Tensor | None) -> dict[str, Any]:
    """The arrays of our format, ``meta`` apart, with these features; None leaves them out."""
    nodes, store = node_count(data), data._store
    if not isinstance(data.edge_index, Tensor):
        raise GraphError("the graph has no edge_index: there is nothing to write")
    index_type = np.int32 if nodes < 2**31 else np.int64
    arrays: dict[str, Any] = {"edge_index": data.edge_index.cpu().numpy().astype(index_type)}
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
    for key in NAME_KEYS:
        if store.get(key):
            names = [str(name) for name in store[key]]
            if len(longest := max(names, key=len)) > MAX_NAME:
                raise GraphError(f"{key}: {longest[:20]!r}… has {len(longest)} characters, the limit is {MAX_NAME}")
            arrays[key] = np.array(names)
    if not arrays.keys() & {"x", "x_shape", "y", "y_multi", *MASKS}:
        arrays["num_nodes"] = np.array(nodes)
    return arrays
