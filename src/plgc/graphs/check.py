"""Checks of a graph; every error names the offending value and what to do about it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.attributes import attribute
from plgc.graphs.features import check_matrix, to_scipy
from plgc.runtime import mapped
from plgc.runtime.errors import GraphError

MASKS = ("train_mask", "val_mask", "test_mask")
MAX_NODES = 2**31  # row · N + column has to fit into 64 bits
FREE_NODES, NODES_AN_EDGE = 1 << 20, 1000  # of nodes that are only counted: the one, or the other times the edges
MAX_WEIGHT = 1e18  # those of all edges of a node have to add up within float32
BLOCK_EDGES = 1 << 20  # edges that are checked at a time


def check_structure(data: Data) -> None:
    """Raise :class:`GraphError` unless nodes, edges and features fit together.

    Checks that there are nodes, that ``edge_index`` is an integer [2, E] tensor within range, that edge weights are
    finite and not negative, and that ``x``, where there is one, is a real, finite [N, F] tensor.
    """
    edge_index = data.edge_index
    if not isinstance(edge_index, Tensor):
        raise GraphError(
            f"the graph has no edge_index (got {type(edge_index).__name__}): set edge_index to an integer tensor of "
            "shape [2, E]; an adjacency kept as adj_t has to be turned back into edges first"
        )
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        hint = ": transpose it" if edge_index.dim() == 2 and edge_index.size(1) == 2 else ""
        raise GraphError(f"edge_index has shape {list(edge_index.shape)}, expected [2, E]{hint}")
    if edge_index.is_floating_point() or edge_index.is_complex() or edge_index.dtype == torch.bool:
        raise GraphError(f"edge_index holds {edge_index.dtype} values, expected integer node numbers")
    nodes = node_count(data)
    if nodes < 1:
        raise GraphError(f"the graph has no nodes (num_nodes = {nodes}): there is nothing to load")
    check_claimed(data, nodes)
    if nodes >= MAX_NODES:
        raise GraphError(f"the graph has {nodes} nodes, the limit is {MAX_NODES - 1}: split it into parts")
    _check_range(edge_index, nodes)
    _check_weights(attribute(data, "edge_weight"), edge_index.size(1))
    if data.x is not None:
        _check_features(data.x, nodes)


def check_condensable(data: Data) -> None:
    """Raise :class:`GraphError` unless the graph can be condensed: sound structure, features, edges, variation."""
    check_structure(data)
    check_content(data)


def check_content(data: Data) -> None:
    """Raise :class:`GraphError` unless a graph of sound structure has features, edges, and features that vary."""
    if data.x is None or data.x.size(1) == 0:
        raise GraphError(
            "this graph has no node features, and condensation works on features: set x to a [N, F] tensor, give an "
            "edge list its node table (--nodes-table), or derive them from the edges (--features fastrp:128; in "
            "Python load_graph(..., features='fastrp:128'))"
        )
    if data.edge_index is None or data.edge_index.size(1) == 0:
        raise GraphError(
            f"the graph has {node_count(data)} nodes and no edges (edge_index is [2, 0]): condensation needs a graph; "
            "check that edge_index was filled, or add edges"
        )
    if _is_constant(data.x):
        raise GraphError(
            f"the features are constant: all {data.x.size(0)} nodes have the same {data.x.size(1)} values, so there "
            "is nothing to condense; give features that differ between nodes"
        )


def node_count(data: Data) -> int:
    """Number of nodes: ``num_nodes`` where set, else the rows of x, y or a mask, else the largest node number + 1."""
    if (count := attribute(data, "num_nodes")) is not None:
        return int(count)
    for key in ("x", "y", "y_multi", *MASKS):
        value = attribute(data, key)
        dimensions = value.dim() if hasattr(value, "dim") else getattr(value, "ndim", 0)
        if dimensions > 0:
            return int(value.size(0) if hasattr(value, "dim") else value.shape[0])
    edge_index = data.edge_index
    return int(edge_index.max()) + 1 if edge_index is not None and edge_index.numel() > 0 else 0


def check_claimed(data: Data, nodes: int) -> None:
    """Raise where nodes that have no row anywhere are far more than the edges can name."""
    rows = (attribute(data, key) for key in ("x", "y", "y_multi", *MASKS, "node_ids"))
    if any(value is not None and len(value) == nodes and 0 not in getattr(value, "shape", ()) for value in rows):
        return
    edges = 0 if data.edge_index is None else data.edge_index.size(1)
    most = max(FREE_NODES, NODES_AN_EDGE * edges)
    if nodes > most:
        raise GraphError(
            f"the graph claims {nodes:,} nodes, of which only {edges:,} edge(s) tell, at most {most:,} are read: "
            "number the nodes 0, 1, … without gaps, or give features"
        )


def _check_range(edge_index: Tensor, nodes: int) -> None:
    bad, first = 0, 0
    for start in range(0, edge_index.size(1), BLOCK_EDGES):
        part = edge_index[:, start : start + BLOCK_EDGES]
        if int(part.min()) < 0 or int(part.max()) >= nodes:
            wrong = ((part < 0) | (part >= nodes)).any(dim=0).nonzero().flatten()
            first = first if bad else start + int(wrong[0])
            bad += wrong.numel()
        mapped.release(edge_index)
    if bad:
        a, b = edge_index[:, first].tolist()
        what = "a negative node number" if min(a, b) < 0 else "out of range"
        raise GraphError(
            f"edge {first} joins nodes {a} and {b}: {what}, the graph has {nodes} nodes (0 to {nodes - 1}); "
            f"{bad} such edge(s) in all: drop them, or give every node a row"
        )


def _check_weights(weight: Any, edges: int) -> None:
    if weight is None:
        return
    if not isinstance(weight, Tensor) or weight.is_complex() or weight.numel() != edges:
        got = list(weight.shape) if isinstance(weight, Tensor) else type(weight).__name__
        raise GraphError(f"edge_weight is {got}, expected one real number for each of the {edges} edges")
    for start, block in mapped.blocks(weight.flatten()):
        bad = (~((block >= 0) & (block <= MAX_WEIGHT))).nonzero().flatten()
        if bad.numel():
            raise GraphError(
                f"edge_weight[{start + int(bad[0])}] is {block[bad[0]].item()}: weights must be finite and not "
                f"negative, at most {MAX_WEIGHT:g}; divide larger ones by a constant"
            )


def _check_features(x: Any, nodes: int) -> None:
    if not isinstance(x, Tensor):
        raise GraphError(
            f"x is a {type(x).__name__}, expected a tensor of shape [N, F]: load the graph with load_graph"
        )
    check_matrix(x)
    if x.size(0) != nodes:
        raise GraphError(f"x has {x.size(0)} rows, but the graph has {nodes} nodes: give one row per node")
    sparse = x if x.layout == torch.strided else _as_csr(x)
    values = sparse if sparse.layout == torch.strided else sparse.values()
    nans, total, first = 0, 0, []
    for start, block in mapped.blocks(values):
        finite = torch.isfinite(block)
        if not bool(finite.all()):
            first = first or [start + int((~finite).nonzero()[0, 0]), *(~finite).nonzero()[0, 1:].tolist()]
            nans, total = nans + int(torch.isnan(block).sum()), total + int((~finite).sum())
    if total == 0:
        return
    if sparse.layout != torch.strided:
        row = int(torch.searchsorted(sparse.crow_indices(), first[0], right=True)) - 1
        first = [row, int(sparse.col_indices()[first[0]])]
    raise GraphError(
        f"x has {nans} NaN and {total - nans} infinite value(s), the first at row {first[0]}, column {first[1]}: "
        "replace or drop them (values beyond the float32 range count as infinite)"
    )


def _is_constant(x: Tensor) -> bool:
    if x.layout == torch.strided:
        return all(bool((block == x[0]).all()) for _, block in mapped.blocks(x))
    matrix = to_scipy(_as_csr(x))
    return bool((matrix.max(axis=0) != matrix.min(axis=0)).nnz == 0)


def _as_csr(x: Tensor) -> Tensor:
    if x.layout == torch.sparse_csr:
        return x.cpu()
    return (x.coalesce() if x.layout == torch.sparse_coo else x).to_sparse_csr().cpu()
