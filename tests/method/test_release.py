from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.artifact.members import told_of_members
from plgc.graphs import citation_graph, load_graph, unlabelled
from plgc.method.release import clip_rows, merge_small_clusters, privatise, shared_values
from plgc.method.settings import Branch, CondenseSettings, PseudoLabelSettings, SynthesisSettings
from plgc.method.stage_one import PseudoLabels, embed, read_pseudo_labels, start_stage_one, train_epoch, unit_blocks
from plgc.method.stage_two import start_features
from plgc.runtime.errors import ArtifactError, GraphError, SettingError
from plgc.sparse.inputs import prepare
from quick import PLAIN

RULES = PseudoLabelSettings(rounds=2, round_epochs=3)
ENCODERS = (Branch(hidden=24, width=16), Branch(hidden=24, width=8))
QUICK = CondenseSettings(plain=PLAIN, encoders=ENCODERS, pseudo_labels=RULES)
BLOCKS = (3, 2)


@pytest.fixture(scope="module")
def graph() -> Data:
    return citation_graph(nodes=240, classes=3, features=60)


@pytest.fixture(scope="module")
def condensed(graph: Data) -> plgc.CondensedGraph:
    return plgc.condense(graph, nodes=20, settings=QUICK, min_cluster=3)


def a_reading(counts: list[int], seed: int = 0) -> tuple[PseudoLabels, torch.Tensor, np.ndarray]:
    """Made-up pseudo-labels with these hard counts, their embedding, and the plan Q behind them."""
    generator = torch.Generator().manual_seed(seed)
    hard = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    plan = torch.rand(len(hard), len(counts), generator=generator)
    plan[torch.arange(len(hard)), hard] += 1.5
    plan = plan / plan.sum(1, keepdim=True)
    embedding = unit_blocks(torch.randn(len(hard), sum(BLOCKS), generator=generator), BLOCKS)
    weights = plan / plan.sum(0)
    vectors = unit_blocks(weights.t() @ embedding, BLOCKS)
    return PseudoLabels(vectors, weights, torch.tensor(counts), 0.5, plan.sum(0)), embedding, plan.numpy()


def numpy_mean(plan: np.ndarray, embedding: torch.Tensor) -> np.ndarray:
    """One unit vector per block from Σ_n q_n z_n."""
    total = plan @ embedding.numpy()
    parts = np.split(total, np.cumsum(BLOCKS)[:-1])
    return np.concatenate([part / np.linalg.norm(part) for part in parts]) / np.sqrt(len(BLOCKS))


def test_a_small_cluster_goes_to_its_nearest_with_everything_it_has() -> None:
    labels, embedding, plan = a_reading([6, 2, 7, 9])
    cosine = (labels.vectors @ labels.vectors[1]).numpy()
    cosine[1] = -2
    nearest = int(cosine.argmax())
    merged, kept = merge_small_clusters(labels, embedding, BLOCKS, 3)
    assert kept.tolist() == [0, 2, 3]
    place = kept.tolist().index(nearest)
    expected = [6, 7, 9]
    expected[place] += 2
    assert merged.counts.tolist() == expected
    column = plan[:, 1] + plan[:, nearest]
    np.testing.assert_allclose(merged.weights[:, place].numpy(), column / column.sum(), rtol=1e-5)
    np.testing.assert_allclose(merged.vectors[place].numpy(), numpy_mean(column, embedding), atol=1e-6)
    np.testing.assert_allclose(float(merged.mass[place]), column.sum(), rtol=1e-6)
    for new, old in enumerate(kept.tolist()):
        if old != nearest:
            assert torch.equal(merged.vectors[new], labels.vectors[old])
            assert torch.allclose(merged.weights[:, new], labels.weights[:, old])


