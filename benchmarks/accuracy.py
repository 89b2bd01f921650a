"""Accuracy of the default preset: ten seeds, condensation repeated per seed, controls beside every figure.

    PLGC_DATA=… python benchmarks/accuracy.py                     # the whole table, on the test nodes
    PLGC_DATA=… python benchmarks/accuracy.py --on val --seeds 3  # to choose settings
    PLGC_DATA=… python benchmarks/accuracy.py --backbones         # other backbones from the GCN-made artifact, Cora

A seed drives everything of its run: condensation, rebuilding, the 3-shot label draw and, on graphs without a public
split, the split. One JSON record per run goes to ``results/`` (``--out``), with commit, versions and machine; a run
that is already there is not repeated.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

import plgc
from plgc.evaluation import evaluate_node

# (graph, nodes): the paper's full-label accuracy; None where the paper has no such row.
FULL = {
    ("cora", 35): 81.1,
    ("cora", 70): 81.6,
    ("cora", 140): 80.7,
    ("citeseer", 30): 68.3,
    ("citeseer", 60): 69.1,
    ("citeseer", 120): 70.5,
    ("pubmed", 197): None,
    ("amazon-photo", 76): None,
    ("coauthor-cs", 183): None,
}
SHOTS = {("cora", 70): 73.4, ("citeseer", 60): 63.4}
BACKBONES = ("gcn", "sage", "gin", "sgc", "gat")
Cell = tuple[str, int, int, str, tuple[str, ...], str, int]  # graph, nodes, seed, on, backbones, device, threads


def run_cell(cell: Cell) -> list[dict[str, Any]]:
    """Condense once, then score with all training labels and with three per class."""
    name, nodes, seed, on, kinds, device, threads = cell
    torch.set_num_threads(threads)
    graph = plgc.load_graph(name, seed=seed)
    start = time.perf_counter()
    condensed = plgc.condense(graph, nodes=nodes, seed=seed, device=device)
    seconds = time.perf_counter() - start
    records = []
    for kind, shots in itertools.product(kinds, (None, 3)):
        result = evaluate_node([condensed], name, first_seed=seed, shots=shots, on=on, kind=kind, device=device)
        records.append(
            {
                "graph": name,
                "nodes": nodes,
                "seed": seed,
                "on": on,
                "backbone": kind,
                "shots": shots,
                "accuracy": result["accuracy"]["mean"],
                "macro_f1": result["macro_f1"]["mean"],
                "controls": {control: value["mean"] for control, value in result["controls"].items()},
                "condense_seconds": seconds,
                "agreement": condensed.chosen["agreement"],
                "epochs": len(condensed.curves["pseudo_label_loss"]),
                "bytes": result["bytes"],
                "threads": condensed.threads,
                **provenance(device),
            }
        )
    return records


def provenance(device: str) -> dict[str, str]:
    """What a published number has to carry."""
    machine = torch.cuda.get_device_name() if device.startswith("cuda") else f"CPU, {os.cpu_count()} cores"
    return {
        "machine": machine,
        "commit": os.environ["PLGC_COMMIT"],
        "version": plgc.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def source_commit() -> str:
    """The commit of the source as it is now, with a + where the source has changed since."""
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "src", "benchmarks"]).returncode
    return f"{head}+" if changed else head


def identity(record: dict[str, Any]) -> tuple[Any, ...]:
    """What makes two records the same run."""
    return tuple(record[key] for key in ("graph", "nodes", "seed", "on", "backbone"))


def main() -> None:
    arguments = parse()
    # Read once, before any run: the history may move on while the code that is loaded does not.
    os.environ.setdefault("PLGC_COMMIT", source_commit())
    path = Path(arguments.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {identity(record) for record in records}
    rows = [("cora", 70)] if arguments.backbones else [row for row in FULL if row[0] in arguments.graphs]
    kinds = BACKBONES if arguments.backbones else ("gcn",)
    threads = max(1, (os.cpu_count() or 1) // arguments.jobs)
    wanted: list[Cell] = [
        (name, nodes, seed, arguments.on, kinds, arguments.device, threads)
        for seed in range(arguments.seeds)
        for name, nodes in rows
    ]
    missing = []
    for cell in wanted:
        kinds_left = tuple(kind for kind in kinds if (*cell[:4], kind) not in done)
        if kinds_left:
            missing.append((*cell[:4], kinds_left, *cell[5:]))
    print(f"{len(wanted)} runs, {len(wanted) - len(missing)} of them done already", file=sys.stderr)
    with path.open("a") as file, ProcessPoolExecutor(arguments.jobs) as pool:
        for number, fresh in enumerate(pool.map(run_cell, missing), 1):
            records.extend(fresh)
            file.writelines(json.dumps(record) + "\n" for record in fresh)
            file.flush()
            print(f"{number}/{len(missing)} {identity(fresh[0])}: {fresh[0]['accuracy']:.1f}", file=sys.stderr)
    keys = {(*cell[:4], kind) for cell in wanted for kind in kinds}
    print_table([record for record in records if identity(record) in keys], kinds)


def print_table(records: list[dict[str, Any]], kinds: tuple[str, ...]) -> None:
    """Ours beside both controls (with the paired difference to the better one) and the paper's figure."""
    print("| graph | nodes | backbone | labels | ours | propagated features | random encoder | ours − better | paper |")
    print("|---|---|---|---|---|---|---|---|---|")
    for shots, paper in ((None, FULL), (3, SHOTS)):
        for name, nodes in FULL:
            for kind in kinds:
                runs = [
                    r
                    for r in records
                    if (r["graph"], r["nodes"], r["backbone"], r["shots"]) == (name, nodes, kind, shots)
                ]
                if not runs:
                    continue
                names = ("propagated_features", "random_encoder")
                better = max(names, key=lambda control: statistics.fmean(r["controls"][control] for r in runs))
                cells = [
                    spread([r["accuracy"] for r in runs]),
                    *(spread([r["controls"][control] for r in runs]) for control in names),
                    spread([r["accuracy"] - r["controls"][better] for r in runs]),
                    str(paper.get((name, nodes)) or "–"),
                ]
                labels = "all" if shots is None else f"{shots} per class"
                print(f"| {name} | {nodes} | {kind} | {labels} | {' | '.join(cells)} |")
    seeds, machines = {r["seed"] for r in records}, {r["machine"] for r in records}
    print(f"\n{len(seeds)} seeds, mean ± standard deviation; {', '.join(machines)}; paper: the paper's own figure")


def spread(values: list[float]) -> str:
    """Mean ± standard deviation."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.fmean(values):.1f} ± {deviation:.1f}"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    graphs = list(dict.fromkeys(name for name, _ in FULL))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--graphs", nargs="+", choices=graphs, default=graphs)
    parser.add_argument("--on", choices=("test", "val"), default="test")
    parser.add_argument("--backbones", action="store_true", help="Cora, 70 nodes, every kind of backbone")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side, each in a process of its own")
    parser.add_argument("--out", default="results/accuracy.jsonl")
    return parser.parse_args()


if __name__ == "__main__":
    main()
