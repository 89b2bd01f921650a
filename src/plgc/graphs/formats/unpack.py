"""Large npz archives are unpacked once, into the cache, so that their arrays can be mapped into memory.

An unpacked folder belongs to one path, size and time of change: a file that changes is unpacked anew, and the old
folder is removed. A folder is complete or not there at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
import uuid
import zipfile
import zlib
from pathlib import Path

from plgc.graphs.download import cache_folder
from plgc.graphs.formats.arrays import KNOWN
from plgc.graphs.formats.limits import check_unpacked
from plgc.graphs.formats.stored import flush_folder
from plgc.runtime.files import ENDING, PART, STALE

FOLDER = "unpacked"


def unpack_once(path: Path) -> tuple[Path | None, str | None]:
    """Unpack an archive, where that has not been done before; return its folder, and a sentence for the user.

    The folder is None where the archive cannot be unpacked: it has to be read as it is.

    Raises:
        GraphError: it would unpack to more than its size can reasonably hold.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            total = sum(item.file_size for item in archive.infolist())
            check_unpacked(path, total)
            target = _target(path)
            if target.is_dir():
                return target, None
            _unpack(archive, target, total)
    except OSError as error:
        return None, f"{path.name} cannot be unpacked into the cache ({error.strerror or error}): it is read whole"
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError):
        return None, None  # reading it says what is wrong
    return target, f"{path.name} is unpacked, once, into {target} ({total / 2**30:.2f} GiB)"


def _target(path: Path) -> Path:
    stat = path.stat()
    place = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]
    state = hashlib.sha256(f"{stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:12]
    return cache_folder() / FOLDER / f"{path.stem}-{place}-{state}"


def _unpack(archive: zipfile.ZipFile, target: Path, total: int) -> None:
    """Unpack the arrays of our format into a folder beside the target, then rename it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if (free := shutil.disk_usage(target.parent).free) < total:
        raise OSError(f"it takes {total:,} bytes, {free:,} are free in {target.parent}")
    present = set(archive.namelist())
    work = target.parent / f"{PART}{uuid.uuid4().hex}{ENDING}"
    try:
        work.mkdir()
        for name in (f"{key}.npy" for key in (*KNOWN, "meta")):
            if name in present:
                archive.extract(name, work)
        flush_folder(work)
        try:
            work.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was quicker
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    _remove_old(target)


def _remove_old(target: Path) -> None:
    """Remove what the same file was unpacked into before it changed, and what killed processes have left."""
    place = target.name.rpartition("-")[0]
    for other in target.parent.iterdir():
        with contextlib.suppress(OSError):
            stale = other.name.startswith(PART) and time.time() - other.stat().st_mtime >= STALE
            if stale or (other.name.rpartition("-")[0] == place and other != target):
                shutil.rmtree(other, ignore_errors=True)
