"""Two graphs side by side as one, with no edge between them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.bare import BareGraph
from plgc.graphs.width import check_width


def side_by_side(first: BareGraph, second: BareGraph) -> Data:
    """Both graphs' nodes, those of the first one first, with features and edges and nothing else.

    Raises:
        GraphError: they have different numbers of features.
    """
    check_width(first.name, first.x.shape[1], second.name, second.x.shape[1], "both need the same features")
    joined = Data(
        edge_index=torch.cat([first.edge_index, second.edge_index + first.num_nodes], dim=1),
        num_nodes=first.num_nodes + second.num_nodes,
    )
    joined.x = _stacked(first.x, second.x)
    if first.edge_weight is not None or second.edge_weight is not None:
        joined.edge_weight = torch.cat([_weights(first), _weights(second)])
    joined.name = f"{first.name} and {second.name}"
    return joined


def _stacked(first: Tensor, second: Tensor) -> Tensor:
    """Rows of both, sparse where both are."""
    if first.layout == second.layout == torch.sparse_csr:
        return torch.cat([first.to_sparse_coo(), second.to_sparse_coo()]).to_sparse_csr()
    return torch.cat([x.to_dense().float() for x in (first, second)])


def _weights(graph: BareGraph) -> Tensor:
    return torch.ones(graph.edge_index.shape[1]) if graph.edge_weight is None else graph.edge_weight
