"""Nodes without edges beside a graph: each is its own and only neighbour, as every node of a condensed graph is."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from plgc.sparse.adjacency import Adjacency, csr
from plgc.sparse.features import Features, StoredFeatures, sparse_features
from plgc.sparse.inputs import Inputs


def beside(inputs: Inputs, features: Tensor) -> Inputs:
    """A graph with K isolated nodes after its own, whose scaled features are given, [K, f]."""
    count, nodes = len(features), inputs.num_nodes
    order = inputs.order
    if order is not None:
        order = torch.cat([order, torch.arange(nodes, nodes + count, dtype=order.dtype, device=order.device)])
    x = _joined(inputs.x, features.to(inputs.device))
    return replace(inputs, x=x, adjacency=with_isolated(inputs.adjacency, count), order=order)


def with_isolated(adjacency: Adjacency, count: int) -> Adjacency:
    """Â of a graph with so many nodes more, which have their self-loops alone."""
    crow, col, device = adjacency.crow, adjacency.col, adjacency.col.device
    more = torch.arange(count, device=device)
    return Adjacency(
        crow=torch.cat([crow, crow[-1] + (more + 1).to(crow.dtype)]),
        col=torch.cat([col, (more + adjacency.num_nodes).to(col.dtype)]),
        weight=None if adjacency.weight is None else torch.cat([adjacency.weight, torch.ones(count, device=device)]),
        pair=torch.cat([adjacency.pair, torch.full_like(more, adjacency.num_pairs, dtype=adjacency.pair.dtype)]),
        num_pairs=adjacency.num_pairs,
    )


def _joined(x: Features, rows: Tensor) -> Features:
    """X with further rows; stored features are read into memory."""
    if isinstance(x, StoredFeatures):
        x = x.to_dense(rows.device)
    if isinstance(x, Tensor):
        return torch.cat([x, rows])
    above, below = x.matrix, rows.to_sparse_csr()
    crow = torch.cat([above.crow_indices().long(), below.crow_indices()[1:] + above.values().numel()])
    col = torch.cat([above.col_indices().long(), below.col_indices()])
    shape = (x.shape[0] + len(rows), x.shape[1])
    return sparse_features(csr(crow, col, torch.cat([above.values(), below.values()]), shape))
