"""Contrasts: differences between clusters as sums over all nodes, and what one node can change about them.

The weights are w_r = V u_r less its mean. V, [N, K], is how much of each x'_k comes from every node, and u_1, u_2, …
are the eigenvectors of the Gram matrix of the centred pseudo-labels, the main differences between clusters first.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from plgc.sparse.features import Features, SparseFeatures, StoredFeatures, mean_rows, squared_sums

RANK = 1e-6  # eigenvalues below this, relative to the largest, are none


@dataclass(frozen=True)
class Contrasts:
    """Sums over all nodes.

    Attributes:
        sums: Σ_n w_nr x_nj, [R, c].
        error: s_rj = √ Σ_n w²_nr x²_nj, which is at least their standard error, [R, c].
        largest: the largest |w_nr x_nj| of any node, [R, c].
    """

    sums: Tensor
    error: Tensor
    largest: Tensor


def contrasts(x: Features, weights: Tensor) -> Contrasts:
    """Sums of X's rows, or Z's, with weights [N, R]."""
    return Contrasts(mean_rows(x, weights), squared_sums(x, weights.square()).sqrt(), _largest_parts(x, weights.abs()))


def cluster_spread(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues λ, the largest first, and eigenvectors u of Ỹ_c Ỹ_cᵀ, Ỹ centred; those of 0 left out: [R], [K, R]."""
    apart = (vectors - vectors.mean(0)).double()
    values, bases = torch.linalg.eigh(apart @ apart.t())
    kept = values > RANK * values.max()
    values, bases = values[kept].flip(0), bases[:, kept].flip(1)
    ends = bases.gather(0, bases.abs().argmax(0, keepdim=True))  # an eigenvector's sign is anybody's choice
    return values, bases * ends.sign()


def centred(weights: Tensor, bases: Tensor) -> Tensor:
    """w_r = V u_r less its mean, [N, R].

    Else what all nodes have in common would pass as a difference, and with it a word that one node uses.
    """
    mixed = weights @ bases.to(weights.dtype)
    return mixed - mixed.mean(0)


def count_users(x: Features) -> Tensor:
    """How many nodes have something else than 0 in each column, [c], as float64."""
    if isinstance(x, SparseFeatures):
        return x.transpose.crow_indices().diff().double()
    blocks = x.blocks() if isinstance(x, StoredFeatures) else [(0, x)]
    return torch.stack([(rows != 0).sum(0) for _, rows in blocks]).sum(0).double()


def _largest_parts(x: Features, weights: Tensor) -> Tensor:
    """max_n w_nr |x_nj|, [R, c], for weights of no sign."""
    if isinstance(x, SparseFeatures):
        rows, sizes = x.transpose.col_indices(), x.transpose.values().abs()
        column = torch.arange(x.shape[1], device=rows.device).repeat_interleave(x.transpose.crow_indices().diff())
        found = weights.new_zeros(weights.shape[1], x.shape[1])
        for own, result in zip(weights.t(), found, strict=True):
            result.scatter_reduce_(0, column, own[rows] * sizes, "amax")
        return found
    found = weights.new_zeros(weights.shape[1], x.shape[1])
    for start, block in x.blocks() if isinstance(x, StoredFeatures) else [(0, x)]:
        sizes = block.abs()
        for own, result in zip(weights[start : start + len(block)].t(), found, strict=True):
            torch.maximum(result, (own[:, None] * sizes).amax(0), out=result)
    return found
