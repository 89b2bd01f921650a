from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.metrics import f1_score
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs import TrainingLabels, citation_graph, load_graph, training_labels
from plgc.rivals.clustering import cluster, spectral_embedding
from plgc.rivals.coreset import class_shares
from plgc.rivals.partition import (
    CGC_PUBLISHED,
    GECC_LARGE,
    GECC_PUBLISHED,
    CGCSettings,
    GECCSettings,
    cgc_rows,
    class_f1,
    confidence,
    hop_features,
    linear_classifier,
    published_settings,
)
from plgc.runtime.errors import LabelError, SettingError
from plgc.sparse.inputs import prepare
from quick_rivals import condense

NODES, KEPT, CLASSES = 240, 24, 3
METHODS = pytest.mark.parametrize("method", ["cgc-x", "gecc"])


@pytest.fixture(scope="module")
def graph() -> Data:
    """Shared, so no test may change it."""
    return load_graph(citation_graph(nodes=NODES, classes=CLASSES, features=60))


@pytest.fixture(scope="module")
def labels(graph: Data) -> TrainingLabels:
    return training_labels(graph)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def dense_hops(graph: Data, rows: Tensor) -> list[np.ndarray]:
    """Rows of X, ÂX, Â²X by dense algebra in double precision."""
    x = graph["x"].to_dense().double()
    x = x / x.sum(1, keepdim=True)
    a = torch.eye(NODES, dtype=torch.float64)
    a[tuple(graph["edge_index"])] = 1.0
    scale = a.sum(1).rsqrt()
    a = scale[:, None] * a * scale
    return [h[rows].numpy() for h in (x, a @ x, a @ a @ x)]


def blobs(groups: int, size: int, width: int, spread: float = 0.1) -> Tensor:
    centres = torch.randn(groups, width, generator=generator(1), dtype=torch.float64)
    noise = torch.randn(groups, size, width, generator=generator(2), dtype=torch.float64)
    return (centres[:, None] + spread * noise).flatten(0, 1)


# The clustering


@pytest.mark.parametrize("width", [3, 200])  # more rows than columns, and fewer
def test_kmeans_is_as_good_as_scikit_learns(width: int) -> None:
    x = torch.randn(90, width, generator=generator(3), dtype=torch.float64)
    weights, membership = cluster(x, 7, restarts=20, generator=generator())
    inside = membership.argmax(0)
    assert membership.unique().tolist() == [0.0, 1.0]
    assert membership.sum(0).eq(1).all()
    for part in range(7):  # centres are the means of their members
        torch.testing.assert_close(weights[part] @ x, x[inside == part].mean(0))
    centres = weights @ x
    assert torch.equal(torch.cdist(x, centres).argmin(1), inside)
    inertia = float((x - centres[inside]).square().sum())
    assert inertia <= 1.02 * float(KMeans(7, n_init=20, random_state=0).fit(x.numpy()).inertia_)  # pyright: ignore


def test_kmeans_finds_groups_that_are_there() -> None:
    x = blobs(5, 12, 20)
    membership = cluster(x, 5, restarts=10, generator=generator())[1]
    assert membership.sum(1).tolist() == [12.0] * 5
    assert membership.argmax(0).view(5, 12).unique(dim=1).shape == (5, 1)


@pytest.mark.parametrize("fuzziness", [1.3, 2.0])
def test_fuzzy_memberships_and_centres_fit_each_other(fuzziness: float) -> None:
    x = blobs(4, 10, 30, spread=0.3)
    weights, u = cluster(x, 4, fuzziness=fuzziness, restarts=5, generator=generator())
    centres = (weights @ x).numpy()
    # the textbook formulas, written out
    d2 = ((x.numpy()[None] - centres[:, None]) ** 2).sum(2)
    expected = 1 / ((d2[:, None] / d2[None]) ** (1 / (fuzziness - 1))).sum(1)
    np.testing.assert_allclose(u.numpy(), expected, atol=1e-7)
    power = u.numpy() ** fuzziness
    np.testing.assert_allclose(centres, power @ x.numpy() / power.sum(1, keepdims=True), atol=1e-6)
    torch.testing.assert_close(u.sum(0), torch.ones(40, dtype=torch.float64))
    torch.testing.assert_close(weights.sum(1), torch.ones(4, dtype=torch.float64))


