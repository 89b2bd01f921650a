from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData

from plgc.graphs import (
    check_condensable,
    get_graph,
    list_graphs,
    load_graph,
    num_classes,
    save_npz,
    unlabelled,
)
from plgc.graphs.standard import symmetric_edges
from plgc.graphs.views.splits import generated_split
from plgc.runtime.errors import GraphError, GraphNotFoundError, LabelError, SettingError

MASKS = ("train_mask", "val_mask", "test_mask")
NODES = 6


def arrays(**changes: object) -> dict[str, np.ndarray]:
    """A small graph in the npz format: a ring of six nodes, CSR features, two classes, one split. None drops a key."""
    x = sp.csr_matrix(np.eye(NODES, 4, dtype=np.float32))
    ring = np.arange(NODES)
    parts = {
        "edge_index": np.stack([ring, (ring + 1) % NODES]).astype(np.int32),
        "x_indptr": x.indptr,
        "x_indices": x.indices,
        "x_data": x.data,
        "x_shape": np.array(x.shape),
        "y": ring % 2,
        "train_mask": ring < 2,
        "val_mask": ring == 2,
        "test_mask": ring > 2,
        "meta": np.array(json.dumps({"name": "ring"})),
        **changes,
    }
    return {key: np.asarray(value) for key, value in parts.items() if value is not None}


def dense(x: object, **changes: object) -> dict[str, np.ndarray]:
    return arrays(x=x, x_indptr=None, x_indices=None, x_data=None, x_shape=None, **changes)


@pytest.fixture
def write(tmp_path: Path):
    def save(parts: dict[str, np.ndarray]) -> Path:
        path = tmp_path / "ring.npz"
        np.savez(path, **parts)
        return path

    return save


def ring(**fields: object) -> Data:
    nodes = torch.arange(NODES)
    edges = torch.stack([nodes, (nodes + 1) % NODES])
    return Data(**{"x": torch.eye(NODES, 4), "edge_index": edges, "y": nodes % 2, **fields})


def pairs(edge_index: torch.Tensor) -> set[tuple[int, int]]:
    return set(map(tuple, edge_index.t().tolist()))


# Edges


@st.composite
def edge_lists(draw: st.DrawFn) -> tuple[int, np.ndarray, np.ndarray]:
    nodes = draw(st.integers(1, 8))
    ends = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(ends, ends, st.integers(0, 5)), max_size=25))
    table = np.array(edges, dtype=np.int64).reshape(-1, 3)
    return nodes, table[:, :2].T, table[:, 2].astype(np.float32)


@given(edge_lists())
def test_edges_are_symmetrised_as_scipy_does(case: tuple[int, np.ndarray, np.ndarray]) -> None:
    nodes, edges, _ = case
    matrix = sp.coo_matrix((np.ones(edges.shape[1]), edges), shape=(nodes, nodes)).tolil()
    matrix.setdiag(0)
    expected = np.stack((matrix + matrix.T).tocsr().nonzero())
    data = load_graph(Data(edge_index=torch.from_numpy(edges), num_nodes=nodes))
    np.testing.assert_array_equal(data.edge_index.numpy(), expected)
    assert data.edge_index.dtype == torch.int64
    assert data.num_nodes == nodes


@given(edge_lists())
def test_weights_are_summed_over_duplicates_and_the_larger_direction_counts(case) -> None:
    nodes, edges, weight = case
    summed = np.zeros((nodes, nodes), dtype=np.float32)
    np.add.at(summed, (edges[0], edges[1]), weight)
    expected = np.maximum(summed, summed.T)
    edge_index, kept = symmetric_edges(torch.from_numpy(edges), nodes, torch.from_numpy(weight))
    assert kept is not None
    np.testing.assert_array_equal(kept.numpy(), expected[edge_index[0].numpy(), edge_index[1].numpy()])
    assert torch.equal(edge_index, symmetric_edges(torch.from_numpy(edges), nodes)[0])


