from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.downstream.backbone import BackboneSettings, propagated_features, reconstruct
from plgc.downstream.embedder import unit_parts
from plgc.method.encoder import KINDS
from plgc.method.stage_one import unit_blocks
from plgc.runtime.errors import ArtifactError, GraphError, SettingError
from plgc.sparse.inputs import prepare


@pytest.fixture(scope="module")
def condensed(sources: list[plgc.CondensedGraph]) -> plgc.CondensedGraph:
    return sources[0]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_learns_the_pseudo_labels(condensed: plgc.CondensedGraph, demo_graph: Data, kind: str) -> None:
    backbone = reconstruct(condensed, kind=kind, settings=BackboneSettings(kind=kind, hidden=64))
    assert backbone.losses[-1] < 0.5 * backbone.losses[0]
    learned = backbone.embed_condensed(condensed)[:, :40]
    assert float((learned - condensed.pseudo_labels).pow(2).sum(1).mean()) < backbone.losses[0]
    embedding = backbone.embed(demo_graph)
    assert embedding.shape == (600, 40 + 3 * 200)
    assert torch.isfinite(embedding).all()


def test_a_rebuilt_backbone_is_frozen_and_repeatable(condensed: plgc.CondensedGraph, demo_graph: Data) -> None:
    first, second, other = (reconstruct(condensed, seed=seed) for seed in (0, 0, 1))
    assert not any(parameter.requires_grad for parameter in first.parameters())
    assert torch.equal(first.embed(demo_graph), second.embed(demo_graph))
    assert not torch.allclose(first.embed(demo_graph), other.embed(demo_graph))


def test_the_input_stands_beside_what_is_learned(condensed: plgc.CondensedGraph, demo_graph: Data) -> None:
    backbone = reconstruct(condensed)
    inputs = prepare(demo_graph, condensed.scaling)
    parts = dict(zip(backbone.parts, backbone.embed(demo_graph).split(list(backbone.parts.values()), 1), strict=True))
    assert list(parts) == ["learned", "x", "propagated_1", "propagated_2"]
    for name, steps in (("x", 0), ("propagated_1", 1), ("propagated_2", 2)):
        assert torch.equal(parts[name], propagated_features(inputs, steps))
    without = reconstruct(condensed, settings=BackboneSettings(skip=False))
    assert without.embed(demo_graph).shape == (600, 40)
    assert without.parts == {"learned": 40}


def test_the_paper_preset_has_no_skip_path(condensed: plgc.CondensedGraph) -> None:
    assert reconstruct(replace(condensed, settings={"preset": "paper"})).parts == {"learned": 40}


def test_sources_share_the_trunk_and_have_a_head_each(sources: list[plgc.CondensedGraph]) -> None:
    first, second = sources[0], replace(sources[2], pseudo_labels=sources[2].pseudo_labels.flip(0))  # pyright: ignore
    backbone = reconstruct([first, second])
    assert backbone.blocks == (24, 16, 24, 16)
    output = backbone.networks["edges"](second.features, None)[:, 40:]
    distance = (unit_blocks(output, (24, 16)) - second.pseudo_labels).pow(2).sum(1).mean()
    assert float(distance) < 0.2 * backbone.losses[0]


def test_other_features_are_refused_by_number(condensed: plgc.CondensedGraph) -> None:
    other = replace(condensed, features=condensed.features[:, :5])
    with pytest.raises(GraphError, match="has 200 features per node, another has 5: only graphs with the same"):
        reconstruct([condensed, other])
    with pytest.raises(GraphError, match="scaling 'l1' and 'l2'"):
        reconstruct([condensed, replace(condensed, scaling="l2")])
    graph = Data(x=torch.rand(30, 5), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
    backbone = reconstruct(condensed, settings=BackboneSettings(steps=1))
    for shown, width in ((graph, 5), (Data(edge_index=graph.edge_index), 0)):
        with pytest.raises(GraphError, match=f"200 features per node, the graph has {width}: use the graph that was"):
            backbone.embed(shown)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(SettingError, match="unknown backbone 'gnn'"):
        BackboneSettings(kind="gnn")
    with pytest.raises(SettingError, match="steps is 0"):
        BackboneSettings(steps=0)
    with pytest.raises(SettingError, match="at least one"):
        reconstruct([])


def test_unit_parts_centre_and_scale_each_part() -> None:
    generator = torch.Generator().manual_seed(0)
    embedding = torch.rand(9, 5, generator=generator)
    mean = embedding.mean(0)
    scaled = unit_parts(embedding, mean, {"learned": 2, "x": 3})
    centred = embedding - mean
    expected = torch.cat([centred[:, :2] / centred[:, :2].norm(dim=1, keepdim=True), torch.zeros(9, 0)], 1) / 2**0.5
    assert torch.allclose(scaled[:, :2], expected)
    assert torch.allclose(scaled.norm(dim=1), torch.ones(9))


def test_values_out_of_range_are_refused_by_name(condensed: plgc.CondensedGraph, demo_graph: Data) -> None:
    wild = replace(condensed, features=torch.full_like(condensed.features, 3e38))
    with pytest.raises(ArtifactError, match="gives NaN or infinite values: its features are out of range"):
        reconstruct(wild).embed(demo_graph)
