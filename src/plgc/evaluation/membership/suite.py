"""Attacks on one condensed graph, scored against the members it was made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.backbone import BackboneSettings, propagated_features, reconstruct
from plgc.downstream.tasks.metrics import auroc
from plgc.graphs.bare import BareGraph, bare_graph
from plgc.graphs.check import node_count
from plgc.graphs.views.inductive import induced_subgraph
from plgc.method.stage_one import unit_blocks
from plgc.runtime.errors import SettingError
from plgc.sparse.inputs import prepare, resolve_scaling

Condenser = Callable[[Data, int], CondensedGraph]
NEAREST = 5  # a shadow classifier is given the distances to so many synthetic nodes in every space
ALLOWED = 0.01  # false-positive rate
PENALTY = 1e-3  # on the squared weights of the shadow classifier


@dataclass(frozen=True)
class Evidence:
    """What the attacker computes for every node.

    Attributes:
        scores: by the attack's name, [N] each; larger for likelier members.
        columns: the input of a shadow classifier, standardised over the nodes, [N, F].
    """

    scores: dict[str, Tensor]
    columns: Tensor


def infer_membership(
    graph: Data, condenser: Condenser, *, seed: int = 0, shadows: int = 4, device: str = "cpu"
) -> dict[str, Any]:
    """Draw half of a graph's nodes as members, condense the subgraph they induce, and attack the result.

    Args:
        graph: any graph; its labels are given to the condenser only.
        condenser: makes a condensed graph from a graph and a seed; it makes the shadows too.
        seed: of the members, the condensation and the attack.
        shadows: how many shadows the attacker condenses; 0 leaves the shadow classifier out.
        device: where the attacker computes.
    """
    nodes = node_count(graph)
    members = draw_members(nodes, nodes // 2, torch.Generator().manual_seed(seed))
    condensed = condenser(induced_subgraph(graph, members), seed)
    return attack(condensed, graph, members, condenser=condenser, seed=seed, shadows=shadows, device=device)


def attack(
    condensed: CondensedGraph,
    graph: Data,
    members: Tensor,
    *,
    condenser: Condenser | None = None,
    seed: int = 0,
    shadows: int = 4,
    device: str = "cpu",
) -> dict[str, Any]:
    """Every attack on one condensed graph, and the strongest of them; see :func:`infer_membership`.

    Args:
        condensed: the target.
        graph: the whole graph, which the attacker has; labels are not read.
        members: which nodes the target was made from, bool [N]; used for scoring only.
        condenser: how the target was made, for the shadow classifier; None leaves it out.

    Returns:
        ``attacks``: for every attack its ``auc`` and ``tpr`` (true-positive rate at 1 % false positives);
        ``strongest``: the name of the attack with the largest AUC, with its ``auc``; ``tpr``: the largest of any.
    """
    bare = bare_graph(graph)
    if members.dtype != torch.bool or members.shape != (bare.num_nodes,) or members.all() or not members.any():
        raise SettingError(
            f"members are {members.dtype} {list(members.shape)}: expected one boolean for each of the "
            f"{bare.num_nodes} nodes, and both kinds of them"
        )
    target = gather_evidence(condensed, bare, seed=seed, device=device)
    scores = dict(target.scores)
    if condenser is not None and shadows > 0:
        known = condense_shadows(graph, condenser, int(members.sum()), shadows, seed)
        evidence = [gather_evidence(shadow, bare, seed=seed, device=device) for shadow, _ in known]
        scores["shadow_classifier"] = shadow_scores(target, evidence, [inside for _, inside in known])
    results = {
        name: {"auc": auroc(score, members), "tpr": true_positive_rate(score, members)}
        for name, score in scores.items()
    }
    strongest = max(results, key=lambda name: results[name]["auc"])
    best = max(result["tpr"] for result in results.values())
    return {"attacks": results, "strongest": strongest, "auc": results[strongest]["auc"], "tpr": best}


def draw_members(nodes: int, count: int, generator: torch.Generator) -> Tensor:
    """Mark ``count`` random nodes, bool [N]."""
    members = torch.zeros(nodes, dtype=torch.bool)
    members[torch.randperm(nodes, generator=generator)[:count]] = True
    return members


def condense_shadows(
    graph: Data, condenser: Condenser, size: int, shadows: int, seed: int
) -> list[tuple[CondensedGraph, Tensor]]:
    """Condense other random sets of members of the same size; with the members of each."""
    drawn = []
    for index in range(shadows):
        own = 1_000_003 * (seed + 1) + index  # differs from every target's seed, which the attacker does not know
        inside = draw_members(node_count(graph), size, torch.Generator().manual_seed(own))
        drawn.append((condenser(induced_subgraph(graph, inside), own), inside))
    return drawn


def gather_evidence(
    condensed: CondensedGraph, graph: Data | BareGraph, *, seed: int = 0, device: str = "cpu"
) -> Evidence:
    """Distances of every node to what the file holds.

    ``features``: nearest x'_k to the node's own row; ``propagated``: to its row of Â²X; ``pseudo_labels``: nearest ỹ_k
    to its embedding z by the rebuilt backbone; ``embedded``: nearest embedding of an x'_k; ``reconstruction_loss``:
    ‖z − ỹ_k‖² for the x'_k nearest to its row of Â²X, which the backbone's training makes small for members.
    """
    inputs = prepare(graph, condensed.scaling, device)
    synthetic = condensed.features.to(device)
    steps = {"features": 0, "propagated": 2}
    spaces = {name: distances(propagated_features(inputs, count), synthetic) for name, count in steps.items()}
    scores: dict[str, Tensor] = {}
    if condensed.pseudo_labels is not None:
        # Without the skip path: Â²X by itself is an attack of its own already.
        backbone = reconstruct(condensed, seed=seed, device=device, settings=BackboneSettings(skip=False))
        embedding, vectors = backbone.embed(inputs), condensed.pseudo_labels.to(device)
        spaces["pseudo_labels"] = distances(embedding, vectors)
        spaces["embedded"] = distances(embedding, backbone.embed_condensed(condensed))
        own = spaces["propagated"].argmin(1, keepdim=True)
        scores["reconstruction_loss"] = -spaces["pseudo_labels"].gather(1, own).flatten().square().cpu()
    nearest = {name: _smallest(space) for name, space in spaces.items()}
    scores |= {name: -rows[:, 0] for name, rows in nearest.items()}
    columns = torch.cat([*nearest.values(), *(score[:, None] for score in scores.values())], dim=1)
    spread = columns.std(0)
    return Evidence(scores, (columns - columns.mean(0)) / torch.where(spread > 0, spread, 1.0))


def shadow_scores(target: Evidence, shadows: Sequence[Evidence], members: Sequence[Tensor]) -> Tensor:
    """Scores of the target, [N], by a logistic regression that was trained on the shadows and their members.

    Its input is a node's evidence, and its difference to the same node's evidence in the (other) shadows: some nodes
    are close to everything, members or not.
    """
    rows = [_with_excess(shadow, [other for other in shadows if other is not shadow]) for shadow in shadows]
    weight, bias = fit_logistic(torch.cat(rows), torch.cat(list(members)))
    return _with_excess(target, shadows) @ weight + bias


def fit_logistic(rows: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and bias of a logistic regression with a small penalty, to convergence: [F] and []."""
    weight = torch.zeros(rows.shape[1], dtype=rows.dtype, requires_grad=True)
    bias = torch.zeros((), dtype=rows.dtype, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=200, line_search_fn="strong_wolfe")
    target = truth.to(rows.dtype)

    def closure() -> float:
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(rows @ weight + bias, target) + PENALTY * weight.square().sum()
        loss.backward()
        return float(loss.detach())

    optimizer.step(closure)
    return weight.detach(), bias.detach()


