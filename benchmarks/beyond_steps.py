"""Steps of a long measurement: commands in processes of their own, watched, and not done again once they are finished.

What a step took is kept in ``steps.json`` of its folder, by its name: seconds, CPU seconds, the peak of anonymous and
shared memory summed over all processes that belong to it, that of its first process, and pages of mapped files apart;
and by how much the disk of the folder was fuller than before at most, scratch files without a name included. Whatever
else writes to that disk meanwhile counts too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from plgc.runtime.files import write_atomically
from plgc.runtime.memory import Usage, descendants, process_sizes

PAUSE = 0.1  # seconds between two looks at the processes
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Steps:
    """The steps of one size, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "steps.json"
        folder.mkdir(parents=True, exist_ok=True)
        self.done: dict[str, Any] = json.loads(self.file.read_text()) if self.file.exists() else {}

    def run(
        self,
        name: str,
        command: Sequence[str],
        *,
        others: Callable[[], list[int]] = list,
        meanwhile: Callable[[int], None] | None = None,
        environment: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """What a step took: before, where it is finished; else the command is run.

        Args:
            name: of the step.
            command: it prints one JSON object, or nothing, on its last line.
            others: processes that belong to it and do not descend from it.
            meanwhile: called with the process's number while it runs, in a thread.
            environment: variables beside the present ones.
        """
        if name not in self.done:
            print(f"  {self.folder.name}: {name} …", flush=True)
            self.done[name] = _watched(command, self.folder, others, meanwhile, environment or {})
            self.save()
        return self.done[name]

    def call(self, name: str, function: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What a function of this process has found: before, or now."""
        if name not in self.done:
            self.done[name] = function()
            self.save()
        return self.done[name]

    def save(self) -> None:
        """Keep what is finished."""
        write_atomically(self.file, json.dumps(self.done, indent=1).encode())


def _watched(
    command: Sequence[str],
    folder: Path,
    others: Callable[[], list[int]],
    meanwhile: Callable[[int], None] | None,
    environment: dict[str, str],
) -> dict[str, Any]:
    used = fullest = shutil.disk_usage(folder).used
    start, usage, busy = time.perf_counter(), Usage(), dict[int, float]()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment) as running:
        if meanwhile is not None:
            threading.Thread(target=meanwhile, args=(running.pid,), daemon=True).start()
        printed: list[str] = []
        assert running.stdout is not None
        reader = threading.Thread(target=lambda stream=running.stdout: printed.extend(stream), daemon=True)
        reader.start()
        while running.poll() is None:
            family = descendants([running.pid, *others()])
            sizes = {process: found for process in family if (found := process_sizes(process)) is not None}
            usage.add(sizes, running.pid)
            fullest = max(fullest, shutil.disk_usage(folder).used)
            busy |= {process: seconds for process in family if (seconds := cpu_seconds(process)) is not None}
            time.sleep(PAUSE)
        reader.join()
    if running.returncode != 0:
        sys.exit(f"{' '.join(command)} failed with exit code {running.returncode}:\n{''.join(printed)[-4000:]}")
    last = printed[-1] if printed else "{}"
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": sum(busy.values()),
        "peak_memory_bytes": usage.memory,
        "peak_first_process_bytes": usage.own,
        "peak_mapped_bytes": usage.mapped,
        "peak_disk_bytes": fullest - used,
        "told": json.loads(last) if last.startswith("{") else None,
    }


def cpu_seconds(process: int) -> float | None:
    """CPU time of a process until now; None where it is gone."""
    try:
        words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / TICKS
    except (OSError, ValueError, IndexError):
        return None


def plgc_command(*words: str) -> list[str]:
    """A ``plgc`` command of this Python, quiet and with JSON."""
    return [sys.executable, "-m", "plgc", *words, "--json", "--quiet"]
