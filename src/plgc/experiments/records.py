"""Records of finished cells, one JSON object a line. A line is added whole; what a killed run cut short is skipped."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from plgc.experiments.grid import Cell
from plgc.runtime.errors import SettingError
from plgc.runtime.files import WriteError

FILE = "records.jsonl"
CELL_KEYS = tuple(item.name for item in fields(Cell))
# Records from before they came have none.
LATER = ("parts", "partition", "family", "sources", "combine", "release", "draws", "metric")


def append_record(path: Path, record: dict[str, Any]) -> None:
    """Add a line in one write, so that processes that share the file do not mix theirs.

    Raises:
        WriteError: it cannot be written; what was there before is still there, and half a line is passed over later.
    """
    line = json.dumps(record, allow_nan=False).encode() + b"\n"
    try:
        _append(path, line)
    except OSError as error:
        raise WriteError(
            f"cannot add a record to {path} ({error.strerror or error}): make room, or choose another folder, and run "
            "the same again, which does what is missing"
        ) from error


def _append(path: Path, line: bytes) -> None:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        if os.lseek(handle, 0, os.SEEK_END) > 0:
            os.lseek(handle, -1, os.SEEK_END)
            if os.read(handle, 1) != b"\n":
                line = b"\n" + line  # a run that was killed left half a line behind
        if os.write(handle, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(handle)
    finally:
        os.close(handle)


def read_records(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Every record of these files, one per cell: the last one, but an error never takes the place of a success."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for path in paths:
        for line in path.read_bytes().splitlines() if path.exists() else ():
            try:
                record = json.loads(line)
                key = identity(record)
            except (ValueError, KeyError, TypeError):
                continue  # half a line
            if "error" not in record or key not in found or "error" in found[key]:
                found[key] = record
    return list(found.values())


def identity(record: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The cell a record belongs to, as :meth:`Cell.identity` writes it."""
    cell = record["cell"]
    return tuple((key, cell.get(key) if key in LATER else cell[key]) for key in CELL_KEYS)


def records_file(folder: str | os.PathLike[str], name: str, must_exist: bool = False) -> Path:
    """Where an experiment's records are: ``FOLDER/records.jsonl``."""
    path = Path(folder) / FILE
    if must_exist and not path.is_file():
        raise SettingError(f"there are no records in {path.parent}: run 'plgc experiment run {name}' first")
    return path
