"""Logistic regressions on groups of parts: several groups, and several weightings of the labels, solved together.

min_W,b  Σ_i ω_i · CE(softmax(z_i W + b), t_i) / Σ_i ω_i + (c / Σ_i ω_i) · ‖W‖²

z_i has the group's parts side by side, each scaled by 1 / √parts. With fewer labels than columns W lies in the span of
the labelled rows: it is sought there, in coordinates from the Cholesky factor of their Gram matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from plgc.downstream.unit_rows import UnitRows

JITTER = 1e-4  # on the diagonal of a Gram matrix, whose rows may repeat
POWER_STEPS = 12  # of the power method, for the largest eigenvalue
SAFETY = 1.1  # it is found from below
WIDEST = 2048  # columns up to which steps are scaled by a Cholesky factor


@dataclass(frozen=True)
class LinearMaps:
    """V linear maps Σ_parts z W + b side by side.

    Attributes:
        weights: by part, what its unit rows are multiplied with, [D, V, C].
        bias: [V, C].
    """

    weights: dict[str, Tensor]
    bias: Tensor

    def logits(self, rows: Mapping[str, UnitRows]) -> Tensor:
        """Of every node, [N, V, C]; one pass over the embedding, however many maps there are."""
        found = sum(rows[name].times(own.flatten(1)) for name, own in self.weights.items())
        return self.bias + found.unflatten(1, self.bias.shape)  # pyright: ignore[reportAttributeAccessIssue]

    def only(self, number: int) -> LinearMaps:
        """One of the maps."""
        chosen = slice(number, number + 1)
        return LinearMaps({name: own[:, chosen] for name, own in self.weights.items()}, self.bias[chosen])


@dataclass(frozen=True)
class Expert:
    """A logistic regression on a group of parts, for each of V weightings of the labels.

    Attributes:
        maps: one for each weighting.
        logits: of the rows that it was trained on, [n, V, C].
    """

    maps: LinearMaps
    logits: Tensor


def fit_experts(
    rows: Mapping[str, Tensor],
    groups: Sequence[tuple[str, ...]],
    target: Tensor,
    weighting: Tensor,
    penalty: float,
    steps: int,
) -> list[Expert]:
    """One expert for each group of parts.

    Args:
        rows: by part, the unit rows of the nodes to learn from, [n, D].
        groups: names of parts.
        target: t, class probabilities of these nodes, [n, C].
        weighting: ω, [V, n].
        penalty: c.
        steps: gradient steps.
    """
    n, classes = target.shape
    made: dict[int, Expert] = {}
    within = []
    for number, group in enumerate(groups):
        width = sum(rows[name].shape[1] for name in group)
        if n * (width + 2 * steps * classes) < 2 * steps * width * classes:  # the span multiplies less
            within.append(number)
            continue
        scale = len(group) ** -0.5
        whole = torch.cat([rows[name] for name in group], 1).mul_(scale)[None]
        solve = _descend if width > WIDEST else _descend_scaled
        inner, bias = solve(whole, target, weighting, penalty, steps)
        pieces = inner[0].split([rows[name].shape[1] for name in group])
        weights = {name: piece * scale for name, piece in zip(group, pieces, strict=True)}
        made[number] = Expert(LinearMaps(weights, bias[0, 0]), (_times(whole, inner) + bias)[0])
    found = fit_in_span(rows, rows, [groups[number] for number in within], target, weighting, penalty, steps)
    made |= zip(within, found, strict=True)
    return [made[number] for number in range(len(groups))]


def fit_in_span(
    rows: Mapping[str, Tensor],
    directions: Mapping[str, Tensor],
    groups: Sequence[tuple[str, ...]],
    target: Tensor,
    weighting: Tensor,
    penalty: float,
    steps: int,
) -> list[Expert]:
    """One expert for each group, its W sought in the span of k ``directions`` only: by part, rows [k, D]."""
    if not groups:
        return []
    names = sorted({name for group in groups for name in group})
    gram = {name: directions[name] @ directions[name].t() for name in names}
    across = gram if directions is rows else {name: rows[name] @ directions[name].t() for name in names}
    basis = _cholesky(torch.stack([_mean([gram[name] for name in group]) for group in groups]))
    onto = torch.stack([_mean([across[name] for name in group]) for group in groups])
    place = torch.linalg.solve_triangular(basis, onto.mT, upper=False).mT
    inner, bias = _descend(place, target, weighting, penalty, steps)
    alpha = torch.linalg.solve_triangular(basis.mT, inner.flatten(2), upper=True).view_as(inner)
    logits = _times(place, inner) + bias
    return [
        Expert(LinearMaps({name: _apply(directions[name].t(), own) / len(group) for name in group}, b[0]), found)
        for group, own, b, found in zip(groups, alpha, bias, logits, strict=True)
    ]


def mix(maps: Sequence[LinearMaps], shares: Sequence[float] | Tensor) -> LinearMaps:
    """Σ share · map: what averages the maps' answers log-linearly. A part that a map does not use counts as zeros."""
    weights: dict[str, Tensor] = {}
    for one, share in zip(maps, shares, strict=True):
        for name, own in one.weights.items():
            weights[name] = own * share + weights[name] if name in weights else own * share
    return LinearMaps(weights, torch.stack([one.bias * share for one, share in zip(maps, shares, strict=True)]).sum(0))


