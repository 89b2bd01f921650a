"""Graphs on disk: a folder, a safetensors file and an unpacked archive load as the npz file does, where they lie."""

from __future__ import annotations

import json
import os
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch_geometric.data import Data

import plgc
from community_graphs import CommunityGraph, write_community_graph
from plgc.graphs import citation_graph, load_graph, save_npz, save_stored
from plgc.graphs.formats import npz
from plgc.graphs.formats.arrays import graph_to_arrays
from plgc.method.settings import Branch, CondenseSettings, PseudoLabelSettings
from plgc.runtime import mapped
from plgc.runtime.errors import GraphError, GraphNotFoundError, SettingError
from plgc.sparse.inputs import fingerprint
from quick import PLAIN

QUICK = CondenseSettings(
    plain=PLAIN,
    encoders=(Branch(hidden=16, width=8),),
    pseudo_labels=PseudoLabelSettings(rounds=2, round_epochs=4),
)


@pytest.fixture
def mapping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of any size are mapped, and looked at a few rows at a time."""
    monkeypatch.setattr(mapped, "MAPPED_FROM", 0)
    monkeypatch.setattr(mapped, "BLOCK", 10_000)
    monkeypatch.setattr(mapped, "ROWS", 7)
    monkeypatch.setattr("plgc.graphs.check.BLOCK_EDGES", 50)
    monkeypatch.setattr("plgc.graphs.standard.BLOCK_EDGES", 50)


@pytest.fixture(scope="module")
def graph() -> Data:
    """A graph with dense features, labels, masks and names; none may change it."""
    made = citation_graph(nodes=300, classes=3, features=60)
    assert made.x is not None
    made.x = made.x.to_dense() + torch.rand(300, 60, generator=torch.Generator().manual_seed(0))
    made.class_names = ["a", "b", "c"]
    return load_graph(made)


def folder_of(arrays: dict[str, np.ndarray], path: Path) -> Path:
    path.mkdir()
    for key, array in arrays.items():
        np.save(path / f"{key}.npy", array)
    return path


def alike(one: Data, other: Data, but: tuple[str, ...] = ("name", "notes")) -> None:
    assert {*one.keys()} - {*but} == {*other.keys()} - {*but}
    for key in {*one.keys()} - {*but}:
        first, second = one[key], other[key]
        if isinstance(first, torch.Tensor):
            assert torch.equal(first.to_dense().double(), second.to_dense().double()), key
        else:
            assert first == second, key


def small() -> dict[str, np.ndarray]:
    """A path of four nodes, in order."""
    edges = np.array([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]], dtype=np.int32)
    return {"edge_index": edges, "x": np.arange(12, dtype=np.float32).reshape(4, 3)}


@pytest.mark.parametrize("large", [False, True])
def test_every_form_of_a_graph_loads_alike(graph: Data, tmp_path: Path, large: bool, monkeypatch) -> None:
    monkeypatch.setattr(mapped, "MAPPED_FROM", 0 if large else 1 << 30)
    plain = load_graph(save_npz(graph, tmp_path / "g.npz"))
    arrays = {key: np.ascontiguousarray(value) for key, value in graph_to_arrays(graph, graph.x).items()}
    del arrays["class_names"]
    save_file(arrays, tmp_path / "g.safetensors", {"meta": json.dumps({"split_origin": plain.split_origin})})
    folder, single = load_graph(save_stored(graph, tmp_path / "g")), load_graph(str(tmp_path / "g.safetensors"))
    alike(folder, plain)
    alike(single, plain, but=("name", "class_names"))
    for stored in (folder, single):
        assert stored.name == "g"
        assert stored.x.dtype == torch.float32
        assert [mapped.is_mapped(stored[key]) for key in ("x", "edge_index", "y")] == [large, large, False]
        assert stored.edge_index.dtype == (torch.int32 if large else torch.int64)
        assert fingerprint(stored) == fingerprint(plain)


@pytest.mark.usefixtures("mapping")
def test_what_is_mapped_stays_mapped_when_it_is_loaded_again(graph: Data, tmp_path: Path) -> None:
    stored = load_graph(save_stored(graph, tmp_path / "g"))
    again = load_graph(stored)
    assert again.x.data_ptr() == stored.x.data_ptr()
    assert again.edge_index.data_ptr() == stored.edge_index.data_ptr()
    alike(again, stored)


@pytest.mark.usefixtures("mapping")
def test_float16_features_stay_so_and_are_close(graph: Data, tmp_path: Path) -> None:
    stored = load_graph(save_stored(graph, tmp_path / "g", dtype="float16"))
    assert stored.x.dtype == torch.float16
    assert mapped.is_mapped(stored.x)
    torch.testing.assert_close(stored.x.float(), graph.x, atol=2e-3, rtol=1e-3)
    rounded = Data(x=graph.x.half().float(), edge_index=graph.edge_index)
    assert fingerprint(stored) == fingerprint(rounded)


def test_small_float16_features_become_float32(tmp_path: Path) -> None:
    arrays = small()
    loaded = load_graph(folder_of({**arrays, "x": arrays["x"].astype(np.float16)}, tmp_path / "g"))
    assert loaded.x.dtype == torch.float32
    assert torch.equal(loaded.x, torch.from_numpy(arrays["x"]))


@pytest.mark.usefixtures("mapping")
@pytest.mark.parametrize(
    "edges",
    [
        [[0, 1, 2], [1, 2, 3]],  # one direction
        [[1, 0, 1, 2, 2, 3], [0, 1, 2, 1, 3, 2]],  # not sorted
        [[0, 0, 1, 1, 2, 2, 3], [1, 1, 0, 2, 1, 3, 2]],  # twice
        [[0, 1, 1, 2, 2, 2, 3], [1, 0, 2, 1, 2, 3, 2]],  # a self-loop
        [[0, 1, 1, 2, 2], [1, 0, 2, 1, 3]],  # one without its mirror image
    ],
)
def test_edges_that_are_not_in_order_are_put_right_in_memory(edges: list[list[int]], tmp_path: Path) -> None:
    arrays = small()
    loaded = load_graph(folder_of({**arrays, "edge_index": np.array(edges, dtype=np.int32)}, tmp_path / "g"))
    assert not mapped.is_mapped(loaded.edge_index)
    assert loaded.edge_index.tolist() == arrays["edge_index"].tolist()


@pytest.mark.usefixtures("mapping")
def test_weights_that_differ_by_direction_are_put_right(tmp_path: Path) -> None:
    arrays, weight = small(), np.array([1, 1, 2, 2, 3, 3], dtype=np.float32)
    even = load_graph(folder_of({**arrays, "edge_weight": weight}, tmp_path / "even"))
    weight[1] = 5
    uneven = load_graph(folder_of({**arrays, "edge_weight": weight}, tmp_path / "uneven"))
    assert mapped.is_mapped(even.edge_index)
    assert not mapped.is_mapped(uneven.edge_index)
    assert even.edge_weight.tolist() == [1, 1, 2, 2, 3, 3]
    assert uneven.edge_weight.tolist() == [5, 5, 2, 2, 3, 3]


@pytest.mark.usefixtures("mapping")
def test_a_generated_graph_is_used_as_it_is_written(tmp_path: Path) -> None:
    spec = CommunityGraph(nodes=400, entries=4000, features=8, communities=4, dtype="float16")
    loaded = load_graph(write_community_graph(spec, tmp_path / "made"))
    assert mapped.is_mapped(loaded.x)
    assert mapped.is_mapped(loaded.edge_index)
    assert int(loaded.train_mask.sum()) > 200


@pytest.mark.usefixtures("mapping")
@pytest.mark.parametrize("limits", [{}, {"memory": "4GiB", "max_share": 0.5}])
def test_condensing_from_disk_gives_the_same_file(graph: Data, tmp_path: Path, limits, monkeypatch) -> None:
    monkeypatch.setattr(mapped, "BLOCK", 1 << 20)  # sums over several blocks would differ in the last digits
    stored = load_graph(save_stored(graph, tmp_path / "g"))
    files = [
        plgc.condense(one, nodes=6, seed=1, settings=QUICK, **limits).save(tmp_path / f"{number}.safetensors")
        for number, one in enumerate((graph, stored))
    ]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.usefixtures("mapping")
def test_a_large_archive_is_unpacked_once(graph: Data, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PLGC_CACHE", str(tmp_path / "cache"))
    path = save_npz(graph, tmp_path / "g.npz")
    plain = load_graph(path)
    monkeypatch.setattr(npz, "UNPACKED_FROM", 1000)
    notices: list[str] = []
    first = load_graph(path, notice=notices.append)
    folder = next((tmp_path / "cache" / "unpacked").iterdir())
    assert notices == [f"g.npz is unpacked, once, into {folder} (0.00 GiB)"]
    alike(first, plain)
    assert first.name == "g"
    assert mapped.is_mapped(first.x)
    notices.clear()
    alike(load_graph(path, notice=notices.append), plain)
    assert not notices

    os.utime(path, ns=(1, 1))  # a changed file is unpacked anew, and the old folder goes
    load_graph(path, notice=notices.append)
    assert len(notices) == 1
    assert [entry == folder for entry in folder.parent.iterdir()] == [False]


def test_an_archive_that_cannot_be_unpacked_is_read(graph: Data, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PLGC_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(npz, "UNPACKED_FROM", 1000)
    notices: list[str] = []
    path = save_npz(graph, tmp_path / "g.npz")
    assert load_graph(path, notice=notices.append).num_nodes == 300
    assert "cannot be unpacked into the cache" in notices[0]


def test_a_damaged_archive_leaves_nothing_in_the_cache(graph: Data, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PLGC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(npz, "UNPACKED_FROM", 1000)
    path = save_npz(graph, tmp_path / "g.npz")
    with zipfile.ZipFile(path) as archive:
        place = archive.getinfo("x.npy").header_offset + 2000
    content = bytearray(path.read_bytes())
    content[place : place + 50] = bytes(50)
    path.write_bytes(content)
    with pytest.raises(GraphError, match="not a readable npz archive"):
        load_graph(path)
    assert list((tmp_path / "cache" / "unpacked").iterdir()) == []


@pytest.mark.usefixtures("mapping")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": np.array([[1, "a"], [{}, None]], dtype=object)}, "Python objects, which are never opened"),
        ({"x": np.zeros((3, 2), dtype=np.float32)}, "edge 4 joins nodes 2 and 3: out of range"),
        ({"x": np.zeros((4, 2, 2), dtype=np.float32)}, r"x has shape \[4, 2, 2\]"),
        ({"x": np.full((4, 2), np.nan, dtype=np.float16)}, "x has 8 NaN and 0 infinite"),
        ({"x": np.array([["a"]])}, "x holds <U1 values"),
        ({"edge_index": np.zeros((3, 2), dtype=np.int64)}, r"edge_index has shape \[3, 2\]"),
        ({"edge_index": np.array([[0, 9], [9, 0]])}, "edge 0 joins nodes 0 and 9: out of range"),
        ({"edge_index": np.array([[0, -1], [-1, 0]])}, "a negative node number"),
        ({"edge_index": np.zeros((2, 2))}, "expected integer node numbers"),
        ({"y": np.zeros(3, dtype=np.int64)}, "y has shape"),
    ],
)
def test_a_bad_folder_is_refused_with_the_value(changes: dict[str, np.ndarray], message: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=message):
        load_graph(folder_of({**small(), **changes}, tmp_path / "g"))


@pytest.mark.usefixtures("mapping")
@pytest.mark.parametrize("key", ["x", "edge_index"])
def test_a_file_that_is_cut_short_is_refused(key: str, tmp_path: Path) -> None:
    path = folder_of(small(), tmp_path / "g") / f"{key}.npy"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(GraphError, match=rf"{key}.npy is cut short: .* take 48 bytes, it has 44"):
        load_graph(tmp_path / "g")
    path.write_bytes(b"\x93NUMPY\x01\x00")
    with pytest.raises(GraphError, match="is not a readable graph"):
        load_graph(tmp_path / "g")


@pytest.mark.usefixtures("mapping")
def test_a_header_that_promises_too_much_maps_nothing(tmp_path: Path) -> None:
    path = folder_of(small(), tmp_path / "g") / "x.npy"
    header = {"descr": "<f4", "fortran_order": False, "shape": (4, 10**15)}
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes(48))
    with pytest.raises(GraphError, match=r"x\.npy is cut short"):
        load_graph(tmp_path / "g")


@pytest.mark.usefixtures("mapping")
@pytest.mark.parametrize("damage", ["cut", "header", "empty", "offsets", "condensed"])
def test_a_bad_safetensors_file_is_refused(damage: str, tmp_path: Path, graph: Data) -> None:
    path = tmp_path / "g.safetensors"
    if damage == "condensed":
        plgc.condense(graph, nodes=4, settings=QUICK).save(path)
    else:
        save_file(small(), path)
        content = path.read_bytes()
        broken = {
            "cut": content[:-1],
            "header": b"\xff" * 8 + content[8:],
            "empty": b"",
            "offsets": content.replace(b'"data_offsets":[0,', b'"data_offsets":[4,'),
        }
        assert broken[damage] != content
        path.write_bytes(broken[damage])
    with pytest.raises(GraphError, match=r"g\.safetensors"):
        load_graph(path)


@pytest.mark.usefixtures("mapping")
@pytest.mark.parametrize("name", ["g/x.npy", "g/edge_index.npy", "g/y.npy", "g.safetensors"])
def test_a_damaged_byte_never_gives_another_kind_of_error(name: str, tmp_path: Path) -> None:
    arrays = {**small(), "y": np.array([0, 1, 0, 1])}
    folder_of(arrays, tmp_path / "g")
    save_file(arrays, tmp_path / "g.safetensors")
    path, rng, refused = tmp_path / name, random.Random(0), 0
    sound = path.read_bytes()
    for _ in range(150):
        content = bytearray(sound)
        content[rng.randrange(len(content))] = rng.choice((rng.randrange(256), *b"0123456789OU(',"))
        path.unlink()  # what is mapped stays as it was
        path.write_bytes(content)
        try:
            load_graph(tmp_path / name.split("/")[0])
        except GraphError:
            refused += 1
    assert refused > 10


def test_a_missing_safetensors_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(GraphNotFoundError, match=r"no such file: .*gone\.safetensors"):
        load_graph(str(tmp_path / "gone.safetensors"))


def test_writing_refuses_what_it_cannot_keep(graph: Data, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="is there already"):
        save_stored(graph, tmp_path)
    with pytest.raises(SettingError, match="dtype is 'bfloat16'"):
        save_stored(graph, tmp_path / "g", dtype="bfloat16")
    large = Data(x=torch.tensor([[1.0, 70000.0]] * 4), edge_index=torch.from_numpy(small()["edge_index"]))
    with pytest.raises(GraphError, match=r"x\[0, 1\] is 70000.0, beyond the range of float16"):
        save_stored(large, tmp_path / "g", dtype="float16")
    assert list(tmp_path.iterdir()) == []


def test_sparse_features_are_kept_sparse(demo_graph: Data, tmp_path: Path) -> None:
    loaded = load_graph(save_stored(demo_graph, tmp_path / "g"))
    assert loaded.x.layout == torch.sparse_csr
    alike(loaded, load_graph(demo_graph), but=("name", "split_origin"))
