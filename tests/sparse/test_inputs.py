from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor
from torch_geometric.data import Data

from plgc.runtime.errors import GraphError
from plgc.sparse import inputs as inputs_module
from plgc.sparse.adjacency import propagate
from plgc.sparse.features import SparseFeatures, mean_rows, sparse_features
from plgc.sparse.inputs import fingerprint, prepare, resolve_scaling, scale_rows

# Half the values are zero, so that rows of zeros turn up.
VALUES = st.one_of(st.just(0.0), st.floats(-100, 100, width=32).filter(lambda value: abs(value) > 1e-3))
MATRICES = hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=VALUES)
EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def graph(x: Tensor | None = None, **fields: object) -> Data:
    """A path of three nodes and a fourth without neighbours; sparse features with a row of zeros."""
    table = torch.zeros(4, 10)
    table[0, 3], table[1, 3], table[1, 7], table[3, 0] = 2.0, 1.0, 3.0, 5.0
    return Data(**{"x": table if x is None else x, "edge_index": EDGES, "num_nodes": 4, **fields})


def scaled_by_numpy(values: np.ndarray, scaling: str) -> np.ndarray:
    wide = values.astype(np.float64)
    if scaling == "none":
        return wide
    norms = np.linalg.norm(wide, ord={"l1": 1, "l2": 2}[scaling], axis=1, keepdims=True)
    return np.divide(wide, norms, out=np.zeros_like(wide), where=norms > 0)


# Row scaling


@pytest.mark.parametrize("scaling", ["l1", "l2", "none"])
@settings(deadline=None, max_examples=40)
@given(values=MATRICES)
def test_scale_rows_is_that_of_numpy_dense_and_sparse(scaling: str, values: np.ndarray) -> None:
    x = torch.from_numpy(values)
    expected = scaled_by_numpy(values, scaling)
    sparse = scale_rows(x.to_sparse_csr(), scaling)
    assert sparse.layout == torch.sparse_csr
    for result in (scale_rows(x, scaling), sparse.to_dense()):
        assert result.shape == x.shape
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("scaling", ["l1", "l2"])
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_rows_of_zeros_stay(scaling: str, layout: str) -> None:
    x = torch.tensor([[0.0, 0.0], [3.0, -4.0], [0.0, 0.0]])
    result = scale_rows(x if layout == "dense" else x.to_sparse_csr(), scaling).to_dense()
    length = {"l1": 7.0, "l2": 5.0}[scaling]
    torch.testing.assert_close(result, torch.tensor([[0.0, 0.0], [3 / length, -4 / length], [0.0, 0.0]]))


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_scaling_does_not_change_what_it_was_given(layout: str) -> None:
    x = graph().x if layout == "dense" else graph().x.to_sparse_csr()
    before = x.to_dense().clone()
    assert not torch.equal(scale_rows(x, "l1").to_dense(), before)
    assert torch.equal(x.to_dense(), before)


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_auto_looks_at_the_signs(layout: str) -> None:
    def resolved(rows: list[list[float]], scaling: str = "auto") -> str:
        x = torch.tensor(rows)
        return resolve_scaling(x if layout == "dense" else x.to_sparse_csr(), scaling)

    assert resolved([[0.0, 2.0], [1.0, 0.0]]) == "l1"
    assert resolved([[0.0, 0.0], [0.0, 0.0]]) == "l1"
    assert resolved([[0.0, 2.0], [-0.001, 0.0]]) == "none"
    for asked in ("l1", "l2", "none"):
        assert resolved([[1.0, -2.0]], asked) == asked


# Preparing a graph


