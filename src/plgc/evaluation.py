"""Evaluate condensed graphs as the tables do: several seeds, and the two controls beside every figure.

The head sees clean labels on the full graph, so a good score alone shows nothing. ``random_encoder`` (an untrained GNN
with the same head) and ``propagated_features`` (Â²X with the same head) say what is reached without any condensation.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact import CondensedGraph
from plgc.backbone import propagated_features, reconstruct
from plgc.encoder import GNN
from plgc.errors import SettingError
from plgc.graphs.load import load_graph
from plgc.inputs import Inputs
from plgc.progress import Progress
from plgc.tasks.node import fit_labels, score_nodes

CONTROL_WIDTH = 512


def evaluate_node(
    condensed: Sequence[CondensedGraph],
    source: str | os.PathLike[str] | Data,
    *,
    seeds: int = 1,
    first_seed: int = 0,
    shots: int | None = None,
    labels: int | None = None,
    on: str = "test",
    kind: str = "gcn",
    split: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Rebuild, fine-tune and score once per seed; controls on the same labels with the same head.

    A seed drives the backbone's initial weights, the label draw (with ``shots`` or ``labels``) and, where the graph
    has no split of its own, the split.

    Args:
        condensed: one condensed graph, or one per source.
        source: the graph to evaluate on, anything :func:`plgc.load_graph` takes.
        seeds: how many repetitions, with seeds ``first_seed``, ``first_seed`` + 1, …
        first_seed: the first of them.
        shots: labels per class; None uses all training labels.
        labels: labels in all.
        on: ``test``, or ``val`` to choose settings.
        kind: the backbone's kind.
        split: which of several fixed splits.
        device: where to compute.
        progress: called with a message, the seeds done and the seeds in all.
    """
    if seeds < 1:
        raise SettingError(f"seeds is {seeds}: at least 1 is needed")
    start = time.perf_counter()
    runs: list[dict[str, dict[str, float]]] = []
    inputs, propagated = None, None
    graph = load_graph(source, split=split, seed=first_seed)
    for seed in range(first_seed, first_seed + seeds):
        if seed != first_seed:
            graph = load_graph(source, split=split, seed=seed)
        backbone = reconstruct(condensed, kind=kind, seed=seed, device=device)
        if inputs is None or propagated is None:  # features and edges are the same for every seed, only masks differ
            inputs = backbone.prepare(graph)
            propagated = propagated_features(inputs)
        embeddings = {
            "plgc": (backbone.embed(inputs), backbone.parts),
            "random_encoder": (random_embedding(inputs, kind, seed), (CONTROL_WIDTH,)),
            "propagated_features": (propagated, (inputs.num_features,)),
        }
        run = {}
        for name, (embedding, parts) in embeddings.items():
            head = fit_labels(embedding, parts, inputs, graph, shots=shots, labels=labels, seed=seed)
            run[name] = score_nodes(head.probabilities(embedding, inputs.adjacency).cpu(), graph, on)
        runs.append(run)
        if progress:
            progress(f"seed {seed}: {run['plgc']['accuracy']:.1f} %", len(runs), seeds)
    summary = {name: summarize([run[name] for run in runs]) for name in runs[0]}
    return {
        "task": "node",
        "graph": graph.name if "name" in graph else "graph",
        "nodes": sum(c.num_nodes for c in condensed),
        "backbone": kind,
        "on": on,
        "shots": shots,
        "labels": labels,
        "seeds": seeds,
        "split": graph.split_origin,
        **summary["plgc"],
        "controls": {name: {**values["accuracy"], **values} for name, values in summary.items() if name != "plgc"},
        "seconds": time.perf_counter() - start,
        "bytes": sum(len(c.to_bytes()) for c in condensed),
    }


@torch.no_grad()
def random_embedding(inputs: Inputs, kind: str, seed: int) -> Tensor:
    """The control ``random_encoder``: what an untrained GNN of the same kind makes of the graph."""
    generator = torch.Generator().manual_seed(seed)
    encoder = GNN(kind, inputs.num_features, CONTROL_WIDTH, CONTROL_WIDTH, generator=generator).to(inputs.device)
    return encoder(inputs.x, inputs.adjacency)


def summarize(results: Sequence[dict[str, float]]) -> dict[str, dict[str, Any]]:
    """Mean, standard deviation (over the seeds, n − 1) and the values themselves, for every metric."""
    summary: dict[str, dict[str, Any]] = {}
    for metric in results[0]:
        values = [result[metric] for result in results]
        deviation = statistics.stdev(values) if len(values) > 1 else 0.0
        summary[metric] = {"mean": statistics.fmean(values), "std": deviation, "values": values}
    return summary
