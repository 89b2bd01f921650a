"""Â = D^-1/2 (A + I) D^-1/2 of a graph as a sorted CSR matrix, and the views of it with some edges dropped.

Graphs come from :func:`plgc.load_graph` sorted by row, then column. Building Â then takes one pass that inserts the
self-loops and one counting sort; unsorted edges are sorted first. Â is symmetric, and edges are dropped symmetrically,
so that nothing is ever transposed: the backward of ``Â @ H`` is ``Â @ grad``. The condensed graph has A' = I; it is
written as ``None``, and every product with it is the identity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from plgc.graphs.features import row_entries
from plgc.runtime.errors import GraphError
from plgc.sparse.product import SparseProduct, index_dtype, multiply


@dataclass(frozen=True)
class Adjacency:
    """Entries of A + I, sorted by row, then column.

    Attributes:
        crow: where each row starts, [N + 1].
        col: column of every entry.
        weight: of every entry, 1 for self-loops; None where no edge has one.
        pair: the undirected edge an entry belongs to, numbered in sorted order; ``num_pairs`` for self-loops. One
            random draw per pair drops both directions.
        num_pairs: the number of undirected edges.
    """

    crow: Tensor
    col: Tensor
    weight: Tensor | None
    pair: Tensor
    num_pairs: int

    @property
    def num_nodes(self) -> int:
        """N, the number of nodes."""
        return self.crow.numel() - 1

    @cached_property
    def row(self) -> Tensor:
        """Row of every entry."""
        nodes = torch.arange(self.num_nodes, dtype=self.crow.dtype, device=self.crow.device)
        return nodes.repeat_interleave(self._counts, output_size=self.col.numel())

    @cached_property
    def degree(self) -> Tensor:
        """Weighted degree of every node, its self-loop included."""
        if self.weight is None:
            return self._counts.to(torch.float32)
        return multiply(self.sum_matrix, torch.ones(self.num_nodes, 1, device=self.col.device)).flatten()

    @cached_property
    def matrix(self) -> Tensor:
        """Â = D^-1/2 (A + I) D^-1/2."""
        scale = self.degree.rsqrt()
        value = scale.repeat_interleave(self._counts, output_size=self.col.numel())
        value *= scale.index_select(0, self.col)
        return self.with_values(value if self.weight is None else value.mul_(self.weight))

    @cached_property
    def sum_matrix(self) -> Tensor:
        """A + I, for the aggregators that are not GCN's."""
        return self.with_values(torch.ones_like(self.col, dtype=torch.float32) if self.weight is None else self.weight)

    @property
    def _counts(self) -> Tensor:
        return self.crow[1:] - self.crow[:-1]

    def with_values(self, value: Tensor) -> Tensor:
        """A CSR matrix with these entries."""
        return csr(self.crow, self.col, value, (self.num_nodes, self.num_nodes))


def csr(crow: Tensor, col: Tensor, value: Tensor, shape: tuple[int, int]) -> Tensor:
    """A CSR tensor of parts that fit together; they are not checked."""
    return torch.sparse_csr_tensor(crow, col, value, shape, check_invariants=False)


def build_adjacency(edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None = None) -> Adjacency:
    """Â of symmetric edges without self-loops: sort them, insert the self-loops, and number the pairs."""
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
    return Adjacency(
        crow=(starts + torch.arange(num_nodes + 1, device=row.device)).to(index),
        col=_insert(col.to(index), where, loops.to(index)),
        weight=None if weight is None else _insert(weight, where, torch.ones(num_nodes, device=row.device)),
        pair=_insert(pair, where, torch.full_like(loops, num_pairs, dtype=index)),
        num_pairs=num_pairs,
    )


def drop_edges(adjacency: Adjacency, rate: float, generator: torch.Generator) -> Adjacency:
    """Drop each undirected edge with probability ``rate``; self-loops stay, rows stay sorted."""
    return keep_edges(adjacency, draw_kept(adjacency, rate, generator))


