"""Sources that are arrays: a folder of npy files, a safetensors or an npz file; mapped, whatever their types."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from plgc.graphs.check import check_claimed, node_count
from plgc.graphs.features import check_matrix
from plgc.graphs.formats.arrays import KNOWN, YEAR, arrays_to_graph, as_time, read_meta
from plgc.graphs.formats.limits import check_unpacked
from plgc.graphs.formats.npy import read_header, write_features
from plgc.graphs.formats.npz import members
from plgc.graphs.formats.stored import MAX_HEADER
from plgc.graphs.store.budget import check_disk
from plgc.graphs.store.edges import EdgeBlock
from plgc.graphs.store.nodes import shapes_only
from plgc.graphs.store.numbering import IdColumn
from plgc.runtime.errors import GraphError, SettingError
from plgc.runtime.progress import Progress

EDGES = 1 << 17  # edges that are looked at at a time
CELLS = 1 << 20  # features that are
LARGE = ("x", "edge_index", "edge_weight", "node_ids")
TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BOOL": "|b1",
    "I8": "|i1",
    "U8": "|u1",
    **{f"{sign}{8 * size}": f"<{sign.lower()}{size}" for sign in "IU" for size in (2, 4, 8)},
}


def open_arrays(source: Path, work: Path) -> dict[str, Any]:
    """The arrays of a graph by name, mapped, and its ``meta``; an npz file is unpacked into ``work``.

    Raises:
        GraphError: the source is damaged; the message names the file.
    """
    try:
        if os.path.isdir(source):
            return _folder_arrays(source)
        if source.name.lower().endswith(".npz"):
            return _folder_arrays(_unpacked(source, work))
        return _safetensors_arrays(source)
    except GraphError as error:
        raise GraphError(f"{source}: {error}") from error
    except (SettingError, OSError):
        raise
    except Exception as error:  # a damaged header fails in many ways: tokens, syntax, values, memory, …
        raise GraphError(f"{source} is not a readable graph ({type(error).__name__}: {error})") from error


def _unpacked(source: Path, work: Path) -> Path:
    with zipfile.ZipFile(source) as archive:
        size = sum(item.file_size for item in archive.infolist())
        check_unpacked(source, size)
        check_disk(work.parent, size)
        work.mkdir(exist_ok=True)
        years = [archive.getinfo(f"{YEAR}.npy")] if f"{YEAR}.npy" in archive.namelist() else []
        for item in (*members(archive), *years):
            archive.extract(item, work)
    return work


def _folder_arrays(folder: Path) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    for key in (*KNOWN, YEAR, "meta"):
        path = folder / f"{key}.npy"
        if os.path.exists(path):
            with open(path, "rb") as file:
                header = read_header(file, path.name, os.fstat(file.fileno()).st_size)
            arrays[key] = _map(path, header.dtype, header.shape, header.offset, "F" if header.fortran else "C")
    return {**arrays, "meta": read_meta(arrays)}


def _safetensors_arrays(source: Path) -> dict[str, Any]:
    with open(source, "rb") as file:
        size, length = os.fstat(file.fileno()).st_size, int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(MAX_HEADER, size - 8):
            raise GraphError(f"its header is said to be {length:,} bytes long: the file is damaged or no safetensors")
        header = json.loads(file.read(length))
    arrays: dict[str, Any] = {}
    for key in (*KNOWN, YEAR):
        if key in header:
            if (kind := TYPES.get(header[key]["dtype"])) is None:
                raise GraphError(f"{key} holds {header[key]['dtype']} values: use float32, float16 or integers")
            dtype, shape = np.dtype(kind), tuple(map(int, header[key]["shape"]))
            start, end = (8 + length + int(offset) for offset in header[key]["data_offsets"])
            if end - start != dtype.itemsize * int(np.prod(shape)) or not 8 + length <= start <= end <= size:
                raise GraphError(f"{key} is cut short: {list(shape)} values do not fit into the file")
            arrays[key] = _map(source, dtype, shape, start)
    return {**arrays, "meta": read_meta({"meta": np.array(header.get("__metadata__", {}).get("meta", "{}"))})}


def _map(path: Path, dtype: np.dtype, shape: tuple[int, ...], offset: int, order: Any = "C") -> np.ndarray:
    if not int(np.prod(shape)):
        return np.zeros(shape, dtype)
    if not shape:
        return np.memmap(path, dtype, "r", offset, (1,)).reshape(())
    return np.memmap(path, dtype, "r", offset, shape, order)


def read_whole(arrays: Mapping[str, Any]) -> int:
    """Bytes of what is read whole, and copied: labels, masks, sparse features."""
    kept = [array for key, array in arrays.items() if key not in (*LARGE, "meta")]
    return 4 * sum(array.nbytes for array in kept)


def raw_graph(arrays: Mapping[str, Any]) -> Data:
    """The graph without its largest arrays: features and edges have their shapes alone, and ids of nodes are left out.

    Raises:
        GraphError: arrays contradict each other, or have the wrong shape or type.
    """
    if "edge_index" not in arrays:
        raise GraphError("it has no edge_index")
    edges = arrays["edge_index"]
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise GraphError(f"edge_index holds {edges.dtype} {list(edges.shape)}, expected integers [2, E]")
    small = {key: array for key, array in arrays.items() if key not in LARGE}
    for key in ("x", "edge_index"):
        if key in arrays:
            small[key] = shapes_only(arrays[key].shape, torch.float32 if key == "x" else torch.int64)
    raw = arrays_to_graph(small)
    if YEAR in small:
        raw.time = as_time(YEAR, small[YEAR], ())
    if "x" in arrays:
        if arrays["x"].dtype.kind not in "fiub":
            raise GraphError(f"x holds {arrays['x'].dtype} values, expected real numbers")
        check_matrix(small["x"])
    if "edge_weight" in arrays and arrays["edge_weight"].size != edges.shape[1]:
        raise GraphError(f"edge_weight has {arrays['edge_weight'].size} values for {edges.shape[1]} edges")
    counted = any(key in arrays for key in ("num_nodes", "x", "x_shape", "y", "y_multi", "train_mask", "val_mask"))
    if not counted and "test_mask" not in arrays:
        raw.num_nodes = max(
            (int(edges[:, a : a + EDGES].max()) + 1 for a in range(0, edges.shape[1], EDGES)), default=0
        )
    raw.num_nodes = nodes = node_count(raw)
    if nodes < 1:
        raise GraphError(f"the graph has no nodes (num_nodes = {nodes}): there is nothing to store")
    check_claimed(raw, nodes)
    if raw.x is not None and raw.x.size(0) != nodes:
        raise GraphError(f"x has {raw.x.size(0)} rows, but the graph has {nodes} nodes: give one row per node")
    return raw


def array_edges(arrays: Mapping[str, Any], nodes: int, where: str) -> Iterator[EdgeBlock]:
    """The edges, some at a time; GraphError for a node number that is out of range."""
    edges, weights = arrays["edge_index"], arrays.get("edge_weight")
    for start in range(0, edges.shape[1], EDGES):
        source, target = edges[:, start : start + EDGES].astype(np.int64)
        bad = np.flatnonzero((np.minimum(source, target) < 0) | (np.maximum(source, target) >= nodes))
        if len(bad):
            a, b = int(source[bad[0]]), int(target[bad[0]])
            raise GraphError(
                f"{where}: edge {start + int(bad[0])} joins nodes {a} and {b}: out of range, the graph has {nodes} "
                f"nodes (0 to {nodes - 1}): drop such edges, or give every node a row"
            )
        weight = None if weights is None else weights.reshape(-1)[start : start + EDGES].astype(np.float64)
        yield EdgeBlock(source, target, weight, where, start)


def store_features(x: np.ndarray, out: Path, dtype: str | None, progress: Progress) -> None:
    """Write dense features into ``out``; GraphError where one is not finite."""
    kind = np.dtype(dtype or ("float16" if x.dtype == np.float16 else "float32"))
    step = max(1, CELLS // max(1, x.shape[1]))

    def rows() -> Iterator[np.ndarray]:
        for start in range(0, len(x), step):
            with np.errstate(over="ignore"):
                block = x[start : start + step].astype(np.float32)
            bad = np.argwhere(~np.isfinite(block))
            if len(bad):
                row, column = bad[0].tolist()
                raise GraphError(
                    f"x[{start + row}, {column}] is {x[start + row, column]}: replace or drop values that are not "
                    "finite (values beyond the float32 range count as infinite)"
                )
            yield block
            progress("writing features", start + len(block), len(x))

    write_features(out / "x.npy", x.shape, kind, rows())


def store_ids(ids: np.ndarray, nodes: int, folder: Path, out: Path) -> None:
    """Write the ids of nodes into ``out``; GraphError where two are the same."""
    if ids.dtype.kind != "U" or ids.shape != (nodes,):
        raise GraphError(f"node_ids holds {ids.dtype} {list(ids.shape)}, expected text, one for each of {nodes} nodes")
    column = IdColumn(folder, "node_ids", "node_ids")
    for start in range(0, nodes, EDGES):
        column.add(np.asarray(ids[start : start + EDGES]))
    column.finish(out / "node_ids.npy")
