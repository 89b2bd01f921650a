from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch_geometric.data import Data

from plgc.graphs.check import check_condensable, check_structure, node_count
from plgc.graphs.features import as_features, csr_features, take_rows
from plgc.runtime.errors import GraphError


def path_graph(nodes: int = 4, **fields: object) -> Data:
    edges = torch.arange(nodes - 1)
    both = torch.stack([torch.cat([edges, edges + 1]), torch.cat([edges + 1, edges])])
    return Data(**{"x": torch.eye(nodes), "edge_index": both, "num_nodes": nodes, **fields})


def layouts(x: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"dense": x, "csr": x.to_sparse_csr(), "coo": x.to_sparse(), "csc": x.to_sparse_csc()}


@pytest.mark.parametrize("layout", ["dense", "csr", "coo", "csc"])
def test_a_sound_graph_passes_in_every_layout(layout: str) -> None:
    check_condensable(path_graph(x=layouts(torch.eye(4))[layout]))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"edge_index": None}, "no edge_index"),
        ({"edge_index": torch.zeros(5, 2, dtype=torch.int64)}, r"\[5, 2\].*transpose"),
        ({"edge_index": torch.zeros(2, 3)}, "float32"),
        ({"edge_index": torch.zeros(2, 3, dtype=torch.bool)}, "bool"),
        ({"edge_index": torch.tensor([[0, 1], [1, 9]])}, r"edge 1 joins nodes 1 and 9: out of range.* 4 nodes"),
        ({"edge_index": torch.tensor([[0, -3], [1, 0]])}, r"edge 1 joins nodes -3 and 0: a negative"),
        ({"x": torch.ones(3, 2)}, "x has 3 rows, but the graph has 4 nodes"),
        ({"x": torch.ones(4)}, r"shape \[4\]"),
        ({"x": torch.ones(4, 2, dtype=torch.complex64)}, "complex64"),
        ({"x": [[1.0]] * 4}, "list"),
        ({"edge_weight": torch.ones(5)}, r"\[5\], expected one real number for each of the 6 edges"),
        ({"edge_weight": torch.tensor([1, 1, -2.5, 1, 1, 1])}, r"edge_weight\[2\] is -2.5"),
        ({"edge_weight": torch.tensor([1, 1, 1, 1, 1, float("nan")])}, r"edge_weight\[5\] is nan"),
        ({"num_nodes": 0, "x": None}, "no nodes"),
        ({"num_nodes": 2**40, "x": None}, f"{2**40:,}"),
    ],
)
def test_structure_errors_name_the_value(fields: dict, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        check_structure(path_graph(**fields))


@pytest.mark.parametrize("layout", ["dense", "csr", "coo", "csc"])
def test_values_that_are_not_finite_are_counted_and_located(layout: str) -> None:
    x = torch.eye(4)
    x[2, 3], x[2, 1], x[3, 0] = float("nan"), float("inf"), float("-inf")
    with pytest.raises(GraphError, match=r"1 NaN and 2 infinite.*row 2, column 1:"):
        check_structure(path_graph(x=layouts(x)[layout]))


def test_a_graph_without_features_or_edges_loads_but_does_not_condense() -> None:
    for fields, message in [
        ({"x": None}, "no node features"),
        ({"x": torch.ones(4, 0)}, "no node features"),
        ({"edge_index": torch.empty(2, 0, dtype=torch.int64)}, "4 nodes and no edges"),
    ]:
        graph = path_graph(**fields)
        check_structure(graph)
        with pytest.raises(GraphError, match=message):
            check_condensable(graph)


@pytest.mark.parametrize("layout", ["dense", "csr", "coo", "csc"])
@pytest.mark.parametrize("row", [[0.0, 0.0, 0.0], [2.0, 0.0, -1.0]])
def test_constant_features_are_refused(layout: str, row: list[float]) -> None:
    x = torch.tensor([row] * 4)
    with pytest.raises(GraphError, match="constant: all 4 nodes have the same 3 values"):
        check_condensable(path_graph(x=layouts(x)[layout]))
    x[3, 1] = 5
    check_condensable(path_graph(x=layouts(x)[layout]))


def test_explicit_zeros_do_not_hide_constant_features() -> None:
    x = csr_features([0, 1, 1, 2, 2], [0, 1], [0.0, 0.0], (4, 2))
    with pytest.raises(GraphError, match="constant"):
        check_condensable(path_graph(x=x))


@given(hnp.arrays(np.int8, hnp.array_shapes(min_dims=2, max_dims=2, max_side=4), elements=st.integers(0, 1)))
def test_constant_sparse_features_agree_with_dense(values: np.ndarray) -> None:
    x = torch.from_numpy(values).float()
    graphs = [path_graph(len(x), x=x), path_graph(len(x), x=x.to_sparse_csr())]
    varied = len(np.unique(values, axis=0)) > 1
    for graph in graphs:
        graph.edge_index = torch.zeros(2, 1, dtype=torch.int64)
        with nullcontext() if varied else pytest.raises(GraphError, match="constant"):
            check_condensable(graph)


def test_node_count_prefers_what_is_stated() -> None:
    edges = torch.tensor([[0, 3], [3, 0]])
    assert node_count(Data(edge_index=edges)) == 4
    assert node_count(Data(edge_index=edges, y=torch.zeros(6))) == 6
    assert node_count(Data(edge_index=edges, x=torch.zeros(5, 2), y=torch.zeros(6))) == 5
    assert node_count(Data(edge_index=edges, x=torch.zeros(5, 2), num_nodes=9)) == 9
    assert node_count(Data(edge_index=edges, y=torch.tensor(3))) == 4
    assert node_count(Data()) == 0


@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.integers(-3, 3)))
def test_features_keep_their_values_and_their_sparsity(values: np.ndarray) -> None:
    expected = values.astype(np.float32)
    tensor = torch.from_numpy(values)
    for source in (values, tensor, tensor.to(torch.int8)):
        x = as_features(source)
        assert x is not None
        assert x.layout == torch.strided
        assert x.dtype == torch.float32
        np.testing.assert_array_equal(x.numpy(), expected)
    for source in (sp.csr_matrix(values), sp.coo_matrix(values), *list(layouts(tensor).values())[1:]):
        x = as_features(source)
        assert x is not None
        assert x.layout == torch.sparse_csr
        assert x.dtype == torch.float32
        assert x.crow_indices().dtype == x.col_indices().dtype == torch.int64
        np.testing.assert_array_equal(x.to_dense().numpy(), expected)


