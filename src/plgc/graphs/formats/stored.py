"""Graphs that may be too large for memory: a folder of npy files, or one safetensors file.

Both hold the arrays of :mod:`plgc.graphs.formats.arrays`. Large ``x`` (float32 or float16), ``edge_index`` (int32 or
int64), ``edge_weight`` (float32) and, of a folder, ``node_ids`` are mapped; everything else is read. An array is mapped
only after the file was found to be as long as its header says, and arrays of Python objects are never opened.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.features import as_features
from plgc.graphs.formats.arrays import KNOWN, arrays_to_graph, as_time, graph_to_arrays, make_meta, read_meta
from plgc.graphs.formats.npy import Header, read_array, read_header, write_features
from plgc.runtime import mapped
from plgc.runtime.errors import GraphError, SettingError
from plgc.runtime.files import ENDING, PART, WriteError

MAPPABLE = {"x": (np.float32, np.float16), "edge_index": (np.int32, np.int64), "edge_weight": (np.float32,)}
MAX_HEADER = 8 * 2**20  # bytes
TYPES = {"F32": np.float32, "F16": np.float16, "I32": np.int32, "I64": np.int64}


def stored_files(path: Path) -> list[Path]:
    """The files that a graph in a folder is read from; none for a path that is no folder."""
    return [file for key in (*KNOWN, "meta") if os.path.exists(file := path / f"{key}.npy")]


def read(path: Path, time: str | None = None) -> Data:
    """Open a graph on disk as a raw ``Data``; whatever is wrong with it is raised as a GraphError that names it.

    The array of the name ``time``, where one is given, becomes its ``time``.
    """
    try:
        raw = arrays_to_graph(_folder_arrays(path) if os.path.isdir(path) else _safetensors_arrays(path))
        if time is not None:
            raw.time = _folder_time(path, time) if os.path.isdir(path) else _safetensors_time(path, time)
    except SettingError:
        raise
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from error
    except Exception as error:  # a damaged header fails in many ways: tokens, syntax, values, memory, …
        raise GraphError(f"{path} is not a readable graph ({type(error).__name__}: {error})") from error
    raw.name = path.stem
    return raw


def save_stored(
    data: Data, path: str | os.PathLike[str], *, dtype: str | None = None, meta: Mapping[str, Any] | None = None
) -> Path:
    """Write a graph as a folder of npy files that :func:`plgc.load_graph` maps into memory, whole or not at all.

    Best give it what :func:`plgc.load_graph` returns: its edges are in order, so that they are mapped as they are.
    Edges that are not in order are sorted, in memory, whenever the folder is loaded.

    Args:
        data: the graph; only the fields of the npz format are written.
        path: the folder. It must not exist yet.
        dtype: of dense features, ``float32`` or ``float16``; by default what they are in.
        meta: anything JSON can hold (source, licence, …); the graph's name, counts and split are added.

    Raises:
        SettingError: the folder is there already, or the dtype is another.
        GraphError: the graph cannot be written, for instance since a value is beyond the range of float16.
        WriteError: the disk is full or write-protected.
    """
    target = Path(path)
    if dtype not in (None, "float32", "float16"):
        raise SettingError(f"dtype is {dtype!r}: choose float32 or float16")
    if os.path.lexists(target):
        raise SettingError(f"{target} is there already: name a folder that is not")
    x = data.x if isinstance(data.x, Tensor) and data.x.layout == torch.strided else as_features(data.x)
    dense = x if x is not None and x.layout == torch.strided and x.size(1) > 0 else None
    arrays = graph_to_arrays(data, None if dense is not None else x)
    arrays["meta"] = make_meta(data, target.name, meta)
    work = target.absolute().parent / f"{PART}{uuid.uuid4().hex}{ENDING}"
    try:
        work.mkdir(parents=True)
        for key, array in arrays.items():
            np.save(work / f"{key}.npy", array, allow_pickle=False)
        if dense is not None:
            kind = np.dtype(dtype or ("float16" if dense.dtype == torch.float16 else "float32"))
            rows = (block.detach().cpu().numpy() for _, block in mapped.blocks(dense))
            write_features(work / "x.npy", tuple(dense.shape), kind, rows)
        flush_folder(work)
        work.rename(target)
    except OSError as error:
        raise WriteError(f"cannot write {target}: {error.strerror or error}; nothing is left of it") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def flush_folder(folder: Path) -> None:
    """Flush the files of a folder to disk, before it is renamed."""
    for path in folder.iterdir():
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _folder_arrays(path: Path) -> dict[str, Any]:
    if not os.path.exists(path / "edge_index.npy"):
        raise GraphError("it is a folder without edge_index.npy: a graph on disk has edge_index.npy, x.npy and so on")
    arrays = {key: _open_npy(path / f"{key}.npy", key) for key in KNOWN if os.path.exists(path / f"{key}.npy")}
    meta = path / "meta.npy"
    return {**arrays, "meta": read_meta({"meta": _open_npy(meta, "meta")}) if os.path.exists(meta) else {}}


def _folder_time(path: Path, name: str) -> Tensor:
    present = [file.stem for file in path.glob("*.npy")]
    return as_time(name, _open_npy(path / f"{name}.npy", name) if name in present else None, present)


def _safetensors_time(path: Path, name: str) -> Tensor:
    with safe_open(path, framework="np") as file:
        present = list(file.keys())
        return as_time(name, file.get_tensor(name) if name in present else None, present)


def _open_npy(path: Path, key: str) -> Any:
    """An array of a folder: mapped where it is large and of a suitable type, else read."""
    if not os.path.isfile(path):
        raise GraphError(f"{path.name} is not a plain file")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        header = read_header(file, path.name, size)
        if key == "node_ids" and _is_long_text(header):
            return np.memmap(path, header.dtype, "r", header.offset, header.shape)
        if not header.fortran and _is_mappable(key, header.shape, header.dtype, header.offset):
            return mapped.map_array(path, header.dtype, header.shape, header.offset)
        file.seek(0)
        return read_array(file, path.name, size)


def _is_long_text(header: Header) -> bool:
    size = math.prod(header.shape) * header.dtype.itemsize
    return header.dtype.kind == "U" and header.dtype.isnative and size >= max(1, mapped.MAPPED_FROM)


def _is_mappable(key: str, shape: tuple[int, ...], dtype: np.dtype, offset: int) -> bool:
    size = math.prod(shape) * dtype.itemsize
    fits = dtype.isnative and dtype.type in MAPPABLE.get(key, ()) and offset % dtype.itemsize == 0
    return fits and len(shape) == (1 if key == "edge_weight" else 2) and size >= max(1, mapped.MAPPED_FROM)


def _safetensors_arrays(path: Path) -> dict[str, Any]:
    if not os.path.isfile(path):
        raise GraphError("expected a plain file")
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(MAX_HEADER, os.fstat(file.fileno()).st_size - 8):
            raise GraphError(f"its header is said to be {length:,} bytes long: the file is damaged or no safetensors")
        header = json.loads(file.read(length))
    arrays: dict[str, Any] = {}
    with safe_open(path, framework="np") as file:  # it checks the header and every offset
        present = set(file.keys())
        if "edge_index" not in present:
            hint = ": a condensed graph or a model is no graph" if "plgc" in (file.metadata() or {}) else ""
            raise GraphError(f"it holds no edge_index{hint}")
        for key in KNOWN:
            if key in present:
                kind, shape = np.dtype(TYPES.get(header[key]["dtype"], np.void)), tuple(header[key]["shape"])
                offset = 8 + length + header[key]["data_offsets"][0]
                fits = _is_mappable(key, shape, kind, offset)
                arrays[key] = mapped.map_array(path, kind, shape, offset) if fits else _plain(file, key, header)
        meta = (file.metadata() or {}).get("meta", "{}")
    return {**arrays, "meta": read_meta({"meta": np.array(meta)})}


def _plain(file: Any, key: str, header: Mapping[str, Any]) -> np.ndarray:
    try:
        return file.get_tensor(key)
    except (TypeError, AttributeError) as error:  # a type that NumPy does not know
        raise GraphError(f"{key} holds {header[key]['dtype']} values: use float32, float16 or integers") from error