def test_more_starts_never_raise_the_objective_and_balance_prefers_even_parts() -> None:
    x = torch.randn(40, 8, generator=generator(5), dtype=torch.float64) ** 3
    sizes, inertia = {}, {}
    for balance in (0.0, 1e6):
        weights, u = cluster(x, 5, restarts=30, balance=balance, generator=generator())
        sizes[balance] = float((u.sum(1) - 8).square().sum())
        inertia[balance] = float((u * torch.cdist(weights @ x, x).square()).sum())
    assert sizes[1e6] < sizes[0.0]
    assert inertia[1e6] > inertia[0.0]
    weights, u = cluster(x, 5, restarts=1, generator=generator())
    assert inertia[0.0] <= float((u * torch.cdist(weights @ x, x).square()).sum())


def test_equal_rows_leave_no_centre_without_a_place() -> None:
    x = torch.ones(6, 3, dtype=torch.float64)
    weights, membership = cluster(x, 3, restarts=2, generator=generator())
    assert membership.sum() == 6
    torch.testing.assert_close(weights @ x, x[:3])


# CGC's pieces


def test_the_affinity_is_that_of_the_paper_and_the_embedding_its_eigenvectors() -> None:
    x = torch.randn(30, 50, generator=generator(7), dtype=torch.float64)
    found = spectral_embedding(x, 4, generator())
    u = np.linalg.svd((x - x.mean(0)).numpy())[0][:, :4]
    affinity = (u @ u.T + 0.5**0.5) ** 2
    degree = affinity.sum(1)
    values, vectors = np.linalg.eigh(affinity / np.sqrt(degree[:, None] * degree))
    expected = vectors[:, np.argsort(-values)[1:5]]
    # eigenvectors up to sign and rotation: the same subspace
    np.testing.assert_allclose((found @ found.T).numpy(), expected @ expected.T, atol=1e-6)


def test_the_embedding_of_many_rows_is_found_by_iteration() -> None:
    x = blobs(6, 80, 300)  # 480 rows: more than are kept in the iteration, and a clear gap after five
    found = spectral_embedding(x, 5, generator())
    u = np.linalg.svd((x - x.mean(0)).numpy(), full_matrices=False)[0][:, :5]
    affinity = (u @ u.T + 0.5**0.5) ** 2
    degree = affinity.sum(1)
    normal = affinity / np.sqrt(degree[:, None] * degree)
    values = np.sort(np.linalg.eigvalsh(normal))[::-1]
    rayleigh = found.numpy().T @ normal @ found.numpy()
    np.testing.assert_allclose(np.diag(rayleigh), values[1:6], rtol=1e-6)


def test_spectral_parts_find_groups_that_are_there() -> None:
    x = blobs(3, 9, 40)
    membership = cluster(spectral_embedding(x, 3, generator()), 3, restarts=10, generator=generator())[1]
    assert membership.argmax(0).view(3, 9).unique(dim=1).shape == (3, 1)
    assert membership.sum(1).tolist() == [9.0] * 3


@pytest.mark.parametrize("rows", [20, 80])  # fewer rows than columns, and more
def test_the_linear_classifier_is_the_least_squares_one(rows: int) -> None:
    x = torch.randn(rows, 40, generator=generator(8))
    y = torch.randint(3, (rows,), generator=generator(9))
    expected = np.linalg.pinv(x.double().numpy()) @ np.eye(3)[y]
    np.testing.assert_allclose(linear_classifier(x, y, 3).numpy(), expected, atol=1e-4)


