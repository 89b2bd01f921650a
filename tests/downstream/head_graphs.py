"""Small graphs on which it is known whether edges help."""

from __future__ import annotations

import torch
from torch import Tensor

from plgc.sparse.adjacency import Adjacency, build_adjacency, propagate

NODES, CLASSES, WIDTH = 240, 3, 24
PARTS = {"x": WIDTH, "propagated_1": WIDTH, "propagated_2": WIDTH}


def labels() -> Tensor:
    return torch.arange(NODES) % CLASSES


def edges(same_class: bool, seed: int = 0, degree: int = 6) -> Adjacency:
    """Edges within classes, or between nodes that mean nothing to each other."""
    generator = torch.Generator().manual_seed(seed)
    there = torch.randint(NODES, (NODES * degree // 2,), generator=generator)
    step = torch.randint(1, NODES // CLASSES, there.shape, generator=generator)
    back = (there + step * CLASSES if same_class else torch.randint(NODES, there.shape, generator=generator)) % NODES
    pairs = torch.stack([torch.minimum(there, back), torch.maximum(there, back)])[:, there != back].unique(dim=1)
    return build_adjacency(torch.cat([pairs, pairs.flip(0)], 1), NODES)


def features(noise: float, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(CLASSES, WIDTH, generator=generator)
    return centres[labels()] + noise * torch.randn(NODES, WIDTH, generator=generator)


def plain_parts(x: Tensor, adjacency: Adjacency) -> Tensor:
    return torch.cat([x, propagate(adjacency, x), propagate(adjacency, x, 2)], 1)


def few(shots: int) -> Tensor:
    return torch.arange(shots * CLASSES)