def test_weights_of_a_symmetric_graph_are_not_doubled() -> None:
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    data = load_graph(Data(edge_index=edges, edge_weight=torch.tensor([[0.5], [0.5], [2.0], [2.0]]), num_nodes=3))
    assert data.edge_weight.tolist() == [0.5, 0.5, 2.0, 2.0]


def test_loading_twice_changes_nothing(demo_graph: Data) -> None:
    once = load_graph(demo_graph)
    twice = load_graph(once, seed=7)
    assert once.to_dict().keys() == twice.to_dict().keys()
    for key, value in once.to_dict().items():
        if isinstance(value, torch.Tensor):
            first, second = (v.to_dense() if v.layout == torch.sparse_csr else v for v in (value, twice[key]))
            assert torch.equal(first, second), key
        else:
            assert value == twice[key], key


# A PyG Data


def test_data_is_copied_and_never_changed() -> None:
    source = ring(edge_attr=torch.ones(NODES, 3), extra="kept", y_multi=torch.ones(NODES, 2))
    before = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in source.to_dict().items()}
    loaded = load_graph(source)
    for key in ("x", "edge_index", "y", "y_multi"):
        loaded[key].fill_(0)
    after = source.to_dict()
    assert after.keys() == before.keys()
    for key, value in before.items():
        assert torch.equal(after[key], value) if isinstance(value, torch.Tensor) else after[key] == value, key
    assert "edge_attr" not in loaded
    assert "extra" not in loaded


@pytest.mark.parametrize("convert", [torch.Tensor.to_sparse_csr, torch.Tensor.to_sparse, torch.Tensor.to_sparse_csc])
def test_sparse_features_stay_sparse(convert) -> None:
    loaded = load_graph(ring(x=convert(torch.eye(NODES, 4, dtype=torch.float64))))
    assert loaded.x.layout == torch.sparse_csr
    assert loaded.x.dtype == torch.float32
    assert torch.equal(loaded.x.to_dense(), torch.eye(NODES, 4))


def test_the_sparse_tensor_of_torch_sparse_is_understood() -> None:
    class SparseTensor:
        """What we use of torch_sparse.SparseTensor, which need not be installed."""

        def dim(self) -> int:
            return 2

        def size(self, axis: int) -> int:
            return (9, 4)[axis]

        def to_torch_sparse_csr_tensor(self) -> torch.Tensor:
            return torch.eye(9, 4).to_sparse_csr()

    loaded = load_graph(ring(x=SparseTensor(), y=None))
    assert loaded.num_nodes == 9
    assert torch.equal(loaded.x.to_dense(), torch.eye(9, 4))


@pytest.mark.parametrize("x", [None, torch.ones(9, 0)])
def test_a_graph_without_features_loads(x: torch.Tensor | None) -> None:
    loaded = load_graph(ring(x=x, y=None, num_nodes=9))
    assert loaded.x is None
    assert loaded.num_nodes == 9
    assert load_graph(ring(x=x, y=None)).num_nodes == (6 if x is None else 9)
    with pytest.raises(GraphError, match="no node features"):
        check_condensable(loaded)