def test_confidence_and_f1() -> None:
    scores, y = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0], [1.0, 0.5]]), torch.tensor([0, 1, 0, 0])
    probability = scores.softmax(1)
    least = probability[2, 0]
    expected = torch.stack([probability[0, 0], probability[1, 1], least, probability[3, 0]])
    torch.testing.assert_close(confidence(scores, y), expected)
    y, predicted = torch.randint(4, (2, 50), generator=generator(4))
    expected = f1_score(y, predicted, average=None, labels=range(5), zero_division=0)  # pyright: ignore
    np.testing.assert_allclose(class_f1(predicted, y, 5).numpy(), expected, rtol=1e-6)


def test_hops_are_powers_of_the_adjacency(graph: Data, labels: TrainingLabels) -> None:
    found = hop_features(prepare(graph, "l1"), labels.train, 2)
    for hop, expected in zip(found, dense_hops(graph, labels.train), strict=True):
        np.testing.assert_allclose(hop.numpy(), expected, atol=1e-6)


def test_augmentation_draws_one_hop_rows_from_classes_that_are_hard() -> None:
    y = torch.arange(60) % 3
    hops = [torch.randn(60, 5, generator=generator(seed)) for seed in range(3)]
    for hop in hops:
        hop[:, 0] += 20.0 * (y == 0)  # class 0 is easy to tell
    rows, classes, sure = cgc_rows(hops, y, 3, CGCSettings(augmentation=1.5), generator())
    assert rows.shape == (150, 5)
    assert torch.equal(rows[:60], hops[2])
    drawn = torch.cdist(rows[60:], hops[1]).argmin(1)
    torch.testing.assert_close(rows[60:], hops[1][drawn])
    assert torch.equal(classes, torch.cat([y, y[drawn]]))
    assert sure.shape == (150,)
    share = torch.bincount(classes[60:], minlength=3)
    assert share[0] < min(share[1:])
    rows, classes, sure = cgc_rows(hops, y, 3, CGCSettings(augmentation=0.0), generator())
    assert (rows.shape, classes.shape, sure.shape) == ((60, 5), (60,), (60,))


# The whole


