"""Evaluate condensed files on a graph: several seeds, and the two controls beside every figure.

The head sees clean labels on the full graph, so a good score alone shows nothing. ``random_encoder`` (an untrained GNN
with the same head) and ``propagated_features`` (Â²X with the same head) say what is reached without any condensation.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from typing import Any

from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.combine import resolve_combination
from plgc.evaluation.scoring import learn, score
from plgc.graphs.load import load_graph, unlabelled
from plgc.graphs.views.inductive import training_digest
from plgc.graphs.views.protocol import Case, Protocol, draw_case
from plgc.runtime.errors import GraphError, SettingError
from plgc.runtime.progress import Progress
from plgc.sparse.inputs import fingerprint

CONTROLS = ("random_encoder", "propagated_features")
MAIN_METRIC = {"node": "accuracy", "link": "auroc", "cluster": "nmi"}


def evaluate(
    condensed: Sequence[CondensedGraph],
    source: str | os.PathLike[str] | Data,
    *,
    task: str = "node",
    seeds: int = 1,
    first_seed: int = 0,
    shots: int | None = None,
    labels: int | None = None,
    on: str = "test",
    kind: str = "gcn",
    split: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
    combine: str | None = None,
    weights: Sequence[float] | None = None,
) -> dict[str, Any]:
    """Rebuild, fine-tune and score once per seed; controls on the same labels with the same head.

    A seed drives initial weights, the label draw (with ``shots`` or ``labels``), non-edges and, where the graph has no
    split of its own, the split. The edges of a link task, and the split of an inductive or a supervised condensation,
    are those that the condensation was made with: they are in the file.

    Args:
        condensed: one condensed graph, or one per source.
        source: the graph to evaluate on, anything :func:`plgc.load_graph` takes.
        task: ``node``, ``link`` or ``cluster``.
        seeds: how many repetitions, with seeds ``first_seed``, ``first_seed`` + 1, …
        first_seed: the first of them.
        shots: labels per class; None uses all training labels.
        labels: labels in all.
        on: ``test``, or ``val`` to choose settings.
        kind: the backbone's kind.
        split: which of several fixed splits.
        device: where to compute.
        progress: called with a message, the seeds done and the seeds in all.
        combine: how several sources share a backbone, see :func:`plgc.reconstruct`.
        weights: one for every source.

    Example:
        >>> import plgc
        >>> from plgc.evaluation.over_seeds import evaluate
        >>> condensed = plgc.condense(plgc.load_graph("demo"), nodes=40)
        >>> result = evaluate([condensed], "demo", shots=3)
        >>> result["accuracy"]["mean"] > result["controls"]["random_encoder"]["accuracy"]["mean"]
        True
    """
    if seeds < 1:
        raise SettingError(f"seeds is {seeds}: at least 1 is needed")
    if not condensed:
        raise SettingError("no condensed graph given: there is nothing to evaluate")
    labelled = [part.method for part in condensed if part.labels is not None]
    if labelled and (shots is not None or labels is not None):
        raise SettingError(
            f"shots and labels choose what a head learns from, and {labelled[0]} has none: its labels were chosen when "
            "it condensed. Leave both out"
        )
    start = time.perf_counter()
    seen = common_view(condensed)
    protocol = Protocol(task, shots, labels, inductive=seen["nodes"] == "train")
    runs: list[dict[str, dict[str, float]]] = []
    graph = Data()
    for seed in range(first_seed, first_seed + seeds):
        graph = graph_for(source, seen, split, seed)
        _check_width(condensed[0], graph)
        case = draw_case(graph, protocol, seed, seen.get("edge_seed"))
        if task == "link" and seed == first_seed:
            _check_edges(condensed, case, seen)
        learned = learn("plgc", case, condensed, kind=kind, seed=seed, device=device, combine=combine, weights=weights)
        models = {"plgc": learned}
        models |= {name: learn(name, case, kind=kind, seed=seed, device=device) for name in CONTROLS}
        runs.append({name: score(model, case, task, seed=seed, on=on) for name, model in models.items()})
        if progress:
            main = MAIN_METRIC[task]
            progress(f"seed {seed}: {main} {runs[-1]['plgc'][main]:.4g}", len(runs), seeds)
    summary = {name: summarize([run[name] for run in runs]) for name in runs[0]}
    main = MAIN_METRIC[task]
    return {
        "task": task,
        "graph": graph.name,
        "method": "+".join(dict.fromkeys(part.method for part in condensed)),
        "nodes": sum(part.num_nodes for part in condensed),
        "sources": len(condensed),
        "combine": _combination(condensed, combine),
        "weights": None if weights is None else list(weights),
        "backbone": kind,
        "on": on,
        "shots": shots,
        "labels": labels,
        "seeds": seeds,
        "inductive": protocol.inductive,
        "split": graph.split_origin,
        **summary["plgc"],
        "controls": {name: {**summary[name][main], **summary[name]} for name in CONTROLS},
        "seconds": time.perf_counter() - start,
        "bytes": sum(len(part.to_bytes()) for part in condensed),
    }


def common_view(condensed: Sequence[CondensedGraph]) -> dict[str, Any]:
    """What the condensations have seen; several must have seen the same kind of thing."""
    keys = ("nodes", "edges", "edge_seed", "training_nodes")
    views = {tuple((key, part.seen[key]) for key in keys if key in part.seen) for part in condensed}
    if len(views) > 1:
        shown = "; ".join(sorted(", ".join(f"{key} {value}" for key, value in view) for view in views))
        raise SettingError(f"the condensed graphs have seen different things ({shown}): evaluate them one by one")
    return condensed[0].seen


def graph_for(source: str | os.PathLike[str] | Data, seen: dict[str, Any], split: int, seed: int) -> Data:
    """The graph with its masks; where the file saw training nodes or labels, the same split, lest others be test nodes.

    Raises:
        GraphError: the training nodes are not those the file was made from.
    """
    if "training_nodes" not in seen:
        return load_graph(source, split=split, seed=seed)
    if split not in (0, seen["split"]):
        raise SettingError(
            f"split {split} was asked for, the file was condensed from the training nodes of split {seen['split']}: "
            "leave --split out"
        )
    chosen = isinstance(source, Data) and "split_index" in source  # its masks are one split already
    graph = load_graph(source, split=0 if chosen else seen["split"], seed=seen["split_seed"])
    if training_digest(graph) != seen["training_nodes"]:
        raise GraphError(
            "this file was condensed from the training nodes of another graph or split: nodes that it has seen could "
            "be among the test nodes. Use the graph that was condensed"
        )
    return graph


def _combination(condensed: Sequence[CondensedGraph], combine: str | None) -> str | None:
    """How several sources with pseudo-labels were combined; None where there was nothing to combine."""
    if len(condensed) == 1 or any(part.pseudo_labels is None for part in condensed):
        return None
    return resolve_combination(condensed, combine)


def _check_width(condensed: CondensedGraph, graph: Data) -> None:
    width = 0 if graph.x is None else graph.x.shape[1]
    if width != condensed.num_features:
        raise GraphError(
            f"this condensed graph has {condensed.num_features} features per node, the graph has {width}: "
            "use the graph that was condensed, or one with the same features"
        )


def _check_edges(condensed: Sequence[CondensedGraph], case: Case, seen: dict[str, Any]) -> None:
    """Link prediction on edges that a condensation has seen would be no prediction."""
    if seen["nodes"] == "train":
        return  # links are predicted among nodes that the file has never seen
    if seen["edges"] != "train":
        raise SettingError(
            "this file was condensed from all edges, those to be predicted among them: condense the graph again with "
            "--edges train, which hides validation and test edges"
        )
    expected = fingerprint(load_graph(unlabelled(case.seen)))
    for part in condensed:
        if part.fingerprint not in (None, expected):
            raise GraphError(
                f"this file was condensed from training edges that are not this graph's (edge seed "
                f"{seen['edge_seed']}): use the graph that was condensed"
            )


def summarize(results: Sequence[dict[str, float]]) -> dict[str, dict[str, Any]]:
    """Mean, standard deviation (over the seeds, n − 1) and the values themselves, for every metric."""
    summary: dict[str, dict[str, Any]] = {}
    for metric in results[0]:
        values = [result[metric] for result in results]
        deviation = statistics.stdev(values) if len(values) > 1 else 0.0
        summary[metric] = {"mean": statistics.fmean(values), "std": deviation, "values": values}
    return summary
