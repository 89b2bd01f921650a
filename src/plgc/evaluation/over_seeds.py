"""Evaluate condensed files on a graph over several seeds, beside four controls.

The head learns from clean labels of the full graph, so a good score alone shows nothing. The controls have the same
head and need no condensation: ``random_encoder`` (an untrained GNN), ``propagated_features`` (Â²X), ``raw_features``
(X, and no edges at all) and ``plain_parts`` (X, ÂX and Â²X side by side). A method has to beat the best of them; what
a file adds is the difference to ``plain_parts``.
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
from plgc.downstream.head import describe_head
from plgc.evaluation.kept import ways_of
from plgc.evaluation.scoring import learn, score
from plgc.graphs.attributes import Seen
from plgc.graphs.bare import bare_graph
from plgc.graphs.load import load_graph
from plgc.graphs.views.inductive import training_digest
from plgc.graphs.views.protocol import Case, Protocol, draw_case
from plgc.graphs.width import check_width, feature_width
from plgc.runtime.errors import GraphError, SettingError
from plgc.runtime.progress import Progress
from plgc.sparse.inputs import fingerprint
from plgc.sparse.prepared import PreparedGraphs

CONTROLS = ("random_encoder", "propagated_features", "raw_features", "plain_parts")
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

    A seed decides initial weights, the labels (with ``shots`` or ``labels``), non-edges and, where the graph has no
    split of its own, the split. The edge split of a link task, and the split of an inductive or a supervised
    condensation, are those that the condensation was made with: the file records them.

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

    Returns:
        Plain values: every metric with ``mean``, ``std`` and ``values``; ``controls``, the same for each of
        :data:`CONTROLS`, which also has its main metric's numbers at the top; ``learned``, those of our head for nodes
        on what was learned alone, and ``parts``, those with X, ÂX and Â²X beside it (:mod:`plgc.evaluation.kept`), None
        where that is what was scored; ``head``, what the head for nodes settled about parts and smoothing, and in
        words; and how it was measured.

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
    seen = common_seen(condensed)
    protocol = Protocol(task, shots, labels, inductive=seen.nodes == "train")
    main = MAIN_METRIC[task]
    runs: list[dict[str, dict[str, float]]] = []
    settled: list[dict[str, float]] = []
    graph = Data()
    for seed in range(first_seed, first_seed + seeds):
        graph = graph_for(source, seen, split, seed)
        check_width("this condensed graph", condensed[0].num_features, "the graph", feature_width(graph))
        case, prepared = draw_case(graph, protocol, seed, seen.edge_seed), PreparedGraphs()
        if task == "link" and seed == first_seed:
            _check_edges(condensed, case, seen)
        common: dict[str, Any] = {"kind": kind, "seed": seed, "device": device, "prepared": prepared}
        models = {"plgc": learn("plgc", case, condensed, combine=combine, weights=weights, **common)}
        models |= {name: learn(name, case, **common) for name in CONTROLS}
        how: dict[str, Any] = {"seed": seed, "on": on, "prepared": prepared}
        settled.append({})
        ours = models.pop("plgc")
        ways = ways_of(ours, task) if task == "node" else {"": ours}
        scores = {"plgc": score(ways.pop(""), case, task, **how, settled=settled[-1])}
        scores |= {prefix.rstrip("_"): score(model, case, task, **how) for prefix, model in ways.items()}
        runs.append(scores | {name: score(model, case, task, **how) for name, model in models.items()})
        if progress:
            progress(f"seed {seed}: {main} {runs[-1]['plgc'][main]:.4g}", len(runs), seeds)
    summary = {name: summarize([run[name] for run in runs]) for name in runs[0]}
    combined = len(condensed) > 1 and all(part.pseudo_labels is not None for part in condensed)
    return {
        "task": task,
        "graph": graph.name,
        "method": "+".join(dict.fromkeys(part.method for part in condensed)),
        "nodes": sum(part.num_nodes for part in condensed),
        "sources": len(condensed),
        "combine": resolve_combination(condensed, combine) if combined else None,
        "weights": None if weights is None else list(weights),
        "backbone": kind,
        "on": on,
        "shots": shots,
        "labels": labels,
        "seeds": seeds,
        "inductive": protocol.inductive,
        "split": graph.split_origin,
        **summary["plgc"],
        "learned": summary.get("learned"),
        "parts": summary.get("parts"),
        "controls": {name: {**summary[name][main], **summary[name]} for name in CONTROLS},
        "head": describe_settled(settled),
        "seconds": time.perf_counter() - start,
        "bytes": sum(len(part.to_bytes()) for part in condensed),
    }


def describe_settled(settled: Sequence[dict[str, float]]) -> dict[str, Any] | None:
    """What the heads of all seeds settled, on average, and in words; None where nothing had to be settled."""
    if not settled or not settled[0]:
        return None
    means = {name: statistics.fmean(one[name] for one in settled) for name in settled[0]}
    return {**means, "words": describe_head(means)}


def common_seen(condensed: Sequence[CondensedGraph]) -> Seen:
    """What the condensations were shown of the graph; it has to be the same for all of them."""
    keys = ("nodes", "edges", "edge_seed", "training_nodes")
    found = [{key: value for key, value in part.seen.to_dict().items() if key in keys} for part in condensed]
    if any(other != found[0] for other in found):
        texts = sorted({", ".join(f"{key} {value}" for key, value in one.items()) for one in found})
        raise SettingError(
            f"the condensed graphs have seen different things ({'; '.join(texts)}): evaluate them one by one"
        )
    return condensed[0].seen


def graph_for(source: str | os.PathLike[str] | Data, seen: Seen, split: int, seed: int) -> Data:
    """The graph with its masks. A file that has seen training nodes or labels keeps its split.

    Under another split, nodes that the file has seen could be test nodes.

    Raises:
        GraphError: the training nodes are not those the file was made from.
    """
    if seen.training_nodes is None:
        return load_graph(source, split=split, seed=seed)
    assert seen.split is not None
    assert seen.split_seed is not None
    if split not in (0, seen.split):
        raise SettingError(
            f"split {split} was asked for, the file was condensed from the training nodes of split {seen.split}: "
            "leave --split out"
        )
    chosen = isinstance(source, Data) and "split_index" in source  # its masks are one split already
    graph = load_graph(source, split=0 if chosen else seen.split, seed=seen.split_seed)
    if training_digest(graph) != seen.training_nodes:
        raise GraphError(
            "this file was condensed from the training nodes of another graph or split: nodes that it has seen could "
            "be among the test nodes. Use the graph that was condensed"
        )
    return graph


def _check_edges(condensed: Sequence[CondensedGraph], case: Case, seen: Seen) -> None:
    """Raise where a condensation has seen the edges that are to be predicted."""
    if seen.nodes == "train":
        return  # links are predicted among nodes that the file has never seen
    if seen.edges != "train":
        raise SettingError(
            "this file was condensed from all edges, those to be predicted among them: condense the graph again with "
            "--edges train, which hides validation and test edges"
        )
    expected = fingerprint(bare_graph(case.seen))
    for part in condensed:
        if part.fingerprint not in (None, expected):
            raise GraphError(
                f"this file was condensed from training edges that are not this graph's (edge seed "
                f"{seen.edge_seed}): use the graph that was condensed"
            )


def summarize(results: Sequence[dict[str, float]]) -> dict[str, dict[str, Any]]:
    """Mean, standard deviation (over the seeds, n − 1) and the values themselves, for every metric."""
    summary: dict[str, dict[str, Any]] = {}
    for metric in results[0]:
        values = [result[metric] for result in results]
        deviation = statistics.stdev(values) if len(values) > 1 else 0.0
        summary[metric] = {"mean": statistics.fmean(values), "std": deviation, "values": values}
    return summary
