"""What is said on stderr beside results: notices, details with ``--verbose``, nothing but errors with ``--quiet``.

One logger, set up anew for every command. Colours only where stderr is a terminal and ``NO_COLOR`` is not set.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from plgc.runtime.progress import Progress, progress_line, silent

LOG = logging.getLogger("plgc.cli")
DETAIL, NOTICE, ERRORS = logging.DEBUG, logging.INFO, logging.ERROR


class _Stderr(logging.Handler):
    """To whatever stderr is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(record.getMessage(), err=True)


def start() -> None:
    """Say notices, and nothing more: what every command begins with."""
    LOG.handlers, LOG.propagate = [_Stderr()], False
    LOG.setLevel(NOTICE)


def notice(text: str) -> None:
    """Something that the user should know and did not ask for, such as a guess."""
    LOG.log(NOTICE, f"{painted('note:', typer.colors.CYAN)} {text}")


def detail(text: str) -> None:
    """Something worth knowing for those who ask, with ``--verbose``."""
    LOG.log(DETAIL, text)


@contextmanager
def working() -> Iterator[Progress]:
    """A progress line for a job; none with ``--quiet``, with ``--verbose`` also lines in a log."""
    if not LOG.isEnabledFor(NOTICE):
        yield silent
        return
    with progress_line(in_logs=LOG.isEnabledFor(DETAIL)) as progress:
        yield progress


def painted(text: str, colour: str) -> str:
    """Text in a colour, where stderr shows colours and the user has nothing against them."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty()
    return text if plain else typer.style(text, fg=colour, bold=True)


def _set_level(level: int, wanted: bool) -> None:
    if wanted and LOG.level not in (level, NOTICE):
        raise typer.BadParameter("give --verbose or --quiet, not both")
    if wanted:
        LOG.setLevel(level)


def _verbose(wanted: bool) -> None:
    _set_level(DETAIL, wanted)


def _quiet(wanted: bool) -> None:
    _set_level(ERRORS, wanted)


Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", callback=_verbose, help="Also say settings and times, on stderr.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", callback=_quiet, help="No progress and no notices.")]
