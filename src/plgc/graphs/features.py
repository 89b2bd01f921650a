"""Feature matrices: brought to one form, converted, and some of their rows.

Features have two forms throughout the package: a dense float32 tensor, or a ``torch.sparse_csr`` float32 tensor with
int64 indices, sorted columns and no duplicates. :func:`as_features` brings everything else to one of them, except large
dense features: they stay float16 where they are, and stay in their file (:mod:`plgc.runtime.mapped`).
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

UNLIKE, SAMPLED = 1000.0, 10_000  # ratio of the largest values of two columns that is told; rows that are looked at


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
    check_matrix(x)
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

    The parts are those of scipy: ``indptr`` [N + 1], ``indices`` and ``values`` [nnz], ``shape`` (N, F).

    Raises:
        GraphError: the parts are not a CSR matrix of that shape; the message names the part and the value.
    """
    rows, columns = csr_shape(shape)
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


def csr_shape(shape: Any) -> tuple[int, int]:
    """The numbers of rows and columns that ``x_shape`` states."""
    parts = np.asarray(shape)
    if parts.shape != (2,) or parts.dtype.kind not in "iu" or (parts < 0).any():
        raise GraphError(f"x_shape is {parts.tolist()}, expected two whole numbers: nodes and features")
    return int(parts[0]), int(parts[1])


def check_matrix(x: Tensor) -> None:
    """Raise :class:`GraphError` unless a tensor is real and two-dimensional."""
    if x.is_complex():
        raise GraphError(f"x holds complex values ({x.dtype}), expected real numbers: split them into two columns")
    if x.dim() != 2:
        raise GraphError(f"x has shape {list(x.shape)}, expected [N, F], one row of features per node")


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


def take_rows(x: Tensor, rows: Tensor) -> Tensor:
    """Some rows of a dense or CSR matrix, in the order in which they are named, in the same form."""
    if x.layout != torch.sparse_csr:
        return mapped.gather(x, rows)
    crow, entry = row_entries(x.crow_indices(), rows)
    shape = (len(rows), x.shape[1])
    return torch.sparse_csr_tensor(crow, x.col_indices()[entry], x.values()[entry], shape, check_invariants=False)


def row_entries(crow: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Where some rows of a CSR matrix are stored: the ``crow`` of these rows alone, [n + 1], and their entries."""
    counts = crow.diff()[rows]
    starts = torch.zeros(len(rows) + 1, dtype=crow.dtype, device=crow.device)
    torch.cumsum(counts, 0, out=starts[1:])
    entries = torch.arange(int(starts[-1]), dtype=crow.dtype, device=crow.device)
    return starts, entries + (crow[:-1][rows] - starts[:-1]).repeat_interleave(counts)


def unlike_scales(graph: Data) -> str | None:
    """A sentence on dense features of unlike scales, where the largest decides everything; None where all is well."""
    x = graph.x
    if x is None or x.layout == torch.sparse_csr or 0 in x.shape:
        return None
    largest = x[:SAMPLED].abs().amax(dim=0).to(torch.float32)
    largest[largest == 0] = torch.nan
    ratio = float(largest.nan_to_num(-1).max() / largest.nan_to_num(torch.inf).min())
    if not UNLIKE < ratio < torch.inf:
        return None
    names = graph["feature_names"] if "feature_names" in graph else range(x.shape[1])
    high, low = int(largest.nan_to_num(-1).argmax()), int(largest.nan_to_num(torch.inf).argmin())
    return (
        f"{graph['name']}: feature {names[high]!r} is up to {float(largest[high]):.3g}, {names[low]!r} up to "
        f"{float(largest[low]):.3g}: a factor of {ratio:,.0f}, so that the largest will decide everything. A matrix is "
        "taken as it is: scale its columns first"
    )


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


def _csr_integers(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise GraphError(f"{name} has dtype {array.dtype} and shape {list(array.shape)}, expected a row of integers")
    return array.astype(np.int64)
