"""Let a method learn from a case, and score what it has learned: classify nodes, predict links or find clusters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.backbone import reconstruct
from plgc.downstream.combine import put_together
from plgc.downstream.embedder import Embedder
from plgc.downstream.head import HeadSettings, smooth
from plgc.downstream.tasks.classifier import Classifier, finetune_last_layer, train_classifier, train_on_condensed
from plgc.downstream.tasks.cluster import cluster_nodes, score_clusters
from plgc.downstream.tasks.link import fit_link, link_examples, score_links
from plgc.downstream.tasks.metrics import accuracy
from plgc.downstream.tasks.node import fit_head_on, score_nodes
from plgc.downstream.tasks.whole_link import train_whole_link
from plgc.graphs.load import node_labels, num_classes
from plgc.graphs.views.protocol import Case, Protocol, draw_case
from plgc.rivals.controls import PropagatedFeatures, RandomEncoder, train_ssl
from plgc.rivals.ctgc.condense import METHOD as CTGC
from plgc.rivals.ctgc.rebuild import rebuild_ctgc
from plgc.runtime.errors import LabelError, SettingError
from plgc.sparse.inputs import Inputs, resolve_scaling
from plgc.sparse.prepared import PreparedGraphs


def learn(
    method: str,
    case: Case,
    condensed: Sequence[CondensedGraph] = (),
    *,
    nodes: int | None = None,
    preset: str = "default",
    kind: str = "gcn",
    seed: int = 0,
    device: str = "cpu",
    combine: str | None = None,
    weights: Sequence[float] | None = None,
    prepared: PreparedGraphs | None = None,
) -> Embedder:
    """What a method makes of a case: a frozen embedder; a :class:`Classifier` where it has learned the classes too.

    Args:
        method: a name from :data:`plgc.rivals.methods.METHODS`.
        case: what it may see.
        condensed: what it has condensed, for the methods that do.
        nodes: K, for ``ssl``, whose prototypes depend on it.
        preset: for ``ssl``.
        kind: the kind of GNN.
        seed: of initial weights.
        device: where to compute.
        combine: how several sources are combined, see :func:`plgc.reconstruct`; those with labels are put together.
        weights: of several sources.
        prepared: a cache of the case's graphs, shared between methods.
    """
    prepared = prepared or PreparedGraphs()
    if condensed:
        if len(condensed) == 1 and condensed[0].method == CTGC:
            return rebuild_ctgc(condensed[0], kind=kind, seed=seed, device=device)
        if all(part.pseudo_labels is not None for part in condensed):
            return reconstruct(condensed, kind=kind, seed=seed, device=device, combine=combine, weights=weights)
        if combine is not None or weights is not None:
            raise SettingError(
                "combine and weights are for files with pseudo-labels: those with labels are put together"
            )
        whole = put_together(condensed)
        score = _validation_score(case, whole.scaling, device, prepared)
        return train_on_condensed(whole, kind=kind, seed=seed, device=device, score=score)
    assert case.seen.x is not None
    width, scaling = case.seen.x.shape[1], resolve_scaling(case.seen.x, "auto")
    match method:
        case "propagated_features":
            return PropagatedFeatures(width, scaling, device)
        case "random_encoder":
            return RandomEncoder(width, scaling, kind, seed, device)
        case "ssl" if nodes is not None:
            return train_ssl(case.seen, nodes=nodes, seed=seed, preset=preset, device=device)
        case "whole":
            return _train_whole(case, scaling, kind, seed, device, prepared)
        case "ssl":
            raise SettingError("ssl needs the number of prototypes: give nodes")
    raise SettingError(f"{method} needs a condensed graph, and none was given")


def score(
    learned: Embedder,
    case: Case,
    task: str,
    *,
    seed: int = 0,
    on: str = "test",
    prepared: PreparedGraphs | None = None,
) -> dict[str, float]:
    """Metrics of one task: accuracy and macro-F1 in per cent, AUROC, AP, NMI and ARI from 0 to 1.

    ``prepared`` is a cache of the case's graphs, shared between methods.
    """
    prepared = prepared or PreparedGraphs()
    if task == "link":
        split, graph = case.split, case.graph
        assert split is not None
        examples = prepared.once(("link", seed), lambda: link_examples(split, graph, seed))
        head, visible = fit_link(lambda seen: learned.embed(learned.prepare(seen, prepared)), learned.parts, examples)
        return score_links(head, visible, split, graph, seed, on)
    inputs = learned.prepare(case.visible, prepared)
    if task == "node":
        return _score_nodes(learned, case, inputs, on)
    embedding = learned.embed(inputs)
    found = cluster_nodes(embedding, learned.parts, num_classes(case.graph), seed)
    return score_clusters(found, node_labels(case.graph))


def score_whole_link(case: Case, *, seed: int = 0, on: str = "test", device: str = "cpu") -> dict[str, float]:
    """Link prediction by a GCN trained end to end on the training edges."""
    assert case.split is not None
    return train_whole_link(case.graph, case.split, seed, device=device, on=on)


def _score_nodes(learned: Embedder, case: Case, inputs: Inputs, on: str) -> dict[str, float]:
    if case.clean is None:
        raise LabelError("the graph has no labels: nodes cannot be classified")
    clean, y = case.clean.to(inputs.device), node_labels(case.graph).to(inputs.device)
    if not isinstance(learned, Classifier):
        embedding = learned.embed(inputs)
        head = fit_head_on(embedding, learned.parts, inputs, case.graph, case.clean, case.validate)
        return score_nodes(head.probabilities(embedding, inputs.adjacency).cpu(), case.graph, on)
    if case.finetune:
        learned = finetune_last_layer(learned, inputs, clean, y[clean])
    probability = learned.probabilities(inputs)
    metrics = score_nodes(probability.cpu(), case.graph, on)
    # Our head smooths its answers over the graph; what that would do for this method is reported beside.
    smoothed = smooth(probability, inputs.adjacency, HeadSettings()).argmax(1).cpu()
    mask = case.graph[f"{on}_mask"] & (node_labels(case.graph) >= 0)
    return {**metrics, "smoothed_accuracy": accuracy(smoothed[mask], node_labels(case.graph)[mask])}


def _train_whole(case: Case, scaling: str, kind: str, seed: int, device: str, prepared: PreparedGraphs) -> Classifier:
    """A GNN trained end to end on everything that a condensation would have seen."""
    if case.given is None:
        raise LabelError("the graph has no labels: a GNN cannot be trained on it end to end")
    inputs = prepared.inputs(case.seen, scaling, device)
    train, y = case.given.train.to(device), case.given.y.to(device)
    return train_classifier(
        inputs.x,
        inputs.adjacency,
        train,
        y[train],
        case.given.classes,
        scaling=scaling,
        kind=kind,
        seed=seed,
        score=_validation_score(case, scaling, device, prepared),
    )


def _validation_score(
    case: Case, scaling: str, device: str, prepared: PreparedGraphs
) -> Callable[[Classifier], float] | None:
    """Accuracy on the validation nodes, for keeping the best epoch; None where the protocol has no such labels."""
    if not case.validate or case.split is not None:
        return None
    inputs = prepared.inputs(case.visible, scaling, device)
    y = node_labels(case.graph).to(device)
    val = (case.graph["val_mask"].to(device) & (y >= 0)).nonzero().flatten()

    def value(model: Classifier) -> float:
        return float((model.probabilities(inputs)[val].argmax(1) == y[val]).float().mean())

    return value


def train_whole_graph(
    graph: Data,
    *,
    shots: int | None = None,
    labels: int | None = None,
    seed: int = 0,
    on: str = "test",
    device: str = "cpu",
) -> dict[str, float]:
    """Train a two-layer GCN on the whole graph and score it; the best epoch on validation with full labels only."""
    start = time.perf_counter()
    case = draw_case(graph, Protocol(shots=shots, labels=labels), seed)
    metrics = score(learn("whole", case, seed=seed, device=device), case, "node", on=on)
    return {**metrics, "seconds": time.perf_counter() - start}
