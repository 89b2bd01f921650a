"""A citation-like graph made from a seed: communities with hubs, bag-of-words features, labels and a split.

It stands in where no real graph is at hand (the demo, tests). Two things make it about as hard as Cora. Classes fall
into sub-communities, some of which borrow the words of another class, so a few labels do not show everything and
averaging over neighbours does not remove the doubt; and single documents are noisy, so features alone identify a
class poorly. With 20 labels per class a two-layer GCN gets about 82 %, logistic regression on the features about 55 %.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from plgc.graphs.features import from_scipy
from plgc.graphs.views.splits import generated_split, training_text
from plgc.runtime.errors import SettingError

SUBTOPICS = 5  # sub-communities per class
SAME_SUBTOPIC = 0.7  # share of a class's inner edges that stay within a sub-community
DEGREE_EXPONENT = 2.6  # tail of the expected degrees
CLASS_WORDS, SUBTOPIC_WORDS = 0.10, 0.04  # share of the vocabulary that a class, a sub-community prefers
CLASS_SHARE, SUBTOPIC_SHARE = 0.60, 0.15  # average share of a document's words that come from each of the two
CLARITY = 0.3  # how far a document may lie above or below these averages
BLEND = 0.76  # share of the class words that the most mixed sub-community takes from another class
TEST = 1000


def citation_graph(
    nodes: int = 3000,
    classes: int = 7,
    features: int = 1000,
    mean_degree: float = 4.5,
    homophily: float = 0.8,
    words: int = 20,
    seed: int = 0,
) -> Data:
    """Make a citation-like graph; the same arguments always give the same graph.

    Args:
        nodes: number of nodes ("papers").
        classes: number of classes, of unequal size.
        features: size of the vocabulary; features are binary bags of words, kept as CSR.
        mean_degree: neighbours of a node on average; degrees follow a power law, and a few nodes have none. A small
            dense graph may stay below, once its communities are full.
        homophily: share of edges that join nodes of one class.
        words: words in a document on average, before repeated ones are merged.
        seed: drives everything, the split included.

    Returns:
        ``Data`` in the form of ``load_graph``: 20 training nodes per class, 500 for validation and 1000 for test
        (fewer in a small graph).
    """
    _check_settings(nodes, classes, features, mean_degree, homophily, words)
    rng = np.random.default_rng(seed)
    label, community = _communities(nodes, classes)
    edges = _edges(rng, label, community, round(nodes * mean_degree / 2), homophily)
    bags = _bags_of_words(rng, label, community, features, words)

    position = rng.permutation(nodes)  # node numbers say nothing about the class
    edges = position[edges]
    edges = np.concatenate([edges, edges[::-1]], axis=1)
    edges = edges[:, np.lexsort((edges[1], edges[0]))]
    order = np.argsort(position)
    y = torch.from_numpy(label[order])
    train, val, test = generated_split(y, seed)
    generator = torch.Generator().manual_seed(seed)
    spare = test.nonzero().flatten()
    test[spare[torch.randperm(spare.numel(), generator=generator)[TEST:]]] = False
    return Data(
        x=from_scipy(bags[order]),
        edge_index=torch.from_numpy(edges),
        y=y,
        train_mask=train,
        val_mask=val,
        test_mask=test,
        num_nodes=nodes,
        name="synthetic",
        split_origin=(
            f"generated split, seed {seed} ({training_text(y, train)}, {int(val.sum())} validation, {int(test.sum())} "
            "test)"
        ),
    )


def _communities(nodes: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Class and sub-community of every node, both sorted; the largest class is about three times the smallest."""
    bounds = np.cumsum(np.linspace(1.5, 0.5, classes))
    label = np.searchsorted(bounds / bounds[-1], (np.arange(nodes) + 0.5) / nodes).astype(np.int64)
    start = np.searchsorted(label, np.arange(classes))
    size = np.bincount(label, minlength=classes)
    return label, label * SUBTOPICS + (np.arange(nodes) - start[label]) * SUBTOPICS // size[label]


