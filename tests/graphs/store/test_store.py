"""What is stored in passes over blocks is, array by array, what the loader and ``save_stored`` make in memory."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from plgc.graphs import load_graph, save_stored, store_graph
from plgc.graphs.load import open_graph

NODES, EDGES = 400, 3000


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is read, sorted and written a few rows at a time, in many runs."""
    for name, size in {
        "blocks.ROWS": 150, "numbering.ROWS": 70, "numbering.MERGED_FROM": 100, "runs.CHUNK": 64,
        "arrays.EDGES": 130, "arrays.CELLS": 500, "blocks.CSV_BYTES": 4000,
    }.items():  # fmt: skip
        monkeypatch.setattr(f"plgc.graphs.store.{name}", size)
    monkeypatch.setattr("plgc.graphs.store.ids.TEXT_BYTES", 2000)
    monkeypatch.setattr("plgc.graphs.store.numbering.TEXT_BYTES", 2000)
    monkeypatch.setattr("plgc.graphs.formats.delimited.BLOCK_CELLS", 900)
    monkeypatch.setattr("plgc.graphs.formats.table_features.BLOCK_CELLS", 700)
    monkeypatch.setattr("plgc.graphs.store.run.sorted_keys", lambda *_: 500)


def tables(words: bool = False, weights: bool = True) -> tuple[pd.DataFrame, pd.DataFrame]:
    """An edge list with duplicates, self-loops, both directions and a hub; a node table with columns of all kinds."""
    draw = np.random.default_rng(0)
    ids = draw.permutation(NODES) + 5
    ids = np.array([f"n{number}{'x' * (number % 7)}" for number in ids]) if words else ids
    ends = draw.integers(0, NODES, (2, EDGES))
    ends[1, : EDGES // 4] = 3  # a hub: more entries than are sorted at a time
    ends[:, -40:] = ends[:, :40]
    ends[:, -60:-40] = ends[::-1, :20]
    edges = pd.DataFrame({"source": ids[ends[0]], "target": ids[ends[1]]})
    if weights:
        edges["weight"] = draw.random(EDGES).astype(np.float32).round(3)
    nodes = pd.DataFrame(
        {
            "id": ids,
            "size": draw.lognormal(0, 2, NODES).round(4),
            "flag": draw.integers(0, 2, NODES).astype(bool),
            "colour": draw.choice(["red", "green", "blue"], NODES),
            "born": pd.Timestamp("2020-01-01") + pd.to_timedelta(draw.integers(0, 900, NODES), "D"),
            "gaps": np.where(draw.random(NODES) < 0.2, np.nan, draw.normal(size=NODES).round(3)),
            "text": [f"a text {number}" for number in range(NODES)],
            "label": draw.choice(["dog", "cat", "cow"], NODES),
            "split": draw.choice(["train", "val", "test"], NODES),
        }
    )
    return edges, nodes


def written(folder: Path) -> dict[str, np.ndarray]:
    return {path.stem: np.load(path) for path in folder.iterdir()}


def assert_same(made: Path, expected: Path) -> None:
    ours, theirs = written(made), written(expected)
    assert ours.keys() == theirs.keys()
    for key, array in theirs.items():
        assert (ours[key].dtype, ours[key].shape) == (array.dtype, array.shape), key
        np.testing.assert_array_equal(ours[key], array, err_msg=key)


def csv(frame: pd.DataFrame, path: Path) -> None:
    frame.to_csv(path, index=False)


def zipped(frame: pd.DataFrame, path: Path) -> None:
    path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))


def tsv(frame: pd.DataFrame, path: Path) -> None:
    frame.to_csv(path, index=False, sep="\t")


def spaced(frame: pd.DataFrame, path: Path) -> None:
    frame.drop(columns=["text", "born"], errors="ignore").to_csv(path, index=False, sep=" ", na_rep="?")


def parquet(frame: pd.DataFrame, path: Path) -> None:
    frame.to_parquet(path, index=False, row_group_size=170)


