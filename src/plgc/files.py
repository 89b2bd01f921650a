"""Files are written whole or not at all: to a temporary neighbour, flushed to disk, then renamed."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from plgc.errors import SettingError


def write_atomically(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write ``content`` to ``path`` so that a reader sees the old file or the new one, never a part."""
    path = Path(path)
    check_writable(path)
    temporary = path.parent / f".plgc-{uuid.uuid4().hex}.part"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


def check_writable(path: str | os.PathLike[str]) -> None:
    """Fail early, before any work is done, when ``path`` could not be written."""
    path = Path(path)
    if path.is_dir():
        raise SettingError(f"{path} is a folder: name a file in it, such as {path / 'condensed.safetensors'}")
    if path.exists() and not path.is_file():
        raise SettingError(f"{path} is not a plain file: choose another place to write to")
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(f"cannot create the folder {folder} for {path.name}: {error.strerror}") from error
    if not os.access(folder, os.W_OK):
        raise SettingError(f"cannot write into {folder}: choose another place for {path.name}")
