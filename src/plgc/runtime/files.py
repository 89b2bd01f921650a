"""Files are written whole or not at all: to a temporary neighbour, flushed to disk, then renamed.

A reader sees the old file or the new one. Where two processes write the same file, the one of the last to finish stays.
A process that is killed while it writes leaves its temporary file behind; a later write in the same folder removes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from plgc.runtime.errors import PLGCError, SettingError

PART, ENDING = ".plgc-", ".part"  # how the names of temporary files begin and end
STALE = 24 * 3600.0  # seconds after which a temporary file is left over from a process that has ended
CACHE_VARIABLE = "PLGC_CACHE"


class WriteError(PLGCError, OSError):
    """A file that could not be written: the disk is full, gone or write-protected. What was there before still is."""

    kind = "cannot-write"


def write_atomically(path: str | os.PathLike[str], content: bytes | Iterable[bytes]) -> Path:
    """Write ``content`` to ``path`` so that a reader sees the old file or the new one, never a part.

    The content may be given in parts, for instance as they come; where making them fails, nothing is written either.
    A file that was there keeps its permissions; a new one gets those that the user's mask leaves.

    Raises:
        SettingError: the place could never be written.
        WriteError: writing failed; an old file stays as it was, and nothing else is left behind.
    """
    path = Path(path)
    check_writable(path)
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else None  # as the user has set it
    temporary = path.parent / f"{PART}{uuid.uuid4().hex}{ENDING}"
    try:
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600)
            with os.fdopen(handle, "wb") as file:
                if mode is not None:
                    os.chmod(temporary, mode)
                file.writelines([content] if isinstance(content, bytes) else content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        kept = "the file that was there is unchanged" if os.path.exists(path) else "nothing is left of it"
        size = f" ({len(content):,} bytes)" if isinstance(content, bytes) else ""
        raise WriteError(
            f"cannot write {path}{size}: {error.strerror or error}; {kept}. Make room or choose "
            "another place, and do the same again"
        ) from error
    _settle(path.parent)
    return path


def check_writable(path: str | os.PathLike[str], size: int = 0) -> None:
    """Fail early, before any work is done, when ``path`` could not be written.

    Args:
        path: the file that is to be written.
        size: bytes that it will have at least; they must be free on its disk.
    """
    path = Path(path)
    if os.path.isdir(path):  # which, unlike path.is_dir, takes every name
        raise SettingError(f"{path} is a folder: name a file in it, such as {path / 'condensed.safetensors'}")
    if os.path.exists(path) and not os.path.isfile(path):
        raise SettingError(f"{path} is not a plain file: choose another place to write to")
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(f"cannot create the folder {folder} for {path.name}: {error.strerror}") from error
    if not os.access(folder, os.W_OK):
        raise SettingError(f"cannot write into {folder}: choose another place for {path.name}")
    if size and (free := shutil.disk_usage(folder).free) < size:
        raise SettingError(
            f"{path.name} needs at least {size:,} bytes, the disk of {folder} has {free:,} left: make room or choose "
            "another place"
        )


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether two paths lead to the same file or folder, by links too; for what is not there yet, to the same place."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)


def remove_leftovers(folder: Path, age: float = STALE) -> None:
    """Remove temporary files that killed processes have left in a folder, ``age`` seconds after the last change."""
    for left in folder.glob(f"{PART}*{ENDING}"):
        with contextlib.suppress(OSError):  # another process was quicker
            if time.time() - left.stat().st_mtime >= age:
                left.unlink()


def _settle(folder: Path) -> None:
    """Flush the new name to disk, where the system lets folders be flushed, and clean up after killed processes."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    remove_leftovers(folder)


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[bool]:
    """Lock a folder against other runs; False where the system or the disk has no locks.

    Raises:
        SettingError: another run is writing into it.
    """
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


def private_folder(folder: Path) -> Path:
    """Make a folder that no other user may look into or change, or make one that is there so.

    Raises:
        OSError: it cannot be made, or it is another user's.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if os.stat(folder).st_mode & 0o077:
        os.chmod(folder, 0o700)  # which only its owner can
    return folder


def cache_folder() -> Path:
    """``$PLGC_CACHE``, else ``plgc`` in the user's cache folder; it need not exist yet."""
    if os.environ.get(CACHE_VARIABLE):
        return Path(os.path.expanduser(os.environ[CACHE_VARIABLE]))
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "plgc"