def test_features_are_copied() -> None:
    dense = torch.ones(2, 2)
    sparse = torch.eye(2).to_sparse_csr()
    for source in (dense, sparse):
        copy = as_features(source)
        assert copy is not None
        (copy if copy.layout == torch.strided else copy.values()).zero_()
    assert dense.sum() == 4
    assert sparse.values().sum() == 2


def test_sparse_duplicates_are_summed_and_columns_sorted() -> None:
    x = csr_features([0, 3, 4], [2, 0, 2, 1], [1.0, 2.0, 4.0, 8.0], (2, 3))
    assert x is not None
    assert x.col_indices().tolist() == [0, 2, 1]
    assert x.values().tolist() == [2.0, 5.0, 8.0]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.array([["a", "b"]]), "<U1"),
        (np.ones((2, 2), dtype=np.complex128), "complex128"),
        (sp.csr_matrix(np.ones((2, 2), dtype=np.complex64)), "complex64"),
        (torch.ones(2, 2, dtype=torch.complex64), "complex64"),
        (np.ones(3), r"\[3\]"),
        (torch.ones(2, 2, 2), r"\[2, 2, 2\]"),
        ("words", "str"),
    ],
)
def test_features_that_are_not_a_real_matrix_are_refused(x: object, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        as_features(x)


def test_no_columns_means_no_features() -> None:
    assert as_features(None) is None
    assert as_features(torch.ones(3, 0)) is None
    assert csr_features([0, 0, 0], np.empty(0, dtype=np.int32), [], (2, 0)) is None


def test_other_byte_orders_and_widths_are_read() -> None:
    for dtype in (">f8", "<f4", np.float16, np.longdouble, np.uint64, np.bool_):
        x = as_features(np.eye(3, dtype=dtype))
        assert x is not None
        assert x.tolist() == np.eye(3).tolist()


def test_rows_are_taken_alike_from_dense_and_sparse() -> None:
    x = torch.arange(12.0).reshape(4, 3)
    index = torch.tensor([3, 0])
    sparse = take_rows(x.to_sparse_csr(), index)
    assert sparse.layout == torch.sparse_csr
    assert sparse.to_dense().tolist() == take_rows(x, index).tolist() == [[9, 10, 11], [0, 1, 2]]
