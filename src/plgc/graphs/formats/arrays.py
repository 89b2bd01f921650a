"""The arrays that a graph on disk consists of, the same in npz archives, folders of npy files and safetensors files.

``edge_index`` [2, E]; features as dense ``x`` or as CSR parts ``x_indptr``, ``x_indices``, ``x_data``, ``x_shape``;
``y``, ``y_multi``, ``edge_weight`` and masks ([N], or [S, N] for several splits) where there are any; ``core_mask``
[N], False for a halo around the graph's own nodes, where there is one; ``node_ids``, ``class_names`` and
``feature_names``, arrays of text, where the graph has names; ``meta``, a JSON string. ``year``, or another row of
numbers, one a node, says when nodes came; it is read where it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.attributes import Seen, attribute, seen_of
from plgc.graphs.check import MASKS, node_count
from plgc.graphs.derive import checked_mark, derived_of
from plgc.graphs.features import csr_features, csr_shape
from plgc.graphs.formats.stored_text import StoredText
from plgc.graphs.preprocessing import Preprocessing
from plgc.runtime.errors import GraphError, SettingError

CSR_KEYS = ("x_indptr", "x_indices", "x_data", "x_shape")
NAME_KEYS = ("node_ids", "class_names", "feature_names")
TENSOR_KEYS = ("edge_index", "y", "y_multi", "edge_weight", "core_mask", *MASKS)
KNOWN = (*TENSOR_KEYS, "x", *CSR_KEYS, "num_nodes", *NAME_KEYS)
MAX_EMPTY, COLUMNS_A_VALUE = 65_536, 32  # columns of sparse features: the one, or the other times their values
YEAR = "year"  # the name of the time, where no other is given
MAX_NAME = 1000  # characters: an array of text takes as much room for each as for the longest


def arrays_to_graph(arrays: Mapping[str, Any]) -> Data:
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
        _check_columns(csr_shape(arrays["x_shape"])[1], arrays["x_indices"].size)
        raw.x = csr_features(*(arrays[key] for key in CSR_KEYS))
        raw.num_nodes = int(arrays["x_shape"][0])  # also where x has no columns
    for key in TENSOR_KEYS:
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
    origin, derived, table = (arrays["meta"].get(key) for key in ("split_origin", "derived", "preprocessing"))
    raw.split_origin = origin if isinstance(origin, str) else "public split"
    if derived is not None or table is not None:
        try:
            raw.seen = Seen(
                derived=None if derived is None else checked_mark(derived),
                preprocessing=None if table is None else Preprocessing.from_dict(table),
            )
        except ValueError as error:
            raise GraphError(f"its meta speaks of {error}") from error
    return raw


def graph_to_arrays(data: Data, x: Tensor | None) -> dict[str, Any]:
    """The arrays of a graph, without ``meta``, with these features; None leaves them out."""
    nodes = node_count(data)
    if not isinstance(data.edge_index, Tensor):
        raise GraphError("the graph has no edge_index: there is nothing to write")
    arrays: dict[str, Any] = {"edge_index": data.edge_index.cpu().numpy().astype(index_type(nodes))}
    if x is not None and x.layout == torch.strided:
        arrays["x"] = x.numpy()
    elif x is not None:
        kind = index_type(max(*x.shape, x.values().numel()))
        parts = x.crow_indices().numpy().astype(kind), x.col_indices().numpy().astype(kind)
        arrays |= zip(CSR_KEYS, (*parts, x.values().numpy(), np.array(x.shape, dtype=np.int64)), strict=True)
    for key in ("y", "y_multi", "edge_weight", "core_mask"):
        if key in data:
            arrays[key] = data[key].cpu().numpy()
    for key in MASKS:
        if key in data:
            arrays[key] = data[key].cpu().numpy().astype(bool).T  # [N] as it is, [N, S] to [S, N]
    if "time" in data:
        arrays[YEAR] = data["time"].cpu().numpy()
    for key in NAME_KEYS:
        if names := [str(name) for name in attribute(data, key, ())]:
            if len(longest := max(names, key=len)) > MAX_NAME:
                raise GraphError(f"{key}: {longest[:20]!r}… has {len(longest)} characters, the limit is {MAX_NAME}")
            arrays[key] = np.array(names)
    if not arrays.keys() & {"x", "x_shape", "y", "y_multi", *MASKS}:
        arrays["num_nodes"] = np.array(nodes)
    return arrays


def as_time(name: str, array: Any, present: Sequence[str]) -> Tensor:
    """When every node came, float64 [N], by an array of this name; None for one that is not among those present."""
    if array is None:
        others = sorted(set(present) - {*KNOWN, "meta"})
        raise SettingError(
            f"there is no {name!r} that says when nodes came: "
            + (
                f"name one of {', '.join(others)} with --time"
                if others
                else "the graph has no time, so leave --until out"
            )
        )
    numbers = np.asarray(array)
    if numbers.ndim != 1 or numbers.dtype.kind not in "fiu":
        raise SettingError(
            f"{name} is named as the time and holds {numbers.dtype} values of shape {list(numbers.shape)}: one number "
            "a node is needed"
        )
    return torch.from_numpy(numbers.astype(np.float64))


def make_meta(data: Data, name: str, meta: Mapping[str, Any] | None = None) -> np.ndarray:
    """The ``meta`` of a file: the graph's name and counts, where its split and its features come from."""
    y = attribute(data, "y")
    facts: dict[str, Any] = {
        "name": name,
        "nodes": node_count(data),
        "edges": 0 if data.edge_index is None else data.edge_index.shape[1],
        "features": 0 if data.x is None else data.x.shape[1],
        "classes": 0 if y is None else int(y.max()) + 1,
    }
    if isinstance(attribute(data, "split_origin"), str):
        facts["split_origin"] = data.split_origin
    if (mark := derived_of(data)) is not None:
        facts["derived"] = mark
    if (table := seen_of(data).preprocessing) is not None:
        facts["preprocessing"] = table.to_dict()
    return np.array(json.dumps({**facts, **(meta or {})}))


