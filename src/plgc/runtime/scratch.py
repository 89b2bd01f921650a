"""Arrays in the files of a private folder: for what a run needs and memory does not hold.

Such an array is a tensor like any other, which can be read and written; its pages belong to the system's cache and not
to the process. The folder is removed at the end, also where the run fails. What killed runs have left is removed by the
next run in the same place; that a folder is in use is told by its lock.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from plgc.runtime import mapped
from plgc.runtime.errors import SettingError
from plgc.runtime.files import WriteError, folder_lock

SCRATCH = ".plgc-scratch-"


class Scratch:
    """The private folder of a run; :func:`scratch` makes one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def empty(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """An array in a file of its own, of no particular content.

        Raises:
            WriteError: the disk is full.
        """
        path = self.folder / f"{uuid.uuid4().hex}.bin"
        size = math.prod(shape) * dtype.itemsize
        if size == 0:
            return torch.empty(*shape, dtype=dtype)
        try:
            with open(path, "wb") as file:
                if hasattr(os, "posix_fallocate"):  # a page that cannot be written later would end the process
                    os.posix_fallocate(file.fileno(), 0, size)
                else:
                    file.truncate(size)
        except OSError as error:
            with contextlib.suppress(OSError):
                path.unlink()
            raise WriteError(
                f"cannot write {size:,} bytes into {self.folder.parent}: {error.strerror or error}; make room, or name "
                "another folder, and do the same again"
            ) from error
        tensor = mapped.map_writable(path, dtype, shape)
        with contextlib.suppress(OSError):  # Windows keeps it until the folder is removed
            path.unlink()  # the space is given back with the tensor, also where the run is killed
        return tensor


@contextlib.contextmanager
def scratch(folder: Path, needed: int = 0, what: str = "this") -> Iterator[Scratch]:
    """Make a private folder in ``folder`` and remove it at the end, with those that killed runs have left.

    Args:
        folder: where; it is made if it is not there.
        needed: bytes that will be written at most at any time.
        what: is done, for the error.

    Raises:
        SettingError: so many bytes are not free there, or it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_left(folder)
        private = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=folder))
    except OSError as error:
        raise SettingError(f"cannot write into {folder}: {error.strerror}; choose another place") from error
    try:
        with folder_lock(private):
            check_disk(folder, needed, what)
            yield Scratch(private)
    finally:
        shutil.rmtree(private, ignore_errors=True)


def remove_left(folder: Path) -> None:
    """Remove the folders of killed runs: those that no process has locked."""
    for left in folder.glob(f"{SCRATCH}*"):
        with contextlib.suppress(SettingError, OSError), folder_lock(left) as locked:
            if locked:
                shutil.rmtree(left, ignore_errors=True)


def check_disk(folder: Path, needed: int, what: str) -> None:
    """Raise :class:`SettingError` where the disk of a folder has fewer bytes free than are going to be written."""
    if (free := shutil.disk_usage(folder).free) < needed:
        raise SettingError(
            f"{what} takes up to {needed:,} bytes of disk, {free:,} are free in {folder}: make room, or choose another "
            "place"
        )


def in_memory(folder: Path) -> bool:
    """Whether files of a folder lie in memory (tmpfs), as far as the system says."""
    try:
        lines = Path("/proc/self/mounts").read_text(errors="replace").splitlines()
    except OSError:
        return False
    place = folder.resolve()
    kinds = {Path(words[1]): words[2] for words in (line.split() for line in lines) if len(words) > 2}
    nearest = next((parent for parent in (place, *place.parents) if parent in kinds), None)
    return nearest is not None and kinds[nearest] in ("tmpfs", "ramfs")
