"""The container format of our files: safetensors with a description in JSON, and a checksum over both.

Condensed graphs, models and checkpoints are all written and read here. A file is safe to open from a stranger: no
pickle, the header's size is checked before it is parsed, no tensor in it is larger than the file, and the checksum
detects any change of the tensors or the description. What is loaded is in memory: the file may be changed afterwards.
"""

from __future__ import annotations

import hashlib
import json
import os
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from plgc._version import __version__
from plgc.runtime.errors import ArtifactError

MAX_HEADER = 8 * 2**20  # bytes; descriptions of real files have some thousands
CHECKSUM = "checksum"


def container_bytes(tensors: Mapping[str, Tensor], description: Mapping[str, Any], *, allow_nan: bool = True) -> bytes:
    """The content of a file; equal tensors and descriptions give equal bytes.

    Raises:
        ArtifactError: the description is too long, or, unless ``allow_nan``, a value is NaN or infinite.
    """
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    broken = [] if allow_nan else [name for name, tensor in content.items() if not bool(torch.isfinite(tensor).all())]
    plain = {}
    try:
        plain = json.loads(json.dumps(description, sort_keys=True, allow_nan=allow_nan))
    except ValueError:
        broken.append("curves or settings")
    if broken:
        raise ArtifactError(
            f"the computation has left the range of numbers: {', '.join(broken)} hold NaN or infinite values, and "
            "nothing is written; scale the features and weights of the graph"
        )
    text = json.dumps({**plain, CHECKSUM: checksum(content, plain)}, sort_keys=True)
    if len(text) > MAX_HEADER // 2:  # inside the header its quotes are escaped
        raise ArtifactError(f"the description is {len(text):,} bytes long, at most {MAX_HEADER // 2:,} can be opened")
    # One metadata key: safetensors keeps several in no fixed order, and equal content must give equal bytes.
    return save(content, {"plgc": text})


def checksum(tensors: Mapping[str, Tensor], description: Mapping[str, Any]) -> str:
    """SHA-256 over the description, as JSON with sorted keys, and over name, type, shape and bytes of every tensor."""
    plain = {key: value for key, value in description.items() if key != CHECKSUM}
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_container(
    path: str | os.PathLike[str], expected: tuple[str, ...], schema: int, checksum_since: int
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read one of our files: its tensors and its description.

    Args:
        path: the file.
        expected: formats that will do.
        schema: the newest schema that is understood.
        checksum_since: the first schema whose files have a checksum.

    Raises:
        ArtifactError: there is no such file, it is damaged, or it is none of those.
    """
    path = Path(path)
    if not os.path.exists(path):
        raise ArtifactError(f"there is no file {path}")
    if not os.path.isfile(path):
        raise ArtifactError(f"{path} is a {'folder' if path.is_dir() else 'device'}, not a file")
    try:
        _check_header(path)
        with safe_open(path, framework="pt") as file:  # reads the header alone
            header = check_format(path, _describe(path, file.metadata() or {}), expected, schema)
        tensors = load(path.read_bytes())
        # Clones: memory of torch's own allocator, aligned as if the tensors had been computed here.
        tensors = {name: tensors.pop(name).clone() for name in sorted(tensors)}
        sound = header["schema"] < checksum_since or header.get(CHECKSUM) == checksum(tensors, header)
    except ArtifactError:
        raise
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, RuntimeError, RecursionError) as error:
        raise ArtifactError(
            f"{path} cannot be opened: damaged, cut short, or not a safetensors file ({str(error)[:400]})"
        ) from error
    if not sound:
        absent = "has no checksum" if CHECKSUM not in header else "does not fit its checksum"
        raise ArtifactError(f"{path} is damaged: what it holds {absent}; get or make it again")
    return tensors, header


def _check_header(path: Path) -> None:
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
    if size > min(MAX_HEADER, os.path.getsize(path)):
        raise ValueError(f"its header is said to have {size:,} bytes")


def _describe(path: Path, metadata: dict[str, str]) -> Any:
    if "plgc" not in metadata:
        raise ArtifactError(f"{path} is a safetensors file, but not one of plgc's: it has no description")
    try:
        return json.loads(metadata["plgc"])
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path} is damaged: its description is not readable ({str(error)[:400]})") from error


def check_format(path: Path, header: Any, expected: tuple[str, ...], schema: int) -> dict[str, Any]:
    """The description of a file, which must be of an expected format and of a schema that is understood."""
    found = header.get("format") if isinstance(header, dict) else None
    if found not in expected:
        needed = " or ".join(repr(name) for name in expected)
        raise ArtifactError(f"{path} holds {reprlib.repr(found)}, where {needed} is needed")
    number = header.get("schema")
    if type(number) is not int or number < 1:
        raise ArtifactError(f"{path} is damaged: schema {reprlib.repr(number)} is not a version number")
    if number > schema:
        version = header.get("version", "of a later version")
        raise ArtifactError(
            f"{path} has schema {reprlib.repr(number)}, written by plgc {str(version)[:40]}; this plgc {__version__} "
            f"reads up to schema {schema}: upgrade plgc"
        )
    return header
