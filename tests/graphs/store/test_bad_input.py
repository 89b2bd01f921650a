"""Each thing that can be wrong with a source has one clear message, which names the part."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from plgc.graphs import TableColumns, store_graph
from plgc.runtime.errors import GraphError, GraphNotFoundError, PLGCError, SettingError

NODES = pd.DataFrame({"id": range(12), "height": np.linspace(0, 1, 12), "label": ["a", "b"] * 6})
EDGES = pd.DataFrame({"source": range(11), "target": range(1, 12)})


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """``edges`` and ``nodes``, two Parquet parts each."""
    for name, frame in (("edges", EDGES), ("nodes", NODES)):
        (tmp_path / name).mkdir()
        for part, rows in enumerate((frame[:6], frame[6:])):
            rows.to_parquet(tmp_path / name / f"part-{part}.parquet", index=False)
    return tmp_path


def store(folder: Path, columns: TableColumns | None = None) -> Path:
    return store_graph(folder / "edges", folder / "made", nodes_table=folder / "nodes", columns=columns, notice=False)


def change(path: Path, **columns: object) -> None:
    pd.read_parquet(path).assign(**columns).to_parquet(path, index=False)


BAD = {
    "a damaged part": (
        lambda folder: (folder / "edges/part-1.parquet").write_bytes(b"PAR1 damaged"),
        r"edges/part-1\.parquet is not a readable Parquet file",
    ),
    "a part cut short": (
        lambda folder: (folder / "nodes/part-0.parquet").write_bytes(
            (folder / "nodes/part-0.parquet").read_bytes()[:90]
        ),
        r"nodes/part-0\.parquet is not a readable Parquet file",
    ),
    "a part that leads nowhere": (
        lambda folder: (folder / "edges/part-2.parquet").symlink_to(folder / "gone.parquet"),
        r"edges/part-2\.parquet is missing",
    ),
    "a part among many": (
        lambda folder: (
            (folder / "edges/part-1.parquet").rename(folder / "edges/part-1-of-3.parquet")
            and (folder / "edges/part-0.parquet").rename(folder / "edges/part-0-of-3.parquet")
        ),
        r"edges lacks 1 of 3 parts \(2\)",
    ),
    "other columns": (
        lambda folder: change(folder / "nodes/part-1.parquet", weight=1.0),
        r"part-1\.parquet has the columns 'id', 'height', 'label', 'weight', and part-0\.parquet has",
    ),
    "other types": (
        lambda folder: change(folder / "nodes/part-1.parquet", height="tall"),
        r"part-1\.parquet: 'height' is of type (large_)?string, and double in part-0\.parquet",
    ),
    "an id in edges alone": (
        lambda folder: change(folder / "edges/part-1.parquet", target=[7, 8, 99, 10, 11]),
        r"part-1\.parquet: row 3 names the node '99', which nodes does not have",
    ),
    "no id at one end": (
        lambda folder: change(folder / "edges/part-1.parquet", target=pd.array([7, None, 9, 10, 11], "Int64")),
        r"part-1\.parquet: row 2 names no node at one end",
    ),
    "a node without an id": (
        lambda folder: change(folder / "nodes/part-1.parquet", id=pd.array([6, 7, 8, None, 10, 11], "Int64")),
        r"part-1\.parquet: row 4 has no id in 'id'",
    ),
    "an id twice": (
        lambda folder: change(folder / "nodes/part-1.parquet", id=[6, 7, 8, 1, 1, 11]),
        r"nodes: 2 row\(s\) have an id in 'id' that another row has \('1'\)",
    ),
    "a feature that is not finite": (
        lambda folder: change(folder / "nodes/part-1.parquet", height=[1, 2, np.inf, 4, 5, 6.0]),
        r"nodes: 'height' holds an infinite value",
    ),
    "a negative weight": (
        lambda folder: [
            change(folder / f"edges/part-{part}.parquet", weight=np.linspace(1, -part, 6 - part)) for part in (0, 1)
        ],
        r"part-1\.parquet: edge 3 has the weight -0\.5",
    ),
    "something else": (
        lambda folder: (folder / "edges/notes.md").write_text("parts of edges"),
        r"notes\.md is no table",
    ),
    "text beside Parquet": (
        lambda folder: (folder / "edges/part-3.csv").write_text("source,target\n1,2\n"),
        "edges holds Parquet and text side by side",
    ),
    "a folder in a folder": (lambda folder: (folder / "edges/more").mkdir(), "more is a folder"),
}


@pytest.mark.parametrize("what", BAD)
def test_messages_name_the_part(parts: Path, what: str) -> None:
    spoil, message = BAD[what]
    spoil(parts)
    with pytest.raises(PLGCError, match=message) as found:
        store(parts)
    assert str(found.value).count("\n") == 0
    assert not (parts / "made").exists()


def test_parts_of_text(tmp_path: Path) -> None:
    for name, text in {"0": "source,target\n1,2\n2,3\n", "1": "source,target\n3,1\n3,4,5\n"}.items():
        (tmp_path / "edges").mkdir(exist_ok=True)
        (tmp_path / "edges" / f"{name}.csv").write_text(text)
    with pytest.raises(GraphError, match=r"1\.csv: line 3 has 3 cell\(s\), the first line has 2"):
        store_graph(tmp_path / "edges", tmp_path / "made", notice=False)
    (tmp_path / "edges" / "1.csv").write_text("from,to\n3,1\n")
    with pytest.raises(GraphError, match=r"1\.csv has the columns 'from', 'to', and 0\.csv has 'source', 'target'"):
        store_graph(tmp_path / "edges", tmp_path / "made", notice=False)
    (tmp_path / "edges" / "1.csv").write_text("source,target\n")
    made = store_graph(tmp_path / "edges", tmp_path / "made", notice=False)
    assert np.load(made / "edge_index.npy").tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]


def test_missing_numbers_are_told(tmp_path: Path) -> None:
    (tmp_path / "edges").mkdir()
    for part in (0, 1, 3):
        EDGES.to_csv(tmp_path / "edges" / f"part-{part}.csv", index=False)
    heard: list[str] = []
    store_graph(tmp_path / "edges", tmp_path / "made", notice=heard.append)
    assert "edges: 3 parts, without number 2; see that none is missing" in heard


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"edge_index": np.array([[0, 1], [1, 5]])}, r"source: edge 1 joins nodes 1 and 5: out of range.* 3 nodes"),
        ({"edge_index": np.array([[0, 1], [1, -2]])}, "edge 1 joins nodes 1 and -2"),
        ({"edge_index": np.zeros((3, 2), int)}, r"edge_index holds int64 \[3, 2\], expected integers \[2, E\]"),
        ({"x": np.array([[1, 2], [3, np.nan], [5, 6.0]])}, r"x\[1, 1\] is nan"),
        ({"x": np.full((3, 2), 1e300)}, r"x\[0, 0\] is 1e\+300"),
        ({"x": np.full((3, 2), 1e6)}, r"x\[0, 0\] is 1000000.0, beyond the range of float16"),
        ({"y": np.array([0, 1])}, "y has shape"),
        ({"edge_weight": np.array([1.0, np.nan])}, "edge 1 has the weight nan"),
        (
            {"train_mask": np.array([1, 0, 1], bool), "val_mask": np.array([1, 0, 0], bool)},
            "in train_mask and val_mask",
        ),
        ({"node_ids": np.array(["a", "b", "a"])}, r"node_ids: 1 row\(s\) have an id"),
        ({"feature_names": np.array(["a"])}, "feature_names has 1 entries"),
    ],
)
def test_arrays(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    (tmp_path / "source").mkdir()
    for key, array in ({"edge_index": np.array([[0, 1], [1, 2]]), "x": np.eye(3, 2)} | arrays).items():
        np.save(tmp_path / "source" / f"{key}.npy", array)
    with pytest.raises(GraphError, match=message):
        store_graph(tmp_path / "source", tmp_path / "made", dtype="float16", notice=False)
    assert not (tmp_path / "made").exists()


def test_damaged_arrays(tmp_path: Path) -> None:
    save_file({"edge_index": np.zeros((2, 40), np.int64)}, tmp_path / "cut.safetensors")
    content = (tmp_path / "cut.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(content[:-100])
    (tmp_path / "no.npz").write_bytes(b"PK no archive")
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "folder" / "edge_index.npy", np.zeros((2, 40), np.int64))
    content = (tmp_path / "folder" / "edge_index.npy").read_bytes()
    (tmp_path / "folder" / "edge_index.npy").write_bytes(content[:-100])
    for name, message in {
        "cut.safetensors": "edge_index is cut short", "no.npz": "is not a readable graph",
        "folder": "edge_index.npy is cut short",
    }.items():  # fmt: skip
        with pytest.raises(GraphError, match=f"{re.escape(name)}.*{message}"):
            store_graph(tmp_path / name, tmp_path / "made", notice=False)


def test_what_cannot_be_asked_for(parts: Path) -> None:
    with pytest.raises(GraphNotFoundError, match="no such file"):
        store_graph(parts / "gone", parts / "made")
    with pytest.raises(SettingError, match="has no column 'size' for weight"):
        store(parts, TableColumns(weight="size"))
    with pytest.raises(SettingError, match="dtype is 'float64': choose"):
        store_graph(parts / "edges", parts / "made", dtype="float64")
    (parts / "empty").mkdir()
    with pytest.raises(GraphError, match="empty is an empty folder"):
        store_graph(parts / "empty", parts / "made")
