"""A private release: what is published of X and Z are differences that are larger than chance, and nothing else.

A default x'_k is a mean of some twenty nodes. Most of what sets it apart from other rows is those nodes' own words:
chance to a learner, and what tells members from other nodes. Here row k is a contrast over all nodes,

    d_kj = Σ_n w_nk (x_nj − x̄_j),    s²_kj = Σ_n w²_nk (x_nj − x̄_j)²,

with d's standard error s. It is published where |d_kj| ≥ t s_kj, rounded to a power of √2, and left out elsewhere. One
node's part of a sum is at most the root of the sum of all squared parts: no node gives more than s / |d| ≤ 1 / t of a
published number, and a word has to be used by about t² nodes to be published at all. That is a bound, for the weights
as they are. That members are hard to find in the result was measured (docs/many_owners.md), not proven: encoders and
assignment were learned from all nodes.

Weights come in four widths, W = V S^p: V are those of the default X', S is the Gram matrix of the centred
pseudo-labels, in powers p of which nodes of similar clusters count more and more alike. Each value has the narrowest
contrast that is larger than chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from plgc.method.stage_one import PseudoLabels, unit_blocks
from plgc.method.stage_two import reach
from plgc.runtime.errors import SettingError
from plgc.sparse.features import Features, SparseFeatures, StoredFeatures, mean_rows
from plgc.sparse.inputs import Inputs

THRESHOLD = 4.0  # t: a difference is published from so many standard errors on
POWERS = (0.0, 0.5, 1.0, 2.0)  # p, the narrowest contrast first
LENGTH = 0.5  # of the published differences, relative to those of a default X'
COLUMNS = 32  # of the weights, at a time: all at once would be twice the memory of the assignment
COUNT_STEP = 5  # counts are rounded to multiples of it
NOISE_FLOOR = 1e-6  # of a squared standard error, relative to the squares that it is a difference of
RANK = 1e-6  # eigenvalues below this, relative to the largest, are none


@dataclass(frozen=True)
class PrivateRelease:
    """What is published: X' [K', f], and Ỹ and counts in ``labels``; ``share`` bounds one node's part of any number."""

    features: Tensor
    labels: PseudoLabels
    share: float


@torch.no_grad()
def release_privately(
    inputs: Inputs, embedding: Tensor, labels: PseudoLabels, blocks: tuple[int, ...], channels: tuple[str, ...]
) -> PrivateRelease:
    """X' and Ỹ from significant contrasts of X and Z; rows of which nothing is left are left out.

    Args:
        inputs: the graph, with X.
        embedding: Z, [N, d].
        labels: pseudo-labels as stage I leaves them.
        blocks: widths of the unit vectors that Ỹ is made of.
        channels: of every block.

    Raises:
        SettingError: fewer than two rows are left.
    """
    spread = cluster_spread(labels.vectors)
    features, share, found = significant(inputs.x, reach(inputs, labels, channels), spread)
    vectors, share_y, found_y = significant(embedding, labels.weights, spread)
    kept = (found & torch.stack([part.any(1) for part in vectors.split(list(blocks), dim=1)]).all(0) & found_y).nonzero()
    kept = kept.flatten()
    if len(kept) < 2:
        raise SettingError(
            f"a private release of {len(found)} synthetic nodes of {inputs.num_nodes} nodes would keep {len(kept)}: "
            f"too little differs by {THRESHOLD:g} standard errors. Ask for fewer nodes, or leave out private"
        )
    counts = (labels.counts[kept] / COUNT_STEP).round().long().clamp(min=1) * COUNT_STEP
    left = replace(
        labels,
        vectors=unit_blocks(vectors[kept], blocks),
        weights=labels.weights[:, kept],
        counts=counts,
        mass=labels.mass[kept],
    )
    return PrivateRelease(features[kept], left, max(share, share_y))


