"""The files of a source: one file, or a folder of parts with the same columns, in order of their names."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from plgc.graphs.formats import format_by_suffix
from plgc.graphs.formats.columns import listed
from plgc.graphs.formats.tables import PARQUET
from plgc.runtime.errors import GraphError, GraphNotFoundError

ARRAYS = (".npz", ".safetensors")
OF_MANY = re.compile(r"(\d+)-of-(\d+)")


@dataclass(frozen=True)
class Parts:
    """The files of a table, all of one kind.

    Attributes:
        name: of the table, in messages; a message on one file names that file.
        files: in order.
        parquet: whether they are Parquet, not text.
    """

    name: str
    files: tuple[Path, ...]
    parquet: bool


def is_arrays(source: Path) -> bool:
    """Whether a source holds arrays: a folder with edge_index.npy, an npz or a safetensors file."""
    if os.path.isdir(source):
        return os.path.exists(source / "edge_index.npy")
    return source.name.lower().endswith(ARRAYS)


def find_parts(source: Path, notes: list[str]) -> Parts:
    """The files of an edge list or a node table; names that begin with a dot or an underscore are left out.

    Raises:
        GraphNotFoundError: there is no such file or folder.
        GraphError: the folder holds no parts, or something else beside them, or a part is missing.
    """
    if os.path.isdir(source):
        files = sorted(path for path in source.iterdir() if not path.name.startswith((".", "_")))
        if not files:
            raise GraphError(f"{source} is an empty folder: expected parts in Parquet, CSV or TSV")
        _check_complete(source, files, notes)
    elif os.path.exists(source):
        files = [source]
    else:
        raise GraphNotFoundError(f"no such file or folder: {source}")
    kinds = {_is_parquet(path) for path in files}
    if len(kinds) > 1:
        raise GraphError(f"{source} holds Parquet and text side by side: keep parts of one kind in a folder")
    return Parts(source.name, tuple(files), kinds.pop())


def _is_parquet(path: Path) -> bool:
    """Whether a part is Parquet; an error where it is no table at all."""
    if not os.path.isfile(path):
        what = "a folder: put all parts side by side" if os.path.isdir(path) else "missing, a pipe or a device"
        raise GraphError(f"{path} is {what}")
    found = format_by_suffix(path)
    if found is None or found.module != "tables":
        hint = " (npy files need edge_index.npy beside them)" if path.name.endswith(".npy") else ""
        raise GraphError(f"{path} is no table{hint}: expected Parquet, CSV or TSV by its name")
    return path.name.lower().endswith(PARQUET)


def _check_complete(folder: Path, files: list[Path], notes: list[str]) -> None:
    """Raise where names such as 00001-of-00004 tell that a part is missing; a gap in other numbers is a note."""
    many = [found for path in files if (found := OF_MANY.search(path.name))]
    if len(many) == len(files):
        total = max(int(found[2]) for found in many)
        present = {int(found[1]) for found in many}
        first = 0 if 0 in present else 1
        missing = sorted(set(range(first, total + first)) - present)
        if missing:
            raise GraphError(f"{folder} lacks {len(missing)} of {total} parts ({listed(missing, 5)}): add them")
        return
    numbers = [int(found[0]) for path in files if (found := re.search(r"\d+", path.name))]
    if len(numbers) == len(files) == len(set(numbers)) and (gap := set(range(min(numbers), max(numbers))) - {*numbers}):
        notes.append(
            f"{folder.name}: {len(files)} parts, without number {listed(sorted(gap), 5)}; see that none is missing"
        )
