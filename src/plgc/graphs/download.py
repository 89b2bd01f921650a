"""What can be downloaded: graphs of PyG's dataset classes, and of OGB's raw files, which are read here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from plgc.graphs.check import MASKS
from plgc.graphs.features import as_features

ARXIV_URL = "http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip"
HETEROPHILOUS = "HeterophilousGraphDataset"
SPARSE_BELOW = 0.4  # downloaded features with a smaller share of non-zeros are stored as CSR


@dataclass(frozen=True)
class Download:
    """A graph that can be downloaded: where from, its size, and a function that fetches it into a folder.

    ``edges`` counts both directions after loading, without self-loops; None where it is not known.
    """

    origin: str
    nodes: int
    edges: int | None
    features: int
    classes: int
    fetch: Callable[[Path], Data]


def compact(data: Data) -> Data:
    """Store mostly-zero features as CSR."""
    x = as_features(data.x)
    if x is not None and x.layout == torch.strided and int(x.count_nonzero()) < SPARSE_BELOW * x.numel():
        x = as_features(x.to_sparse_csr())
    data.x = x
    return data


def _pyg(nodes: int, edges: int | None, features: int, classes: int, kind: str, **options: Any) -> Download:
    origin = f"torch_geometric.datasets.{kind}({', '.join(f'{k}={v!r}' for k, v in options.items())})"
    return Download(origin, nodes, edges, features, classes, lambda folder: _pyg_dataset(folder, kind, options))


def _pyg_dataset(folder: Path, kind: str, options: Mapping[str, Any]) -> Data:
    from torch_geometric import datasets  # slow to import, and needed only for a download

    return getattr(datasets, kind)(root=str(folder), **options)[0]


def _ogbn_arxiv(folder: Path) -> Data:
    """Read OGB's raw files: its own package cannot open its cache with torch 2.6 and later."""
    from torch_geometric.data import download_url, extract_zip

    extract_zip(download_url(ARXIV_URL, str(folder)), str(folder))
    root = folder / "arxiv"
    y = torch.from_numpy(_csv(root / "raw" / "node-label.csv.gz", np.int64).flatten())
    data = Data(
        x=torch.from_numpy(_csv(root / "raw" / "node-feat.csv.gz", np.float32)),
        edge_index=torch.from_numpy(_csv(root / "raw" / "edge.csv.gz", np.int64).T.copy()),
        y=y,
        num_nodes=y.numel(),
    )
    for key, part in zip(MASKS, ("train", "valid", "test"), strict=True):
        mask = torch.zeros(y.numel(), dtype=torch.bool)
        mask[torch.from_numpy(_csv(root / "split" / "time" / f"{part}.csv.gz", np.int64).flatten())] = True
        data[key] = mask
    return data


def _csv(path: Path, dtype: Any) -> np.ndarray:
    return np.loadtxt(path, delimiter=",", dtype=dtype, ndmin=2)


DOWNLOADS = {
    "cora": _pyg(2708, 10556, 1433, 7, "Planetoid", name="Cora", split="public"),
    "citeseer": _pyg(3327, 9104, 3703, 6, "Planetoid", name="CiteSeer", split="public"),
    "pubmed": _pyg(19717, 88648, 500, 3, "Planetoid", name="PubMed", split="public"),
    "amazon-photo": _pyg(7650, 238162, 745, 8, "Amazon", name="Photo"),
    "amazon-computers": _pyg(13752, 491722, 767, 10, "Amazon", name="Computers"),
    "coauthor-cs": _pyg(18333, 163788, 6805, 15, "Coauthor", name="CS"),
    "coauthor-physics": _pyg(34493, 495924, 8415, 5, "Coauthor", name="Physics"),
    "ogbn-arxiv": Download(ARXIV_URL, 169343, 2315598, 128, 40, _ogbn_arxiv),
    "flickr": _pyg(89250, 899756, 500, 7, "Flickr"),
    "reddit": _pyg(232965, 114615892, 602, 41, "Reddit"),
    "actor": _pyg(7600, 53318, 932, 5, "Actor"),
    "wikics": _pyg(11701, None, 300, 10, "WikiCS", is_undirected=True),
    "roman-empire": _pyg(22662, 65854, 300, 18, HETEROPHILOUS, name="Roman-empire"),
    "amazon-ratings": _pyg(24492, 186100, 300, 5, HETEROPHILOUS, name="Amazon-ratings"),
    "minesweeper": _pyg(10000, 78804, 7, 2, HETEROPHILOUS, name="Minesweeper"),
    "tolokers": _pyg(11758, 1038000, 10, 2, HETEROPHILOUS, name="Tolokers"),
    "questions": _pyg(48921, 307080, 301, 2, HETEROPHILOUS, name="Questions"),
}
