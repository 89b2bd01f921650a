"""What condensing costs, as ratios measured in one run; ``make bench`` and ``make bench QUICK=1`` call it.

    PLGC_DATA=… python benchmarks/bench.py [--quick] [--parts a,b] [--device cuda] [--out results/bench.jsonl]

Parts: (a) propagation beside the copy bandwidth and PyG's GCNConv, (b) a condensation beside one whole-graph training,
(c) rebuilding from the file and training a head beside the same, (d) other methods that condense, (e) growth over four
sizes, (g) a generated graph of Reddit's size, from disk, (h) graphs beyond memory, from edge list to answers
(``beyond_memory.py``, whose finished steps are kept), (i) condensing and the head beside version 0.1. Each measurement
runs in a process of its own and reports its peak memory (f). Each part adds a line to the records, with commit and
machine. With ``--quick`` all but (a) run on small generated graphs, three minutes in all but for (h). On a GPU (a)
takes a graph of two million nodes, well beyond its cache.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import beyond_memory
from bench_child import run_child
from bench_graphs import arxiv_or_generated
from plgc.experiments.records import append_record
from plgc.runtime.provenance import provenance

PARTS = {
    "a": "propagation",
    "b": "condensing",
    "c": "rebuilding",
    "d": "methods",
    "e": "growth",
    "g": "reddit_sized",
    "h": "beyond_memory",
    "i": "finetuning",
}
MEMORY = "4GiB"  # allowed on a CPU: small graphs fit, those of arxiv's size are trained on in batches
REDDIT_MEMORY = "12GiB"
LARGER = {  # nodes, and entries with both directions of every edge, as OGB states them
    "ogbn-products": (2_449_029, 2 * 61_859_140),
    "ogbn-papers100M": (111_059_956, 2 * 1_615_685_872),
}


@dataclass(frozen=True)
class Plan:
    """Sizes of a run."""

    large: str
    repeats: int
    graph: str
    nodes: int
    timed_epochs: int
    rival_graph: str
    rival_nodes: int
    rival_limit: float
    shares: tuple[float, ...]
    growth_nodes: int
    reddit_share: float


def plan(quick: bool, device: str) -> Plan:
    graph = arxiv_or_generated()
    large = graph if device == "cpu" else "edges:12"
    if quick:
        return Plan(large, 5, "generated:0.04", 42, 5, "demo", 40, 20.0, (0.0075, 0.015, 0.03, 0.06), 32, 0.02)
    shares = (0.0625, 0.125, 0.25, 0.5) if device == "cpu" else (0.5, 1.0, 2.0, 4.0)
    return Plan(large, 15, graph, 423, 20, "demo", 70, 3600.0, shares, 100, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small graphs, three minutes on two cores")
    parser.add_argument("--parts", default=",".join(PARTS), help="which parts, as in a,b,c (c and i need b)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results" / "bench.jsonl")
    arguments = parser.parse_args()
    chosen = [part.strip() for part in arguments.parts.split(",")]
    unknown = [part for part in chosen if part not in PARTS]
    if unknown:
        parser.error(f"unknown part {', '.join(unknown)}: choose from {', '.join(PARTS)}")
    if {"c", "i"} & set(chosen) and "b" not in chosen:
        parser.error("parts c and i open the file that part b makes: give b too")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(
            plan(arguments.quick, arguments.device), arguments.device, arguments.quick, arguments.out, Path(folder)
        )
        for part in chosen:
            getattr(bench, PARTS[part])()
    print(f"\n{time.perf_counter() - start:.0f} s; records in {arguments.out}")


class Bench:
    """The parts of one run, and what later parts need of earlier ones."""

    def __init__(self, sizes: Plan, device: str, quick: bool, out: Path, folder: Path):
        self.sizes, self.device, self.quick, self.out = sizes, device, quick, out
        self.memory = MEMORY if device == "cpu" else None
        self.folder, self.file = folder, str(folder / "condensed.safetensors")
        self.whole: float | None = None

    def propagation(self) -> None:
        """(a)."""
        graph = self.sizes.large
        found = run_child("propagation", graph=graph, device=self.device, repeats=self.sizes.repeats)
        self._title(f"(a) propagation, {graph}: {found['nodes']:,} nodes, {found['entries']:,} entries, 128 wide")
        self._line("copy bandwidth", f"{found['copy_bandwidth'] / 1e9:.1f} GB/s")
        for order, share in found["share_of_copy"].items():
            rate = found["gather_bandwidth"][order]
            words = f"{rate / 1e9:.1f} GB/s, {share:.0%} of the copy bandwidth"
            self._line(f"forward, nodes in {order.replace('_', ' ')}", words)
            self._line("  GCNConv / ours, forward + backward", f"{found['gcnconv_over_ours'][order]:.1f}×")
        self._line("a masked view", f"{1e3 * found['view_seconds']:.0f} ms")
        self._keep("propagation", graph, found)

    def condensing(self) -> None:
        """(b)."""
        graph = self.sizes.graph
        training = run_child("training", graph=graph, device=self.device, timed=self.sizes.timed_epochs)
        self.whole = training["seconds_extrapolated"]
        asked = {"graph": graph, "device": self.device, "nodes": self.sizes.nodes, "memory": self.memory}
        condensing = run_child("condensing", **asked, file=self.file)
        ratio = condensing["seconds"] / self.whole
        self._title(f"(b) condensing to {self.sizes.nodes} nodes, {graph}")
        self._line("whole-graph training, extrapolated", f"{self.whole:.0f} s{_memory(training)}")
        self._line("condensing", _took(condensing))
        self._line("condensing / whole-graph training", f"{ratio:.2f}")
        found: dict[str, Any] = {"training": training, "condensing": condensing, "condensing_share": ratio}
        if self.device != "cpu":
            half = found["condensing_bfloat16"] = run_child("condensing", **asked, precision="bfloat16")
            self._line("condensing in bfloat16", _took(half))
        self._keep("condensing", graph, found)

    def rebuilding(self) -> None:
        """(c)."""
        assert self.whole is not None
        found = run_child("rebuilding", graph=self.sizes.graph, device=self.device, file=self.file)
        faster = {step: self.whole / found[f"{step}_seconds"] for step in ("rebuild", "head")}
        self._title(f"(c) from the file, {self.sizes.graph}")
        self._line("rebuilding the backbone", f"{found['rebuild_seconds']:.2f} s: {faster['rebuild']:.0f}× less time")
        self._line("a head on all training labels", f"{found['head_seconds']:.1f} s: {faster['head']:.0f}× less time")
        self._line("peak memory", _memory(found).strip(", "))
        self._keep("rebuilding", self.sizes.graph, {**found, "whole_over": faster})

    def methods(self) -> None:
        """(d)."""
        graph, nodes = self.sizes.rival_graph, self.sizes.rival_nodes
        self._title(f"(d) methods that condense, {graph} to {nodes} nodes")
        found = {}
        for method in ("plgc", "cgc-x", "gecc", "gcond-x"):
            limit = self.sizes.rival_limit
            found[method] = run_child("method", limit, graph=graph, device=self.device, nodes=nodes, method=method)
            one = found[method]
            words = f"over {limit:.0f} s" if "over_limit" in one else _took(one)
            self._line(method, words)
        self._keep("methods", graph, {"methods": found})

    def growth(self) -> None:
        """(e)."""
        self._title(f"(e) growth, generated graphs to {self.sizes.growth_nodes} nodes, two rounds")
        found = []
        for share in self.sizes.shares:
            graph = f"generated:{share}"
            one = run_child("condensing", graph=graph, device=self.device, nodes=self.sizes.growth_nodes, fixed=True)
            found.append(one)
            self._line(f"{one['nodes']:,} nodes, {one['entries']:,} entries", _took(one))
        sizes = [one["nodes"] + one["entries"] for one in found]
        exponents = {
            name: float(np.polyfit(np.log(sizes), np.log([one[name] for one in found]), 1)[0])
            for name in ("seconds", "peak_memory_bytes")
        }
        self._line("exponent in nodes + entries", f"{exponents['seconds']:.2f}")
        # From the largest on at least in proportion: a smaller power is that of parts which stop to count.
        power, largest = max(1.0, exponents["seconds"]), found[-1]["seconds"]
        projected = {name: largest * (sum(of) / sizes[-1]) ** power for name, of in LARGER.items()}
        for name, seconds in projected.items():
            self._line(f"projected to the size of {name}", f"{seconds:,.0f} s")
        self._keep("growth", "generated", {"runs": found, "exponents": exponents, "projected_seconds": projected})

    def reddit_sized(self) -> None:
        """(g)."""
        folder, nodes = str(self.folder / "reddit"), max(20, round(153 * self.sizes.reddit_share))
        memory = REDDIT_MEMORY if self.device == "cpu" else None
        made = run_child("generating", device="cpu", share=self.sizes.reddit_share, folder=folder)
        one = run_child("condensing", graph=folder, device=self.device, nodes=nodes, memory=memory)
        found: dict[str, Any] = {"generating": made, "condensing": one, "share": self.sizes.reddit_share}
        self._title(f"(g) of Reddit's size: {one['nodes']:,} nodes, {one['entries']:,} entries, to {nodes} nodes")
        self._line("generating", _took(made))
        self._line("condensing", _took(one))
        if self.device != "cpu":
            half = run_child("condensing", graph=folder, device=self.device, nodes=nodes, precision="bfloat16")
            found["condensing_bfloat16"] = half
            self._line("condensing in bfloat16", _took(half))
        self._keep("reddit_sized", "generated", found)

    def beyond_memory(self) -> None:
        """(h)."""
        sizes = beyond_memory.QUICK if self.quick else beyond_memory.FULL
        beyond_memory.measure(sizes, beyond_memory.FOLDER, self.out, quick=self.quick)

    def finetuning(self) -> None:
        """(i)."""
        graph = self.sizes.graph
        found = run_child("finetuning", graph=graph, device=self.device, file=self.file, repeats=3)
        self._title(f"(i) CPU-seconds beside version 0.1, {graph}")
        rows = (("condensing", "condensing"), ("few", "a head, 3 labels per class"), ("all", "a head, all labels"))
        for name, words in rows:
            times = f"{found[f'{name}_seconds']:.2f} s / {found[f'{name}_earlier_seconds']:.2f} s"
            self._line(words, f"{times}: {found[f'{name}_ratio']:.1f}×")
        self._keep("finetuning", graph, found)

    def _title(self, words: str) -> None:
        print(f"\n{words}", flush=True)

    def _line(self, name: str, words: str) -> None:
        print(f"  {name:<44} {words}", flush=True)

    def _keep(self, name: str, graph: str, found: dict[str, Any]) -> None:
        record = {"bench": name, "quick": self.quick, "graph": graph, **found, **provenance(self.device)}
        self.out.parent.mkdir(parents=True, exist_ok=True)
        append_record(self.out, record)


def _took(found: dict[str, Any]) -> str:
    """Seconds and memory; of the first run in a process too, where it was timed."""
    first = f" ({found['first_seconds']:.1f} s the first time in a process)" if "first_seconds" in found else ""
    return f"{found['seconds']:.1f} s{first}{_memory(found)}"


def _memory(found: dict[str, Any]) -> str:
    """(f): the peak of the process, and of the GPU where there is one."""
    words = f", peak {found['peak_memory_bytes'] / 2**30:.2f} GiB"
    gpu = found.get("peak_gpu_memory_bytes")
    return words if gpu is None else f"{words}, {gpu / 2**30:.2f} GiB on the GPU"


if __name__ == "__main__":
    main()
