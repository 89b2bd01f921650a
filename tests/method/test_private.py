from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import plgc
from plgc.graphs import citation_graph, unlabelled
from plgc.method.contrasts import centred, cluster_spread, contrasts, count_users
from plgc.method.noise import MOVED, Noise, publish, shared_out, shrunk
from plgc.method.private import release_privately, rounded
from plgc.method.settings import Branch, CondenseSettings, PseudoLabelSettings
from plgc.method.stage_one import PseudoLabels
from plgc.runtime.errors import SettingError
from plgc.sparse.adjacency import build_adjacency
from plgc.sparse.features import Features, StoredFeatures, sparse_features
from plgc.sparse.inputs import Inputs
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


def parts_of_nodes(x: Tensor, weights: Tensor, vectors: Tensor) -> np.ndarray:
    """What every node gives to every contrast, w_nr x_nj, [N, R, c], written out with NumPy."""
    apart = (vectors - vectors.mean(0)).double().numpy()
    values, bases = np.linalg.eigh(apart @ apart.T)
    bases = bases[:, values > 1e-6 * values.max()][:, ::-1]
    bases = bases * np.sign(bases[np.abs(bases).argmax(0), np.arange(bases.shape[1])])
    mixed = weights.double().numpy() @ bases
    return (mixed - mixed.mean(0))[:, :, None] * x.double().numpy()[:, None]


@pytest.mark.parametrize("words", [True, False])
@pytest.mark.parametrize("form", [lambda x: x, lambda x: sparse_features(x.to_sparse_csr()), StoredFeatures])
def test_contrasts_are_sums_of_what_nodes_give(form: Callable[[Tensor], Features], words: bool) -> None:
    x, weights, vectors = made_up(words)
    found = contrasts(form(x), centred(weights, cluster_spread(vectors)[1]))
    parts = parts_of_nodes(x, weights, vectors)
    np.testing.assert_allclose(found.sums, parts.sum(0), atol=1e-4)
    np.testing.assert_allclose(found.error, np.sqrt((parts**2).sum(0)), rtol=1e-4)
    np.testing.assert_allclose(found.largest, np.abs(parts).max(0), rtol=1e-4)
    assert count_users(form(x)).tolist() == (x != 0).sum(0).tolist()


def test_noise_is_normal_the_same_for_a_secret_and_another_for_every_other() -> None:
    like = torch.zeros(100, 200)
    draws, again, other = Noise("a"), Noise("a"), Noise("b")
    first, second = draws.normal(like), draws.normal(like)
    assert torch.equal(first, again.normal(like))
    for one, another in [(first, second), (first, other.normal(like))]:
        assert abs(float((one * another).mean())) < 0.03
    assert float(first.mean()) == pytest.approx(0, abs=0.03)
    assert float(first.std()) == pytest.approx(1, abs=0.02)
    assert float((first.abs() < 1).float().mean()) == pytest.approx(0.6827, abs=0.01)


def test_what_all_numbers_tell_is_the_budget_and_main_differences_and_common_words_have_least_noise() -> None:
    spread, users = torch.tensor([4.0, 2.0, 0.1]), torch.tensor([20.0, 400.0, 80.0])
    noise = shared_out(spread, users, 1.5)
    assert float((1 / (1 + noise**2)).sum()) == pytest.approx(1.5, rel=1e-6)
    assert (noise[1:] > noise[:-1]).all()
    assert (noise[:, 0] > noise[:, 2]).all()
    assert (noise[:, 2] > noise[:, 1]).all()
    assert (shared_out(spread, users, 9.5) == 0).all()  # nine numbers cannot tell more than nine


@pytest.mark.parametrize("words", [True, False])
@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_no_node_moves_a_number_by_more_than_a_share_of_its_noise(words: bool, noise: float) -> None:
    """Nodes are removed one by one, with the weights and the noise as they are."""
    x, weights, vectors = made_up(words)
    whole = contrasts(x, centred(weights, cluster_spread(vectors)[1]))
    shown = publish(whole, torch.full((len(whole.sums), 1), noise), Noise("a"))
    parts, zero = parts_of_nodes(x, weights, vectors), publish(whole, torch.full((1, 1), noise), Noise("a"))
    spread = np.maximum(noise * np.sqrt((parts**2).sum(0)), np.abs(parts).max(0) / MOVED)
    drawn = Noise("a").normal(whole.sums).numpy()
    np.testing.assert_allclose(shown.sums, parts.sum(0) + spread * drawn, rtol=1e-3, atol=1e-3)
    assert torch.equal(zero.sums, shown.sums)
    used = spread > 0
    largest = max(float((np.abs(parts[node])[used] / spread[used]).max()) for node in range(NODES))
    assert 0 < largest == pytest.approx(shown.share, rel=1e-4)
    assert shown.share <= MOVED + 1e-6


