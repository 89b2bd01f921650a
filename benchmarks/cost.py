"""What a condensation costs: seconds, CPU-seconds, peak memory and bytes, beside one whole-graph training.

    PLGC_DATA=… python benchmarks/cost.py [--graphs cora:70 pubmed:197] [--repeats 3]

Every condensation runs in a process of its own, so that its peak memory is its own; the ratio to whole-graph training
is measured in the same run, since machines are noisy.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import plgc
from plgc.learn import train_whole_graph


def condense(name: str, nodes: int, seed: int) -> dict[str, Any]:
    """Run the command line once and read what it reports; CPU time comes from the operating system."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "plgc", "condense", name, "--nodes", str(nodes), "--seed", str(seed)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run = subprocess.run(
            [*command, "-o", str(Path(folder) / "c.safetensors"), "--json"], capture_output=True, text=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode != 0:
        sys.exit(run.stdout + run.stderr)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**json.loads(run.stdout), "cpu_seconds": cpu}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=["cora:70", "citeseer:60", "pubmed:197"])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print("| graph | nodes | seconds | CPU-seconds | peak memory | file | whole-graph training | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for item in arguments.graphs:
        name, _, count = item.partition(":")
        runs = [condense(name, int(count), seed) for seed in range(arguments.repeats)]
        graph = plgc.load_graph(name)
        whole = statistics.median(train_whole_graph(graph, seed=seed)["seconds"] for seed in range(arguments.repeats))
        seconds, cpu = (statistics.median(run[key] for run in runs) for key in ("seconds", "cpu_seconds"))
        memory = max(run["peak_memory_bytes"] for run in runs) / 2**20
        print(
            f"| {name} | {count} | {seconds:.1f} | {cpu:.1f} | {memory:.0f} MiB | {runs[0]['bytes'] / 1e3:.0f} kB "
            f"| {whole:.1f} s | {seconds / whole:.1f} |",
            flush=True,
        )
    print(f"\nMedian of {arguments.repeats} runs, {os.cpu_count()} cores; seconds include loading the graph.")


if __name__ == "__main__":
    main()
