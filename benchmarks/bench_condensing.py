"""Condensing, rebuilding from the file and training a head, each timed by itself."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import plgc
from bench_graphs import bench_graph
from community_graphs import REDDIT, write_community_graph
from plgc.graphs.labels import training_labels
from plgc.method import settings as config
from plgc.method.settings import CondenseSettings
from plgc.rivals.methods import METHODS, condense_with
from plgc.sparse.product import warm_up


def measure_condensing(
    graph: str,
    device: str,
    nodes: int,
    file: str | None = None,
    fixed: bool = False,
    memory: str | None = None,
    precision: str | None = None,
) -> dict[str, Any]:
    """Seconds of one condensation of a loaded graph, stage I included; the file is kept where a path is given.

    On a GPU twice: the first in a process has kernels to load, which takes a part of a second (``first_seconds``).
    """
    data = bench_graph(graph)
    warm_up(device)
    settings = fixed_length() if fixed else None
    limits: dict[str, Any] = {"memory": memory, "precision": precision}

    def timed() -> tuple[plgc.CondensedGraph, float]:
        start = time.perf_counter()
        condensed = plgc.condense(data, nodes=nodes, seed=0, device=device, settings=settings, **limits)
        return condensed, time.perf_counter() - start

    first = {} if device == "cpu" else {"first_seconds": timed()[1]}
    condensed, seconds = timed()
    if file is not None:
        condensed.save(file)
    entries = 0 if data.edge_index is None else data.edge_index.shape[1]
    rounds = len(condensed.curves["explained"]) if condensed.curves else None
    size = {"nodes": data.num_nodes, "entries": entries, "condensed_nodes": nodes}
    batch = condensed.chosen.get("batch_nodes")
    return {"seconds": seconds, **first, **size, "rounds": rounds, **limits, "batch_nodes": batch}


def measure_generating(device: str, share: float, folder: str) -> dict[str, Any]:
    """Seconds to write a share of a graph of Reddit's size into a folder."""
    start = time.perf_counter()
    write_community_graph(REDDIT if share == 1 else REDDIT.scaled(share), folder)
    return {"seconds": time.perf_counter() - start}


def fixed_length() -> CondenseSettings:
    """The default preset with two rounds: growth with the size of the graph shows in them as well as in all."""
    default = config.preset("default")
    return replace(default, pseudo_labels=replace(default.pseudo_labels, rounds=2))


def measure_rebuilding(graph: str, device: str, file: str) -> dict[str, Any]:
    """Seconds to open the file and rebuild the backbone, and apart from that to train a head on all labels."""
    data = bench_graph(graph)
    warm_up(device)
    start = time.perf_counter()
    backbone = plgc.reconstruct(plgc.CondensedGraph.load(file), device=device)
    rebuilt = time.perf_counter()
    plgc.finetune(backbone, data)
    return {"rebuild_seconds": rebuilt - start, "head_seconds": time.perf_counter() - rebuilt}


def measure_method(graph: str, device: str, nodes: int, method: str) -> dict[str, Any]:
    """Seconds of one condensation by any method; supervised ones get the training labels."""
    data = bench_graph(graph)
    warm_up(device)
    labels = training_labels(data) if METHODS[method].supervised else None
    start = time.perf_counter()
    condense_with(method, data, nodes=nodes, seed=0, labels=labels, device=device)
    return {"seconds": time.perf_counter() - start, "condensed_nodes": nodes}
