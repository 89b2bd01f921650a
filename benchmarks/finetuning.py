"""How supervised methods should fine-tune on clean labels after learning from noisy ones: settings on validation nodes.

    PLGC_DATA=… python benchmarks/finetuning.py

The paper does not say. A GCN trained on the whole graph and GECC (a quick, strong rival) learn from noisy labels of
Cora and Citeseer; their last layers are then fine-tuned on the noise protocol's clean labels with every setting. It
prints the validation accuracy, mean over graphs and two seeds. The defaults of ``finetune_last_layer`` are the best by
the mean over rates: the choice most favourable to supervised methods. A few minutes on one core.
"""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict

import plgc
from plgc.downstream.tasks.classifier import Classifier, finetune_last_layer
from plgc.downstream.tasks.node import score_nodes
from plgc.evaluation.scoring import learn
from plgc.graphs import node_labels
from plgc.graphs.views.protocol import Protocol, draw_case
from plgc.rivals.methods import METHODS, condense_with

GRAPHS = (("cora", 70, 21), ("citeseer", 60, 18))  # name, nodes, clean labels
RATES = (0.0, 0.5, 0.9)
RIVALS = ("whole", "gecc")
SETTINGS = tuple(itertools.product((0.001, 0.003, 0.01), (20, 50, 200), (0.0, 5e-4)))  # rate, epochs, weight decay


def main() -> None:
    found: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for (name, nodes, labels), seed, noise, rival in itertools.product(GRAPHS, (0, 1), RATES, RIVALS):
        graph = plgc.load_graph(name)
        case = draw_case(graph, Protocol(labels=labels, noise=noise), seed)
        assert case.clean is not None
        condensed = []
        if METHODS[rival].condenses:
            condensed = [condense_with(rival, case.seen, nodes=nodes, seed=seed, labels=case.given)]
        model = learn(rival, case, condensed, seed=seed)
        assert isinstance(model, Classifier)
        inputs, target = model.prepare(case.visible), node_labels(graph)[case.clean]
        found[rival, noise, None].append(score_nodes(model.probabilities(inputs), graph, "val")["accuracy"])
        for learning_rate, epochs, decay in SETTINGS:
            tuned = finetune_last_layer(
                model, inputs, case.clean, target, epochs=epochs, learning_rate=learning_rate, weight_decay=decay
            )
            value = score_nodes(tuned.probabilities(inputs), graph, "val")["accuracy"]
            found[rival, noise, (learning_rate, epochs, decay)].append(value)
    print(
        "learning rate, epochs, weight decay | " + " | ".join(f"{r} {n:g}" for r in RIVALS for n in RATES) + " | mean"
    )
    for setting in (None, *SETTINGS):
        means = [statistics.fmean(found[rival, noise, setting]) for rival in RIVALS for noise in RATES]
        shown = " | ".join(f"{mean:.1f}" for mean in means)
        print(f"{'not fine-tuned' if setting is None else setting} | {shown} | {statistics.fmean(means):.1f}")


if __name__ == "__main__":
    main()
