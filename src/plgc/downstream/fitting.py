"""Train a head: experts on groups of parts, what each counts, how far to smooth, and self-training with few labels."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.downstream.head import TINY, Head, HeadSettings, mix_smoothed, smooth
from plgc.downstream.regression import LinearMaps, fit_experts, mix
from plgc.downstream.self_training import FEW, Teaching, self_train
from plgc.downstream.unit_rows import UnitRows, unit_rows
from plgc.downstream.weighing import (
    better_than_chance,
    edge_agreement,
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

ALONE = ("x",)  # the expert that sees no edge
LEAST_STRENGTH = 0.05  # of self-training
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of σ, tried on validation labels
SCALES = (0.5, 0.7, 1.0, 1.4, 2.0)  # of the logits, likewise: sharper predictions spread differently
FIRM = 10.0  # times the penalty, of one more expert on all parts: where labels are many and say little it is better
MOST_VALIDATED = 5000  # validation labels that weights are settled on


def fit_head(
    embedding: Tensor,
    parts: Mapping[str, int],
    labelled: Tensor,
    y: Tensor,
    num_classes: int,
    *,
    adjacency: Adjacency | None = None,
    x: Tensor | None = None,
    validation: Tensor | None = None,
    settings: HeadSettings | None = None,
) -> Head:
    """Train a head on the nodes ``labelled`` (indices), whose classes are ``y[labelled]``.

    Args:
        embedding: frozen embeddings of every node, [N, Σ parts].
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
    mean = embedding.mean(0)
    rows = unit_rows(embedding, parts, mean)
    if settings.smoothing_steps == 0:
        adjacency = None
    if validation is not None and len(validation) > 0:
        found, sigma, settled = _validated(rows, labelled, y, num_classes, adjacency, validation, settings)
    else:
        plain = rows.get("x") or (None if x is None else unit_rows(x, {"x": x.shape[1]})["x"])
        found, sigma, settled = _few(rows, plain, labelled, y[labelled], num_classes, adjacency, settings)
    if "smoothing" in settled:
        known = {name: part.take(labelled) for name, part in rows.items()}
        settled["weight_of_edges"] = share_of_edges(found, known)
    weight = torch.cat([found.weights[name][:, 0] for name in parts])
    return Head(weight, found.bias[0], mean, parts, sigma, settings, settled)


@torch.no_grad()
def _few(
    rows: Mapping[str, UnitRows],
    plain: UnitRows | None,
    labelled: Tensor,
    target: Tensor,
    classes: int,
    adjacency: Adjacency | None,
    settings: HeadSettings,
) -> tuple[LinearMaps, float, dict[str, float]]:
    """The map, σ and what was settled, from the given labels alone; ``plain`` is X."""
    groups, settled = expert_groups(list(rows)), dict[str, float]()
    known = {name: part.take(labelled) for name, part in rows.items()}
    wanted, weighting = F.one_hot(target, classes).float(), fold_weighting(target)
    trained, lean = list(groups.values()), 0.0
    if adjacency is not None and plain is not None:
        known["x"] = plain.take(labelled)
        trained += [] if ALONE in trained else [ALONE]
    experts = fit_experts(known, trained, wanted, weighting, settings.penalty, settings.steps)
    if adjacency is not None and plain is not None:
        alone = experts[trained.index(ALONE)].maps.only(0).logits({"x": plain})[:, 0]
        settled["edge_agreement"] = edge_agreement(alone.softmax(1), adjacency)
        lean = prior(settled["edge_agreement"])
    experts, told = experts[: len(groups)], target[left_out(weighting)]
    seen = [likelihood(held_out(one.logits.log_softmax(2), weighting), told) for one in experts]
    weights = weigh_experts(list(groups), torch.stack(seen), lean)
    pooled = mix([one.maps for one in experts], weights)
    own, sigma = pooled.logits(rows).log_softmax(2), 0.0  # [N, 1 + folds, C]
    guessed = held_out(own[labelled], weighting)
    if adjacency is not None:
        spread = smooth(own[:, 1:].exp(), adjacency, settings)[labelled].clamp(min=TINY).log()
        spread = held_out(torch.cat([own[labelled, :1], spread], 1), weighting)
        sigma = settled["smoothing"] = weigh_smoothing(guessed, spread, told, lean)
    strength = better_than_chance(guessed, told) if len(told) else 1.0
    if not settings.self_training or len(labelled) > FEW:
        return pooled.only(0), sigma, settled
    settled["self_training"] = strength
    if strength < LEAST_STRENGTH:
        return pooled.only(0), sigma, settled

    def answer(logits: Tensor) -> Tensor:
        return mix_smoothed(logits, sigma, adjacency, settings)

    teaching = Teaching(rows, list(groups.values()), weights, labelled, wanted, settings.penalty, answer)
    return self_train(pooled.only(0), answer(own[:, 0]), teaching, strength), sigma, settled


def _validated(
    rows: Mapping[str, UnitRows],
    labelled: Tensor,
    y: Tensor,
    classes: int,
    adjacency: Adjacency | None,
    validation: Tensor,
    settings: HeadSettings,
) -> tuple[LinearMaps, float, dict[str, float]]:
    """The map, σ and what was settled, with weights that predict the validation labels best."""
    groups = list(expert_groups(list(rows), validated=True).values())
    known = {name: part.take(labelled) for name, part in rows.items()}
    wanted, every = F.one_hot(y[labelled], classes).float(), torch.ones(1, len(labelled), device=y.device)
    experts = fit_experts(known, groups, wanted, every, settings.penalty, settings.steps)
    widest = max(groups, key=len)
    experts += fit_experts(known, [widest], wanted, every, FIRM * settings.penalty, settings.steps)
    groups.append(widest)
    logits = [one.maps.logits(rows)[:, 0] for one in experts]
    some = validation[:: -(-len(validation) // MOST_VALIDATED)]
    answers = [own[some].log_softmax(1) for own in logits]
    if adjacency is not None:
        answers += [smooth(own.softmax(1), adjacency, settings)[some].clamp(min=TINY).log() for own in logits]
    weights = stack(torch.stack(answers), y[some]).view(-1, len(groups)).sum(0)
    together = torch.tensordot(weights, torch.stack(logits), 1)
    scale, sigma = _scale_and_sigma(together, y, some, adjacency, settings)
    found = mix([one.maps for one in experts], weights * scale)
    if adjacency is None:
        return found, 0.0, {}
    return found, sigma, {"smoothing": sigma}


def _scale_and_sigma(
    logits: Tensor, y: Tensor, nodes: Tensor, adjacency: Adjacency | None, settings: HeadSettings
) -> tuple[float, float]:
    """The scale of the logits and the σ under which labels are most likely."""
    best = (float("inf"), 1.0, 0.0)
    for scale in SCALES:
        own = (scale * logits).log_softmax(1)
        spread = own if adjacency is None else smooth(own.exp(), adjacency, settings).clamp(min=TINY).log()
        for sigma in SHARES if adjacency is not None else (0.0,):
            loss = float(F.cross_entropy(((1 - sigma) * own + sigma * spread)[nodes], y[nodes]))
            best = min(best, (loss, scale, sigma))
    return best[1:]
