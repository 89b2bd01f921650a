"""Train a head: experts on groups of parts, what each counts, how far to smooth, and self-training with few labels."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.downstream.embedder import Embedding
from plgc.downstream.everywhere import (
    Everywhere,
    TakenRows,
    alone,
    embedding_mean,
    everywhere,
)
from plgc.downstream.head import Head
from plgc.downstream.regression import LinearMaps, fit_experts, mix
from plgc.downstream.self_training import FEW, Teaching, self_train
from plgc.downstream.smoothing import HeadSettings
from plgc.downstream.weighing import (
    better_than_chance,
    expert_groups,
    fold_weighting,
    held_out,
    left_out,
    likelihood,
    prior,
    share_of_edges,
    stack,
    weigh_experts,
    weigh_smoothing,
)
from plgc.sparse.adjacency import Adjacency
from plgc.sparse.on_disk import StoredAdjacency

ALONE = ("x",)  # the expert that sees no edge
LEAST_STRENGTH = 0.05  # of self-training
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of σ, tried on validation labels
SCALES = (0.5, 0.7, 1.0, 1.4, 2.0)  # of the logits, likewise: sharper predictions spread differently
FIRM = 10.0  # times the penalty, of one more expert on all parts: where labels are many and say little it is better
MOST_VALIDATED = 5000  # validation labels that weights are settled on


def fit_head(
    embedding: Embedding,
    parts: Mapping[str, int],
    labelled: Tensor,
    y: Tensor,
    num_classes: int,
    *,
    adjacency: Adjacency | StoredAdjacency | None = None,
    x: Embedding | None = None,
    validation: Tensor | None = None,
    settings: HeadSettings | None = None,
) -> Head:
    """Train a head on the nodes ``labelled`` (indices), whose classes are ``y[labelled]``.

    Args:
        embedding: frozen embeddings of every node, [N, Σ parts]; of a graph on disk they stay there.
        parts: widths of the embedding's parts, by name.
        labelled: indices of the nodes to learn from.
        y: labels of every node; only those of ``labelled`` and ``validation`` are read.
        num_classes: C.
        adjacency: Â; None for a head that sees no edges.
        x: X as a dense matrix, [N, f], where it is none of the parts: how far predictions from X alone agree over the
            edges says, with few labels, how far to trust the edges. Without it nothing is presumed.
        validation: indices of the nodes whose labels settle what the experts count; None where there are none.
        settings: penalty, smoothing, self-training.
    """
    settings = settings or HeadSettings()
    mean = embedding_mean(embedding)
    nodes = everywhere(embedding, parts, adjacency if settings.smoothing_steps > 0 else None, mean)
    if validation is not None and len(validation) > 0:
        found, sigma, settled = _validated(nodes, labelled, y, num_classes, validation, settings)
    else:
        plain = None if "x" in nodes.rows or x is None else alone(x)
        found, sigma, settled = _few(nodes, plain, labelled, y[labelled], num_classes, settings)
    if "smoothing" in settled:
        known = {name: part.take(labelled) for name, part in nodes.rows.items()}
        settled["weight_of_edges"] = share_of_edges(found, known)
    weight = torch.cat([found.weights[name][:, 0] for name in parts])
    return Head(weight, found.bias[0], mean, parts, sigma, settings, settled)


@torch.no_grad()
def _few(
    nodes: Everywhere,
    plain: TakenRows | None,
    labelled: Tensor,
    target: Tensor,
    classes: int,
    settings: HeadSettings,
) -> tuple[LinearMaps, float, dict[str, float]]:
    """The map, σ and what was settled, from the given labels alone; ``plain`` is X where it is none of the parts."""
    rows = nodes.rows
    groups, settled = expert_groups(list(rows)), dict[str, float]()
    known = {name: part.take(labelled) for name, part in rows.items()}
    wanted, weighting = F.one_hot(target, classes).float(), fold_weighting(target)
    trained, lean = list(groups.values()), 0.0
    features = rows.get("x", plain) if nodes.has_edges else None
    if features is not None:
        known["x"] = features.take(labelled)
        trained += [] if ALONE in trained else [ALONE]
    experts = fit_experts(known, trained, wanted, weighting, settings.penalty, settings.steps)
    if features is not None:
        own = nodes.log_probabilities(experts[trained.index(ALONE)].maps.only(0), plain)
        settled["edge_agreement"] = nodes.edge_agreement(own[:, 0])
        lean = prior(settled["edge_agreement"])
    experts, told = experts[: len(groups)], target[left_out(weighting)]
    seen = [likelihood(held_out(one.logits.log_softmax(2), weighting), told) for one in experts]
    weights = weigh_experts(list(groups), torch.stack(seen), lean)
    pooled = mix([one.maps for one in experts], weights)
    own, sigma = nodes.log_probabilities(pooled), 0.0  # [N, 1 + folds, C]
    guessed = held_out(own[labelled], weighting)
    if nodes.has_edges:
        spread = nodes.smoothed_at(own[:, 1:], labelled, settings)
        spread = held_out(torch.cat([own[labelled, :1], spread], 1), weighting)
        sigma = settled["smoothing"] = weigh_smoothing(guessed, spread, told, lean)
    strength = better_than_chance(guessed, told) if len(told) else 1.0
    if not settings.self_training or len(labelled) > FEW:
        return pooled.only(0), sigma, settled
    settled["self_training"] = strength
    if strength < LEAST_STRENGTH:
        return pooled.only(0), sigma, settled

    def answer(maps: LinearMaps) -> Tensor:
        return nodes.mixed(nodes.log_probabilities(maps), sigma, settings)

    start = nodes.mixed(own[:, 0], sigma, settings)
    del own  # of a graph on disk, a file
    teaching = Teaching(nodes, list(groups.values()), weights, labelled, wanted, settings.penalty, answer)
    return self_train(pooled.only(0), start, teaching, strength), sigma, settled


def _validated(
    nodes: Everywhere,
    labelled: Tensor,
    y: Tensor,
    classes: int,
    validation: Tensor,
    settings: HeadSettings,
) -> tuple[LinearMaps, float, dict[str, float]]:
    """The map, σ and what was settled, with weights that predict the validation labels best."""
    groups = list(expert_groups(list(nodes.rows), validated=True).values())
    known = {name: part.take(labelled) for name, part in nodes.rows.items()}
    wanted, every = F.one_hot(y[labelled], classes).float(), torch.ones(1, len(labelled), device=y.device)
    experts = fit_experts(known, groups, wanted, every, settings.penalty, settings.steps)
    widest = max(groups, key=len)
    experts += fit_experts(known, [widest], wanted, every, FIRM * settings.penalty, settings.steps)
    groups.append(widest)
    some = validation[:: -(-len(validation) // MOST_VALIDATED)]
    answers, smoothed = list[Tensor](), list[Tensor]()
    for one in experts:
        own = nodes.log_probabilities(one.maps)[:, 0]
        answers.append(own[some])
        smoothed += [nodes.smoothed_at(own, some, settings)] if nodes.has_edges else []
    weights = stack(torch.stack(answers + smoothed), y[some]).view(-1, len(groups)).sum(0)
    together = nodes.log_probabilities(mix([one.maps for one in experts], weights))[:, 0]
    scale, sigma = _scale_and_sigma(nodes, together, y, some, settings)
    found = mix([one.maps for one in experts], weights * scale)
    if not nodes.has_edges:
        return found, 0.0, {}
    return found, sigma, {"smoothing": sigma}


def _scale_and_sigma(
    nodes: Everywhere, log_p: Tensor, y: Tensor, some: Tensor, settings: HeadSettings
) -> tuple[float, float]:
    """The scale of logits, here log p, and the σ under which the labels of some nodes are most likely."""
    best = (float("inf"), 1.0, 0.0)
    for scale in SCALES:
        all_own = nodes.each(lambda rows, scale=scale: (scale * rows).log_softmax(1), log_p)
        own = all_own[some]
        spread = nodes.smoothed_at(all_own, some, settings) if nodes.has_edges else own
        for sigma in SHARES if nodes.has_edges else (0.0,):
            loss = float(F.cross_entropy((1 - sigma) * own + sigma * spread, y[some]))
            best = min(best, (loss, scale, sigma))
    return best[1:]
