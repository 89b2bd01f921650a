"""Run one cell: condense, learn from the result and score that; or attack what is released."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from plgc.downstream.backbone import BESIDE
from plgc.downstream.embedder import Embedder
from plgc.evaluation.forgetting import attack_forgotten, draw_forgetting
from plgc.evaluation.growth import score_growth
from plgc.evaluation.kept import KeptEmbedding, Ways, ways_of
from plgc.evaluation.over_seeds import CONTROLS
from plgc.evaluation.scoring import learn, score, score_ways, score_whole_link
from plgc.experiments.calls import condense_calls
from plgc.experiments.descent import MergeCall
from plgc.experiments.grid import Cell
from plgc.experiments.growing import grown_file, growth_of
from plgc.experiments.leaving import remaining_file
from plgc.experiments.releases import attack_release
from plgc.experiments.shared import SharedGraph, shared_graph
from plgc.experiments.store import Condensation, Once, condense_once
from plgc.experiments.variants import VARIANTS
from plgc.graphs.check import node_count
from plgc.graphs.formats.arrays import YEAR
from plgc.graphs.views.protocol import Case, Protocol, draw_case
from plgc.rivals.methods import method_named
from plgc.runtime.provenance import peak_memory, provenance, reset_peak_memory
from plgc.sparse.prepared import PreparedGraphs


@dataclass(frozen=True)
class RunOptions:
    """Where records and condensed graphs go, and what cells are computed with.

    Attributes:
        records: the file of records.
        store: the folder of condensed graphs; None to condense anew for every cell.
        reuse: whose graphs are kept there: ``all``, or ``supervised`` methods, whose key has the labels.
        device: where to compute.
        threads: CPU threads of each process.
    """

    records: Path
    store: Path | None
    device: str = "cpu"
    threads: int = 1
    reuse: str = "all"


def run_cell(cell: Cell, options: RunOptions) -> dict[str, Any]:
    """One record: the cell, its metrics and costs, and with what it was made.

    Metrics are means over the cell's label draws; where there are several, ``values`` has those of every draw.
    """
    start = time.perf_counter()
    shared = shared_graph(cell.graph, cell.seed, YEAR if cell.task == "growing" else None)
    if cell.task == "membership":
        assert cell.nodes is not None
        attack = attack_release(cell.release or "default", shared.graph, cell.nodes, cell.seed, options.device)
        record: dict[str, Any] = {"metrics": attack}
    elif cell.task == "growing":
        record = _grow(cell, shared, options)
    elif cell.task == "forgetting":
        record = _forget(cell, shared, options)
    else:
        record = _learn(cell, shared, options)
    metrics = {name: value for name, value in record.pop("metrics").items() if math.isfinite(value)}
    return {
        "cell": asdict(cell),
        "metrics": metrics,
        **record,
        "seconds": time.perf_counter() - start,
        "graph_nodes": node_count(shared.graph),
        "split": shared.graph.split_origin,
        **provenance(options.device),
    }


def _learn(cell: Cell, shared: SharedGraph, options: RunOptions) -> dict[str, Any]:
    """Condense, source by source, learn from the condensed graphs and score the result, draw by draw.

    What reads no labels is condensed once for all draws. Costs are those of the first draw.
    """
    method, device = method_named(cell.method), options.device
    made, outcomes, record, edges_cut = list[Condensation](), list[dict[str, float]](), dict[str, Any](), None
    store = options.store if options.reuse == "all" or method.supervised else None
    if store is None:
        shared = SharedGraph(shared.graph)  # every cell does everything anew
    shared.keep_only(_embedding_key(cell))
    for label_seed in cell.label_seeds:
        case = draw_case(shared.graph, cell.protocol, label_seed, cell.seed)
        if method.condenses and (method.supervised or not made):
            calls, edges_cut = condense_calls(cell, case, options.store)
            checkpoints = options.records.parent / "checkpoints"
            made = [condense_once(store, call, device, checkpoints) for call in calls]
            if cell.history == "merged":
                total = sum(one.condensed.num_nodes for one in made)
                made = [condense_once(store, MergeCall(made, total, cell.seed), device)]
        reset_peak_memory(device)
        metrics, cost = _score(cell, case, made, shared, device)
        outcomes.append(metrics)
        record = record or {
            "clean_labels": None if case.clean is None or cell.task != "node" else case.clean.numel(),
            **cost,
            **(_cost(made) if made else {}),
        }
    values = {name: [outcome[name] for outcome in outcomes] for name in outcomes[0]}
    metrics = {name: statistics.fmean(found) for name, found in values.items()}
    finite = {name: found for name, found in values.items() if math.isfinite(metrics[name])}
    return {
        "metrics": metrics | ({} if edges_cut is None else {"edges_cut": edges_cut}),
        **({"values": finite} if len(outcomes) > 1 else {}),
        **record,
    }


def _grow(cell: Cell, shared: SharedGraph, options: RunOptions) -> dict[str, Any]:
    """The file of a year, a head on the labels of that year, and its scores on the next."""
    growth = growth_of(cell, shared.graph)
    made = [grown_file(cell, shared, _once(options))] if method_named(cell.method).condenses else []
    reset_peak_memory(options.device)
    start, prepared = time.perf_counter(), PreparedGraphs()
    model = _model(cell, growth.case, made, prepared, options.device)
    ways: Ways = {"": KeptEmbedding(model)} if cell.method in CONTROLS else ways_of(model)
    metrics = score_growth(ways, growth, prepared)
    assert growth.case.clean is not None
    return {
        "metrics": metrics,
        "clean_labels": growth.case.clean.numel(),
        "learn_seconds": time.perf_counter() - start,
        "learn_peak_memory_bytes": peak_memory(options.device),
        **(_cost(made) if made else {}),
    }


def _forget(cell: Cell, shared: SharedGraph, options: RunOptions) -> dict[str, Any]:
    """The file of what remains, its scores there, and what it tells of those who left."""
    assert cell.share is not None
    drawn = draw_forgetting(shared.graph, cell.share, cell.seed)
    condenses = method_named(cell.method).condenses
    made = [remaining_file(cell, drawn, _once(options))] if condenses else []
    case = draw_case(drawn.rest, Protocol(), cell.seed)
    reset_peak_memory(options.device)
    metrics, cost = _score(replace(cell, task="node"), case, made, SharedGraph(drawn.rest), options.device)
    if made:
        metrics |= attack_forgotten(made[0].condensed, drawn, seed=cell.seed, device=options.device)
    return {"metrics": metrics, **cost, **(_cost(made) if made else {})}


def _once(options: RunOptions) -> Once:
    checkpoints = options.records.parent / "checkpoints"
    return lambda call: condense_once(options.store, call, options.device, checkpoints)


def _model(cell: Cell, case: Case, made: Sequence[Condensation], prepared: PreparedGraphs, device: str) -> Embedder:
    """What the cell's method makes of a case."""
    return learn(
        cell.method,
        case,
        [one.condensed for one in made],
        nodes=cell.nodes,
        preset=cell.preset or "default",
        kind=cell.backbone,
        device=device,
        metric=cell.metric or "accuracy",
        combine=cell.combine,
        seed=cell.seed,
        prepared=prepared,
    )


