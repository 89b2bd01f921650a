"""What commands write: a file of another kind that is there already is not written over, unless the user says so."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

from plgc.cli.inputs import check_not_input
from plgc.runtime.files import check_writable

START = 1 << 16  # bytes from which a kind is told, apart from descriptions
DESCRIPTION = 8 << 20  # bytes of a description at most, as in plgc.runtime.container, which --help must not wait for
PREDICTIONS = ("node,predicted_class,probability", "source,target,probability")

Force = Annotated[bool, typer.Option("--force", help="Write over a file of another kind that is there already.")]


def check_output(output: Path, inputs: Iterable[Path], kind: str, force: bool) -> None:
    """Refuse, before any work, an output that cannot be written, is one of the inputs, or is of another kind."""
    check_not_input([output], inputs)
    check_kind([output], kind, force)
    check_writable(output)


def check_kind(outputs: Iterable[Path], kind: str, force: bool) -> None:
    """Usage error where one of these files is there and is not what the command writes; empty ones may be replaced."""
    for output in outputs:
        if force or not output.is_file() or output.stat().st_size == 0 or KINDS[kind](output):
            continue
        raise typer.BadParameter(
            f"the output {output} is there already, and it is not {kind}: it would be lost. Name another place to "
            "write to, or give --force to write over it"
        )


def _is_plgc(*formats: str) -> Callable[[Path], bool]:
    """Whether a file says of itself that it is one of ours; it need not be sound."""

    def found(path: Path) -> bool:
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if size > DESCRIPTION:
                return False
            try:
                return json.loads(json.loads(file.read(size))["__metadata__"]["plgc"])["format"] in formats
            except (ValueError, LookupError, TypeError, RecursionError):
                return False

    return found


def _starts(
    *signs: bytes, within: int = START, enough: Callable[[Iterable[bool]], bool] = any
) -> Callable[[Path], bool]:
    """Whether one of these, or with ``enough=all`` each of them, is near the beginning of a file."""

    def found(path: Path) -> bool:
        with open(path, "rb") as file:
            start = file.read(within)
        return enough(sign in start for sign in signs)

    return found


def _is_exported(path: Path) -> bool:
    """Whether an ONNX file names plgc as its producer, or an archive of torch.export has our description."""
    if _starts(b"\x12\x04plgc", within=16)(path):
        return True
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/extra/plgc.json") for name in archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


def _is_predictions(path: Path) -> bool:
    """Whether a file is a table of predictions: CSV by its first line, Parquet by the columns in its last bytes."""
    if _starts(*(f"{line}\n".encode() for line in PREDICTIONS), within=len(PREDICTIONS[0]) + 1)(path):
        return True
    with open(path, "rb") as file:
        if file.read(4) != b"PAR1":
            return False
        file.seek(0, 2)
        size = file.tell()
        file.seek(max(0, size - START))
        end = file.read()
    length = int.from_bytes(end[-8:-4], "little")
    described = end[-8 - length : -8]
    return any(all(name.encode() in described for name in line.split(",")) for line in PREDICTIONS)


KINDS: dict[str, Callable[[Path], bool]] = {
    "a condensed graph": _is_plgc("plgc-condensed-graph"),
    "a model": _is_plgc("plgc-node-model", "plgc-link-model"),
    "an exported model": _is_exported,
    "an exported graph": _starts(b"data.pkl", b"edge_index", b"counts", b"scaling", enough=all),
    "predictions": _is_predictions,
    "a report": _starts(b'<p class="brand">plgc report</p>'),
    "a description": _starts(b'"format": "plgc-preprocessing"', within=100),
    "a figure": _starts(b"\x89PNG", within=4),
}
