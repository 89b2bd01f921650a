"""Where a long run stands, on disk: tensors and plain values in one safetensors file, written whole or not at all.

A checkpoint belongs to one run: it carries a key made of everything the run depends on, and one with another key is
ignored, so that a changed setting or graph starts afresh instead of going on from something else.

A run is given a folder: a plain path, or a :class:`CheckpointFolder`, which knows when it is time to save, and keeps
the state until the result is safe.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plgc._version import __version__
from plgc.runtime.container import read_sealed, seal
from plgc.runtime.errors import ArtifactError, SettingError
from plgc.runtime.files import WriteError, remove_leftovers, write_atomically

FORMAT, SCHEMA = "plgc-checkpoint", 2
SUFFIX = ".checkpoint"
PATIENCE = 60.0  # seconds that a run lasts before anything is kept that nobody asked for …
PAUSE = 15.0  # … and between two times
SHARE = 20  # saving may take one part in so many of the time


@dataclass(frozen=True)
class CheckpointFolder(os.PathLike[str]):
    """Where the checkpoints of a run go, and when.

    Attributes:
        folder: made when the first one is saved.
        asked: whether somebody named the folder. If not, it is removed in the end, and where it cannot be written the
            run goes on without.
        patience: seconds before the first one is saved.
        pause: seconds between two.
        start: when the run began, by ``time.monotonic``.
        files: those that the run has saved, or gone on from.
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
        """Whether the run could go on from here."""
        return any(path.exists() for path in self.files)

    def clear_all(self) -> None:
        """Remove every run's files, where the folder is known to serve one result alone."""
        self.files.update(self.folder.glob(f"*{SUFFIX}"))
        self.clear()

    def clear(self) -> None:
        """Remove the run's files, once its result is safe, and a folder that nobody asked for."""
        for path in self.files:
            path.unlink(missing_ok=True)
        remove_leftovers(self.folder, age=PATIENCE)
        if not self.asked:
            with contextlib.suppress(OSError):  # it was never made, or holds another run's
                self.folder.rmdir()


def checkpoint_folder(folder: str | os.PathLike[str] | None, output: str | os.PathLike[str]) -> CheckpointFolder:
    """The folder that was asked for, used from the start; else ``OUTPUT.checkpoint``, for runs of over a minute."""
    if folder is None:
        return CheckpointFolder(Path(f"{os.fspath(output)}{SUFFIX}"))
    return CheckpointFolder(Path(folder), asked=True, patience=0.0, pause=0.0)


def run_key(**parts: Any) -> str:
    """A fingerprint of everything a run depends on, as plain values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass
class Checkpoint:
    """One run's file. With ``path`` None nothing is kept, and nothing is found.

    Attributes:
        path: the file.
        key: of the run.
        place: its folder, where that decides when to save; None for whenever :meth:`save` is called.
        saved: when that was last, by ``time.monotonic``.
        cost: seconds that it took.
    """

    path: Path | None
    key: str
    place: CheckpointFolder | None = None
    saved: float = -float("inf")
    cost: float = 0.0

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Tensors and values of the last :meth:`save`; None where there is none, a damaged one, or another run's."""
        if self.path is None or not self.path.exists():
            return None
        try:
            tensors, header = read_sealed(self.path, (FORMAT,), SCHEMA, SCHEMA)
        except ArtifactError:
            return None
        if (header["schema"], header.get("key")) != (SCHEMA, self.key) or not isinstance(header.get("values"), dict):
            return None
        if self.place is not None:
            self.place.files.add(self.path)
        # Copies: memory of torch's own is aligned as it would be in a run that was never stopped.
        return {name: tensor.clone() for name, tensor in tensors.items()}, header["values"]

    def others(self) -> bool:
        """Whether the folder has checkpoints of other runs, and none of this one."""
        return self.path is not None and not self.path.exists() and any(self.path.parent.glob(f"*{SUFFIX}"))

    def due(self) -> bool:
        """Whether it is time to save: the run has lasted, and not much of its time goes into this."""
        now, place = time.monotonic(), self.place
        waited = place is None or now - place.start >= place.patience
        pause = 0.0 if place is None else place.pause
        return self.path is not None and waited and now - self.saved >= max(pause, SHARE * self.cost)

    def save(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Replace what was kept; a reader sees the old state or the new one.

        Raises:
            WriteError: the disk is full or gone. Where nobody asked for a checkpoint, the run goes on without instead.
        """
        if self.path is None or (self.place is not None and not self.due()):
            return
        start = time.monotonic()
        header = {"format": FORMAT, "schema": SCHEMA, "key": self.key, "values": dict(values)}
        if self.place is not None:
            self.place.files.add(self.path)  # before it is there, lest an interrupt come between
        try:
            write_atomically(self.path, seal(tensors, header))
        except (WriteError, SettingError):
            if self.place is None or self.place.asked:
                raise
        self.saved = time.monotonic()
        self.cost = self.saved - start

    def discard(self) -> None:
        """Remove the file once the run is done; a :class:`CheckpointFolder` does so when its owner says."""
        if self.path is not None and self.place is None:
            self.path.unlink(missing_ok=True)


def checkpoint_in(folder: str | os.PathLike[str] | None, **parts: Any) -> Checkpoint:
    """The checkpoint of a run in a folder, named by the run's key; None keeps nothing.

    The key has the versions of plgc and torch in it, too: others might go on a little differently.
    """
    key = run_key(**parts, plgc=__version__, torch=torch.__version__)
    place = folder if isinstance(folder, CheckpointFolder) else None
    return Checkpoint(None if folder is None else Path(folder) / f"{key[:24]}{SUFFIX}", key, place)
