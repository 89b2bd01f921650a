"""What a command reads is never what it writes: an output that names an input is refused before any work."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import typer

from plgc.runtime.files import same_file


def check_not_input(outputs: Iterable[Path], inputs: Iterable[Path]) -> None:
    """Usage error where one of the files to be written is, by whatever path or link, one that is read."""
    read = list(inputs)
    for output in outputs:
        if (given := next((path for path in read if same_file(output, path)), None)) is not None:
            raise typer.BadParameter(
                f"the output {output} is {given}, which this command reads: it would be lost. Name another place to "
                "write to"
            )


def source_files(paths: Iterable[Path]) -> list[Path]:
    """What condensed graphs and runs are read from: the files, and of folders what is read in them."""
    from plgc.experiments.records import FILE as RECORDS
    from plgc.sources import MANIFEST, read_manifest

    found: list[Path] = []
    for path in paths:
        folder = path.parent if path.name == MANIFEST else path
        found += [path, folder / MANIFEST, folder / RECORDS]
        if (folder / MANIFEST).is_file():
            found += [folder / entry.file for entry in read_manifest(folder).sources]
    return found
