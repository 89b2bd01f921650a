"""Records of finished cells, one JSON object a line. A line is added whole; what a killed run cut short is skipped.

A line that names a cell and says anything else that no run of ours has written is refused, with its number: a table
says only what was measured.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from plgc._version import __version__
from plgc.experiments.grid import Cell
from plgc.experiments.levels import OPEN
from plgc.rivals.methods import METHODS
from plgc.runtime.errors import ArtifactError, SettingError
from plgc.runtime.files import WriteError
from plgc.runtime.schema import ABSENT, Absent, Count, Form, FreeText, SchemaError, Within, Word, read

FILE = "records.jsonl"
CELL_KEYS = tuple(item.name for item in fields(Cell))
MOST_DRAWS = 1000  # label draws of a cell
Spent = Annotated[float, Within(0)]  # seconds
# Records from before they came have none.
LATER = ("parts", "partition", "family", "sources", "combine", "release", "draws", "metric", "variant")
LATER += ("history", "year", "share")


@dataclass(frozen=True)
class Record:
    """A line of the file: the cell, what was measured or why it failed, and with what it was made.

    ``values`` are the metrics of every label draw, where there are several.
    """

    cell: Cell
    metrics: dict[str, float] | Absent = ABSENT
    error: Annotated[str, FreeText()] | Absent = ABSENT
    values: dict[str, tuple[float, ...]] | Absent = ABSENT
    clean_labels: Count | None = None
    learn_seconds: Spent | None = None
    learn_peak_memory_bytes: Count | None = None
    embedding_width: Count | None = None
    kept_nodes: Count | None = None
    condense_seconds: Spent | None = None
    condense_cpu_seconds: Spent | None = None
    condense_peak_memory_bytes: Count | None = None
    reused: bool | None = None
    bytes: Count | None = None
    artifact_sha256: Annotated[str, Form(r"[0-9a-f]{64}(\+[0-9a-f]{64})*", "checksums with + between")] | None = None
    settings: dict[str, Any] | None = None
    chosen: dict[str, Any] | tuple[dict[str, Any], ...] | None = None
    seconds: Spent | None = None
    graph_nodes: Count | None = None
    split: str | None = None
    machine: str | None = None
    device: str | None = None
    threads: Count | None = None
    commit: str | None = None
    version: Word | None = None
    torch: Word | None = None
    python: Word | None = None

    def __post_init__(self) -> None:
        if (self.metrics is ABSENT) == (self.error is ABSENT):
            raise ValueError("it needs either metrics or an error")
        draws = self.cell.draws
        if self.cell.method not in METHODS:
            raise ValueError(f"there is no method {self.cell.method[:100]!r}")
        if draws is not None and not 1 <= draws <= MOST_DRAWS:
            raise ValueError(f"cell.draws is {draws}: it must be at least 1 and at most {MOST_DRAWS}")
        if not isinstance(self.values, Absent) and any(len(found) != (draws or 1) for found in self.values.values()):
            raise ValueError(f"values are not of {draws or 1} label draw(s)")


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
        for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), 1):
            try:
                record = _with_release(json.loads(line))
                key = identity(record)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue  # half a line
            _check(record, path, number)
            if "error" not in record or key not in found or "error" in found[key]:
                found[key] = record
    return list(found.values())


def _with_release(record: dict[str, Any]) -> dict[str, Any]:
    """The same: files with a history were open before there were private ones, and their cells did not say so."""
    if record["cell"].get("history") is not None and record["cell"].get("release") is None:
        record["cell"]["release"] = OPEN
    return record


def _check(record: dict[str, Any], path: Path, number: int) -> None:
    try:
        read(Record, record)
    except SchemaError as error:
        made = record.get("version")
        other = f" (it is of plgc {str(made)[:40]!r}, this is {__version__})" if made not in (None, __version__) else ""
        raise ArtifactError(
            f"line {number} of {path} is no record of ours: {str(error)[:400]}{other}. Remove the line to go on "
            "without it: running the experiment again does its cell anew"
        ) from error


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
