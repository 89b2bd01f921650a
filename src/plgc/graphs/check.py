"""What a usable graph is: features brought to one form, and checks that name the offending value and the way out.

Features have two forms throughout the package: a dense float32 tensor, or a ``torch.sparse_csr`` float32 tensor with
int64 indices, sorted columns and no duplicates. :func:`as_features` brings everything else to one of them, but for
large dense features: they stay float16 where they are, and stay in their file (:mod:`plgc.runtime.mapped`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.runtime import mapped
from plgc.runtime.errors import GraphError

MASKS = ("train_mask", "val_mask", "test_mask")
MAX_NODES = 2**31  # row · N + column has to fit into 64 bits
EDGES = 1 << 20  # that are looked at at a time


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
    if nodes >= MAX_NODES:
        raise GraphError(f"the graph has {nodes} nodes, the limit is {MAX_NODES - 1}: split it into parts")
    _check_range(edge_index, nodes)
    _check_weights(getattr(data, "edge_weight", None), edge_index.size(1))
    if data.x is not None:
        _check_features(data.x, nodes)


def check_condensable(data: Data) -> None:
    """Raise :class:`GraphError` unless the graph can be condensed: structure sound, features, edges, variation."""
    check_structure(data)
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
    if data._store.get("num_nodes") is not None:
        return int(data._store["num_nodes"])
    for key in ("x", "y", "y_multi", *MASKS):
        value = data._store.get(key)
        dimensions = value.dim() if hasattr(value, "dim") else getattr(value, "ndim", 0)
        if dimensions > 0:
            return int(value.size(0) if hasattr(value, "dim") else value.shape[0])
    edge_index = data.edge_index
    return int(edge_index.max()) + 1 if edge_index is not None and edge_index.numel() > 0 else 0


def as_features(x: Any) -> Tensor | None:
    """Return a copy of ``x`` as float32, dense or CSR as it came, or None when there are no features.

    Large features that are float16 stay so, and those that are mapped are not copied.

    Args:
        x: a dense or sparse torch tensor, a numpy array or a scipy sparse matrix, of shape [N, F]; or None.

    Raises:
        GraphError: x is not numeric, is complex, is not two-dimensional, or its CSR parts contradict each other.
    """
    if x is None:
        return None
    if hasattr(x, "to_torch_sparse_csr_tensor"):  # torch_sparse.SparseTensor, without needing that package
        x = x.to_torch_sparse_csr_tensor()
    if sp.issparse(x):
        csr = x.tocsr()
        return csr_features(csr.indptr, csr.indices, csr.data, csr.shape)
    if isinstance(x, np.ndarray):
        x = torch.from_numpy(np.array(x) if _stays_half(x.dtype == np.float16, x.nbytes) else _float32(x))
    if not isinstance(x, Tensor):
        raise GraphError(f"x is a {type(x).__name__}, expected a tensor of shape [N, F]")
    if x.is_complex():
        raise GraphError(f"x holds complex values ({x.dtype}), expected real numbers: split them into two columns")
    if x.dim() != 2:
        raise GraphError(f"x has shape {list(x.shape)}, expected [N, F], one row of features per node")
    x = x.detach().cpu()
    if x.layout == torch.strided:
        if x.size(1) == 0:
            return None
        if mapped.is_mapped(x) and x.dtype in (torch.float32, torch.float16):
            return x
        half = _stays_half(x.dtype == torch.float16, 2 * x.numel())
        return x.to(torch.float16 if half else torch.float32, copy=True).contiguous()
    csr = x if x.layout == torch.sparse_csr else x.to_sparse_csr()
    return csr_features(csr.crow_indices().numpy(), csr.col_indices().numpy(), csr.values(), tuple(csr.shape))


def csr_features(indptr: Any, indices: Any, values: Any, shape: Any) -> Tensor | None:
    """Return CSR parts as a float32 ``torch.sparse_csr`` tensor, columns sorted and duplicates summed.

    Args:
        indptr: [N + 1] integers, where each row starts.
        indices: [nnz] integers, the column of each value.
        values: [nnz] numbers.
        shape: (N, F).

    Raises:
        GraphError: the parts are not a CSR matrix of that shape; the message names the part and the value.
    """
    rows, columns = _csr_shape(shape)
    indptr, indices = _csr_integers("x_indptr", indptr), _csr_integers("x_indices", indices)
    values = _float32(values.detach().to(torch.float32).numpy() if isinstance(values, Tensor) else np.asarray(values))
    if values.ndim != 1 or len(values) != len(indices):
        raise GraphError(
            f"x_data has shape {list(values.shape)}, x_indices has {len(indices)} entries: they must match"
        )
    if len(indptr) != rows + 1:
        raise GraphError(f"x_indptr has {len(indptr)} entries, expected {rows + 1} for {rows} rows")
    if indptr[0] != 0 or indptr[-1] != len(indices):
        raise GraphError(
            f"x_indptr runs from {indptr[0]} to {indptr[-1]}, expected 0 to {len(indices)} (the length of x_indices)"
        )
    falls = np.flatnonzero(np.diff(indptr) < 0)
    if len(falls):
        row = int(falls[0])
        raise GraphError(f"x_indptr falls from {indptr[row]} to {indptr[row + 1]} at row {row}: it must never decrease")
    bad = np.flatnonzero((indices < 0) | (indices >= columns))
    if len(bad):
        raise GraphError(f"x_indices[{bad[0]}] is {indices[bad[0]]}, but x has {columns} columns (0 to {columns - 1})")
    if columns == 0:
        return None
    matrix = sp.csr_matrix((values, indices, indptr), shape=(rows, columns))
    matrix.sum_duplicates()
    return from_scipy(matrix)


def to_scipy(x: Tensor) -> sp.csr_matrix:
    """Return a CPU ``torch.sparse_csr`` tensor as a scipy matrix that shares its values."""
    parts = (x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy())
    return sp.csr_matrix(parts, shape=tuple(x.shape))


def from_scipy(matrix: sp.csr_matrix) -> Tensor:
    """Return a scipy CSR matrix as a ``torch.sparse_csr`` tensor with int64 indices."""
    return torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr.astype(np.int64)),
        torch.from_numpy(matrix.indices.astype(np.int64)),
        torch.from_numpy(matrix.data),
        size=matrix.shape,
        check_invariants=False,
    )


def take_rows(x: Tensor, index: Tensor) -> Tensor:
    """Return the rows ``index`` of a dense or CSR feature matrix, in the same form."""
    return mapped.gather(x, index) if x.layout == torch.strided else from_scipy(to_scipy(x)[index.numpy()])


def _check_range(edge_index: Tensor, nodes: int) -> None:
    bad, first = 0, 0
    for start in range(0, edge_index.size(1), EDGES):
        part = edge_index[:, start : start + EDGES]
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
        seen = list(weight.shape) if isinstance(weight, Tensor) else type(weight).__name__
        raise GraphError(f"edge_weight is {seen}, expected one real number for each of the {edges} edges")
    bad = (~torch.isfinite(weight.flatten()) | (weight.flatten() < 0)).nonzero().flatten()
    if bad.numel():
        value = weight.flatten()[bad[0]].item()
        raise GraphError(f"edge_weight[{int(bad[0])}] is {value}: weights must be finite and not negative")


def _check_features(x: Any, nodes: int) -> None:
    if not isinstance(x, Tensor):
        raise GraphError(
            f"x is a {type(x).__name__}, expected a tensor of shape [N, F]: load the graph with load_graph"
        )
    if x.is_complex():
        raise GraphError(f"x holds complex values ({x.dtype}), expected real numbers: split them into two columns")
    if x.dim() != 2:
        raise GraphError(f"x has shape {list(x.shape)}, expected [N, F], one row of features per node")
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
    csr = _as_csr(x)
    values, columns = csr.values(), csr.col_indices()
    filled = values != 0
    values, columns = values[filled], columns[filled]
    counts = torch.bincount(columns, minlength=x.size(1))
    low = torch.zeros(x.size(1), dtype=values.dtype).scatter_reduce(0, columns, values, "amin", include_self=False)
    high = torch.zeros(x.size(1), dtype=values.dtype).scatter_reduce(0, columns, values, "amax", include_self=False)
    return bool(((counts == 0) | ((counts == x.size(0)) & (low == high))).all())


def _as_csr(x: Tensor) -> Tensor:
    if x.layout == torch.sparse_csr:
        return x.cpu()
    return (x.coalesce() if x.layout == torch.sparse_coo else x).to_sparse_csr().cpu()


def _stays_half(half: bool, size: int) -> bool:
    """Whether features stay float16: they do where a float32 copy would take much memory."""
    return half and size >= mapped.MAPPED_FROM


def _float32(array: np.ndarray) -> np.ndarray:
    """Return a float32 copy; what is beyond its range becomes infinite, and is reported as that."""
    if array.dtype.kind == "c":
        raise GraphError(f"x holds complex values ({array.dtype}), expected real numbers: split them into two columns")
    if array.dtype.kind not in "fiub":
        raise GraphError(f"x holds {array.dtype} values, expected numbers")
    with np.errstate(over="ignore"):
        return array.astype(np.float32, order="C")


def _csr_shape(shape: Any) -> tuple[int, int]:
    parts = np.asarray(shape)
    if parts.shape != (2,) or parts.dtype.kind not in "iu" or (parts < 0).any():
        raise GraphError(f"x_shape is {parts.tolist()}, expected two whole numbers: nodes and features")
    return int(parts[0]), int(parts[1])


def _csr_integers(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise GraphError(f"{name} has dtype {array.dtype} and shape {list(array.shape)}, expected a row of integers")
    return array.astype(np.int64)