def test_labels_become_int64_and_may_be_missing() -> None:
    y = torch.tensor([[0.0], [1.0], [-1.0], [1.0], [0.0], [2.0]])
    loaded = load_graph(ring(y=y))
    assert loaded.y.dtype == torch.int64
    assert loaded.y.tolist() == [0, 1, -1, 1, 0, 2]
    assert num_classes(loaded) == 3
    for absent in (None, torch.full((NODES,), -1)):
        bare = load_graph(ring(y=absent))
        assert bare.y is None
        assert "train_mask" not in bare
        assert bare.split_origin.startswith("no split")
        with pytest.raises(LabelError, match="graph has no labels"):
            num_classes(bare)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"y": torch.arange(5)}, r"y has shape \[5\], but the graph has 6 nodes"),
        ({"y": torch.eye(NODES)}, r"\[6, 6\].*y_multi"),
        ({"y": torch.tensor([0, 1, 0, -2, 1, 0])}, r"y\[3\] is -2"),
        ({"y": torch.tensor([0, 1, 0.5, 1, 1, 0])}, r"y\[2\] is 0.5"),
        ({"y": 3}, "y is int"),
        ({"y_multi": torch.ones(5, 2)}, r"y_multi has shape \[5, 2\]"),
        ({"train_mask": torch.ones(5, dtype=torch.bool)}, r"train_mask has shape \[5, 1\].*6 nodes"),
        ({"train_mask": torch.ones(4, 5, dtype=torch.bool)}, "6 nodes"),
        ({"train_mask": torch.ones(NODES)}, "train_mask holds torch.float32"),
        ({"train_mask": torch.arange(NODES)}, "up to 5"),
        ({"val_mask": torch.ones(NODES, dtype=torch.bool)}, "val_mask but no train_mask"),
        ({"x": torch.full((NODES, 4), float("nan"))}, "24 NaN.*row 0, column 0"),
        ({"x": torch.full((NODES, 1), 1e300, dtype=torch.float64)}, "6 infinite"),
        ({"x": torch.ones(5, 4)}, r"y has shape \[6\], but the graph has 5 nodes|edge 4 joins nodes 4 and 5"),
        ({"edge_index": torch.tensor([[0], [6]])}, "edge 0 joins nodes 0 and 6"),
        ({"num_nodes": 7}, "6 rows.*7 nodes"),
    ],
)
def test_bad_data_is_reported_with_the_value(fields: dict, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        load_graph(ring(**fields))


@pytest.mark.parametrize("source", [None, 3, HeteroData(), np.eye(3)])
def test_other_sources_are_refused_by_type(source: object) -> None:
    with pytest.raises(GraphError, match=type(source).__name__):
        load_graph(source)  # pyright: ignore[reportArgumentType]


# Splits


def fixed_splits(count: int) -> dict[str, torch.Tensor]:
    """[N, S] masks: in split s node s trains, node s + 1 validates and the others test."""
    train = torch.eye(NODES, count, dtype=torch.bool)
    val = train.roll(1, dims=0)
    return {"train_mask": train, "val_mask": val, "test_mask": ~train & ~val}


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("split", [0, 3])
def test_one_of_several_splits_is_chosen(transpose: bool, split: int) -> None:
    masks = {key: mask.t() if transpose else mask for key, mask in fixed_splits(4).items()}
    loaded = load_graph(ring(**masks), split=split)
    assert loaded.train_mask.nonzero().flatten().tolist() == [split]
    assert loaded.val_mask.nonzero().flatten().tolist() == [split + 1]
    assert int(loaded.test_mask.sum()) == NODES - 2
    assert loaded.split_origin == f"split {split} of 4"


def test_as_many_splits_as_nodes_are_read_by_each_formats_own_convention(write) -> None:
    masks = fixed_splits(NODES)
    assert load_graph(ring(**masks), split=2).val_mask.nonzero().item() == 3
    path = write(arrays(**{key: mask.t().numpy() for key, mask in masks.items()}))
    assert load_graph(path, split=2).val_mask.nonzero().item() == 3


def test_a_single_mask_serves_all_splits() -> None:
    masks = fixed_splits(4)
    test = torch.zeros(NODES, dtype=torch.bool)
    test[5] = True
    loaded = load_graph(ring(train_mask=masks["train_mask"], val_mask=masks["val_mask"], test_mask=test), split=2)
    assert torch.equal(loaded.test_mask, test)
    assert loaded.train_mask.nonzero().item() == 2


@pytest.mark.parametrize("split", [-1, 4])
def test_a_split_out_of_range_says_how_many_there_are(split: int) -> None:
    with pytest.raises(SettingError, match=rf"split={split}, but graph has 4 splits \(0 to 3\)"):
        load_graph(ring(**fixed_splits(4)), split=split)


def test_only_split_0_exists_where_there_is_one_or_none() -> None:
    with pytest.raises(SettingError, match="split=1, but graph has one split"):
        load_graph(ring(train_mask=torch.ones(NODES, dtype=torch.bool)), split=1)
    with pytest.raises(SettingError, match=r"split=1, but graph has no fixed splits.*seed"):
        load_graph(ring(), split=1)
    with pytest.raises(SettingError, match="split='a'"):
        load_graph(ring(), split="a")  # pyright: ignore[reportArgumentType]


def test_masks_that_disagree_are_refused() -> None:
    masks = fixed_splits(4)
    with pytest.raises(GraphError, match="train_mask 4, val_mask 3"):
        load_graph(ring(train_mask=masks["train_mask"], val_mask=masks["val_mask"][:, :3]))
    both = torch.zeros(NODES, dtype=torch.bool)
    both[4] = True
    with pytest.raises(GraphError, match=r"1 node\(s\) are in train_mask and test_mask.*node 4"):
        load_graph(ring(train_mask=both, test_mask=both))


def test_labels_without_masks_get_a_generated_split() -> None:
    y = torch.arange(300) % 3
    graph = Data(edge_index=torch.tensor([[0], [1]]), y=y)
    loaded = load_graph(graph, seed=5)
    for key, expected in zip(MASKS, generated_split(y, 5), strict=True):
        assert torch.equal(loaded[key], expected)
    assert loaded.split_origin == "generated split, seed 5 (20 per class, 80 validation, rest test)"
    assert not torch.equal(load_graph(graph, seed=6).train_mask, loaded.train_mask)


def test_train_mask_alone_is_enough_and_needs_no_labels() -> None:
    mask = torch.arange(NODES) < 2
    loaded = load_graph(ring(train_mask=mask.to(torch.uint8), y=None))
    assert torch.equal(loaded.train_mask, mask)
    assert not loaded.val_mask.any()
    assert not loaded.test_mask.any()
    assert loaded.split_origin == "the graph's own split"


# What condensation is given


def test_unlabelled_keeps_features_and_edges_alone(demo_graph: Data) -> None:
    bare = unlabelled(demo_graph)
    assert set(bare.to_dict()) == {"x", "edge_index", "num_nodes"}
    assert bare.x is demo_graph.x
    weighted = load_graph(ring(edge_weight=torch.ones(NODES), y_multi=torch.ones(NODES, 2)))
    assert set(unlabelled(weighted).to_dict()) == {"x", "edge_index", "edge_weight", "num_nodes"}


# npz files


def test_an_npz_file_loads_as_described(write) -> None:
    loaded = load_graph(write(arrays(y_multi=np.ones((NODES, 2), dtype=np.int8))))
    assert loaded.name == "ring"
    assert loaded.split_origin == "public split"
    assert loaded.x.layout == torch.sparse_csr
    assert torch.equal(loaded.x.to_dense(), torch.eye(NODES, 4))
    assert pairs(loaded.edge_index) == {(i, (i + s) % NODES) for i in range(NODES) for s in (1, -1)}
    assert loaded.train_mask.tolist() == [True, True, False, False, False, False]
    assert loaded.y_multi.shape == (NODES, 2)


def test_paths_may_be_strings_relative_or_in_upper_case(write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(arrays())
    monkeypatch.chdir(path.parent)
    os.rename(path, "RING.NPZ")
    assert load_graph("RING.NPZ").name == load_graph(str(path.with_name("RING.NPZ"))).name == "RING"
    os.rename("RING.NPZ", "bare")
    assert load_graph("bare").num_nodes == NODES


def test_a_file_or_folder_never_hides_a_catalogue_name(write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(arrays())
    monkeypatch.chdir(path.parent)
    monkeypatch.delenv("PLGC_DATA", raising=False)
    path.rename("demo")
    assert load_graph("demo").num_nodes == 3000
    assert load_graph("./demo").num_nodes == NODES


@pytest.mark.parametrize("x", [np.eye(NODES, 4), np.eye(NODES, 4, dtype=">f4"), np.eye(NODES, 4, dtype=bool)])
def test_dense_features_stay_dense(write, x: np.ndarray) -> None:
    loaded = load_graph(write(dense(x)))
    assert loaded.x.layout == torch.strided
    assert torch.equal(loaded.x, torch.eye(NODES, 4))


def test_a_file_without_features_or_labels_loads(write) -> None:
    nothing = dense(None, y=None, train_mask=None, val_mask=None, test_mask=None, meta=None)
    assert load_graph(write(nothing)).num_nodes == NODES
    assert load_graph(write({**nothing, "num_nodes": np.array(11)})).num_nodes == 11
    assert load_graph(write(dense(np.ones((9, 0)), y=None, train_mask=None, val_mask=None, test_mask=None))).x is None


BAD_FILES = {
    "no edges key": (arrays(edge_index=None), "no edge_index"),
    "edges transposed": (arrays(edge_index=np.zeros((5, 2), dtype=np.int64)), r"\[5, 2\].*transpose"),
    "edges as floats": (arrays(edge_index=np.zeros((2, 3))), "float64"),
    "edges as text": (arrays(edge_index=np.array([["a"], ["b"]])), "edge_index holds <U1"),
    "edge out of range": (arrays(edge_index=np.array([[0], [17]])), "nodes 0 and 17.*6 nodes"),
    "edge beyond int64": (arrays(edge_index=np.array([[0], [2**64 - 1]], dtype=np.uint64)), "nodes 0 and -1"),
    "negative edge": (arrays(edge_index=np.array([[-4], [0]])), "nodes -4 and 0"),
    "CSR incomplete": (arrays(x_data=None, x_shape=None), "x_data, x_shape missing"),
    "dense and CSR": (arrays(x=np.ones((NODES, 2))), "both x and x_indptr"),
    "column out of range": (arrays(x_shape=np.array([NODES, 3])), r"x_indices\[3\] is 3, but x has 3 columns"),
    "negative column": (arrays(x_indices=np.array([0, 1, -2, 3])), r"x_indices\[2\] is -2"),
    "indptr falls": (arrays(x_indptr=np.array([0, 1, 3, 2, 4, 4, 4])), "falls from 3 to 2 at row 2"),
    "indptr starts late": (arrays(x_indptr=np.array([1, 1, 2, 3, 4, 4, 4])), "runs from 1 to 4"),
    "indptr ends early": (arrays(x_indptr=np.array([0, 1, 2, 3, 3, 3, 3])), "runs from 0 to 3"),
    "indptr too short": (arrays(x_indptr=np.array([0, 4])), "2 entries, expected 7"),
    "indptr as floats": (arrays(x_indptr=np.zeros(7)), "x_indptr has dtype float64"),
    "too few values": (arrays(x_data=np.ones(2, dtype=np.float32)), r"x_data has shape \[2\]"),
    "CSR of text": (arrays(x_data=np.array(["a", "b", "c", "d"])), "<U1"),
    "one-sided shape": (arrays(x_shape=np.array([NODES])), r"x_shape is \[6\]"),
    "negative shape": (arrays(x_shape=np.array([NODES, -1])), r"x_shape is \[6, -1\]"),
    "dense of text": (dense(np.array([["a"]] * NODES)), "<U1"),
    "complex features": (dense(np.ones((NODES, 2), dtype=np.complex64)), "complex64"),
    "flat features": (dense(np.ones(NODES)), r"\[6\]"),
    "NaN in dense": (dense(np.full((NODES, 1), np.nan)), "6 NaN"),
    "NaN in CSR": (arrays(x_data=np.array([1, 1, np.inf, np.nan])), "1 NaN and 1 infinite.*row 2, column 2"),
    "labels too short": (arrays(y=np.arange(4)), r"y has shape \[4\].*6 nodes"),
    "labels as text": (arrays(y=np.array(list("abcdef"))), "y holds <U1"),
    "mask too short": (arrays(val_mask=np.ones(4, dtype=bool)), r"val_mask has shape \[4, 1\].*6 nodes"),
    "mask as floats": (arrays(val_mask=np.ones(NODES)), "val_mask holds torch.float64"),
    "odd num_nodes": (arrays(num_nodes=np.array([3, 4])), r"num_nodes is \[3, 4\]"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_reported_with_the_value(write, case: str) -> None:
    parts, message = BAD_FILES[case]
    with pytest.raises(GraphError, match=message) as caught:
        load_graph(write(parts))
    assert "ring" in str(caught.value)


class Bomb:
    """A pickle that would leave a folder behind when it is opened."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return (os.mkdir, (str(self.trace),))


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    trace = tmp_path / "opened"
    bomb = np.empty(1, dtype=object)
    bomb[0] = Bomb(trace)
    inside, plain = tmp_path / "inside.npz", tmp_path / "plain.npz"
    np.savez(inside, **{**arrays(), "y": bomb})
    plain.write_bytes(pickle.dumps(Bomb(trace)))
    for path in (inside, plain):
        with pytest.raises(GraphError, match=rf"{path.name} is not a readable npz archive"):
            load_graph(path)
    assert not trace.exists()
    pickle.loads(plain.read_bytes())
    assert trace.exists()  # the trap does work


def test_broken_archives_are_reported_as_such(write, tmp_path: Path) -> None:
    whole = write(arrays()).read_bytes()
    broken = {"empty": b"", "text": b"not a zip at all", "truncated": whole[: len(whole) // 2], "header": whole[:40]}
    for name, content in broken.items():
        path = tmp_path / f"{name}.npz"
        path.write_bytes(content)
        with pytest.raises(GraphError, match=rf"{name}\.npz is not a readable npz"):
            load_graph(path)
    single = tmp_path / "single.npz"
    with open(single, "wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(GraphError, match="single array"):
        load_graph(single)


@given(st.integers(0, 4000), st.integers(1, 255))
def test_a_damaged_byte_never_gives_another_kind_of_error(tmp_path_factory, position: int, change: int) -> None:
    path = tmp_path_factory.mktemp("damaged") / "ring.npz"
    np.savez_compressed(path, **arrays())
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= change
    path.write_bytes(content)
    try:
        loaded = load_graph(path)
    except GraphError:
        return
    assert loaded.num_nodes > 0


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for source in (tmp_path / "gone.npz", str(tmp_path / "gone.npz"), "gone.npz", "./gone"):
        with pytest.raises(GraphNotFoundError, match=r"no such file: .*gone"):
            load_graph(source)
    with pytest.raises(GraphError, match="is a folder"):
        load_graph(tmp_path)


# Real graphs

# Nodes, edges stored, features and classes as in the table that comes with the files.
TABLE = {
    "actor": (7600, 53318, 932, 5),
    "amazon_photo": (7650, 238162, 745, 8),
    "citation_acmv9": (9360, 31158, 6775, 5),
    "citation_citationv1": (8935, 30211, 6775, 5),
    "citation_dblpv7": (5484, 16247, 6775, 5),
    "citeseer": (3327, 9104, 3703, 6),
    "coauthor_cs": (18333, 163788, 6805, 15),
    "cora": (2708, 10556, 1433, 7),
    "flickr_saint_structure": (89250, 899756, 0, 7),
    "ogbn_arxiv_structure": (169343, 1166243, 0, 40),
    "pubmed": (19717, 88648, 500, 3),
    "tolokers": (11758, 1038000, 10, 2),
    "twitch_DE": (9498, 306276, 3170, 2),
    "twitch_ENGB": (7126, 70648, 3170, 2),
    "twitch_FR": (6549, 225332, 3170, 2),
}


@pytest.mark.parametrize("name", TABLE)
def test_every_real_graph_loads_with_its_published_size(data_dir: Path, name: str) -> None:
    nodes, stored, features, classes = TABLE[name]
    path = data_dir / f"{name}.npz"
    assert path.is_file(), f"{path} is missing"
    loaded = load_graph(name)
    with np.load(path, allow_pickle=False) as archive:
        raw = {key: archive[key] for key in archive.files}
    assert raw["edge_index"].shape[1] == stored
    edges = raw["edge_index"][:, raw["edge_index"][0] != raw["edge_index"][1]]
    matrix = sp.csr_matrix((np.ones(edges.shape[1], dtype=np.float32), edges), shape=(nodes, nodes))
    matrix = (matrix + matrix.T).tocsr()
    assert loaded.num_nodes == nodes
    np.testing.assert_array_equal(torch.bincount(loaded.edge_index[0], minlength=nodes).numpy(), np.diff(matrix.indptr))
    np.testing.assert_array_equal(loaded.edge_index[1].numpy(), matrix.indices)
    assert num_classes(loaded) == classes
    np.testing.assert_array_equal(loaded.y.numpy(), raw["y"])
    if features == 0:
        assert loaded.x is None
    else:
        assert loaded.x.shape == (nodes, features)
        assert (loaded.x.layout == torch.sparse_csr) == ("x_data" in raw)
        check_condensable(loaded)
        values, source = (loaded.x, raw["x"]) if "x" in raw else (loaded.x.values(), raw["x_data"])
        assert float(values.double().sum()) == pytest.approx(float(source.astype(np.float64).sum()))
    if "train_mask" in raw:
        for key in MASKS:
            np.testing.assert_array_equal(loaded[key].numpy(), raw[key] if raw[key].ndim == 1 else raw[key][0])
    else:
        counts = torch.bincount(loaded.y[loaded.train_mask]).tolist()
        assert counts == [20 if size >= 40 else size // 2 for size in torch.bincount(loaded.y).tolist()]


def test_every_file_in_the_folder_is_listed_as_it_is_stored(data_dir: Path) -> None:
    entries = [entry for entry in list_graphs() if entry.where == "PLGC_DATA"]
    paths = [get_graph(entry.name) for entry in entries]
    assert sorted(paths) == sorted(data_dir.glob("*.npz"))
    for entry, path in zip(entries, paths, strict=True):
        with np.load(path, allow_pickle=False) as archive:
            assert (entry.nodes, entry.edges) == (len(archive["y"]), archive["edge_index"].shape[1]), entry.name
        if path.stem not in TABLE:
            assert load_graph(path).num_nodes == entry.nodes


def test_the_tenth_split_of_a_real_graph_is_its_tenth(data_dir: Path) -> None:
    loaded = load_graph("tolokers", split=9)
    with np.load(data_dir / "tolokers.npz", allow_pickle=False) as archive:
        np.testing.assert_array_equal(loaded.train_mask.numpy(), archive["train_mask"][9])
    assert loaded.split_origin == "split 9 of 10"
    with pytest.raises(SettingError, match="split=10, but tolokers has 10 splits"):
        load_graph("tolokers", split=10)


def test_cora_is_the_public_split(cora: Data) -> None:
    assert [int(cora[key].sum()) for key in MASKS] == [140, 500, 1000]
    assert (cora.name, cora.split_origin) == ("cora", "public split")
    assert torch.bincount(cora.y[cora.train_mask]).tolist() == [20] * 7


def test_cora_survives_writing_and_reading(cora: Data, tmp_path: Path) -> None:
    again = load_graph(save_npz(cora, tmp_path / "copy.npz", {"source": "test"}))
    assert torch.equal(again.edge_index, cora.edge_index)
    assert torch.equal(again.x.to_dense(), cora.x.to_dense())
    assert all(torch.equal(again[key], cora[key]) for key in ("y", *MASKS))
    assert (again.name, again.split_origin) == ("copy", "public split")
