from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.linalg import orthogonal_procrustes
from torch_geometric.data import Data

import plgc
from plgc.downstream.backbone import BackboneSettings, Outputs, reconstruct
from plgc.downstream.combine import (
    COMBINATIONS,
    of_one_graph,
    procrustes,
    put_together,
    reference_source,
    resolve_combination,
    resolve_weights,
)
from plgc.graphs import citation_graph
from plgc.method.stage_one import unit_blocks
from plgc.runtime.errors import SettingError
from quick import quick

QUICK = quick(16, hidden=16, rounds=1, epochs=2)
FEW = BackboneSettings(hidden=64, steps=20)


@torch.no_grad()
def distance(backbone: plgc.Backbone, source: plgc.CondensedGraph, start: int = 0) -> float:
    """mean_k ‖ỹ_k − z_k‖², written out."""
    own = backbone.networks["edges"](source.features, None)[:, start : start + sum(source.blocks)]
    return float((unit_blocks(own, source.blocks) - source.pseudo_labels).pow(2).sum(1).mean())


def test_the_sum_has_one_output_as_wide_as_the_widest_source(sources: list[plgc.CondensedGraph]) -> None:
    backbone = reconstruct(sources[:2], combine="sum")
    assert backbone.blocks == (24, 16)
    assert reconstruct(sources[1::-1], combine="sum").blocks == (24, 16)
    assert reconstruct(sources[:2], combine="heads").blocks == (24, 16, 20)
    one_step = reconstruct(sources[:2], combine="sum", settings=BackboneSettings(steps=1))
    fresh = plgc.Backbone(BackboneSettings(), sources[0].num_features, Outputs((24, 16)), sources[0].scaling, 0)
    assert one_step.losses[0] == pytest.approx(sum(distance(fresh, source) for source in sources[:2]), rel=1e-5)


def test_the_sum_of_unrelated_sources_is_fitted_worse_than_heads(sources: list[plgc.CondensedGraph]) -> None:
    # The same synthetic nodes with two unrelated targets: a common output can at best reach their mean.
    generator = torch.Generator().manual_seed(0)
    vectors = unit_blocks(torch.randn(8, 40, generator=generator), (24, 16))
    pair = [sources[0], replace(sources[0], pseudo_labels=vectors)]
    contradiction, apart = reconstruct(pair, combine="sum"), reconstruct(pair, combine="heads")
    assert contradiction.losses[-1] > 0.5
    assert apart.losses[-1] < 0.1


def test_one_source_is_the_same_in_every_combination(sources: list[plgc.CondensedGraph], demo_graph: Data) -> None:
    first, *others = (reconstruct(sources[0], combine=name, settings=FEW).embed(demo_graph) for name in COMBINATIONS)
    assert all(torch.equal(first, other) for other in others)
    assert torch.equal(first, reconstruct([sources[0]], weights=[7.0], settings=FEW).embed(demo_graph))


def test_the_paper_preset_is_summed_unless_told_otherwise(sources: list[plgc.CondensedGraph]) -> None:
    paper = [replace(source, settings={"preset": "paper"}) for source in sources]
    assert resolve_combination(paper, None) == "sum"
    assert resolve_combination([*paper, sources[0]], None) == "heads"
    assert resolve_combination(paper, "heads") == "heads"
    assert reconstruct(paper).blocks == (24, 16)
    with pytest.raises(SettingError, match="'mean': choose one of heads, merged, procrustes, shared-seed, sum"):
        reconstruct(sources, combine="mean")


def test_merged_sources_are_rebuilt_from_the_file_that_merging_makes() -> None:
    graphs = [citation_graph(nodes=150, classes=3, features=40, seed=seed) for seed in (0, 1)]
    made = [plgc.condense(graph, nodes=6, seed=place, settings=QUICK) for place, graph in enumerate(graphs)]
    found = reconstruct(made, combine="merged", seed=5, settings=FEW)
    expected = reconstruct(plgc.merge(made, seed=5), seed=5, settings=FEW)
    assert found.blocks == expected.blocks == made[0].blocks
    assert torch.equal(found.embed(graphs[0]), expected.embed(graphs[0]))
    assert sum(reconstruct(made, settings=FEW).blocks) == 2 * sum(found.blocks)
    with pytest.raises(SettingError, match="weights are for other combinations"):
        reconstruct(made, combine="merged", weights=[1.0, 2.0])


