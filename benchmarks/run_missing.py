"""Run the cells of all experiments that have no record yet, within a time limit: for a GPU that is at hand for minutes.

    PLGC_DATA=… python benchmarks/run_missing.py --seconds 900 --device cuda --out new.jsonl [--experiments fig5,fig6]

Cells are those of ``plgc experiment run``; a record of an earlier version, whose figures would be others now, does not
count. They go into one file, whatever their experiment;
``python benchmarks/run_missing.py --merge new.jsonl`` sorts it into ``results/``. Methods that take minutes have
processes of their own, so that they start early and the others do not wait for them. Small kernels of many processes
fill a GPU only if it runs them side by side (NVIDIA MPS: ``nvidia-cuda-mps-control -d`` before).
"""

from __future__ import annotations

import argparse
import json
import queue
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as mp

from plgc.experiments.cell import RunOptions, run_cell
from plgc.experiments.grid import Cell, cells
from plgc.experiments.records import append_record, identity, read_records, records_file
from plgc.experiments.run import groups_of
from plgc.experiments.spec import list_experiments, load_experiment
from plgc.graphs.catalog import get_graph
from plgc.runtime.errors import GraphNotFoundError, PLGCError
from plgc.runtime.files import write_atomically
from plgc.runtime.provenance import provenance
from publish import is_stale

SLOW = {"sfgc": "minutes", "geom": "minutes", "gcond": "slow", "gcond-x": "slow", "gcdm-x": "slow", "dc-graph": "slow"}
LARGE = ("arxiv_llm_text",)  # a group of ours on them takes minutes
SECONDS = {"minutes": 240, "slow": 45, "quick": 15}  # that a group of cells takes: none is begun that would not end
WORKERS = {"minutes": 5, "slow": 6, "quick": 10}  # processes that take this kind first


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--experiments", help="some of them, in the order in which they are run")
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("new.jsonl"))
    parser.add_argument("--store", type=Path, default=Path("store"))
    parser.add_argument("--merge", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    if chosen.merge is not None:
        merge(chosen.merge, chosen.results)
        return
    names = chosen.experiments.split(",") if chosen.experiments else [one.name for one in list_experiments()]
    run(plan(names, chosen.results, chosen.out), chosen)


def plan(names: list[str], results: Path, out: Path) -> dict[str, list[tuple[list[Cell], str]]]:
    """What is missing: groups of cells that share a condensed graph with the experiment's ``reuse``, by kind."""
    found: dict[str, list[tuple[list[Cell], str]]] = {kind: [] for kind in SECONDS}
    fresh = {identity(record) for record in read_records([out])}
    for experiment in map(load_experiment, names):
        records = read_records([records_file(results / experiment.name, experiment.name)])
        known = fresh | {identity(record) for record in records if not is_stale(record)}
        here = {graph.name for graph in experiment.graphs if _is_here(graph.name)}
        missing = [cell for cell in cells(experiment) if cell.graph in here and cell.identity() not in known]
        for group in groups_of(missing):
            found[kind_of(group[0])].append((group, experiment.reuse))
    return found


def kind_of(cell: Cell) -> str:
    """How long a group of such cells takes."""
    large = cell.graph in LARGE and cell.history is not None
    return "minutes" if large else SLOW.get(cell.method, "quick")


def run(planned: dict[str, list[tuple[list[Cell], str]]], chosen: argparse.Namespace) -> None:
    """Work through the plan in several processes until the time is over."""
    context: Any = mp.get_context("spawn")
    queues = {kind: context.Queue() for kind in planned}
    for kind, groups in planned.items():
        for group in groups:
            queues[kind].put(group)
    end, lock = time.time() + chosen.seconds, context.Lock()
    orders = {"minutes": ("minutes", "slow", "quick"), "slow": ("slow", "quick"), "quick": ("quick", "slow")}
    workers = [
        context.Process(target=work, args=(orders[kind], queues, chosen.out, chosen.store, chosen.device, end, lock))
        for kind, count in WORKERS.items()
        for _ in range(count)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def work(kinds: tuple[str, ...], queues: Any, out: Path, store: Path, device: str, end: float, lock: Any) -> None:
    """Take groups of cells of these kinds, the first kind first, as long as one can still end in time."""
    torch.set_num_threads(1)
    while True:
        for kind in kinds:
            try:
                if time.time() + SECONDS[kind] < end:
                    group, reuse = queues[kind].get(timeout=0.2)
                    break
            except queue.Empty:
                continue
        else:
            return
        options = RunOptions(out, None if reuse == "none" else store, device, 1, reuse)
        for cell in group:
            if time.time() > end:
                return
            try:
                record = run_cell(cell, options)
            except (PLGCError, torch.OutOfMemoryError) as error:
                record = {"cell": asdict(cell), "error": str(error), **provenance(device)}
            with lock:
                append_record(out, record)


def merge(file: Path, results: Path) -> None:
    """Put records beside those of their experiments, but for errors, and in place of stale ones of the same method."""
    new: dict[str, list[dict[str, Any]]] = {}
    for record in read_records([file]):
        if "error" not in record:
            new.setdefault(record["cell"]["experiment"], []).append(record)
    for name, records in new.items():
        path = records_file(results / name, name)
        made = {_place(record) for record in records}
        kept = [record for record in read_records([path]) if not (is_stale(record) and _place(record) in made)]
        write_atomically(path, "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in kept + records).encode())
        print(f"{name}: {len(records)} records")


def _place(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record["cell"][name] for name in ("graph", "method", "preset"))


def _is_here(name: str) -> bool:
    try:
        get_graph(name)
    except GraphNotFoundError:
        return False
    return True


if __name__ == "__main__":
    main()
