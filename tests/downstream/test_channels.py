"""Files of two channels: what is trained, what is in them, and the backbones that are rebuilt from one or several."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.downstream.backbone import BackboneSettings, Outputs, reconstruct
from plgc.downstream.combine import COMBINATIONS
from plgc.graphs.load import load_graph
from plgc.method.stage_one import unit_blocks
from quick import PLAIN, quick

FEW = BackboneSettings(hidden=64, steps=20)


@pytest.fixture(scope="module")
def both(demo_graph: Data) -> list[plgc.CondensedGraph]:
    """Two files of two channels, with encoders of other widths."""
    settings = quick(24, 16, plain=PLAIN), quick(20, plain=replace(PLAIN, width=10))
    return [plgc.condense(demo_graph, nodes=8, seed=seed, settings=how) for seed, how in enumerate(settings)]


def rewired(graph: Data) -> Data:
    """The same nodes with other edges."""
    order = torch.randperm(graph.num_nodes or 0, generator=torch.Generator().manual_seed(0))
    assert graph.edge_index is not None
    other = graph.clone()
    other.edge_index = order[graph.edge_index]
    return load_graph(other)


def parts_of(backbone: plgc.Backbone, graph: Data) -> dict[str, torch.Tensor]:
    columns = backbone.embed(graph).split(list(backbone.parts.values()), dim=1)
    return dict(zip(backbone.parts, columns, strict=True))


def test_every_row_serves_both_channels(both: list[plgc.CondensedGraph]) -> None:
    first = both[0]
    assert (first.blocks, first.channels) == ((24, 16, 12), ("edges", "edges", "plain"))
    assert first.pseudo_labels is not None
    assert first.pseudo_labels.shape == (first.num_nodes, 52)
    assert torch.allclose(first.pseudo_labels.norm(dim=1), torch.ones(first.num_nodes), atol=0.01)
    for channel, blocks in (("edges", (24, 16)), ("plain", (12,))):
        targets = first.targets_of(channel)
        assert targets is not None
        assert first.blocks_of(channel) == blocks
        assert torch.allclose(targets, unit_blocks(targets, blocks), rtol=0.02)


def test_the_features_are_means_of_the_plain_and_of_the_propagated_input(demo_graph: Data) -> None:
    """Rows of bags of words that were scaled to sum to one keep that sum in a mean of X, and lose it over edges."""
    one, two = (plgc.condense(demo_graph, nodes=8, settings=quick(24, plain=plain)) for plain in (None, PLAIN))
    assert one.channels == ("edges",)
    assert not torch.allclose(one.features.sum(1), two.features.sum(1), atol=1e-3)


def test_the_network_without_edges_does_not_see_them(both: list[plgc.CondensedGraph], demo_graph: Data) -> None:
    backbone = reconstruct(both[0], settings=FEW)
    assert list(backbone.parts) == ["learned", "learned_plain", "x", "propagated_1", "propagated_2"]
    one, other = parts_of(backbone, demo_graph), parts_of(backbone, rewired(demo_graph))
    for name in backbone.parts:
        assert torch.allclose(one[name], other[name], atol=1e-6) == (name in ("learned_plain", "x")), name


def test_what_is_learned_is_comparable_to_the_pseudo_labels(both: list[plgc.CondensedGraph]) -> None:
    backbone = reconstruct(both[0], settings=BackboneSettings(skip=False))
    assert both[0].pseudo_labels is not None
    distance = (backbone.embed_condensed(both[0]) - both[0].pseudo_labels).pow(2).sum(1).mean()
    assert float(distance) < 0.1


@pytest.mark.parametrize("combine", COMBINATIONS)
def test_sources_with_and_without_the_plain_channel_are_combined(
    both: list[plgc.CondensedGraph], sources: list[plgc.CondensedGraph], demo_graph: Data, combine: str
) -> None:
    """An owner may have condensed with one channel, another with two: each network is fitted to those that have it."""
    pair = [both[0], replace(both[0], seed=0)] if combine == "shared-seed" else [both[0], both[1]]
    backbone = reconstruct(pair, combine=combine, settings=FEW)
    assert backbone.parts["learned"] == (60 if combine == "heads" else 40)
    assert backbone.parts["learned_plain"] == (22 if combine == "heads" else 12)
    assert torch.isfinite(backbone.embed(demo_graph)).all()
    if combine != "shared-seed":
        mixed = reconstruct([sources[0], both[0]], combine=combine, settings=FEW)
        if combine == "merged":  # which keeps the channels that all files have
            assert mixed.outputs == Outputs((24, 16), ())
            return
        assert mixed.outputs == Outputs((24, 16, 24, 16) if combine == "heads" else (24, 16), (12,))
        alone = reconstruct([both[0]], combine=combine, settings=FEW)
        one, other = (model.networks["plain"].state_dict() for model in (mixed, alone))
        assert all(torch.allclose(one[name], other[name], atol=1e-6) for name in one)


def test_a_model_of_two_channels_is_opened_again(
    both: list[plgc.CondensedGraph], demo_graph: Data, tmp_path: Path
) -> None:
    model = plgc.finetune(reconstruct(both[0], settings=FEW), demo_graph, shots=3)
    opened = plgc.load_model(model.save(tmp_path / "model.safetensors"))
    assert opened.backbone.outputs == model.backbone.outputs
    assert torch.equal(opened.predict_proba(demo_graph), model.predict_proba(demo_graph))  # pyright: ignore


def test_encoders_that_see_no_edges_give_one_channel(demo_graph: Data) -> None:
    settings = quick(24)
    condensed = plgc.condense(demo_graph, nodes=8, settings=replace(settings, encoders=(replace(PLAIN, width=24),)))
    assert condensed.channels == ("plain",)
    assert list(reconstruct(condensed, settings=FEW).networks) == ["plain"]