@METHODS
def test_what_is_left(method: str, graph: Data, labels: TrainingLabels) -> None:
    seen: list[tuple[int, int]] = []
    condensed = condense(method, graph, labels, nodes=KEPT, progress=lambda _, done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert condensed.features.shape == (KEPT, 60)
    assert condensed.edge_index is None
    assert condensed.labels is not None
    assert dict(enumerate(torch.bincount(condensed.labels).tolist())) == class_shares(labels.y, labels.train, KEPT)
    clustered = labels.train.numel()
    if method == "cgc-x":
        clustered += int(0.55 * clustered)
        assert condensed.settings["temperature"] == 0.05
    else:
        assert condensed.settings["hops"] == [-0.1, 0.9, 0.9]
    assert int(condensed.counts.sum()) == clustered


def test_cgc_means_are_weighted_by_confidence(graph: Data, labels: TrainingLabels) -> None:
    """With one part for each class the mean can be written down."""
    settings = CGCSettings(temperature=0.05, augmentation=0.0)
    condensed = condense("cgc-x", graph, labels, nodes=CLASSES, settings=settings)
    hops, y = dense_hops(graph, labels.train), labels.y[labels.train].numpy()
    linear = np.linalg.pinv(sum(hops) / 3) @ np.eye(CLASSES)[y]  # pyright: ignore
    score = np.exp(hops[2] @ linear)
    probability = score / score.sum(1, keepdims=True)
    own = probability[np.arange(len(y)), y]
    own = np.where(probability.argmax(1) == y, own, own.min())
    for label in range(CLASSES):
        weight = np.exp(own[y == label] / 0.05)
        expected = (weight / weight.sum()) @ hops[2][y == label]
        np.testing.assert_allclose(condensed.features[label].numpy(), expected, rtol=2e-3, atol=1e-5)


def test_gecc_centres_are_means_of_weighted_hops(graph: Data, labels: TrainingLabels) -> None:
    settings = GECCSettings((-0.3, 0.5, 0.9), fuzziness=1.0, restarts=5, balance=0.0)
    condensed = condense("gecc", graph, labels, nodes=KEPT, settings=settings)
    hops, y = dense_hops(graph, labels.train), labels.y[labels.train].numpy()
    rows = -0.3 * hops[0] + 0.5 * hops[1] + 0.9 * hops[2]
    assert condensed.labels is not None
    for label in range(CLASSES):
        inside = condensed.labels == label
        counts = condensed.counts[inside]
        mean = (counts / counts.sum()) @ condensed.features[inside]
        np.testing.assert_allclose(mean.numpy(), rows[y == label].mean(0), atol=1e-6)
    mean_only = condense("gecc", graph, labels, nodes=CLASSES, settings=settings)
    np.testing.assert_allclose(mean_only.features[1].numpy(), rows[y == 1].mean(0), atol=1e-6)


@METHODS
def test_every_training_node_by_itself(method: str, graph: Data, labels: TrainingLabels) -> None:
    """More nodes than labels: all training nodes are kept, none twice."""
    settings = CGCSettings(augmentation=0.0) if method == "cgc-x" else GECCSettings((0.0, 0.0, 1.0), restarts=3)
    condensed = condense(method, graph, labels, nodes=NODES, settings=settings)
    assert condensed.counts.tolist() == [1] * labels.train.numel()
    assert condensed.nodes_requested == NODES
    rows = torch.from_numpy(dense_hops(graph, labels.train)[2]).float()
    distance = torch.cdist(rows, condensed.features, compute_mode="donot_use_mm_for_euclid_dist")
    assert float(distance.min(1).values.max()) < 1e-6


# Settings


def test_settings_as_published(labels: TrainingLabels) -> None:
    few, many = labels.train.numel(), 6000
    assert published_settings("gecc", "Citeseer", 60, few) == GECCSettings((-0.3, 0.5, 0.9), 1.3, 50, 1.0)
    assert published_settings("gecc", "ogbn_arxiv", 90, many) == GECC_PUBLISHED["ogbn-arxiv"]
    assert published_settings("gecc", "else", 60, few) == GECCSettings()
    assert published_settings("gecc", "else", 60, many) == GECC_LARGE
    for nodes in (60, 70, 80):
        assert published_settings("cgc-x", "cora", nodes, few) == CGCSettings(10.0, 0.7)
    assert published_settings("cgc-x", "citeseer", 35, few) == CGCSettings(*CGC_PUBLISHED["citeseer"][30])
    assert published_settings("cgc-x", "else", 60, few) == CGCSettings(10.0, 0.55)


def test_the_graphs_name_finds_its_settings(graph: Data, labels: TrainingLabels) -> None:
    named = graph.clone()
    named.name = "Flickr"
    condensed = condense("gecc", named, labels, settings=None)
    assert condensed.settings["hops"] == [0.3, 0.2]
    assert condensed.settings["balance"] == 10.0


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: CGCSettings(temperature=0.0), "temperature is 0.0"),
        (lambda: CGCSettings(augmentation=-1.0), "augmentation is -1.0"),
        (lambda: CGCSettings(restarts=0), "restarts is 0"),
        (lambda: GECCSettings(hops=()), "hops is empty"),
        (lambda: GECCSettings(fuzziness=0.9), "fuzziness is 0.9"),
        (lambda: GECCSettings(restarts=0), "restarts is 0"),
        (lambda: GECCSettings(balance=-1.0), "balance is -1.0"),
    ],
)
def test_refused_settings(made, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        made()


def test_refusals(graph: Data, labels: TrainingLabels) -> None:
    with pytest.raises(SettingError, match="gecc with CGCSettings"):
        condense("gecc", graph, labels, settings=CGCSettings())
    with pytest.raises(LabelError, match="3 classes"):
        condense("gecc", graph, labels, nodes=2)
