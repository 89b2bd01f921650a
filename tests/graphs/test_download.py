"""The files in which graphs are published: our readers give what PyG's do, without running anything in them."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric import datasets
from torch_geometric.data import Data

from plgc.graphs import load_graph, published
from plgc.graphs.download import DOWNLOADS
from plgc.graphs.planetoid import read_planetoid

NODES, WORDS, CLASSES = 40, 12, 3
DRAW = np.random.default_rng(0)
X = (DRAW.random((NODES, WORDS)) < 0.3).astype(np.float32)
Y = np.arange(NODES) % CLASSES
PAIRS = DRAW.integers(0, NODES, (2, 90))
MASKS = np.stack([np.arange(NODES) % 4 == part for part in (0, 1, 2)])
ADJACENCY = sp.csr_matrix((np.ones(90, np.float32), PAIRS), shape=(NODES, NODES))


def same(ours: Data, theirs: Data) -> None:
    """Two graphs are the same once they are in our form, in every split."""
    splits = ours["train_mask"].shape[1] if "train_mask" in ours and ours["train_mask"].dim() == 2 else 1
    for split in range(splits):
        one, other = load_graph(ours, split=split), load_graph(theirs, split=split)
        for key in ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask"):
            values = [
                graph[key].to_dense() if graph[key].layout != torch.strided else graph[key] for graph in (one, other)
            ]
            assert torch.equal(*values), key


class OldPickler(pickle._Pickler):  # pyright: ignore[reportAttributeAccessIssue]
    """Writes bytes as Python 2 did, in which Planetoid's files were made."""

    dispatch = dict(pickle._Pickler.dispatch)  # noqa: RUF012 # pyright: ignore[reportAttributeAccessIssue]

    def save_old_bytes(self, value: bytes) -> None:
        self.write(b"T" + struct.pack("<i", len(value)) + value)
        self.memoize(value)

    dispatch[bytes] = save_old_bytes


def pickled(value: Any) -> bytes:
    content = io.BytesIO()
    OldPickler(content, 2).dump(value)
    for new, old in ((b"cnumpy._core.", b"cnumpy.core."), (b"cscipy.sparse._csr\n", b"cscipy.sparse.csr\n")):
        content = io.BytesIO(content.getvalue().replace(new, old))
    return content.getvalue()


def write_planetoid(folder: Path, name: str, isolated: bool = False) -> None:
    """A graph of 700 nodes in Planetoid's eight files; the last ones are test nodes, in no order."""
    draw = np.random.default_rng(1)
    nodes, seen, train = 700, 600, 20
    test = draw.permutation(np.arange(seen, nodes))
    test = test[~np.isin(test, (640, 677))] if isolated else test
    x, y = (
        (draw.random((nodes, WORDS)) < 0.3).astype(np.float32),
        np.eye(CLASSES, dtype=np.int32)[draw.integers(0, 3, nodes)],
    )
    graph = defaultdict(list)
    for one, other in draw.integers(0, nodes, (2000, 2)).tolist():
        graph[one].append(other)
        graph[other].append(one)
    parts = {
        "x": sp.csr_matrix(x[:train]),
        "tx": sp.csr_matrix(x[test]),
        "allx": sp.csr_matrix(x[:seen]),
        "y": y[:train],
        "ty": y[test],
        "ally": y[:seen],
        "graph": graph,
    }
    folder.mkdir(parents=True)
    for part, value in parts.items():
        (folder / f"ind.{name}.{part}").write_bytes(pickled(value))
    (folder / f"ind.{name}.test.index").write_text("\n".join(map(str, test)) + "\n")


@pytest.mark.parametrize("name", ["Cora", "CiteSeer"])
def test_planetoid(tmp_path: Path, name: str) -> None:
    raw = tmp_path / name / "raw"
    write_planetoid(raw, name.lower(), isolated=name == "CiteSeer")
    same(read_planetoid(raw, name.lower()), datasets.Planetoid(str(tmp_path), name)[0])


def test_the_benchmark(tmp_path: Path) -> None:
    words, raw = sp.csr_matrix(X * 3), tmp_path / "Photo" / "raw"
    raw.mkdir(parents=True)
    content = {f"attr_{key}": getattr(words, key) for key in ("indptr", "indices", "data", "shape")}
    content |= {f"adj_{key}": getattr(ADJACENCY, key) for key in ("indptr", "indices", "data", "shape")}
    np.savez(raw / "amazon_electronics_photo.npz", **content, labels=Y)
    same(published.read_benchmark(raw / "amazon_electronics_photo.npz"), datasets.Amazon(str(tmp_path), "Photo")[0])


