"""Every attack on one condensed graph, scored against the members it was made from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.backbone import BackboneSettings, reconstruct
from plgc.downstream.tasks.metrics import auroc
from plgc.evaluation.membership.assignment import assignment_scores
from plgc.evaluation.membership.attributes import infer_words
from plgc.evaluation.membership.candidates import Combinations, View, candidates_of
from plgc.evaluation.membership.distance import distance_scores
from plgc.evaluation.membership.inversion import STEPS, inversion_scores, invert
from plgc.evaluation.membership.measures import Measured, measure_auc, measure_tpr
from plgc.evaluation.membership.reconstruction import recover_rows
from plgc.evaluation.membership.shadows import (
    Condenser,
    Evidence,
    classifier_scores,
    condense_shadows,
    draw_members,
    likelihood_ratios,
    normal_scores,
    standardised,
)
from plgc.evaluation.membership.tracing import tracing_scores
from plgc.evaluation.membership.unique import coverage_scores
from plgc.graphs.bare import bare_graph
from plgc.graphs.check import node_count
from plgc.graphs.views.inductive import induced_subgraph
from plgc.runtime.errors import ArtifactError, SettingError
from plgc.sparse.inputs import Inputs

SHADOWS = 4
DENSE_STEPS = 100  # of an inversion on embeddings, which are dense, and not exact anyway
INVERTED = {"inversion": (0,), "inversion_propagated": (2,), "inversion_both": (0, 2)}  # how often X is propagated


def infer_membership(
    graph: Data,
    condenser: Condenser,
    *,
    seed: int = 0,
    shadows: int = SHADOWS,
    enough: float | None = None,
    device: str = "cpu",
    view: View | None = None,
) -> dict[str, Any]:
    """Draw half of a graph's nodes as members, condense the subgraph they induce, and attack the result.

    Args:
        graph: any graph; its labels are given to the condenser only.
        condenser: makes a condensed graph from a graph and a seed; it makes the shadows too.
        seed: of the members, the condensation and the attack.
        shadows: how many shadows the attacker condenses; 0 leaves out the attacks that learn from them.
        enough: the AUC without shadows from which none are made; None makes them anyway.
        device: where the attacker computes.
        view: how the release changes rows; None for what the file says.
    """
    nodes = node_count(graph)
    members = draw_members(nodes, nodes // 2, torch.Generator().manual_seed(seed))
    condensed = condenser(induced_subgraph(graph, members), seed)
    options: dict[str, Any] = {"seed": seed, "shadows": shadows, "enough": enough, "device": device, "view": view}
    return attack(condensed, graph, members, condenser=condenser, **options)


def attack(
    condensed: CondensedGraph,
    graph: Data,
    members: Tensor,
    *,
    condenser: Condenser | None = None,
    seed: int = 0,
    shadows: int = SHADOWS,
    enough: float | None = None,
    device: str = "cpu",
    view: View | None = None,
) -> dict[str, Any]:
    """Every attack on one condensed graph, and the strongest of them; see :func:`infer_membership`.

    Args:
        condensed: the target.
        graph: the whole graph, which the attacker has; labels are not read.
        members: which nodes the target was made from, bool [N]; used for scoring only.
        condenser: how the target was made, for shadows; None leaves these out.
        enough: the AUC without shadows from which none are made; None makes them anyway.

    Returns:
        ``attacks``: for every attack its ``auc`` and ``tpr`` (true-positive rate at 1 % false positives), and
        ``auc_error`` and ``tpr_error``, their standard errors; ``strongest``: the name of the attack with the largest
        AUC, with its ``auc``; ``tpr``: the largest of any; ``words``: see :func:`infer_words`; ``rows``: see
        :func:`recover_rows`.
    """
    bare = bare_graph(graph)
    if members.dtype != torch.bool or members.shape != (bare.num_nodes,) or members.all() or not members.any():
        raise SettingError(
            f"members are {members.dtype} {list(members.shape)}: expected one boolean for each of the "
            f"{bare.num_nodes} nodes, and both kinds of them"
        )
    candidates = candidates_of(condensed, bare, device=device, view=view)
    target = gather_evidence(condensed, candidates.published, seed=seed)
    scores = dict(target.scores)
    if not all(bool(torch.isfinite(score).all()) for score in scores.values()):
        raise ArtifactError("the file's values are out of range: an attack on it ends in NaN or infinite scores")
    found = enough is not None and max(auroc(score, members) for score in scores.values()) >= enough
    if condenser is not None and shadows > 0 and not found:
        known = condense_shadows(graph, condenser, int(members.sum()), shadows, seed)
        evidence = [
            gather_evidence(shadow, candidates_of(shadow, bare, device=device, view=view).published, seed=seed)
            for shadow, _ in known
        ]
        inside = [drawn for _, drawn in known]
        scores["shadow_classifier"] = classifier_scores(target, evidence, inside)
        scores["likelihood_ratio"] = likelihood_ratios(target, evidence, inside)
    measured = {
        name: (measure_auc(score, members), measure_tpr(score, members, seed)) for name, score in scores.items()
    }
    strongest = max(measured, key=lambda name: measured[name][0].value)
    return {
        "attacks": {name: _plain(*found) for name, found in measured.items()},
        "strongest": strongest,
        "auc": measured[strongest][0].value,
        "tpr": max(rate.value for _, rate in measured.values()),
        "words": infer_words(condensed.features, candidates, members, seed=seed),
        "rows": recover_rows(candidates.words(condensed.features.to(device)), candidates.own.x, members),
    }


def _plain(auc: Measured, tpr: Measured) -> dict[str, float]:
    return {"auc": auc.value, "auc_error": auc.error, "tpr": tpr.value, "tpr_error": tpr.error}


def gather_evidence(condensed: CondensedGraph, inputs: Inputs, *, seed: int = 0) -> Evidence:
    """The scores of every attack that needs no shadows, and the columns for those that do.

    Args:
        condensed: the file.
        inputs: the candidates in the file's space (:func:`candidates_of`).
        seed: of the rebuilt backbone.
    """
    scores: dict[str, Tensor] = {}
    for name, steps in INVERTED.items():
        scores |= _inverted(name, condensed.features, Combinations(inputs, steps), condensed.counts)
    scores["unique_values"] = coverage_scores(condensed.features, inputs.x)
    embedding, synthetic = None, None
    if condensed.pseudo_labels is not None:
        # Without the skip path: Â²X by itself is an attack of its own already.
        backbone = reconstruct(condensed, seed=seed, device=str(inputs.device), settings=BackboneSettings(skip=False))
        embedding, synthetic = backbone.embed(inputs), backbone.embed_condensed(condensed)
        embedded = Combinations(Inputs(embedding, inputs.adjacency))
        scores |= _inverted("inversion_pseudo_labels", condensed.pseudo_labels, embedded, condensed.counts, DENSE_STEPS)
        scores["assignment_fit"] = assignment_scores(condensed, inputs, embedding)
        scores["tracing"] = tracing_scores(condensed, inputs, embedding)
    close, nearest = distance_scores(condensed, inputs, embedding, synthetic)
    scores |= close
    ranks = torch.stack([normal_scores(score) for score in scores.values()], dim=1)
    return Evidence(scores, standardised(torch.cat([*nearest, ranks], dim=1)))


def _inverted(
    name: str, rows: Tensor, candidates: Combinations, counts: Tensor, steps: int = STEPS
) -> dict[str, Tensor]:
    found = inversion_scores(invert(rows, candidates, steps=steps), candidates, counts)
    return {name: found["largest"], f"{name}_mass": found["mass"]}
