"""What a merged file of a cut graph loses: the edges that were cut, or more than those?

    PLGC_DATA=… python benchmarks/lost_edges.py cora:70:28 citeseer:60:24 --seeds 5 > lost.jsonl

A graph is cut into three random parts. `whole` is the file of the graph, `cut` that of the same graph without the edges
between parts, condensed at once; `heads` and `merged` come from files of the parts. All have the same rows in all, and
are scored in the whole graph, on validation nodes. A line of JSON for every graph and seed, accuracies as shipped and
with the learned part alone; at the end differences to `cut` on stderr, paired by seed, with 95 % intervals.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from typing import Any

import torch
from torch_geometric.data import Data

import plgc
from plgc.evaluation.kept import ways_of
from plgc.evaluation.scoring import learn, score
from plgc.experiments.differences import Difference, Draw
from plgc.graphs.check import node_count
from plgc.graphs.views.partition import cut_parts, partition_nodes
from plgc.graphs.views.protocol import Protocol, draw_case
from plgc.sources import share_nodes, source_seed
from plgc.sparse.prepared import PreparedGraphs

PARTS, MIN_CLUSTER = 3, 5


def files(graph: Data, nodes: int, seed: int) -> dict[str, list[plgc.CondensedGraph]]:
    """Every file, or files, by name."""
    part = partition_nodes(graph, PARTS, "random", seed=seed)
    cut, edges = copy.copy(graph), graph.edge_index
    assert edges is not None
    cut.edge_index = edges[:, part[edges[0]] == part[edges[1]]]
    parts = cut_parts(graph, part)

    def condensed(one: Data, count: int, own: int) -> plgc.CondensedGraph:
        return plgc.condense(one, nodes=count, seed=own, min_cluster=MIN_CLUSTER, threads=1, progress=False)

    shares = enumerate(share_nodes(nodes, [node_count(one) for one in parts]))
    heads = [condensed(parts[place], count, source_seed(seed, place)) for place, count in shares]
    merged = plgc.merge(heads, seed=seed, progress=False)
    whole, without = condensed(graph, nodes, seed), condensed(cut, nodes, seed)
    return {"whole": [whole], "cut": [without], "heads": heads, "merged": [merged]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", metavar="GRAPH:NODES:LABELS")
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[tuple[str, str], dict[Draw, float]] = {}
    for seed in range(given.seeds):
        for named in given.graphs:
            name, nodes, labels = named.split(":")
            graph, prepared = plgc.load_graph(name, notice=False), PreparedGraphs()
            case = draw_case(graph, Protocol(labels=int(labels)), seed)
            line: dict[str, Any] = {"graph": name, "seed": seed}
            for made, condensed in files(graph, int(nodes), seed).items():
                for way, model in ways_of(learn("plgc", case, condensed, seed=seed, prepared=prepared)).items():
                    value = score(model, case, "node", seed=seed, on="val", prepared=prepared)["accuracy"]
                    line[f"{way}{made}"] = value
                    found.setdefault((name, f"{way}{made}"), {})[Draw(seed, seed)] = value
            print(json.dumps(line), flush=True)
    for (name, made), values in found.items():
        base = found[name, "learned_cut" if made.startswith("learned_") else "cut"]
        less = Difference("cut", {draw: value - base[draw] for draw, value in values.items()})
        print(name, made, "less cut", round(less.mean, 2), less.interval, file=sys.stderr)


if __name__ == "__main__":
    main()