@pytest.mark.parametrize("minimum", [1, 2, 5, 8])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_merging_goes_on_until_no_cluster_is_too_small(minimum: int, seed: int) -> None:
    counts = [0, 1, 1, 0, 4, 9, 2, 3, 12, 0, 6]
    labels, embedding, plan = a_reading(counts, seed)
    merged, kept = merge_small_clusters(labels, embedding, BLOCKS, minimum)
    assert int(merged.counts.min()) >= minimum
    assert int(merged.counts.sum()) == sum(counts)
    assert torch.allclose(merged.weights.sum(0), torch.ones(len(kept)))
    # Every column is a sum of whole columns of Q, and no column of Q is used twice or left out.
    assert torch.allclose(merged.mass.sum(), torch.tensor(float(plan.sum())))
    together = merged.weights.double().numpy() @ merged.mass.double().numpy()
    np.testing.assert_allclose(together, plan.sum(1), rtol=1e-5)
    # Merged or not, a pseudo-label is the assignment mean.
    assert torch.allclose(merged.vectors, unit_blocks(merged.weights.t() @ embedding, BLOCKS), atol=1e-5)


def test_nothing_is_merged_where_nothing_is_small_and_one_is_always_left() -> None:
    labels, embedding, _ = a_reading([3, 4, 5])
    merged, kept = merge_small_clusters(labels, embedding, BLOCKS, 3)
    assert merged is labels
    assert kept.tolist() == [0, 1, 2]
    alone, kept = merge_small_clusters(labels, embedding, BLOCKS, 100)
    assert alone.counts.tolist() == [12]
    assert len(kept) == 1


@pytest.mark.parametrize("minimum", [1, 4, 10])
@pytest.mark.parametrize("start", ["means", "nodes"])
def test_a_file_has_no_cluster_below_the_minimum(graph: Data, minimum: int, start: str) -> None:
    settings = replace(QUICK, synthesis=SynthesisSettings(start=start, steps=3))
    made = plgc.condense(graph, nodes=24, settings=settings, min_cluster=minimum)
    assert int(made.counts.min()) >= minimum
    assert int(made.counts.sum()) == 240
    assert made.nodes_requested == 24
    assert made.num_nodes == len(made.counts) <= 24
    assert made.pseudo_labels is not None
    assert made.pseudo_labels.shape[0] == made.num_nodes
    assert made.settings["min_cluster"] == minimum
    # A random node's own features would be published alone: above 1, X' starts from means.
    assert made.settings["synthesis"]["start"] == (start if minimum == 1 else "means")


def test_x_starts_from_the_merged_clusters_mean(graph: Data) -> None:
    settings = replace(QUICK, synthesis=SynthesisSettings(steps=0))
    made = plgc.condense(graph, nodes=24, settings=settings, min_cluster=10, dtype="float32")
    assert made.num_nodes < 24
    # The same stage I by hand, then the means of its merged assignment.
    inputs = prepare(load_graph(unlabelled(graph)), made.scaling)
    stage = start_stage_one(inputs, 24, (*ENCODERS, PLAIN), RULES, 0)
    for _ in range(len(made.curves["explained"])):
        for _ in range(RULES.round_epochs):
            train_epoch(stage, inputs)
        labels = read_pseudo_labels(embed(stage, inputs), stage.prototypes, stage.blocks, stage.settings)
    merged, _ = merge_small_clusters(labels, embed(stage, inputs), stage.blocks, 10)
    expected = start_features(inputs, merged, SynthesisSettings(), stage)
    assert torch.allclose(made.features, expected)
    assert torch.equal(made.counts, merged.counts)


def test_more_nodes_than_the_minimum_allows_are_refused(graph: Data) -> None:
    with pytest.raises(
        SettingError, match="50 synthetic nodes of at least 5 nodes each need 250 nodes, the graph has 240"
    ):
        plgc.condense(graph, nodes=50, min_cluster=5, settings=QUICK)
    with pytest.raises(SettingError, match="min_cluster is 0"):
        plgc.condense(graph, nodes=5, min_cluster=0, settings=QUICK)
    half = graph.clone()
    half.core_mask = torch.arange(240) < 120
    with pytest.raises(SettingError, match="the graph has 120: ask for at most 24"):
        plgc.condense(half, nodes=40, min_cluster=5, settings=QUICK)


