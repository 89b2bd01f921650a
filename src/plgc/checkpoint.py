"""Where a long run stands, on disk: tensors and plain values in one safetensors file, written whole or not at all.

A checkpoint belongs to one run: it carries a key made of everything the run depends on, and one with another key is
ignored, so that a changed setting or graph starts afresh instead of going on from something else.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from plgc.artifact import read_safetensors
from plgc.errors import ArtifactError
from plgc.files import write_atomically

FORMAT, SCHEMA = "plgc-checkpoint", 1


def run_key(**parts: Any) -> str:
    """A fingerprint of everything a run depends on, as plain values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Checkpoint:
    """One run's file. With ``path`` None nothing is kept, and nothing is found."""

    path: Path | None
    key: str

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Tensors and values of the last :meth:`save`; None where there is none, or one of another run."""
        if self.path is None or not self.path.exists():
            return None
        try:
            tensors, header = read_safetensors(self.path, (FORMAT,), SCHEMA)
        except ArtifactError:
            return None
        return (tensors, dict(header["values"])) if header.get("key") == self.key else None

    def save(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Replace what was kept; a reader sees the old state or the new one."""
        if self.path is None:
            return
        header = {"format": FORMAT, "schema": SCHEMA, "key": self.key, "values": dict(values)}
        content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        write_atomically(self.path, save(content, {"plgc": json.dumps(header, sort_keys=True)}))

    def discard(self) -> None:
        """Remove the file, once the run is done."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def checkpoint_in(folder: str | os.PathLike[str] | None, **parts: Any) -> Checkpoint:
    """The checkpoint of a run in a folder, named by the run's key; None keeps nothing."""
    key = run_key(**parts)
    return Checkpoint(None if folder is None else Path(folder) / f"{key[:24]}.checkpoint", key)