def beside(first: LinearMaps, second: LinearMaps) -> LinearMaps:
    """Maps that use the same parts, side by side."""
    weights = {name: torch.cat([own, second.weights[name]], 1) for name, own in first.weights.items()}
    return LinearMaps(weights, torch.cat([first.bias, second.bias]))


def _descend(rows: Tensor, target: Tensor, weighting: Tensor, penalty: float, steps: int) -> tuple[Tensor, Tensor]:
    """Accelerated gradient descent, restarted when it goes uphill: W [G, m, V, C] and b [G, 1, V, C].

    ``rows`` are [G, n, m]. The bias is a column of the size of the rows' largest singular value, without a penalty.
    """
    groups, _, width = rows.shape
    views, classes = len(weighting), target.shape[1]
    total = weighting.sum(1)
    share = (weighting / total[:, None]).t()  # [n, V]
    vector = rows.new_ones(groups, width, views)
    top = rows.new_ones(groups, 1, views)
    for _ in range(POWER_STEPS):
        vector = rows.mT @ (share * (rows @ vector))
        top = vector.norm(dim=1, keepdim=True).clamp(min=1e-12)
        vector = vector / top
    top = (SAFETY * top).clamp(min=1e-6)[..., None]  # [G, 1, V, 1]
    size, pull = top.sqrt(), (2 * penalty / total)[:, None]
    pace, share, wanted = 1 / (top + pull), share[..., None], target[:, None]
    weight = ahead = rows.new_zeros(groups, width, views, classes)
    bias = bias_ahead = rows.new_zeros(groups, 1, views, classes)
    momentum = torch.ones_like(top)
    for _ in range(steps):
        slope = share * (torch.softmax(_times(rows, ahead) + size * bias_ahead, -1) - wanted)
        down = _times(rows.mT, slope) + pull * ahead
        bias_down = size * slope.sum(1, keepdim=True)
        new, bias_new = ahead - pace * down, bias_ahead - pace * bias_down
        moved = (down * (new - weight)).sum((1, 3), keepdim=True)
        uphill = moved + (bias_down * (bias_new - bias)).sum((1, 3), keepdim=True) > 0
        momentum = torch.where(uphill, 1.0, momentum)
        after = (1 + (1 + 4 * momentum * momentum).sqrt()) / 2
        carry = torch.where(uphill, 0.0, (momentum - 1) / after)
        ahead, bias_ahead = new + carry * (new - weight), bias_new + carry * (bias_new - bias)
        weight, bias, momentum = new, bias_new, after
    return weight, size * bias


def _descend_scaled(
    rows: Tensor, target: Tensor, weighting: Tensor, penalty: float, steps: int
) -> tuple[Tensor, Tensor]:
    """The same for many rows [1, n, m] of few columns, in a third of the steps: a bound of the Hessian scales each.

    For the mean cross-entropy that is ½ XᵀX / n for every class (Böhning, 1992).
    """
    columns = torch.cat([rows[0], rows.new_ones(rows.shape[1], 1)], 1)
    found = []
    for one in weighting:
        total = one.sum()
        share, pull = (one / total)[:, None], torch.full_like(columns[0], float(2 * penalty / total))
        pull[-1] = 0.0  # the bias is free
        bound = columns.t() @ (share * columns) / 2
        factor = torch.linalg.cholesky(bound + torch.diag(pull + JITTER * bound.diagonal().mean()))
        weight = ahead = columns.new_zeros(columns.shape[1], target.shape[1])
        momentum = 1.0
        for _ in range(-(-steps // 3)):
            slope = share * (torch.softmax(columns @ ahead, 1) - target)
            down = columns.t() @ slope + pull[:, None] * ahead
            new = ahead - torch.cholesky_solve(down, factor)
            uphill = bool((down * (new - weight)).sum() > 0)
            momentum = 1.0 if uphill else momentum
            after = (1 + (1 + 4 * momentum * momentum) ** 0.5) / 2
            ahead = new + (0.0 if uphill else (momentum - 1) / after) * (new - weight)
            weight, momentum = new, after
        found.append(weight)
    both = torch.stack(found, 1)[None]  # [1, m + 1, V, C]
    return both[:, :-1], both[:, -1:]


def _times(rows: Tensor, weight: Tensor) -> Tensor:
    """[G, n, m] times [G, m, V, C]: [G, n, V, C]."""
    return (rows @ weight.flatten(2)).unflatten(2, weight.shape[2:])


def _apply(rows: Tensor, weight: Tensor) -> Tensor:
    """[D, n] times [n, V, C]: [D, V, C]."""
    return (rows @ weight.flatten(1)).unflatten(1, weight.shape[1:])


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(tensors)).mean(0)


def _cholesky(gram: Tensor) -> Tensor:
    eye = torch.eye(gram.shape[-1], device=gram.device)
    return torch.linalg.cholesky((gram + gram.mT) / 2 + JITTER * eye)
