"""A 2-D layout of embeddings: principal components, refined by attraction of neighbours and repulsion of others.

The refinement is that of UMAP (McInnes et al., 2018) in a few lines: a graph of nearest neighbours, an attraction along
its edges, a repulsion from nodes drawn at random. It starts from the principal components and has one generator, so
the same embedding and seed give the same layout.
"""

from __future__ import annotations

import torch
from torch import Tensor

COMPONENTS = 32  # principal components in which neighbours are searched
NEIGHBOURS = 12
STEPS = 60
REPELLED = 6  # random nodes that repel each node at a step
REPULSION = 8.0  # against an attraction of 1
ROWS = 1024  # rows of distances held at a time
CURVE_A, CURVE_B = 1.58, 0.9  # 1 / (1 + a d^2b): UMAP's curve for a least distance of 0.1
LARGEST_STEP = 4.0
OUTSIDE = 0.005  # share of the points, on every side, that do not decide the map's extent


@torch.no_grad()
def project(points: Tensor, seed: int = 0, steps: int = STEPS) -> Tensor:
    """Lay points [N, d] out in the plane, [N, 2] float64; ``steps`` = 0 leaves the principal components."""
    reduced = principal_components(points, COMPONENTS)
    layout = _spread(reduced[:, :2])
    if steps == 0 or len(points) <= NEIGHBOURS + 1:
        return layout
    return _within(_refine(layout, nearest_neighbours(reduced, NEIGHBOURS), seed, steps))


def principal_components(points: Tensor, count: int) -> Tensor:
    """Coordinates along the directions of most variance, [N, min(count, d)], at least two columns; signs are fixed."""
    centred = points.double() - points.double().mean(0)
    directions = torch.linalg.eigh(centred.t() @ centred).eigenvectors.flip(1)[:, :count]
    largest = directions.gather(0, directions.abs().argmax(0, keepdim=True))
    directions = directions * torch.where(largest < 0, -1.0, 1.0)  # an eigenvector's sign is arbitrary
    found = centred @ directions
    return torch.nn.functional.pad(found, (0, max(0, 2 - found.shape[1])))


def nearest_neighbours(points: Tensor, count: int) -> Tensor:
    """The indices of the ``count`` nearest other points, [N, count]."""
    points = points.float()
    square = points.square().sum(1)
    found = []
    for start in range(0, len(points), ROWS):
        rows = points[start : start + ROWS]
        distance = square - 2 * (rows @ points.t())
        distance[torch.arange(len(rows)), torch.arange(start, start + len(rows))] = torch.inf
        found.append(distance.topk(count, largest=False, sorted=False).indices)
    return torch.cat(found)


def _spread(layout: Tensor) -> Tensor:
    """The same scale for every graph: the refinement's distances are absolute."""
    return layout * (10 / layout.abs().max().clamp(min=1e-12))


def _within(layout: Tensor) -> Tensor:
    """Clamp the few points that were pushed far out to the edge: they would shrink all others to a spot."""
    ordered = layout.sort(0).values
    cut = int(OUTSIDE * (len(layout) - 1))
    low, high = ordered[cut], ordered[len(layout) - 1 - cut]
    margin = 0.04 * (high - low)
    return layout.clamp(low - margin, high + margin)


def _refine(layout: Tensor, neighbours: Tensor, seed: int, steps: int) -> Tensor:
    count = len(layout)
    generator = torch.Generator().manual_seed(seed)
    # Equal points would never separate: a little noise, far below what can be seen.
    layout = layout + 1e-3 * torch.randn(count, 2, generator=generator, dtype=torch.float64)
    tail = torch.arange(count).repeat_interleave(neighbours.shape[1])
    head = neighbours.flatten()
    for step in range(steps):
        rate = 1 - step / steps
        gap = layout[tail] - layout[head]
        square = gap.square().sum(1, keepdim=True)
        pull = -2 * CURVE_A * CURVE_B * square.clamp(min=1e-9).pow(CURVE_B - 1) / (1 + CURVE_A * square.pow(CURVE_B))
        move = (pull * gap).clamp(-LARGEST_STEP, LARGEST_STEP) / neighbours.shape[1]
        change = torch.zeros_like(layout).index_add_(0, tail, move).index_add_(0, head, -move)
        for _ in range(REPELLED):
            other = torch.randint(count, (count,), generator=generator)
            gap = layout - layout[other]
            square = gap.square().sum(1, keepdim=True)
            push = 2 * CURVE_B / ((0.001 + square) * (1 + CURVE_A * square.pow(CURVE_B)))
            change += REPULSION / REPELLED * (push * gap).clamp(-LARGEST_STEP, LARGEST_STEP)
        layout = layout + rate * change
    return layout
