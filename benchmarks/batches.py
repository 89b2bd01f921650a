"""Does training in batches cost accuracy? The same condensation with the whole graph and in batches, seed by seed.

    python benchmarks/batches.py --graphs cora,citeseer,pubmed,amazon-photo,coauthor-cs --seeds 10 [--device cuda]

The memory allowed is the least that the graph can be condensed in, so that batches are as small as they get. Accuracy
on test nodes with all training labels and with three per class; what counts is the paired difference. Appends one
record per graph and seed to results/batches.jsonl.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

import plgc
from plgc import config
from plgc.batches import batch_size
from plgc.errors import SettingError
from plgc.inputs import prepare, resolve_scaling
from plgc.machine import provenance

NODES = {"cora": 70, "citeseer": 60, "pubmed": 197, "amazon-photo": 76, "coauthor-cs": 183}
SHOTS = (None, 3)
STEP = 1.05


def least_memory(graph, nodes: int) -> int:
    """The least memory, within a few per cent, that a graph can be condensed in."""
    inputs = prepare(graph, resolve_scaling(graph.x, "auto"))
    memory = 1 << 28
    while True:
        try:
            size = batch_size(inputs, nodes, config.preset("default"), memory)
        except SettingError:
            memory = int(memory * STEP)
            continue
        if size is None:
            raise SystemExit(f"{graph.name} always fits: it is too small for batches")
        return memory


def scores(graph, nodes: int, seed: int, device: str, memory: int | None) -> dict[str, float | int | None]:
    """Test accuracy of one condensation, with all labels and with few."""
    condensed = plgc.condense(graph, nodes=nodes, seed=seed, device=device, memory=memory)
    backbone = plgc.reconstruct(condensed, seed=seed, device=device)
    found: dict[str, float | int | None] = {"batch_nodes": condensed.chosen.get("batch_nodes")}
    for shots in SHOTS:
        model = plgc.finetune(backbone, graph, shots=shots, seed=seed)
        found["all labels" if shots is None else f"{shots}-shot"] = model.evaluate(graph)["accuracy"]
    return found


def main() -> None:
    """Run what was asked for and print the paired differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", default=",".join(NODES))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("results/batches.jsonl"))
    asked = parser.parse_args()
    where = provenance(asked.device)
    for name in asked.graphs.split(","):
        differences: dict[str, list[float]] = {}
        for seed in range(asked.seeds):
            graph = plgc.load_graph(name, seed=seed)
            memory = least_memory(graph, NODES[name])
            whole, batched = (scores(graph, NODES[name], seed, asked.device, budget) for budget in (None, memory))
            record = {"graph": name, "nodes": NODES[name], "seed": seed, "memory": memory, "whole": whole}
            record |= {"batched": batched, **where}
            with asked.out.open("a") as file:
                file.write(json.dumps(record) + "\n")
            for key in set(whole) - {"batch_nodes"}:
                differences.setdefault(key, []).append(float(batched[key] or 0) - float(whole[key] or 0))
        for key, values in sorted(differences.items()):
            spread = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
            mean = statistics.mean(values)
            print(f"{name:14} {key:10} batches − whole {mean:+.2f}, standard error {spread:.2f}, {len(values)} seeds")


if __name__ == "__main__":
    main()
