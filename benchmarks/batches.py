"""Do the fast paths cost accuracy? One condensation with the whole graph, in batches and in bfloat16, seed by seed.

    python benchmarks/batches.py --graphs cora,citeseer,pubmed,amazon-photo,coauthor-cs --seeds 10 [--device cuda]

The memory allowed is the least that the graph can be condensed in, so that batches are as small as they get. Accuracy
on test nodes with all training labels and with three per class; what counts is the paired difference. Appends one
record per graph and seed to results/batches.jsonl.
"""

from __future__ import annotations

import argparse
import statistics
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import plgc
from plgc.evaluation.scoring import score
from plgc.experiments.records import append_record
from plgc.graphs.views.protocol import Protocol, draw_case
from plgc.method import settings as config
from plgc.method.batches import batch_size
from plgc.runtime.errors import SettingError
from plgc.runtime.provenance import provenance
from plgc.sparse.inputs import prepare, resolve_scaling

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


def scores(graph, nodes: int, seed: int, device: str, **limits) -> dict[str, float | int | None]:
    """Test accuracy of one condensation, with all labels and with few."""
    condensed = plgc.condense(graph, nodes=nodes, seed=seed, device=device, **limits)
    backbone = plgc.reconstruct(condensed, seed=seed, device=device)
    found: dict[str, float | int | None] = {"batch_nodes": condensed.chosen.get("batch_nodes")}
    for shots in SHOTS:
        case = draw_case(graph, Protocol(shots=shots), seed)
        found["all labels" if shots is None else f"{shots}-shot"] = score(backbone, case, "node")["accuracy"]
    return found


def compare(name: str, seed: int, device: str) -> dict:
    """The record of one graph and seed: the whole graph, batches and, on a GPU, bfloat16."""
    graph = plgc.load_graph(name, seed=seed)
    memory = least_memory(graph, NODES[name])
    ways: dict[str, dict] = {"whole": {}, "batches": {"memory": memory}}
    if device != "cpu":
        ways["bfloat16"] = {"precision": "bfloat16"}
    found = {way: scores(graph, NODES[name], seed, device, **limits) for way, limits in ways.items()}
    return {"graph": name, "nodes": NODES[name], "seed": seed, "memory": memory, **found, **provenance(device)}


def show(records: list[dict]) -> None:
    """Print the mean paired differences to the whole graph."""
    for name in dict.fromkeys(record["graph"] for record in records):
        own = [record for record in records if record["graph"] == name]
        for way in ("batches", "bfloat16"):
            for labels in ("all labels", "3-shot"):
                values = [record[way][labels] - record["whole"][labels] for record in own if way in record]
                if not values:
                    continue
                spread = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
                words = f"{statistics.mean(values):+.2f}, standard error {spread:.2f}, {len(values)} seeds"
                print(f"{name:14} {labels:10} {way} − whole {words}")


def main() -> None:
    """Run what was asked for and print the paired differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", default=",".join(NODES))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--out", type=Path, default=Path("results/batches.jsonl"))
    asked = parser.parse_args()
    cells = [(name, seed, asked.device) for seed in range(asked.seeds) for name in asked.graphs.split(",")]
    records = []
    with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(compare, *cell) for cell in cells]):
            records.append(done.result())
            append_record(asked.out, records[-1])
    show(records)


if __name__ == "__main__":
    main()
