"""Estimate the accuracy of a model that is fitted on every label, by cross-validation over those labels.

The backbone has seen no label, so the graph is embedded once; heads alone are fitted, one for every fold.
"""

from __future__ import annotations

import statistics
from typing import Any

from torch_geometric.data import Data

from plgc.downstream.backbone import Backbone
from plgc.downstream.head import HeadSettings
from plgc.downstream.tasks.answers import Answers, answers_on, describe_answers, joined
from plgc.downstream.tasks.node import fit_head_on
from plgc.evaluation.claims import wilson
from plgc.graphs.labels import NOTHING_HELD_OUT, choose_labels, cross_validation
from plgc.runtime.errors import LabelError, SettingError
from plgc.runtime.progress import Progress, shown
from plgc.sparse.stored_inputs import StoredGraphs

FEW, REPEATS_OF_FEW, REPEATS = 100, 10, 2  # with few labels, folds differ much


def cross_validate(
    backbone: Backbone,
    graph: Data,
    *,
    shots: int | None = None,
    labels: int | None = None,
    repeats: int | None = None,
    seed: int = 0,
    settings: HeadSettings | None = None,
    prepared: StoredGraphs | None = None,
    progress: Progress | bool | None = True,
) -> dict[str, Any]:
    """Fit heads on some of the labels and score them on the others, fold by fold.

    Folds are stratified: every class is spread over five of them, or over as many as its largest class has labels. The
    only label of a class is never held out. With ``shots`` or ``labels``, so many labels are drawn and all others held
    out. Of a graph with a split of its own, training labels alone are used.

    Args:
        backbone: from :func:`plgc.reconstruct`.
        graph: a labelled graph from :func:`plgc.load_graph`.
        shots, labels, settings: as for :func:`plgc.finetune`.
        repeats: how often the folds are drawn; by default 10 times of up to 100 labels, else twice.
        seed: of the first draw.
        prepared: where the graph is to stay on disk, see :mod:`plgc.downstream.from_disk`.
        progress: True for a bar on a terminal or in a notebook, False for none, or a function that is called with a
            message, the repetitions done and all of them.

    Returns:
        Plain values: ``accuracy`` and ``macro_f1`` with their mean, standard deviation and values over the repetitions;
        ``interval``, 95 % of the accuracy over the nodes (Wilson); ``folds``, ``repeats`` and ``learned_from``, the
        labels of a fold's head; and the values of :func:`plgc.downstream.tasks.answers.describe_answers`.

    Raises:
        LabelError: nothing can be held out.

    Example:
        >>> import plgc
        >>> from plgc.evaluation import cross_validate
        >>> graph = plgc.load_graph("demo")
        >>> backbone = plgc.reconstruct(plgc.condense(graph, nodes=40))
        >>> found = cross_validate(backbone, graph, repeats=1)
        >>> found["nodes"], found["folds"], found["learned_from"]
        (140, 5, 112)
    """
    first = cross_validation(graph, shots, labels, seed)
    if not first:
        raise LabelError(NOTHING_HELD_OUT)
    if repeats is None:
        repeats = REPEATS_OF_FEW if int(sum(one["test_mask"].sum() for one in first)) <= FEW else REPEATS
    if repeats < 1:
        raise SettingError(f"repeats is {repeats}: at least 1 is needed")
    inputs = backbone.prepare(graph, prepared)
    embedding, found = backbone.embed_either(inputs), list[Answers]()
    with shown(progress) as report:
        for repeat in range(repeats):
            report("estimating the accuracy", repeat, repeats)
            answers = []
            for fold in cross_validation(graph, shots, labels, seed + repeat):
                labelled, _ = choose_labels(fold, None, None, seed)
                head = fit_head_on(embedding, backbone.parts, inputs, fold, labelled, False, settings)
                answers.append(answers_on(head.probabilities(embedding, inputs.adjacency).cpu(), fold, "test"))
            found.append(joined(answers))
    return _summary(found, graph) | {"folds": len(first), "learned_from": int(first[0]["train_mask"].sum())}


def _summary(found: list[Answers], graph: Data) -> dict[str, Any]:
    about = describe_answers(found, graph)
    result: dict[str, Any] = {}
    for name in ("accuracy", "macro_f1"):
        values = [answers.metrics()[name] for answers in found]
        deviation = statistics.stdev(values) if len(values) > 1 else None
        result[name] = {"mean": statistics.fmean(values), "std": deviation, "values": values}
    low, high = wilson(result["accuracy"]["mean"] / 100, about["nodes"])
    return {**result, "interval": [100 * low, 100 * high], "repeats": len(found), **about}
