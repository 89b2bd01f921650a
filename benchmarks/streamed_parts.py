"""What cutting a graph on disk into streamed parts costs in accuracy, beside the uncut graph in memory.

    PLGC_DATA=… python benchmarks/streamed_parts.py arxiv_llm_text:454 --seeds 3

`uncut` is condensed in memory. `1` is condensed from disk within --memory; `8`, `64` and so on are that many parts of
the stored graph, cut by `--partition stream` with a halo of one hop, each condensed within --memory to its share of the
nodes, 16 rows at least, and merged into one file of as many rows as `uncut` has. All are scored on test nodes, with all
labels and with three per class, as shipped and with the learned part alone. A line of JSON for every file is added to
--out, and what is there is not made again; at the end differences to `uncut` on stderr, paired by seed and label draw,
with 95 % intervals.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import plgc
from plgc.evaluation.kept import ways_of
from plgc.evaluation.scoring import learn, score
from plgc.experiments.records import append_record
from plgc.graphs import save_stored
from plgc.graphs.views.protocol import Protocol, draw_case
from plgc.runtime import mapped
from plgc.runtime.provenance import provenance
from plgc.sparse.prepared import PreparedGraphs
from publish_streamed import UNCUT, difference_lines

ROOT = Path(__file__).parents[1]
LEAST_ROWS, HALO = 16, 1


def condensed(
    graph: str, stored: Path, made: str, nodes: int, seed: int, memory: str, workers: int
) -> plgc.CondensedGraph:
    """One file of so many rows."""
    how: dict[str, Any] = {"seed": seed, "threads": 1, "progress": False}
    if made == UNCUT:
        return plgc.condense(plgc.load_graph(graph, notice=False), nodes=nodes, **how)
    if made == "1":
        return plgc.condense(plgc.load_graph(stored, notice=False), nodes=nodes, memory=memory, **how)
    folder, parts = stored / f"parts-{made}-{seed}", int(made)
    rows = max(nodes, LEAST_ROWS * parts)
    cut: dict[str, Any] = {"nodes": rows, "halo": HALO, "seed": seed, "memory": memory, "cpus": 1, "progress": False}
    cut |= {"engine": "processes", "workers": workers} if workers > 1 else {}
    sources = plgc.condense_parts(stored, folder, parts, "stream", **cut)
    print(f"{graph} in {made} parts: {json.dumps(sources.partition)}", file=sys.stderr, flush=True)
    merged = plgc.merge(list(plgc.load_sources(folder)), nodes=nodes, seed=seed, progress=False)
    shutil.rmtree(folder)
    return merged


def scores(graph: str, file: plgc.CondensedGraph, shots: int | None, draws: Sequence[int], seed: int) -> dict[str, Any]:
    """Accuracies of every label draw, as shipped and with the learned part alone."""
    whole, prepared = plgc.load_graph(graph, notice=False), PreparedGraphs()
    cases = [draw_case(whole, Protocol(shots=shots), draw) for draw in draws]
    ways = ways_of(learn("plgc", cases[0], [file], seed=seed, prepared=prepared))
    return {
        f"{way}accuracy": [score(model, case, "node", seed=seed, prepared=prepared)["accuracy"] for case in cases]
        for way, model in ways.items()
    }


def cpu_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    return sum(os.times()[:4])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", metavar="GRAPH:NODES")
    parser.add_argument("--parts", default=f"{UNCUT},1,8,64")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first of the seeds")
    parser.add_argument("--workers", type=int, default=1, help="parts side by side")
    parser.add_argument("--draws", type=int, default=3, help="of three labels per class, for every seed")
    parser.add_argument("--memory", default="2GiB", help="of condensing from disk, for every part")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "streamed")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "streamed.jsonl")
    given = parser.parse_args()
    torch.set_num_threads(1)
    mapped.MAPPED_FROM = 0  # graphs of any size stay in their files
    graph, _, nodes = given.graph.partition(":")
    stored = given.folder / graph
    if not (stored / "edge_index.npy").exists():
        save_stored(plgc.load_graph(graph, notice=False), stored)
    lines = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    for seed in range(given.first, given.first + given.seeds):
        for made in given.parts.split(","):
            if any((line["graph"], line["made"], line["seed"]) == (graph, made, seed) for line in lines):
                continue
            start = cpu_seconds()
            file = condensed(graph, stored, made, int(nodes), seed, given.memory, given.workers)
            line = {"graph": graph, "made": made, "seed": seed, "rows": file.num_nodes}
            line["condense_cpu_seconds"] = cpu_seconds() - start
            line["all"] = scores(graph, file, None, [seed], seed)
            draws = range(1000 * seed, 1000 * seed + given.draws)
            line["3"] = scores(graph, file, 3, draws, seed)
            line |= {"memory": given.memory, **provenance()}
            append_record(given.out, line)
            lines.append(line)
            print(json.dumps(line), flush=True)
    print("\n".join(difference_lines([line for line in lines if line["graph"] == graph])), file=sys.stderr)


if __name__ == "__main__":
    main()
