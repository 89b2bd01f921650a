"""Is one version as quick as another on small graphs? CPU-seconds of both in turn, and their ratio.

    PLGC_DATA=… python benchmarks/same_speed.py OLD NEW [--graphs demo:70,cora:70,citeseer:60] [--repeats 5]

OLD and NEW are commits, or folders with a ``src/plgc`` in them. Every measurement is a process of its own with one
thread: it condenses a graph, rebuilds the backbone, trains a head on three labels per class and on all labels, and
predicts. The versions take turns, so that what else the machine does hits both. A line of JSON for every graph is added
to --out: the median seconds of both, and the median ratio of a turn with the lowest and the highest.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from plgc.experiments.records import append_record
from plgc.runtime.provenance import provenance
from same_files import ROOT, git, source_of

CHILD = """
import json, sys, time
import torch
import plgc
torch.set_num_threads(1)
graph, times = plgc.load_graph(sys.argv[1], notice=False), {}
def timed(name, work):
    start = time.process_time()
    made = work()
    times[name] = time.process_time() - start
    return made
plgc.condense(graph, nodes=int(sys.argv[2]), seed=1, threads=1, progress=False)  # the first loads libraries
file = timed("condense", lambda: plgc.condense(graph, nodes=int(sys.argv[2]), seed=0, threads=1, progress=False))
backbone = timed("rebuild", lambda: plgc.reconstruct(file))
timed("few", lambda: plgc.finetune(backbone, graph, shots=3))
model = timed("all", lambda: plgc.finetune(backbone, graph))
timed("predict", lambda: model.predict_proba(graph))
print(json.dumps(times))
"""


def measure(source: Path, graph: str, nodes: str) -> dict[str, float]:
    """CPU-seconds of every step with one version."""
    environment = {**os.environ, "PYTHONPATH": str(source / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CHILD, graph, nodes]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def compared(old: list[dict[str, float]], new: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """For every step the median seconds, and the ratios of the turns: new by old."""
    found = {}
    for step in old[0]:
        ratios = [after[step] / before[step] for before, after in zip(old, new, strict=True)]
        seconds = {name: statistics.median(one[step] for one in turns) for name, turns in (("old", old), ("new", new))}
        found[step] = seconds | {"ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--graphs", default="demo:70,cora:70,citeseer:60", help="comma-separated, GRAPH:NODES")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "bench.jsonl")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        try:
            (old, before), (new, after) = (source_of(version, Path(work)) for version in (given.old, given.new))
            for graph, _, nodes in (text.partition(":") for text in given.graphs.split(",")):
                turns: list[list[dict[str, float]]] = [[], []]
                for turn in range(given.repeats):
                    for which in (0, 1) if turn % 2 == 0 else (1, 0):
                        turns[which].append(measure((old, new)[which], graph, nodes))
                steps = compared(*turns)
                record: dict[str, Any] = {"bench": "same_speed", "graph": graph, "old": before, "new": after}
                append_record(given.out, {**record, "repeats": given.repeats, "steps": steps, **provenance()})
                for step, one in steps.items():
                    range_ = f"{one['low']:.2f} to {one['high']:.2f}"
                    print(f"{graph} {step}: {one['old']:.2f} s, {one['new']:.2f} s: {one['ratio']:.2f} ({range_})")
        finally:
            with contextlib.suppress(OSError, subprocess.CalledProcessError):  # where the folders are in no checkout
                git("worktree", "prune")


if __name__ == "__main__":
    main()
