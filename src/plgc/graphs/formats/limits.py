"""Open files from unknown sources with limits: on the size that gzip unpacks to, on the length of lines, on tables.

Whatever is wrong with a file is raised as a :class:`GraphError` that names it.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from plgc.runtime.errors import GraphError, GraphNotFoundError

MAX_LINE = 16 * 2**20  # characters
MAX_RATIO = 200  # how many times its size gzip or zip may unpack to …
FREE_BYTES = 64 * 2**20  # … beyond this many bytes
MAX_TABLE_RATIO = 1000  # how many times its size a file of columns may take in memory …
FREE_TABLE_BYTES = 2**30  # … beyond this many bytes
MAX_COLUMNS = 20_000
CHUNK = 2**18
GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
UTF16 = (b"\xff\xfe", b"\xfe\xff")


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading; gzip is recognised by its first bytes, not by its name, and unpacked.

    Raises:
        GraphNotFoundError: there is no such file.
        GraphError: it is a folder, empty, a zip archive, unreadable, damaged, or unpacks to more than the limit.
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
                file.seek(-4, os.SEEK_END)  # the unpacked size as the file declares it: a first, cheap check
                claimed = int.from_bytes(file.read(4), "little")
                if claimed > _unpacked_limit(path):
                    raise GraphError(
                        f"{path} is cut short, damaged or a decompression bomb: it says it unpacks to {claimed:,} "
                        f"bytes, over {MAX_RATIO} times its size"
                    )
                file.seek(0)
                with _LimitedGzip(file, path) as unpacked:
                    yield io.BufferedReader(unpacked, CHUNK)  # pyright: ignore[reportArgumentType]
            else:
                yield file
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, GraphNotFoundError):
            raise
        raise GraphError(f"{path} cannot be read: {error}") from error


@contextmanager
def open_lines(path: Path) -> Iterator[Iterator[str]]:
    """Open a text file in UTF-8 as its lines, with their ends. Raises as :func:`open_bytes` does, also while reading.

    Raises:
        GraphError: it is not UTF-8, or a line is too long.
    """
    with open_bytes(path) as file:
        if file.read(2) in UTF16:
            raise GraphError(f"{path} is text in UTF-16: save it as UTF-8")
        file.seek(0)
        try:
            with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
                yield _limited_lines(text, path)
        except UnicodeDecodeError as error:
            before = error.object[max(0, error.start - 20) : error.start].decode("utf-8", "replace")
            raise GraphError(
                f"{path} is not text in UTF-8 (byte {error.object[error.start]:#04x} after {before!r}): save it as "
                "UTF-8, for instance with iconv -f latin1 -t utf-8"
            ) from error


def check_unpacked(path: Path, size: int) -> None:
    """Raise where an archive says that it unpacks to more bytes than the limit."""
    if size > _unpacked_limit(path):
        raise GraphError(
            f"{path} unpacks to {size:,} bytes, over {MAX_RATIO} times its size: this looks like a decompression bomb"
        )


def is_oversized(path: Path, rows: int, columns: int) -> bool:
    """Whether a table takes far more memory than a file of its size can reasonably hold."""
    return 8 * rows * columns > max(FREE_TABLE_BYTES, MAX_TABLE_RATIO * os.path.getsize(path))


def _unpacked_limit(path: Path) -> int:
    return max(FREE_BYTES, MAX_RATIO * os.path.getsize(path))


def _limited_lines(file: io.TextIOWrapper, path: Path) -> Iterator[str]:
    while line := file.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            raise GraphError(f"{path}: a line is longer than {MAX_LINE:,} characters: this is no table")
        yield line


class _LimitedGzip(gzip.GzipFile):
    """A gzip file that raises where it unpacks to more than the limit."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        super().__init__(fileobj=file)
        self.path, self.limit = path, _unpacked_limit(path)

    def read(self, size: int | None = -1) -> bytes:
        content = super().read(size)
        if self.tell() > self.limit:
            raise GraphError(
                f"{self.path} unpacks to more than {self.limit:,} bytes, over {MAX_RATIO} times its size: this looks "
                "like a decompression bomb; unpack it yourself if you trust it"
            )
        return content
