"""The private folder in which graphs are handed to tasks, and results taken over: inside the one that is written."""

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
DELAY = 30.0  # seconds until what one machine has written to a shared disk is seen by another


@contextlib.contextmanager
def workspace(folder: Path) -> Iterator[Path]:
    """A private folder inside the one to be written, gone at the end; one that a killed run has left goes too."""
    with _alone(folder) as alone:
        for left in folder.glob(f"{WORK}*") if alone else ():
            shutil.rmtree(left, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=WORK, dir=folder))
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Keep other runs out of the folder; False where the system or the disk has no locks."""
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
