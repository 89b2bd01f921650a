"""Regroup: points that stand for many nodes each become K groups, as nodes do at the end of stage I.

The rows of condensed graphs, or such rows beside the nodes of a graph, are weighted points: a row counts as many times
as it has nodes. The balanced assignment then has these masses in its rows (:func:`plgc.method.sinkhorn.sinkhorn`), and
its means are weighted by them. A group's features are the same means: X'_new = Wᵀ X', with the weights W below.
"""

from __future__ import annotations

import torch
from torch import Tensor

from plgc.method.release import merge_small_clusters
from plgc.method.settings import PseudoLabelSettings
from plgc.method.stage_one import PseudoLabels, read_pseudo_labels, spread_rows


@torch.no_grad()
def regroup(
    points: Tensor,
    masses: Tensor,
    start: Tensor,
    blocks: tuple[int, ...],
    settings: PseudoLabelSettings | None = None,
    *,
    minimum: int = 1,
) -> PseudoLabels:
    """Group M weighted points around K prototypes; where all masses are equal, as :func:`read_pseudo_labels` does.

    Args:
        points: Z, one unit vector per block, [M, d].
        masses: how many original nodes each point stands for, [M]; whole numbers.
        start: where the prototypes start, [K, d]; left as it is.
        blocks: widths of the unit vectors in the d columns.
        settings: of stage I: ε, tolerance, refinements.
        minimum: groups of fewer nodes are merged into their nearest neighbours, so that fewer than K may be left.

    Returns:
        Ỹ [K, d], the weights W [M, K], whose columns sum to one, and counts that add up to the sum of the masses.
    """
    masses = masses.to(points.dtype)
    found = read_pseudo_labels(points, start.clone(), blocks, settings or PseudoLabelSettings(), masses=masses)
    return merge_small_clusters(found, points, blocks, minimum)[0]


def spread_start(points: Tensor, masses: Tensor, count: int, seed: int) -> Tensor:
    """A start for :func:`regroup`: K points that are heavy and far from each other, [K, d]."""
    return spread_rows(points, count, torch.Generator().manual_seed(seed), masses.to(points.dtype))