def _score(
    cell: Cell, case: Case, made: Sequence[Condensation], shared: SharedGraph, device: str
) -> tuple[dict[str, float], dict[str, Any]]:
    """Metrics of one label draw in every way (:mod:`plgc.evaluation.kept`), and the cost of learning and the first."""
    start = time.perf_counter()

    def cost() -> dict[str, Any]:
        return {"learn_seconds": time.perf_counter() - start, "learn_peak_memory_bytes": peak_memory(device)}

    if cell.method == "whole" and cell.task == "link":
        return score_whole_link(case, seed=cell.seed, device=device), cost()
    if case.seen is not shared.graph or case.visible is not shared.graph:
        shared = SharedGraph(case.graph)  # of this draw alone
    variant = None if cell.variant is None else VARIANTS[cell.variant]
    common: dict[str, Any] = {"seed": cell.seed, "prepared": shared.prepared}

    def ways() -> Ways:
        model = _model(cell, case, made, shared.prepared, device)
        if variant is not None:
            return {"": KeptEmbedding(variant.of(model))}
        return {"": KeptEmbedding(model)} if cell.method in CONTROLS else ways_of(model, cell.task)

    of_all_draws = cell.task == "node" and not method_named(cell.method).supervised
    models = shared.embeddings(_embedding_key(cell), ways) if of_all_draws else ways()
    metrics = score(models[""], case, cell.task, **common, head=None if variant is None else variant.head)
    others = {prefix: model for prefix, model in models.items() if prefix}
    learned = [width for name, width in models[""].parts.items() if name not in BESIDE]
    spent = {**cost(), "embedding_width": sum(learned)}
    return metrics | score_ways(others, case, cell.task, **common), spent


def _embedding_key(cell: Cell) -> Cell:
    """The cell without what no embedding depends on that was made without labels."""
    return replace(cell, shots=None, labels=None, noise=None, draws=None, metric=None)


def _cost(made: list[Condensation]) -> dict[str, Any]:
    """The cost of condensing, over all sources; the settings are the first one's, since all have the same."""
    peaks = [one.peak_memory_bytes for one in made if one.peak_memory_bytes is not None]
    chosen = [one.condensed.chosen for one in made]
    return {
        "kept_nodes": sum(one.condensed.num_nodes for one in made),
        "condense_seconds": sum(one.seconds for one in made),
        "condense_cpu_seconds": sum(one.cpu_seconds for one in made),
        "condense_peak_memory_bytes": max(peaks, default=None),
        "reused": all(one.reused for one in made),
        "bytes": sum(len(one.condensed.to_bytes()) for one in made),
        "artifact_sha256": "+".join(one.sha256 for one in made),
        "settings": made[0].condensed.settings,
        "chosen": chosen[0] if len(chosen) == 1 else chosen,
    }
