"""The private folder in which graphs are passed to tasks and results come back, inside the folder that is written."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from plgc.runtime.errors import SettingError

WORK = ".plgc-work-"
DELAY = 30.0  # seconds until a file that one machine has written to a shared disk is visible on another


@contextlib.contextmanager
def workspace(folder: Path) -> Iterator[Path]:
    """Make the private folder and remove it at the end, with those that killed runs have left.

    Raises:
        SettingError: another run is writing into ``folder``.
    """
    with _lock(folder) as locked:
        for left in folder.glob(f"{WORK}*") if locked else ():
            shutil.rmtree(left, ignore_errors=True)
        private = Path(tempfile.mkdtemp(prefix=WORK, dir=folder))
        try:
            yield private
        finally:
            shutil.rmtree(private, ignore_errors=True)


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[bool]:
    """Lock the folder against other runs; False where the system or the disk has no locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield False
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked = True
        except BlockingIOError as error:
            raise SettingError(
                f"another run is writing into {folder}: wait for it, or choose another folder"
            ) from error
        except OSError:
            locked = False
        yield locked
    finally:
        os.close(handle)


def wait_for_file(path: Path, seconds: float = DELAY) -> None:
    """Wait until a file that another machine has written can be seen here, or the time is over."""
    end = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.1)
