"""The entries of A + I as a sorted CSR, with the undirected edge that each belongs to.

Graphs come from :func:`plgc.load_graph` sorted by row, then column. Then all this takes is one pass that puts the
self-loops in and one counting sort; unsorted edges are sorted first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from plgc.runtime.errors import GraphError
from plgc.sparse.product import index_dtype


@dataclass(frozen=True)
class Structure:
    """Entries of A + I, sorted by row, then column.

    Attributes:
        crow: where each row starts, [N + 1].
        col: column of every entry.
        weight: of every entry, 1 for self-loops; None where no edge has one.
        pair: the undirected edge an entry belongs to, numbered in sorted order; ``num_pairs`` for self-loops.
        num_pairs: how many undirected edges there are.
    """

    crow: Tensor
    col: Tensor
    weight: Tensor | None
    pair: Tensor
    num_pairs: int


def closed_structure(edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None = None) -> Structure:
    """Sort symmetric edges without self-loops, add the self-loops, and number the pairs."""
    row, col = edge_index
    entries = row.numel() + num_nodes
    index = index_dtype(entries, num_nodes)
    weight = None if edge_weight is None else edge_weight.to(torch.float32)
    if not _is_sorted(row, col):
        row, col, weight = _sort(row, col, weight, num_nodes)
    counts = torch.bincount(row, minlength=num_nodes)
    upper = col > row
    lower_counts = counts - torch.bincount(_select(row, upper), minlength=num_nodes)
    starts = torch.zeros(num_nodes + 1, dtype=torch.int64, device=row.device)
    torch.cumsum(counts, 0, out=starts[1:])
    pair = _pairs(row, col, upper, num_nodes, index)
    loops = torch.arange(num_nodes, device=row.device)
    where = starts[:-1] + lower_counts  # a row's self-loop comes after its smaller neighbours
    num_pairs = row.numel() // 2
    return Structure(
        crow=(starts + torch.arange(num_nodes + 1, device=row.device)).to(index),
        col=_insert(col.to(index), where, loops.to(index)),
        weight=None if weight is None else _insert(weight, where, torch.ones(num_nodes, device=row.device)),
        pair=_insert(pair, where, torch.full_like(loops, num_pairs, dtype=index)),
        num_pairs=num_pairs,
    )


def _is_sorted(row: Tensor, col: Tensor) -> bool:
    ahead = row[1:] > row[:-1]
    return bool((ahead | ((row[1:] == row[:-1]) & (col[1:] > col[:-1]))).all())


def _sort(row: Tensor, col: Tensor, weight: Tensor | None, num_nodes: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """Sort by row, then column; on a CPU by counting, which needs no keys of 64 bits."""
    if row.is_cuda:
        order = torch.argsort(row.to(torch.int64) * num_nodes + col)
        return row[order], col[order], None if weight is None else weight[order]
    values = np.ones(row.numel(), dtype=np.int8) if weight is None else weight.numpy()
    entries = sp.coo_array((values, (row.numpy(), col.numpy())), shape=(num_nodes, num_nodes))
    by_row = sp.csr_array(entries)
    if by_row.nnz != row.numel():
        raise GraphError(
            f"{row.numel() - by_row.nnz} of {row.numel()} edges are repeats: load the graph with plgc.load_graph"
        )
    by_row.sort_indices()
    counts = torch.from_numpy(np.diff(by_row.indptr).astype(np.int64))
    rows = torch.arange(num_nodes, dtype=row.dtype).repeat_interleave(counts)
    return rows, torch.from_numpy(by_row.indices), None if weight is None else torch.from_numpy(by_row.data)


def _pairs(row: Tensor, col: Tensor, upper: Tensor, num_nodes: int, index: torch.dtype) -> Tensor:
    """Number the entries above the diagonal in their order, and give those below the number of their mirror image."""
    count = int(upper.sum())
    numbers = torch.arange(count, dtype=index, device=row.device)
    source, target = _select(row, upper), _select(col, upper)
    if row.is_cuda:  # sorting the mirror images puts them in the order of the entries below the diagonal
        order = torch.argsort(target.to(torch.int64) * num_nodes + source)
        mirrored, smaller = numbers[order], source[order]
    else:
        starts = np.zeros(num_nodes + 1, dtype=np.int64)
        np.cumsum(torch.bincount(source, minlength=num_nodes).numpy(), out=starts[1:])
        columns = target.to(index).numpy()
        triangle = sp.csr_array((numbers.numpy(), columns, starts.astype(columns.dtype)), shape=(num_nodes, num_nodes))
        flipped = triangle.tocsc()
        mirrored, smaller = torch.from_numpy(flipped.data), torch.from_numpy(flipped.indices)
    lower = ~upper
    if not torch.equal(smaller.to(col.dtype), _select(col, lower)):
        raise GraphError(
            f"{count} of {row.numel()} edges go from a smaller to a larger node, and the others are not their mirror "
            "images: every edge has to be there once in either direction; load the graph with plgc.load_graph"
        )
    pair = torch.empty(row.numel(), dtype=index, device=row.device)
    _assign(pair, upper, numbers)
    _assign(pair, lower, mirrored)
    return pair


def _insert(values: Tensor, where: Tensor, added: Tensor) -> Tensor:
    """Put ``added`` into ``values``, each before the value that now stands at ``where`` (ascending)."""
    result = torch.empty(values.numel() + added.numel(), dtype=values.dtype, device=values.device)
    places = where + torch.arange(added.numel(), device=values.device)
    others = torch.ones(result.numel(), dtype=torch.bool, device=values.device)
    others[places] = False
    result[places] = added
    _assign(result, others, values)
    return result


def _select(values: Tensor, mask: Tensor) -> Tensor:
    """``values[mask]``; on a CPU NumPy takes a fraction of torch's time and makes no list of 64-bit places."""
    return values[mask] if mask.is_cuda else torch.from_numpy(np.compress(mask.numpy(), values.numpy()))


def _assign(values: Tensor, mask: Tensor, new: Tensor) -> None:
    """``values[mask] = new``, likewise."""
    if mask.is_cuda:
        values[mask] = new
    else:
        values.numpy()[mask.numpy()] = new.numpy()
