"""Clusterings of rows: k-means and fuzzy c-means, and coordinates for spectral clustering.

:func:`kmeans` is CTGC's, of all nodes at once in their own precision. :func:`cluster` is shared by CGC-X and GECC, of
one class at a time, from many starts, in double precision. Random numbers are drawn on the CPU.
"""

from __future__ import annotations

import torch
from torch import Tensor

ROWS_AT_ONCE = 65_536  # rows whose distances to all centres are held at a time
ROUNDS, TOLERANCE = 300, 1e-8  # of one clustering, as GECC's code has them
KERNEL_SHIFT = 0.5**0.5  # CGC's affinity of two nodes is (u·v + shift)²


# Of all nodes (CTGC)


@torch.no_grad()
def kmeans(rows: Tensor, count: int, steps: int, generator: torch.Generator) -> Tensor:
    """Lloyd's algorithm from random rows; an empty cluster gets the row that is farthest from its own centre."""
    start = torch.randperm(len(rows), generator=generator)[:count].to(rows.device)
    centres, cluster = rows[start], start
    for step in range(steps):
        cluster, distance = _assign(rows, centres)
        size = torch.bincount(cluster, minlength=count)
        for empty in (size == 0).nonzero().flatten():
            farthest = torch.where(size[cluster] > 1, distance, -torch.inf).argmax()
            size[cluster[farthest]] -= 1
            cluster[farthest], size[empty] = empty, 1
        if step < steps - 1:
            centres = means(rows, cluster, count)
    return cluster


def _assign(rows: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    found = [torch.cdist(part, centres).min(1) for part in rows.split(ROWS_AT_ONCE)]
    return torch.cat([best.indices for best in found]), torch.cat([best.values for best in found])


@torch.no_grad()
def means(rows: Tensor, cluster: Tensor, count: int) -> Tensor:
    """The mean row of every cluster."""
    total = torch.zeros(count, rows.shape[1], device=rows.device).index_add_(0, cluster, rows)
    return total / torch.bincount(cluster, minlength=count).clamp(min=1)[:, None]


@torch.no_grad()
def nearest(rows: Tensor, centres: Tensor) -> Tensor:
    """The centroid of largest cosine for every row; both are unit vectors."""
    return torch.cat([(part @ centres.T).argmax(1) for part in rows.split(ROWS_AT_ONCE)])


# Of one class, from many starts (CGC-X and GECC)


def cluster(
    x: Tensor,
    parts: int,
    *,
    fuzziness: float = 1.0,
    restarts: int = 1,
    balance: float = 0.0,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """k-means or fuzzy c-means (Bezdek, 1981), the best of several starts, all run side by side.

    With memberships u (each row's sum to one) and m the fuzziness, centres are c_i = Σ_j u_ij^m x_j / Σ_j u_ij^m and
    memberships u_ij ∝ ‖x_j − c_i‖^(−2/(m−1)); at m = 1 a row belongs to its nearest centre. The best start has the
    least Σ u_ij^m ‖x_j − c_i‖² + balance · Σ_i (Σ_j u_ij − n/parts)².

    Args:
        x: rows [n, d], double precision.
        parts: k, at most n.
        fuzziness: m.
        restarts: how many starts: from random rows; for fuzzy c-means, all but the first from random memberships.
        balance: weight of uneven sizes in the choice among starts.
        generator: a CPU generator, the only source of randomness.

    Returns:
        The weights [k, n] whose product with ``x`` is the centres, and the memberships [k, n].
    """
    n = x.shape[0]
    x = x - x.mean(0)
    if n < x.shape[1]:
        x = torch.linalg.qr(x.T).R.T.contiguous()  # the same distances in n coordinates
    seeds = torch.stack([torch.randperm(n, generator=generator)[:parts] for _ in range(restarts)]).to(x.device)
    u = _memberships(_squared_distances(x, x[seeds]), fuzziness)
    if fuzziness > 1 and restarts > 1:
        drawn = torch.rand(restarts - 1, parts, n, generator=generator, dtype=torch.float64).to(x.device)
        u[1:] = drawn / drawn.sum(1, keepdim=True)
    weights = distance = u
    for _ in range(ROUNDS):
        weights = _centre_weights(u, fuzziness, generator)
        distance = _squared_distances(x, weights @ x)
        before, u = u, _memberships(distance, fuzziness)
        if float((u - before).flatten(1).norm(dim=1).max()) < TOLERANCE:
            break
    objective = (u**fuzziness * distance).sum((1, 2)) + balance * (u.sum(2) - n / parts).square().sum(1)
    best = int(objective.argmin())
    return weights[best], u[best]


def _squared_distances(x: Tensor, centres: Tensor) -> Tensor:
    """‖x_j − c_i‖², [restarts, k, n]."""
    cross = centres @ x.T
    return (centres.square().sum(2, keepdim=True) - 2 * cross + x.square().sum(1)).clamp(min=1e-30)


def _memberships(distance: Tensor, fuzziness: float) -> Tensor:
    if fuzziness == 1:
        return torch.zeros_like(distance).scatter_(1, distance.argmin(1, keepdim=True), 1.0)
    share = (distance.amin(1, keepdim=True) / distance) ** (1 / (fuzziness - 1))
    return share / share.sum(1, keepdim=True)


def _centre_weights(u: Tensor, fuzziness: float, generator: torch.Generator) -> Tensor:
    """u^m scaled to sum to one for every centre; one without members moves to a random row."""
    weights = u**fuzziness
    total = weights.sum(2, keepdim=True)
    empty = (total == 0).flatten().nonzero().flatten()
    weights = weights / total.clamp(min=1e-300)
    if empty.numel():
        moved = torch.randint(u.shape[2], (empty.numel(),), generator=generator).to(u.device)
        weights.view(-1, u.shape[2])[empty, moved] = 1.0
    return weights


# Spectral (CGC-X)


def spectral_embedding(x: Tensor, parts: int, generator: torch.Generator) -> Tensor:
    """Coordinates of n rows for k-means, [n, parts]: eigenvectors of their affinity, but for the first.

    With u the rows of X's leading left singular vectors, the affinity of two rows is (u·v + c)². It is the product of
    explicit features (c, √(2c) u_i, √2 u_i u_j, u_i²), so no n × n matrix is made. Normalised by its row sums, the
    leading eigenvectors are left singular vectors of those features.
    """
    u = _left_vectors(x - x.mean(0), parts, generator)
    first, second = torch.triu_indices(u.shape[1], u.shape[1], device=u.device)
    scale = torch.where(first == second, 1.0, 2.0**0.5).to(u.dtype)
    bias = torch.full_like(u[:, :1], KERNEL_SHIFT)
    mapped = torch.cat([bias, (2 * KERNEL_SHIFT) ** 0.5 * u, scale * u[:, first] * u[:, second]], dim=1)
    degree = mapped @ mapped.sum(0)
    return _left_vectors(mapped / degree.sqrt()[:, None], parts + 1, generator)[:, 1:]


def _left_vectors(x: Tensor, count: int, generator: torch.Generator, rounds: int = 7) -> Tensor:
    """The leading ``count`` left singular vectors, by subspace iteration; exact up to 200 rows or columns."""
    width = min(max(count + 10, 200), *x.shape)
    start = torch.randn(x.shape[1], width, generator=generator, dtype=torch.float64).to(x)
    basis = torch.linalg.qr(x @ start).Q
    for _ in range(rounds):
        basis = torch.linalg.qr(x @ torch.linalg.qr(x.T @ basis).Q).Q
    inner = torch.linalg.svd(basis.T @ x, full_matrices=False).U
    return (basis @ inner)[:, :count]
