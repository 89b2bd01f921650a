"""The curve of private files: what attacks find and what accuracy is left, for several budgets of what they tell.

    PLGC_DATA=… python benchmarks/private_curve.py cora:70 citeseer:60 --budgets 0.35,0.5,0.7 --seeds 3 > curve.jsonl

Of every graph, random halves are condensed and attacked as in the experiment ``membership``, but with other seeds
(``--first-seed``), so that the budget is not chosen on the halves that are published. Accuracies are of files of the
whole graph, on validation nodes. A line of JSON for each graph, seed and budget; 0 is the default file.
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any

import plgc
from plgc.evaluation.membership import infer_membership
from plgc.evaluation.runs import RunOptions, run_seeds
from plgc.method import private

DRAWS = {None: 1, 3: 5}  # label draws of a seed, by labels per class


def scores(condensed: plgc.CondensedGraph, graph: Any, seed: int, device: str) -> dict[str, float]:
    """Accuracies as shipped and of the learned part alone, with all labels and with three per class."""
    found = {}
    for shots, draws in DRAWS.items():
        options = RunOptions(seeds=draws, first_seed=100 * seed, shots=shots, on="val", device=device)
        runs = run_seeds([condensed], graph, options, ())
        for name in ("plgc", "learned"):
            found[f"{name} {shots or 'all'}"] = statistics.fmean(runs.values(name))
    return found


def measure(graph: Any, nodes: int, budget: float, seed: int, device: str) -> dict[str, Any]:
    """One graph, seed and budget."""
    private.BUDGET = budget

    def condensed(part: Any, own: int) -> plgc.CondensedGraph:
        return plgc.condense(part, nodes=nodes, seed=own, private=budget > 0, device=device, progress=False)

    attacked = infer_membership(graph, condensed, seed=seed, enough=0.99, device=device)
    told = {name: attacked[name] for name in ("auc", "tpr", "strongest")}
    return {**told, **scores(condensed(graph, seed), graph, seed, device)}


def main() -> None:
    """Measure the graphs of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", metavar="GRAPH:NODES")
    parser.add_argument("--budgets", default="0,0.3,0.5,0.7,1")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    for word in given.graphs:
        name, _, nodes = word.partition(":")
        graph = plgc.load_graph(name, notice=False)
        for seed in range(given.first_seed, given.first_seed + given.seeds):
            for budget in map(float, given.budgets.split(",")):
                found = measure(graph, int(nodes), budget, seed, given.device)
                print(json.dumps({"graph": name, "seed": seed, "budget": budget, **found}), flush=True)


if __name__ == "__main__":
    main()