def _edges(
    rng: np.random.Generator, label: np.ndarray, community: np.ndarray, count: int, homophily: float
) -> np.ndarray:
    """Distinct undirected edges [2, ≤ count]: degree-corrected communities, drawn in O(edges)."""
    nodes = len(label)
    weight = np.minimum((1 - rng.random(nodes)) ** (-1 / (DEGREE_EXPONENT - 1)), nodes**0.5)
    mass = np.concatenate([[0.0], np.cumsum(weight)])
    class_bounds, community_bounds = _bounds(mass, label), _bounds(mass, community)

    found = np.empty(0, dtype=np.int64)
    for _ in range(8):  # each round replaces the repeats and self-loops of the one before
        draws = round(1.1 * (count - len(found))) + 1
        source = _pick(mass, rng.random(draws) * mass[-1])
        inside = rng.random(draws) < homophily
        close = inside & (rng.random(draws) < SAME_SUBTOPIC)
        low, high = np.where(close, community_bounds[:, community[source]], class_bounds[:, label[source]])
        spot = rng.random(draws)
        outside = spot * (mass[-1] - (high - low))  # the line of all nodes with the source's class cut out
        outside = np.where(outside < low, outside, outside + (high - low))
        target = _pick(mass, np.where(inside, low + spot * (high - low), outside))
        key = np.minimum(source, target) * nodes + np.maximum(source, target)
        key = np.concatenate([found, key[source != target]])
        found = key[np.sort(np.unique(key, return_index=True)[1])][:count]
        if len(found) == count:
            break
    return np.stack([found // nodes, found % nodes])


def _bounds(mass: np.ndarray, group: np.ndarray) -> np.ndarray:
    """[2, groups]: where each group (sorted, contiguous) starts and ends on the line of cumulated weights."""
    numbers = np.arange(group[-1] + 1)
    return mass[np.stack([np.searchsorted(group, numbers), np.searchsorted(group, numbers, side="right")])]


def _pick(mass: np.ndarray, spot: np.ndarray) -> np.ndarray:
    return np.clip(np.searchsorted(mass, spot, side="right") - 1, 0, len(mass) - 2)


def _bags_of_words(
    rng: np.random.Generator, label: np.ndarray, community: np.ndarray, features: int, words: int
) -> sp.csr_matrix:
    """Binary bags of words [N, F]: words of the class (or one it borrows from), of the sub-community, common words."""
    nodes = len(label)
    zipf = np.cumsum(1 / (np.arange(features) + 10))
    common = rng.permutation(features)
    class_words = _preferred(rng, int(label[-1]) + 1, features, CLASS_WORDS)
    subtopic_words = _preferred(rng, int(community[-1]) + 1, features, SUBTOPIC_WORDS)

    classes = len(class_words)
    # The first sub-community of a class is pure, the last one the most mixed.
    home, subtopic = np.divmod(np.arange(len(subtopic_words)), SUBTOPICS)
    partner = (home + 1 + subtopic % (classes - 1)) % classes
    blend = BLEND * subtopic / (SUBTOPICS - 1)

    length = 1 + rng.poisson(words - 1, nodes)
    node = np.repeat(np.arange(nodes), length)
    clarity = (1 + CLARITY * (2 * rng.random(nodes) - 1))[node]
    kind = rng.random(len(node))
    background = common[np.minimum(np.searchsorted(zipf, rng.random(len(node)) * zipf[-1]), features - 1)]
    borrowed = rng.random(len(node)) < blend[community[node]]
    topic = np.where(borrowed, partner[community[node]], label[node])
    by_class = class_words[topic, rng.integers(class_words.shape[1], size=len(node))]
    by_subtopic = subtopic_words[community[node], rng.integers(subtopic_words.shape[1], size=len(node))]
    word = np.where(
        kind < CLASS_SHARE * clarity,
        by_class,
        np.where(kind < (CLASS_SHARE + SUBTOPIC_SHARE) * clarity, by_subtopic, background),
    )
    bags = sp.csr_matrix((np.ones(len(node), dtype=np.float32), (node, word)), shape=(nodes, features))
    bags.sum_duplicates()
    bags.data[:] = 1
    return bags


def _preferred(rng: np.random.Generator, groups: int, features: int, share: float) -> np.ndarray:
    size = max(1, round(share * features))
    return np.stack([rng.choice(features, size, replace=False) for _ in range(groups)])


def _check_settings(nodes: int, classes: int, features: int, mean_degree: float, homophily: float, words: int) -> None:
    if classes < 2 or nodes < 3 * classes:
        raise SettingError(f"nodes={nodes}, classes={classes}: at least 2 classes and 3 nodes a class are needed")
    if features < 1 or words < 1:
        raise SettingError(f"features={features}, words={words}: both must be at least 1")
    if not 0 < mean_degree < nodes / 4:
        raise SettingError(f"mean_degree={mean_degree}: must lie between 0 and a quarter of the {nodes} nodes")
    if not 0 <= homophily <= 1:
        raise SettingError(f"homophily={homophily}: must lie between 0 and 1")
