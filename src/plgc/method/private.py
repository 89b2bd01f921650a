"""A private release: what is published of X and Z are differences that are larger than chance, and nothing else.

A default x'_k is a mean of some twenty nodes. Most of what sets it apart from other rows is those nodes' own words:
chance to a learner, and what tells members from other nodes. Here row k is a contrast over all nodes,

    d_kj = Σ_n w_nk (x_nj − x̄_j),    s²_kj = Σ_n w²_nk (x_nj − x̄_j)²,

with d's standard error s. It is published where |d_kj| ≥ t s_kj, rounded to a power of √2, and left out elsewhere; so
is the mean that differences are added to. One node's part of a sum is at most the root of the sum of all squared
parts: no node gives more than s / |d| ≤ 1 / t of a mean or difference that is published, and a word has to be used by
about t² nodes to be published at all. That is a bound, for the weights as they are. That members are hard to find in
the result was measured (docs/many_owners.md), not proven: encoders and assignment were learned from all nodes.

Weights come in four widths, W = V S^p: V are those of the default X', S is the Gram matrix of the centred
pseudo-labels, in powers p of which nodes of similar clusters count more and more alike. Each value has the narrowest
contrast that is larger than chance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from plgc.method.stage_one import PseudoLabels, unit_blocks
from plgc.method.stage_two import reach
from plgc.runtime.errors import SettingError
from plgc.sparse.features import Features, SparseFeatures, StoredFeatures, mean_rows
from plgc.sparse.inputs import Inputs
from plgc.sparse.product import multiply

THRESHOLD = 5.0  # t: a difference is published from so many standard errors on
POWERS = (0.0, 0.5, 1.0, 2.0)  # p, the narrowest contrast first
LENGTH = 0.5  # of the published differences, relative to those of a default X'
COLUMNS = 32  # of the weights, at a time: all at once would be twice the memory of the assignment
COUNT_STEP = 5  # counts are rounded to multiples of it
NOISE_FLOOR = 1e-6  # of a squared standard error, relative to the squares that it is a difference of
TINY = 1e-30  # below every length that is divided by
RANK = 1e-6  # eigenvalues below this, relative to the largest, are none


@dataclass(frozen=True)
class Published:
    """Rows of X or Z as they are published.

    Attributes:
        rows: the mean row and the differences from it, rounded, [K, c].
        differs: which rows differ from the mean at all, bool [K].
        share: the largest part of a published mean or difference that can come from one node.
    """

    rows: Tensor
    differs: Tensor
    share: float


@torch.no_grad()
def release_privately(
    inputs: Inputs, embedding: Tensor, labels: PseudoLabels, blocks: tuple[int, ...], channels: tuple[str, ...]
) -> tuple[Tensor, PseudoLabels, float]:
    """X' and Ỹ from significant contrasts of X and Z; rows of which nothing is left are left out.

    Args:
        inputs: the graph, with X.
        embedding: Z, [N, d].
        labels: pseudo-labels as stage I leaves them.
        blocks: widths of the unit vectors that Ỹ is made of.
        channels: of every block.

    Returns:
        X' [K', f]; the pseudo-labels, with Ỹ and rounded counts; and the largest share of one node.

    Raises:
        SettingError: fewer than two rows are left.
    """
    spread = cluster_spread(labels.vectors)
    x = significant(inputs.x, reach(inputs, labels, channels), spread)
    z = significant(embedding, labels.weights, spread)
    whole = torch.stack([block.any(1) for block in z.rows.split(list(blocks), dim=1)]).all(0)
    kept = (x.differs & z.differs & whole).nonzero().flatten()
    if len(kept) < 2:
        raise SettingError(
            f"of {len(whole)} synthetic nodes, made from {inputs.num_nodes} nodes, {len(kept)} differ from the mean by "
            f"{THRESHOLD:g} standard errors: too few for a private release. Ask for fewer, or turn private off "
            "(--no-private)"
        )
    left = replace(
        labels,
        vectors=unit_blocks(z.rows[kept], blocks),
        weights=labels.weights[:, kept],
        counts=(labels.counts[kept] / COUNT_STEP).round().long().clamp(min=1) * COUNT_STEP,
        mass=labels.mass[kept],
    )
    return x.rows[kept], left, max(x.share, z.share)


def cluster_spread(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of S = Ỹ_c Ỹ_cᵀ, Ỹ centred, without those that are 0: [R] and [K, R]."""
    centred = (vectors - vectors.mean(0)).double()
    values, bases = torch.linalg.eigh(centred @ centred.t())
    kept = values > RANK * values.max()
    return values[kept], bases[:, kept]


def significant(x: Features, weights: Tensor, spread: tuple[Tensor, Tensor]) -> Published:
    """The mean row, and the differences from it that are larger than chance.

    Args:
        x: X or Z, [N, c].
        weights: V, [N, K], whose contrasts are taken.
        spread: of the clusters, see :func:`cluster_spread`.
    """
    centre = mean_rows(x, weights.new_full((len(weights), 1), 1 / len(weights)))[0]
    mean, error = (part[0] for part in _sums(x, weights.mean(1, keepdim=True), torch.zeros_like(centre)))
    seen = (mean.abs() >= THRESHOLD * error) & (mean != 0)
    shares = [(error / mean.abs())[seen]]
    found, lengths = mean.new_zeros(weights.shape[1], len(mean)), list[Tensor]()
    for power in POWERS:
        difference, error = _contrasts(x, weights, spread, power, centre)
        lengths.append(difference.norm())
        new = (found == 0) & (difference.abs() >= THRESHOLD * error) & (difference != 0)
        found[new] = (difference / lengths[-1])[new]
        shares.append((error / difference.abs())[new])
    found = rounded(found * (LENGTH * lengths[0] / found.norm().clamp(min=TINY)))
    share = torch.cat(shares)
    rows = torch.where(seen, rounded(mean), 0.0) + found
    return Published(rows, found.any(1), float(share.max()) if len(share) else 0.0)


def rounded(values: Tensor) -> Tensor:
    """Each value as the nearest power of √2, with its sign; 0 stays 0."""
    size = values.abs()
    return torch.where(size > 0, values.sign() * 2 ** ((2 * size.clamp(min=TINY).log2()).round() / 2), 0.0)


def _contrasts(
    x: Features, weights: Tensor, spread: tuple[Tensor, Tensor], power: float, centre: Tensor
) -> tuple[Tensor, Tensor]:
    """d and s of all rows, for W = V S^p: [K, c] each."""
    values, bases = spread
    mixing = (bases * values**power @ bases.t()).to(weights.dtype)
    parts = [_sums(x, weights @ own, centre) for own in mixing.split(COLUMNS, dim=1)]
    return torch.cat([sums for sums, _ in parts]), torch.cat([error for _, error in parts])


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
        parts, values = (x.transpose.crow_indices(), x.transpose.col_indices()), x.transpose.values().square()
        squares = torch.sparse_csr_tensor(*parts, values, x.transpose.shape, check_invariants=False)
        return multiply(squares, weights).t()
    return weights.t() @ x.square()
