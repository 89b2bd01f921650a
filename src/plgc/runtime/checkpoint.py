"""Checkpoints of long runs: tensors and plain values in one safetensors file, written whole or not at all.

A checkpoint belongs to one run: its key is a digest of everything the run depends on. One with another key is ignored,
so that a changed setting or graph starts from the beginning. A run is given a folder: a plain path, or a
:class:`CheckpointFolder`, which says when to save and keeps the files until the result is written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plgc._version import __version__
from plgc.runtime.container import container_bytes, read_container
from plgc.runtime.errors import ArtifactError, SettingError
from plgc.runtime.files import WriteError, remove_leftovers, write_atomically
from plgc.runtime.schema import SchemaError, read

FORMAT, SCHEMA = "plgc-checkpoint", 3  # optimiser state has other names than in 2: those start from the beginning
SUFFIX = ".checkpoint"
PATIENCE = 60.0  # seconds before the first checkpoint of a run whose user named no folder
PAUSE = 15.0  # seconds between two checkpoints of such a run
SHARE = 20  # saving may take at most 1 / SHARE of the time


@dataclass(frozen=True)
class CheckpointFolder(os.PathLike[str]):
    """The folder of a run's checkpoints, and how often they are saved.

    Attributes:
        folder: made when the first checkpoint is saved.
        asked: whether the user named the folder. If not, it is removed at the end, and a run that cannot write into it
            continues without checkpoints.
        patience: seconds before the first checkpoint.
        pause: seconds between two.
        start: start of the run, by ``time.monotonic``.
        files: checkpoints that the run has saved or resumed from.
    """

    folder: Path
    asked: bool = False
    patience: float = PATIENCE
    pause: float = PAUSE
    start: float = field(default_factory=lambda: time.monotonic())
    files: set[Path] = field(default_factory=set)

    def __fspath__(self) -> str:
        return os.fspath(self.folder)

    def holds(self) -> bool:
        """Whether there is a checkpoint to resume from."""
        return any(path.exists() for path in self.files)

    def clear_all(self) -> None:
        """Remove the checkpoints of all runs, for a folder that belongs to one result."""
        self.files.update(self.folder.glob(f"*{SUFFIX}"))
        self.clear()

    def clear(self) -> None:
        """Remove the run's checkpoints once its result is written, and the folder if the user did not name it."""
        for path in self.files:
            path.unlink(missing_ok=True)
        remove_leftovers(self.folder, age=PATIENCE)
        if not self.asked:
            with contextlib.suppress(OSError):  # it was never made, or holds another run's
                self.folder.rmdir()


def checkpoint_folder(folder: str | os.PathLike[str] | None, output: str | os.PathLike[str]) -> CheckpointFolder:
    """The folder that the user named, used from the start; else ``OUTPUT.checkpoint``, for runs of over a minute."""
    if folder is None:
        return CheckpointFolder(Path(f"{os.fspath(output)}{SUFFIX}"))
    return CheckpointFolder(Path(folder), asked=True, patience=0.0, pause=0.0)


def run_key(**parts: Any) -> str:
    """A digest of everything a run depends on, given as plain values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class CheckpointDescription:
    """The description of a checkpoint; every method declares its own values."""

    format: str
    schema: int
    key: str
    values: dict[str, Any]
    checksum: str


@dataclass
class Checkpoint:
    """The checkpoint of one run. With ``path`` None nothing is saved, and nothing is loaded.

    Attributes:
        path: the file.
        key: of the run.
        place: the folder, where it decides when to save; None to save at every :meth:`save`.
        saved: time of the last save, by ``time.monotonic``.
        cost: seconds that it took.
    """

    path: Path | None
    key: str
    place: CheckpointFolder | None = None
    saved: float = -float("inf")
    cost: float = 0.0

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Tensors and values of the last :meth:`save`; None if there is none, it is damaged, or of another run."""
        if self.path is None or not self.path.exists():
            return None
        try:
            tensors, header = read_container(self.path, (FORMAT,), SCHEMA, SCHEMA)
        except ArtifactError:
            return None
        try:
            values = read(CheckpointDescription, header, schema=header["schema"]).values
        except SchemaError:
            return None
        if (header["schema"], header["key"]) != (SCHEMA, self.key):
            return None
        if self.place is not None:
            self.place.files.add(self.path)
        return tensors, values

    @contextlib.contextmanager
    def resuming(self) -> Iterator[None]:
        """Go on from what :meth:`load` gave; a file that is sound and does not fit the run is named.

        Raises:
            ArtifactError: the work inside failed over what the file holds.
        """
        try:
            yield
        except (LookupError, ValueError, TypeError, AttributeError, RuntimeError, OverflowError) as error:
            raise ArtifactError(
                f"the checkpoint {self.path} does not fit this run ({str(error)[:200]}): remove it, and do the same "
                "again"
            ) from error

    def others(self) -> bool:
        """Whether the folder has checkpoints of other runs, and none of this one."""
        return self.path is not None and not self.path.exists() and any(self.path.parent.glob(f"*{SUFFIX}"))

    def due(self) -> bool:
        """Whether a checkpoint is due, so that saving takes a small share of the time."""
        now, place = time.monotonic(), self.place
        waited = place is None or now - place.start >= place.patience
        pause = 0.0 if place is None else place.pause
        return self.path is not None and waited and now - self.saved >= max(pause, SHARE * self.cost)

    def save(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Replace the file; a reader sees the old state or the new one.

        Raises:
            WriteError: the disk is full or gone, and the user asked for checkpoints; else the run continues without.
        """
        if self.path is None or (self.place is not None and not self.due()):
            return
        start = time.monotonic()
        header = {"format": FORMAT, "schema": SCHEMA, "key": self.key, "values": dict(values)}
        if self.place is not None:
            self.place.files.add(self.path)  # before it is there, lest an interrupt come between
        try:
            write_atomically(self.path, container_bytes(tensors, header))
        except (WriteError, SettingError):
            if self.place is None or self.place.asked:
                raise
        self.saved = time.monotonic()
        self.cost = self.saved - start

    def discard(self) -> None:
        """Remove the file once the run is finished; in a :class:`CheckpointFolder` it stays until ``clear``."""
        if self.path is not None and self.place is None:
            self.path.unlink(missing_ok=True)


def checkpoint_in(folder: str | os.PathLike[str] | None, **parts: Any) -> Checkpoint:
    """The checkpoint of a run in a folder, named by the run's key; without a folder nothing is saved.

    The key includes the versions of plgc and torch: others might compute slightly different numbers.
    """
    key = run_key(**parts, plgc=__version__, torch=torch.__version__)
    place = folder if isinstance(folder, CheckpointFolder) else None
    return Checkpoint(None if folder is None else Path(folder) / f"{key[:24]}{SUFFIX}", key, place)
