"""Two stochastic views of a graph: drop edges, mask feature columns (T_i and T_j of the paper).

Masking a column of X is the same as masking a row of the first weight matrix, so a view carries the mask and the
feature matrix itself is never copied.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from plgc.propagate import Adjacency, drop_edges


@dataclass(frozen=True)
class View:
    """One augmented look at the graph: Â with fewer edges, and which feature columns are visible."""

    adjacency: Adjacency
    feature_mask: Tensor | None


def augment(
    adjacency: Adjacency, num_features: int, edge_drop: float, feature_mask: float, generator: torch.Generator
) -> View:
    """Draw one view with the given edge-drop and feature-mask rates."""
    mask = None
    if feature_mask > 0.0:
        drawn = torch.rand(num_features, generator=generator, device=generator.device) >= feature_mask
        mask = drawn.to(device=adjacency.crow.device, dtype=torch.float32)
    return View(drop_edges(adjacency, edge_drop, generator), mask)
