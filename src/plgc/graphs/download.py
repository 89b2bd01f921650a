"""What can be downloaded: where the files of each graph are, what they hold, and how they are read.

Files on GitHub are named by a commit, and their content is known by the id that git gives it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch_geometric.data import Data

from plgc.graphs.features import as_features
from plgc.graphs.planetoid import PARTS, read_planetoid
from plgc.graphs.published import (
    read_arxiv,
    read_benchmark,
    read_heterophilous,
    read_reddit,
    read_saint,
    read_wikics,
)
from plgc.graphs.remote import RemoteFile, download

GITHUB = "https://raw.githubusercontent.com"
PLANETOID = f"{GITHUB}/kimiyoung/planetoid/af6abf468a772cc055bec88c52e4d6f51b7c37e3/data"
BENCHMARK = f"{GITHUB}/shchur/gnn-benchmark/1e72912a0810cdf27ae54fd589a3b43358a2b161/data/npz"
HETEROPHILOUS = f"{GITHUB}/yandex-research/heterophilous-graphs/a431395582e929d88271309716bea4fe24ce6318/data"
WIKICS = f"{GITHUB}/pmernyei/wiki-cs-dataset/f5207315d649377f936edb66d7d93f5342f01d81/dataset"
ARXIV = "https://snap.stanford.edu/ogb/data/nodeproppred"
REDDIT = "https://data.dgl.ai/dataset"
DRIVE = "https://drive.usercontent.google.com/download?confirm=t&id="  # where GraphSAINT's authors keep their files
SPARSE_BELOW = 0.4  # downloaded features with a smaller share of non-zeros are stored as CSR


@dataclass(frozen=True)
class Download:
    """A graph that can be downloaded: its files, its size, and a function that reads the folder of its files.

    ``edges`` counts both directions after loading, without self-loops; None where it is not known.
    """

    origin: str
    nodes: int
    edges: int | None
    features: int
    classes: int
    files: tuple[RemoteFile, ...]
    read: Callable[[Path], Data]

    def fetch(self, folder: Path) -> Data:
        """Fetch the files into a folder, compare them with their checksums, and read them."""
        for file in self.files:
            download(file, folder)
        return self.read(folder)


def compact(data: Data) -> Data:
    """Store mostly-zero features as CSR."""
    x = as_features(data.x)
    if x is not None and x.layout == torch.strided and int(x.count_nonzero()) < SPARSE_BELOW * x.numel():
        x = as_features(x.to_sparse_csr())
    data.x = x
    return data


def _planetoid(name: str, size: tuple[int, int, int, int], ids: str) -> Download:
    """``ids`` are what git calls the files, in the order of their parts."""
    names = (f"ind.{name}.{part}" for part in PARTS)
    files = tuple(RemoteFile(f"{PLANETOID}/{file}", file, git) for file, git in zip(names, ids.split(), strict=True))
    return Download(f"{PLANETOID}/ind.{name}.*", *size, files, partial(read_planetoid, name=name))


def _single(
    url: str, size: tuple[int, int | None, int, int], read: Callable[[Path], Data], git: str | None
) -> Download:
    """A graph in one file."""
    name = url.rpartition("/")[2]
    return Download(url, *size, (RemoteFile(url, name, git),), lambda folder: read(folder / name))


DOWNLOADS = {
    "cora": _planetoid(
        "cora",
        (2708, 10556, 1433, 7),
        "c4a91d008245403e7f26aa616b437191509793c0 6e856d777401ee15dc8619db76c97d0a40ba2d60 "
        "44d53b1fece343538e45592caac521d73c6f98d6 58e30ef120d3553cfaac33ff28c6b5436dbef661 "
        "da1734ab670b5c8ecee78a9c30b35566df916f4b 04fbd0b083d09341fcf16b395c642329637f0542 "
        "4d3bf85dfc8b1c105a2c995597a1b3eed6947925 ded8092db4cd767a367eebe09003b954a5316f24",
    ),
    "citeseer": _planetoid(
        "citeseer",
        (3327, 9104, 3703, 6),
        "f094104a66f2689ffbd01085fe6a856689e9db9e b2aff18aa1fc6f4f5e8c64db7643b59b24e42584 "
        "592091071ac35b78599c722d0e60b1c655711728 e857ac49b611da98e101a068cf4855350274f68a "
        "3795f79df0cd1123f4478b77c148a5fbacc4cefb 7503f81a0b6ac1cc21cb5a97073542a6b1dfe99c "
        "a01dca663d0103c130f525017a4a9c313037e286 62d9e3d5ed53c66b069125af98529d76c70d9b3e",
    ),
    "pubmed": _planetoid(
        "pubmed",
        (19717, 88648, 500, 3),
        "16c0eca8d2b3297014ff80327416f9332eda10d7 eee4f3c988fde0da87a9ec7b01ca5e7863c1b1f1 "
        "3b86bccf08111c37c632a9dd8ab63db25ea76361 e86670576c85340eeb2271b3c918bfa89322b2cf "
        "225a0bb9bb6430e3925d04688daf6a0da964c07a 4c8bcdc80882dd225fe4dd4fafd723baa616ac97 "
        "76eb87e628a6b9d43fc31ea42c8c6c8f3e52b404 41f6befcb7750cc4858cb852f2b349a9598cb2f4",
    ),
    "amazon-photo": _single(
        f"{BENCHMARK}/amazon_electronics_photo.npz",
        (7650, 238162, 745, 8),
        read_benchmark,
        "97323743cb56aca9dd611f5b4b46862c1c9c6bd9",
    ),
    "amazon-computers": _single(
        f"{BENCHMARK}/amazon_electronics_computers.npz",
        (13752, 491722, 767, 10),
        read_benchmark,
        "8120e4148a330b3fafe37c4476823302d9d834b9",
    ),
    "coauthor-cs": _single(
        f"{BENCHMARK}/ms_academic_cs.npz",
        (18333, 163788, 6805, 15),
        read_benchmark,
        "9bdd7da943d86b74297e8d32e99eb64245b52835",
    ),
    "coauthor-physics": _single(
        f"{BENCHMARK}/ms_academic_phy.npz",
        (34493, 495924, 8415, 5),
        read_benchmark,
        "8d8bc12e29aa67f6753a712080eae81079bd7d01",
    ),
    "ogbn-arxiv": _single(f"{ARXIV}/arxiv.zip", (169343, 2315598, 128, 40), read_arxiv, None),
    "flickr": Download(
        "GraphSAINT's Flickr on Google Drive",
        *(89250, 899756, 500, 7),
        (
            RemoteFile(f"{DRIVE}1crmsTbd1-2sEXsGwa2IKnIB7Zd3TmUsy", "adj_full.npz"),
            RemoteFile(f"{DRIVE}1join-XdvX3anJU_MLVtick7MgeAQiWIZ", "feats.npy"),
            RemoteFile(f"{DRIVE}1uxIkbtg5drHTsKt-PAsZZ4_yJmgFmle9", "class_map.json"),
            RemoteFile(f"{DRIVE}1htXCtuktuCW8TR8KiKfrFDAxUgekQoV7", "role.json"),
        ),
        read_saint,
    ),
    "reddit": _single(f"{REDDIT}/reddit.zip", (232965, 114615892, 602, 41), read_reddit, None),
    "actor": _single(
        f"{HETEROPHILOUS}/actor.npz",
        (7600, 53318, 932, 5),
        read_heterophilous,
        "84327f6738c09166380b31319f9f5063ab1104e0",
    ),
    "wikics": _single(
        f"{WIKICS}/data.json", (11701, None, 300, 10), read_wikics, "f1b743119df1a7a3bca449039c54034ae623a756"
    ),
    "roman-empire": _single(
        f"{HETEROPHILOUS}/roman_empire.npz",
        (22662, 65854, 300, 18),
        read_heterophilous,
        "1f9bae5e95b28e529015269e98acb237b65d8d3b",
    ),
    "amazon-ratings": _single(
        f"{HETEROPHILOUS}/amazon_ratings.npz",
        (24492, 186100, 300, 5),
        read_heterophilous,
        "29647a8b0ff0ef856d73d683a8c3595bd5efbd38",
    ),
    "minesweeper": _single(
        f"{HETEROPHILOUS}/minesweeper.npz",
        (10000, 78804, 7, 2),
        read_heterophilous,
        "cc2387032c65b92a5c520c473db1527cbb329d32",
    ),
    "tolokers": _single(
        f"{HETEROPHILOUS}/tolokers.npz",
        (11758, 1038000, 10, 2),
        read_heterophilous,
        "b8375a91a8f3c9e32c84fed7c151bbaf6ea6f0c7",
    ),
    "questions": _single(
        f"{HETEROPHILOUS}/questions.npz",
        (48921, 307080, 301, 2),
        read_heterophilous,
        "4c7cb65057dbc9771af00fdfdee64a41b3875079",
    ),
}
