"""Evaluate condensed graphs as the tables do: several seeds, and the two controls beside every figure.

The head sees clean labels on the full graph, so a good score alone shows nothing. ``random_encoder`` (an untrained GNN
with the same head) and ``propagated_features`` (Â²X with the same head) say what is reached without any condensation.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact import CondensedGraph
from plgc.backbone import propagated_features, reconstruct
from plgc.encoder import GNN
from plgc.errors import SettingError
from plgc.graphs.load import load_graph, num_classes
from plgc.inputs import Inputs
from plgc.tasks.head import Head, HeadSettings, fit_head
from plgc.tasks.node import choose_labels, finetune, score_nodes

CONTROL_WIDTH = 512
Progress = Callable[[str, int, int], None]


def evaluate_node(
    condensed: Sequence[CondensedGraph],
    source: str | os.PathLike[str] | Data,
    *,
    seeds: int = 1,
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
        seeds: how many repetitions, with seeds 0, 1, …
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
    for seed in range(seeds):
        graph = load_graph(source, split=split, seed=seed)
        runs.append(_run(condensed, graph, seed, shots, labels, on, kind, device))
        if progress:
            progress(f"seed {seed}: {runs[-1]['plgc']['accuracy']:.1f} %", seed + 1, seeds)
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
        "controls": {
            name: {**values["accuracy"], **values} for name, values in summary.items() if name != "plgc"
        },
        "seconds": time.perf_counter() - start,
        "bytes": sum(len(c.to_bytes()) for c in condensed),
    }


def _run(
    condensed: Sequence[CondensedGraph],
    graph: Data,
    seed: int,
    shots: int | None,
    labels: int | None,
    on: str,
    kind: str,
    device: str,
) -> dict[str, dict[str, float]]:
    """One seed: our score and the controls'."""
    backbone = reconstruct(condensed, kind=kind, seed=seed, device=device)
    model = finetune(backbone, graph, shots=shots, labels=labels, seed=seed)
    inputs = backbone.prepare(graph)
    result = {"plgc": score_nodes(model.predict_proba(graph), graph, on)}
    for name, embedding in control_embeddings(inputs, kind, seed).items():
        probability = head_probabilities(embedding, inputs, graph, shots, labels, seed)
        result[name] = score_nodes(probability.cpu(), graph, on)
    return result


@torch.no_grad()
def control_embeddings(inputs: Inputs, kind: str, seed: int) -> dict[str, Tensor]:
    """The two controls: what an untrained GNN gives, and the propagated features themselves."""
    generator = torch.Generator().manual_seed(seed)
    encoder = GNN(kind, inputs.num_features, CONTROL_WIDTH, CONTROL_WIDTH, generator=generator).to(inputs.device)
    return {
        "random_encoder": encoder(inputs.x, inputs.adjacency),
        "propagated_features": propagated_features(inputs),
    }


def head_probabilities(
    embedding: Tensor,
    inputs: Inputs,
    graph: Data,
    shots: int | None,
    labels: int | None,
    seed: int,
    settings: HeadSettings | None = None,
) -> Tensor:
    """Train the common head on any embedding and return its class probabilities for every node."""
    labelled, validate = choose_labels(graph, shots, labels, seed)
    y, val = graph.y.to(embedding.device), graph.val_mask.to(embedding.device)

    def score(head: Head) -> float:
        return float((head.probabilities(embedding, inputs.adjacency).argmax(1)[val] == y[val]).float().mean())

    head = fit_head(
        embedding,
        (embedding.shape[1],),
        labelled.to(embedding.device),
        y,
        num_classes(graph),
        settings,
        score if validate else None,
    )
    return head.probabilities(embedding, inputs.adjacency)


def summarize(results: Sequence[dict[str, float]]) -> dict[str, dict[str, Any]]:
    """Mean, standard deviation (over the seeds, n − 1) and the values themselves, for every metric."""
    summary: dict[str, dict[str, Any]] = {}
    for metric in results[0]:
        values = [result[metric] for result in results]
        deviation = statistics.stdev(values) if len(values) > 1 else 0.0
        summary[metric] = {"mean": statistics.fmean(values), "std": deviation, "values": values}
    return summary
