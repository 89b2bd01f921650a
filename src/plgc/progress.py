"""Progress for people: one line on a terminal that rewrites itself; in a log, a line now and then.

A progress function is called as ``progress(message, done, total)``, by :func:`plgc.condense` among others. Here is the
one that the command line passes in. It writes to stderr, so results on stdout stay clean.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

Progress = Callable[[str, int, int], None]

BAR = 24  # characters of the bar
TERMINAL_PAUSE = 0.1  # seconds between two rewritings of the line
LOG_PAUSE = 30.0  # seconds between two lines in a log: short jobs leave none


@contextmanager
def progress_line(stream: TextIO | None = None) -> Iterator[Progress]:
    """Yield a progress function for the duration of a job; the line is wiped at the end, however it ends."""
    out = sys.stderr if stream is None else stream
    terminal = out.isatty()
    pause = TERMINAL_PAUSE if terminal else LOG_PAUSE
    last = time.monotonic() - (pause if terminal else 0.0)

    def progress(message: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < pause:
            return
        last = now
        if terminal:
            width = shutil.get_terminal_size().columns - 1
            out.write("\r" + bar_line(message, done, total)[:width].ljust(width))
        else:
            out.write(f"{_percent(done, total):.0f} %  {message}\n")
        out.flush()

    try:
        yield progress
    finally:
        if terminal:
            out.write("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r")
            out.flush()


def silent(message: str, done: int, total: int) -> None:
    """Report nothing."""


def nested(progress: Progress | None, prefix: str, step: int, steps: int) -> Progress | None:
    """A progress function for step ``step`` of ``steps`` (from 0), shown as its share of the whole."""
    if progress is None:
        return None

    def inner(message: str, done: int, total: int) -> None:
        progress(f"{prefix}: {message}", round(100 * step + _percent(done, total)), 100 * steps)

    return inner


def bar_line(message: str, done: int, total: int) -> str:
    """A bar, the share done, and what is being done."""
    percent = _percent(done, total)
    filled = round(BAR * percent / 100)
    return f"[{'#' * filled}{' ' * (BAR - filled)}] {percent:3.0f} %  {message}"


def _percent(done: int, total: int) -> float:
    return min(100.0, max(0.0, 100 * done / total)) if total > 0 else 0.0
