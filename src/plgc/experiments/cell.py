"""Run one cell: condense what it asks for, learn from that, score it; or attack it."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch_geometric.data import Data

from plgc.evaluation.scoring import learn, score, score_whole_link
from plgc.experiments.grid import Cell
from plgc.experiments.releases import attack_release
from plgc.experiments.sources import Source, Sources, sources_of
from plgc.experiments.store import Condensation, condense_once
from plgc.graphs.catalog import get_graph
from plgc.graphs.check import node_count
from plgc.graphs.load import load_graph
from plgc.graphs.views.protocol import draw_case
from plgc.rivals.methods import method_named
from plgc.runtime.provenance import peak_memory as measured_peak
from plgc.runtime.provenance import provenance, reset_peak_memory


@dataclass(frozen=True)
class Place:
    """Where and how cells run.

    Attributes:
        records: the file of records.
        store: where condensed graphs are kept; None to condense anew for every cell.
        device: where to compute.
        threads: CPU threads of each process.
    """

    records: Path
    store: Path | None
    device: str = "cpu"
    threads: int = 1


def run_cell(cell: Cell, place: Place) -> dict[str, Any]:
    """One record: what the cell asked for, what came out, what it cost, and what it was made with."""
    start = time.perf_counter()
    graph = load_graph(cell.graph, seed=cell.seed, split=_split_of(cell))
    record = _attack(cell, graph, place) if cell.task == "membership" else _learn(cell, graph, place)
    metrics = {name: value for name, value in record.pop("metrics").items() if math.isfinite(value)}
    return {
        "cell": asdict(cell),
        "metrics": metrics,
        **record,
        "seconds": time.perf_counter() - start,
        "graph_nodes": node_count(graph),
        "split": graph.split_origin,
        **provenance(place.device),
    }


def _attack(cell: Cell, graph: Data, place: Place) -> dict[str, Any]:
    assert cell.nodes is not None
    return {"metrics": attack_release(cell.release or "default", graph, cell.nodes, cell.seed, place.device)}


def _learn(cell: Cell, graph: Data, place: Place) -> dict[str, Any]:
    """Condense what the cell asks for, source by source, learn from it and score that."""
    case = draw_case(graph, cell.protocol, cell.seed)
    made, sources = [], Sources([])
    if method_named(cell.method).condenses:
        sources = sources_of(cell, case)
        made = [_condense(cell, source, place) for source in sources.members]
    reset_peak_memory(place.device)
    begun = time.perf_counter()
    if cell.method == "whole" and cell.task == "link":
        metrics = score_whole_link(case, seed=cell.seed, device=place.device)
    else:
        learned = learn(
            cell.method,
            case,
            [part.condensed for part in made],
            nodes=cell.nodes,
            preset=cell.preset or "default",
            kind=cell.backbone,
            seed=cell.seed,
            device=place.device,
            combine=cell.combine,
        )
        metrics = score(learned, case, cell.task, seed=cell.seed)
    if sources.edges_cut is not None:
        metrics["edges_cut"] = sources.edges_cut
    record = {
        "metrics": metrics,
        "clean_labels": None if case.clean is None or cell.task != "node" else case.clean.numel(),
        "learn_seconds": time.perf_counter() - begun,
        "learn_peak_memory_bytes": measured_peak(place.device),
    }
    return record | (_cost(made) if made else {})


def _condense(cell: Cell, source: Source, place: Place) -> Condensation:
    return condense_once(
        place.store,
        cell.method,
        source.graph,
        source.labels,
        nodes=source.nodes,
        seed=source.seed,
        preset=cell.preset,
        device=place.device,
        checkpoint=place.records.parent / "checkpoints",
        min_cluster=source.min_cluster,
    )


def _cost(made: list[Condensation]) -> dict[str, Any]:
    """What condensing took, over all sources; settings are the first one's, for they have them in common."""
    peaks = [part.peak_memory_bytes for part in made if part.peak_memory_bytes is not None]
    chosen = [part.condensed.chosen for part in made]
    return {
        "kept_nodes": sum(part.condensed.num_nodes for part in made),
        "condense_seconds": sum(part.seconds for part in made),
        "condense_peak_memory_bytes": max(peaks, default=None),
        "reused": all(part.reused for part in made),
        "bytes": sum(len(part.condensed.to_bytes()) for part in made),
        "artifact_sha256": "+".join(part.sha256 for part in made),
        "settings": made[0].condensed.settings,
        "chosen": chosen[0] if len(chosen) == 1 else chosen,
    }


def _split_of(cell: Cell) -> int:
    """The seed-th of a graph's fixed splits, for a graph that has several."""
    return cell.seed % _fixed_splits(cell.graph)


def _fixed_splits(name: str) -> int:
    try:
        with np.load(get_graph(name), allow_pickle=False) as file:
            shape = file["train_mask"].shape
    except Exception:  # no masks, or no archive: what is wrong with a file is said where it is loaded
        return 1
    return min(shape) if len(shape) == 2 else 1
