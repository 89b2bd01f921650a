"""Readers of the files in which other graphs are published: npz archives, JSON and CSV, all without pickle."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from plgc.graphs.check import MASKS
from plgc.graphs.features import csr_features
from plgc.graphs.formats.limits import check_unpacked
from plgc.graphs.formats.npy import read_array
from plgc.graphs.formats.npz import read_member


def read_benchmark(path: Path) -> Data:
    """Amazon and Coauthor, of Shchur et al. (2018); words count as present or not."""
    held = _arrays(path, *(f"{part}_{key}" for part in ("attr", "adj") for key in _CSR), "labels")
    x = csr_features(*(held[f"attr_{key}"] for key in _CSR))
    if x is not None:
        x.values().masked_fill_(x.values() > 0, 1)
    y = _tensor(held["labels"], np.int64)
    return Data(x=x, edge_index=_csr_edges({key: held[f"adj_{key}"] for key in _CSR}), y=y, num_nodes=y.numel())


def read_heterophilous(path: Path) -> Data:
    """The graphs of Platonov et al. (2023), with ten splits."""
    held = _arrays(path, "node_features", "node_labels", "edges", *(f"{key}s" for key in MASKS))
    data = Data(
        x=_tensor(held["node_features"], np.float32),
        edge_index=_tensor(held["edges"].T, np.int64),
        y=_tensor(held["node_labels"], np.int64),
    )
    for key in MASKS:
        data[key] = _tensor(held[f"{key}s"].T, np.bool_)
    return data


def read_wikics(path: Path) -> Data:
    """Wiki-CS, of Mernyei and Cangea (2020), with twenty splits."""
    held = json.loads(path.read_text(encoding="utf-8"))
    pairs = [(node, other) for node, others in enumerate(held["links"]) for other in others]
    return Data(
        x=torch.tensor(held["features"], dtype=torch.float32),
        edge_index=torch.tensor(pairs).t().contiguous(),
        y=torch.tensor(held["labels"]),
        train_mask=torch.tensor(held["train_masks"], dtype=torch.bool).t().contiguous(),
        val_mask=torch.tensor(held["val_masks"], dtype=torch.bool).t().contiguous(),
        test_mask=torch.tensor(held["test_mask"], dtype=torch.bool),
    )


def read_saint(folder: Path) -> Data:
    """Flickr as GraphSAINT has it (Zeng et al., 2020): a matrix, features, and who is for what."""
    with open(folder / "feats.npy", "rb") as file:
        x = _tensor(read_array(file, "feats.npy", (folder / "feats.npy").stat().st_size), np.float32)
    classes, roles = (
        json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in ("class_map", "role")
    )
    y = torch.full((len(x),), -1)
    for node, label in classes.items():
        y[int(node)] = int(label)
    held = _arrays(folder / "adj_full.npz", *_CSR)
    data = Data(x=x, edge_index=_csr_edges(held), y=y)
    for key, role in zip(MASKS, ("tr", "va", "te"), strict=True):
        data[key] = _mask(len(x), torch.tensor(roles[role]))
    return data


def read_reddit(path: Path) -> Data:
    """Reddit, of Hamilton, Ying and Leskovec (2017): two archives in one."""
    with zipfile.ZipFile(path) as archive:
        check_unpacked(path, sum(item.file_size for item in archive.infolist()))
        for name in ("reddit_data.npz", "reddit_graph.npz"):
            archive.extract(name, path.parent)
    held = _arrays(path.parent / "reddit_data.npz", "feature", "label", "node_types")
    graph = _arrays(path.parent / "reddit_graph.npz", "row", "col")
    data = Data(
        x=_tensor(held["feature"], np.float32),
        edge_index=_tensor(np.stack([graph["row"], graph["col"]]), np.int64),
        y=_tensor(held["label"], np.int64),
    )
    for number, key in enumerate(MASKS, 1):
        data[key] = _tensor(held["node_types"] == number, np.bool_)
    return data


def read_arxiv(path: Path) -> Data:
    """The raw files of ogbn-arxiv, of Hu et al. (2020)."""
    with zipfile.ZipFile(path) as archive:
        check_unpacked(path, sum(item.file_size for item in archive.infolist()))
        parts = ("raw/edge", "raw/node-feat", "raw/node-label", *(f"split/time/{part}" for part in _OGB_SPLIT))
        for name in parts:
            archive.extract(f"arxiv/{name}.csv.gz", path.parent)
    root = path.parent / "arxiv"
    y = torch.from_numpy(_csv(root / "raw" / "node-label.csv.gz", np.int64).flatten())
    data = Data(
        x=torch.from_numpy(_csv(root / "raw" / "node-feat.csv.gz", np.float32)),
        edge_index=torch.from_numpy(_csv(root / "raw" / "edge.csv.gz", np.int64).T.copy()),
        y=y,
        num_nodes=y.numel(),
    )
    for key, part in zip(MASKS, _OGB_SPLIT, strict=True):
        nodes = _csv(root / "split" / "time" / f"{part}.csv.gz", np.int64).flatten()
        data[key] = _mask(y.numel(), torch.from_numpy(nodes))
    return data


_CSR = ("indptr", "indices", "data", "shape")
_OGB_SPLIT = ("train", "valid", "test")


def _arrays(path: Path, *keys: str) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(path) as archive:
        check_unpacked(path, sum(item.file_size for item in archive.infolist()))
        return {key: read_member(archive, key) for key in keys}


def _csr_edges(parts: dict[str, np.ndarray]) -> torch.Tensor:
    rows, columns = (int(size) for size in parts["shape"])
    matrix = sp.csr_matrix((parts["data"], parts["indices"], parts["indptr"]), shape=(rows, columns)).tocoo()
    return _tensor(np.stack([matrix.row, matrix.col]), np.int64)


def _mask(nodes: int, chosen: torch.Tensor) -> torch.Tensor:
    mask = torch.zeros(nodes, dtype=torch.bool)
    mask[chosen] = True
    return mask


def _tensor(array: np.ndarray, dtype: Any) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=dtype))


def _csv(path: Path, dtype: Any) -> np.ndarray:
    return np.loadtxt(path, delimiter=",", dtype=dtype, ndmin=2)