def test_heterophilous_graphs(tmp_path: Path) -> None:
    raw = tmp_path / "tolokers" / "raw"
    raw.mkdir(parents=True)
    masks = {
        name: np.stack([mask, np.roll(mask, 1)]) for name, mask in zip(("train", "val", "test"), MASKS, strict=True)
    }
    arrays = {f"{name}_masks": mask for name, mask in masks.items()}
    np.savez(raw / "tolokers.npz", node_features=X, node_labels=Y, edges=PAIRS.T, **arrays)
    theirs = datasets.HeterophilousGraphDataset(str(tmp_path), "Tolokers")[0]
    same(published.read_heterophilous(raw / "tolokers.npz"), theirs)


def test_wikics(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    links: list[list[int]] = [[] for _ in range(NODES)]
    for one, other in PAIRS.T.tolist():
        links[one].append(other)
    train, val, test = (mask.tolist() for mask in MASKS)
    content = {"features": X.tolist(), "labels": Y.tolist(), "links": links, "test_mask": test}
    content |= {"train_masks": [train, val], "val_masks": [val, train], "stopping_masks": [train, val]}
    (tmp_path / "raw" / "data.json").write_text(json.dumps(content))
    same(published.read_wikics(tmp_path / "raw" / "data.json"), datasets.WikiCS(str(tmp_path), is_undirected=True)[0])


def test_flickr(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    np.savez(raw / "adj_full.npz", **{key: getattr(ADJACENCY, key) for key in ("indptr", "indices", "data", "shape")})
    np.save(raw / "feats.npy", X.astype(np.float64))
    (raw / "class_map.json").write_text(json.dumps({str(node): int(label) for node, label in enumerate(Y)}))
    roles = {name: np.flatnonzero(mask).tolist() for name, mask in zip(("tr", "va", "te"), MASKS, strict=True)}
    (raw / "role.json").write_text(json.dumps(roles))
    same(published.read_saint(raw), datasets.Flickr(str(tmp_path))[0])


def test_reddit(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    np.savez(raw / "reddit_data.npz", feature=X.astype(np.float64), label=Y, node_types=1 + np.arange(NODES) % 3)
    sp.save_npz(raw / "reddit_graph.npz", ADJACENCY.tocoo())
    with zipfile.ZipFile(tmp_path / "reddit.zip", "w") as archive:
        for path in raw.iterdir():
            archive.write(path, path.name)
    same(published.read_reddit(tmp_path / "reddit.zip"), datasets.Reddit(str(tmp_path))[0])


def test_arxiv_is_read_from_ogbs_raw_files(tmp_path: Path) -> None:
    tables = {
        "raw/edge.csv.gz": "0,1\n2,3\n",
        "raw/node-feat.csv.gz": "0.5,-1\n1.5,2\n0,0\n3,1e-3\n",
        "raw/node-label.csv.gz": "4\n0\n39\n1\n",
        "split/time/train.csv.gz": "0\n3\n",
        "split/time/valid.csv.gz": "1\n",
        "split/time/test.csv.gz": "2\n",
    }
    with zipfile.ZipFile(tmp_path / "arxiv.zip", "w") as file:
        for name, text in tables.items():
            file.writestr(f"arxiv/{name}", gzip.compress(text.encode()))
    data = published.read_arxiv(tmp_path / "arxiv.zip")
    assert data.edge_index.tolist() == [[0, 2], [1, 3]]
    assert torch.equal(data.x, torch.tensor([[0.5, -1], [1.5, 2], [0, 0], [3, 1e-3]]))
    assert data.y.tolist() == [4, 0, 39, 1]
    assert data.train_mask.tolist() == [True, False, False, True]
    assert data.val_mask.nonzero().item() == 1
    assert data.test_mask.nonzero().item() == 2


def test_every_file_has_an_address_with_encryption_and_those_on_github_a_known_content() -> None:
    for name, source in DOWNLOADS.items():
        for file in source.files:
            assert file.url.startswith("https://"), name
            assert Path(file.name).name == file.name
            assert (file.git is not None) == ("githubusercontent" in file.url), name
            assert file.git is None or (len(file.git) == 40 and int(file.git, 16) >= 0)
