"""Tracing: does a file differ from what all candidates together would give in the direction of one of them?

For releases of sums over many nodes (Dwork, Smith, Steinke, Ullman and Vadhan, 2015). The attacker guesses the weights
of every candidate, turns the differences between rows to the main axes of the pseudo-labels, C = Uᵀ (X' − x̄'), and
computes what C would be if a random share of the candidates were members, E. What the file has beyond that, C − a E,
comes from who the members are, and from noise, which may differ from axis to axis. The score is its inner product with
what the node would add, Σ_r w_nr ⟨x_n / σ², (C − a E)_r⟩ / v_r, with σ² the variances of the features and v those of
the axes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from plgc.artifact.condensed import CondensedGraph
from plgc.evaluation.membership.assignment import guessed_reach
from plgc.method.contrasts import centred, cluster_spread
from plgc.method.noise import TINY
from plgc.sparse.features import mean_rows, squared_sums, times
from plgc.sparse.inputs import Inputs

FLOOR = 1e-3  # of the largest variance: features and axes that hardly vary are not divided by less


@torch.no_grad()
def tracing_scores(condensed: CondensedGraph, inputs: Inputs, embedding: Tensor) -> Tensor:
    """The score of every candidate, [N].

    Args:
        condensed: a file with pseudo-labels.
        inputs: the candidates in the space of the file.
        embedding: of the candidates by the rebuilt backbone, as Ỹ is, [N, d].
    """
    assert condensed.pseudo_labels is not None
    share = min(1.0, int(condensed.counts.sum()) / inputs.num_nodes)
    _, axes = cluster_spread(condensed.pseudo_labels.to(inputs.device, torch.float32))
    axes = axes.to(torch.float32)
    weights = centred(guessed_reach(condensed, inputs, embedding, share), axes)
    rows = condensed.features.to(inputs.device, torch.float32)
    found, expected = axes.t() @ (rows - rows.mean(0)), mean_rows(inputs.x, weights)
    variance = feature_variances(inputs)
    variance = variance.clamp(min=FLOOR * float(variance.max()) or 1.0)
    scaled = expected / variance
    slope = (found * scaled).sum(1, keepdim=True) / (expected * scaled).sum(1, keepdim=True).clamp(min=TINY)
    beyond = found - slope.clamp(min=0) * expected
    spread = (beyond.square() / variance).mean(1, keepdim=True)
    beyond = beyond / variance / spread.clamp(min=FLOOR * float(spread.max()) or 1.0)
    return (times(inputs.x, beyond.t().contiguous()) * weights).sum(1).double().cpu()


def feature_variances(inputs: Inputs) -> Tensor:
    """Variance of every feature over the candidates, [f]."""
    nodes = inputs.num_nodes
    each = torch.full((nodes, 1), 1 / nodes, device=inputs.device)
    return squared_sums(inputs.x, each)[0] - mean_rows(inputs.x, each)[0].square()
