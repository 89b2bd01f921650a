"""Processes that tests start: which of a group still run, and waiting for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def alive(group: int) -> set[int]:
    """Processes of a group that still run."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, number = path.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it has just ended
            continue
        if int(number) == group and state != "Z":
            found.add(int(path.parent.name))
    return found


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.01)