def draw_kept(adjacency: Adjacency, rate: float, generator: torch.Generator) -> Tensor:
    """Which pairs to keep, and at last the self-loops: bool [pairs + 1], by the generator's device; empty for all."""
    if rate == 0.0:
        return torch.empty(0, dtype=torch.bool, device=generator.device)
    kept = torch.rand(adjacency.num_pairs + 1, generator=generator, device=generator.device) >= rate
    kept[-1] = True
    return kept


def keep_edges(adjacency: Adjacency, kept: Tensor) -> Adjacency:
    """The view in which only these pairs are left.

    On a GPU the others keep their place with a weight of zero, which its product does not gather: a view is then as
    large as the graph, and its size need not be read back from the device.
    """
    if kept.numel() == 0:
        return adjacency
    keep = kept.to(adjacency.pair.device).index_select(0, adjacency.pair)
    if keep.is_cuda:
        return replace(adjacency, weight=keep.float() if adjacency.weight is None else adjacency.weight * keep)
    crow, places = kept_entries(keep, adjacency.crow)
    return Adjacency(
        crow=crow,
        col=adjacency.col.index_select(0, places),
        weight=None if adjacency.weight is None else adjacency.weight.index_select(0, places),
        pair=adjacency.pair.index_select(0, places),
        num_pairs=adjacency.num_pairs,
    )


def kept_entries(keep: Tensor, crow: Tensor) -> tuple[Tensor, Tensor]:
    """Where rows start once only some entries are kept, and the places of these entries; on a CPU."""
    places = torch.from_numpy(np.flatnonzero(keep.numpy()))  # ten times faster than torch's own
    running = torch.zeros(keep.numel() + 1, dtype=crow.dtype)
    torch.cumsum(keep, 0, out=running[1:])
    return running.index_select(0, crow), places


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
    """Put ``added`` into ``values``, each before the value at ``where`` (ascending)."""
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


def propagate(adjacency: Adjacency | None, hidden: Tensor, steps: int = 1) -> Tensor:
    """Multiply ``hidden`` by Â ``steps`` times; with A' = I (``None``) return it unchanged."""
    if adjacency is not None:
        for _ in range(steps):
            hidden = SparseProduct.apply(adjacency.matrix, adjacency.matrix, hidden)  # pyright: ignore
    return hidden


def propagate_rows(adjacency: Adjacency, hidden: Tensor, rows: Tensor) -> Tensor:
    """``(Â @ hidden)[rows]``, [n, d], at about the cost of these rows; so is its gradient."""
    there, back = row_matrices(adjacency, rows)
    result = SparseProduct.apply(there, back, hidden)  # pyright: ignore
    return result.index_select(0, rows) if there.is_cuda else result


def row_matrices(adjacency: Adjacency, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Â with only these (ascending) rows, and its transpose, which by symmetry is Â with only these columns.

    On a CPU the others are left out, and the matrices are [n, N] and [N, n]. On a GPU, where a size that depends on the
    rows would have to be read back, they are zeros, which its product does not gather, and the matrices are [N, N].
    """
    crow, col, value = adjacency.crow, adjacency.col, adjacency.matrix.values()
    nodes, entries = adjacency.num_nodes, col.numel()
    if col.is_cuda:
        chosen = torch.zeros(nodes, device=col.device).index_fill_(0, rows, 1.0)
        there = chosen.repeat_interleave(crow.diff(), output_size=entries).mul_(value)
        return adjacency.with_values(there), adjacency.with_values(chosen.index_select(0, col).mul_(value))
    starts, entry = row_entries(crow, rows)
    there = csr(starts, col.index_select(0, entry), value.index_select(0, entry), (len(rows), nodes))
    place = torch.full((nodes,), -1, dtype=col.dtype)
    place[rows] = torch.arange(len(rows), dtype=col.dtype)
    source = place.index_select(0, col)
    starts, places = kept_entries(source >= 0, crow)
    back = csr(starts, source.index_select(0, places), value.index_select(0, places), (nodes, len(rows)))
    return there, back


def neighbor_sum(adjacency: Adjacency | None, hidden: Tensor) -> Tensor:
    """(A + I) @ hidden: the sum over a node and its neighbours; with A' = I the node itself."""
    if adjacency is None:
        return hidden
    return SparseProduct.apply(adjacency.sum_matrix, adjacency.sum_matrix, hidden)  # pyright: ignore
