from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import plgc
from plgc.graphs import citation_graph, unlabelled
from plgc.method.private import POWERS, THRESHOLD, cluster_spread, rounded, significant
from plgc.method.settings import Branch, CondenseSettings, PseudoLabelSettings
from plgc.runtime.errors import SettingError
from plgc.sparse.features import StoredFeatures, sparse_features
from quick import PLAIN

RULES = PseudoLabelSettings(rounds=2, round_epochs=5)
QUICK = CondenseSettings(plain=PLAIN, encoders=(Branch(hidden=24, width=16),), pseudo_labels=RULES)
NODES, CLUSTERS, WORDS = 300, 6, 40


@pytest.fixture(scope="module")
def graph() -> Data:
    return citation_graph(nodes=600, classes=3, features=60)


@pytest.fixture(scope="module")
def private(graph: Data) -> plgc.CondensedGraph:
    return plgc.condense(graph, nodes=12, settings=QUICK, private=True)


def made_up(words: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """X, V and Ỹ of six clusters in three pairs; the last word is one node's alone, the one before nobody's."""
    random = np.random.default_rng(0)
    cluster = random.integers(CLUSTERS, size=NODES)
    chance = 0.1 + 0.5 * (np.arange(WORDS)[None] % 3 == cluster[:, None] % 3)
    x = (random.random((NODES, WORDS)) < chance).astype(np.float32) if words else random.normal(6 * chance - 2)
    x[:, -2:] = 0  # one word that nobody uses, and
    x[7, -1] = 5
    plan = random.random((NODES, CLUSTERS)) * 0.1 + np.eye(CLUSTERS)[cluster]
    centres = np.eye(3)[np.arange(CLUSTERS) % 3] + 0.2 * random.normal(size=(CLUSTERS, 3))
    plan *= np.linspace(0.2, 3, CLUSTERS) / plan.sum(0)  # as where degrees differ: columns with unequal sums
    return torch.from_numpy(x).float(), torch.from_numpy(plan).float(), torch.from_numpy(centres).float()


def parts_of_nodes(x: Tensor, weights: Tensor, vectors: Tensor, power: float) -> np.ndarray:
    """What every node gives to every contrast, w_nk x_nj, [N, K, c], written out."""
    centred = (vectors - vectors.mean(0)).double().numpy()
    values, bases = np.linalg.eigh(centred @ centred.T)
    kept = values > 1e-6 * values.max()
    mixing = (bases[:, kept] * values[kept] ** power) @ bases[:, kept].T
    mixed = weights.double().numpy() @ mixing
    return (mixed - mixed.mean(0))[:, :, None] * x.double().numpy()[:, None]


def published(x: Tensor, weights: Tensor, vectors: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The parts of the narrowest contrast that is larger than chance, [N, K, c], and where there is one, [K, c]."""
    chosen = np.zeros((len(x), weights.shape[1], x.shape[1]))
    done = np.zeros(chosen.shape[1:], dtype=bool)
    for power in POWERS:
        parts = parts_of_nodes(x, weights, vectors, power)
        error = np.sqrt((parts**2).sum(0))
        new = (np.abs(parts.sum(0)) >= THRESHOLD * error) & (error > 0) & ~done
        chosen[:, new] = parts[:, new]
        done |= new
    return chosen, done


@pytest.mark.parametrize("words", [True, False])
def test_what_differs_by_more_than_chance_is_published(words: bool) -> None:
    x, weights, vectors = made_up(words)
    found = significant(x, weights, cluster_spread(vectors))
    chosen, done = published(x, weights, vectors)
    mean = x.double().numpy().T @ weights.double().numpy().mean(1)
    error = np.sqrt((x.double().numpy() ** 2).T @ weights.double().numpy().mean(1) ** 2)
    base = np.where(np.abs(mean) >= THRESHOLD * error, rounded(torch.from_numpy(mean)).numpy(), 0)
    difference = found.rows.numpy() - base
    assert 0.05 < done.mean() < 0.95
    assert np.array_equal(np.abs(difference) > 1e-6, done)
    assert np.array_equal(np.sign(difference)[done], np.sign(chosen.sum(0))[done])


@pytest.mark.parametrize("words", [True, False])
def test_no_node_gives_more_than_the_largest_share(words: bool) -> None:
    """Nodes are removed one by one, with the weights as they are."""
    x, weights, vectors = made_up(words)
    found = significant(x, weights, cluster_spread(vectors))
    chosen, done = published(x, weights, vectors)
    whole, largest = chosen.sum(0), 0.0
    for node in range(NODES):
        without = whole - chosen[node]
        largest = max(largest, float((np.abs(whole - without)[done] / np.abs(whole)[done]).max()))
    assert 0 < largest <= found.share <= 1 / THRESHOLD + 1e-6


@pytest.mark.parametrize("users", [1, 5, 35])
def test_a_word_of_few_nodes_is_in_no_row(users: int) -> None:
    x, weights, vectors = made_up()
    x[:users, -1] = 5
    x[users:, -1] = 0
    weights[:users] *= 1e-6  # its users hardly count: what the others lack must not pass as a difference
    rows = significant(x, weights, cluster_spread(vectors)).rows
    assert (rows[:, -2:] == 0).all()
    assert (rows[:, :-2] != 0).any(0).all()


def test_sparse_and_stored_features_give_the_same() -> None:
    x, weights, vectors = made_up()
    dense, *others = (
        significant(form, weights, cluster_spread(vectors))
        for form in (x, sparse_features(x.to_sparse_csr()), StoredFeatures(x))
    )
    for other in others:
        assert torch.allclose(other.rows, dense.rows, atol=1e-6)
        assert other.share == pytest.approx(dense.share, rel=1e-4)


def test_values_are_rounded_to_powers_of_the_root_of_two() -> None:
    found = rounded(torch.tensor([0.0, 1.0, -3.0, 5.0, 1e-3]))
    assert found.tolist() == pytest.approx([0, 1, -(2**1.5), 2**2.5, 2**-10])


def test_a_private_file_says_its_bound_and_no_exact_facts(private: plgc.CondensedGraph, tmp_path: Path) -> None:
    again = plgc.CondensedGraph.load(private.save(tmp_path / "private.safetensors"))
    assert again.to_bytes() == private.to_bytes()
    assert again.largest_share is not None
    assert 0 < again.largest_share <= 1 / THRESHOLD + 1e-6
    assert (again.settings["private"], again.settings["min_cluster"]) == (True, 5)
    assert again.curves == {}
    assert again.fingerprint is None
    assert "edges" not in again.source
    assert (again.counts % 5 == 0).all()
    assert int(again.counts.min()) >= 5
    assert again.pseudo_labels is not None
    assert torch.allclose(again.pseudo_labels.norm(dim=1), torch.ones(again.num_nodes), atol=0.02)


def test_it_is_the_same_every_time_and_without_labels(graph: Data, private: plgc.CondensedGraph) -> None:
    again = plgc.condense(unlabelled(graph), nodes=12, settings=QUICK, private=True)
    assert again.to_bytes() == private.to_bytes()


def test_a_backbone_is_rebuilt_from_private_and_other_files(graph: Data, private: plgc.CondensedGraph) -> None:
    plain = plgc.condense(graph, nodes=12, settings=QUICK, seed=1)
    assert plain.largest_share is None
    embedding = plgc.reconstruct([private, plain]).embed(graph)
    assert len(embedding) == graph.num_nodes
    assert bool(embedding.isfinite().all())


def test_too_few_nodes_are_refused_by_value() -> None:
    random = torch.Generator().manual_seed(0)
    noise = Data(x=torch.rand(60, 8, generator=random), edge_index=torch.randint(60, (2, 120), generator=random))
    with pytest.raises(SettingError, match="20 synthetic nodes of at least 5 nodes each need 100 nodes"):
        plgc.condense(noise, nodes=20, settings=QUICK, private=True)
    with pytest.raises(SettingError, match=r"made from 60 nodes, [01] differ from the mean by 6 standard errors"):
        plgc.condense(noise, nodes=4, settings=QUICK, private=True)


def test_other_bounds_are_refused(graph: Data) -> None:
    with pytest.raises(SettingError, match=r"max_share is 0\.2, but a private release has a bound of its own"):
        plgc.condense(graph, nodes=12, settings=QUICK, private=True, max_share=0.2)
    with pytest.raises(SettingError, match="min_cluster is 3, but clusters of a private release have at least 5 nodes"):
        plgc.condense(graph, nodes=12, settings=QUICK, private=True, min_cluster=3)
