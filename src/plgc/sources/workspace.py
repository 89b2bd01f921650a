"""The private folder in which graphs are passed to tasks and results come back, inside the folder that is written."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from plgc.runtime.files import folder_lock

WORK = ".plgc-work-"
DELAY = 30.0  # seconds until a file that one machine has written to a shared disk is visible on another


@contextlib.contextmanager
def workspace(folder: Path) -> Iterator[Path]:
    """Make the private folder and remove it at the end, with those that killed runs have left.

    Raises:
        SettingError: another run is writing into ``folder``.
    """
    with folder_lock(folder) as locked:
        for left in folder.glob(f"{WORK}*") if locked else ():
            shutil.rmtree(left, ignore_errors=True)
        private = Path(tempfile.mkdtemp(prefix=WORK, dir=folder))
        try:
            yield private
        finally:
            shutil.rmtree(private, ignore_errors=True)


def wait_for_file(path: Path, seconds: float = DELAY) -> None:
    """Wait until a file that another machine has written can be seen here, or the time is over."""
    end = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.1)