def true_positive_rate(scores: Tensor, members: Tensor, allowed: float = ALLOWED) -> float:
    """Share of members above the score that at most ``allowed`` of the non-members exceed."""
    others = scores[~members].sort(descending=True).values
    return float((scores[members] > others[int(allowed * len(others))]).double().mean())


def publish_members(graph: Data, seed: int) -> CondensedGraph:
    """The positive control: a file of real nodes, with a random projection of Â²X as Ỹ. Every attack has to succeed.

    It holds all nodes of the graph: members that are not in the file would leave no trace for an attack to find.
    """
    bare = bare_graph(graph)
    scaling = resolve_scaling(bare.x, "auto")
    inputs = prepare(bare, scaling)
    projection = torch.randn(inputs.num_features, 32, generator=torch.Generator().manual_seed(seed))
    return CondensedGraph(
        features=propagated_features(inputs, 0).float(),
        pseudo_labels=unit_blocks(propagated_features(inputs) @ projection, (32,)),
        counts=torch.ones(inputs.num_nodes, dtype=torch.int64),
        blocks=(32,),
        scaling=scaling,
        seed=seed,
        threads=torch.get_num_threads(),
        settings={"control": "real nodes"},
        nodes_requested=inputs.num_nodes,
    )


def distances(points: Tensor, centres: Tensor) -> Tensor:
    """Euclidean distances, [N, K]; in double precision, since those of members may be tiny."""
    points, centres = points.double(), centres.double()
    square = points.square().sum(1)[:, None] + centres.square().sum(1) - 2 * points @ centres.t()
    return square.clamp(min=0).sqrt()


def _with_excess(evidence: Evidence, others: Sequence[Evidence]) -> Tensor:
    if not others:
        return torch.cat([evidence.columns, torch.zeros_like(evidence.columns)], dim=1)
    usual = torch.stack([other.columns for other in others]).mean(0)
    return torch.cat([evidence.columns, evidence.columns - usual], dim=1)


def _smallest(space: Tensor) -> Tensor:
    """The few smallest distances of every node, in order, [N, NEAREST]; the last one repeated where K is smaller."""
    found = space.topk(min(NEAREST, space.shape[1]), dim=1, largest=False).values.cpu()
    return F.pad(found, (0, NEAREST - found.shape[1]), mode="replicate") if found.shape[1] < NEAREST else found