def test_parts_of_one_graph_are_merged_but_those_of_the_paper_preset(sources: list[plgc.CondensedGraph]) -> None:
    assert of_one_graph(sources) == "merged"
    assert of_one_graph(sources[:1]) == "heads"
    assert of_one_graph([replace(source, settings={"preset": "paper"}) for source in sources]) == "sum"


def test_a_shared_seed_is_checked(sources: list[plgc.CondensedGraph], demo_graph: Data) -> None:
    alike = [sources[0], sources[2]]
    shared, summed = (
        reconstruct(alike, combine=name, settings=FEW).embed(demo_graph) for name in ("shared-seed", "sum")
    )
    assert torch.equal(shared, summed)
    with pytest.raises(SettingError, match="0 and 1"):
        reconstruct(sources[:2], combine="shared-seed")
    same_seed = [sources[0], replace(sources[1], seed=0)]
    with pytest.raises(SettingError, match=r"\(24, 16\) and \(20,\)"):
        reconstruct(same_seed, combine="shared-seed")
    hidden = [{**branch, "hidden": 33} for branch in sources[2].chosen["branches"]]
    with pytest.raises(SettingError, match="'hidden': 33"):
        reconstruct([sources[0], replace(sources[2], chosen={"branches": hidden})], combine="shared-seed")


@pytest.mark.parametrize("width", [6, 9, 4])
def test_procrustes_is_orthogonal_and_best(width: int) -> None:
    generator = torch.Generator().manual_seed(width)
    vectors = torch.randn(20, 6, generator=generator, dtype=torch.float64)
    outputs = torch.randn(20, width, generator=generator, dtype=torch.float64)
    ours = procrustes(vectors, outputs)
    small = min(6, width)
    product = ours @ ours.t() if width >= 6 else ours.t() @ ours
    assert torch.allclose(product, torch.eye(small, dtype=torch.float64))
    if width == 6:
        expected, _ = orthogonal_procrustes(vectors.numpy(), outputs.numpy())
        assert np.allclose(ours.numpy(), expected)
    agreement = float((vectors @ ours * outputs).sum())
    for _ in range(50):  # no other semi-orthogonal matrix agrees more
        drawn = torch.randn(6, width, generator=generator, dtype=torch.float64)
        left, _, right = torch.linalg.svd(drawn, full_matrices=False)
        assert float((vectors @ left @ right * outputs).sum()) <= agreement


def test_procrustes_undoes_a_rotation(sources: list[plgc.CondensedGraph]) -> None:
    # A source seen through a random rotation: the sum is torn between both, alignment recovers the first.
    first = replace(sources[2], blocks=(40,), channels=())
    generator = torch.Generator().manual_seed(0)
    turn, _ = torch.linalg.qr(torch.randn(40, 40, generator=generator))
    turned = replace(first, features=first.features[:9], counts=first.counts[:9])
    turned = replace(turned, pseudo_labels=first.pseudo_labels[:9] @ turn)
    aligned = reconstruct([turned, first], combine="procrustes")
    torn = reconstruct([turned, first], combine="sum")
    assert distance(aligned, first) < 0.1 < 0.3 < distance(torn, first)
    assert aligned.losses[-1] < 0.2 * torn.losses[-1]


def test_the_reference_is_the_source_with_most_nodes(sources: list[plgc.CondensedGraph], demo_graph: Data) -> None:
    assert reference_source(sources) == 1
    assert reference_source([sources[0], sources[0]]) == 0
    backbone = reconstruct(sources, combine="procrustes")
    assert backbone.blocks == (20,)
    assert backbone.losses[-1] < 0.5 * backbone.losses[0]
    assert reconstruct([sources[0], sources[0], sources[2]], combine="procrustes").blocks == (24, 16)
    assert torch.isfinite(backbone.embed(demo_graph)).all()


