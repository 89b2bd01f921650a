"""What validation labels are worth to supervised methods that have three labels per class: GCond, and `whole`.

    PLGC_DATA=… python benchmarks/few_shot_validation.py [SEEDS]

With few labels our protocol has no validation labels, and the last epoch counts. The public code of CTGC, for the same
comparison, lets the 500 validation labels of the split choose the epoch of whole-graph training, and does not scale
features. This prints test accuracies of both: with validation labels, they choose the epoch and, for `whole`, the
scaling. GCond takes minutes a seed on one core.
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import replace

import plgc
from plgc.evaluation.scoring import learn, score
from plgc.graphs.views.protocol import Protocol, draw_case
from plgc.rivals.methods import METHODS, condense_with

GRAPHS = (("cora", 70), ("citeseer", 60))


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    for name, nodes in GRAPHS:
        graph, found = plgc.load_graph(name), dict[tuple[str, bool], list[float]]()
        for seed in range(seeds):
            case = draw_case(graph, Protocol(shots=3), seed)
            for rival in ("gcond", "whole"):
                condenses = METHODS[rival].condenses
                files = (
                    [condense_with(rival, case.seen, nodes=nodes, seed=seed, labels=case.given)] if condenses else []
                )
                for validate in (False, True):
                    model = learn(rival, replace(case, validate=validate), files, seed=seed)
                    value = score(model, case, "node")["accuracy"]
                    found.setdefault((rival, validate), []).append(value)
        for (rival, validate), values in found.items():
            how = "best epoch on validation nodes" if validate else "last epoch"
            print(f"{name}, {rival}, {how}: {statistics.fmean(values):.1f} over {seeds} seed(s)", flush=True)


if __name__ == "__main__":
    main()
