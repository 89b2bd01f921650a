"""Progress for people: on a terminal one line that rewrites itself, with the rate and the time left; in a log none.

A progress function is called as ``progress(message, done, total)``, by :func:`plgc.condense` among others. Here is the
one that the command line passes in, and the bar that Python shows by default. Both write to stderr, so results on
stdout stay clean, only once a job has taken two seconds, and are wiped at its end.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from plgc.runtime.text import visible

Progress = Callable[[str, int, int], None]

BAR = 24  # characters of the bar
DELAY = 2.0  # seconds until a job is worth a line
TERMINAL_PAUSE = 0.1  # seconds between two rewritings of the line
TICK = 1.0  # seconds after which the line is rewritten anyway, so that the clock moves
TQDM_FORMAT = "{percentage:3.0f} %|{bar}| {elapsed}<{remaining}  {desc}"
LOG_PAUSE = 30.0  # seconds between two lines in a log


@contextmanager
def progress_line(stream: TextIO | None = None, *, in_logs: bool = False) -> Iterator[Progress]:
    """Yield a progress function for the duration of a job; the line is wiped at the end, however it ends.

    Args:
        stream: by default stderr.
        in_logs: write a line now and then where the stream is no terminal; by default nothing.
    """
    out = sys.stderr if stream is None else stream
    if not out.isatty():
        yield _log_lines(out) if in_logs else silent
        return
    line, done = _Line(out), threading.Event()
    ticker = threading.Thread(target=line.tick, args=(done,), daemon=True)
    ticker.start()
    try:
        yield line.update
    finally:
        done.set()
        ticker.join()
        line.wipe()


@contextmanager
def shown(progress: Progress | bool | None) -> Iterator[Progress]:
    """Yield the progress function of a call: one that was given; for True tqdm's bar; for False and None nothing.

    The bar is for people alone: where stderr is neither a terminal nor a notebook's, there is none.
    """
    if callable(progress):
        yield progress
    elif progress and is_watched(sys.stderr):
        with _bar() as update:
            yield update
    else:
        yield silent


def is_watched(stream: TextIO | None) -> bool:
    """Whether a stream leads to a terminal or a notebook."""
    return stream is not None and (type(stream).__module__.startswith("ipykernel.") or stream.isatty())


@contextmanager
def _bar() -> Iterator[Progress]:
    """tqdm's bar, made at the first report, which says how much there is to do."""
    from tqdm.auto import tqdm

    bar = None

    def update(message: str, done: int, total: int) -> None:
        nonlocal bar
        if bar is None:
            bar = tqdm(total=total, initial=done, delay=DELAY, leave=False, miniters=1, bar_format=TQDM_FORMAT)
        bar.set_description_str(visible(message), refresh=False)
        bar.update(done - bar.n)

    try:
        yield update
    finally:
        if bar is not None:
            bar.close()


def silent(message: str, done: int, total: int) -> None:
    """Report nothing."""


def nested(progress: Progress | None, prefix: str, step: int, steps: int) -> Progress | None:
    """A progress function for step ``step`` of ``steps`` (from 0), shown as its share of the whole."""
    if progress is None:
        return None

    def inner(message: str, done: int, total: int) -> None:
        progress(f"{prefix}: {message}", round(100 * step + _percent(done, total)), 100 * steps)

    return inner


def bar_line(message: str, done: int, total: int, timing: str = "") -> str:
    """A bar, the share done, the times where they are known, and what is being done."""
    percent = _percent(done, total)
    filled = round(BAR * percent / 100)
    words = [f"[{'#' * filled}{' ' * (BAR - filled)}] {percent:3.0f} %", timing, message]
    return "  ".join(word for word in words if word)


def pace(percent: float, since: float, elapsed: float) -> str:
    """Rate and time left.

    Args:
        percent: what was done, of 100, in the first ``since`` seconds.
        since: seconds from the start to the last report.
        elapsed: seconds from the start until now.
    """
    if percent <= 0 or since <= 0:
        return f"{duration(elapsed)} so far"
    left = max(0.0, since * (100 - percent) / percent - (elapsed - since))
    return f"{percent / since:.2g} %/s, {duration(left)} left"


def duration(seconds: float) -> str:
    """A time for people, in one unit."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"


class _Line:
    """The line on a terminal. Drawn by the job as it reports, and by a clock in between."""

    def __init__(self, out: TextIO) -> None:
        self.out, self.lock, self.start = out, threading.Lock(), time.monotonic()
        self.drawn = float("-inf")
        self.state: tuple[str, int, int, float] | None = None  # message, done, total, and when that was said

    def update(self, message: str, done: int, total: int) -> None:
        self.state = (visible(message), done, total, time.monotonic())
        self.draw(TERMINAL_PAUSE)

    def tick(self, done: threading.Event) -> None:
        while not done.wait(TICK):
            self.draw(TICK / 2)

    def draw(self, pause: float) -> None:
        now = time.monotonic()
        if self.state is None or now - self.start < DELAY:
            return
        with self.lock:
            if now - self.drawn < pause:
                return
            self.drawn = now
            message, done, total, said = self.state
            times = pace(_percent(done, total), said - self.start, now - self.start)
            width = shutil.get_terminal_size().columns - 1
            self.out.write("\r" + bar_line(message, done, total, times)[:width].ljust(width))
            self.out.flush()

    def wipe(self) -> None:
        if self.drawn > 0:
            self.out.write("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r")
            self.out.flush()


def _log_lines(out: TextIO) -> Progress:
    last = start = time.monotonic()

    def progress(message: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LOG_PAUSE:
            last = now
            percent = _percent(done, total)
            out.write(f"{percent:.0f} %  {pace(percent, now - start, now - start)}  {visible(message)}\n")
            out.flush()

    return progress


def _percent(done: int, total: int) -> float:
    return min(100.0, max(0.0, 100 * done / total)) if total > 0 else 0.0
