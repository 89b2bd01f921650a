from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from plgc.downstream.backbone import propagated_features
from plgc.method.settings import Branch, PseudoLabelSettings, SynthesisSettings
from plgc.method.stage_one import PseudoLabels, StageOne, embed, read_pseudo_labels, start_stage_one, train_epoch
from plgc.method.stage_two import refine_features, start_features
from plgc.sparse.inputs import Inputs, prepare

Trained = tuple[Inputs, StageOne, PseudoLabels]


@pytest.fixture(scope="module")
def trained(demo_graph: Data) -> Trained:
    inputs = prepare(demo_graph, "l1")
    stage = start_stage_one(inputs, 10, (Branch(hidden=32, width=32),), PseudoLabelSettings(), seed=0)
    for _ in range(10):
        train_epoch(stage, inputs)
    return inputs, stage, read_pseudo_labels(embed(stage, inputs), stage.prototypes, stage.blocks, stage.settings)


def test_means_are_taken_over_twice_propagated_features(trained: Trained, demo_graph: Data) -> None:
    inputs, stage, labels = trained
    dense = torch.zeros(600, 600)
    dense[demo_graph.edge_index[0], demo_graph.edge_index[1]] = 1.0
    dense += torch.eye(600)
    scale = dense.sum(1).rsqrt()
    propagation = scale[:, None] * dense * scale
    features = demo_graph.x.to_dense()
    features = features / features.sum(1, keepdim=True).clamp(min=1e-12)
    expected = labels.weights.t() @ propagation @ propagation @ features
    ours = start_features(inputs, labels, SynthesisSettings(), stage)
    assert torch.allclose(ours, expected, atol=1e-6)


def test_two_channels_have_half_of_the_plain_and_half_of_the_propagated_features(trained: Trained) -> None:
    inputs, stage, labels = trained
    plain, edges = (labels.weights.t() @ propagated_features(inputs, steps) for steps in (0, 2))
    branch = replace(stage.branches[0], kind="mlp")
    for branches, expected in (((*stage.branches, branch), (plain + edges) / 2), ((branch,), plain)):
        ours = start_features(inputs, labels, SynthesisSettings(), replace(stage, branches=branches))
        assert torch.allclose(ours, expected, atol=1e-6)


def test_random_nodes_are_rows_of_the_graph(trained: Trained, demo_graph: Data) -> None:
    inputs, stage, labels = trained
    rows = start_features(inputs, labels, SynthesisSettings(start="nodes"), stage)
    assert inputs.x.shape == (600, 200)
    distance = torch.cdist(rows, inputs.x.to_dense(), compute_mode="donot_use_mm_for_euclid_dist").min(dim=1).values
    assert float(distance.max()) < 1e-5


def test_refinement_brings_embeddings_closer_to_pseudo_labels_and_stays_gentle(trained: Trained) -> None:
    inputs, stage, labels = trained
    start = start_features(inputs, labels, SynthesisSettings(), stage)
    settings = SynthesisSettings(steps=20, learning_rate=0.01)
    refined, losses = refine_features(start, stage, inputs, labels, settings)
    assert losses[-1] < losses[0]
    assert float((refined - start).norm() / start.norm()) < 20 * 0.01 * 1.5
    assert not refined.requires_grad


def test_no_steps_leave_the_features_alone(trained: Trained) -> None:
    inputs, stage, labels = trained
    start = start_features(inputs, labels, SynthesisSettings(), stage)
    refined, losses = refine_features(start, stage, inputs, labels, SynthesisSettings(steps=0))
    assert refined is start
    assert losses == []
