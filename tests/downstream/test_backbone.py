from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.downstream.backbone import BackboneSettings, propagated_features, reconstruct, unit_parts
from plgc.method.encoder import KINDS
from plgc.method.prototypes import unit_blocks
from plgc.method.settings import Branch, CondenseSettings, PseudoLabelSettings, Rung
from plgc.runtime.errors import GraphError, SettingError
from plgc.sparse.inputs import prepare

QUICK = CondenseSettings(
    ladder=(Rung((Branch(hidden=32, width=24), Branch(hidden=32, width=16))),),
    pseudo_labels=PseudoLabelSettings(max_rounds=2, round_epochs=5),
)


@pytest.fixture(scope="module")
def condensed(demo_graph: Data) -> plgc.CondensedGraph:
    return plgc.condense(demo_graph, nodes=16, settings=QUICK)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_learns_the_pseudo_labels(condensed: plgc.CondensedGraph, demo_graph: Data, kind: str) -> None:
    backbone = reconstruct(condensed, kind=kind, settings=BackboneSettings(kind=kind, hidden=64))
    assert backbone.losses[-1] < 0.5 * backbone.losses[0]
    learned = backbone.embed_condensed(condensed)[:, :40]
    assert float((learned - condensed.pseudo_labels).pow(2).sum(1).mean()) < backbone.losses[0]
    embedding = backbone.embed(demo_graph)
    assert embedding.shape == (600, 40 + 200)
    assert torch.isfinite(embedding).all()


def test_a_rebuilt_backbone_is_frozen_and_repeatable(condensed: plgc.CondensedGraph, demo_graph: Data) -> None:
    first, second, other = (reconstruct(condensed, seed=seed) for seed in (0, 0, 1))
    assert not any(parameter.requires_grad for parameter in first.parameters())
    assert torch.equal(first.embed(demo_graph), second.embed(demo_graph))
    assert not torch.allclose(first.embed(demo_graph), other.embed(demo_graph))


def test_the_skip_path_is_the_propagated_input(condensed: plgc.CondensedGraph, demo_graph: Data) -> None:
    backbone = reconstruct(condensed)
    inputs = prepare(demo_graph, condensed.scaling)
    assert torch.equal(backbone.embed(demo_graph)[:, 40:], propagated_features(inputs))
    without = reconstruct(condensed, settings=BackboneSettings(skip=False))
    assert without.embed(demo_graph).shape == (600, 40)
    assert without.parts == (40,)


def test_the_paper_preset_has_no_skip_path(demo_graph: Data) -> None:
    settings = CondenseSettings(preset="paper", ladder=QUICK.ladder, pseudo_labels=QUICK.pseudo_labels)
    assert reconstruct(plgc.condense(demo_graph, nodes=8, settings=settings)).parts == (40,)


def test_sources_share_the_trunk_and_have_a_head_each(demo_graph: Data) -> None:
    sources = [plgc.condense(demo_graph, nodes=k, seed=s, settings=QUICK) for s, k in ((0, 8), (1, 12))]
    backbone = reconstruct(sources)
    assert backbone.blocks == (24, 16, 24, 16)
    output = backbone.gnn(sources[1].features, None)[:, 40:]
    distance = (unit_blocks(output, (24, 16)) - sources[1].pseudo_labels).pow(2).sum(1).mean()
    assert float(distance) < 0.2 * backbone.losses[0]


def test_sources_with_other_features_are_refused_by_name(condensed: plgc.CondensedGraph) -> None:
    generator = torch.Generator().manual_seed(0)
    graph = Data(x=torch.rand(30, 5, generator=generator), edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]))
    other = plgc.condense(graph, nodes=4, settings=QUICK)
    with pytest.raises(GraphError, match="200 and 5 features"):
        reconstruct([condensed, other])
    with pytest.raises(GraphError, match="200 features per node, the graph has 5"):
        reconstruct(condensed).embed(graph)


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
    scaled = unit_parts(embedding, mean, (2, 3))
    centred = embedding - mean
    expected = torch.cat([centred[:, :2] / centred[:, :2].norm(dim=1, keepdim=True), torch.zeros(9, 0)], 1) / 2**0.5
    assert torch.allclose(scaled[:, :2], expected)
    assert torch.allclose(scaled.norm(dim=1), torch.ones(9))