def read_meta(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The ``meta`` among some arrays as a dictionary; empty when it is absent or not a JSON object."""
    if "meta" not in arrays:
        return {}
    try:
        meta = json.loads(str(arrays["meta"]))
    except ValueError:
        return {}
    return meta if isinstance(meta, dict) else {}


def _check_columns(columns: int, values: int) -> None:
    """Raise where sparse features claim far more columns than they have values: weights are kept for every column."""
    most = max(MAX_EMPTY, COLUMNS_A_VALUE * values)
    if columns > most:
        raise GraphError(
            f"x_shape claims {columns:,} columns for {values:,} values, at most {most:,} are read: leave out columns "
            "without values"
        )


def index_type(largest: int) -> type[np.signedinteger]:
    """The type of indices up to a largest one."""
    return np.int32 if largest < 2**31 else np.int64


def _names(key: str, array: np.ndarray) -> list[str] | StoredText:
    if array.dtype.kind != "U" or array.ndim != 1:
        raise GraphError(f"{key} holds {array.dtype} values of shape {list(array.shape)}, expected a row of text")
    return StoredText(array) if isinstance(array, np.memmap) else array.tolist()


def _tensor(key: str, array: np.ndarray | Tensor) -> Tensor:
    if isinstance(array, Tensor):
        return array
    if array.dtype.kind not in "fiub":
        raise GraphError(f"{key} holds {array.dtype} values, expected numbers")
    plain = {"f": np.dtype(np.float64), "u": np.dtype(np.int64)}.get(array.dtype.kind, array.dtype.newbyteorder("="))
    return torch.from_numpy(array.astype(plain, copy=not array.flags.writeable))
