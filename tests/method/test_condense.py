from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import plgc
import plgc.evaluation.over_seeds
import plgc.method.settings
from plgc.graphs import unlabelled
from plgc.method import alternate
from plgc.method.condense import resolve_count
from plgc.method.settings import Branch, CondenseSettings, PseudoLabelSettings, SynthesisSettings
from plgc.runtime.errors import GraphError, SettingError
from quick import PLAIN

QUICK = CondenseSettings(
    plain=PLAIN,
    encoders=(Branch(hidden=32, width=32),),
    pseudo_labels=PseudoLabelSettings(rounds=2, round_epochs=3),
)


def relabelled(graph: Data, how: str) -> Data:
    """The same features and edges with other labels and masks."""
    if how == "removed":
        return unlabelled(graph)
    changed = graph.clone()
    generator = torch.Generator().manual_seed(1)
    if how == "shuffled":
        order = torch.randperm(graph.num_nodes, generator=generator)
        changed.y = graph.y[order]
        for mask in ("train_mask", "val_mask", "test_mask"):
            changed[mask] = graph[mask][order]
    else:
        changed.y = torch.zeros_like(graph.y)
        changed.train_mask = torch.ones_like(graph.train_mask)
        changed.val_mask = torch.zeros_like(graph.val_mask)
        changed.test_mask = torch.zeros_like(graph.test_mask)
    return changed


@pytest.mark.parametrize("how", ["removed", "shuffled", "replaced"])
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_labels_and_masks_cannot_reach_the_artifact(demo_graph: Data, how: str, preset: str) -> None:
    settings = CondenseSettings.from_dict(
        {**plgc.method.settings.preset(preset).to_dict(), "pseudo_labels": {"rounds": 3, "round_epochs": 2}}
    )
    original = plgc.condense(demo_graph, nodes=12, seed=3, settings=settings).to_bytes()
    assert plgc.condense(relabelled(demo_graph, how), nodes=12, seed=3, settings=settings).to_bytes() == original


def test_one_seed_and_thread_count_give_one_file(demo_graph: Data) -> None:
    runs = [plgc.condense(demo_graph, nodes=12, seed=5, settings=QUICK, threads=2) for _ in range(2)]
    assert runs[0].to_bytes() == runs[1].to_bytes()
    assert runs[0].threads == 2
    other = plgc.condense(demo_graph, nodes=12, seed=6, settings=QUICK, threads=2)
    assert not torch.equal(other.features, runs[0].features)


def test_global_random_state_is_neither_read_nor_changed(demo_graph: Data) -> None:
    torch.manual_seed(0)
    first = plgc.condense(demo_graph, nodes=8, settings=QUICK).to_bytes()
    state = torch.get_rng_state()
    torch.manual_seed(99)
    assert plgc.condense(demo_graph, nodes=8, settings=QUICK).to_bytes() == first
    torch.manual_seed(0)
    plgc.condense(demo_graph, nodes=8, settings=QUICK)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_artifact_says_what_it_holds(demo_graph: Data) -> None:
    condensed = plgc.condense(demo_graph, ratio=0.02, settings=QUICK)
    assert condensed.num_nodes == condensed.nodes_requested == round(0.02 * 600)
    assert condensed.features.shape == (12, 200)
    assert condensed.pseudo_labels.shape == (12, 32 + 12)
    assert int(condensed.counts.sum()) == 600
    assert condensed.source == {"nodes": 600, "edges": demo_graph.edge_index.shape[1], "features": 200}
    norms = condensed.pseudo_labels.norm(dim=1)
    assert torch.allclose(norms, torch.ones(12), atol=1e-2)  # rounded to five bits
    assert len(condensed.curves["pseudo_label_loss"]) == 3 * len(condensed.curves["explained"])


def test_sparse_and_dense_features_give_the_same_condensed_graph(demo_graph: Data) -> None:
    dense = demo_graph.clone()
    dense.x = demo_graph.x.to_dense()
    from_sparse = plgc.condense(demo_graph, nodes=10, settings=QUICK, dtype="float32")
    from_dense = plgc.condense(dense, nodes=10, settings=QUICK, dtype="float32")
    assert torch.allclose(from_sparse.features, from_dense.features, atol=1e-4)
    assert torch.allclose(from_sparse.pseudo_labels, from_dense.pseudo_labels, atol=1e-3)


