"""A graph of any size as raw npy files, drawn block by block: nothing about a node is kept in memory.

Node u of the drawing belongs to topic u mod T, and a topic to class (topic mod C). Both ends of an edge are drawn by a
power law of u; the second is in the topic of the first, in its class, or anywhere. The number a node is known by is an
affine permutation of u, so that neither its topic nor its degree shows in it. Edges are written as they are drawn, in
one direction, with repeats, as a user might have them: ``plgc data store`` puts them in order.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plgc.graphs.formats.npy import write_header
from plgc.runtime.files import write_atomically

BLOCK = 1 << 20  # edges or feature values drawn at a time
OFFSET = 0.05  # of the power law: the heaviest node has 1 / (3 OFFSET²) times the average degree
REPEATED = 1.1  # edges are drawn so many times as often as they are wanted: the others are repeats
WITHIN_TOPIC, WITHIN_CLASS = 0.75, 0.2  # shares of the edges; the others end anywhere
PER_TOPIC = 2000  # nodes, about
MASKS = {"train_mask": (0.0, 0.5), "val_mask": (0.5, 0.6), "test_mask": (0.6, 1.0)}  # of the nodes that have a label


@dataclass(frozen=True)
class TopicGraph:
    """What a graph is made from.

    Attributes:
        wanted: nodes, about: a whole number for each topic.
        entries: in both directions, about.
        features: f.
        classes: C.
        labelled: share of the nodes that have a label.
        noise: standard deviation of a feature around the centre of its topic, whose own around its class is 1.
        seed: drives everything.
    """

    wanted: int
    entries: int
    features: int
    classes: int
    labelled: float = 1.0
    noise: float = 3.0
    seed: int = 0

    @property
    def topics(self) -> int:
        """T, a multiple of C."""
        return self.classes * max(1, round(self.wanted / PER_TOPIC / self.classes))

    @property
    def nodes(self) -> int:
        """N, a multiple of T."""
        return self.wanted // self.topics * self.topics

    def scaled(self, share: float) -> TopicGraph:
        """The same kind of graph with this share of the nodes and edges; degrees stay as they are."""
        given = {"features": self.features, "classes": self.classes, "labelled": self.labelled, "noise": self.noise}
        return TopicGraph(round(self.wanted * share), round(self.entries * share), **given, seed=self.seed)

    def known_as(self, drawn: np.ndarray) -> np.ndarray:
        """The number that a node of the drawing is known by: (u A + B) mod N."""
        return ((drawn.astype(np.int64) * self._factor + self.nodes // 3) % self.nodes).astype(np.int32)

    def drawn_as(self, known: np.ndarray) -> np.ndarray:
        """The other way."""
        inverse = pow(self._factor, -1, self.nodes)
        return ((known.astype(np.int64) - self.nodes // 3) % self.nodes) * inverse % self.nodes

    @property
    def _factor(self) -> int:
        """A, about 0.62 N so that neighbours are far apart, without a common divisor with N."""
        found = max(1, int(0.618 * self.nodes))
        while math.gcd(found, self.nodes) > 1:
            found += 1
        return found


SIZES = {
    "tiny": TopicGraph(6_000, 60_000, 32, 3),
    "small": TopicGraph(300_000, 9_000_000, 100, 20, noise=12.0),
    "products": TopicGraph(2_450_000, 124_000_000, 100, 40, noise=12.0),
    "papers-tenth": TopicGraph(11_106_000, 320_000_000, 128, 100, labelled=0.1, noise=12.0),
}
PAPERS = (111_059_956, 2 * 1_615_685_872)  # nodes, and entries in both directions, of ogbn-papers100M


def write_topic_graph(spec: TopicGraph, folder: Path) -> Path:
    """Write ``edge_index``, ``x``, ``y`` and the masks as npy files into a folder, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    edges = round(REPEATED * spec.entries / 2)
    content = {
        "edge_index": (np.int32, (2, edges), lambda: _ends(spec, edges)),
        "x": (np.float16, (spec.nodes, spec.features), lambda: _rows(spec)),
        "y": (np.int64, (spec.nodes,), lambda: (labels for labels, _ in _labels(spec))),
        **{
            name: (np.bool_, (spec.nodes,), lambda span=span: (_within(*one, span) for one in _labels(spec)))
            for name, span in MASKS.items()
        },
    }
    for name, (kind, shape, blocks) in content.items():
        if not (folder / f"{name}.npy").exists():
            write_atomically(folder / f"{name}.npy", _file(np.dtype(kind), shape, blocks()))
    return folder


def _file(kind: np.dtype, shape: tuple[int, ...], blocks: Iterator[np.ndarray]) -> Iterator[bytes]:
    header = io.BytesIO()
    write_header(header, kind, shape)
    yield header.getvalue()
    yield from (np.ascontiguousarray(block, dtype=kind).tobytes() for block in blocks)


def _ends(spec: TopicGraph, edges: int) -> Iterator[np.ndarray]:
    """All first ends of the edges, then all second ends; every block is drawn twice, from a seed of its own."""
    for end in (0, 1):
        for begin in range(0, edges, BLOCK):
            yield spec.known_as(_draw_edges(spec, begin, min(BLOCK, edges - begin))[end])


def _draw_edges(spec: TopicGraph, begin: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng((spec.seed, 1, begin))
    topics, each = spec.topics, spec.nodes // spec.topics
    first = _power_law(rng, count, spec.nodes)
    topic, where = first % topics, rng.random(count)
    same_class = rng.integers(topics // spec.classes, size=count) * spec.classes + topic % spec.classes
    topic = np.where(where < WITHIN_TOPIC, topic, same_class)
    second = _power_law(rng, count, each) * topics + topic
    return first, np.where(where < WITHIN_TOPIC + WITHIN_CLASS, second, _power_law(rng, count, spec.nodes))


def _power_law(rng: np.random.Generator, count: int, nodes: int) -> np.ndarray:
    """Numbers below ``nodes``, of which u is drawn in proportion to u^(−2/3), evened out at the start."""
    low = OFFSET**3
    drawn = (((OFFSET + (1 - OFFSET) * rng.random(count)) ** 3 - low) / (1 - low) * nodes).astype(np.int64)
    return np.minimum(drawn, nodes - 1)


def _rows(spec: TopicGraph) -> Iterator[np.ndarray]:
    rng = np.random.default_rng((spec.seed, 2))
    centres = rng.standard_normal((spec.topics, spec.features), dtype=np.float32)
    classes = rng.standard_normal((spec.classes, spec.features), dtype=np.float32)
    centres += classes[np.arange(spec.topics) % spec.classes]
    step = max(1, BLOCK // spec.features)
    for begin in range(0, spec.nodes, step):
        topic = spec.drawn_as(np.arange(begin, min(begin + step, spec.nodes))) % spec.topics
        rows = rng.standard_normal((len(topic), spec.features), dtype=np.float32)
        yield (rows * np.float32(spec.noise) + centres[topic]).astype(np.float16)


def _labels(spec: TopicGraph) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Blocks of labels, −1 for none, and of a number from 0 to 1 that decides on the split."""
    rng = np.random.default_rng((spec.seed, 3))
    for begin in range(0, spec.nodes, BLOCK):
        drawn = spec.drawn_as(np.arange(begin, min(begin + BLOCK, spec.nodes)))
        place = rng.random(len(drawn)) / spec.labelled
        yield np.where(place < 1, drawn % spec.topics % spec.classes, -1), place


def _within(labels: np.ndarray, place: np.ndarray, span: tuple[float, float]) -> np.ndarray:
    return (labels >= 0) & (place >= span[0]) & (place < span[1])
