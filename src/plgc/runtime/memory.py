"""What a command takes of memory, summed over its processes on this machine: anonymous and shared memory.

Pages of mapped files are counted apart: they are the system's cache, which gives them up when memory is needed. Linux
tells one from the other in /proc; a thread looks there ten times a second. Elsewhere the peak of this process alone is
known, with all it has mapped.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
PAUSE = 0.1  # seconds between two looks
FAMILY = 1.0  # seconds after which processes are looked for again
SHARED = 4 << 20  # bytes of shared memory from which on it is divided by those who share it, which takes longer


@dataclass
class Usage:
    """Peaks in bytes; ``mapped`` and ``own`` are None where the system does not tell them.

    Attributes:
        memory: anonymous and shared memory of all processes together.
        mapped: pages of mapped files of all processes together, those of libraries too; shared pages count for each.
        own: anonymous and shared memory of this process alone.
    """

    memory: int | None = None
    mapped: int | None = None
    own: int | None = None

    def add(self, sizes: dict[int, tuple[int, int]], own: int) -> None:
        """Take the sizes of one look into account: for every process, what it holds and what it has mapped."""
        held = sum(size for size, _ in sizes.values())
        self.memory = max(self.memory or 0, held)
        self.mapped = max(self.mapped or 0, sum(pages for _, pages in sizes.values()))
        self.own = max(self.own or 0, sizes.get(own, (0, 0))[0])


@contextlib.contextmanager
def watched_memory(*, alone: bool = False, others: Callable[[], list[int]] | None = None) -> Iterator[Usage]:
    """Watch the memory of this process and of those that descend from it; the peaks are there at the end.

    Args:
        alone: watch this process, and no other.
        others: processes that belong to the command without descending from it; their descendants belong to it too.
    """
    usage, ended = Usage(), threading.Event()
    if process_sizes(os.getpid()) is None:
        yield usage
        usage.memory = peak_of_process()
        return
    watcher = threading.Thread(target=_watch, args=(usage, ended, alone, others or list), daemon=True)
    watcher.start()
    try:
        yield usage
    finally:
        ended.set()
        watcher.join()


def _watch(usage: Usage, ended: threading.Event, alone: bool, others: Callable[[], list[int]]) -> None:
    own, looked, processes = os.getpid(), 0, [os.getpid()]
    while True:
        if not alone and looked % round(FAMILY / PAUSE) == 0:
            processes = descendants([own, *others()])
        found = {process: process_sizes(process) for process in processes}
        usage.add({process: sizes for process, sizes in found.items() if sizes is not None}, own)
        looked += 1
        if ended.is_set():
            return
        ended.wait(PAUSE)


def process_sizes(process: int) -> tuple[int, int] | None:
    """What a process holds (anonymous and its share of shared memory), and what it has mapped; None if unknown."""
    try:
        lines = (PROC / str(process) / "status").read_text().splitlines()
        sizes = {line.split(":")[0]: 1024 * int(line.split()[1]) for line in lines if line.startswith("Rss")}
        shared = sizes["RssShmem"]
        return sizes["RssAnon"] + (shared if shared < SHARED else _share(process, shared)), sizes["RssFile"]
    except (OSError, ValueError, LookupError):
        return None


def _share(process: int, shared: int) -> int:
    """Shared memory divided by the number of processes that share it, where the system tells."""
    try:
        lines = (PROC / str(process) / "smaps_rollup").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss_Shmem"))
    except (OSError, ValueError, StopIteration):
        return shared


def descendants(roots: list[int]) -> list[int]:
    """These processes, and all that were started by them."""
    children: dict[int, list[int]] = {}
    for name in os.listdir(PROC):
        if name.isdecimal():
            with contextlib.suppress(OSError, ValueError, IndexError):
                parent = int((PROC / name / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    found = dict.fromkeys(roots)
    waiting = list(found)
    while waiting:
        new = [child for child in children.get(waiting.pop(), []) if child not in found]
        found |= dict.fromkeys(new)
        waiting += new
    return list(found)


def processes_named(word: str) -> list[int]:
    """Processes with a word in their command line, such as those of one session of Ray."""
    found = []
    for name in os.listdir(PROC) if PROC.is_dir() else ():
        if name.isdecimal():
            with contextlib.suppress(OSError):
                if word.encode() in (PROC / name / "cmdline").read_bytes():
                    found.append(int(name))
    return found


def peak_of_process() -> int | None:
    """The most that this process has ever held, with what it has mapped."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def machine_memory() -> int | None:
    """Bytes of memory of this machine, or of the group of processes this one is limited to; None if unknown."""
    found = []
    with contextlib.suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with contextlib.suppress(OSError, ValueError):
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(found, default=None)
