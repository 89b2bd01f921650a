"""Make a model of what a method may see in a case, and score it: classify nodes, predict links or find clusters.

:mod:`plgc.evaluation.kept` has the three ways in which every method is scored.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.backbone import reconstruct
from plgc.downstream.combine import put_together
from plgc.downstream.embedder import Embedder
from plgc.downstream.head import HeadSettings
from plgc.downstream.smoothing import smooth
from plgc.downstream.tasks.answers import Answers, answers_on
from plgc.downstream.tasks.classifier import Classifier, finetune_last_layer, train_on_condensed
from plgc.downstream.tasks.cluster import cluster_nodes, score_clusters
from plgc.downstream.tasks.link import fit_link, link_examples, score_links
from plgc.downstream.tasks.metrics import accuracy
from plgc.downstream.tasks.node import fit_head_on
from plgc.downstream.tasks.whole_link import train_whole_link
from plgc.evaluation.kept import Ways
from plgc.graphs.attributes import attribute
from plgc.graphs.load import node_labels, num_classes
from plgc.graphs.views.protocol import Case, Protocol, draw_case
from plgc.rivals.controls import LearnOptions, validation_score
from plgc.rivals.methods import METHODS, load
from plgc.runtime.errors import LabelError, SettingError
from plgc.runtime.options import accepts
from plgc.sparse.inputs import Inputs
from plgc.sparse.prepared import PreparedGraphs
from plgc.sparse.stored_inputs import StoredGraphs


@accepts(options=LearnOptions)
def learn(method: str, case: Case, condensed: Sequence[CondensedGraph] = (), *, options: LearnOptions) -> Embedder:
    """What a method makes of a case: a frozen embedder; a :class:`Classifier` where it has learned the classes too.

    Args:
        method: a name from :data:`plgc.rivals.methods.METHODS`.
        case: what it may see.
        condensed: what it has condensed, for the methods that do. How a model is made from the files depends on
            what is in them, and on the method that a single file was made by, not on ``method``.
        options: see :class:`plgc.rivals.controls.LearnOptions`; its fields may be given as keywords.
    """
    if not condensed:
        record = METHODS.get(method)
        if record is None or record.reference is None:
            raise SettingError(f"{method} needs a condensed graph, and none was given")
        return load(record.reference)(case, options)
    how: dict[str, Any] = {"kind": options.kind, "seed": options.seed, "device": options.device}
    made_by = METHODS.get(condensed[0].method)
    if len(condensed) == 1 and made_by is not None and made_by.rebuild is not None:
        return load(made_by.rebuild)(condensed[0], **how)
    if all(part.pseudo_labels is not None for part in condensed):
        return reconstruct(condensed, **how, combine=options.combine, weights=options.weights)
    if options.combine is not None or options.weights is not None:
        raise SettingError("combine and weights are for files with pseudo-labels: those with labels are put together")
    whole = put_together(condensed)
    own = made_by.evaluator if made_by is not None and {part.method for part in condensed} == {made_by.name} else None
    if own is not None:
        how["settings"] = load(own)(condensed[0].method, attribute(case.graph, "name") or "", whole.num_nodes)
    prepared = options.prepared or PreparedGraphs()
    score = validation_score(case, whole.scaling, options.device, prepared, options.metric)
    return train_on_condensed(whole, **how, score=score)


def score(
    learned: Embedder,
    case: Case,
    task: str,
    *,
    seed: int = 0,
    on: str = "test",
    prepared: PreparedGraphs | StoredGraphs | None = None,
    settled: dict[str, float] | None = None,
    head: HeadSettings | None = None,
    answers: list[Answers] | None = None,
) -> dict[str, float]:
    """Metrics of one task: accuracy and macro-F1 in per cent, AUROC, AP, NMI and ARI from 0 to 1.

    Nodes are classified by the authors' own head or classifier where the model has one, else by ours.
    ``prepared`` is a cache of the case's graphs, shared between methods. ``settled`` is filled with what the head for
    nodes has settled (:attr:`plgc.downstream.head.Head.settled`), which is trained by the settings ``head``. The node
    task's predictions are appended to ``answers``.
    """
    prepared = prepared or PreparedGraphs()
    if isinstance(prepared, StoredGraphs):
        if task != "node":
            raise SettingError(f"--task {task} is not done from disk: leave the memory limit out")
        found, metrics = _answer_stored(learned, case, prepared, on, {} if settled is None else settled, head)
        if answers is not None:
            answers.append(found)
        return metrics
    if task == "link":
        split, graph = case.split, case.graph
        assert split is not None
        examples = prepared.once(("link", seed), lambda: link_examples(split, graph, seed))
        pair_head, visible = fit_link(
            lambda seen: learned.embed(learned.prepare(seen, prepared)), learned.parts, examples
        )
        return score_links(pair_head, visible, split, graph, seed, on)
    inputs = learned.prepare(case.visible, prepared)
    if task == "node":
        found, metrics = _answer_nodes(learned, case, inputs, on, {} if settled is None else settled, head)
        if answers is not None:
            answers.append(found)
        return metrics
    embedding = learned.embed(inputs)
    found = cluster_nodes(embedding, learned.parts, num_classes(case.graph), seed)
    return score_clusters(found, node_labels(case.graph))


def score_ways(
    ways: Ways, case: Case, task: str, *, prepared: PreparedGraphs | None = None, **how: Any
) -> dict[str, float]:
    """Metrics of every way to score a model, each under the prefix of its way; ``how`` goes to :func:`score`."""
    prepared = prepared or PreparedGraphs()
    scores = {prefix: score(model, case, task, prepared=prepared, **how) for prefix, model in ways.items()}
    return {f"{prefix}{name}": value for prefix, found in scores.items() for name, value in found.items()}


def score_whole_link(case: Case, *, seed: int = 0, on: str = "test", device: str = "cpu") -> dict[str, float]:
    """Link prediction by a GCN trained end to end on the training edges."""
    assert case.split is not None
    return train_whole_link(case.graph, case.split, seed, device=device, on=on)


def _answer_nodes(
    learned: Embedder,
    case: Case,
    inputs: Inputs,
    on: str,
    settled: dict[str, float],
    settings: HeadSettings | None = None,
) -> tuple[Answers, dict[str, float]]:
    """Predictions for the nodes to be scored, and their metrics."""
    if case.clean is None:
        raise LabelError("the graph has no labels: nodes cannot be classified")
    clean, y = case.clean.to(inputs.device), node_labels(case.graph).to(inputs.device)
    if learned.own_head is not None:
        probability = learned.own_head(learned.embed(inputs), clean, y[clean], num_classes(case.graph))
        answers = answers_on(probability.cpu(), case.graph, on)
        return answers, answers.metrics()
    if not isinstance(learned, Classifier):
        embedding, adjacency = learned.embed(inputs), inputs.adjacency if learned.uses_edges else None
        seen = {"uses_edges": learned.uses_edges}
        head = fit_head_on(embedding, learned.parts, inputs, case.graph, case.clean, case.validate, settings, **seen)
        settled.update(head.settled)
        answers = answers_on(head.probabilities(embedding, adjacency).cpu(), case.graph, on)
        return answers, answers.metrics()
    if case.finetune:
        learned = finetune_last_layer(learned, inputs, clean, y[clean])
    probability = learned.probabilities(inputs)
    answers = answers_on(probability.cpu(), case.graph, on)
    # Our head smooths its predictions over the graph; what that would do for this method is reported beside.
    smoothed = smooth(probability, inputs.adjacency, HeadSettings()).argmax(1).cpu()
    return answers, {**answers.metrics(), "smoothed_accuracy": accuracy(smoothed[answers.nodes], answers.truth)}


def _answer_stored(
    learned: Embedder,
    case: Case,
    prepared: StoredGraphs,
    on: str,
    settled: dict[str, float],
    settings: HeadSettings | None = None,
) -> tuple[Answers, dict[str, float]]:
    """Predictions of our head for the nodes to be scored of a graph on disk, and their metrics."""
    if case.clean is None:
        raise LabelError("the graph has no labels: nodes cannot be classified")
    inputs = learned.prepare(case.visible, prepared)
    embedding, adjacency = learned.embed_stored(inputs), inputs.adjacency if learned.uses_edges else None
    seen = {"uses_edges": learned.uses_edges}
    head = fit_head_on(embedding, learned.parts, inputs, case.graph, case.clean, case.validate, settings, **seen)
    settled.update(head.settled)
    answers = answers_on(head.probabilities(embedding, adjacency), case.graph, on)
    return answers, answers.metrics()


def train_whole_graph(
    graph: Data,
    *,
    shots: int | None = None,
    labels: int | None = None,
    seed: int = 0,
    on: str = "test",
    device: str = "cpu",
) -> dict[str, float]:
    """Train a two-layer GCN on the whole graph and score it; validation nodes choose with full labels only."""
    start = time.perf_counter()
    case = draw_case(graph, Protocol(shots=shots, labels=labels), seed)
    metrics = score(learn("whole", case, seed=seed, device=device), case, "node", on=on)
    return {**metrics, "seconds": time.perf_counter() - start}
