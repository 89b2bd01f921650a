"""What rounding takes from a condensed file: its bytes beside those of the graph's npz file, and its accuracy.

    python benchmarks/file_sizes.py cora:35 citeseer:30 pubmed --seeds 10 --on test > sizes.jsonl

Every graph is condensed once a seed, to the nodes named after the colon or to 1 %, with every digit; the same file is
rounded, and both are scored with the same seed. A line of JSON for each: bytes, and paired changes of accuracy of the
whole model and of the learned part alone, with all labels and with three per class, as mean and standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from typing import Any

import plgc
from plgc.artifact.rounding import DTYPES, rounded
from plgc.evaluation.runs import RunOptions, run_seeds
from plgc.graphs.formats.npz import npz_bytes

SHOTS = (None, 3)


def scores(condensed: plgc.CondensedGraph, graph: Any, seed: int, on: str, device: str) -> dict[str, float]:
    """Accuracies by model and labels."""
    found = {}
    for shots in SHOTS:
        runs = run_seeds(
            [condensed], graph, RunOptions(seeds=1, first_seed=seed, shots=shots, on=on, device=device), ()
        )
        for name in ("plgc", "learned"):
            found[f"{name} {shots or 'all'}"] = runs.values(name)[0]
    return found


def measure(name: str, size: dict[str, Any], dtype: str, seeds: int, on: str, device: str) -> dict[str, Any]:
    """Bytes and changes of one graph."""
    graph, bytes_made, whole = plgc.load_graph(name, notice=False), list[int](), list[int]()
    changes: dict[str, list[float]] = {}
    for seed in range(seeds):
        exact = plgc.condense(graph, **size, seed=seed, device=device, dtype="float32", progress=False)
        small = rounded(exact, dtype)
        bytes_made.append(len(small.to_bytes()))
        whole.append(len(exact.to_bytes()))
        before, after = (scores(one, graph, seed, on, device) for one in (exact, small))
        for key, value in after.items():
            changes.setdefault(key, []).append(value - before[key])
    folder = os.environ.get("PLGC_DATA", "")
    file = os.path.join(folder, f"{name}.npz")
    return {
        "graph": name,
        **size,
        "dtype": dtype,
        "seeds": seeds,
        "on": on,
        "bytes": statistics.fmean(bytes_made),
        "bytes_float32": statistics.fmean(whole),
        "bytes_npz": os.path.getsize(file) if os.path.isfile(file) else None,
        "bytes_features_and_edges": npz_bytes(graph),
        "change": {key: statistics.fmean(values) for key, values in changes.items()},
        "error": {
            key: statistics.stdev(values) / len(values) ** 0.5 for key, values in changes.items() if len(values) > 1
        },
        "changes": changes,
    }


def main() -> None:
    """Measure the graphs of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", metavar="GRAPH[:NODES]")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--dtype", choices=DTYPES, default=DTYPES[0])
    parser.add_argument("--on", choices=("val", "test"), default="val")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    for word in given.graphs:
        name, _, nodes = word.partition(":")
        size = {"nodes": int(nodes)} if nodes else {"ratio": 0.01}
        print(json.dumps(measure(name, size, given.dtype, given.seeds, given.on, given.device)), flush=True)


if __name__ == "__main__":
    main()
