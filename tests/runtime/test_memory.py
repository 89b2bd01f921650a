"""What a command takes of memory: anonymous memory of all its processes, mapped files apart."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from plgc.runtime import memory
from plgc.runtime.memory import descendants, machine_memory, process_sizes, processes_named, watched_memory

MIB = 1 << 20
CHILD = "import sys, time; held = bytearray(int(sys.argv[1])); held[::4096] = b'x' * len(held[::4096]); time.sleep(60)"
linux = pytest.mark.skipif(process_sizes(os.getpid()) is None, reason="the system has no /proc")


@linux
def test_memory_of_all_processes_is_summed() -> None:
    with watched_memory() as alone:
        pass
    with subprocess.Popen([sys.executable, "-c", CHILD, str(64 * MIB)]) as child:
        while (process_sizes(child.pid) or (0, 0))[0] < 64 * MIB:
            time.sleep(0.01)
        assert child.pid in descendants([os.getpid()])
        assert child.pid in processes_named("held[::4096]")
        with watched_memory() as usage:
            pass
        with watched_memory(alone=True) as own:
            pass
        child.kill()
    assert alone.memory is not None
    assert usage.memory is not None
    assert own.memory is not None
    assert 64 * MIB < usage.memory - own.memory < 96 * MIB
    assert abs(own.memory - alone.memory) < 8 * MIB
    assert abs((usage.own or 0) - own.memory) < 8 * MIB


@linux
def test_mapped_files_are_counted_apart(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(64 * MIB))
    with watched_memory(alone=True) as before:
        pass
    with watched_memory(alone=True) as usage:
        mapping = np.memmap(tmp_path / "file", dtype=np.uint8, mode="r")
        assert int(mapping.sum()) == 0
        time.sleep(2 * memory.PAUSE)
    assert before.mapped is not None
    assert usage.mapped is not None
    assert usage.mapped - before.mapped > 60 * MIB
    assert (usage.memory or 0) - (before.memory or 0) < 32 * MIB


def test_without_proc_the_peak_of_the_process_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "PROC", tmp_path)
    with watched_memory() as usage:
        pass
    assert (usage.memory or 0) > 20 * MIB
    assert usage.mapped is None
    assert processes_named("python") == []


def test_a_machine_has_memory() -> None:
    assert (machine_memory() or 0) > 100 * MIB