def test_the_core_alone_is_assigned(graph: Data) -> None:
    inputs = prepare(load_graph(unlabelled(graph)), "l1")
    stage = start_stage_one(inputs, 8, ENCODERS, RULES, 0)
    z, core, start = embed(stage, inputs), torch.arange(240) % 3 == 0, stage.prototypes.detach().clone()
    labels = read_pseudo_labels(z, stage.prototypes, stage.blocks, stage.settings, core)
    with torch.no_grad():
        stage.prototypes.copy_(start)
    expected = read_pseudo_labels(z[core], stage.prototypes, stage.blocks, stage.settings)
    assert torch.equal(labels.vectors, expected.vectors)
    assert int(labels.counts.sum()) == 80
    assert torch.equal(labels.weights[core], expected.weights)
    assert not labels.weights[~core].any()
    rows = start_features(inputs, labels, SynthesisSettings(start="nodes"), stage)
    own = {tuple(row) for row in prepare(graph, "l1").x.to_dense()[core].tolist()}  # pyright: ignore
    assert all(tuple(row) in own for row in rows.tolist())


def test_a_halo_passes_messages_but_is_not_counted(graph: Data) -> None:
    with_halo = graph.clone()
    with_halo.core_mask = torch.arange(240) < 150
    made = plgc.condense(with_halo, ratio=0.1, settings=QUICK)
    assert made.nodes_requested == 15
    assert int(made.counts.sum()) == 150
    assert made.source["nodes"] == 150
    assert made.source["halo"] == 90
    other = with_halo.clone()
    other.x = with_halo.x.to_dense().clone()
    other.x[200:] = other.x[200:].flip(1)
    assert not torch.allclose(plgc.condense(other, ratio=0.1, settings=QUICK).features, made.features)


def test_a_core_of_everything_changes_nothing(graph: Data) -> None:
    whole = graph.clone()
    whole.core_mask = torch.ones(240, dtype=torch.bool)
    ours, plain = (plgc.condense(g, nodes=10, settings=QUICK) for g in (whole, graph))
    assert torch.equal(ours.features, plain.features)
    assert torch.equal(ours.counts, plain.counts)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(240), r"torch.float32 \[240\]"),
        (torch.ones(7, dtype=torch.bool), r"torch.bool \[7\]"),
        (torch.arange(240) == 3, "marks 1 node"),
        ([True] * 240, "list"),
    ],
)
def test_a_bad_core_mask_is_refused(graph: Data, mask: object, message: str) -> None:
    bad = graph.clone()
    bad.core_mask = mask
    with pytest.raises(GraphError, match=message):
        plgc.condense(bad, nodes=10, settings=QUICK)


def test_the_core_mask_survives_loading_and_labels_do_not(graph: Data) -> None:
    part = graph.clone()
    part.core_mask = torch.arange(240) < 100
    assert torch.equal(load_graph(part)["core_mask"], part.core_mask)
    assert set(unlabelled(part).to_dict()) == {"x", "edge_index", "num_nodes", "core_mask"}


