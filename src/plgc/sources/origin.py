"""What a source was made from, so that a file counts as finished only where the same would be made again.

A folder of sources is sent to others, and a digest of the graph in it would let them test guesses about it. So it is
kept outside, in the user's cache, and under a key that never leaves the cache: a digest alone confirms no guess. Where
either is lost, nothing is known of the files, and sources whose graphs are at hand are made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plgc.graphs.attributes import Seen
from plgc.graphs.bare import BareGraph
from plgc.runtime.errors import PLGCError
from plgc.runtime.files import cache_folder, write_atomically
from plgc.sources.options import SourceOptions
from plgc.sparse.inputs import fingerprint

KEY_BYTES = 32


@dataclass(frozen=True)
class StoredPart:
    """A part of a graph on disk, which is cut to ``path`` where it is needed.

    Attributes:
        path: the folder.
        nodes: of its own, without the halo.
        digest: of the whole graph and of how it is cut.
        seen: what the whole graph is of a larger one.
    """

    path: Path
    nodes: int
    digest: str
    seen: Seen


def origin(graph: BareGraph, nodes: int, seed: int, options: SourceOptions) -> str:
    """A digest of the graph's content and of everything else that a condensed file depends on."""
    core = graph.core_mask
    content = {
        "graph": fingerprint(graph),
        "core": None if core is None else hashlib.sha256(core.numpy().tobytes()).hexdigest(),
        "seen": graph.seen.to_dict(),
    }
    return _digest(content, nodes, seed, options)


def part_origin(part: StoredPart, nodes: int, seed: int, options: SourceOptions) -> str:
    """The same of a part that need not be cut for it."""
    return _digest({"part": part.digest, "seen": part.seen.to_dict()}, nodes, seed, options)


def _digest(content: Mapping[str, Any], nodes: int, seed: int, options: SourceOptions) -> str:
    compute = options.compute
    parts = {
        **content,
        "nodes": nodes,
        "seed": seed,
        "settings": options.recorded,
        "fingerprint": options.release.fingerprint,
        "threads": compute.threads,
        "memory": compute.budget,
        "device": compute.device.split(":")[0],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def remember(sha256: str, found: str) -> None:
    """Keep what the file of this checksum was made from; where the cache cannot be written, it is not known later."""
    with contextlib.suppress(PLGCError, OSError):
        write_atomically(_record(sha256, found), b"")


def is_made_from(sha256: str, wanted: str) -> bool:
    """Whether the file of this checksum is known to have been made from this."""
    try:
        return _record(sha256, wanted).is_file()
    except (PLGCError, OSError):
        return False


def _record(sha256: str, digest: str) -> Path:
    """An empty file whose name says it all: one file can be made in several ways, such as with more memory."""
    return _folder() / hmac.new(_key(), f"{sha256} {digest}".encode(), hashlib.sha256).hexdigest()


def _key() -> bytes:
    """The key of this user, made when it is first needed."""
    path = _folder() / "key"
    if not path.is_file() or path.stat().st_size != KEY_BYTES:
        write_atomically(path, secrets.token_bytes(KEY_BYTES))
    return path.read_bytes()


def _folder() -> Path:
    """The folder of what is known, which nobody else may read."""
    folder = cache_folder() / "sources"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        os.chmod(folder, 0o700)
    return folder