KINDS: dict[str, Callable[[pd.DataFrame, Path], None]] = {
    ".csv": csv, ".csv.gz": zipped, ".tsv": tsv, ".txt": spaced, ".parquet": parquet
}  # fmt: skip


def in_parts(frame: pd.DataFrame, folder: Path, end: str) -> Path:
    folder.mkdir()
    for number, start in enumerate(range(0, len(frame), len(frame) // 3 + 1)):
        KINDS[end](frame.iloc[start : start + len(frame) // 3 + 1], folder / f"part-{number}{end}")
    (folder / "_SUCCESS").touch()
    return folder


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("end", KINDS)
def test_tables_in_parts(tmp_path: Path, end: str, words: bool) -> None:
    edges, nodes = tables(words, weights=words)
    KINDS[end](edges, tmp_path / f"edges{end}")
    KINDS[end](nodes, tmp_path / f"nodes{end}")
    whole = open_graph(tmp_path / f"edges{end}", tmp_path / f"nodes{end}")
    save_stored(whole, tmp_path / "expected" / "graph")
    parts = in_parts(edges, tmp_path / "edges", end), in_parts(nodes, tmp_path / "nodes", end)
    made = store_graph(parts[0], tmp_path / "made" / "graph", nodes_table=parts[1], notice=False)
    assert_same(made, tmp_path / "expected" / "graph")
    assert [path.name for path in made.parent.iterdir()] == ["graph"]
    assert load_graph(made).seen.preprocessing == whole.seen.preprocessing


@pytest.mark.parametrize("ids", ["numbers", "words", "digits", "negative"])
@pytest.mark.parametrize("end", [".csv", ".parquet"])
def test_without_a_node_table(tmp_path: Path, end: str, ids: str) -> None:
    edges, _ = tables(ids == "words")
    for name in ("source", "target") if ids in ("digits", "negative") else ():
        edges[name] = edges[name].map("{:04d}".format) if ids == "digits" else edges[name] - 200
    KINDS[end](edges, tmp_path / f"edges{end}")
    save_stored(open_graph(tmp_path / f"edges{end}"), tmp_path / "expected" / "graph")
    parts = in_parts(edges, tmp_path / "edges", end)
    assert_same(store_graph(parts, tmp_path / "made" / "graph", notice=False), tmp_path / "expected" / "graph")


@pytest.mark.parametrize("end", ["", ".npz", ".safetensors"])
@pytest.mark.parametrize("dtype", [None, "float16"])
def test_arrays(tmp_path: Path, end: str, dtype: str | None) -> None:
    draw = np.random.default_rng(1)
    arrays = {
        "edge_index": draw.integers(0, NODES, (2, EDGES)),
        "edge_weight": draw.random(EDGES).astype(np.float32),
        "x": draw.normal(size=(NODES, 12)),
        "y": draw.integers(-1, 4, NODES),
        "year": draw.integers(2000, 2020, NODES),
        **{f"{name}_mask": draw.random((2, NODES)) < 0.1 for name in ("train",)},
    }
    source = tmp_path / f"source{end}"
    if end == ".safetensors":
        save_file(arrays, source, metadata={"meta": '{"split_origin": "my split"}'})
    else:
        names = {"node_ids": np.array([f"node {n}" for n in range(NODES)]), "class_names": np.array(list("abcd"))}
        arrays |= {**names, "feature_names": np.array([f"f{n}" for n in range(12)])}
    if end == ".npz":
        np.savez_compressed(source, **arrays)
    elif not end:
        source.mkdir()
        for key, array in arrays.items():
            np.save(source / f"{key}.npy", np.asfortranarray(array))
    save_stored(open_graph(source, time="year"), tmp_path / "expected" / "graph", dtype=dtype)
    made = store_graph(source, tmp_path / "made" / "graph", dtype=dtype, notice=False)
    assert_same(made, tmp_path / "expected" / "graph")