@pytest.mark.parametrize("scaling", ["l1", "l2", "none"])
def test_dense_and_sparse_features_are_prepared_alike(scaling: str) -> None:
    data = graph()
    dense = prepare(data, scaling)
    sparse = prepare(graph(x=data.x.to_sparse_csr()), scaling)
    assert isinstance(dense.x, Tensor)
    assert isinstance(sparse.x, SparseFeatures)
    expected = scaled_by_numpy(data.x.numpy(), scaling)
    for inputs in (dense, sparse):
        assert (inputs.num_nodes, inputs.num_features) == (4, 10)
        assert inputs.device == torch.device("cpu")
        np.testing.assert_allclose(inputs.x.to_dense().numpy(), expected, rtol=1e-5)
    assert torch.equal(dense.adjacency.matrix.to_dense(), sparse.adjacency.matrix.to_dense())
    r = 6**-0.5
    path = torch.tensor([[1 / 2, r, 0, 0], [r, 1 / 3, r, 0], [0, r, 1 / 2, 0], [0, 0, 0, 1.0]])
    torch.testing.assert_close(dense.adjacency.matrix.to_dense(), path)


def test_features_that_are_hardly_sparse_become_dense() -> None:
    x = torch.arange(1.0, 13).reshape(4, 3)
    inputs = prepare(graph(x=x.to_sparse_csr()), "l1")
    assert isinstance(inputs.x, Tensor)
    assert inputs.x.layout == torch.strided
    np.testing.assert_allclose(inputs.x.numpy(), scaled_by_numpy(x.numpy(), "l1"), rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.bool])
def test_features_of_any_type_become_float32(dtype: torch.dtype) -> None:
    x = graph().x.to(dtype)
    for given_x in (x, x.to_sparse_csr()):
        inputs = prepare(graph(x=given_x), "l1")
        dense = inputs.x.to_dense()
        assert dense.dtype == torch.float32
        np.testing.assert_allclose(dense.numpy(), scaled_by_numpy(x.float().numpy(), "l1"), rtol=1e-6)


def test_edge_weights_are_used() -> None:
    weight = torch.tensor([3.0, 3.0, 0.5, 0.5])
    found = prepare(graph(edge_weight=weight), "none").adjacency.matrix.to_dense()
    closed = np.array([[1, 3, 0, 0], [3, 1, 0.5, 0], [0, 0.5, 1, 0], [0, 0, 0, 1]])
    scale = closed.sum(1) ** -0.5
    np.testing.assert_allclose(found.numpy(), scale[:, None] * closed * scale, rtol=1e-6)


class Unreadable:
    """Fails the test at any use."""

    def __getattribute__(self, name: str) -> object:
        raise AssertionError(f"{name} of a label or mask was read")


def test_labels_and_masks_are_not_read() -> None:
    data = graph()
    for name in ("y", "train_mask", "val_mask", "test_mask"):
        data[name] = Unreadable()
    with pytest.raises(AssertionError, match="was read"):
        _ = data.y.shape
    np.testing.assert_allclose(prepare(data, "l1").x.numpy(), scaled_by_numpy(graph().x.numpy(), "l1"))
    assert fingerprint(data) == fingerprint(graph())


def test_a_graph_without_features_is_refused() -> None:
    data = graph()
    data.x = None
    with pytest.raises(GraphError, match="no node features"):
        prepare(data, "l1")


# Means and fingerprints


@settings(deadline=None, max_examples=40)
@given(MATRICES, st.integers(1, 4), st.integers(0, 1000))
def test_mean_rows_is_the_weighted_mean_dense_and_sparse(values: np.ndarray, count: int, seed: int) -> None:
    x = torch.from_numpy(values)
    shares = np.random.default_rng(seed).dirichlet(np.ones(len(values)), size=count)  # one row per mean, adding to one
    expected = np.stack([np.average(values, axis=0, weights=share) for share in shares])
    weights = torch.from_numpy(shares.T.astype(np.float32))
    for features in (x, sparse_features(x.to_sparse_csr())):
        result = mean_rows(features, weights)
        assert result.is_contiguous()
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-4)


