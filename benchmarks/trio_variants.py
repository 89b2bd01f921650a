"""Graphs that are sources for one another: does it help to weigh sources by how well they explain the target's nodes?

    PLGC_DATA=… python benchmarks/trio_variants.py citation_acmv9 citation_citationv1 citation_dblpv7 > trio.jsonl

Every graph is condensed once a seed, and is the target in turn. `own`: its file alone; `heads` and `merged`: all files.
`own+merged`: a head for its own file beside the merged one. `explained`: heads weighted by how well their pseudo-labels
explain the target's nodes without labels: the mean cosine of a node's embedding to the nearest of them, to the power
POWER. `chosen`: only sources that explain at least ENOUGH of what its own file does. `assigned`: the merged file with
the rows that at least FEWEST times an even share of the target's nodes are nearest to.

Validation accuracy with LABELS labels, as shipped and with the learned part alone; at the end differences to `merged`
on stderr, paired by seed, with 95 % intervals.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

import plgc
from plgc.downstream.backbone import Backbone
from plgc.evaluation.kept import ways_of
from plgc.evaluation.scoring import score
from plgc.experiments.differences import Difference, Draw
from plgc.graphs.views.protocol import Protocol, draw_case
from plgc.sources import source_seed
from plgc.sparse.prepared import PreparedGraphs

LABELS, MIN_CLUSTER = 25, 5
POWER, ENOUGH, FEWEST = 8, 0.95, 0.25


def nearest(condensed: plgc.CondensedGraph, graph: Data, prepared: PreparedGraphs, **how: object) -> Tensor:
    """Cosines of the embeddings of a graph's nodes, rebuilt from a file, to all its pseudo-labels, [N, K]."""
    backbone = plgc.reconstruct(condensed, **how)  # pyright: ignore[reportArgumentType]
    inputs = backbone.prepare(graph, prepared)
    assert condensed.pseudo_labels is not None
    with torch.no_grad():
        return backbone.learned(inputs.x, inputs.adjacency) @ condensed.pseudo_labels.to(backbone.device).t()


def variants(
    files: Sequence[plgc.CondensedGraph], place: int, graph: Data, prepared: PreparedGraphs, seed: int, device: str
) -> dict[str, Backbone]:
    """Every backbone for one target, by name."""
    own, how = files[place], {"seed": seed, "device": device}
    merged = plgc.merge(files, seed=seed, device=device, progress=False)
    explained = [float(nearest(file, graph, prepared, **how).amax(1).mean()) for file in files]
    chosen = [file for file, value in zip(files, explained, strict=True) if value >= ENOUGH * explained[place]]
    found = nearest(merged, graph, prepared, **how).argmax(1)
    share = torch.bincount(found, minlength=merged.num_nodes).cpu() * merged.num_nodes / len(found)
    rows = share >= FEWEST
    assert merged.pseudo_labels is not None
    assigned = replace(
        merged, features=merged.features[rows], pseudo_labels=merged.pseudo_labels[rows], counts=merged.counts[rows]
    )
    weights = [(value / explained[place]) ** POWER for value in explained]
    print(graph["name"], [round(weight, 3) for weight in weights], len(chosen), int(rows.sum()), file=sys.stderr)
    return {
        "own": plgc.reconstruct(own, seed=seed, device=device),
        "heads": plgc.reconstruct(files, seed=seed, device=device),
        "merged": plgc.reconstruct(merged, seed=seed, device=device),
        "own+merged": plgc.reconstruct([own, merged], seed=seed, device=device),
        "explained": plgc.reconstruct(files, seed=seed, device=device, weights=weights),
        "chosen": plgc.reconstruct(chosen, seed=seed, device=device),
        "assigned": plgc.reconstruct(assigned, seed=seed, device=device),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    found: dict[tuple[str, str], dict[Draw, float]] = {}
    for seed in range(given.seeds):
        graphs = [plgc.load_graph(name, seed=seed, notice=False) for name in given.graphs]
        how = {"nodes": given.nodes, "min_cluster": MIN_CLUSTER, "device": given.device, "progress": False}
        files = [plgc.condense(one, seed=source_seed(seed, place), **how) for place, one in enumerate(graphs)]
        for place, (name, graph) in enumerate(zip(given.graphs, graphs, strict=True)):
            prepared = PreparedGraphs()
            case = draw_case(graph, Protocol(labels=LABELS), seed)
            for variant, backbone in variants(files, place, graph, prepared, seed, given.device).items():
                line = {"target": name, "seed": seed, "variant": variant}
                for way, model in ways_of(backbone).items():
                    value = score(model, case, "node", seed=seed, on="val", prepared=prepared)["accuracy"]
                    line[f"{way}accuracy"] = value
                    found.setdefault((name, f"{way}{variant}"), {})[Draw(seed, seed)] = value
                print(json.dumps(line), flush=True)
    for (name, variant), values in found.items():
        base = found[name, "learned_merged" if variant.startswith("learned_") else "merged"]
        less = Difference("merged", {draw: value - base[draw] for draw, value in values.items()})
        print(name, variant, "less merged", round(less.mean, 2), less.interval, file=sys.stderr)


if __name__ == "__main__":
    main()
