"""How short a training forgetting can do with: accuracy and cost beside condensing what remains again.

    PLGC_DATA=… python benchmarks/short_training.py cora:70 citeseer:60 --seeds 10 > short.jsonl

A line of JSON for every graph, share that leaves, seed and training: CPU-seconds, accuracy as shipped and with the
learned part alone, and the strongest attack that tells who left from who was never there. `4/3/4` is a training with a
quarter of the epochs, three times the learning rate and four times the refinements of a round; `anew` is condensing.
Accuracies are on validation nodes and on those in no part of the split, never on test nodes. At the end a line on
stderr for each: differences to `anew`, paired by seed, with 95 % intervals.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from typing import Any

import torch

import plgc
from plgc.evaluation.forgetting import Forgetting, attack_forgotten, draw_forgetting
from plgc.evaluation.kept import ways_of
from plgc.evaluation.scoring import learn, score
from plgc.experiments.differences import Difference, Draw
from plgc.graphs.views.protocol import Protocol, draw_case
from plgc.method import forget as forgetting
from plgc.sparse.prepared import PreparedGraphs

ANEW = "anew"
TRAININGS = (ANEW, "4/1/1", "4/3/1", "4/2/4", "4/3/4", "4/5/4")
SHARES = (0.01, 0.1)
SCORES = ("accuracy", "learned_accuracy")


def make(training: str, old: plgc.CondensedGraph, drawn: Forgetting, seed: int) -> plgc.CondensedGraph:
    """The file of what remains."""
    if training != ANEW:
        forgetting.SHORTER, forgetting.FASTER, forgetting.MORE = map(int, training.split("/"))
    how: dict[str, Any] = {"seed": seed, "threads": 1, "progress": False}
    return plgc.forget(old, drawn.first, drawn.gone, exact=training == ANEW, **how)


def accuracies(condensed: plgc.CondensedGraph, drawn: Forgetting, seed: int) -> dict[str, float]:
    """As shipped and with the learned part alone, on all nodes but those of training and test."""
    rest, prepared = copy.copy(drawn.rest), PreparedGraphs()
    rest["test_mask"] = ~(rest["train_mask"] | rest["test_mask"])
    case = draw_case(rest, Protocol(), seed)
    ways = ways_of(learn("plgc", case, [condensed], seed=seed, prepared=prepared))
    return {
        f"{way}accuracy": score(model, case, "node", seed=seed, prepared=prepared)["accuracy"]
        for way, model in ways.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", metavar="GRAPH:NODES")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trainings", default=",".join(TRAININGS))
    given = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[tuple[str, float, str], dict[int, dict[str, float]]] = {}
    for seed in range(given.seeds):
        for named in given.graphs:
            name, _, nodes = named.partition(":")
            graph = plgc.load_graph(name, notice=False)
            for share in SHARES:
                drawn = draw_forgetting(graph, share, seed)
                old = plgc.condense(drawn.first, nodes=int(nodes), seed=seed, threads=1, progress=False)
                for training in given.trainings.split(","):
                    start = time.process_time()
                    made = make(training, old, drawn, seed)
                    spent = time.process_time() - start
                    attack = attack_forgotten(made, drawn, seed=seed)
                    line = {"cpu_seconds": spent, **accuracies(made, drawn, seed), **attack}
                    found.setdefault((name, share, training), {})[seed] = line
                    print(json.dumps({"graph": name, "share": share, "seed": seed, "training": training, **line}))
                    sys.stdout.flush()
    for (name, share, training), lines in found.items():
        anew = found[name, share, ANEW]
        for score_name in SCORES:
            pairs = {Draw(seed, seed): line[score_name] - anew[seed][score_name] for seed, line in lines.items()}
            less = Difference(ANEW, pairs)
            print(name, share, training, score_name, round(less.mean, 2), less.interval, file=sys.stderr)


if __name__ == "__main__":
    main()
