"""Our interchange format: one npz archive of the arrays of :mod:`plgc.graphs.formats.arrays`, without pickle.

A large archive is unpacked into the cache once, and its arrays are mapped into memory from there. An unpacked folder
belongs to one path, size and time of change: a file that changes is unpacked anew, and the old folder is removed. A
folder is complete or not there at all, it is closed to other users, and whenever it is used, its files are compared
with the checksums in the archive.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import time
import uuid
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import MAGIC_PREFIX
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.features import as_features
from plgc.graphs.formats import stored
from plgc.graphs.formats.arrays import KNOWN, arrays_to_graph, as_time, graph_to_arrays, make_meta, read_meta
from plgc.graphs.formats.limits import check_unpacked
from plgc.graphs.formats.npy import read_array
from plgc.runtime import mapped
from plgc.runtime.errors import GraphError, GraphNotFoundError
from plgc.runtime.files import ENDING, PART, STALE, cache_folder, private_folder, write_atomically

UNPACKED_FROM = 256 << 20  # bytes of dense features and edges
FOLDER = "unpacked"


def read(path: Path, time: str | None = None) -> Data:
    """Read a graph as a raw ``Data``; with the array of the name ``time`` as its ``time``.

    Raises:
        GraphNotFoundError: there is no such file.
        GraphError: it cannot be read; the message names it.
    """
    if not os.path.exists(path):
        raise GraphNotFoundError(f"no such file: {path}")
    if os.path.isdir(path):
        raise GraphError(f"{path} is a folder, expected an npz file")
    folder, note = _unpack_once(path) if _is_large(path) else (None, None)
    raw = _read_archive(path) if folder is None else stored.read(folder)
    raw.name = path.stem
    if time is not None:
        raw.time = _read_time(path, time)
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


def npz_bytes(data: Data) -> int:
    """How many bytes a graph's features and edges take as a file of our npz format, without labels and names.

    Beyond 256 MiB the arrays are counted as they are: dense numbers hardly shrink, and it would take minutes.
    """
    weight = {"edge_weight": data.edge_weight} if "edge_weight" in data else {}
    bare = Data(edge_index=data.edge_index, num_nodes=data.num_nodes, **weight)
    arrays = graph_to_arrays(bare, as_features(data.x))
    total = sum(np.asarray(array).nbytes for array in arrays.values())
    if total > UNPACKED_FROM:
        return total
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return len(content.getvalue())


def _read_archive(path: Path) -> Data:
    try:
        with open(path, "rb") as file:
            if file.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX:
                raise ValueError("it holds a single array")
        with zipfile.ZipFile(path) as archive:
            check_unpacked(path, sum(item.file_size for item in archive.infolist()))
            arrays = {key: read_member(archive, key) for key in KNOWN if f"{key}.npy" in archive.namelist()}
            arrays["meta"] = archive_meta(archive)
    except Exception as error:  # a broken archive fails in many ways: zip, zlib, header, pickle, memory, …
        raise GraphError(
            f"{path} is not a readable npz archive of plain arrays ({type(error).__name__}: {error}); arrays of "
            "Python objects are never opened"
        ) from error
    try:
        return arrays_to_graph(arrays)
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from error


def _read_time(path: Path, name: str) -> Tensor:
    with zipfile.ZipFile(path) as archive:
        present = [item.removesuffix(".npy") for item in archive.namelist()]
        return as_time(name, read_member(archive, name) if name in present else None, present)


def archive_meta(archive: zipfile.ZipFile) -> dict[str, Any]:
    """The ``meta`` of an archive; the other arrays are not read."""
    return read_meta({"meta": read_member(archive, "meta")} if "meta.npy" in archive.namelist() else {})


def read_member(archive: zipfile.ZipFile, key: str) -> Any:
    """An array of an archive."""
    item = archive.getinfo(f"{key}.npy")
    with archive.open(item) as file:
        return read_array(file, item.filename, item.file_size)


def _is_large(path: Path) -> bool:
    """Whether it pays to map the dense features and edges of an archive; False for what is no archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {item.filename: item.file_size for item in archive.infolist()}
    except (OSError, zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError):
        return False  # reading it says what is wrong
    return sizes.get("x.npy", 0) + sizes.get("edge_index.npy", 0) >= UNPACKED_FROM


def _unpack_once(path: Path) -> tuple[Path | None, str | None]:
    """Unpack an archive, where that has not been done before; return its folder, and a sentence for the user.

    The folder is None where the archive cannot be unpacked: it has to be read as it is.

    Raises:
        GraphError: it would unpack to more than its size can reasonably hold.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            total = sum(item.file_size for item in archive.infolist())
            check_unpacked(path, total)
            target = _target(path)
            found = os.path.lexists(target)
            if found and _is_sound(archive, target):
                return target, None
            if found:
                shutil.rmtree(target)
            _unpack(archive, target, total)
    except OSError as error:
        return None, f"{path.name} cannot be unpacked into the cache ({error.strerror or error}): it is read whole"
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError):
        return None, None  # reading it says what is wrong
    again = "anew, since what was there differs from it," if found else "once,"
    return target, f"{path.name} is unpacked, {again} into {target} ({total / 2**30:.2f} GiB)"


def _target(path: Path) -> Path:
    stat = path.stat()
    place = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]
    state = hashlib.sha256(f"{stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:12]
    return cache_folder() / FOLDER / f"{path.stem}-{place}-{state}"


def members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """The arrays of our format in an archive."""
    present = set(archive.namelist())
    return [archive.getinfo(name) for name in (f"{key}.npy" for key in (*KNOWN, "meta")) if name in present]


def _is_sound(archive: zipfile.ZipFile, folder: Path) -> bool:
    """Whether a folder holds the arrays of an archive, no others, and every byte of them."""
    private_folder(folder.parent)
    expected = members(archive)
    if {path.name for path in folder.iterdir()} != {item.filename for item in expected}:
        return False
    for item in expected:
        path, checksum = folder / item.filename, 0
        if path.is_symlink() or path.stat().st_size != item.file_size:
            return False
        with open(path, "rb") as file:
            while block := file.read(mapped.BLOCK):
                checksum = zlib.crc32(block, checksum)
        if checksum != item.CRC:
            return False
    return True


def _unpack(archive: zipfile.ZipFile, target: Path, total: int) -> None:
    """Unpack the arrays of our format into a folder beside the target, then rename it."""
    private_folder(target.parent)
    if (free := shutil.disk_usage(target.parent).free) < total:
        raise OSError(f"it takes {total:,} bytes, {free:,} are free in {target.parent}")
    work = target.parent / f"{PART}{uuid.uuid4().hex}{ENDING}"
    try:
        work.mkdir(mode=0o700)
        for item in members(archive):
            archive.extract(item, work)
            os.chmod(work / item.filename, 0o600)
        stored.flush_folder(work)
        try:
            work.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was quicker
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    _remove_old(target)


def _remove_old(target: Path) -> None:
    """Remove what the same file was unpacked into before it changed, and what killed processes have left."""
    place = target.name.rpartition("-")[0]
    for other in target.parent.iterdir():
        with contextlib.suppress(OSError):
            stale = other.name.startswith(PART) and time.time() - other.stat().st_mtime >= STALE
            if stale or (other.name.rpartition("-")[0] == place and other != target):
                shutil.rmtree(other, ignore_errors=True)
