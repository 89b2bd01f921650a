"""One measurement in a process of its own, so that its peak memory is its own: ``python bench_child.py NAME JSON``."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def run_child(task: str, limit: float | None = None, **arguments: Any) -> dict[str, Any]:
    """Run a measurement; what it returns with its peak memory, or ``over_limit`` where it took longer than allowed."""
    command = [sys.executable, str(Path(__file__)), task, json.dumps(arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"over_limit": limit}
    if done.returncode != 0:
        sys.exit(f"{task} {arguments} failed:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    from bench_condensing import measure_condensing, measure_generating, measure_method, measure_rebuilding
    from bench_finetuning import measure_finetuning
    from bench_propagation import measure_propagation
    from bench_training import measure_training
    from plgc.runtime.provenance import peak_memory

    tasks: dict[str, Callable[..., dict[str, Any]]] = {
        "propagation": measure_propagation,
        "training": measure_training,
        "condensing": measure_condensing,
        "generating": measure_generating,
        "rebuilding": measure_rebuilding,
        "finetuning": measure_finetuning,
        "method": measure_method,
    }
    arguments = json.loads(sys.argv[2])
    result = tasks[sys.argv[1]](**arguments)
    unit = 1 if sys.platform == "darwin" else 1024
    result["peak_memory_bytes"] = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if arguments["device"].startswith("cuda"):
        result["peak_gpu_memory_bytes"] = peak_memory(arguments["device"])
    print(json.dumps(result))


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # see the Makefile
    # Large tensors on pages of 2 MB, for all that is measured: gathering rows then misses the address cache far less.
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    main()