def test_weights_shift_the_fit(sources: list[plgc.CondensedGraph]) -> None:
    pair = sources[:2]
    for_first, for_second = (reconstruct(pair, combine="sum", weights=w) for w in ([9.0, 1.0], [1.0, 9.0]))
    assert distance(for_first, pair[0]) < distance(for_second, pair[0])
    assert distance(for_first, pair[1]) > distance(for_second, pair[1])
    assert resolve_weights([1, 3], 2) == [0.5, 1.5]
    assert resolve_weights(None, 2) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "1 weights for 2"),
        ([1.0, 0.0], r"weight is 0\.0"),
        ([1.0, -2.0], r"weight is -2\.0"),
        ([1.0, float("nan")], "weight is nan"),
        ([1.0, float("inf")], "weight is inf"),
    ],
)
def test_bad_weights_are_refused(sources: list[plgc.CondensedGraph], weights: list[float], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        reconstruct(sources[:2], weights=weights)


@pytest.mark.parametrize("combine", ["heads", "procrustes", "sum"])
def test_a_model_of_many_sources_is_saved_and_opened(
    sources: list[plgc.CondensedGraph], demo_graph: Data, tmp_path: Path, combine: str
) -> None:
    model = plgc.finetune(reconstruct(sources, combine=combine, settings=FEW), demo_graph, shots=3)
    opened = plgc.load_model(model.save(tmp_path / "model.safetensors"))
    assert isinstance(opened, plgc.NodeModel)
    assert opened.backbone.blocks == model.backbone.blocks
    assert torch.equal(opened.predict_proba(demo_graph), model.predict_proba(demo_graph))


def test_versions_and_sizes_may_differ(sources: list[plgc.CondensedGraph]) -> None:
    backbone = reconstruct([replace(sources[0], version="0.0.1"), sources[1], sources[2]])
    assert backbone.blocks == (24, 16, 20, 24, 16)
    assert [distance(backbone, s, at) < 0.3 for s, at in zip(sources, (0, 40, 60), strict=True)] == [True] * 3


def labelled(nodes: int, classes: int, *, soft: bool = False, edges: bool = False) -> plgc.CondensedGraph:
    generator = torch.Generator().manual_seed(nodes)
    hard = torch.arange(nodes) % classes
    return plgc.CondensedGraph(
        features=torch.rand(nodes, 5, generator=generator),
        pseudo_labels=None,
        counts=torch.full((nodes,), 2),
        blocks=(),
        scaling="l1",
        seed=0,
        threads=1,
        settings={},
        nodes_requested=nodes,
        method="random",
        labels=torch.nn.functional.one_hot(hard, classes).float() if soft else hard,
        num_classes=classes,
        edge_index=torch.tensor([[0, 1], [1, 0]]) if edges else None,
    )


def test_files_with_labels_are_put_together(tmp_path: Path) -> None:
    parts = [labelled(4, 2, edges=True), labelled(6, 3), labelled(5, 3, edges=True)]
    whole = put_together(parts)
    assert (whole.num_nodes, whole.num_classes, whole.nodes_requested) == (15, 3, 15)
    assert torch.equal(whole.features, torch.cat([part.features for part in parts]))
    assert whole.labels is not None
    assert whole.labels.tolist() == [0, 1, 0, 1, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1]
    assert whole.edge_index is not None
    assert whole.edge_index.tolist() == [[0, 1, 10, 11], [1, 0, 11, 10]]
    assert whole.edge_weight is not None
    assert whole.edge_weight.tolist() == [1.0] * 4
    assert plgc.CondensedGraph.load(whole.save(tmp_path / "whole.safetensors")).num_nodes == 15
    mixed = put_together([labelled(4, 2), labelled(6, 3, soft=True)])
    assert mixed.labels is not None
    assert mixed.labels.argmax(1).tolist() == [0, 1, 0, 1, 0, 1, 2, 0, 1, 2]
    assert mixed.labels.sum(1).tolist() == [1.0] * 10
    assert put_together(parts[:1]) is parts[0]
