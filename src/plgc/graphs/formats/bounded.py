"""Files of strangers, opened with bounds: gzip that does not expand without end, text that is UTF-8, lines that end.

Everything that is wrong with a file comes out as a :class:`GraphError` that names it.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from plgc.runtime.errors import GraphError, GraphNotFoundError

MAX_LINE = 16 * 2**20  # bytes
MAX_RATIO = 200  # how far gzip may expand …
FREE_BYTES = 64 * 2**20  # … beyond this size
CHUNK = 2**18
GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
UTF16 = (b"\xff\xfe", b"\xfe\xff")


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, unpacking gzip by its first bytes whatever its name is.

    Raises:
        GraphNotFoundError: there is no such file.
        GraphError: it is a folder, empty, a zip archive, unreadable, damaged, or expands beyond reason.
    """
    if not os.path.exists(path):
        raise GraphNotFoundError(f"no such file: {path}")
    if not os.path.isfile(path):
        raise GraphError(f"{path} is a folder or a device, expected a plain file")
    try:
        with open(path, "rb") as file:
            start = file.read(4)
            file.seek(0)
            if not start:
                raise GraphError(f"{path} is empty")
            if start == ZIP:
                raise GraphError(f"{path} is a zip archive: unpack it first (a single file in gzip is fine)")
            if start.startswith(GZIP):
                file.seek(-4, os.SEEK_END)  # what it says of its own size spares the work of finding out
                claimed = int.from_bytes(file.read(4), "little")
                if claimed > _limit(path):
                    raise GraphError(
                        f"{path} is cut short, damaged or a decompression bomb: it says it unpacks to {claimed:,} "
                        f"bytes, over {MAX_RATIO} times its size"
                    )
                file.seek(0)
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield io.BufferedReader(_Bounded(unpacked, path), CHUNK)
            else:
                yield file
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, GraphNotFoundError):
            raise
        raise GraphError(f"{path} cannot be read: {error}") from error


@contextmanager
def open_lines(path: Path) -> Iterator[Iterator[str]]:
    """Open a text file in UTF-8 and give its lines, ends kept. Raises as :func:`open_bytes` does, also while reading.

    Raises:
        GraphError: it is not UTF-8, or a line does not end.
    """
    with open_bytes(path) as file:
        if file.read(2) in UTF16:
            raise GraphError(f"{path} is text in UTF-16: save it as UTF-8")
        file.seek(0)
        lines = io.BufferedReader(_Lines(file, path), CHUNK)
        try:
            yield io.TextIOWrapper(lines, encoding="utf-8-sig", newline="")
        except UnicodeDecodeError as error:
            before = error.object[max(0, error.start - 20) : error.start].decode("utf-8", "replace")
            raise GraphError(
                f"{path} is not text in UTF-8 (byte {error.object[error.start]:#04x} after {before!r}): save it as "
                "UTF-8, for instance with iconv -f latin1 -t utf-8"
            ) from error


def check_unpacked(path: Path, size: int) -> None:
    """Raise where an archive is said to unpack to more bytes than its size on disk can reasonably hold."""
    if size > _limit(path):
        raise GraphError(
            f"{path} unpacks to {size:,} bytes, over {MAX_RATIO} times its size: this looks like a decompression bomb"
        )


def _limit(path: Path) -> int:
    return max(FREE_BYTES, MAX_RATIO * os.path.getsize(path))


class _Lines(io.RawIOBase):
    """A file that is read on as long as its lines end."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.file, self.path, self.open = file, path, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        chunk = self.file.read(len(buffer))
        last = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
        self.open = self.open + len(chunk) if last < 0 else len(chunk) - last
        if self.open > MAX_LINE:
            raise GraphError(f"{self.path}: a line is longer than {MAX_LINE:,} bytes: this is no table")
        buffer[: len(chunk)] = chunk
        return len(chunk)


class _Bounded(io.RawIOBase):
    """What a gzip file unpacks to, until it is more than its size on disk can reasonably hold."""

    def __init__(self, file: gzip.GzipFile, path: Path) -> None:
        self.file, self.path, self.limit = file, path, _limit(path)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()

    def readinto(self, buffer: memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        count = self.file.readinto(buffer)
        if self.file.tell() > self.limit:
            raise GraphError(
                f"{self.path} unpacks to more than {self.limit:,} bytes, over {MAX_RATIO} times its size: this looks "
                "like a decompression bomb; unpack it yourself if you trust it"
            )
        return count
