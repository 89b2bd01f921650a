"""The outputs of a few nodes while a GNN is trained, at the cost of the nodes that they depend on.

Where 20 of thousands of nodes have a label, nearly all of a GNN's outputs would be computed for nothing. An MLP needs
the labelled rows of X alone; a GCN of two layers needs the hidden layer of their neighbours, and X of those one step
further. Outputs and gradients are those of the whole graph; only the random masks of dropout are others.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.graphs.features import row_entries
from plgc.method.encoder import EDGE_FREE, GNN, GCNLayer
from plgc.sparse.adjacency import Adjacency, csr
from plgc.sparse.features import Features, SparseFeatures, feature_rows, sparse_features, times
from plgc.sparse.product import multiply

DENSE = 8  # a dense product takes less time than a sparse one of so many times fewer entries


def labelled_rows(
    gnn: GNN, x: Features, adjacency: Adjacency | None, labelled: Tensor, trained: bool = True
) -> Callable[[], Tensor]:
    """A function that gives ``gnn(x, adjacency)[labelled]`` with the weights of the moment.

    ``trained`` is False where no gradient is needed; it decides the order of products, not the result.
    """
    if adjacency is None or gnn.kind == EDGE_FREE:
        if len(labelled) == x.shape[0]:
            return lambda: gnn(x, adjacency)[labelled]
        rows = feature_rows(x, labelled)
        return lambda: gnn(rows, None)
    near = _neighbours(adjacency, labelled)
    if gnn.kind != "gcn" or len(gnn.layers) != 2 or len(near) > adjacency.num_nodes / 2:
        return lambda: gnn(x, adjacency)[labelled]
    return _two_layers(gnn, x, adjacency, labelled, near, trained)


def validation_rows(x: Features, adjacency: Adjacency | None, nodes: Tensor) -> Callable[[GNN], Tensor]:
    """A function that gives ``gnn(x, adjacency)[nodes]`` after every epoch; what no weight changes is computed once."""
    last: tuple[GNN, Callable[[], Tensor]] | None = None

    @torch.no_grad()
    def outputs(gnn: GNN) -> Tensor:
        nonlocal last
        if last is None or last[0] is not gnn:
            last = gnn, labelled_rows(gnn, x, adjacency, nodes, trained=False)
        return last[1]()

    return outputs


def _two_layers(
    gnn: GNN, x: Features, adjacency: Adjacency, labelled: Tensor, near: Tensor, trained: bool
) -> Callable[[], Tensor]:
    """Of a GCN: Â[labelled, near] relu(Â[near, far] X[far] W + b) W + b."""
    first, second = gnn.layers
    assert isinstance(first, GCNLayer)
    assert isinstance(second, GCNLayer)
    far = _neighbours(adjacency, near)
    inner, outer = _between(adjacency, near, far), _between(adjacency, labelled, near)
    rows = feature_rows(x, far)
    averaged = None
    if isinstance(rows, SparseFeatures) and not trained:
        entries = rows.matrix.values().numel() + inner.matrix.values().numel()
        if len(near) * rows.shape[1] <= DENSE * entries:
            averaged = multiply(inner.matrix, rows.to_dense())
    elif isinstance(rows, Tensor) and rows.shape[1] <= first.weight.shape[1]:
        averaged = multiply(inner.matrix, rows)

    def forward() -> Tensor:
        hidden = times(inner, times(rows, first.weight)) if averaged is None else averaged @ first.weight
        hidden = F.dropout(torch.relu(hidden + first.bias), gnn.dropout, gnn.training)
        return times(outer, hidden) @ second.weight + second.bias

    return forward


def _neighbours(adjacency: Adjacency, nodes: Tensor) -> Tensor:
    """These nodes and their neighbours, ascending."""
    _, entry = row_entries(adjacency.crow, nodes)
    return adjacency.col[entry].unique()


def _between(adjacency: Adjacency, rows: Tensor, columns: Tensor) -> SparseFeatures:
    """Â[rows, columns] with its transpose; ``columns`` has every neighbour of ``rows``."""
    starts, entry = row_entries(adjacency.crow, rows)
    place = torch.full((adjacency.num_nodes,), -1, dtype=adjacency.col.dtype, device=adjacency.col.device)
    place[columns.long()] = torch.arange(len(columns), dtype=place.dtype, device=place.device)
    value = adjacency.matrix.values()[entry]
    return sparse_features(csr(starts, place[adjacency.col[entry].long()], value, (len(rows), len(columns))))