def cluster_spread(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of S = Ỹ_c Ỹ_cᵀ, Ỹ centred, without those that are 0: [R] and [K, R]."""
    centred = (vectors - vectors.mean(0)).double()
    values, bases = torch.linalg.eigh(centred @ centred.t())
    kept = values > RANK * values.max()
    return values[kept], bases[:, kept]


def significant(x: Features, weights: Tensor, spread: tuple[Tensor, Tensor]) -> tuple[Tensor, float, Tensor]:
    """The mean row and the differences from it that are published, rounded.

    Args:
        x: X or Z, [N, c].
        weights: V, [N, K], whose contrasts are taken.
        spread: of the clusters, see :func:`cluster_spread`.

    Returns:
        The rows [K, c]; the largest share of a published number that can come from one node; and which rows differ from
        the mean, bool [K].
    """
    centre = mean_rows(x, weights.new_full((len(weights), 1), 1 / len(weights)))[0]
    middle = weights.mean(1, keepdim=True)
    mean, error = (part[0] for part in _sums(x, middle, torch.zeros_like(centre)))
    seen = mean.abs() >= THRESHOLD * error
    shares = [(error / mean.abs())[seen]]
    found, length = torch.zeros(weights.shape[1], len(centre), device=weights.device), 0.0
    values, bases = spread
    for power in POWERS:
        mixing = (bases * values**power @ bases.t()).to(weights.dtype)
        parts = list(zip(*(_sums(x, own, centre) for own in _columns(weights, mixing)), strict=True))
        difference, error = torch.cat(parts[0]), torch.cat(parts[1])
        scale = float(difference.norm())
        length = length or scale
        new = (found == 0) & (difference.abs() >= THRESHOLD * error) & (error > 0)
        found[new] = difference[new] / scale
        shares.append((error / difference.abs())[new])
    size = float(found.norm())
    found = rounded(found * (LENGTH * length / size if size > 0 else 0.0))
    return torch.where(seen, rounded(mean), 0.0) + found, float(torch.cat(shares).max()), found.any(1)


def rounded(values: Tensor) -> Tensor:
    """Each value as the nearest power of √2, with its sign; 0 stays 0."""
    size = values.abs()
    return torch.where(size > 0, values.sign() * 2 ** ((2 * size.clamp(min=1e-30).log2()).round() / 2), 0.0)


def _columns(weights: Tensor, mixing: Tensor) -> Iterator[Tensor]:
    """V S^p, some columns at a time."""
    for own in mixing.split(COLUMNS, dim=1):
        yield weights @ own


def _sums(x: Features, weights: Tensor, centre: Tensor) -> tuple[Tensor, Tensor]:
    """d = Σ_n w_nk (x_n − c) and its standard error, √ Σ_n w²_nk (x_n − c)²: [k, c] each."""
    squares = weights.square()
    sums = mean_rows(x, weights) - weights.sum(0)[:, None] * centre
    largest = _squared_sums(x, squares) + squares.sum(0)[:, None] * centre.square()
    error = largest - 2 * centre * mean_rows(x, squares)
    return sums, torch.maximum(error, NOISE_FLOOR * largest).sqrt()


def _squared_sums(x: Features, weights: Tensor) -> Tensor:
    """weightsᵀ X², squared element by element, without making a sparse or stored X dense."""
    if isinstance(x, StoredFeatures):
        total = weights.new_zeros(weights.shape[1], x.shape[1])
        for start, rows in x.blocks():
            total += weights[start : start + len(rows)].t() @ rows.square()
        return total
    if isinstance(x, SparseFeatures):
        squared = [_with_values(matrix, matrix.values().square()) for matrix in (x.matrix, x.transpose)]
        return mean_rows(SparseFeatures(*squared), weights)
    return weights.t() @ x.square()


def _with_values(matrix: Tensor, values: Tensor) -> Tensor:
    parts = matrix.crow_indices(), matrix.col_indices()
    return torch.sparse_csr_tensor(*parts, values, matrix.shape, check_invariants=False)
