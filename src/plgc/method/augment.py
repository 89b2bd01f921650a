"""Two stochastic views of a graph: drop edges, mask feature columns (T_i and T_j of the paper).

Masking a column of X is the same as masking a row of the first weight matrix, so a view carries the mask and the
feature matrix itself is never copied.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from plgc.sparse.adjacency import Adjacency, draw_kept, keep_edges


@dataclass(frozen=True)
class View:
    """One augmentation of the graph: Â with fewer edges, and which feature columns are visible."""

    adjacency: Adjacency
    feature_mask: Tensor | None


def draw_view(
    adjacency: Adjacency, num_features: int, edge_drop: float, feature_mask: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw which feature columns [f] and which edges (:func:`draw_kept`) a view keeps; empty tensors keep all."""
    visible = torch.empty(0, device=generator.device)
    if feature_mask > 0.0:
        drawn = torch.rand(num_features, generator=generator, device=generator.device) >= feature_mask
        visible = drawn.to(torch.float32)
    device = adjacency.crow.device
    return visible.to(device), draw_kept(adjacency, edge_drop, generator).to(device)


def view_of(adjacency: Adjacency, visible: Tensor, kept: Tensor) -> View:
    """The view that was drawn."""
    return View(keep_edges(adjacency, kept), visible if visible.numel() > 0 else None)
