"""Large graphs made from a seed, for tests of scale: communities, hubs, noisy features, in one pass and little memory.

Pairs of nodes are joined as in a degree-corrected block model: the number of draws for nodes u and v is Poisson with
mean λ w_u w_v (h [same community] / W_c + (1 − h) / W), where w are power-law weights, W their sum, W_c the sum over
the community and h the share of edges that stay inside. Every pair is drawn by its node with the smaller number alone,
so a block of rows is complete, free of repeats and sorted as soon as it is drawn, and the other direction follows from
a counting sort. Indices are int32; the largest arrays can be files (:func:`write_community_graph`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from plgc.runtime.errors import SettingError

DEGREE_EXPONENT = 2.5  # tail of the weights w
HEAVIEST = 64  # the largest weight, relative to the smallest
SLOTS = 4  # slots of the lightest node in the tables that nodes are drawn from
BLOCK = 2**22  # draws or feature values made at a time
TRAIN, VALIDATION = 0.66, 0.10  # shares of the nodes, about those of Reddit's public split


@dataclass(frozen=True)
class CommunityGraph:
    """What a large graph is made from; :data:`REDDIT` has the sizes of the Reddit graph.

    Attributes:
        nodes: N.
        entries: directed entries wanted, twice the number of edges; what is drawn comes within about one per cent.
        features: f.
        communities: how many; a node's label is its community.
        homophily: h, share of the edges that stay inside a community.
        noise: standard deviation of a feature around its community's centre; the centres' own is 1.
        seed: drives everything.
        dtype: of the features, float32 or float16.
    """

    nodes: int
    entries: int
    features: int = 128
    communities: int = 40
    homophily: float = 0.8
    noise: float = 4.0
    seed: int = 0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.communities < 1 or self.nodes < 10 * self.communities:
            raise SettingError(f"nodes={self.nodes}, communities={self.communities}: at least 10 nodes each are needed")
        inside = self.nodes / self.communities
        if not 0 <= self.entries <= self.nodes * inside / 4:
            raise SettingError(
                f"entries={self.entries}: communities of {inside:.0f} nodes hold up to {self.nodes * inside / 4:.0f}"
            )
        if self.nodes >= 2**31:
            raise SettingError(f"nodes={self.nodes}: node numbers must fit int32")
        if self.features < 1 or not 0 <= self.homophily <= 1 or self.noise < 0:
            raise SettingError(
                f"features={self.features}, homophily={self.homophily}, noise={self.noise}: out of range"
            )
        if self.dtype not in ("float32", "float16"):
            raise SettingError(f"dtype is {self.dtype!r}: choose float32 or float16")

    def scaled(self, share: float) -> CommunityGraph:
        """The same kind of graph with this share of the nodes, edges and communities: degrees stay as they are."""
        return replace(
            self,
            nodes=round(self.nodes * share),
            entries=round(self.entries * share),
            communities=max(2, round(self.communities * share)),
        )


REDDIT = CommunityGraph(nodes=232_965, entries=114_615_892, features=602, communities=41, dtype="float16")


def community_graph(spec: CommunityGraph) -> Data:
    """Make the graph in memory, in the form of :func:`plgc.load_graph`."""
    label = _labels(spec)
    indptr, columns = _edges(spec, label)
    edges = np.empty((2, len(columns)), dtype=np.int64)
    edges[0] = np.repeat(np.arange(spec.nodes), np.diff(indptr))
    edges[1] = columns
    x = np.empty((spec.nodes, spec.features), dtype=spec.dtype)
    for start, rows in _features(spec, label):
        x[start : start + len(rows)] = rows
    return Data(
        x=torch.from_numpy(x),
        edge_index=torch.from_numpy(edges),
        y=torch.from_numpy(label.astype(np.int64)),
        num_nodes=spec.nodes,
        name="communities",
        split_origin=f"generated split, seed {spec.seed} ({TRAIN:.0%} train, {VALIDATION:.0%} validation)",
        **{name: torch.from_numpy(mask) for name, mask in _masks(spec).items()},
    )


def write_community_graph(spec: CommunityGraph, folder: str | Path) -> Path:
    """Make the graph as npy files (x, edge_index, y and the masks) that can be mapped into memory; returns the folder.

    edge_index is int32, sorted by row, then column; x is never held in memory as a whole. The folder must not exist
    yet, and gets its name once everything is in it.
    """
    target = Path(folder)
    if target.exists():
        raise SettingError(f"{target} is there already: name a folder that is not")
    folder = target.with_name(target.name + ".part")
    folder.mkdir(parents=True, exist_ok=True)
    label = _labels(spec)
    indptr, columns = _edges(spec, label)
    edges = np.lib.format.open_memmap(folder / "edge_index.npy", "w+", np.int32, (2, len(columns)))
    edges[1] = columns
    del columns
    step = max(1, BLOCK * spec.nodes // max(1, int(indptr[-1])))
    for start in range(0, spec.nodes, step):
        rows = np.arange(start, min(start + step, spec.nodes), dtype=np.int32)
        edges[0, indptr[start] : indptr[rows[-1] + 1]] = np.repeat(rows, np.diff(indptr[start : rows[-1] + 2]))
    edges.flush()
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.dtype(spec.dtype), (spec.nodes, spec.features))
    for start, rows in _features(spec, label):
        x[start : start + len(rows)] = rows
    x.flush()
    np.save(folder / "y.npy", label.astype(np.int64))
    for name, mask in _masks(spec).items():
        np.save(folder / f"{name}.npy", mask)
    return folder.rename(target)


def _labels(spec: CommunityGraph) -> np.ndarray:
    return np.random.default_rng((spec.seed, 0)).integers(spec.communities, size=spec.nodes, dtype=np.int32)


def _masks(spec: CommunityGraph) -> dict[str, np.ndarray]:
    place = np.random.default_rng((spec.seed, 3)).random(spec.nodes)
    train, val = place < TRAIN, (place >= TRAIN) & (place < TRAIN + VALIDATION)
    return {"train_mask": train, "val_mask": val, "test_mask": ~(train | val)}


def _features(spec: CommunityGraph, label: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Blocks of rows: the community's centre with noise around it."""
    rng = np.random.default_rng((spec.seed, 2))
    centres = rng.standard_normal((spec.communities, spec.features), dtype=np.float32)
    step = max(1, BLOCK // spec.features)
    for start in range(0, spec.nodes, step):
        own = label[start : start + step]
        rows = rng.standard_normal((len(own), spec.features), dtype=np.float32)
        rows *= np.float32(spec.noise)
        rows += centres[own]
        yield start, rows.astype(spec.dtype, copy=False)


@dataclass(frozen=True)
class _Slots:
    """A table that nodes are drawn from: node u fills w_u slots in a row, those it may draw from start at ``after[u]``.

    ``end[u]`` is where they end, and ``total[u]`` is the weight of all nodes that u may ever be joined to here.
    """

    table: np.ndarray
    after: np.ndarray
    end: np.ndarray
    total: np.ndarray


def _edges(spec: CommunityGraph, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """CSR of the symmetric graph: row starts [N + 1] (int64) and columns (int32), sorted within each row."""
    rng = np.random.default_rng((spec.seed, 1))
    heavy = (1 - rng.random(spec.nodes)) ** (-1 / (DEGREE_EXPONENT - 1))
    weight = np.rint(SLOTS * np.minimum(heavy, HEAVIEST)).astype(np.int64)
    everyone = _slots(weight, np.zeros_like(label))
    inside = _slots(weight, label)
    rate = _draws_per_weight(spec, rng, weight, label, inside)

    counts, parts = np.zeros(spec.nodes, dtype=np.int64), []
    step = max(1, int(BLOCK * spec.nodes / max(1.0, rate * weight.sum() / 2)))
    for start in range(0, spec.nodes, step):
        rows = np.arange(start, min(start + step, spec.nodes))
        keys = [
            _draw(rng, rows, slots, rate * share * weight[rows], spec.nodes)
            for slots, share in ((inside, spec.homophily), (everyone, 1 - spec.homophily))
        ]
        key = np.concatenate(keys)
        key.sort()
        key = key[np.concatenate([[True], key[1:] != key[:-1]])] if len(key) else key
        row, column = np.divmod(key, spec.nodes)
        counts[rows] = np.bincount(row, minlength=len(rows))
        parts.append(column.astype(np.int32))
    return _mirrored(counts, parts)


def _slots(weight: np.ndarray, group: np.ndarray) -> _Slots:
    """Slots of all nodes, group by group; within a group by node number, so that later nodes have later slots."""
    nodes = np.arange(len(weight), dtype=np.int32)
    order = np.argsort(group, kind="stable")
    filled = np.cumsum(weight[order])
    total = np.bincount(group, weight).astype(np.int64)
    after = np.empty(len(weight), dtype=np.int64)
    after[order] = filled
    return _Slots(np.repeat(nodes[order], weight[order]), after, np.cumsum(total)[group], total[group])


def _draw(rng: np.random.Generator, rows: np.ndarray, slots: _Slots, mean: np.ndarray, nodes: int) -> np.ndarray:
    """Keys of drawn pairs (row within the block · N + column): Poisson many a row, all to nodes of higher number."""
    after, length = slots.after[rows], slots.end[rows] - slots.after[rows]
    drawn = rng.poisson(mean * length / slots.total[rows])
    row = np.repeat(np.arange(len(rows)), drawn)
    spot = after[row] + (rng.random(len(row), dtype=np.float32) * length[row]).astype(np.int64)
    spot = np.minimum(spot, slots.end[rows][row] - 1)  # float32 may round up to 1
    return row * nodes + slots.table[spot]


def _draws_per_weight(
    spec: CommunityGraph, rng: np.random.Generator, weight: np.ndarray, label: np.ndarray, inside: _Slots
) -> float:
    """λ: how many draws a unit of weight gets, so that about ``entries`` are left once repeats are merged.

    A pair with r draws expected is there with probability 1 − exp(−r), so a draw counts (1 − exp(−r)) / r on average.
    """
    sample = 2**17
    source = np.repeat(np.arange(len(weight)), weight)[rng.integers(weight.sum(), size=sample)]
    close = rng.random(sample) < spec.homophily
    low = np.where(close, inside.end[source] - inside.total[source], 0)
    high = np.where(close, inside.end[source], len(inside.table))
    target = inside.table[low + (rng.random(sample) * (high - low)).astype(np.int64)]
    same = np.where(label[source] == label[target], spec.homophily / inside.total[source], 0.0)
    pair = weight[source] * weight[target] * (same + (1 - spec.homophily) / weight.sum())
    simple = spec.entries / weight.sum()
    low_rate, high_rate = simple, 16 * simple
    for _ in range(40):
        rate = (low_rate + high_rate) / 2
        left = np.where(source == target, 0.0, -np.expm1(-rate * pair) / np.maximum(rate * pair, 1e-30)).mean()
        low_rate, high_rate = (rate, high_rate) if rate * left < simple else (low_rate, rate)
    return low_rate


def _mirrored(counts: np.ndarray, parts: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The symmetric CSR of an upper triangle given as columns of consecutive rows; empties ``parts`` as it goes."""
    nodes = len(counts)
    starts = np.concatenate([[0], np.cumsum(counts)])
    upper = np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)
    parts.clear()
    index = np.int32 if starts[-1] < 2**31 else np.int64
    ones = np.ones(len(upper), dtype=np.int8)
    flipped = sp.csr_array((ones, upper, starts.astype(index)), shape=(nodes, nodes)).tocsc()
    before, lower = np.diff(flipped.indptr).astype(np.int64), flipped.indices
    indptr = np.concatenate([[0], np.cumsum(counts + before)])
    columns = np.empty(2 * len(upper), dtype=np.int32)
    step = max(1, BLOCK * nodes // max(1, len(columns)))
    for start in range(0, nodes, step):
        stop = min(start + step, nodes)
        block = columns[indptr[start] : indptr[stop]]
        # A row's smaller neighbours come from the flipped half, its larger ones from the drawn half.
        first = np.zeros(len(block) + 1, dtype=np.int8)
        opening = indptr[start:stop] - indptr[start]
        np.add.at(first, opening, 1)
        np.add.at(first, opening + before[start:stop], -1)
        smaller = np.cumsum(first[:-1], dtype=np.int8).astype(bool)
        block[smaller] = lower[flipped.indptr[start] : flipped.indptr[stop]]
        block[~smaller] = upper[starts[start] : starts[stop]]
    return indptr, columns