@pytest.mark.parametrize("start", ["means", "nodes"])
@pytest.mark.parametrize("every_round", [True, False])
def test_alternation_carries_features_over(
    demo_graph: Data, start: str, every_round: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, made, real = list[Tensor | None](), list[Tensor](), alternate.synthesise

    def watched(features: Tensor | None, *rest: Any) -> tuple[Tensor, list[float]]:
        given.append(features)
        features, losses = real(features, *rest)
        made.append(features)
        return features, losses

    monkeypatch.setattr(alternate, "synthesise", watched)
    synthesis = SynthesisSettings(start=start, steps=4, learning_rate=0.05, every_round=every_round)
    rules = PseudoLabelSettings(rounds=3, round_epochs=2)
    settings = replace(QUICK, synthesis=synthesis, pseudo_labels=rules)
    condensed = plgc.condense(demo_graph, nodes=8, settings=settings, dtype="float32")
    assert given[0] is None
    assert len(made) == (3 if every_round else 1)
    for before, taken in zip(made, given[1:], strict=False):
        assert taken is before
    assert torch.equal(condensed.features, made[-1])
    losses = condensed.curves["synthesis_loss"]
    assert len(losses) == 4 * len(made)
    assert losses[3] < losses[0]


def test_without_balance_clusters_have_unequal_sizes(demo_graph: Data) -> None:
    rules = replace(QUICK.pseudo_labels, rounds=3)
    shares = []
    for balanced in (True, False):
        settings = replace(QUICK, pseudo_labels=replace(rules, balanced=balanced))
        condensed = plgc.condense(demo_graph, nodes=12, settings=settings)
        assert int(condensed.counts.sum()) == 600
        shares.append(float(condensed.counts.double().std() / condensed.counts.double().mean()))
    assert shares[1] > 1.2 * shares[0]


def test_without_swap_the_encoders_do_not_depend_on_the_number_of_nodes(demo_graph: Data) -> None:
    def losses(nodes: int, swap: float) -> list[float]:
        settings = replace(QUICK, pseudo_labels=replace(QUICK.pseudo_labels, swap=swap))
        return plgc.condense(demo_graph, nodes=nodes, settings=settings).curves["pseudo_label_loss"]

    assert losses(8, swap=0.0) == losses(20, swap=0.0)
    assert losses(8, swap=1.0) != losses(20, swap=1.0)


def test_progress_is_reported(demo_graph: Data) -> None:
    seen: list[tuple[str, int, int]] = []
    made = plgc.condense(demo_graph, nodes=8, settings=QUICK, progress=lambda *event: seen.append(event))
    epochs = len(made.curves["pseudo_label_loss"])
    assert [done for _, done, _ in seen] == [*range(1, epochs + 1), epochs]  # every epoch, and stage II
    assert {total for *_, total in seen} == {epochs}
    assert seen[0][0] == f"stage I, round 1 of {QUICK.pseudo_labels.rounds}"
    assert "pseudo-labels explain" in seen[-2][0]
    assert seen[-1][0].startswith("stage II")


@pytest.mark.parametrize(
    ("ratio", "nodes", "message"),
    [
        (None, None, "neither"),
        (0.1, 10, "both"),
        (0.0, None, "ratio is 0.0"),
        (1.5, None, "ratio is 1.5"),
        (float("nan"), None, "ratio is nan"),
        (0.001, None, "at least 2"),
        (None, 1, "nodes is 1"),
        (None, -3, "nodes is -3"),
        (None, 101, "only 100"),
    ],
)
def test_impossible_sizes_are_refused(ratio: float | None, nodes: int | None, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        resolve_count(100, ratio, nodes)


def test_ratio_is_rounded_to_nodes() -> None:
    assert resolve_count(2708, 0.026, None) == 70
    assert resolve_count(10, 1.0, None) == 10


def test_graphs_that_cannot_be_condensed_are_refused(demo_graph: Data) -> None:
    without_edges = Data(x=torch.rand(5, 3), edge_index=torch.empty(2, 0, dtype=torch.long))
    with pytest.raises(GraphError, match="edge"):
        plgc.condense(without_edges, nodes=2)
    constant = Data(x=torch.ones(4, 3), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
    with pytest.raises(GraphError, match=r"constant|identical|same"):
        plgc.condense(constant, nodes=2)


def test_isolated_nodes_and_tiny_graphs_are_condensed() -> None:
    generator = torch.Generator().manual_seed(0)
    graph = Data(x=torch.rand(6, 4, generator=generator), edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=6)
    condensed = plgc.condense(graph, nodes=6, settings=QUICK)
    assert torch.isfinite(condensed.features).all()
    assert int(condensed.counts.sum()) == 6


def test_cora_is_no_worse_than_its_controls_with_few_labels(cora: Data) -> None:
    """The controls have the same head, which learns from unlabelled nodes: most of the lead on Cora is the head's."""
    condensed = plgc.condense(cora, nodes=70, seed=0)
    result = plgc.evaluation.over_seeds.evaluate([condensed], cora, shots=3, seeds=5)
    ours = result["accuracy"]["mean"]
    assert ours > max(control["mean"] for control in result["controls"].values()) - 0.5
    assert ours > 74.0
