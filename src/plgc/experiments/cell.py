"""Run one cell: condense, learn from the result and score that; or attack what is released."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch_geometric.data import Data

from plgc.evaluation.scoring import learn, score, score_whole_link
from plgc.experiments.calls import condense_calls
from plgc.experiments.grid import Cell
from plgc.experiments.releases import attack_release
from plgc.experiments.store import Condensation, condense_once
from plgc.graphs.catalog import get_graph
from plgc.graphs.check import node_count
from plgc.graphs.load import load_graph
from plgc.graphs.views.protocol import draw_case
from plgc.rivals.methods import method_named
from plgc.runtime.provenance import peak_memory, provenance, reset_peak_memory


@dataclass(frozen=True)
class RunOptions:
    """Where records and condensed graphs go, and what cells are computed with.

    Attributes:
        records: the file of records.
        store: the folder of condensed graphs; None to condense anew for every cell.
        device: where to compute.
        threads: CPU threads of each process.
    """

    records: Path
    store: Path | None
    device: str = "cpu"
    threads: int = 1


def run_cell(cell: Cell, options: RunOptions) -> dict[str, Any]:
    """One record: the cell, its metrics and costs, and with what it was made."""
    start = time.perf_counter()
    graph = load_graph(cell.graph, seed=cell.seed, split=cell.seed % _fixed_splits(cell.graph))
    if cell.task == "membership":
        assert cell.nodes is not None
        attack = attack_release(cell.release or "default", graph, cell.nodes, cell.seed, options.device)
        record: dict[str, Any] = {"metrics": attack}
    else:
        record = _learn(cell, graph, options)
    metrics = {name: value for name, value in record.pop("metrics").items() if math.isfinite(value)}
    return {
        "cell": asdict(cell),
        "metrics": metrics,
        **record,
        "seconds": time.perf_counter() - start,
        "graph_nodes": node_count(graph),
        "split": graph.split_origin,
        **provenance(options.device),
    }


def _learn(cell: Cell, graph: Data, options: RunOptions) -> dict[str, Any]:
    """Condense, source by source, learn from the condensed graphs and score the result."""
    case, device = draw_case(graph, cell.protocol, cell.seed), options.device
    calls, edges_cut = condense_calls(cell, case) if method_named(cell.method).condenses else ([], None)
    checkpoints = options.records.parent / "checkpoints"
    made = [condense_once(options.store, call, device, checkpoints) for call in calls]
    reset_peak_memory(device)
    start = time.perf_counter()
    if cell.method == "whole" and cell.task == "link":
        metrics = score_whole_link(case, seed=cell.seed, device=device)
    else:
        learned = learn(
            cell.method,
            case,
            [one.condensed for one in made],
            nodes=cell.nodes,
            preset=cell.preset or "default",
            kind=cell.backbone,
            seed=cell.seed,
            device=device,
            combine=cell.combine,
        )
        metrics = score(learned, case, cell.task, seed=cell.seed)
    if edges_cut is not None:
        metrics["edges_cut"] = edges_cut
    record = {
        "metrics": metrics,
        "clean_labels": None if case.clean is None or cell.task != "node" else case.clean.numel(),
        "learn_seconds": time.perf_counter() - start,
        "learn_peak_memory_bytes": peak_memory(device),
    }
    return record | (_cost(made) if made else {})


def _cost(made: list[Condensation]) -> dict[str, Any]:
    """The cost of condensing, over all sources; the settings are the first one's, since all have the same."""
    peaks = [one.peak_memory_bytes for one in made if one.peak_memory_bytes is not None]
    chosen = [one.condensed.chosen for one in made]
    return {
        "kept_nodes": sum(one.condensed.num_nodes for one in made),
        "condense_seconds": sum(one.seconds for one in made),
        "condense_peak_memory_bytes": max(peaks, default=None),
        "reused": all(one.reused for one in made),
        "bytes": sum(len(one.condensed.to_bytes()) for one in made),
        "artifact_sha256": "+".join(one.sha256 for one in made),
        "settings": made[0].condensed.settings,
        "chosen": chosen[0] if len(chosen) == 1 else chosen,
    }


def _fixed_splits(name: str) -> int:
    """How many fixed splits a graph has; 1 for a graph without masks."""
    try:
        with np.load(get_graph(name), allow_pickle=False) as file:
            shape = file["train_mask"].shape
    except Exception:  # no masks, or no archive: loading the graph will say what is wrong with it
        return 1
    return min(shape) if len(shape) == 2 else 1
