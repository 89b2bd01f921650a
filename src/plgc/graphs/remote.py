"""Files from the web: over https, within limits of size and time, and with the content that is expected.

Where a file's content is known, it is compared with what git calls it. Of other files the checksum is recorded in the
cache at the first download, in ``downloads.json``, and compared with every later one.
"""

from __future__ import annotations

import hashlib
import json
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from plgc.runtime.errors import GraphError
from plgc.runtime.files import cache_folder, write_atomically

TIMEOUT = 30.0  # seconds without an answer
MAX_SECONDS = 3600.0  # of one file
MAX_BYTES = 4 << 30
CHUNK = 1 << 20
RECORD = "downloads.json"


@dataclass(frozen=True)
class RemoteFile:
    """A file on the web.

    Attributes:
        url: its address.
        name: under which it is kept.
        git: the id that git gives its content: SHA-1 of its length and its bytes. None where it is not known.
    """

    url: str
    name: str
    git: str | None = None


def download(file: RemoteFile, folder: Path) -> Path:
    """Fetch a file into a folder.

    Raises:
        GraphError: it cannot be reached by https, is too large, takes too long, or is not what it should be.
    """
    path = write_atomically(folder / file.name, _content(file.url))
    if file.git is None:
        _compare_with_record(file.url, path)
    elif (found := git_id(path)) != file.git:
        raise GraphError(f"{file.url} gives other content than expected: its git id is {found}, not {file.git}")
    return path


def git_id(path: Path) -> str:
    """What git calls a file's content."""
    return _digest(path, hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False))


def open_url(url: str) -> Any:
    """The answer of a server, as a file."""
    return urllib.request.build_opener(_HttpsAlone).open(url, timeout=TIMEOUT)


class _HttpsAlone(urllib.request.HTTPRedirectHandler):
    """Follows no redirection to an address without encryption."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str) -> Any:
        _check_https(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_https(url: str) -> None:
    if not url.startswith("https://"):
        raise GraphError(f"{url} is not an https address: nothing is fetched from it")


def _content(url: str) -> Iterator[bytes]:
    """The bytes at an address, block by block."""
    _check_https(url)
    start, total = time.monotonic(), 0
    try:
        with open_url(url) as answer:
            while block := answer.read(CHUNK):
                total += len(block)
                if total > MAX_BYTES:
                    raise GraphError(f"{url} gives more than {MAX_BYTES:,} bytes")
                if time.monotonic() - start > MAX_SECONDS:
                    raise GraphError(f"{url} takes longer than {MAX_SECONDS:,.0f} seconds ({total:,} bytes came)")
                yield block
    except (OSError, HTTPException) as error:
        raise GraphError(f"{url} cannot be fetched: {error or type(error).__name__}") from error


def _digest(path: Path, digest: Any) -> str:
    with open(path, "rb") as file:
        while block := file.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()


def _compare_with_record(url: str, path: Path) -> None:
    """Compare a file with what came from the same address before; the first time, record its checksum."""
    record, found = cache_folder() / RECORD, _digest(path, hashlib.sha256())
    try:
        known = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    known = known if isinstance(known, dict) else {}
    if known.setdefault(url, found) != found:
        raise GraphError(
            f"{url} gives other content than at the first download (SHA-256 {found}, it was {known[url]}); if that is "
            f"right, remove its line from {record}"
        )
    write_atomically(record, json.dumps(known, indent=1, sort_keys=True).encode())