def test_what_is_chance_is_shrunk_to_nothing() -> None:
    z = torch.tensor([[4.0, -0.5, 2.0, 9.0], [0.5, -0.5, 1.0, 9.0]])
    listed = torch.tensor([True, True, True, False])
    mean = (16 + 0.25 + 4) / 3
    wanted = [(1 - 1 / mean) * (1 - 1 / 16), 0, (1 - 1 / mean) * (1 - 1 / 4)]
    assert shrunk(z, listed)[0, :3].tolist() == pytest.approx(wanted)
    assert (shrunk(z, listed)[1] == 0).all()
    assert shrunk(z[:, :3])[:, 0].tolist() == pytest.approx([1 - 1 / mean, 0])


@pytest.mark.parametrize("users", [1, 4])
def test_a_word_of_few_nodes_is_in_no_row(users: int) -> None:
    x, weights, vectors = made_up()
    x[:users, -1] = 5
    x[users:, -1] = 0
    for secret in "abcdefgh":
        rows = released(x, weights, vectors, secret)[0]
        assert (rows[:, -2:] == 0).all()
        assert (rows[:, :-2] != 0).any(0).sum() > WORDS / 2


def released(x: Tensor, weights: Tensor, vectors: Tensor, secret: str) -> tuple[Tensor, PseudoLabels, float]:
    """A release of features and an embedding alike, without edges."""
    weights = weights / weights.sum(0)
    counts = torch.full((CLUSTERS,), NODES // CLUSTERS)
    labels = PseudoLabels(torch.nn.functional.normalize(vectors), weights, counts, 0.5, counts.double())
    inputs = Inputs(x, build_adjacency(torch.zeros(2, 0, dtype=torch.int64), NODES))
    return release_privately(inputs, x[:, :20].clone(), labels, (20,), ("plain",), secret)


def test_rows_are_near_the_means_of_clusters_where_there_are_many_nodes() -> None:
    x, weights, vectors = made_up(words=False)
    rows, labels, _ = released(x, weights, vectors, "a")
    wanted = (weights / weights.sum(0)).t() @ x
    wanted[:, -2:] = 0
    for found, true in [(rows, wanted), (labels.vectors, wanted[:, :20] - x[:, :20].mean(0))]:
        apart, truly = found - found.mean(0), true - true.mean(0)
        assert float((apart * truly).sum() / apart.norm() / truly.norm()) > 0.8


def test_lengths_are_rounded_to_powers_of_the_root_of_two() -> None:
    assert [rounded(value) for value in (0.0, 1.0, 3.0, 5.0, 1e-3)] == pytest.approx([0, 1, 2**1.5, 2**2.5, 2**-10])


def test_a_private_file_says_its_bound_and_no_exact_facts(private: plgc.CondensedGraph, tmp_path: Path) -> None:
    again = plgc.CondensedGraph.load(private.save(tmp_path / "private.safetensors"))
    assert again.to_bytes() == private.to_bytes()
    assert again.largest_share is not None
    assert 0 < again.largest_share <= MOVED + 1e-6
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
    rare = Data(x=torch.eye(60), edge_index=torch.randint(60, (2, 120), generator=random))
    with pytest.raises(SettingError, match="of 60 features of 60 nodes, 0 have enough users to be published"):
        plgc.condense(rare, nodes=4, settings=QUICK, private=True)


def test_the_secret_depends_on_all_that_the_file_depends_on(graph: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def spy(*given: Any) -> Any:
        seen.append(given[-1])
        return release_privately(*given)

    monkeypatch.setattr("plgc.method.alternate.release_privately", spy)
    less = Data(x=graph.x, edge_index=graph.edge_index[:, (graph.edge_index != 7).all(0)], num_nodes=graph.num_nodes)
    for data, nodes, seed in [(graph, 12, 0), (graph, 12, 0), (less, 12, 0), (graph, 11, 0), (graph, 12, 1)]:
        plgc.condense(data, nodes=nodes, seed=seed, settings=QUICK, private=True)
    assert seen[0] == seen[1]
    assert len(set(seen)) == 4


def test_other_bounds_are_refused(graph: Data) -> None:
    with pytest.raises(SettingError, match=r"max_share is 0\.2, but a private release has a bound of its own"):
        plgc.condense(graph, nodes=12, settings=QUICK, private=True, max_share=0.2)
    with pytest.raises(SettingError, match="min_cluster is 3, but clusters of a private release have at least 5 nodes"):
        plgc.condense(graph, nodes=12, settings=QUICK, private=True, min_cluster=3)