def changed_features(value: float) -> Tensor:
    x = graph().x.clone()
    x[2, 2] = value
    return x


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_the_fingerprint_tells_graphs_apart(layout: str) -> None:
    def of(data: Data) -> str:
        return fingerprint(data if layout == "dense" else Data(**{**data.to_dict(), "x": data.x.to_sparse_csr()}))

    fewer, other = EDGES[:, :2], EDGES.clone()
    other[other == 2] = 3
    variants = [
        graph(),
        graph(x=changed_features(1.0)),
        graph(x=changed_features(1e-6)),
        graph(x=graph().x.flip(1)),
        graph(x=graph().x.flip(0)),
        graph(edge_index=fewer),
        graph(edge_index=other),
        graph(edge_weight=torch.ones(4)),
        graph(edge_weight=torch.tensor([1.0, 1.0, 2.0, 2.0])),
    ]
    found = [of(data) for data in variants]
    assert len(set(found)) == len(variants)
    assert all(len(value) == 64 and int(value, 16) >= 0 for value in found)
    assert of(graph()) == found[0]


@pytest.mark.parametrize(
    "layout",
    ["dense", "csr"],
)
def test_the_fingerprint_sees_columns_that_are_empty(layout: str) -> None:
    wide, narrow = graph().x, graph().x[:, :9]
    assert not bool(wide[:, 9].any())
    one, other = (x.contiguous() if layout == "dense" else x.to_sparse_csr() for x in (wide, narrow))
    assert fingerprint(graph(x=one)) != fingerprint(graph(x=other))


def test_the_fingerprint_ignores_labels_masks_and_names() -> None:
    mask = torch.tensor([True, False, True, False])
    labelled = graph(y=torch.arange(4), train_mask=mask, val_mask=~mask, test_mask=~mask, name="cora")
    assert fingerprint(labelled) == fingerprint(graph(y=torch.zeros(4))) == fingerprint(graph())


def test_the_fingerprint_does_not_depend_on_memory_layout() -> None:
    x = graph().x
    assert not x.t().contiguous().t().is_contiguous()
    assert fingerprint(graph(x=x.t().contiguous().t())) == fingerprint(graph())


# Another order of the nodes


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_in_another_order_are_the_same_rows(layout: str, weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    dense = np.triu(rng.random((60, 60)) < 0.08, 1) * rng.uniform(0.5, 2, (60, 60))
    dense = (dense + dense.T).astype(np.float32)
    row, col = dense.nonzero()
    x = torch.from_numpy((rng.random((60, 30)) * (rng.random((60, 30)) < 0.1)).astype(np.float32))
    fields = {"edge_weight": torch.from_numpy(dense[row, col])} if weighted else {}
    data = Data(
        x=x if layout == "dense" else x.to_sparse_csr(),
        edge_index=torch.from_numpy(np.stack([row, col])),
        num_nodes=60,
        **fields,
    )
    plain = prepare(data, "l1")
    assert prepare(data, "l1", reorder=True).order is None  # too small to gain by it
    monkeypatch.setattr(inputs_module, "REORDERED_FROM", 10)
    local = prepare(data, "l1", reorder=True)
    assert plain.order is None
    order = local.order
    assert order is not None
    assert not torch.equal(order, torch.arange(60))
    assert isinstance(local.x, SparseFeatures) == (layout == "csr")
    rows = [each.x.to_dense() if isinstance(each.x, SparseFeatures) else each.x for each in (plain, local)]
    assert torch.equal(rows[1], rows[0][order])
    for name in ("matrix", "sum_matrix"):
        before, after = (getattr(each.adjacency, name).to_dense() for each in (plain, local))
        torch.testing.assert_close(after, before[order][:, order], rtol=1e-6, atol=0)
    back = torch.empty(60, 30)
    back[order] = propagate(local.adjacency, rows[1], 2)
    torch.testing.assert_close(back, propagate(plain.adjacency, rows[0], 2), rtol=1e-5, atol=1e-7)
