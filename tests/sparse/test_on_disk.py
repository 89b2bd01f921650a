"""Â from disk agrees bit for bit with Â in memory: its blocks, its products, and the edges of single nodes."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from plgc.runtime import mapped
from plgc.runtime.errors import GraphError
from plgc.sparse.adjacency import build_adjacency, neighbor_sum, propagate
from plgc.sparse.on_disk import stored_adjacency, stream_product, stream_sums

NODES = 300


def edges(weighted, seed=0):
    """Edges in order of a graph with a hub (node 7), isolated nodes (the last 20), and maybe weights."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, NODES - 20, (2, 900))
    hub = np.stack([np.full(NODES - 20, 7), np.arange(NODES - 20)])
    pairs = np.concatenate([pairs, hub], 1)
    pairs = np.unique(np.sort(pairs[:, pairs[0] != pairs[1]], 0), axis=1)
    values = rng.random(pairs.shape[1]).astype(np.float32) + 0.1
    matrix = sp.csr_array((np.tile(values, 2), np.concatenate([pairs, pairs[::-1]], 1)), shape=(NODES, NODES))
    matrix.sort_indices()
    coo = matrix.tocoo()
    weight = torch.from_numpy(coo.data.copy()) if weighted else None
    return torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64)), weight, matrix


def on_file(tensor, path):
    """The same values, mapped from a file."""
    array = tensor.numpy()
    array.tofile(path)
    return mapped.map_array(path, array.dtype, array.shape, 0)


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def graph(request, tmp_path):
    edge_index, weight, _ = edges(request.param)
    file_weight = None if weight is None else on_file(weight, tmp_path / "weight")
    index = on_file(edge_index.int() if request.param else edge_index, tmp_path / "edges")
    return build_adjacency(edge_index, NODES, weight), stored_adjacency(index, NODES, file_weight)


@pytest.mark.parametrize(("entries", "rows"), [(50, 1000), (10_000, 7), (1 << 20, 1 << 20)])
def test_blocks_are_the_rows_of_the_matrix_in_memory(graph, entries, rows):
    ours, stored = graph
    assert torch.equal(stored.degree, ours.degree)
    whole, place = torch.zeros(NODES, NODES), 0
    for first, last in stored.ranges(entries, rows):
        block = stored.block(first, last)
        assert first == place < last
        assert last - first <= rows
        assert block.values().numel() <= entries or last == first + 1
        whole[first:last] = block.to_dense()
        place = last
    assert place == NODES
    assert torch.equal(whole, ours.matrix.to_dense())


@pytest.mark.parametrize("entries", [50, 1 << 20])
@pytest.mark.parametrize("width", [1, 5, 64])
def test_products_are_those_in_memory_bit_for_bit(graph, tmp_path, entries, width):
    ours, stored = graph
    dense = torch.randn(NODES, width, generator=torch.Generator().manual_seed(1))
    for source in (dense, on_file(dense, tmp_path / "dense")):
        blocks, sums = (list(stream(stored, source, entries=entries)) for stream in (stream_product, stream_sums))
        assert torch.equal(torch.cat([rows for _, rows in blocks]), propagate(ours, dense))
        wanted = neighbor_sum(ours, dense)  # in another order: the node itself comes last
        torch.testing.assert_close(torch.cat([rows for _, rows in sums]), wanted, rtol=1e-5, atol=1e-4)
        for found in (blocks, sums):
            assert [first for first, _ in found] == np.cumsum([0, *(len(rows) for _, rows in found[:-1])]).tolist()


def test_a_product_is_that_of_scipy(tmp_path):
    edge_index, weight, matrix = edges(True)
    dense = np.random.default_rng(3).standard_normal((NODES, 6)).astype(np.float32)
    closed = (matrix + sp.eye_array(NODES)).tocsr()
    scale = sp.diags_array(1 / np.sqrt(closed.sum(1)))
    stored = stored_adjacency(edge_index, NODES, weight)
    wanted = {stream_product: scale @ closed @ scale, stream_sums: closed}
    for stream, matrix in wanted.items():
        rows = torch.cat([rows for _, rows in stream(stored, torch.from_numpy(dense), entries=64)])
        np.testing.assert_allclose(rows.numpy(), matrix @ dense, rtol=1e-5, atol=1e-4)


def test_the_edges_of_some_nodes_are_gathered_from_the_file(graph):
    _, stored = graph
    nodes = torch.tensor([7, 299, 3, 120])
    starts, col, weight = stored.neighbours(nodes)
    _, _, matrix = edges(weight is not None)
    for place, node in enumerate(nodes.tolist()):
        own = slice(int(starts[place]), int(starts[place + 1]))
        row = matrix[[node]].tocoo()
        assert col[own].tolist() == row.col.tolist()
        if weight is not None:
            assert weight[own].tolist() == row.data.tolist()


def test_a_graph_without_edges_is_the_identity():
    stored = stored_adjacency(torch.empty(2, 0, dtype=torch.int64), 4)
    dense = torch.randn(4, 3)
    for stream in (stream_product, stream_sums):
        assert torch.equal(torch.cat([rows for _, rows in stream(stored, dense)]), dense)


def test_edges_out_of_order_are_refused():
    with pytest.raises(GraphError, match="not sorted by node"):
        stored_adjacency(torch.tensor([[2, 0, 1], [0, 1, 2]]), 3)
    with pytest.raises(GraphError, match="beyond 2"):
        stored_adjacency(torch.tensor([[0, 1, 5], [1, 0, 2]]), 3)
