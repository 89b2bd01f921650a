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
from plgc.downstream.tasks.answers import describe_answers
from plgc.evaluation.runs import CONTROLS, MAIN_METRIC, RunOptions, run_seeds
from plgc.runtime.options import accepts
from plgc.runtime.progress import Progress, shown


@accepts(options=RunOptions)
def evaluate(
    condensed: Sequence[CondensedGraph],
    source: str | os.PathLike[str] | Data,
    *,
    options: RunOptions,
    progress: Progress | bool | None = True,
) -> dict[str, Any]:
    """Rebuild, fine-tune and score once per seed; controls on the same labels with the same head.

    A seed decides initial weights, the labels (with ``shots`` or ``labels``), non-edges and, where the graph has no
    split of its own, the split. The edge split of a link task, and the split of an inductive or a supervised
    condensation, are those that the condensation was made with: the file records them.

    Args:
        condensed: one condensed graph, or one per source.
        source: the graph to evaluate on, anything :func:`plgc.load_graph` takes.
        options: every field of :class:`~plgc.evaluation.runs.RunOptions` as a keyword of its own.
        progress: True for a bar on a terminal or in a notebook, False for none, or a function that is called with a
            message, the seeds done and the seeds in all.

    Returns:
        Plain values: every metric with ``mean``, ``std`` and ``values``; ``controls``, the same for each of
        :data:`CONTROLS`, which also has its main metric's numbers at the top; ``claims``, the difference to each of
        them with its interval (:mod:`plgc.evaluation.claims`); ``answers``, for nodes, how many were scored, scores by
        class, confusion and calibration (:func:`plgc.downstream.tasks.answers.describe_answers`); ``learned``, those
        of our head for nodes on what was learned alone, and ``parts``, those with X, ÂX and Â²X beside it
        (:mod:`plgc.evaluation.kept`), None where that is what was scored; ``head``, what the head for nodes settled
        about parts and smoothing, and in words; and how it was measured.

    Example:
        >>> import plgc
        >>> from plgc.evaluation.over_seeds import evaluate
        >>> condensed = plgc.condense(plgc.load_graph("demo"), nodes=40)
        >>> result = evaluate([condensed], "demo", shots=3)
        >>> result["accuracy"]["mean"] > result["controls"]["random_encoder"]["accuracy"]["mean"]
        True
    """
    start = time.perf_counter()
    with shown(progress) as report:
        runs = run_seeds(condensed, source, options, progress=report)
    summary = {name: summarize(found) for name, found in runs.metrics.items()}
    combined = len(condensed) > 1 and all(part.pseudo_labels is not None for part in condensed)
    task, main, graph = options.task, MAIN_METRIC[options.task], runs.graphs[-1]
    return {
        "task": task,
        "graph": graph.name,
        "method": "+".join(dict.fromkeys(part.method for part in condensed)),
        "nodes": sum(part.num_nodes for part in condensed),
        "sources": len(condensed),
        "combine": resolve_combination(condensed, options.combine) if combined else None,
        "weights": None if options.weights is None else list(options.weights),
        "backbone": options.kind,
        "on": options.on,
        "shots": options.shots,
        "labels": options.labels,
        "seeds": options.seeds,
        "inductive": runs.protocol.inductive,
        "split": runs.split,
        **summary["plgc"],
        "learned": summary.get("learned"),
        "parts": summary.get("parts"),
        "controls": {name: {**summary[name][main], **summary[name]} for name in CONTROLS},
        "claims": {name: runs.claim("plgc", name).to_dict() for name in CONTROLS},
        "answers": describe_answers(runs.answers["plgc"], graph) if task == "node" else None,
        "head": describe_settled(runs.settled),
        "seconds": time.perf_counter() - start,
        "bytes": sum(len(part.to_bytes()) for part in condensed),
    }


def describe_settled(settled: Sequence[dict[str, float]]) -> dict[str, Any] | None:
    """What the heads of all seeds settled, on average, and in words; None where nothing had to be settled."""
    if not settled or not settled[0]:
        return None
    means = {name: statistics.fmean(one[name] for one in settled) for name in settled[0]}
    return {**means, "words": describe_head(means)}


def summarize(results: Sequence[dict[str, float]]) -> dict[str, dict[str, Any]]:
    """Mean, standard deviation (over the seeds, n − 1) and the values themselves, for every metric."""
    summary: dict[str, dict[str, Any]] = {}
    for metric in results[0]:
        values = [result[metric] for result in results]
        deviation = statistics.stdev(values) if len(values) > 1 else 0.0
        summary[metric] = {"mean": statistics.fmean(values), "std": deviation, "values": values}
    return summary
