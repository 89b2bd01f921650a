"""How the rows of a graph's features are scaled for a rival: chosen on validation nodes, where its labels have any.

A GCN is trained on the whole graph once for every scaling, with the labels that the rival is given, and the scaling
with the best validation accuracy is kept. Under noise the validation labels are wrong as often as the others: they
choose all the same. Without validation labels it is ``auto``.

Rivals that learn X' by steps do this only on graphs for which their authors have published no step sizes: those belong
to the scaling that they were published with.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from plgc.downstream.tasks.classifier import train_classifier
from plgc.rivals.frame import RivalRun, accuracy_on
from plgc.runtime.errors import GraphError

TRIED = ("none", "l1")  # beside ``auto``
_known: dict[tuple[object, ...], dict[str, float]] = {}  # of the last runs: several rivals ask for the same
MOST_KNOWN = 64


def with_chosen_scaling(run: RivalRun) -> RivalRun:
    """The same run with the scaling that is best on the validation nodes; its file says what was compared."""
    part_of_a_graph = run.graph.core_mask is not None  # all parts have to be scaled alike, to be put together
    if run.labels.val.numel() == 0 or part_of_a_graph:
        return run
    tried = _validation_accuracies(run)
    best = max(tried, key=lambda scaling: tried[scaling])  # the first of equals, which is that of ``auto``
    return replace(run, scaling=best, chosen={**run.chosen, "scaling": best, "scalings_on_validation": tried})


def _validation_accuracies(run: RivalRun) -> dict[str, float]:
    """The best validation accuracy of a GCN on the whole graph, by scaling."""
    labels = run.labels
    key = run.fingerprint, labels.digest(), run.seed, run.device, torch.get_num_threads()
    if key not in _known:
        found: dict[str, float] = {}
        for scaling in dict.fromkeys((run.scaling, *TRIED)):
            try:
                inputs = replace(run, scaling=scaling).inputs
            except GraphError:
                if scaling == run.scaling:
                    raise
                continue  # raw values that are too large or too small to compute with
            train, score = labels.train.to(inputs.device), accuracy_on(inputs, labels.val, labels.y)
            target = labels.y.to(inputs.device)[train]
            how = {"scaling": scaling, "seed": run.seed, "score": score}
            found[scaling] = score(train_classifier(inputs.x, inputs.adjacency, train, target, labels.classes, **how))
        while len(_known) >= MOST_KNOWN:
            del _known[next(iter(_known))]
        _known[key] = found
    return _known[key]
