"""The provenance of a result: the machine, the versions, the commit, and the memory it took."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
from functools import cache
from pathlib import Path

import torch

from plgc._version import __version__
from plgc.runtime.memory import peak_of_process

COMMIT_VARIABLE = "PLGC_COMMIT"  # for a copy of the source without its history


def provenance(device: str = "cpu") -> dict[str, str | int | None]:
    """Where and with what a result was made."""
    on_gpu = device.startswith("cuda")
    return {
        "machine": torch.cuda.get_device_name(device) if on_gpu else f"CPU, {os.cpu_count()} cores",
        "device": device,
        "threads": torch.get_num_threads(),
        "commit": source_commit(),
        "version": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


@cache
def source_commit() -> str | None:
    """The commit of the source as it was when first asked, with a + where files have changed since; None if unknown.

    Asked once a process, at its start: the history may move on while the code that is loaded does not.
    """
    if os.environ.get(COMMIT_VARIABLE):
        return os.environ[COMMIT_VARIABLE]
    folder = Path(__file__).parent

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True)

    try:
        if git("ls-files", "--error-unmatch", Path(__file__).name).returncode != 0:
            return None  # installed somewhere inside another project's repository
        head = git("rev-parse", "--short", "HEAD").stdout.strip()
        changed = git("diff", "--quiet", "HEAD", "--", ".").returncode != 0
    except OSError:  # no git
        return None
    return f"{head}+" if changed else head


def reset_peak_memory(device: str = "cpu") -> None:
    """Forget the peak so far, where the system allows it (Linux, CUDA); elsewhere the process's peak is kept."""
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats(device)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory(device: str = "cpu") -> int | None:
    """The most memory held, in bytes: by the GPU's allocator on a GPU, else by the process; None where unknown.

    That of the process counts what it has mapped from files too; :mod:`plgc.runtime.memory` tells the two apart.
    """
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated(device)
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return peak_of_process()