@pytest.mark.parametrize("sparse", [False, True])
def test_a_value_that_one_node_dominates_is_not_published(graph: Data, sparse: bool) -> None:
    given = graph.clone()
    if not sparse:
        given.x = graph.x.to_dense()
    inputs = prepare(load_graph(unlabelled(given)), "l1")
    stage = start_stage_one(inputs, 8, ENCODERS, RULES, 0)
    labels = read_pseudo_labels(embed(stage, inputs), stage.prototypes, stage.blocks, stage.settings)
    x = graph.x.to_dense().numpy()
    x = x / np.maximum(x.sum(1, keepdims=True), 1e-12)
    adjacency = np.eye(240)
    adjacency[graph.edge_index[0], graph.edge_index[1]] = 1
    scale = 1 / np.sqrt(adjacency.sum(1))
    smooth = scale[:, None] * adjacency * scale
    own = labels.weights.numpy()
    for channels, reach in (
        (("edges",), smooth @ smooth @ own),
        (("edges", "plain"), (smooth @ smooth + np.eye(240)) @ own / 2),
    ):
        parts = reach[:, :, None] * x[:, None, :]  # [N, K, f]
        total = parts.sum(0)
        share = parts.max(0) / np.where(total > 0, total, 1)
        for limit in (0.1, 0.3):
            ours = shared_values(inputs, labels, channels, limit).numpy()
            clear = np.abs(share - limit) > 1e-4  # rounding may decide the others
            np.testing.assert_array_equal(ours[clear], ((share <= limit) & (total > 0))[clear])
            assert 0 < ours.mean() < 1


def test_dominated_values_are_zero_in_the_file(graph: Data) -> None:
    plain, limited = (plgc.condense(graph, nodes=8, settings=QUICK, max_share=share) for share in (1.0, 0.2))
    assert limited.settings["max_share"] == 0.2
    hidden = limited.features == 0
    assert bool((plain.features[hidden] != 0).any())
    assert 0 < float(hidden.float().mean()) < 1
    assert torch.equal(limited.pseudo_labels, plain.pseudo_labels)
    with pytest.raises(SettingError, match=r"max_share is 0\.0"):
        plgc.condense(graph, nodes=8, settings=QUICK, max_share=0.0)


def test_rows_are_clipped_to_the_norm_and_no_further() -> None:
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    assert torch.allclose(clip_rows(rows, 1.0), torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]))


def test_clipping_alone_changes_long_rows_only(condensed: plgc.CondensedGraph) -> None:
    norm = condensed.features.norm(dim=1)
    clip = float(norm.median()) * (1 + 1e-5)  # between two rows
    made = privatise(condensed, clip=clip)
    assert float(made.features.norm(dim=1).max()) <= clip * (1 + 1e-6)
    assert torch.equal(made.features[norm <= clip], condensed.features[norm <= clip])
    assert torch.allclose(made.pseudo_labels, condensed.pseudo_labels, atol=1e-2)  # of unit length again
    assert torch.equal(made.counts, condensed.counts)


def test_noise_has_the_stated_size() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = unit_blocks(torch.randn(400, 60, generator=generator), (40, 20))
    file = plgc.CondensedGraph(
        features=torch.zeros(400, 50),
        pseudo_labels=vectors,
        counts=torch.full((400,), 1000),
        blocks=(40, 20),
        scaling="l1",
        seed=0,
        threads=1,
        settings={"min_cluster": 5},
        nodes_requested=400,
    )
    made = privatise(file, clip=0.5, noise=0.2, seed=1)
    assert float(made.features.std()) == pytest.approx(0.2 * 0.5, rel=0.02)
    assert made.pseudo_labels is not None
    assert torch.allclose(made.pseudo_labels[:, :40].norm(dim=1), torch.full((400,), 0.5**0.5))
    # A unit vector with noise σ in each of d directions turns by cos = 1 / √(1 + σ² d), nearly.
    cosine = (made.pseudo_labels[:, :40] * vectors[:, :40]).sum(1) * 2
    assert float(cosine.mean()) == pytest.approx(1 / (1 + 0.04 * 40) ** 0.5, rel=0.03)
    loud = privatise(file, clip=0.5, noise=30.0, seed=1)
    assert float(loud.counts.double().std()) == pytest.approx(30.0, rel=0.1)
    assert int(privatise(file, clip=0.5, noise=2000.0, seed=1).counts.min()) == 5


