"""Graphs beyond memory, from edge list to answers: memory, time and disk of every step; part h of ``make bench``.

    python benchmarks/beyond_memory.py --sizes small,products,papers-tenth --folder build/beyond [--out FILE]

A generated graph is written as raw npy files, stored, condensed, and a head is trained that predicts every node, each
in a process of its own within ``--memory``. ``papers-…`` is condensed in streamed parts on two Ray nodes of this
machine; a worker is killed and a node removed on the way, and the bytes are compared with those of a run without Ray:
of all parts of a small graph, of those that the lost workers were condensing of a large one. A share of a size may
follow it, as in ``products:0.125``.

Finished steps are kept in FOLDER, so the same command goes on where it was stopped; ``steps.json`` in the folder of
each size has what they took. At the end growth is fitted over the sizes of a kind and projected to ogbn-papers100M.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from beyond_cluster import two_nodes
from beyond_steps import Steps, plgc_command
from plgc.artifact.condensed import CondensedGraph
from plgc.experiments.records import append_record
from plgc.runtime.options import parse_memory
from plgc.runtime.provenance import provenance
from plgc.sources.manifest import MANIFEST
from topic_graph import PAPERS, SIZES, TopicGraph, write_topic_graph

ROOT = Path(__file__).parents[1]
FOLDER = Path(os.path.relpath(ROOT / "build" / "beyond"))  # records name what is in it
WIDTH = 512  # columns of H in the pass that is measured
ALLOWED = {"whole": "4GiB", "parts": "2GiB"}  # of every command; with parts, of every task
HEAD_A_NODE = 580  # bytes that heads of graphs in parts may take: so that slices are as wide whatever the size
LEAST_OF_HEADS = 1 << 30  # bytes
STEPS = ("store", "condense", "train", "predict")
STORING = {"whole": "1GiB", "parts": "2GiB"}
RATIO, NODES, HALO = 0.0005, 1024, 1
A_PART, LEAST_PARTS = 350_000, 4  # nodes of a part, about: parts are as large whatever the size
LABELS = 20_000  # that a head learns from, of larger graphs: all of millions would not fit into the limit
FULL = ("products:0.25", "products", "papers-tenth:0.25", "papers-tenth")
QUICK = ("small:0.5", "small", "small-parts")


@dataclass(frozen=True)
class Size:
    """A graph to be measured: what it is made from, and whether it is condensed in parts."""

    name: str
    spec: TopicGraph
    parts: bool

    @staticmethod
    def of(text: str) -> Size:
        """A size by name, with a share of it where one follows."""
        name, _, share = text.partition(":")
        spec = SIZES[name.removesuffix("-parts")]
        return Size(text.replace(":", "_"), spec.scaled(float(share)) if share else spec, name not in WHOLE)


WHOLE = ("tiny", "small", "products")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(FULL), help="comma-separated, small ones first")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="work folder; finished steps in it are kept")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "bench.jsonl")
    parser.add_argument("--memory", help="of each command, or of each task of parts")
    parser.add_argument("--parts", type=int, help="of the sizes that are condensed in parts")
    parser.add_argument("--pass", dest="passed", type=Path, help="only measure one product with Â of this stored graph")
    parser.add_argument(
        "--last", default=STEPS[-1], choices=STEPS, help="the last step, where the disk has no room for more"
    )
    given = parser.parse_args()
    if given.passed is not None:
        print(json.dumps(measure_pass(given.passed)))
        return
    measure(given.sizes.split(","), given.folder, given.out, memory=given.memory, parts=given.parts, last=given.last)


def measure(
    sizes: Sequence[str],
    folder: Path,
    out: Path,
    *,
    quick: bool = False,
    memory: str | None = None,
    parts: int | None = None,
    last: str = STEPS[-1],
) -> dict[str, Any]:
    """Measure every size, and growth over those of a kind; a record is added for each."""
    found = list[dict[str, Any]]()
    for size in map(Size.of, sizes):
        one = measure_size(size, folder / size.name, memory, parts, last)
        show(one)
        append_record(out, {"bench": "beyond_memory", "quick": quick, **one, **provenance()})
        found.append(one)
    growth = {kind: fit([one for one in found if one["kind"] == kind]) for kind in ("whole", "parts")}
    growth = {kind: steps for kind, steps in growth.items() if steps}
    for kind, steps in growth.items():
        print(f"\ngrowth, {kind}, and projected to {PAPERS[0]:,} nodes and {PAPERS[1]:,} entries:")
        for name, one in steps.items():
            powers = ", ".join(f"{what} {power:.2f}" for what, power in one["exponents"].items())
            projected = f"{one['projected']['seconds'] / 3600:.1f} h, {one['projected']['memory'] / 2**30:.1f} GiB"
            print(f"  {name:<10} exponents: {powers}; {projected}, {one['projected']['disk'] / 2**30:,.0f} GiB of disk")
    if growth:
        append_record(out, {"bench": "beyond_memory_growth", "quick": quick, "growth": growth, **provenance()})
    return {"sizes": found, "growth": growth}


def measure_size(
    size: Size, folder: Path, memory: str | None, parts: int | None, last: str = STEPS[-1]
) -> dict[str, Any]:
    """All steps of one size, or those up to ``last``."""
    steps, kind = Steps(folder), "parts" if size.parts else "whole"
    allowed = ["--memory", memory or ALLOWED[kind]]
    raw, stored, model, answers = (folder / name for name in ("raw", "stored", "model.safetensors", "answers.parquet"))
    made = folder / ("condensed" if size.parts else "condensed.safetensors")
    steps.call("generate", lambda: _timed(lambda: write_topic_graph(size.spec, raw)))
    if "store" not in steps.done:
        shutil.rmtree(stored, ignore_errors=True)
    store = steps.run("store", plgc_command("data", "store", str(raw), "--memory", STORING[kind], "-o", str(stored)))
    counts = {"nodes": store["told"]["nodes"], "entries": store["told"]["edges"], "features": size.spec.features}
    parts = parts or max(LEAST_PARTS, round(counts["nodes"] / A_PART))
    cut = ["condense", str(stored), "--parts", str(parts), "--partition", "stream", "--halo", str(HALO)]
    cut += ["--nodes", str(max(NODES, 16 * parts)), *allowed]
    if size.parts:
        _condense_parts(steps, cut, made, allowed[1], parts)
    else:
        sized = ["--ratio", str(RATIO)]
        steps.run("condense", plgc_command("condense", str(stored), *sized, *allowed, "--force", "-o", str(made)))
        own = [sys.executable, str(Path(__file__)), "--pass", str(stored)]
        one = steps.run("pass", own)["told"]
        steps.call("ratio", lambda: _ratio(steps.done["condense"], one, made))
    wanted = STEPS[: STEPS.index(last) + 1]
    heads = f"{max(LEAST_OF_HEADS, HEAD_A_NODE * counts['nodes'])}B" if size.parts and memory is None else allowed[1]
    if "train" in wanted:
        train = ["train", str(made), "--graph", str(stored), "--memory", heads, "--force", "-o", str(model)]
        train += ["--labels", str(LABELS)] if counts["nodes"] > 10 * LABELS else []
        steps.run("train", plgc_command(*train))
    if "predict" in wanted:
        predict = ["predict", str(model), "--graph", str(stored), "--memory", heads, "--force", "-o", str(answers)]
        steps.run("predict", plgc_command(*predict))
        steps.call("check", lambda: _check(answers, stored))
    if size.parts:
        lost = steps.done["condense"]["lost"] or range(1, parts + 1)  # small parts are not mapped: none is known
        steps.call("same", lambda: _same_without_ray(cut, made, lost))
    return {
        "kind": kind,
        "size": size.name,
        **counts,
        "memory": allowed[1],
        "memory_of_heads": heads,
        "steps": steps.done,
    }


def _condense_parts(steps: Steps, cut: list[str], made: Path, memory: str, parts: int) -> None:
    """On two Ray nodes, one of which is lost."""
    if "condense" not in steps.done:
        with two_nodes(parse_memory(memory) * 11 // 10) as nodes:
            harm = nodes.harm(made / MANIFEST, parts)
            ray = plgc_command(*cut, "--engine", "ray", "--address", nodes.address, "-o", str(made))
            found = steps.run("condense", ray, others=nodes.processes, meanwhile=harm)
            found |= {"events": nodes.events, "lost": sorted(nodes.lost)}
            steps.save()


def _same_without_ray(cut: list[str], made: Path, parts: Iterable[int]) -> dict[str, Any]:
    """Whether parts have the same bytes when they are condensed once more in one process, where nothing is lost."""
    alone = made.with_name("alone")
    shutil.rmtree(alone, ignore_errors=True)
    shutil.copytree(made, alone)
    names = [path.name for part in parts for path in alone.glob(f"*-part{part}.safetensors")]
    for name in names:
        (alone / name).unlink()
    subprocess.run(plgc_command(*cut, "-o", str(alone)), stdout=subprocess.DEVNULL, check=True)
    same = [(alone / name).read_bytes() == (made / name).read_bytes() for name in names]
    shutil.rmtree(alone)
    return {"parts_compared": len(names), "same_bytes": len(names) > 0 and all(same)}


def measure_pass(folder: Path) -> dict[str, Any]:
    """Seconds, and those of the CPU, of Â H from disk, H mapped from a file and the result written to another."""
    import torch

    import plgc
    from plgc.runtime.scratch import scratch
    from plgc.sparse.on_disk import stored_adjacency, stream_product

    torch.set_num_threads(1)
    graph = plgc.load_graph(folder, notice=False)
    assert graph.edge_index is not None
    with scratch(folder.parent) as place:
        dense, result = place.empty(graph.num_nodes or 0, WIDTH), place.empty(graph.num_nodes or 0, WIDTH)
        for rows in dense.split(1 << 14):
            rows.copy_(torch.rand(rows.shape))
        start, busy = time.perf_counter(), time.process_time()
        for first, rows in stream_product(stored_adjacency(graph.edge_index, graph.num_nodes or 0), dense):
            result[first : first + len(rows)] = rows
        return {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - busy, "width": WIDTH}


def _ratio(condense: dict[str, Any], one: dict[str, Any], made: Path) -> dict[str, Any]:
    """Condensing beside (epochs + passes) of one pass of Â H; a pass embeds all nodes by one encoder with edges."""
    condensed = CondensedGraph.load(made)
    settings = condensed.settings["pseudo_labels"]
    epochs = settings["rounds"] * settings["round_epochs"]
    passes = 2 + sum(branch["layers"] for branch in condensed.chosen["branches"] if branch["kind"] != "mlp")
    return {
        "epochs": epochs,
        "passes": passes,
        "ratio": condense["seconds"] / ((epochs + passes) * one["seconds"]),
        "cpu_ratio": condense["cpu_seconds"] / ((epochs + passes) * one["cpu_seconds"]),
    }


def _check(answers: Path, stored: Path) -> dict[str, Any]:
    """How many nodes have an answer, and the share of the test nodes for which it is right."""
    from pyarrow import parquet

    labels, tested = np.load(stored / "y.npy", mmap_mode="r"), np.load(stored / "test_mask.npy")
    table = parquet.read_table(answers, columns=["predicted_class"])
    told = np.asarray(table["predicted_class"].to_pylist())
    right = told[tested].astype(np.int64) == labels[tested]
    return {"answers": len(told), "of_nodes": len(labels), "test_accuracy": float(100 * right.mean())}


def _timed(work: Any) -> dict[str, Any]:
    start, busy = time.perf_counter(), time.process_time()
    work()
    return {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - busy}


def fit(sizes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """For every step: exponents in nodes + entries of time, memory and disk, and what papers100M would take.

    Time and disk grow from the largest size by the fitted power, at least in proportion; memory by what a node adds.
    """
    if len(sizes) < 2:
        return {}
    grown = [one["nodes"] + one["entries"] for one in sizes]
    nodes = [one["nodes"] for one in sizes]
    found = dict[str, Any]()
    for name in (name for name in STEPS if all(name in one["steps"] for one in sizes)):
        steps = [one["steps"][name] for one in sizes]
        values = {
            "seconds": [step["cpu_seconds"] for step in steps],
            "memory": [step["peak_memory_bytes"] for step in steps],
            "disk": [max(1, step["peak_disk_bytes"]) for step in steps],
        }
        powers = {what: float(np.polyfit(np.log(grown), np.log(value), 1)[0]) for what, value in values.items()}
        larger = sum(PAPERS) / grown[-1]
        a_node = max(0.0, (values["memory"][-1] - values["memory"][0]) / max(1, nodes[-1] - nodes[0]))
        projected = {
            "seconds": values["seconds"][-1] * larger ** max(1.0, powers["seconds"]),
            "memory": values["memory"][-1] + a_node * (PAPERS[0] - nodes[-1]),
            "disk": values["disk"][-1] * larger ** max(1.0, powers["disk"]),
        }
        found[name] = {"exponents": powers, "projected": projected, "bytes_a_node": a_node}
    return found


def show(one: dict[str, Any]) -> None:
    """Print what the steps of a size took."""
    print(f"\n(h) {one['size']}: {one['nodes']:,} nodes, {one['entries']:,} entries, within {one['memory']}")
    for name, step in one["steps"].items():
        if "peak_memory_bytes" in step:
            words = f"{step['seconds']:,.0f} s, {step['cpu_seconds']:,.0f} CPU-s, "
            words += f"peak {step['peak_memory_bytes'] / 2**30:.2f} GiB"
            words += f" (first process {(step['peak_first_process_bytes'] or 0) / 2**30:.2f})"
            words += f", {step['peak_disk_bytes'] / 2**30:.2f} GiB of disk"
            words += f"; {', '.join(step['events'])}" if step.get("events") else ""
        else:
            words = ", ".join(
                f"{key} {value:,.2f}" if isinstance(value, float) and math.isfinite(value) else f"{key} {value}"
                for key, value in step.items()
            )
        print(f"  {name:<10} {words}", flush=True)


if __name__ == "__main__":
    main()