def test_a_noisy_file_tells_nothing_exact(condensed: plgc.CondensedGraph, tmp_path: Path) -> None:
    made = privatise(condensed, clip=0.3, noise=0.1, seed=3)
    assert made.curves == {}
    assert made.chosen == {"branches": condensed.chosen["branches"]}
    assert made.fingerprint is None
    assert made.source == {"nodes": int(made.counts.sum()), "features": 60}
    assert made.settings == {**condensed.settings, "clip": 0.3, "noise": 0.1}
    assert not any("epsilon" in key for key in made.settings)
    opened = plgc.CondensedGraph.load(made.save(tmp_path / "noisy.safetensors"))
    assert torch.equal(opened.features, made.features)
    assert plgc.reconstruct(opened).losses[-1] < 1.0


def test_the_noise_does_not_follow_from_the_files_seed(condensed: plgc.CondensedGraph) -> None:
    first, second = (privatise(condensed, clip=0.3, noise=0.1) for _ in range(2))
    assert not torch.equal(first.features, second.features)
    assert not torch.equal(first.features, privatise(condensed, clip=0.3, noise=0.1, seed=condensed.seed).features)
    again = [privatise(condensed, clip=0.3, noise=0.1, seed=4).to_bytes() for _ in range(2)]
    assert again[0] == again[1]


@pytest.mark.parametrize(
    ("clip", "noise", "message"),
    [
        (None, 0.5, "noise is 0.5, but clip is not given"),
        (None, 0.0, "clip is not given"),
        (0.0, 0.5, "clip is 0.0"),
        (float("nan"), 0.5, "clip is nan"),
        (1.0, -0.1, "noise is -0.1"),
        (1.0, float("inf"), "noise is inf"),
    ],
)
def test_bad_noise_is_refused(condensed: plgc.CondensedGraph, clip: float | None, noise: float, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        privatise(condensed, clip=clip, noise=noise)


def test_files_with_class_labels_are_not_made_noisy(condensed: plgc.CondensedGraph) -> None:
    labelled = replace(condensed, pseudo_labels=None, method="random")
    with pytest.raises(ArtifactError, match="random"):
        privatise(labelled, clip=1.0, noise=0.1)


@pytest.mark.parametrize(
    ("settings", "members", "words"),
    [
        ({}, "exposed", "tells who was in the graph"),
        ({"min_cluster": 5}, "exposed", "1.000 on Cora, .998 on Citeseer"),
        ({"clip": 1.0, "noise": 0.0}, "exposed", "tells who was in the graph"),  # a scale hides nothing
        ({"min_cluster": 5, "max_share": 0.2}, "exposed", ".906 on Photo"),
        ({"max_share": 0.2}, "unmeasured", "not measured"),
        ({"min_cluster": 5, "max_share": 0.5}, "unmeasured", "take it that the file tells"),
        ({"preset": "paper"}, "exposed", ".990 on Cora"),
        ({"private": True, "min_cluster": 5}, "reduced", "sums over many nodes, with noise"),
        ({"preset": "paper", "min_cluster": 5}, "unmeasured", "not measured"),
        ({"clip": 1.0, "noise": 0.1}, "unmeasured", "how much noise hides depends on the graph"),
    ],
)
def test_what_is_known_of_members_is_told(
    condensed: plgc.CondensedGraph, settings: dict[str, object], members: str, words: str
) -> None:
    plain = {"preset": "default", "min_cluster": 1, "max_share": 1.0}
    told = told_of_members(replace(condensed, settings={**condensed.settings, **plain, **settings}))
    assert told["members"] == members
    assert (told["auc"] is None) == (members == "unmeasured")
    assert words in told["text"]


def test_nothing_is_known_of_members_in_rivals_files(condensed: plgc.CondensedGraph) -> None:
    assert told_of_members(replace(condensed, method="herding"))["members"] == "unmeasured"


def test_the_fingerprint_can_be_left_out(graph: Data, condensed: plgc.CondensedGraph) -> None:
    assert condensed.fingerprint is not None
    assert plgc.condense(graph, nodes=4, settings=QUICK, fingerprint=False).fingerprint is None
